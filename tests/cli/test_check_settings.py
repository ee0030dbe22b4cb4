"""`apfproxy check --settings FILE`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from apfproxy.cli.main import main
from apfproxy.settings import Settings
from apfproxy.settings.contradictions import one_flow
from loadtest.certificates import Authority

GOOD = """preset: http
upstream: {url: "https://127.0.0.1:9", tls: {caFile: ca.crt}}
downstream:
  tls:
    certificateFile: a.crt
    keyFile: a.key
"""


HTTP2 = "{enabled: false, cleartext: true}"


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
        (
            "logLevel: loud\n\nadmn: x\n",
            2,
            ["f.yaml:1: logLevel: expected one of", "f.yaml:3: admn: unknown key"],
        ),
        ("a: [", 2, ["f.yaml:1: not YAML"]),
        ("logLevel: info\n", 2, ["f.yaml: upstream.url: say where"]),
        (
            "upstream:\n  identity: impersonate\n",
            2,
            ["f.yaml:1: upstream.url: say", "f.yaml:2: upstream.identity impersonate needs"],
        ),
        (
            GOOD.replace("a.key", "b.key"),
            1,
            ["f.yaml:6: downstream.tls.keyFile: b.key: is not the key of"],
        ),
        (
            GOOD + "authentication:\n  tokenFile: no.csv\n  jwt:\n  - issuer: https://a\n"
            "    audiences: [b]\n    keysFile: f.yaml\n",
            1,
            [
                "f.yaml:8: authentication.tokenFile: no.csv: cannot be read: No such file",
                "f.yaml:10: authentication.jwt[0]: f.yaml: no usable key",
            ],
        ),
        (
            GOOD + "flowControl:\n  objects: [broken.yaml]\n",
            1,
            ['broken.yaml:1: FlowSchema "a": apiVersion: Unsupported value'],
        ),
        (
            GOOD + "authentication:\n  tokenFile: no.csv\n  apiKeys: {file: no.csv}\n",
            1,
            ["f.yaml:9: authentication.apiKeys.file: no.csv: cannot be read: No such file"],
        ),
        (
            GOOD + "accessLog: {path: /nowhere/log}\n",
            1,
            ["f.yaml:7: accessLog.path: /nowhere/log: its directory does not exist"],
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


def test_clients_that_are_all_one(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing tells clients of the preset kubernetes apart unless a setting does."""
    assert 0 == check(GOOD.replace("preset: http", "preset: kubernetes"))
    assert f"f.yaml:1: {one_flow(Settings())} (warning)" in capsys.readouterr().out.splitlines()
    assert 0 == check(GOOD)
    assert "f.yaml: ok\n" == capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        (
            GOOD.replace("downstream:\n", f"downstream:\n  http2: {HTTP2}\n"),
            "f.yaml:4: downstream.http2.cleartext has no effect",
        ),
        (
            GOOD + "tracing:\n  samplingRatePerMillion: 100\n",
            "f.yaml:8: tracing.samplingRatePerMillion has no effect",
        ),
    ],
    ids=["http2-that-is-off", "tracing-without-a-collector"],
)
def test_without_effect(text: str, warning: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What has no effect is said, with its line."""
    assert 0 == check(text)
    assert capsys.readouterr().out.startswith(warning)


@pytest.mark.parametrize(
    ("workers", "count"), [pytest.param("3", 1, id="counted"), pytest.param("auto", 0, id="auto")]
)
def test_fewer_seats_than_workers(
    workers: str, count: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is said with its line; how many `auto` is, no file tells."""
    limit = "flowControl: {serverConcurrencyLimit: 2, suggestedObjects: false}\n"

    assert 0 == check(f"{GOOD}workers: {workers}\n{limit}")
    *warnings, _ = capsys.readouterr().out.splitlines()
    begin = "f.yaml:8: flowControl.serverConcurrencyLimit: 2 seats for 3 workers: "
    assert [begin] * count == [each[: len(begin)] for each in warnings]


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


BY_PREFIX = """
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata: {name: clusters, annotations: {apfproxy.io/distinguisher: path-prefix}}
spec: {priorityLevelConfiguration: {name: exempt}, matchingPrecedence: 100}
"""


@pytest.mark.parametrize("prefixes", ["", "request: {pathPrefixes: ['/clusters/{a}']}\n"])
def test_flows_of_no_prefix(
    prefixes: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What tells no flows apart is warned of."""
    (folder / "objects.yaml").write_text(BY_PREFIX)
    text = "upstream: {url: 'http://127.0.0.1:9'}\nflowControl: {objects: [objects.yaml]}\n"
    assert 0 == check(text + prefixes)

    warning = (
        "request.pathPrefixes: is empty, but apfproxy.io/distinguisher of clusters is path-prefix:"
        " all their requests are one flow (warning)"
    )
    assert (not prefixes) == (warning in capsys.readouterr().out)


CLUSTERS = """
upstream: {url: http://all}
preset: http
clusters:
- name: good
  hosts: [good]
- name: a
  hosts: [a]
"""


@pytest.mark.parametrize(
    ("text", "code", "problems"),
    [
        ("  upstream: {urll: x}\n", 2, ["f.yaml:9: clusters[a].upstream.urll: unknown"]),
        (
            "  upstream:\n    tls: {caFile: ca.crt}\n",
            2,
            ["f.yaml:10: clusters[a].upstream.tls: http://all:80 is without TLS"],
        ),
        (
            "  authentication:\n    tokenFile: no.csv\n",
            1,
            ["f.yaml:10: clusters[a].authentication.tokenFile: no.csv: cannot be read"],
        ),
        (
            "  authentication:\n    tokenFile: no.csv\n- name: b\n  hosts: [a]\n",
            2,
            [
                "f.yaml:11: clusters[b]: the host a is of the cluster a already",
                "f.yaml:10: clusters[a].authentication.tokenFile: no.csv: cannot be read",
            ],
        ),
        (
            "authentication: {tokenFile: no.csv}\n",
            1,
            ["f.yaml:9: authentication.tokenFile: no.csv: cannot be read"],
        ),
    ],
    ids=["key", "contradiction", "file", "several", "of-all"],
)
def test_clusters_that_cannot_be_used(
    text: str, code: int, problems: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Each is shown once, with its cluster; the check fails, though a proxy would start."""
    found = check(CLUSTERS + text), capsys.readouterr().out.splitlines()

    assert (code, len(problems)) == (found[0], len(found[1]))
    for expected, line in zip(problems, found[1], strict=True):
        assert line.startswith(expected)
        assert line.endswith("(error)")


def test_warnings_of_clusters(capsys: pytest.CaptureFixture[str]) -> None:
    """What all of them have is of the top level, and what several have is shown once."""
    text = CLUSTERS + "  authentication: {anonymous: false}\n- name: b\n  hosts: [b]\n"
    text += "  authentication: {anonymous: false}\ndownstream: {trustedProxies: [0.0.0.0/0]}\n"

    assert 0 == check(text)
    out = capsys.readouterr().out
    for expected in (
        "f.yaml:13: downstream.trustedProxies has 0.0.0.0/0: every client can claim any address",
        "every request gets 401 (1 more like it)",
    ):
        assert 1 == out.count(f"{expected} (warning)\n")
    assert "f.yaml:9: clusters[a].authentication.anonymous is false, and no other" in out
    assert 3 == len(out.splitlines())


def test_what_clusters_complete(capsys: pytest.CaptureFixture[str]) -> None:
    """The top level is not wrong because it has a part."""
    text = """
downstream: {tls: {certificateFile: a.crt, keyFile: a.key, requireClientCertificate: true}}
preset: http
clusters:
- name: a
  hosts: [a]
  upstream: {url: http://a}
  authentication: {clientCaFile: ca.crt}
"""

    assert 0 == check(text)
    assert "(error)" not in capsys.readouterr().out
