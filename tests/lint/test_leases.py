"""Where leases go."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from apfproxy.lint.leases import lease_findings
from apfproxy.objects.decode import bootstrap_objects, mandatory_objects
from apfproxy.objects.types import (
    FlowControlObject,
    FlowSchema,
    NonResourcePolicyRule,
    ResourcePolicyRule,
)
from loadtest.objects import flow_schema, group_subject, user_subject

if TYPE_CHECKING:
    from collections.abc import Iterable


SUGGESTED = bootstrap_objects()
KEPT = ("system-leader-election", "system-node-high")


def found_in(objects: Iterable[FlowControlObject]) -> list[tuple[str, str, str]]:
    """Ids, FlowSchemas and messages of what is found."""
    objects = tuple(objects)
    levels = {each.metadata.name: each for each in objects if not isinstance(each, FlowSchema)}
    schemas = [each for each in objects if isinstance(each, FlowSchema)]
    return [(each.found.id, each.name, each.message) for each in lease_findings(schemas, levels)]


def beside(schema: str, holder: str, level: str) -> tuple[str, str, str]:
    """What is found where leases share a level with what their holder asks."""
    return (
        "APF302",
        schema,
        f'leases of {holder} share level "{level}" with all else that they ask',
    )


ALL_HOLDERS = "kube-controller-manager, kube-scheduler, controllers in kube-system, nodes"
ALL_OTHERS = "pods, pods that elect leaders, people, strangers"
CROWDED = f'leases of {ALL_HOLDERS} share level "catch-all" with what {ALL_OTHERS} ask'
LEASES_OF_ALL = flow_schema(
    "a",
    "leader-election",
    group_subject("system:authenticated"),
    precedence=2,
    resource_rule=ResourcePolicyRule(
        verbs=("*",), api_groups=("coordination.k8s.io",), resources=("leases",), namespaces=("*",)
    ),
    non_resource_rule=NonResourcePolicyRule(verbs=("get",), non_resource_urls=("/version",)),
)
CROWDED_BY_LEASES = (
    f'leases of {ALL_HOLDERS} share level "leader-election" with what pods that elect leaders ask'
)
SCHEDULER = flow_schema("a", "system", user_subject("system:kube-scheduler"))


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        pytest.param(SUGGESTED, [], id="suggested"),
        pytest.param(mandatory_objects(), [("APF301", "catch-all", CROWDED)], id="mandatory"),
        pytest.param(
            [each for each in SUGGESTED if each.metadata.name not in KEPT],
            [
                beside("kube-controller-manager", "kube-controller-manager", "workload-high"),
                beside("kube-scheduler", "kube-scheduler", "workload-high"),
                beside(
                    "kube-system-service-accounts", "controllers in kube-system", "workload-high"
                ),
                beside("system-nodes", "nodes", "system"),
            ],
            id="no-leases",
        ),
        pytest.param(
            [
                *SUGGESTED,
                flow_schema("first", "exempt", group_subject("system:authenticated"), precedence=1),
            ],
            [],
            id="exempt",
        ),
        pytest.param(
            [*SUGGESTED, LEASES_OF_ALL],
            [("APF301", "a", CROWDED_BY_LEASES)],
            id="leases-of-all",
        ),
        pytest.param([], [], id="nothing"),
        pytest.param(
            [*(each for each in SUGGESTED if not isinstance(each, FlowSchema)), SCHEDULER],
            [beside("a", "kube-scheduler", "system")],
            id="others-are-not-classified",
        ),
    ],
)
def test_leases(objects: Iterable[FlowControlObject], expected: list[tuple[str, str, str]]) -> None:
    """Leases are to have a level without what pods, people and their holders ask."""
    assert expected == found_in(objects)
