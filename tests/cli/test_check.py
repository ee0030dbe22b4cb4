"""`apfproxy check`."""

from __future__ import annotations

import io
import json
import sys
from typing import TYPE_CHECKING

from apfproxy.cli.main import main
from tests.sources.test_object_files import SCHEMA, level

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

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
        f"{path}:1: PriorityLevelConfiguration/a: spec.limited.nominalConcurrencyShares: "
    )
    assert "not YAML: " in second
    assert last == "0 valid objects in 1 file, 2 problems, 0 warnings"


def test_dangling(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A FlowSchema without its priority level is only warned about."""
    path = tmp_path / "a.yaml"
    path.write_text(DANGLING)

    assert main(["check", str(path)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        (
            f"{path}: FlowSchema/lost: spec.priorityLevelConfiguration.name:"
            ' there is no PriorityLevelConfiguration "nowhere" (warning APF101)'
        ),
        "1 valid object in 1 file, 0 problems, 1 warning",
    ]


def test_no_objects(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever has files checked expects objects in them."""
    assert main(["check", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        (
            f"{tmp_path}: there is no object in it: only the built-in ones would be in force"
            " (warning APF002)"
        ),
        "0 valid objects in 0 files, 0 problems, 1 warning",
    ]


def test_suggested_objects(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without the suggested objects their levels are not there."""
    path = tmp_path / "a.yaml"
    path.write_text(DANGLING.replace("nowhere", "workload-low"))
    outputs = []
    for flag in ("--suggested-objects", "--no-suggested-objects"):
        assert main(["check", flag, str(path)]) == 0
        outputs.append(capsys.readouterr().out.count("APF101"))

    assert outputs == [0, 1]


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
    missing, broken = report["problems"]
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
        "line": 1,
        "kind": "PriorityLevelConfiguration",
        "name": "a",
        "field": "spec.limited.limitResponse.type",
    }
    assert [entry["name"] for entry in report["warnings"]] == ["lost"]
