"""Controllers made of object files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import pytest

from apfproxy.cli.main import main
from apfproxy.cli.offline import is_offline, objects_options
from apfproxy.cli.parameters import admin_option

if TYPE_CHECKING:
    from pathlib import Path


@click.command
@objects_options
@admin_option
@click.option("--hash-seed", envvar="SEED")
def asked(**_: object) -> bool:
    """Whether no proxy is asked."""
    return is_offline("objects", "suggested_objects", "hash_seed")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param("", False, id="nothing"),
        pytest.param("--admin :1", False, id="admin"),
        pytest.param("--offline", True, id="offline"),
        pytest.param("--objects a --objects b", True, id="objects"),
        pytest.param("--no-suggested-objects", True, id="switch"),
        pytest.param("--hash-seed 0", True, id="number"),
    ],
)
def test_who_is_asked(arguments: str, expected: bool) -> None:
    """A flag that a proxy has a value of its own for means that none is asked."""
    assert expected is asked.main(arguments.split(), standalone_mode=False)


def test_variables_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables of the environment, perhaps for the proxy itself, ask for nothing."""
    monkeypatch.setenv("SEED", "1")

    assert asked.main([], standalone_mode=False) is False
    assert asked.main(["--admin", ":1"], standalone_mode=False) is False


OBJECTS = """
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata: {name: a}
spec:
  matchingPrecedence: 100
  priorityLevelConfiguration: {name: default}
  rules:
  - subjects: [{kind: Group, group: {name: system:authenticated}}]
    nonResourceRules: [{verbs: ['*'], nonResourceURLs: [/x]}]
"""


@pytest.mark.parametrize("command", ["limits", "explain --verb get --path /x"])
def test_objects_for_another_preset(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A level that does not exist is said beside the answer, and which preset is meant."""
    path = tmp_path / "o.yaml"
    path.write_text(OBJECTS)

    assert 0 == main([*command.split(), "--objects", str(path)])
    dangling, other = capsys.readouterr().err.splitlines()
    assert dangling == 'APF101: FlowSchema a is not used: there is no priority level "default"'
    assert other.startswith("APF004: ")
    assert 0 == main([*command.split(), "--objects", str(path), "--preset", "http"])
    assert not capsys.readouterr().err
