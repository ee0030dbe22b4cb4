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
    """The same is said of files, whether they or their directory are named."""
    for name, text in {
        "a.yaml": f"{level_yaml('workload-low')}---\nreplicas: 1\n",
        "b.yaml": level_yaml("broken").replace("7", "-1"),
        "values.yaml": f"metadata: 1\n---\n{level_yaml('workload-low')}",
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
    assert "values.yaml:1: kind: Unsupported" in of_files[3]


@pytest.mark.parametrize(
    ("text", "flags", "code", "told"),
    [
        pytest.param(
            level_yaml("workload-low").replace(
                "metadata: {", 'metadata: {uid: "u\\r\\nX-Evil: 1", '
            ),
            *("", 1, "metadata.uid: Invalid value"),
            id="uid-with-a-header-line",
        ),
        pytest.param(
            DANGLING.replace("nowhere", "workload-lo"),
            *("", 1, '"workload-lo"; did you mean "workload-low"? (error APF101)'),
            id="misspelt-level",
        ),
        pytest.param(
            DANGLING.replace("nowhere", "workload-low"),
            *("--suggested-objects", 0, VALID),
            id="suggested-level",
        ),
        pytest.param(
            DANGLING.replace("nowhere", "workload-low"),
            *("--no-suggested-objects", 1, "(error APF101)"),
            id="level-that-is-not-there",
        ),
        pytest.param(
            level_yaml("workload-low"),
            "--server-concurrency-limit 10",
            *(0, "(built in): PriorityLevelConfiguration/leader-election: "),
            id="few-seats",
        ),
    ],
)
def test_said(check: Check, text: str, flags: str, code: int, told: str) -> None:
    """The first line says what is wrong, or the only one that all is well."""
    ended, lines = check(text, *flags.split())

    assert code == ended
    assert told in "\n".join(lines)


def test_dangling(check: Check) -> None:
    """A FlowSchema without its priority level is not used, so that is an error."""
    code, (first, *rest) = check(DANGLING)

    assert first == (
        "a.yaml:6: FlowSchema/lost: spec.priorityLevelConfiguration.name:"
        ' there is no PriorityLevelConfiguration "nowhere" (error APF101)'
    )
    assert (1, "  APF101  Create the PriorityLevelConfiguration, correct it") == (
        code,
        rest[2][:59],
    )
    assert ["", "What to do:", "", "1 valid object in 1 file, 1 problem, 0 warnings"] == [
        *rest[:2],
        *rest[3:],
    ]


def test_no_objects(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "none").mkdir()
    (tmp_path / "some").mkdir()
    (tmp_path / "some" / "a.yaml").write_text(level_yaml("workload-low"))
    (tmp_path / "some" / "empty.yaml").touch()
    (tmp_path / "comment.yaml").write_text("# later")
    (tmp_path / "broken.yaml").write_text("[")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
    monkeypatch.chdir(tmp_path)

    assert main(["check", "none", "some/", "comment.yaml", "broken.yaml", "-", "-"]) == 1
    none, comment, problem, stdin, summary = capsys.readouterr().out.splitlines()
    assert problem.startswith("broken.yaml:2: ")
    assert [none, comment, stdin] == [
        f"{path}: there is no object in it (warning APF002)"
        for path in ("none", "comment.yaml", "<stdin>")
    ]
    assert summary == "1 valid object in 5 files, 1 problem, 3 warnings"


def test_nothing_but_others(check: Check) -> None:
    code, lines = check("apiVersion: v1\nkind: Pod\n", "--fail-on", "warning")

    assert (1, 3) == (code, len(lines))
    assert "a.yaml: there is no object in it (warning APF002)" in lines


def test_standard_input(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Objects may come through a pipe."""
    data = io.BytesIO(level_yaml("workload-low").encode())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(data))

    assert main(["check", "-"]) == 0
    assert capsys.readouterr().out == "1 valid object in 1 file, 0 problems, 0 warnings\n"


def test_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(level_yaml("a").replace("Reject", "Drop") + "---\n" + DANGLING)

    assert main(["check", "-o", "json", str(path), str(tmp_path / "x")]) == 1
    report = json.loads(capsys.readouterr().out)
    missing, broken, lost = report["problems"]
    assert (report["valid"], report["files"], report["objects"]) == (False, 1, 1)
    assert missing == {
        "id": "APF001",
        "severity": "error",
        "file": str(tmp_path / "x"),
        "line": None,
        "kind": None,
        "name": None,
        "field": None,
        "message": "cannot be read: No such file or directory",
    }
    assert {key: broken[key] for key in ("file", "line", "kind", "name", "field")} == {
        "file": str(path),
        "line": 4,
        "kind": "PriorityLevelConfiguration",
        "name": "a",
        "field": "spec.limited.limitResponse.type",
    }
    assert (lost["id"], lost["name"], lost["line"]) == ("APF101", "lost", 11)
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


def test_findings_are_in_the_order_of_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever their kinds, first file first; built-in objects come last."""
    for name in ("b", "a"):
        lost = DANGLING.replace("lost", f"lost-{name}")
        (tmp_path / f"{name}.yaml").write_text(f"{level_yaml(name)}---\n{lost}")
    paths = [str(tmp_path / name) for name in ("b.yaml", "a.yaml")]

    assert 1 == main(["check", "--server-concurrency-limit", "10", *paths])
    lines = capsys.readouterr().out.partition("\n\n")[0].splitlines()
    assert [f"{tmp_path}/{name}.yaml:{line}" for name in ("b", "a") for line in (1, 4, 11)] == [
        line.partition(": ")[0] for line in lines[:6]
    ]
    assert {"(built in)"} == {line.partition(": ")[0] for line in lines[6:]}


HTTP_URLS = DANGLING.replace("nowhere", "catch-all").replace("/version", "'/orders/*'")
RESOURCES = (
    "    resourceRules: [{verbs: [get], apiGroups: ['*'], resources: ['*'], clusterScope: true}]\n"
)
INTERACTIVE = DANGLING.replace("nowhere", "interactive")


@pytest.mark.parametrize(
    ("text", "flags", "has_hint"),
    [
        pytest.param(HTTP_URLS, "", True, id="urls"),
        pytest.param(HTTP_URLS, "--preset http", False, id="urls-with-preset"),
        pytest.param(HTTP_URLS, "--preset kubernetes", False, id="said-so"),
        pytest.param(HTTP_URLS, "--ignore APF004", False, id="ignored"),
        pytest.param(INTERACTIVE, "", True, id="level"),
        pytest.param(f"{INTERACTIVE}---\n{level_yaml('interactive')}", "", False, id="own-level"),
        pytest.param(DANGLING.replace("nowhere", "catch-all"), "", False, id="kubernetes-urls"),
        pytest.param(HTTP_URLS + RESOURCES, "", False, id="resources-too"),
    ],
)
def test_objects_for_another_api(check: Check, text: str, flags: str, *, has_hint: bool) -> None:
    """Objects that look as if they were for another API are told which preset to give."""
    out = "\n".join(check(text, *flags.split())[1])

    assert has_hint == ("info APF004)" in out)
    assert has_hint == ("Give --preset http" in out)


def test_broken_addition(check: Check) -> None:
    """An annotation of ours that does not count is an error; it can be ignored."""
    annotated = 'low, annotations: {apfproxy.io/ban: "maybe"}}'
    text = level_yaml("workload-low").replace("low}", annotated)
    code, (first, *_, summary) = check(text)

    assert (1, "1 valid object in 1 file, 1 problem, 0 warnings") == (code, summary)
    assert first.endswith("(error APF401)")
    assert (0, [f"{VALID}, 1 ignored"]) == check(text, "--ignore", "APF401")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        pytest.param(["--ignore", "x"], "'x' is no id of a finding", id="no-id"),
        pytest.param(["--ignore", "APF001"], "APF001 cannot be ignored", id="invalid"),
        pytest.param(["--fail-on", "never"], "'never' is not one of", id="no-severity"),
        pytest.param(["--server-concurrency-limit", "0"], "whole number from 1", id="no-seats"),
    ],
)
def test_wrong_flags(capsys: pytest.CaptureFixture[str], flags: list[str], message: str) -> None:
    assert main(["check", *flags, "."]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_diff(check: Check) -> None:
    code, (first, blank, *diff, _, summary) = check(level_yaml("workload-low"), "--diff")

    assert first == (
        "a.yaml:1: PriorityLevelConfiguration/workload-low:"
        " differs from the built-in object (info APF501)"
    )
    assert (0, "") == (code, blank)
    assert diff[0] == "--- built-in PriorityLevelConfiguration/workload-low"
    assert "-    nominalConcurrencyShares: 100" in diff
    assert summary == f"{VALID}, 1 info"


def test_diff_as_json(check: Check) -> None:
    """Programs get the same, and each missing object where none is built in."""
    flags = ("--no-suggested-objects", "--diff", "-o", "json")
    code, lines = check(level_yaml("workload-low"), *flags)
    report = json.loads("\n".join(lines))
    changed, *missing = sorted(report["differences"], key=lambda each: str(each["change"]))

    assert (0, "changed", "workload-low") == (code, changed["change"], changed["name"])
    assert {each["change"] for each in missing} == {"missing"}
    assert {each["id"] for each in report["infos"]} == {"APF501", "APF502"}
    assert [each["id"] for each in report["warnings"]] == ["APF204", "APF301"]
    members = "id severity file line kind name field message advice"
    assert set(members.split()) == set(report["warnings"][0])


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
