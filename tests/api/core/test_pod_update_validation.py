"""Tests of what may change in a pod."""

from __future__ import annotations

from typing import Any

import pytest

from apfproxy.api.core.pod_update_validation import validate_pod_status, validate_pod_update
from tests.api.core.pods import causes, container, stored

Spec = dict[str, Any]
Causes = list[tuple[str, str]]
NEEDED = "requiredDuringSchedulingIgnoredDuringExecution"
TERMS = f"affinity.nodeAffinity.{NEEDED}.nodeSelectorTerms"
APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/c"
MIRROR = "kubernetes.io/config.mirror"
PULL = {"imagePullPolicy": "Always"}
TAINT = {"key": "a", "effect": "NoExecute"}


def zone(*values: str) -> Spec:
    """A term that selects zones."""
    return {"matchExpressions": [{"key": "zone", "operator": "In", "values": list(values)}]}


def nodes(*terms: Spec) -> Spec:
    """An affinity to nodes."""
    return {"affinity": {"nodeAffinity": {NEEDED: {"nodeSelectorTerms": list(terms)}}}}


EMPTY_TERM: Spec = {}
BOTH = {"matchExpressions": [*zone("a")["matchExpressions"], *zone("b")["matchExpressions"]]}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param({}, {}, [], id="nothing"),
        pytest.param({}, {"containers": [container(image="a")]}, [], id="image"),
        pytest.param({}, {"containers": [container(args=["a"])]}, [("", "forbidden")], id="args"),
        pytest.param({}, {"hostname": "a"}, [("", "forbidden")], id="hostname"),
        pytest.param(
            {},
            {"containers": [container(), container(name="d")]},
            [("containers", "forbidden")],
            id="containers",
        ),
        pytest.param(
            {},
            {"initContainers": [container(name="d")]},
            [("initContainers", "forbidden")],
            id="init-containers",
        ),
        pytest.param(
            {},
            {"containers": [container(image="", **PULL)]},
            [("image", "required")] * 2,
            id="no-image",
        ),
        pytest.param(
            {},
            {"containers": [container(image="a ", **PULL)]},
            [("image", "invalid")] * 2,
            id="bad-image",
        ),
        pytest.param({}, {"activeDeadlineSeconds": 5}, [], id="deadline"),
        pytest.param({"activeDeadlineSeconds": 5}, {"activeDeadlineSeconds": 4}, [], id="earlier"),
        pytest.param(
            {"activeDeadlineSeconds": 4},
            {"activeDeadlineSeconds": 5, "hostname": "a"},
            [("activeDeadlineSeconds", "invalid")],
            id="later",
        ),
        pytest.param(
            {"activeDeadlineSeconds": 4}, {}, [("activeDeadlineSeconds", "invalid")], id="never"
        ),
        pytest.param(
            {},
            {"activeDeadlineSeconds": -1},
            [("activeDeadlineSeconds", "invalid")] * 2,
            id="before-the-beginning",
        ),
        pytest.param({}, {"tolerations": [TAINT]}, [], id="toleration"),
        pytest.param(
            {"tolerations": [TAINT]},
            {"tolerations": [{**TAINT, "tolerationSeconds": 5}]},
            [],
            id="toleration-for-some-time",
        ),
        pytest.param(
            {"tolerations": [TAINT]}, {}, [("tolerations", "forbidden")], id="no-toleration"
        ),
        pytest.param(
            {"terminationGracePeriodSeconds": -1},
            {"terminationGracePeriodSeconds": 1},
            [],
            id="grace-of-one-second",
        ),
        pytest.param(
            {"terminationGracePeriodSeconds": -1},
            {"terminationGracePeriodSeconds": 2},
            [("", "forbidden")],
            id="grace",
        ),
        pytest.param({"schedulingGates": [{"name": "a"}]}, {}, [], id="gate-removed"),
        pytest.param(
            {"schedulingGates": [{"name": "a"}]},
            {"schedulingGates": [{"name": "b"}]},
            [("schedulingGates[0].name", "forbidden")],
            id="gate-added",
        ),
    ],
)
def test_updates(old: Spec, new: Spec, expected: Causes) -> None:
    """Few fields of a pod may change."""
    errors = validate_pod_update(stored(**new), stored(**old))

    assert [(field or "spec", reason) for field, reason in expected] == causes(errors)


GATES: Spec = {"schedulingGates": [{"name": "a"}]}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param({}, {"nodeSelector": {"a": "b"}}, [], id="selector"),
        pytest.param(
            {"nodeSelector": {"a": "b"}}, {}, [("nodeSelector", "invalid")], id="no-selector"
        ),
        pytest.param({}, nodes(zone("a")), [], id="affinity"),
        pytest.param(nodes(zone("a")), nodes(BOTH), [], id="narrower"),
        pytest.param(nodes(BOTH), nodes(zone("a")), [(f"{TERMS}[0]", "invalid")], id="wider"),
        pytest.param(
            nodes(zone("a")), nodes(zone("a"), zone("b")), [(TERMS, "invalid")], id="term-added"
        ),
        pytest.param(
            nodes(EMPTY_TERM), nodes(zone("a")), [(f"{TERMS}[0]", "invalid")], id="from-nothing"
        ),
        pytest.param(nodes(zone("a")), {}, [(TERMS, "invalid")], id="no-affinity"),
        pytest.param(
            {},
            {"affinity": {"podAffinity": {NEEDED: [{"topologyKey": "a"}]}}},
            [("spec", "forbidden")],
            id="pods",
        ),
    ],
)
def test_updates_of_gated_pods(old: Spec, new: Spec, expected: Causes) -> None:
    """A pod that waits to be scheduled may become more choosy."""
    errors = validate_pod_update(stored(**new, **GATES), stored(**old, **GATES))
    assert expected == causes(errors)

    if not expected and new:
        errors = validate_pod_update(stored(**new), stored(**old))
        assert [("spec", "forbidden")] == causes(errors)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({"a": "b"}, {"c": "d"}, []),
        ({APP_ARMOR: "a"}, {APP_ARMOR: "a"}, []),
        ({}, {APP_ARMOR: "a"}, [APP_ARMOR]),
        ({APP_ARMOR: "a"}, {}, [APP_ARMOR]),
        ({MIRROR: "a"}, {MIRROR: "b"}, [MIRROR]),
    ],
)
def test_annotations(old: Spec, new: Spec, expected: list[str]) -> None:
    """Annotations that nodes rely on stay."""
    errors = validate_pod_status(
        stored(metadata={"annotations": new}, nodeName="n"),
        stored(metadata={"annotations": old}, nodeName="n"),
    )

    assert [f"metadata.annotations[{key}]" for key in expected] == [e.field for e in errors]


def status(name: str = "c", **state: object) -> Spec:
    """The status of a container."""
    return {"name": name, "state": state}


ENDED, FAILED = status(terminated={"exitCode": 0}), status(terminated={"exitCode": 1})
RUNNING = status(running={})


@pytest.mark.parametrize(
    ("old", "new", "spec", "expected"),
    [
        ({}, {"phase": "Running", "nominatedNodeName": "n"}, {}, []),
        ({}, {"nominatedNodeName": "A"}, {}, [("status.nominatedNodeName", "invalid")]),
        ({"qosClass": "Burstable"}, {}, {}, [("status.qosClass", "invalid")]),
        (
            {},
            {"conditions": [{"type": "Ready"}, {"type": "a b"}]},
            {},
            [("status.conditions[1].Type", "invalid")],
        ),
        ({"containerStatuses": [ENDED]}, {"containerStatuses": [RUNNING]}, {}, []),
        (
            {"containerStatuses": [RUNNING, ENDED]},
            {"containerStatuses": [RUNNING]},
            {"restartPolicy": "Never"},
            [("status.containerStatuses[1].state", "forbidden")],
        ),
        (
            {"containerStatuses": [FAILED]},
            {"containerStatuses": [RUNNING]},
            {"restartPolicy": "OnFailure"},
            [],
        ),
        (
            {"containerStatuses": [FAILED]},
            {"containerStatuses": [ENDED]},
            {"restartPolicy": "Never"},
            [],
        ),
        (
            {"initContainerStatuses": [status("i", terminated={"exitCode": 0})]},
            {"initContainerStatuses": [status("i", running={})]},
            {
                "restartPolicy": "Never",
                "initContainers": [container(name="i", restartPolicy="Always")],
            },
            [],
        ),
        (
            {"ephemeralContainerStatuses": [ENDED]},
            {"ephemeralContainerStatuses": [RUNNING]},
            {},
            [("status.ephemeralContainerStatuses[0].state", "forbidden")],
        ),
        (
            {},
            {"resourceClaimStatuses": [{"name": "a", "resourceClaimName": "A"}, {"name": "a"}]},
            {},
            [
                ("status.resourceClaimStatuses[0].name", "invalid"),
                ("status.resourceClaimStatuses[0].name", "invalid"),
                ("status.resourceClaimStatuses[1].name", "invalid"),
                ("status.resourceClaimStatuses[1].name", "duplicate"),
            ],
        ),
        (
            {},
            {"resourceClaimStatuses": [{"name": "a"}]},
            {"resourceClaims": [{"name": "a", "resourceClaimName": "b"}]},
            [],
        ),
        ({}, {"podIPs": [{"ip": "10.0.0.1"}, {"ip": "::1"}]}, {}, []),
        ({}, {"podIPs": [{"ip": "x"}]}, {}, [("status.podIPs[0]", "invalid")]),
        ({}, {"observedGeneration": -1}, {}, [("status.observedGeneration", "invalid")]),
        (
            {},
            {"conditions": [{"type": "Ready", "observedGeneration": -1}]},
            {},
            [("status.conditions[0].observedGeneration", "invalid")],
        ),
        (
            {},
            {"podIPs": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.1"}]},
            {},
            [("status.podIPs", "invalid"), ("status.podIPs[1]", "duplicate")],
        ),
        (
            {},
            {"podIPs": [{"ip": "10.0.0.1"}, {"ip": "::1"}, {"ip": "::2"}]},
            {},
            [("status.podIPs", "invalid")],
        ),
        ({}, {"hostIP": "10.0.0.1", "hostIPs": [{"ip": "10.0.0.1"}]}, {}, []),
        ({}, {"hostIPs": [{"ip": "10.0.0.1"}]}, {}, [("status.hostIPs[0].ip", "invalid")]),
    ],
)
def test_status(old: Spec, new: Spec, spec: Spec, expected: Causes) -> None:
    """A status does not bring back what has ended, and names addresses."""
    errors = validate_pod_status(stored(status=new, **spec), stored(status=old, **spec))

    assert expected == causes(errors)
