from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from apfproxy.cli.main import main
from apfproxy.lint.findings import FINDING_KINDS
from tests.support.objects import SCHEMA_YAML, level_yaml

RULES = """  rules:
  - subjects: [{kind: User, user: {name: alice}}]
    nonResourceRules: [{verbs: [get], nonResourceURLs: [/version]}]
"""
DANGLING = SCHEMA_YAML.replace("NAME", "lost").replace("LEVEL", "nowhere") + RULES


VALID = "1 valid object in 1 file, 0 problems, 0 warnings"
LOW = level_yaml("workload-low")
ANNOTATED = LOW.replace("low}", 'low, annotations: {apfproxy.io/ban: "maybe"}}')


@pytest.fixture
def check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[int, list[str]]]:
    """Checks a file of this text with these flags; gives the exit code and the lines."""
    monkeypatch.chdir(tmp_path)

    def run(text: str | bytes, *flags: str) -> tuple[int, list[str]]:
        Path("a.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
        code = main(["check", *flags, "a.yaml"])
        return code, capsys.readouterr().out.splitlines()

    return run


Check = Callable[..., tuple[int, list[str]]]


def test_problems(check: Check) -> None:
    """Each problem has a line with file, object and field."""
    code, (first, second, last) = check(level_yaml("a").replace("7", "-1") + "---\nbroken: [")

    assert 1 == code
    assert first.startswith(
        "a.yaml:4: PriorityLevelConfiguration/a: spec.limited.nominalConcurrencyShares: "
    )
    assert "not YAML: " in second
    assert last == "0 valid objects in 1 file, 2 problems, 0 warnings"


def test_ended(check: Check) -> None:
    """An object that has ended is not in force: the level that it replaced is unused no more."""
    ended = level_yaml("mine").replace("mine}", "mine, annotations: {apfproxy.io/until: DATE}}")
    code, (line, *_) = check(ended.replace("DATE", "2001-01-01T00:00:00Z"))
    _, (later, *_) = check(ended.replace("DATE", "9001-01-01T00:00:00Z"))

    assert 0 == code
    assert "it ended at 2001-01-01T00:00:00Z (warning APF403)" in line
    assert "no FlowSchema uses it" in later


@pytest.mark.parametrize(("flags", "code"), [([], 0), (["--strict"], 1)])
def test_other_kinds(check: Check, flags: list[str], code: int) -> None:
    """Other kinds beside flow control objects are named once, as an error only if asked for."""
    other = "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n"
    text = f"{other}---\n{level_yaml('workload-low')}---\n{other}".encode("utf-16")
    ended, (line, *_, summary) = check(text, *flags)

    severity = "error" if code else "info"
    assert code == ended
    left_out = "a.yaml:1: left out, as it is no object of flow control: Namespace"
    assert f"{left_out} ({severity} APF003)" == line
    assert f"1 valid object in 1 file, {code} problem" in summary


def test_directory_and_its_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in {
        "a.yaml": f"{level_yaml('workload-low')}---\nreplicas: 1\n",
        "b.yaml": level_yaml("broken").replace("7", "-1"),
        "values-2.yaml": "metadata: 1\n",
    }.items():
        (tmp_path / name).write_text(text)

    assert 1 == main(["check", str(tmp_path)])
    of_directory = capsys.readouterr().out.splitlines()
    assert 1 == main(["check", *map(str, sorted(tmp_path.iterdir()))])
    of_files = capsys.readouterr().out.splitlines()
    assert of_directory == of_files
    assert "a.yaml:6: left out, as it is no object of flow control: a document" in of_files[0]
    assert "/b.yaml:4: " in of_files[1]
    assert "values-2.yaml: left out, as it is a file of kustomize or Helm" in of_files[2]


@pytest.mark.parametrize(
    ("text", "flags", "code", "told"),
    [
        (
            LOW.replace("metadata: {", 'metadata: {uid: "u\\r\\nX-Evil: 1", '),
            *("", 1, "metadata.uid: Invalid value"),
        ),
        (
            DANGLING.replace("nowhere", "workload-lo"),
            *("", 1, '"workload-lo"; did you mean "workload-low"? (error APF101)'),
        ),
        (DANGLING.replace("nowhere", "workload-low"), "--suggested-objects", 0, VALID),
        (
            DANGLING.replace("nowhere", "workload-low"),
            *("--no-suggested-objects", 1, "(error APF101)"),
        ),
        (
            *(LOW, "--server-concurrency-limit 10"),
            *(0, "(built in): PriorityLevelConfiguration/leader-election: "),
        ),
        (
            *("apiVersion: v1\nkind: Pod\n", "--fail-on warning"),
            *(1, "a.yaml: there is no object in it (warning APF002)"),
        ),
        (ANNOTATED, "", 1, "(error APF401)"),
        (ANNOTATED, "--ignore APF401", 0, f"{VALID}, 1 ignored"),
        (DANGLING, "", 1, "  APF101  Create the PriorityLevelConfiguration, correct it"),
        (DANGLING.replace("[get]", "[get, Post]"), "", 1, "apfproxy.io/match-methods: POST."),
    ],
    ids=[
        *("uid-with-a-header-line", "misspelt-level", "suggested-level", "no-level", "few-seats"),
        *("others", "broken-annotation", "ignored", "dangling", "method-as-verb"),
    ],
)
def test_said(check: Check, text: str, flags: str, code: int, told: str) -> None:
    ended, lines = check(text, *flags.split())

    assert code == ended
    assert told in "\n".join(lines)


def test_no_objects(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each file is expected to have objects, but not all of a directory."""
    (tmp_path / "some").mkdir()
    (tmp_path / "some" / "a.yaml").write_text(level_yaml("workload-low"))
    (tmp_path / "some" / "empty.yaml").touch()
    (tmp_path / "none.yaml").write_text("# later")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
    monkeypatch.chdir(tmp_path)

    assert main(["check", "some/", "none.yaml", "-", "-"]) == 0
    *lines, summary = capsys.readouterr().out.splitlines()
    assert lines == [
        f"{path}: there is no object in it (warning APF002)" for path in ("none.yaml", "<stdin>")
    ]
    assert summary == "1 valid object in 4 files, 0 problems, 2 warnings"


def test_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(level_yaml("a").replace("Reject", "Drop") + "---\n" + DANGLING)

    assert main(["check", "-o", "json", str(path), str(tmp_path / "x")]) == 1
    report = json.loads(capsys.readouterr().out)
    members = "id", "severity", "file", "line", "kind", "name", "field"
    missing, broken, lost = ([each[name] for name in members] for each in report["problems"])
    kind, field = "PriorityLevelConfiguration", "spec.limited.limitResponse.type"
    assert (report["valid"], report["files"], report["objects"]) == (False, 1, 1)
    assert ["APF001", "error", str(tmp_path / "x"), None, None, None, None] == missing
    assert ["APF001", "error", str(path), 4, kind, "a", field] == broken
    assert ["APF101", "lost", 11] == [lost[0], lost[5], lost[3]]
    assert report["warnings"] == []


@pytest.mark.parametrize(
    ("flags", "code"),
    [
        ("", 0),
        ("--fail-on error", 0),
        ("--fail-on warning", 1),
        ("--fail-on info", 1),
        ("--fail-on warning --ignore apf204", 0),
        ("--ignore APF302", 0),  # is given up
        ("--ignore APF204 --fail-on info --diff", 1),
    ],
)
def test_fail_on(check: Check, flags: str, code: int) -> None:
    """The exit code depends on the worst finding that is not ignored."""
    assert code == check(level_yaml("unused"), *flags.split())[0]


HTTP_URLS = DANGLING.replace("nowhere", "catch-all").replace("/version", "'/orders/*'")
RESOURCES = (
    "    resourceRules: [{verbs: [get], apiGroups: ['*'], resources: ['*'], clusterScope: true}]\n"
)
INTERACTIVE = DANGLING.replace("nowhere", "interactive")


@pytest.mark.parametrize(
    ("text", "flags", "has_hint"),
    [
        (HTTP_URLS, "", True),
        (HTTP_URLS, "--preset http", False),
        (HTTP_URLS, "--preset kubernetes", False),
        (HTTP_URLS, "--ignore APF004", False),
        (INTERACTIVE, "", True),
        (f"{INTERACTIVE}---\n{level_yaml('interactive')}", "", False),
        (DANGLING.replace("nowhere", "catch-all"), "", False),
        (HTTP_URLS + RESOURCES, "", False),
    ],
)
def test_hint_for_objects_for_another_api(
    check: Check, text: str, flags: str, *, has_hint: bool
) -> None:
    out = "\n".join(check(text, *flags.split())[1])

    assert has_hint == ("info APF004)" in out)
    assert has_hint == ("Give --preset http" in out)


def test_diff(check: Check) -> None:
    """Differences from built-in objects are shown, and objects that are not built in."""
    code, (first, blank, *diff, _, summary) = check(level_yaml("workload-low"), "--diff")
    flags = ("--no-suggested-objects", "--diff", "-o", "json")
    report = json.loads("\n".join(check(level_yaml("workload-low"), *flags)[1]))
    changed, *missing = sorted(report["differences"], key=lambda each: str(each["change"]))

    assert first == (
        "a.yaml:1: PriorityLevelConfiguration/workload-low:"
        " differs from the built-in object (info APF501)"
    )
    assert (0, "") == (code, blank)
    assert diff[0] == "--- built-in PriorityLevelConfiguration/workload-low"
    assert "-    nominalConcurrencyShares: 100" in diff
    assert summary == f"{VALID}, 1 info"
    assert ("changed", "workload-low") == (changed["change"], changed["name"])
    assert {each["change"] for each in missing} == {"missing"}
    assert {each["id"] for each in report["infos"]} == {"APF501", "APF502"}
    assert [each["id"] for each in report["warnings"]] == ["APF204", "APF301"]


def test_list_findings(capsys: pytest.CaptureFixture[str]) -> None:
    """Every kind of finding is explained, to people and to programs."""
    assert main(["check", "--list-findings"]) == 0
    text = capsys.readouterr().out
    assert main(["check", "--list-findings", "-o", "json"]) == 0
    kinds = json.loads(capsys.readouterr().out)
    assert [kind["id"] for kind in kinds] == list(FINDING_KINDS)
    assert [line.split()[0] for line in text.splitlines() if line[:3] == "APF"] == list(
        FINDING_KINDS
    )
    assert {len(line) <= 100 for line in text.splitlines()} == {True}
