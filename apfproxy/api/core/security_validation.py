"""What is wrong with the security contexts of pods and containers.

Source: Kubernetes documentation, "Configure a Security Context for a Pod or Container"; the cases
that kube-apiserver refuses.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from apfproxy.api.core.checks import LARGEST_INT32, descending, number_in, one_of
from apfproxy.api.core.security_schema import PROFILE_TYPES
from apfproxy.api.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)

if TYPE_CHECKING:
    from apfproxy.api.kind import Object

LONGEST_SYSCTL = 253
SYSCTL_SEGMENT = re.compile("[a-z0-9]([-_a-z0-9]*[a-z0-9])?")
SYSCTL_RULE = (
    f"must have at most {LONGEST_SYSCTL} characters and match regex"
    r" ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"
)
NET_SYSCTLS = ("net.",)
IPC_SYSCTLS = ("kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue.")
USER_FIELDS = ("runAsUser", "runAsGroup")

WINDOWS_FORBIDS_OF_PODS = (
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "fsGroup",
    "fsGroupChangePolicy",
    "sysctls",
    "runAsUser",
    "runAsGroup",
    "supplementalGroups",
    "supplementalGroupsPolicy",
    "seLinuxChangePolicy",
)
WINDOWS_FORBIDS_OF_CONTAINERS = (
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
)
WINDOWS_FORBIDS_OF_SPECS = ("hostUsers", "hostPID", "hostIPC", "shareProcessNamespace")
NOT_ON_WINDOWS = "cannot be set for a windows pod"
NOT_ON_LINUX = "windows options cannot be set for a linux pod"


def validate_container_security(
    context: Object | None, path: str, *, has_host_users: bool
) -> list[FieldError]:
    """All errors of a container's security context.

    Args:
        context: None if it has none.
        path: Of it.
        has_host_users: Whether the pod uses the node's user ids.
    """
    if not context:
        return []
    errors: list[FieldError] = []
    may_not_escalate = context.get("allowPrivilegeEscalation") is False
    for name in USER_FIELDS:
        if name in context:
            errors += number_in(f"{path}.{name}", context[name], 0, LARGEST_INT32)
    if "procMount" in context:
        errors += one_of(context, "procMount", path, ("Default", "Unmasked"))
        if has_host_users and context["procMount"] == "Unmasked":
            detail = "`hostUsers` must be false to use `Unmasked`"
            errors.append(invalid(f"{path}.procMount", context["procMount"], detail))
    errors += validate_seccomp(context.get("seccompProfile"), f"{path}.seccompProfile")
    if may_not_escalate and context.get("privileged"):
        detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        errors.append(invalid(path, context, detail))
    if may_not_escalate and "CAP_SYS_ADMIN" in context.get("capabilities", {}).get("add", ()):
        detail = (
            "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
        )
        errors.append(invalid(path, context, detail))
    errors += validate_app_armor(context.get("appArmorProfile"), f"{path}.appArmorProfile")
    return errors


def validate_pod_security(spec: Object, path: str) -> list[FieldError]:
    """All errors of a pod's security context.

    Args:
        spec: Of the pod.
        path: Of the context.
    """
    context = spec.get("securityContext", {})
    errors: list[FieldError] = []
    for name in ("fsGroup", *USER_FIELDS):
        if name in context:
            errors += number_in(f"{path}.{name}", context[name], 0, LARGEST_INT32)
    for index, group in enumerate(context.get("supplementalGroups", ())):
        errors += number_in(f"{path}.supplementalGroups[{index}]", group, 0, LARGEST_INT32)
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        errors.append(invalid(f"{path}.shareProcessNamespace", value=True, detail=detail))
    errors += validate_sysctls(spec, context.get("sysctls", ()), f"{path}.sysctls")
    errors += one_of(context, "fsGroupChangePolicy", path, ("Always", "OnRootMismatch"))
    errors += validate_seccomp(context.get("seccompProfile"), f"{path}.seccompProfile")
    errors += validate_app_armor(context.get("appArmorProfile"), f"{path}.appArmorProfile")
    errors += one_of(context, "supplementalGroupsPolicy", path, ("Merge", "Strict"))
    errors += one_of(context, "seLinuxChangePolicy", path, ("MountOption", "Recursive"))
    return errors


def validate_sysctls(
    spec: Object, sysctls: list[Object] | tuple[()], path: str
) -> list[FieldError]:
    """All errors of kernel parameters."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, sysctl in enumerate(sysctls):
        field, name = f"{path}[{index}].name", sysctl.get("name", "")
        segments = name.replace("/", ".").split(".")
        if not name:
            errors.append(required(field))
        elif len(name) > LONGEST_SYSCTL or not all(map(SYSCTL_SEGMENT.fullmatch, segments)):
            errors.append(invalid(field, name, SYSCTL_RULE))
        elif name in seen:
            errors.append(duplicate(field, name))
        seen.add(name)
        dotted = ".".join(segments)
        for host_field, prefixes in (("hostNetwork", NET_SYSCTLS), ("hostIPC", IPC_SYSCTLS)):
            if spec.get(host_field) and dotted.startswith(prefixes):
                detail = f"may not be specified when '{host_field}' is true"
                errors.append(invalid(field, name, detail))
                break
    return errors


def validate_seccomp(profile: Object | None, path: str) -> list[FieldError]:
    """All errors of a seccomp profile."""
    if profile is None:
        return []
    errors: list[FieldError] = []
    kind, local = profile.get("type", ""), profile.get("localhostProfile")
    if not kind:
        errors.append(required(f"{path}.type", "type is required when seccompProfile is set"))
    elif kind not in PROFILE_TYPES:
        errors.append(not_supported(f"{path}.type", kind, PROFILE_TYPES))
    field = f"{path}.localhostProfile"
    if kind == "Localhost":
        if local is None:
            errors.append(required(field, "must be set when seccomp type is Localhost"))
        else:
            errors += descending(field, local)
    elif local is not None:
        detail = "can only be set when seccomp type is Localhost"
        errors.append(invalid(field, profile, detail))
    return errors


def validate_app_armor(profile: Object | None, path: str) -> list[FieldError]:
    """All errors of an AppArmor profile."""
    if profile is None:
        return []
    kind, local = profile.get("type", ""), profile.get("localhostProfile")
    field = f"{path}.localhostProfile"
    if not kind:
        return [required(f"{path}.type", "type is required when appArmorProfile is set")]
    if kind not in PROFILE_TYPES:
        return [not_supported(f"{path}.type", kind, PROFILE_TYPES)]
    if kind != "Localhost":
        detail = "can only be set when AppArmor type is Localhost"
        return [] if local is None else [invalid(field, local, detail)]
    if local is not None and local != local.strip():
        return [invalid(field, local, "must not be padded with whitespace")]
    if not local:
        return [required(field, "must be set when AppArmor type is Localhost")]
    return []


def validate_os(spec: Object, path: str) -> list[FieldError]:
    """All errors of what does not go with the operating system that the pod names."""
    system = spec.get("os")
    if system is None:
        return []
    name = system.get("name", "")
    if not name:
        return [required(f"{path}.os.name")]
    if name not in {"linux", "windows"}:
        return [not_supported(f"{path}.os", name, ("linux", "windows"))]
    contexts = [(spec.get("securityContext", {}), f"{path}.securityContext")]
    for field in ("initContainers", "containers", "ephemeralContainers"):
        contexts += [
            (container.get("securityContext", {}), f"{path}.{field}[{index}].securityContext")
            for index, container in enumerate(spec.get(field) or ())
        ]
    if name == "linux":
        return [
            forbidden(f"{at}.windowsOptions", NOT_ON_LINUX)
            for context, at in contexts
            if "windowsOptions" in context
        ]
    errors = [
        forbidden(f"{path}.{field}", NOT_ON_WINDOWS)
        for field in WINDOWS_FORBIDS_OF_SPECS
        if field in spec
    ]
    for number, (context, at) in enumerate(contexts):
        fields = WINDOWS_FORBIDS_OF_CONTAINERS if number else WINDOWS_FORBIDS_OF_PODS
        errors += [
            forbidden(f"{at}.{field}", NOT_ON_WINDOWS) for field in fields if field in context
        ]
    return errors
