"""Tests of what is wrong with containers."""

from __future__ import annotations

from typing import Any

import pytest

from apfproxy.api.core.pod_update_validation import validate_pod_update
from apfproxy.api.core.pod_validation import validate_pod
from tests.api.core.pods import causes, container, pod, pod_of, stored

Spec = dict[str, Any]
Causes = list[tuple[str, str]]
PORT = {"containerPort": 80}
MOUNT = {"name": "v", "mountPath": "/a"}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, []),
        ({"name": ""}, [("name", "required")]),
        ({"name": "A"}, [("name", "invalid")]),
        ({"image": ""}, [("image", "required")]),
        ({"image": " a"}, [("image", "invalid")]),
        ({"imagePullPolicy": "x"}, [("imagePullPolicy", "unsupported")]),
        ({"terminationMessagePolicy": "x"}, [("terminationMessagePolicy", "unsupported")]),
        ({"ports": [{**PORT, "name": "http", "hostPort": 8080}]}, []),
        ({"ports": [{}]}, [("ports[0].containerPort", "required")]),
        ({"ports": [{"containerPort": 65536}]}, [("ports[0].containerPort", "invalid")]),
        ({"ports": [{**PORT, "hostPort": -1}]}, [("ports[0].hostPort", "invalid")]),
        ({"ports": [{**PORT, "protocol": "tcp"}]}, [("ports[0].protocol", "unsupported")]),
        ({"ports": [{**PORT, "name": "A"}]}, [("ports[0].name", "invalid")] * 2),
        (
            {"ports": [{**PORT, "name": "a"}, {"containerPort": 81, "name": "a"}]},
            [("ports[1].name", "duplicate")],
        ),
        (
            {"ports": [{**PORT, "hostPort": 1}, {"containerPort": 81, "hostPort": 1}]},
            [("ports[1].hostPort", "duplicate")],
        ),
        ({"env": [{"name": "A"}, {"name": "B=C"}]}, [("env[1].name", "invalid")]),
        ({"env": [{}]}, [("env[0].name", "required")]),
        ({"env": [{"name": "A", "valueFrom": {}}]}, [("env[0].valueFrom", "invalid")]),
        (
            {"env": [{"name": "A", "value": "a", "valueFrom": {"configMapKeyRef": {}}}]},
            [
                ("env[0].valueFrom.configMapKeyRef.name", "invalid"),
                ("env[0].valueFrom.configMapKeyRef.key", "required"),
                ("env[0].valueFrom", "invalid"),
            ],
        ),
        (
            {
                "env": [
                    {
                        "name": "A",
                        "valueFrom": {
                            "secretKeyRef": {"name": "a", "key": "k"},
                            "fieldRef": {"fieldPath": "metadata.uid"},
                        },
                    }
                ]
            },
            [("env[0].valueFrom", "invalid")],
        ),
        (
            {"env": [{"name": "A", "valueFrom": {"resourceFieldRef": {}}}]},
            [("env[0].valueFrom.resourceFieldRef.resource", "required")],
        ),
        (
            {"env": [{"name": "A", "valueFrom": {"fileKeyRef": {"key": "K", "volumeName": "v"}}}]},
            [("env[0].valueFrom.fileKeyRef.path", "required")],
        ),
        ({"envFrom": [{"prefix": "P_", "secretRef": {"name": "a"}}]}, []),
        (
            {"envFrom": [{"prefix": "="}]},
            [("envFrom[0].prefix", "invalid"), ("envFrom", "invalid")],
        ),
        (
            {"envFrom": [{"configMapRef": {}, "secretRef": {"name": "a"}}]},
            [("envFrom[0].configMapRef.name", "required"), ("envFrom", "invalid")],
        ),
        ({"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}]}, []),
        (
            {"resizePolicy": [{}, {"resourceName": "x", "restartPolicy": "x"}]},
            [("resizePolicy", "required")] * 2 + [("resizePolicy", "unsupported")] * 2,
        ),
        (
            {"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}] * 2},
            [("resizePolicy[1]", "duplicate")],
        ),
    ],
)
def test_containers(fields: Spec, expected: Causes) -> None:
    """A container has a name and an image, and its fields make sense."""
    assert expected == causes(validate_pod(pod_of(fields)))


def test_no_containers() -> None:
    """A pod has at least one container."""
    assert [("containers", "required")] == causes(validate_pod(pod(containers=[])))
    assert [("containers", "required")] == causes(validate_pod(pod(containers=None)))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"volumeMounts": [{**MOUNT, "subPath": "a", "readOnly": True}]}, []),
        (
            {"volumeMounts": [{"name": "no", "mountPath": "/a"}]},
            [("volumeMounts[0].name", "not found")],
        ),
        (
            {"volumeMounts": [{}]},
            [
                ("volumeMounts[0].name", "required"),
                ("volumeMounts[0].name", "not found"),
                ("volumeMounts[0].mountPath", "required"),
            ],
        ),
        ({"volumeMounts": [MOUNT, MOUNT]}, [("volumeMounts[1].mountPath", "invalid")]),
        (
            {"volumeMounts": [{**MOUNT, "subPath": "/a", "subPathExpr": ".."}]},
            [
                ("volumeMounts.subPath", "invalid"),
                ("volumeMounts.subPathExpr", "invalid"),
                ("volumeMounts.subPathExpr", "invalid"),
            ],
        ),
        ({"volumeMounts": [{**MOUNT, "subPathExpr": "$(A)"}]}, []),
        (
            {"volumeMounts": [{**MOUNT, "mountPropagation": "x"}]},
            [("volumeMounts.mountPropagation", "unsupported")],
        ),
        (
            {"volumeMounts": [{**MOUNT, "mountPropagation": "Bidirectional"}]},
            [("volumeMounts.mountPropagation", "forbidden")],
        ),
        (
            {
                "volumeMounts": [{**MOUNT, "mountPropagation": "Bidirectional"}],
                "securityContext": {"privileged": True},
            },
            [],
        ),
        ({"volumeMounts": [{**MOUNT, "recursiveReadOnly": "Disabled"}]}, []),
        (
            {"volumeMounts": [{**MOUNT, "recursiveReadOnly": "x"}]},
            [("volumeMounts.recursiveReadOnly", "unsupported")],
        ),
        (
            {
                "volumeMounts": [
                    {
                        **MOUNT,
                        "recursiveReadOnly": "Enabled",
                        "mountPropagation": "HostToContainer",
                    }
                ]
            },
            [("volumeMounts.recursiveReadOnly", "forbidden")] * 2,
        ),
        (
            {"volumeMounts": [{**MOUNT, "readOnly": True, "recursiveReadOnly": "IfPossible"}]},
            [],
        ),
        ({"volumeDevices": [{"name": "p", "devicePath": "/d"}]}, []),
        (
            {"volumeDevices": [{"name": "v", "devicePath": "/../d"}, {"name": "no"}]},
            [
                ("volumeDevices[0].name", "invalid"),
                ("volumeDevices[0].devicePath", "invalid"),
                ("volumeDevices[1].name", "not found"),
                ("volumeDevices[1].devicePath", "required"),
            ],
        ),
        (
            {"volumeDevices": [{"name": "p", "devicePath": "/d"}] * 2},
            [("volumeDevices[1].name", "invalid"), ("volumeDevices[1].devicePath", "invalid")],
        ),
        (
            {
                "volumeMounts": [{"name": "p", "mountPath": "/d"}],
                "volumeDevices": [{"name": "p", "devicePath": "/d"}],
            },
            [
                ("volumeMounts[0].name", "invalid"),
                ("volumeMounts[0].mountPath", "invalid"),
                ("volumeDevices[0].name", "invalid"),
                ("volumeDevices[0].devicePath", "invalid"),
            ],
        ),
    ],
)
def test_mounts(fields: Spec, expected: Causes) -> None:
    """A container sees volumes of its pod, each path once."""
    volumes = [{"name": "v"}, {"name": "p", "persistentVolumeClaim": {"claimName": "c"}}]
    obj = pod(containers=[container(**fields)], volumes=volumes)

    assert expected == causes(validate_pod(obj))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"restartPolicy": "Never"}, []),
        ({"restartPolicy": "x"}, [("restartPolicy", "unsupported")]),
        (
            {"restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In"}}]},
            [("restartPolicy", "required")],
        ),
        (
            {"restartPolicy": "Never", "restartPolicyRules": [{}]},
            [
                ("restartPolicyRules[0].action", "required"),
                ("restartPolicyRules[0].exitCodes", "required"),
            ],
        ),
        (
            {
                "restartPolicy": "Never",
                "restartPolicyRules": [
                    {"action": "x", "exitCodes": {"operator": "x", "values": list(range(256))}}
                ],
            },
            [
                ("restartPolicyRules[0].action", "unsupported"),
                ("restartPolicyRules[0].exitCodes.operator", "unsupported"),
                ("restartPolicyRules[0].exitCodes.values", "too many"),
            ],
        ),
        (
            {
                "restartPolicy": "Never",
                "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In"}}] * 21,
            },
            [("restartPolicyRules", "too many")],
        ),
    ],
)
def test_restart_policies(fields: Spec, expected: Causes) -> None:
    """A container may say itself whether it is restarted, by its exit code, too."""
    assert expected == causes(validate_pod(pod_of(fields)))


def test_resizing_of_pods_that_do_not_restart() -> None:
    """Where nothing is restarted a change of resources cannot need it."""
    policy = {"resourceName": "cpu", "restartPolicy": "RestartContainer"}
    obj = pod(containers=[container(resizePolicy=[policy])], restartPolicy="Never")

    assert [("resizePolicy", "invalid")] == causes(validate_pod(obj))


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        ([container(name="i")], []),
        ([container()], [("initContainers[0].name", "duplicate")]),
        (
            [container(name="i", lifecycle={}, startupProbe={})],
            [
                ("initContainers[0].lifecycle", "forbidden"),
                ("initContainers[0].startupProbe", "forbidden"),
            ],
        ),
        (
            [container(name="i", restartPolicy="Always", lifecycle={}, livenessProbe={})],
            [("initContainers[0].livenessProbe", "required")],
        ),
    ],
)
def test_init_containers(containers: list[Spec], expected: Causes) -> None:
    """Only init containers that keep running are looked after."""
    assert expected == causes(validate_pod(pod(initContainers=containers)))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"targetContainerName": "c", "stdin": True}, []),
        ({"targetContainerName": "e"}, [("targetContainerName", "not found")]),
        ({"name": "c"}, [("name", "duplicate")]),
        (
            {"ports": [PORT], "volumeMounts": [{**MOUNT, "subPath": "a"}]},
            [("ports", "forbidden"), ("volumeMounts[0].subPath", "forbidden")],
        ),
    ],
)
def test_ephemeral_containers(fields: Spec, expected: Causes) -> None:
    """Ephemeral containers have less to say, and come later than the pod."""
    old = stored(
        ephemeralContainers=[container(**{"name": "e", **fields})], volumes=[{"name": "v"}]
    )
    errors = validate_pod_update(old, old)
    assert [(f"ephemeralContainers[0].{field}", why) for field, why in expected] == causes(errors)

    assert [("ephemeralContainers", "forbidden")] == causes(validate_pod(old))[len(expected) :]
