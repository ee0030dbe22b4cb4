"""`apfproxy check`."""

from __future__ import annotations

import io
import json
import sys
from typing import TYPE_CHECKING

import pytest

from apfproxy.cli.main import main
from apfproxy.lint.findings import FINDING_KINDS
from tests.sources.test_object_files import SCHEMA, level

if TYPE_CHECKING:
    from pathlib import Path

RULES = """  rules:
  - subjects: [{kind: User, user: {name: alice}}]
    nonResourceRules: [{verbs: [get], nonResourceURLs: [/version]}]
"""
DANGLING = SCHEMA.replace("NAME", "lost").replace("LEVEL", "nowhere") + RULES


def test_valid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Valid objects give a summary and success."""
    (tmp_path / "a.yaml").write_text(level("workload-low"))

    assert main(["check", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "1 valid object in 1 file, 0 problems, 0 warnings\n"


def test_problems(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each problem has a line with file, object and field."""
    path = tmp_path / "a.yaml"
    path.write_text(level("a").replace("7", "-1") + "---\nbroken: [")

    assert main(["check", str(path)]) == 1
    first, second, last = capsys.readouterr().out.splitlines()
    assert first.startswith(
        f"{path}:4: PriorityLevelConfiguration/a: spec.limited.nominalConcurrencyShares: "
    )
    assert "not YAML: " in second
    assert last == "0 valid objects in 1 file, 2 problems, 0 warnings"


@pytest.mark.parametrize(("flags", "code"), [([], 0), (["--strict"], 1)])
def test_other_kinds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], code: int
) -> None:
    """Other kinds beside flow control objects are named once, as an error only if asked for."""
    path = tmp_path / "all.yaml"
    other = "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n"
    path.write_bytes(f"{other}---\n{level('workload-low')}---\n{other}".encode("utf-16"))
    ended = main(["check", *flags, str(path)])
    line, *_, summary = capsys.readouterr().out.splitlines()

    severity = "error" if code else "info"
    assert code == ended
    assert (
        f"{path}:1: left out, as it is no object of flow control: Namespace ({severity} APF003)"
        == line
    )
    assert f"1 valid object in 1 file, {code} problem" in summary


def test_directory_and_its_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same is said of files, whether they or their directory are named."""
    for name, text in {
        "a.yaml": f"{level('workload-low')}---\nreplicas: 1\n",
        "b.yaml": level("broken").replace("7", "-1"),
        "values.yaml": f"metadata: 1\n---\n{level('workload-low')}",
        "values-2.yaml": "metadata: 1\n",
    }.items():
        (tmp_path / name).write_text(text)

    assert 1 == main(["check", str(tmp_path)])
    of_directory = capsys.readouterr().out.splitlines()
    assert 1 == main(["check", *map(str, sorted(tmp_path.iterdir()))])
    empty = f"{tmp_path}/values-2.yaml: there is no object in it (warning APF002)"
    of_files = [each for each in capsys.readouterr().out.splitlines() if each != empty]
    assert of_directory[:-1] == of_files[:-1]
    assert "a.yaml:6: left out, as it is no object of flow control: a document" in of_files[0]
    assert "/b.yaml:4: " in of_files[1]
    assert "values-2.yaml: left out, as it is a file of kustomize or Helm" in of_files[2]
    assert "values.yaml:1: kind: Unsupported" in of_files[3]


def test_uid_with_a_header_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A uid that would put a field of its own into answers is a problem, with its path."""
    path = tmp_path / "a.yaml"
    path.write_text(
        level("workload-low").replace("metadata: {", 'metadata: {uid: "u\\r\\nX-Evil: 1", ')
    )
    assert 1 == main(["check", str(path)])

    assert "metadata.uid: Invalid value" in capsys.readouterr().out


def test_dangling(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A FlowSchema without its priority level is not used, so that is an error."""
    path = tmp_path / "a.yaml"
    path.write_text(DANGLING)

    assert main(["check", str(path)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        (
            f"{path}:6: FlowSchema/lost: spec.priorityLevelConfiguration.name:"
            ' there is no PriorityLevelConfiguration "nowhere" (error APF101)'
        ),
        "",
        "What to do:",
        (
            "  APF101  Create the PriorityLevelConfiguration, correct it if it is invalid,"
            " or name another."
        ),
        "",
        "1 valid object in 1 file, 1 problem, 0 warnings",
    ]


def test_misspelt_level(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A level that is nearly named comes with the name that may be meant."""
    path = tmp_path / "a.yaml"
    path.write_text(DANGLING.replace("nowhere", "workload-lo"))

    assert 1 == main(["check", str(path)])
    first = capsys.readouterr().out.splitlines()[0]
    assert '"workload-lo"; did you mean "workload-low"? (error APF101)' in first


def test_no_objects(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has files checked expects objects in each of them, but not in all of a directory."""
    (tmp_path / "none").mkdir()
    (tmp_path / "some").mkdir()
    (tmp_path / "some" / "a.yaml").write_text(level("workload-low"))
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


def test_suggested_objects(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without the suggested objects their levels are not there."""
    path = tmp_path / "a.yaml"
    path.write_text(DANGLING.replace("nowhere", "workload-low"))
    outputs = []
    for flag in ("--suggested-objects", "--no-suggested-objects"):
        code = main(["check", flag, str(path)])
        outputs.append((code, capsys.readouterr().out.count("(error APF101)")))

    assert outputs == [(0, 0), (1, 1)]


def test_missing_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A path that is not there is a problem like others."""
    assert main(["check", str(tmp_path / "x")]) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"{tmp_path}/x: cannot be read: No such file or directory (error APF001)",
        "0 valid objects in 0 files, 1 problem, 0 warnings",
    ]


def test_standard_input(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Objects may come through a pipe."""
    data = io.BytesIO(level("workload-low").encode())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(data))

    assert main(["check", "-"]) == 0
    assert capsys.readouterr().out == "1 valid object in 1 file, 0 problems, 0 warnings\n"


def test_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As JSON the same is there for programs."""
    path = tmp_path / "a.yaml"
    path.write_text(level("a").replace("Reject", "Drop") + "---\n" + DANGLING)

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
        pytest.param([], 0, id="errors-by-default"),
        pytest.param(["--fail-on", "error"], 0, id="errors"),
        pytest.param(["--fail-on", "warning"], 1, id="warnings"),
        pytest.param(["--fail-on", "info"], 1, id="infos"),
        pytest.param(["--fail-on", "warning", "--ignore", "apf204"], 0, id="but-not-this-one"),
        pytest.param(["--ignore", "APF302"], 0, id="one-that-is-given-up"),
        pytest.param(["--ignore", "APF204", "--fail-on", "info", "--diff"], 1, id="differences"),
    ],
)
def test_fail_on(tmp_path: Path, flags: list[str], code: int) -> None:
    """The exit code depends on the worst finding that is not ignored."""
    path = tmp_path / "a.yaml"
    path.write_text(level("unused"))

    assert code == main(["check", *flags, str(path)])


def test_findings_are_in_the_order_of_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever their kinds, first file first; built-in objects come last."""
    for name in ("b", "a"):
        lost = DANGLING.replace("lost", f"lost-{name}")
        (tmp_path / f"{name}.yaml").write_text(f"{level(name)}---\n{lost}")
    paths = [str(tmp_path / name) for name in ("b.yaml", "a.yaml")]

    assert 1 == main(["check", "--server-concurrency-limit", "10", *paths])
    lines = capsys.readouterr().out.partition("\n\n")[0].splitlines()
    assert [f"{tmp_path}/{name}.yaml:{line}" for name in ("b", "a") for line in (1, 4, 11)] == [
        line.partition(": ")[0] for line in lines[:6]
    ]
    assert {"(built in)"} == {line.partition(": ")[0] for line in lines[6:]}


HTTP_URLS = DANGLING.replace("nowhere", "catch-all").replace("/version", "'/orders/*'")


@pytest.mark.parametrize(
    ("text", "flags", "has_hint"),
    [
        pytest.param(HTTP_URLS, [], True, id="urls"),
        pytest.param(HTTP_URLS, ["--preset", "http"], False, id="urls-with-preset"),
        pytest.param(HTTP_URLS, ["--preset", "kubernetes"], False, id="said-so"),
        pytest.param(HTTP_URLS, ["--ignore", "APF004"], False, id="ignored"),
        pytest.param(DANGLING.replace("nowhere", "interactive"), [], True, id="level"),
        pytest.param(
            DANGLING.replace("nowhere", "interactive") + "---\n" + level("interactive"),
            [],
            False,
            id="own-level",
        ),
        pytest.param(DANGLING.replace("nowhere", "catch-all"), [], False, id="kubernetes-urls"),
        pytest.param(
            HTTP_URLS + "    resourceRules: [{verbs: [get], apiGroups: ['*'], resources: ['*'],"
            " clusterScope: true}]\n",
            [],
            False,
            id="resources-too",
        ),
    ],
)
def test_objects_for_another_api(
    text: str,
    flags: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    *,
    has_hint: bool,
) -> None:
    """Objects that look as if they were for another API are told which preset to give."""
    path = tmp_path / "a.yaml"
    path.write_text(text)
    main(["check", *flags, str(path)])
    out = capsys.readouterr().out

    assert has_hint == ("info APF004)" in out)
    assert has_hint == ("Give --preset http" in out)


def test_broken_addition(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An annotation of ours that does not count is an error; it can be ignored."""
    path = tmp_path / "a.yaml"
    path.write_text(
        level("workload-low").replace("low}", 'low, annotations: {apfproxy.io/ban: "maybe"}}')
    )

    assert main(["check", str(path)]) == 1
    assert main(["check", "--ignore", "APF401", str(path)]) == 0
    first, *_, summary, ignored = capsys.readouterr().out.splitlines()
    assert first.endswith("(error APF401)")
    assert summary == "1 valid object in 1 file, 1 problem, 0 warnings"
    assert ignored == "1 valid object in 1 file, 0 problems, 0 warnings, 1 ignored"


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
    """A wrong flag gets one line that says why."""
    assert main(["check", *flags, "."]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_server_concurrency_limit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Seats are divided as the proxy would."""
    path = tmp_path / "a.yaml"
    path.write_text(level("workload-low"))

    assert main(["check", "--server-concurrency-limit", "10", str(path)]) == 0
    assert "(built in): PriorityLevelConfiguration/leader-election: " in capsys.readouterr().out


def test_diff(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What differs from the built-in objects is shown; what is not given is built in."""
    path = tmp_path / "a.yaml"
    path.write_text(level("workload-low"))

    assert main(["check", "--diff", str(path)]) == 0
    first, blank, *diff, _, summary = capsys.readouterr().out.splitlines()
    assert first == (
        f"{path}:1: PriorityLevelConfiguration/workload-low:"
        " differs from the built-in object (info APF501)"
    )
    assert blank == ""
    assert diff[0] == "--- built-in PriorityLevelConfiguration/workload-low"
    assert "-    nominalConcurrencyShares: 100" in diff
    assert summary == "1 valid object in 1 file, 0 problems, 0 warnings, 1 info"


def test_diff_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Programs get the same, and each missing object where none is built in."""
    path = tmp_path / "a.yaml"
    path.write_text(level("workload-low"))

    assert main(["check", "--no-suggested-objects", "--diff", "-o", "json", str(path)]) == 0
    report = json.loads(capsys.readouterr().out)
    changed, *missing = sorted(report["differences"], key=lambda each: str(each["change"]))
    assert (changed["change"], changed["name"]) == ("changed", "workload-low")
    assert {each["change"] for each in missing} == {"missing"}
    assert {each["id"] for each in report["infos"]} == {"APF501", "APF502"}
    assert [each["id"] for each in report["warnings"]] == ["APF204", "APF301"]
    assert set(report["warnings"][0]) == {
        "id", "severity", "file", "line", "kind", "name", "field", "message", "advice",
    }  # fmt: skip


def test_ignored_differences(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A difference that is to be ignored is not shown either."""
    path = tmp_path / "a.yaml"
    path.write_text(level("workload-low"))

    assert main(["check", "--diff", "--ignore", "APF501", str(path)]) == 0
    assert capsys.readouterr().out == (
        "1 valid object in 1 file, 0 problems, 0 warnings, 1 ignored\n"
    )


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
