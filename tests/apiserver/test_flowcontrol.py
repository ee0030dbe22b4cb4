"""FlowSchemas and PriorityLevelConfigurations as kinds; their rules have tests in `objects`."""

from __future__ import annotations

import copy
import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apfproxy.apiserver.core.pods import POD
from apfproxy.apiserver.flowcontrol import FLOW_SCHEMA, PRIORITY_LEVEL_CONFIGURATION
from apfproxy.apiserver.policy import POD_DISRUPTION_BUDGET
from apfproxy.apiserver.resource import RESOURCE_SLICE
from apfproxy.apiserver.schema.reading import MismatchError, read
from apfproxy.apiserver.seeds import SeedCounts, Seeder
from apfproxy.objects.field_errors import Reason
from apfproxy.objects.reading import SHARES, read_object
from apfproxy.objects.types import GROUP
from apfproxy.objects.validation import PRESERVE_ZERO
from tests.apiserver.causes import causes
from tests.apiserver.controllers.scene import Scene
from tests.support.objects import flow_schema, queuing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apfproxy.apiserver.kind import Kind


KINDS = {kind.name: kind for kind in (FLOW_SCHEMA, PRIORITY_LEVEL_CONFIGURATION)}
LIMITED = {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}}
SPECS: dict[str, Any] = {
    "FlowSchema": {"priorityLevelConfiguration": {"name": "x"}, "matchingPrecedence": 5},
    "PriorityLevelConfiguration": LIMITED,
}


def sample(kind: Kind, version: str = "v1", spec: object = None, **metadata: object) -> Any:  # noqa: ANN401  JSON
    served = kind.version(version)
    assert served is not None
    raw = {"metadata": {"name": "a", **metadata}, "spec": spec or SPECS[kind.name]}
    obj = read(served.schema, raw).obj
    served.set_defaults(obj)
    return obj


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_status(kind: Kind) -> None:
    managed: dict[str, Any] = {"managedFields": [{"manager": "m"}]}
    old, new = sample(kind), sample(kind, labels={"a": "b"}, **managed)
    new["spec"], new["status"] = {}, {"conditions": [{"type": "x"}, {"type": "x"}, {}]}
    kind.rules.prepare_status(new, old)
    assert {**old, "metadata": {**old["metadata"], **managed}, "status": new["status"]} == new
    found = causes(kind.rules.validate_status(new, old), "status.conditions")
    assert "[1].type Duplicate, [2].type Required" == found


@pytest.mark.parametrize(
    ("kind", "annotations", "expected"),
    [
        (FLOW_SCHEMA, {"example.com/ban": "x"}, []),
        (FLOW_SCHEMA, {"apfproxy.io/request-rate": "fast", "apfproxy.io/wait-limit": "5s"},
         ["wait-limit]: Forbidden: put it on a", 'request-rate]: Invalid value: "fast": write']),
        (PRIORITY_LEVEL_CONFIGURATION, {"apfproxy.io/request-rate": "5"},
         ["request-rate]: Forbidden: put it on a"]),
    ],
)  # fmt: skip
def test_annotations_without_effect(
    kind: Kind, annotations: dict[str, str], expected: list[str]
) -> None:
    found = kind.rules.warnings(sample(kind, annotations=annotations), None)
    starts = [f"metadata.annotations[apfproxy.io/{each}" for each in expected]
    assert starts == [told[: len(start)] for told, start in zip(found, starts, strict=True)]
    assert all(told.endswith("; without effect") for told in found)


@settings(max_examples=50, deadline=None)
@given(
    spec=st.none() | st.integers(0, 50).map(lambda shares: {"limited": {SHARES: shares}}),
    annotations=st.dictionaries(st.sampled_from("abc"), st.text("xyz")),
)
def test_round_trip(spec: object, annotations: dict[str, str]) -> None:
    """An object survives the way to v1beta3 and back, zero shares included, unchanged itself."""
    served = PRIORITY_LEVEL_CONFIGURATION.versions[1]
    obj = sample(PRIORITY_LEVEL_CONFIGURATION, spec=spec or {"exempt": {}}, annotations=annotations)
    before = copy.deepcopy(obj)
    written = served.from_storage(obj)
    shown = read(served.schema, written).obj
    served.set_defaults(shown)

    is_zero = spec == {"limited": {SHARES: 0}}
    assert is_zero is (PRESERVE_ZERO in written["metadata"].get("annotations", {}))
    assert before == obj == served.to_storage(shown)


VALUES: st.SearchStrategy[object] = st.sampled_from(
    [None, 0, 7, 2**31, 1.0, True, "", "x", [], {}, [None], ["a", None], [1], {"a": None}, [{}]]
)
OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1", "controller": True}
METADATA = {
    "name": "one",
    "generation": 1,
    "labels": {"a": "b"},
    "ownerReferences": [OWNER],
    "finalizers": ["a/b"],
}


def places(content: Any) -> Iterator[tuple[Any, Any]]:  # noqa: ANN401  any JSON value
    if isinstance(content, dict | list):
        for key in content if isinstance(content, dict) else range(len(content)):
            yield content, key
            yield from places(content[key])


@given(data=st.data(), is_schema=st.booleans(), version=st.sampled_from(["v1", "v1beta3"]))
@settings(max_examples=300)
def test_proxy_and_server_read_the_same(data: st.DataObject, is_schema: bool, version: str) -> None:
    """A proxy reads any object alike before and after its way through the server."""
    wire = {**(flow_schema() if is_schema else queuing()), "metadata": copy.deepcopy(METADATA)}
    wire["apiVersion"] = f"{GROUP}/{version}"
    body = {"metadata": wire["metadata"], "spec": wire["spec"]}
    for _ in range(data.draw(st.integers(1, 2))):
        container, key = data.draw(st.sampled_from(list(places(body))))
        container[key] = copy.deepcopy(data.draw(VALUES))
    wire.update(body)
    served = KINDS[wire["kind"]].version(version)
    assert served is not None
    mine = read_object(wire)

    try:
        server = read(served.schema, wire).obj
    except MismatchError:
        assert isinstance(mine, list)
        assert {Reason.TYPE_INVALID} == {error.reason for error in mine}
        return
    assert mine == read_object(server)


COUNTS = SeedCounts(slices=5, pods=210, budgets=7)


async def seeded(counts: SeedCounts = COUNTS, scene: Scene | None = None) -> tuple[Scene, int]:
    scene = scene or Scene()
    made = await Seeder(scene.registry, random.Random(3)).seed(counts)  # noqa: S311  seeds of tests
    return scene, made


def stored(scene: Scene, resource: str) -> list[dict[str, Any]]:
    return [msgspec.json.decode(each.data) for each in scene.store.collection(resource).snapshot()]


async def test_numbers() -> None:
    scene, made = await seeded()

    kinds = (RESOURCE_SLICE.resource, "pods", POD_DISRUPTION_BUDGET.resource, "namespaces")
    assert [5, 210, 7, 3] == [len(stored(scene, each)) for each in kinds]
    assert 5 + 210 + 7 + 3 + 3 == made
    assert {node["metadata"]["name"] for node in stored(scene, "nodes")} == {
        pod["spec"]["nodeName"] for pod in stored(scene, "pods")
    }
    assert 3 == (await seeded(SeedCounts(slices=8, pods=210, budgets=7), scene))[1]
    for obj in stored(scene, RESOURCE_SLICE.resource):
        obj["metadata"].pop("managedFields")
        assert 700 < len(msgspec.json.encode(obj)) < 1500


async def test_budgets_select_pods() -> None:
    """Each budget selects pods of its namespace, most of which are ready."""
    scene, _ = await seeded()

    pods = stored(scene, "pods")
    shown = Counter(POD.cells(pod, 0)[1:3] for pod in pods)
    assert {("1/1", "Running"), ("0/1", "Pending")} == shown.keys()
    assert 0.8 * len(pods) < shown["1/1", "Running"]
    for budget in stored(scene, POD_DISRUPTION_BUDGET.resource):
        app = budget["spec"]["selector"]["matchLabels"]["app"]
        selected = [
            pod
            for pod in pods
            if pod["metadata"]["namespace"] == budget["metadata"]["namespace"]
            and pod["metadata"]["labels"]["app"] == app
        ]
        assert len(selected) > budget["spec"]["minAvailable"] > 0
