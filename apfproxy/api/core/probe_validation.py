"""What is wrong with probes and with what a container does when it starts and ends.

Source: Kubernetes API reference, "Probe" and "Lifecycle"; the cases that kube-apiserver refuses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.api.core.checks import check_header_name, filled, one_of, port
from apfproxy.api.field_errors import (
    NOT_NEGATIVE,
    FieldError,
    checked,
    forbidden,
    invalid,
    required,
)

if TYPE_CHECKING:
    from apfproxy.api.kind import Object

COUNTS = (
    "initialDelaySeconds",
    "timeoutSeconds",
    "periodSeconds",
    "successThreshold",
    "failureThreshold",
)
HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")


def validate_probes(container: Object, path: str) -> list[FieldError]:
    """All errors of what looks after a container: its probes and its lifecycle.

    Args:
        container: Any that may have probes.
        path: Of the container.
    """
    errors: list[FieldError] = []
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe = container.get(name)
        if probe is None:
            continue
        at = f"{path}.{name}"
        errors += validate_probe(probe, at)
        if name != "readinessProbe":
            count = probe.get("successThreshold", 0)
            if count != 1:
                errors.append(invalid(f"{at}.successThreshold", count, "must be 1"))
        elif "terminationGracePeriodSeconds" in probe:
            field, value = "terminationGracePeriodSeconds", probe["terminationGracePeriodSeconds"]
            errors.append(invalid(f"{at}.{field}", value, "must not be set for readinessProbes"))
    return errors


def validate_probe(probe: Object, path: str) -> list[FieldError]:
    """All errors that any probe can have."""
    errors = validate_handler(probe, path)
    for name in COUNTS:
        value = probe.get(name, 0)
        if value < 0:
            errors.append(invalid(f"{path}.{name}", value, NOT_NEGATIVE))
    grace_s = probe.get("terminationGracePeriodSeconds", 1)
    if grace_s <= 0:
        field = f"{path}.terminationGracePeriodSeconds"
        errors.append(invalid(field, grace_s, "must be greater than 0"))
    return errors


def validate_lifecycle(lifecycle: Object, grace_s: int, path: str) -> list[FieldError]:
    """All errors of what a container does when it starts and ends.

    Args:
        lifecycle: Of the container.
        grace_s: Seconds that the pod gets to end.
        path: Of the lifecycle.
    """
    errors: list[FieldError] = []
    for name in ("postStart", "preStop"):
        if name in lifecycle:
            errors += validate_handler(lifecycle[name], f"{path}.{name}", grace_s)
    return errors


def validate_handler(handler: Object, path: str, grace_s: int = 0) -> list[FieldError]:
    """All errors of what is to be done: there has to be exactly one thing."""
    given = [name for name in HANDLERS if name in handler]
    if not given:
        return [required(path, "must specify a handler type")]
    first, *others = given
    action, at = handler[first], f"{path}.{first}"
    errors: list[FieldError] = []
    if first == "exec":
        errors += filled(action, "command", at)
    elif first == "httpGet":
        errors += validate_http_get(action, at)
    elif first == "sleep":
        seconds = action["seconds"]
        if not 0 <= seconds <= grace_s:
            rule = "must be non-negative and less than terminationGracePeriodSeconds"
            errors.append(invalid(at, seconds, f"{rule} ({grace_s})"))
    else:
        errors += port(f"{at}.port", action["port"])
    errors += [
        forbidden(f"{path}.{name}", "may not specify more than 1 handler type") for name in others
    ]
    return errors


def validate_http_get(action: Object, path: str) -> list[FieldError]:
    """All errors of an HTTP request."""
    errors = filled(action, "path", path)
    errors += port(f"{path}.port", action["port"])
    errors += one_of(action, "scheme", path, ("HTTP", "HTTPS"), is_required=True)
    for header in action.get("httpHeaders", ()):
        errors += checked(f"{path}.httpHeaders", header.get("name", ""), check_header_name)
    return errors
