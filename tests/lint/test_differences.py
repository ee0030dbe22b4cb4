"""Differences from the built-in objects."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from apfproxy.lint.differences import differences, yaml_lines
from apfproxy.objects.decode import bootstrap_objects, mandatory_objects
from apfproxy.objects.types import FlowSchema
from loadtest.objects import flow_schema, priority_level, user_subject

LEVEL = next(each for each in bootstrap_objects() if each.metadata.name == "workload-low")


def test_changed() -> None:
    assert not isinstance(LEVEL, FlowSchema)
    assert LEVEL.spec.limited is not None
    limited = replace(LEVEL.spec.limited, nominal_concurrency_shares=7)
    changed = replace(LEVEL, spec=replace(LEVEL.spec, limited=limited))
    others = [each for each in bootstrap_objects() if each != LEVEL]

    (difference,) = differences([*others, changed])
    assert [line for line in difference.lines if line[0] in "-+"] == [
        "--- built-in PriorityLevelConfiguration/workload-low",
        "+++ given PriorityLevelConfiguration/workload-low",
        "-    nominalConcurrencyShares: 100",
        "+    nominalConcurrencyShares: 7",
    ]
    assert difference.finding().found.id == "APF501"


def test_missing() -> None:
    """Each suggested object that is not there is shown as a whole."""
    found = differences(mandatory_objects())

    assert {"APF502"} == {each.finding().found.id for each in found}
    assert len(bootstrap_objects()) - len(mandatory_objects()) == len(found)
    assert {"-"} == {line[0] for each in found for line in each.lines if line[0] != "@"} - {"+"}


def test_added() -> None:
    """An object of one's own is shown as a whole, with the annotations that mean something."""
    annotations = {"apfproxy.io/ban": "true", "example.com/owner": "me"}
    level = priority_level("a", shares=0)
    level = replace(level, metadata=replace(level.metadata, annotations=annotations))

    (difference,) = differences([*bootstrap_objects(), level])
    assert difference.finding().found.id == "APF503"
    assert difference.lines[3:] == (
        "+apiVersion: flowcontrol.apiserver.k8s.io/v1",
        "+kind: PriorityLevelConfiguration",
        "+metadata:",
        "+  name: a",
        "+  annotations: {apfproxy.io/ban: 'true'}",
        "+spec:",
        "+  type: Limited",
        "+  limited:",
        "+    nominalConcurrencyShares: 0",
        "+    limitResponse: {type: Reject}",
        "+    lendablePercent: 0",
        "+    borrowingLimitPercent: 0",
    )


@pytest.mark.parametrize("name", ["\x1b[31mred", "\N{RIGHT-TO-LEFT OVERRIDE}", "a\nb"])
def test_names_of_users_are_escaped(name: str) -> None:
    """A subject may have any name, and none does anything to a terminal."""
    lines = yaml_lines(flow_schema("a", "l", user_subject(name)))

    assert [] == [line for line in lines if not (line.isascii() and line.isprintable())]
