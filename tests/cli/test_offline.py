"""Controllers made of object files."""

from __future__ import annotations

import click
import pytest

from apfproxy.cli.offline import is_offline, objects_options
from apfproxy.cli.parameters import admin_option


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
    assert expected is asked.main(arguments.split(), standalone_mode=False)


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
