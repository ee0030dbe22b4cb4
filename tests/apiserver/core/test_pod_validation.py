"""Tests of what is wrong with pods, and with changes to them."""

from __future__ import annotations

from typing import Any

import pytest

from apfproxy.apiserver.core.pod_validation import (
    validate_pod,
    validate_pod_status,
    validate_pod_update,
)
from tests.apiserver.core.pods import causes, container, pod, pod_of, stored

Spec = dict[str, Any]
Causes = list[tuple[str, str]]
PULL = {"imagePullPolicy": "Always"}
TAINT = {"key": "a", "effect": "NoExecute"}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"restartPolicy": "OnFailure", "dnsPolicy": "Default"}, []),
        ({"restartPolicy": "x"}, [("restartPolicy", "unsupported")]),
        ({"dnsPolicy": "x"}, [("dnsPolicy", "unsupported")]),
        ({"preemptionPolicy": "x"}, [("preemptionPolicy", "unsupported")]),
        ({"nodeSelector": {"a": "b"}}, []),
        ({"nodeSelector": {"a b": "c d"}}, [("nodeSelector", "invalid")] * 2),
        ({"activeDeadlineSeconds": 0}, [("activeDeadlineSeconds", "invalid")]),
        ({"activeDeadlineSeconds": 2**31}, [("activeDeadlineSeconds", "invalid")]),
        ({"terminationGracePeriodSeconds": -1}, []),
        ({"nodeName": "A"}, [("nodeName", "invalid")]),
        ({"serviceAccountName": "A"}, [("serviceAccountName", "invalid")]),
        (
            {"readinessGates": [{"conditionType": "a b"}]},
            [("readinessGates[0].conditionType", "invalid")],
        ),
        (
            {"schedulingGates": [{"name": "a"}, {"name": "a"}]},
            [("schedulingGates[1]", "duplicate")],
        ),
        ({"schedulingGates": [{"name": "a"}], "nodeName": "n"}, [("nodeName", "forbidden")]),
        ({"ephemeralContainers": [{}]}, [("ephemeralContainers", "forbidden")]),
        ({"containers": []}, [("containers", "required")]),
        ({"containers": None}, [("containers", "required")]),
        ({"initContainers": [container(name="i")]}, []),
        ({"initContainers": [container()]}, [("initContainers[0].name", "duplicate")]),
        (
            {"volumes": [{"name": "A", "x": 1}], "affinity": 5, "hostAliases": [{"ip": "x"}]},
            [],
        ),
    ],
)
def test_pods(spec: Spec, expected: Causes) -> None:
    """A pod's fields make sense; those that are kept as they come are not judged."""
    assert expected == causes(validate_pod(pod(**spec)))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"name": ""}, [("name", "required")]),
        ({"name": "A"}, [("name", "invalid")]),
        ({"image": ""}, [("image", "required")]),
        ({"image": " a"}, [("image", "invalid")]),
        ({"imagePullPolicy": "x"}, [("imagePullPolicy", "unsupported")]),
        ({"terminationMessagePolicy": ""}, []),
        ({"terminationMessagePolicy": "x"}, [("terminationMessagePolicy", "unsupported")]),
        ({"restartPolicy": "Never"}, []),
        ({"restartPolicy": "x"}, [("restartPolicy", "unsupported")]),
        ({"livenessProbe": 5, "securityContext": {"a": [1]}}, []),
    ],
)
def test_containers(fields: Spec, expected: Causes) -> None:
    """A container has a name and an image, and its policies exist."""
    assert expected == causes(validate_pod(pod_of(fields)))


def test_metadata() -> None:
    """Metadata are judged, too."""
    assert [("metadata.name", "invalid")] == causes(validate_pod(pod(metadata={"name": "A"})))


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
        pytest.param({}, {"affinity": {"nodeAffinity": {}}}, [], id="affinity"),
        pytest.param({}, {"hostname": "a"}, [("spec", "forbidden")], id="hostname"),
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
        ({}, {"phase": "Running", "nominatedNodeName": "n"}, []),
        ({}, {"nominatedNodeName": "A"}, [("status.nominatedNodeName", "invalid")]),
        ({"nominatedNodeName": "A"}, {"nominatedNodeName": "A"}, []),
        ({"qosClass": "Burstable"}, {}, [("status.qosClass", "invalid")]),
        (
            {},
            {"conditions": [{"type": "Ready"}, {"type": "a b"}]},
            [("status.conditions[1].Type", "invalid")],
        ),
        ({}, {"resourceClaimStatuses": [{}], "resize": 5}, []),
    ],
)
def test_status(old: Spec, new: Spec, expected: Causes) -> None:
    """A status names its conditions well, and the class of service stays."""
    assert expected == causes(validate_pod_status(stored(status=new), stored(status=old)))
