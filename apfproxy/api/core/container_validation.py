"""What is wrong with containers.

Source: Kubernetes API reference, "Container"; the cases that kube-apiserver refuses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from apfproxy.api.core.checks import (
    backsteps,
    check_port_name,
    check_variable_name,
    descending,
    filled,
    named,
    one_of,
    port,
)
from apfproxy.api.core.container_schema import MESSAGE_POLICIES, PROTOCOLS, PULL_POLICIES
from apfproxy.api.core.pod_schema import RESTART_POLICIES
from apfproxy.api.core.probe_validation import validate_lifecycle, validate_probes
from apfproxy.api.core.resource_validation import validate_resources
from apfproxy.api.core.resources import COMPUTE, containers_of
from apfproxy.api.core.security_validation import validate_container_security
from apfproxy.api.core.volume_validation import (
    VARIABLE_FIELDS,
    validate_field_ref,
    validate_key_selector,
    validate_resource_ref,
)
from apfproxy.api.field_errors import (
    FieldError,
    checked,
    duplicate,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
    too_many,
)
from apfproxy.api.names import check_dns_label, check_dns_subdomain

if TYPE_CHECKING:
    from apfproxy.api.kind import Object

MOST_RESTART_RULES = 20
MOST_EXIT_CODES = 255
NOT_FOR_PLAIN_INIT = "may not be set for init containers without restartPolicy=Always"
NOT_FOR_EPHEMERAL = "cannot be set for an Ephemeral Container"

EPHEMERAL_FIELDS = frozenset(
    {
        "name",
        "image",
        "command",
        "args",
        "workingDir",
        "envFrom",
        "env",
        "volumeMounts",
        "volumeDevices",
        "terminationMessagePath",
        "terminationMessagePolicy",
        "imagePullPolicy",
        "securityContext",
        "stdin",
        "stdinOnce",
        "tty",
        "targetContainerName",
    }
)
"""Fields that ephemeral containers may have."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a container's validity depends on.

    Attributes:
        spec: Of the pod.
        volumes: The pod's volumes that nothing is wrong with, by name.
        claims: Names of the pod's claims.
        grace_s: Seconds that the pod gets to end.
    """

    spec: Object
    volumes: dict[str, dict[str, Any]]
    claims: frozenset[str]
    grace_s: int

    @property
    def has_host_users(self) -> bool:
        """Whether the pod uses the node's user ids."""
        return self.spec.get("hostUsers") is not False


def validate_containers(around: Surroundings, path: str) -> list[FieldError]:
    """All errors of the containers of a pod, of all three lists.

    Args:
        around: Of the pod.
        path: Of the pod's specification.
    """
    spec = around.spec
    containers = containers_of(spec)
    names: set[str] = set()
    if containers:
        errors = validate_main_containers(around, names, f"{path}.containers")
    else:
        errors = [required(f"{path}.containers")]
    errors += validate_init_containers(around, names, f"{path}.initContainers")
    errors += validate_ephemeral_containers(around, names, f"{path}.ephemeralContainers")
    return errors


def validate_main_containers(around: Surroundings, names: set[str], path: str) -> list[FieldError]:
    """All errors of the containers that make up the pod; their names are noted."""
    errors: list[FieldError] = []
    for index, container in enumerate(containers_of(around.spec)):
        at = f"{path}[{index}]"
        errors += validate_container(container, around, at)
        errors += unique_name(container, names, at)
        errors += validate_lifecycle(
            container.get("lifecycle", {}), around.grace_s, f"{at}.lifecycle"
        )
        errors += validate_probes(container, at)
        errors += validate_restart_policy(container, at)
    return errors + host_port_conflicts(containers_of(around.spec), path)


def validate_init_containers(around: Surroundings, names: set[str], path: str) -> list[FieldError]:
    """All errors of init containers; their names are noted."""
    errors: list[FieldError] = []
    for index, container in enumerate(containers_of(around.spec, "initContainers")):
        at = f"{path}[{index}]"
        errors += validate_container(container, around, at)
        errors += validate_restart_policy(container, at)
        errors += unique_name(container, names, at)
        # Kubernetes judges each alone, and thus calls each the first.
        errors += host_port_conflicts([container], path)
        if container.get("restartPolicy") == "Always":
            lifecycle = container.get("lifecycle", {})
            errors += validate_lifecycle(lifecycle, around.grace_s, f"{at}.lifecycle")
            errors += validate_probes(container, at)
        else:
            errors += [
                forbidden(f"{at}.{field}", NOT_FOR_PLAIN_INIT)
                for field in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
                if field in container
            ]
    return errors


def validate_ephemeral_containers(
    around: Surroundings, names: set[str], path: str
) -> list[FieldError]:
    """All errors of ephemeral containers."""
    errors: list[FieldError] = []
    others = set(names)
    for index, container in enumerate(containers_of(around.spec, "ephemeralContainers")):
        at = f"{path}[{index}]"
        errors += validate_container(container, around, at)
        errors += unique_name(container, names, at)
        target = container.get("targetContainerName")
        if target and target not in others:
            errors.append(not_found(f"{at}.targetContainerName", target))
        errors += [
            forbidden(f"{at}.{field}", NOT_FOR_EPHEMERAL)
            for field, value in container.items()
            if field not in EPHEMERAL_FIELDS and value
        ]
        errors += [
            forbidden(f"{at}.volumeMounts[{number}].{field}", NOT_FOR_EPHEMERAL)
            for number, mount in enumerate(container.get("volumeMounts", ()))
            for field in ("subPath", "subPathExpr")
            if field in mount
        ]
    return errors


def unique_name(container: dict[str, Any], names: set[str], path: str) -> list[FieldError]:
    """The error of a name that another container has; the name is noted."""
    name = container.get("name", "")
    if name in names:
        return [duplicate(f"{path}.name", name)]
    names.add(name)
    return []


def validate_container(
    container: dict[str, Any], around: Surroundings, path: str
) -> list[FieldError]:
    """All errors that a container of any kind can have."""
    errors = named(container, "name", path, check_dns_label)
    image = container.get("image", "")
    if not image:
        errors.append(required(f"{path}.image"))
    elif image != image.strip():
        detail = "must not have leading or trailing whitespace"
        errors.append(invalid(f"{path}.image", image, detail))
    errors += one_of(
        container, "terminationMessagePolicy", path, MESSAGE_POLICIES, is_required=True
    )
    errors += validate_ports(container.get("ports", ()), f"{path}.ports")
    errors += validate_variables(container.get("env", ()), f"{path}.env")
    errors += validate_variable_sources(container.get("envFrom", ()), f"{path}.envFrom")
    errors += validate_mounts(container, around, f"{path}.volumeMounts")
    errors += validate_devices(container, around, f"{path}.volumeDevices")
    errors += one_of(container, "imagePullPolicy", path, PULL_POLICIES, is_required=True)
    errors += validate_resources(container["resources"], f"{path}.resources", around.claims)
    errors += validate_resize_policies(container, around, f"{path}.resizePolicy")
    errors += validate_container_security(
        container.get("securityContext"),
        f"{path}.securityContext",
        has_host_users=around.has_host_users,
    )
    return errors


def validate_ports(ports: list[dict[str, Any]] | tuple[()], path: str) -> list[FieldError]:
    """All errors of the ports that a container serves."""
    errors: list[FieldError] = []
    names: set[str] = set()
    for index, one in enumerate(ports):
        at = f"{path}[{index}]"
        name = one.get("name", "")
        if name:
            wrong = checked(f"{at}.name", name, check_port_name)
            if not wrong and name in names:
                wrong = [duplicate(f"{at}.name", name)]
            names.add(name)
            errors += wrong
        if one["containerPort"] == 0:
            errors.append(required(f"{at}.containerPort"))
        else:
            errors += port(f"{at}.containerPort", one["containerPort"])
        if "hostPort" in one:
            errors += port(f"{at}.hostPort", one["hostPort"])
        errors += one_of(one, "protocol", at, PROTOCOLS, is_required=True)
    return errors


def host_port_conflicts(containers: list[dict[str, Any]], path: str) -> list[FieldError]:
    """The errors of ports of the node that are mapped to twice."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, container in enumerate(containers):
        for number, one in enumerate(container.get("ports", ())):
            if not one.get("hostPort"):
                continue
            key = f"{one.get('protocol', '')}/{one.get('hostIP', '')}/{one['hostPort']}"
            if key in seen:
                errors.append(duplicate(f"{path}[{index}].ports[{number}].hostPort", key))
            seen.add(key)
    return errors


def validate_variables(variables: list[dict[str, Any]] | tuple[()], path: str) -> list[FieldError]:
    """All errors of environment variables."""
    errors: list[FieldError] = []
    for index, variable in enumerate(variables):
        at = f"{path}[{index}]"
        errors += named(variable, "name", at, check_variable_name)
        if "valueFrom" in variable:
            has_value = bool(variable.get("value"))
            errors += validate_value_from(
                variable["valueFrom"], f"{at}.valueFrom", has_value=has_value
            )
    return errors


def validate_value_from(source: dict[str, Any], path: str, *, has_value: bool) -> list[FieldError]:
    """All errors of where a variable's value comes from."""
    errors: list[FieldError] = []
    if "fieldRef" in source:
        errors += validate_field_ref(source["fieldRef"], VARIABLE_FIELDS, f"{path}.fieldRef")
    if "resourceFieldRef" in source:
        at = f"{path}.resourceFieldRef"
        errors += validate_resource_ref(source["resourceFieldRef"], at, is_in_volume=False)
    for name in ("configMapKeyRef", "secretKeyRef"):
        if name in source:
            errors += validate_key_selector(source[name], f"{path}.{name}")
    if "fileKeyRef" in source:
        errors += validate_file_key(source["fileKeyRef"], f"{path}.fileKeyRef")
    if not source:
        detail = (
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`,"
            " `secretKeyRef` or `fileKeyRef`"
        )
        errors.append(invalid(path, "", detail))
    elif has_value:
        errors.append(invalid(path, "", "may not be specified when `value` is not empty"))
    elif len(source) > 1:
        detail = "may not have more than one field specified at a time"
        errors.append(invalid(path, "", detail))
    return errors


def validate_file_key(selector: dict[str, Any], path: str) -> list[FieldError]:
    """All errors of the name of a key in a file of variables."""
    errors = named(selector, "key", path, check_variable_name)
    errors += named(selector, "volumeName", path, check_dns_label)
    errors += filled(selector, "path", path)
    return errors + descending(f"{path}.path", selector.get("path", ""))


def validate_variable_sources(
    sources: list[dict[str, Any]] | tuple[()], path: str
) -> list[FieldError]:
    """All errors of objects whose keys become variables; Kubernetes does not number some."""
    errors: list[FieldError] = []
    for index, source in enumerate(sources):
        at = f"{path}[{index}]"
        if "prefix" in source:
            errors += checked(f"{at}.prefix", source["prefix"], check_variable_name)
        given = [name for name in ("configMapRef", "secretRef") if name in source]
        for name in given:
            errors += named(source[name], "name", f"{at}.{name}", check_dns_subdomain)
        if not given:
            detail = "must specify one of: `configMapRef` or `secretRef`"
            errors.append(invalid(path, "", detail))
        elif len(given) > 1:
            detail = "may not have more than one field specified at a time"
            errors.append(invalid(path, "", detail))
    return errors


def validate_mounts(container: dict[str, Any], around: Surroundings, path: str) -> list[FieldError]:
    """All errors of where a container sees volumes; Kubernetes does not number some."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    devices = container.get("volumeDevices", ())
    device_names = {device.get("name") for device in devices}
    device_paths = {device.get("devicePath") for device in devices}
    for index, mount in enumerate(container.get("volumeMounts", ())):
        at = f"{path}[{index}]"
        name, mount_path = mount.get("name", ""), mount.get("mountPath", "")
        errors += filled(mount, "name", at)
        if name not in around.volumes:
            errors.append(not_found(f"{at}.name", name))
        errors += filled(mount, "mountPath", at)
        if mount_path in seen:
            errors.append(invalid(f"{at}.mountPath", mount_path, "must be unique"))
        seen.add(mount_path)
        if name in device_names:
            detail = "must not already exist in volumeDevices"
            errors.append(invalid(f"{at}.name", name, detail))
        if mount_path in device_paths:
            detail = "must not already exist as a path in volumeDevices"
            errors.append(invalid(f"{at}.mountPath", mount_path, detail))
        errors += validate_sub_paths(mount, path)
        if "mountPropagation" in mount:
            errors += validate_propagation(mount, container, path)
        errors += validate_recursion(mount, path)
    return errors


def validate_sub_paths(mount: dict[str, Any], path: str) -> list[FieldError]:
    """All errors of the part of a volume that is mounted."""
    errors: list[FieldError] = []
    plain, with_variables = mount.get("subPath"), mount.get("subPathExpr")
    if plain:
        errors += descending(f"{path}.subPath", plain)
    if with_variables:
        if plain:
            detail = "subPathExpr and subPath are mutually exclusive"
            errors.append(invalid(f"{path}.subPathExpr", with_variables, detail))
        errors += descending(f"{path}.subPathExpr", with_variables)
    return errors


def validate_propagation(
    mount: dict[str, Any], container: dict[str, Any], path: str
) -> list[FieldError]:
    """All errors of which way mounts below a volume are seen."""
    errors = one_of(mount, "mountPropagation", path, ("Bidirectional", "HostToContainer", "None"))
    is_privileged = container.get("securityContext", {}).get("privileged")
    if mount["mountPropagation"] == "Bidirectional" and not is_privileged:
        detail = "Bidirectional mount propagation is available only to privileged containers"
        errors.append(forbidden(f"{path}.mountPropagation", detail))
    return errors


def validate_recursion(mount: dict[str, Any], path: str) -> list[FieldError]:
    """All errors of whether mounts below a volume are read-only too."""
    field, value = f"{path}.recursiveReadOnly", mount.get("recursiveReadOnly")
    if value in {None, "Disabled"}:
        return []
    if value not in {"Enabled", "IfPossible"}:
        return [not_supported(field, value, ("Disabled", "Enabled", "IfPossible"))]
    errors: list[FieldError] = []
    if not mount.get("readOnly"):
        errors.append(forbidden(field, "may only be specified when readOnly is true"))
    if mount.get("mountPropagation", "None") != "None":
        detail = "may only be specified when mountPropagation is None or not specified"
        errors.append(forbidden(field, detail))
    return errors


def validate_devices(
    container: dict[str, Any], around: Surroundings, path: str
) -> list[FieldError]:
    """All errors of block devices."""
    errors: list[FieldError] = []
    names: set[str] = set()
    paths: set[str] = set()
    mounts = container.get("volumeMounts", ())
    mount_names = {mount.get("name") for mount in mounts}
    mount_paths = {mount.get("mountPath") for mount in mounts}
    for index, device in enumerate(container.get("volumeDevices", ())):
        at = f"{path}[{index}]"
        name, device_path = device.get("name", ""), device.get("devicePath", "")
        volume = around.volumes.get(name)
        errors += filled(device, "name", at)
        if name in names:
            errors.append(invalid(f"{at}.name", name, "must be unique"))
        if volume is None:
            errors.append(not_found(f"{at}.name", name))
        elif "persistentVolumeClaim" not in volume and "ephemeral" not in volume:
            detail = (
                "can only use volume source type of PersistentVolumeClaim or Ephemeral for block"
                " mode"
            )
            errors.append(invalid(f"{at}.name", name, detail))
        errors += filled(device, "devicePath", at)
        if device_path in paths:
            errors.append(invalid(f"{at}.devicePath", device_path, "must be unique"))
        if backsteps(at, device_path):
            detail = "can not contain backsteps ('..')"
            errors.append(invalid(f"{at}.devicePath", device_path, detail))
        if name in mount_names:
            detail = "must not already exist in volumeMounts"
            errors.append(invalid(f"{at}.name", name, detail))
        if device_path in mount_paths:
            detail = "must not already exist as a path in volumeMounts"
            errors.append(invalid(f"{at}.devicePath", device_path, detail))
        names.add(name)
        paths.add(device_path)
    return errors


def validate_resize_policies(
    container: dict[str, Any], around: Surroundings, path: str
) -> list[FieldError]:
    """All errors of what a change of resources means."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    choices = ("NotRequired", "RestartContainer")
    for index, policy in enumerate(container.get("resizePolicy", ())):
        name, restart = policy.get("resourceName", ""), policy.get("restartPolicy", "")
        if name in seen:
            errors.append(duplicate(f"{path}[{index}]", name))
        seen.add(name)
        for value, supported in ((name, COMPUTE), (restart, choices)):
            if not value:
                errors.append(required(path))
            elif value not in supported:
                errors.append(not_supported(path, value, supported))
        if around.spec.get("restartPolicy") == "Never" and restart != "NotRequired":
            detail = "must be 'NotRequired' when `restartPolicy` is 'Never'"
            errors.append(invalid(path, restart, detail))
    return errors


def validate_restart_policy(container: dict[str, Any], path: str) -> list[FieldError]:
    """All errors of a container's own restart policy, and of its exceptions."""
    errors = one_of(container, "restartPolicy", path, RESTART_POLICIES)
    rules = container.get("restartPolicyRules", ())
    at = f"{path}.restartPolicyRules"
    if rules and "restartPolicy" not in container:
        detail = "must specify restartPolicy when restart rules are used"
        errors.append(required(f"{path}.restartPolicy", detail))
    if len(rules) > MOST_RESTART_RULES:
        errors.append(too_many(at, len(rules), MOST_RESTART_RULES))
    for index, rule in enumerate(rules):
        field = f"{at}[{index}]"
        errors += one_of(
            rule, "action", field, ("Restart", "RestartAllContainers"), is_required=True
        )
        codes = rule.get("exitCodes")
        if codes is None:
            errors.append(required(f"{field}.exitCodes", "must be specified"))
            continue
        errors += one_of(codes, "operator", f"{field}.exitCodes", ("In", "NotIn"), is_required=True)
        count = len(codes.get("values", ()))
        if count > MOST_EXIT_CODES:
            values = f"{field}.exitCodes.values"
            errors.append(too_many(values, count, MOST_EXIT_CODES))
    return errors
