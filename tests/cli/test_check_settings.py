"""`apfproxy check --settings FILE`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from apfproxy.cli.main import main
from loadtest.certificates import Authority

GOOD = """
upstream: {url: "https://127.0.0.1:9", tls: {caFile: ca.crt}}
downstream:
  tls:
    certificateFile: a.crt
    keyFile: a.key
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with certificates."""
    monkeypatch.chdir(tmp_path)
    authority = Authority("x")
    for name in "ab":
        authority.issue(name, usage="server").write(tmp_path, name)
    (tmp_path / "ca.crt").write_bytes(authority.pem)
    return tmp_path


def check(text: str, *more: str) -> int:
    """Check a file with this text."""
    Path("f.yaml").write_text(text)
    return main(["check", "--settings", "f.yaml", *more])


def test_ok(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    """A file that a proxy can start with; nothing is made."""
    text = GOOD + "flowControl: {store: a.db}\naccessLog: {path: log}\n"
    before = {*folder.iterdir(), folder / "f.yaml"}

    assert 0 == check(text)
    assert "f.yaml: ok\n" == capsys.readouterr().out
    assert before == {*folder.iterdir()}


@pytest.mark.parametrize(
    ("text", "code", "problems"),
    [
        pytest.param(
            "logLevel: loud\n\nadmn: x\n",
            2,
            ["f.yaml:1: logLevel: expected one of", "f.yaml:3: admn: unknown key"],
            id="wrong",
        ),
        pytest.param("a: [", 2, ["f.yaml:1: not YAML"], id="no-yaml"),
        pytest.param("logLevel: info\n", 2, ["f.yaml: upstream.url: say where"], id="no-url"),
        pytest.param(
            "upstream:\n  identity: impersonate\n",
            2,
            ["f.yaml:1: upstream.url: say", "f.yaml:2: upstream.identity: impersonate needs"],
            id="contradiction",
        ),
        pytest.param(
            "upstream: {url: 'http://a'}\nflowControl:\n  store: a.db\n  objects: [b]\n",
            2,
            ["f.yaml:3: give either flowControl.store"],
            id="two-sources",
        ),
        pytest.param(
            GOOD.replace("a.key", "b.key"),
            1,
            ["f.yaml:6: downstream.tls.keyFile: b.key: is not the key of"],
            id="another-key",
        ),
        pytest.param(
            GOOD + "authentication:\n  tokenFile: no.csv\n  jwt:\n  - issuer: https://a\n"
            "    audiences: [b]\n    keysFile: f.yaml\n",
            1,
            [
                "f.yaml:8: authentication.tokenFile: no.csv: cannot be read: No such file",
                "f.yaml:10: authentication.jwt[0]: f.yaml: no usable key",
            ],
            id="several-files",
        ),
        pytest.param(
            GOOD + "flowControl:\n  objects: [broken.yaml]\n",
            1,
            ['broken.yaml:1: FlowSchema "a": apiVersion: Unsupported value'],
            id="objects",
        ),
        pytest.param(
            GOOD + "authentication:\n  tokenFile: no.csv\n  apiKeys: {file: no.csv}\n",
            1,
            ["f.yaml:9: authentication.apiKeys.file: no.csv: cannot be read: No such file"],
            id="one-file-twice",
        ),
        pytest.param(
            GOOD + "accessLog: {path: /nowhere/log}\n",
            1,
            ["f.yaml:7: accessLog.path: /nowhere/log: its directory does not exist"],
            id="log",
        ),
    ],
)
def test_problems(
    text: str, code: int, problems: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Each has its line and its setting; the exit code is that of the start."""
    Path("broken.yaml").write_text("kind: FlowSchema\nmetadata: {name: a}\n")

    assert code == check(text)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(problems)
    for line, problem in zip(lines, problems, strict=True):
        assert line.startswith(problem)
        assert line.endswith(" (error)")


@pytest.mark.parametrize(("fail_on", "code"), [("error", 0), ("warning", 1)])
def test_warnings(fail_on: str, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    """What is probably meant otherwise is said, and fails if it is to."""
    text = GOOD + "authentication: {tokenReview: {enabled: true}}\n"

    assert code == check(text, "--fail-on", fail_on)
    warning, ok = capsys.readouterr().out.splitlines()
    assert warning.startswith("f.yaml:7: authentication.tokenReview without upstream.tokenFile")
    assert warning.endswith(" (warning)")
    assert ok == "f.yaml: ok"


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    """The same for programs."""
    assert 2 == check("admn: x\n", "-o", "json")
    shown = json.loads(capsys.readouterr().out)
    assert (shown["file"], shown["warnings"]) == ("f.yaml", [])
    assert shown["problems"][0].startswith("f.yaml:1: admn: unknown key")


def test_settings_in_place_of_objects(capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever gives them as objects is told how to check them; something else is not taken so."""
    Path("f.yaml").write_text(GOOD)

    assert 2 == main(["check", "f.yaml"])
    assert "try apfproxy check --settings f.yaml" in capsys.readouterr().err
    for text in ("a: 1\n", "[1]\n", "downstream: {}\n---\nb: 1\n", "- [", "kind: x\n"):
        Path("f.yaml").write_text(text)
        assert 1 == main(["check", "f.yaml"])


def test_both(capsys: pytest.CaptureFixture[str]) -> None:
    """One at a time."""
    assert 2 == check(GOOD, "f.yaml")
    assert "either --settings FILE or PATH" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "warns"),
    [
        pytest.param("", True, id="nobody-is-known"),
        pytest.param("preset: http\n", False, id="plain"),
        pytest.param("authentication: {tokenFile: t.csv}\n", False, id="known"),
        pytest.param("flowControl: {suggestedObjects: false}\n", False, id="without"),
    ],
)
def test_seats_for_nobody(
    more: str, folder: Path, capsys: pytest.CaptureFixture[str], *, warns: bool
) -> None:
    """Levels of Kubernetes' own clients keep seats from all others where nobody is known."""
    (folder / "t.csv").write_text("secret,alice,1\n")
    assert 0 == check("upstream: {url: 'http://127.0.0.1:9'}\n" + more)

    out = capsys.readouterr().out
    assert warns == ("seats, and no request can come there" in out)
    assert warns == ("flowControl.serverConcurrencyLimit: leader-election, node-high" in out)
