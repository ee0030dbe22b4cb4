"""Tests of what is wrong with security contexts."""

from __future__ import annotations

from typing import Any

import pytest

from apfproxy.api.core.pod_validation import validate_pod
from tests.api.core.pods import causes, container, pod, pod_of

Spec = dict[str, Any]
Causes = list[tuple[str, str]]
CONTEXT = "securityContext"


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        ({}, []),
        ({"runAsUser": 1000, "privileged": True}, []),
        ({"runAsUser": -1}, [("runAsUser", "invalid")]),
        ({"runAsGroup": 2**31}, [("runAsGroup", "invalid")]),
        ({"procMount": "Default"}, []),
        ({"procMount": "Unmasked"}, [("procMount", "invalid")]),
        ({"procMount": "x"}, [("procMount", "unsupported")]),
        ({"allowPrivilegeEscalation": False, "privileged": True}, [("", "invalid")]),
        (
            {"allowPrivilegeEscalation": False, "capabilities": {"add": ["CAP_SYS_ADMIN"]}},
            [("", "invalid")],
        ),
        ({"seccompProfile": {"type": "RuntimeDefault"}}, []),
        ({"seccompProfile": {}}, [("seccompProfile.type", "required")]),
        ({"seccompProfile": {"type": "x"}}, [("seccompProfile.type", "unsupported")]),
        (
            {"seccompProfile": {"type": "Localhost"}},
            [("seccompProfile.localhostProfile", "required")],
        ),
        (
            {"seccompProfile": {"type": "Localhost", "localhostProfile": "/a"}},
            [("seccompProfile.localhostProfile", "invalid")],
        ),
        (
            {"seccompProfile": {"type": "Unconfined", "localhostProfile": "a"}},
            [("seccompProfile.localhostProfile", "invalid")],
        ),
        ({"appArmorProfile": {"type": "Unconfined"}}, []),
        ({"appArmorProfile": {}}, [("appArmorProfile.type", "required")]),
        ({"appArmorProfile": {"type": "x"}}, [("appArmorProfile.type", "unsupported")]),
        (
            {"appArmorProfile": {"type": "Unconfined", "localhostProfile": "a"}},
            [("appArmorProfile.localhostProfile", "invalid")],
        ),
        ({"appArmorProfile": {"type": "Localhost", "localhostProfile": "a"}}, []),
        (
            {"appArmorProfile": {"type": "Localhost", "localhostProfile": " a"}},
            [("appArmorProfile.localhostProfile", "invalid")],
        ),
        (
            {"appArmorProfile": {"type": "Localhost"}},
            [("appArmorProfile.localhostProfile", "required")],
        ),
    ],
)
def test_containers(context: Spec, expected: Causes) -> None:
    """A container's rights do not contradict each other."""
    errors = validate_pod(pod_of({CONTEXT: context}))

    assert [(f"{CONTEXT}.{field}".rstrip("."), reason) for field, reason in expected] == causes(
        errors
    )


def test_own_user_ids() -> None:
    """With user ids of its own a pod may see all of /proc, and shares nothing with the node."""
    obj = pod(containers=[container(securityContext={"procMount": "Unmasked"})], hostUsers=False)
    assert [] == validate_pod(obj)

    obj = pod(hostUsers=False, hostNetwork=True, hostPID=True, hostIPC=True)
    expected = [("hostNetwork", "forbidden"), ("HostPID", "forbidden"), ("HostIPC", "forbidden")]
    assert expected == causes(validate_pod(obj))


@pytest.mark.parametrize(
    ("context", "spec", "expected"),
    [
        ({"fsGroup": 1, "supplementalGroups": [1]}, {}, []),
        ({"fsGroup": -1}, {}, [("fsGroup", "invalid")]),
        ({"supplementalGroups": [1, -1]}, {}, [("supplementalGroups[1]", "invalid")]),
        (
            {},
            {"hostPID": True, "shareProcessNamespace": True},
            [("shareProcessNamespace", "invalid")],
        ),
        ({"fsGroupChangePolicy": "x"}, {}, [("fsGroupChangePolicy", "unsupported")]),
        ({"supplementalGroupsPolicy": "x"}, {}, [("supplementalGroupsPolicy", "unsupported")]),
        ({"seLinuxChangePolicy": "x"}, {}, [("seLinuxChangePolicy", "unsupported")]),
        ({"sysctls": [{"name": "net.a/b", "value": "1"}]}, {}, []),
        (
            {"sysctls": [{}, {"name": "A"}, {"name": "a"}, {"name": "a"}, {"name": "a" * 254}]},
            {},
            [
                ("sysctls[0].name", "required"),
                ("sysctls[1].name", "invalid"),
                ("sysctls[3].name", "duplicate"),
                ("sysctls[4].name", "invalid"),
            ],
        ),
        ({"sysctls": [{"name": "net.a"}]}, {"hostNetwork": True}, [("sysctls[0].name", "invalid")]),
        (
            {"sysctls": [{"name": "kernel.shm_a"}]},
            {"hostIPC": True},
            [("sysctls[0].name", "invalid")],
        ),
    ],
)
def test_pods(context: Spec, spec: Spec, expected: Causes) -> None:
    """A pod's rights are known and in range."""
    errors = validate_pod(pod(securityContext=context, **spec))

    assert [(f"{CONTEXT}.{field}", reason) for field, reason in expected] == causes(errors)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"os": {"name": "linux"}}, []),
        ({"os": {}}, [("os.name", "required")]),
        ({"os": {"name": "plan9"}}, [("os", "unsupported")]),
        (
            {"os": {"name": "linux"}, CONTEXT: {"windowsOptions": {}}},
            [("securityContext.windowsOptions", "forbidden")],
        ),
        ({"os": {"name": "windows"}}, []),
        (
            {"os": {"name": "windows"}, "hostPID": True, CONTEXT: {"runAsUser": 1}},
            [("hostPID", "forbidden"), ("securityContext.runAsUser", "forbidden")],
        ),
        (
            {
                "os": {"name": "windows"},
                "initContainers": [container(name="i", securityContext={"privileged": True})],
            },
            [("initContainers[0].securityContext.privileged", "forbidden")],
        ),
    ],
)
def test_operating_systems(spec: Spec, expected: Causes) -> None:
    """What an operating system does not have cannot be asked of it."""
    assert expected == causes(validate_pod(pod(**spec)))
