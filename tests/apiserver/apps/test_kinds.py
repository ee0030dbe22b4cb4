"""Tests of `apfproxy.apiserver.apps`; `tests/conformance` has what Kubernetes answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from apfproxy.apiserver.apps import (
    CONTROLLERS,
    DEPLOYMENT,
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    STATEFUL_SET,
)
from apfproxy.apiserver.schema.reading import canonical

if TYPE_CHECKING:
    from apfproxy.apiserver.kind import Kind
    from apfproxy.objects.types import Object

TEMPLATE = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {"containers": [{"name": "c", "image": "i:1"}, {"name": "d"}]},
}
SELECTOR = {"matchLabels": {"a": "b"}}


def made(kind: Kind, status: Object | None = None, **spec: object) -> Object:
    """An object of a kind as it is created, with this status."""
    raw = {"metadata": {"name": "x", "namespace": "n"}, "spec": spec}
    obj = canonical(kind.storage.schema, raw)
    kind.storage.set_defaults(obj)
    kind.rules.prepare_create(obj)
    obj["status"] |= status or {}
    return canonical(kind.storage.schema, obj)


@pytest.mark.parametrize("kind", CONTROLLERS)
def test_least(kind: Kind) -> None:
    """A controller wants one pod unless told otherwise, and is kept without a template."""
    obj = made(kind)

    assert 1 == obj["spec"]["replicas"]
    assert 1 == obj["metadata"]["generation"]
    assert ["x"] == list(kind.cells(obj, 0))[:1]
    assert [] == kind.rules.validate(obj)
    assert ["spec.replicas"] == [
        error.field for error in kind.rules.validate(made(kind, replicas=-1))
    ]


def test_strategies() -> None:
    """What is not said of a rolling update is completed; other strategies are left alone."""
    rolling = made(DEPLOYMENT, strategy={"rollingUpdate": {"maxSurge": 1}})["spec"]["strategy"]
    partition = made(STATEFUL_SET)["spec"]["updateStrategy"]

    assert {"maxSurge": 1, "maxUnavailable": "25%"} == rolling["rollingUpdate"]
    assert {"type": "Recreate"} == made(DEPLOYMENT, strategy={"type": "Recreate"})["spec"][
        "strategy"
    ]
    assert {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}} == partition
    assert {"type": "OnDelete"} == made(STATEFUL_SET, updateStrategy={"type": "OnDelete"})["spec"][
        "updateStrategy"
    ]


def test_replication_controllers() -> None:
    """The labels of the template are the selector, and the controller's own, unless given."""
    obj = made(REPLICATION_CONTROLLER, template=TEMPLATE)
    other = made(REPLICATION_CONTROLLER, template=TEMPLATE, selector={"z": "y", "a": "b"})

    assert ({"a": "b"}, {"a": "b"}) == (obj["spec"]["selector"], obj["metadata"]["labels"])
    assert "a=b,z=y" == REPLICATION_CONTROLLER.cells(other, 0)[-1]
    assert {"status.replicas": "0"} == REPLICATION_CONTROLLER.selectable(obj)


def test_rows() -> None:
    """A row has the pods that are wanted and those that are ready; wide ones have the template."""
    wide = ("c,d", "i:1,")
    status = {"readyReplicas": 1, "updatedReplicas": 2}

    deployment = made(DEPLOYMENT, status, replicas=3, template=TEMPLATE, selector=SELECTOR)
    assert ("1/3", 2, 0, "<unknown>", *wide, "a=b") == DEPLOYMENT.cells(deployment, 0)[1:]
    replica_set = made(REPLICA_SET, {"replicas": 2, "readyReplicas": 1}, template=TEMPLATE)
    assert (1, 2, 1, "<unknown>", *wide, "<none>") == REPLICA_SET.cells(replica_set, 0)[1:]
    stateful_set = made(STATEFUL_SET, template=TEMPLATE)
    assert ("0/1", "<unknown>", *wide) == STATEFUL_SET.cells(stateful_set, 0)[1:]


def test_generations_of_deployments() -> None:
    """Other annotations make another generation of a Deployment, and of no other controller."""
    for kind, expected in ((DEPLOYMENT, 2), (REPLICA_SET, 1)):
        old, new = made(kind), made(kind)
        new["metadata"]["annotations"] = {"a": "b"}
        kind.rules.prepare_update(new, old)
        assert expected == new["metadata"]["generation"]
        same = made(kind)
        kind.rules.prepare_update(same, old)
        assert 1 == same["metadata"]["generation"]


def test_labels_beside_the_status_of_a_deployment() -> None:
    """Who writes the status of a Deployment changes no label."""
    old, new = made(DEPLOYMENT), made(DEPLOYMENT)
    new["metadata"]["labels"] = {"a": "b"}
    DEPLOYMENT.rules.prepare_status(new, old)
    assert "labels" not in new["metadata"]
    DEPLOYMENT.rules.prepare_status(new, {**old, "metadata": {"labels": {"c": "d"}}})
    assert {"c": "d"} == new["metadata"]["labels"]
