"""Tests of FlowSchemas and PriorityLevelConfigurations as kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.apiserver.flowcontrol.kinds import (
    FLOW_SCHEMA,
    PRIORITY_LEVEL_CONFIGURATION,
    without_nulls,
)
from apfproxy.apiserver.schema.reading import read
from apfproxy.objects.decode import bootstrap_objects
from apfproxy.objects.types import FlowSchema
from apfproxy.objects.validation import PRESERVE_ZERO
from tests.objects.objects import as_written

if TYPE_CHECKING:
    from apfproxy.apiserver.kind import Kind

KINDS = [FLOW_SCHEMA, PRIORITY_LEVEL_CONFIGURATION]
BY_KIND = pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])
SPECS = {
    "FlowSchema": {"priorityLevelConfiguration": {"name": "x"}, "matchingPrecedence": 5},
    "PriorityLevelConfiguration": {
        "type": "Limited",
        "limited": {"limitResponse": {"type": "Reject"}},
    },
}
STORED = {
    "name": "a",
    "uid": "1",
    "resourceVersion": "5",
    "generation": 3,
    "creationTimestamp": "1970-01-01T00:00:00Z",
}


def sample(kind: Kind, **metadata: object) -> dict[str, Any]:
    """A valid object of a kind."""
    raw = {"metadata": {**STORED, **metadata}, "spec": SPECS[kind.name]}
    obj = read(kind.storage.schema, raw).obj
    kind.storage.set_defaults(obj)
    return obj


@pytest.mark.parametrize(
    "obj",
    [
        pytest.param(each, id=f"{type(each).__name__}-{each.metadata.name}")
        for each in bootstrap_objects()
    ],
)
def test_built_in_objects(obj: Any) -> None:  # noqa: ANN401  one of two kinds
    """The objects that a server has from the start are read as they are, and valid."""
    kind = FLOW_SCHEMA if isinstance(obj, FlowSchema) else PRIORITY_LEVEL_CONFIGURATION
    wire = as_written(obj)

    found = read(kind.storage.schema, wire)
    kind.storage.set_defaults(found.obj)

    assert (wire["spec"], ()) == (without_nulls(found.obj["spec"]), found.unknown)
    assert [] == kind.rules.validate(found.obj)


@BY_KIND
def test_creation(kind: Kind) -> None:
    """A new object has generation 1 and no status."""
    obj = sample(kind)
    obj["status"] = {"conditions": [{"type": "x"}]}

    kind.rules.prepare_create(obj)

    assert ({}, 1, []) == (obj["status"], obj["metadata"]["generation"], kind.rules.validate(obj))


@BY_KIND
def test_bad_metadata(kind: Kind) -> None:
    """Metadata has to be right on creation and later."""
    obj = sample(kind, generateName="A", labels={"a b": ""}, finalizers=["x"])
    expected = ["metadata.generateName", "metadata.labels", "metadata.finalizers[0]"]

    assert expected == [error.field for error in kind.rules.validate(obj)]
    assert expected == [error.field for error in kind.rules.validate_update(obj, sample(kind))]


@BY_KIND
def test_update(kind: Kind) -> None:
    """An update keeps the status, and counts changes of the specification."""
    old = sample(kind)
    old["status"] = {"conditions": [{"type": "x"}]}
    same, other = sample(kind, labels={"a": "b"}), sample(kind)
    other["spec"]["x"] = 1

    kind.rules.prepare_update(same, old)
    kind.rules.prepare_update(other, old)

    assert (old["status"], 3) == (same["status"], same["metadata"]["generation"])
    assert (old["status"], 4) == (other["status"], other["metadata"]["generation"])


@BY_KIND
def test_status(kind: Kind) -> None:
    """A write of the status changes nothing else."""
    old, new = sample(kind), sample(kind, labels={"a": "b"}, managedFields=[{"manager": "m"}])
    new["spec"], new["status"] = {}, {"conditions": [{"type": "x"}]}

    kind.rules.prepare_status(new, old)

    assert {
        **old,
        "metadata": {**old["metadata"], "managedFields": [{"manager": "m"}]},
        "status": {"conditions": [{"type": "x"}]},
    } == new


@BY_KIND
@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ([{"type": "x"}, {"type": "y"}], []),
        (
            [{"type": "x"}, {"type": "x"}, {}],
            [
                'status.conditions[1].type: Duplicate value: "x"',
                "status.conditions[2].type: Required value",
            ],
        ),
    ],
)
def test_conditions(kind: Kind, conditions: list[Any], expected: list[str]) -> None:
    """Conditions have types, each another one."""
    obj = sample(kind)
    obj["status"] = {"conditions": conditions}

    found = kind.rules.validate_status(obj, sample(kind))

    assert expected == [str(error) for error in found]


def test_bad_specifications() -> None:
    """Specifications are judged by their own rules, and by those of fixed objects."""
    schema, level = sample(FLOW_SCHEMA, name="exempt"), sample(PRIORITY_LEVEL_CONFIGURATION)
    level["spec"]["type"] = "x"
    level["metadata"]["annotations"] = {PRESERVE_ZERO: ""}

    assert ["spec"] == [error.field for error in FLOW_SCHEMA.rules.validate(schema)]
    assert ["metadata.annotations", "spec.type"] == [
        error.field for error in PRIORITY_LEVEL_CONFIGURATION.rules.validate(level)
    ]


@pytest.mark.parametrize(
    ("method", "conditions", "expected"),
    [
        (None, [], ("<none>", "10s", "?")),
        ({"type": "ByUser"}, [{"type": "x"}], ("ByUser", "10s", "?")),
        (None, [{"type": "Dangling", "status": "True"}], ("<none>", "10s", "True")),
    ],
)
def test_flow_schema_cells(
    method: object, conditions: object, expected: tuple[object, ...]
) -> None:
    """A row shows where requests go, in which order, and whether that is there."""
    obj = sample(FLOW_SCHEMA)
    obj["spec"]["distinguisherMethod"] = method
    obj["status"] = {"conditions": conditions}

    assert ("a", "x", 5, *expected) == FLOW_SCHEMA.cells(obj, 10)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"type": "Exempt"}, ("Exempt", "<none>", "<none>", "<none>", "<none>")),
        (
            {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}},
            ("Limited", 30, "<none>", "<none>", "<none>"),
        ),
        (
            {"type": "Limited", "limited": {"limitResponse": {"queuing": {"queues": 7}}}},
            ("Limited", 30, 7, 8, 50),
        ),
    ],
)
def test_priority_level_cells(spec: object, expected: tuple[object, ...]) -> None:
    """A row shows the level's share and how requests queue."""
    kind = PRIORITY_LEVEL_CONFIGURATION
    obj = read(kind.storage.schema, {"metadata": STORED, "spec": spec}).obj
    kind.storage.set_defaults(obj)

    assert ("a", *expected, "10s") == kind.cells(obj, 10)


def test_order() -> None:
    """FlowSchemas are listed in the order in which they are matched, levels by name."""
    assert FLOW_SCHEMA.row_order is not None
    assert (5, "a") == FLOW_SCHEMA.row_order(sample(FLOW_SCHEMA))
    assert PRIORITY_LEVEL_CONFIGURATION.row_order is None


@BY_KIND
def test_columns(kind: Kind) -> None:
    """There is a cell for each column."""
    assert len(kind.columns) == len(kind.cells(sample(kind), 0))


@BY_KIND
def test_deprecation(kind: Kind) -> None:
    """Answers in v1beta3 carry a warning."""
    expected = (
        f"flowcontrol.apiserver.k8s.io/v1beta3 {kind.name} is deprecated in v1.29+,"
        " unavailable in v1.32+"
    )
    assert ["", expected] == [version.deprecation for version in kind.versions]


@pytest.mark.parametrize(
    ("kind", "annotations", "expected"),
    [
        pytest.param(FLOW_SCHEMA, None, [], id="none"),
        pytest.param(FLOW_SCHEMA, {"example.com/ban": "x"}, [], id="of-others"),
        pytest.param(FLOW_SCHEMA, {"apfproxy.io/request-rate": "5"}, [], id="right"),
        pytest.param(
            FLOW_SCHEMA,
            {"apfproxy.io/request-rate": "fast", "apfproxy.io/wait-limit": "5s"},
            [
                (
                    "metadata.annotations[apfproxy.io/wait-limit]: Forbidden: put it on a "
                    "PriorityLevelConfiguration, or remove it; without effect"
                ),
                (
                    'metadata.annotations[apfproxy.io/request-rate]: Invalid value: "fast": write '
                    "requests per second, such as 20 or 0.5, from 0.001 to 1000000; without effect"
                ),
            ],
            id="wrong-on-a-flow-schema",
        ),
        pytest.param(
            PRIORITY_LEVEL_CONFIGURATION,
            {"apfproxy.io/request-rate": "5"},
            [
                (
                    "metadata.annotations[apfproxy.io/request-rate]: Forbidden: put it on a "
                    "FlowSchema, or remove it; without effect"
                ),
            ],
            id="wrong-on-a-level",
        ),
    ],
)
def test_warnings(kind: Kind, annotations: dict[str, str] | None, expected: list[str]) -> None:
    """Who writes an annotation of the proxy's that will not count is told so."""
    obj = sample(kind, **({} if annotations is None else {"annotations": annotations}))

    assert expected == kind.rules.warnings(obj, None)
