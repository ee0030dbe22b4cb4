"""Tests of what is wrong with probes and lifecycles."""

from __future__ import annotations

from typing import Any

import pytest

from apfproxy.api.core.pod_validation import validate_pod
from tests.api.core.pods import causes, pod_of

Spec = dict[str, Any]
Causes = list[tuple[str, str]]
EXEC = {"exec": {"command": ["true"]}}


@pytest.mark.parametrize(
    ("probe", "expected"),
    [
        (EXEC, []),
        ({}, [("", "required")]),
        ({"exec": {}}, [(".exec.command", "required")]),
        ({"httpGet": {"port": 80}}, []),
        ({"httpGet": {"port": "http", "scheme": "FTP"}}, [(".httpGet.scheme", "unsupported")]),
        ({"httpGet": {"port": 0}}, [(".httpGet.port", "invalid")]),
        (
            {"httpGet": {"port": 80, "httpHeaders": [{"name": "a b"}]}},
            [(".httpGet.httpHeaders", "invalid")],
        ),
        ({"tcpSocket": {"port": 70000}}, [(".tcpSocket.port", "invalid")]),
        ({"grpc": {"port": 80}}, []),
        ({**EXEC, "grpc": {"port": 80}}, [(".grpc", "forbidden")]),
        ({**EXEC, "timeoutSeconds": -1}, [(".timeoutSeconds", "invalid")]),
        (
            {**EXEC, "terminationGracePeriodSeconds": 0},
            [(".terminationGracePeriodSeconds", "invalid")],
        ),
        ({**EXEC, "terminationGracePeriodSeconds": 1}, []),
        ({**EXEC, "successThreshold": 2}, [(".successThreshold", "invalid")]),
    ],
)
def test_liveness(probe: Spec, expected: Causes) -> None:
    """A probe does one thing, in times that make sense."""
    errors = validate_pod(pod_of({"livenessProbe": probe}))

    assert [(f"livenessProbe{field}", reason) for field, reason in expected] == causes(errors)


def test_readiness() -> None:
    """Readiness may need several successes, and ends no container."""
    probe = {**EXEC, "successThreshold": 2, "terminationGracePeriodSeconds": 5}
    errors = validate_pod(pod_of({"readinessProbe": probe}))

    assert [("readinessProbe.terminationGracePeriodSeconds", "invalid")] == causes(errors)
    assert [] == validate_pod(pod_of({"readinessProbe": {**EXEC, "successThreshold": 2}}))


@pytest.mark.parametrize(
    ("lifecycle", "expected"),
    [
        ({}, []),
        ({"preStop": {"sleep": {"seconds": 0}}, "postStart": EXEC}, []),
        ({"preStop": {"sleep": {"seconds": 31}}}, [("lifecycle.preStop.sleep", "invalid")]),
        ({"postStart": {}}, [("lifecycle.postStart", "required")]),
    ],
)
def test_lifecycle(lifecycle: Spec, expected: Causes) -> None:
    """What is done at the end fits into the time that the pod gets."""
    assert expected == causes(validate_pod(pod_of({"lifecycle": lifecycle})))
