"""What absent fields of pods and namespaces stand for.

Objects have the canonical form of their schema: structs that are no pointers are there.

Source: Kubernetes API reference, the fields' defaults.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apfproxy.api.core.images import pull_policy
from apfproxy.api.core.resources import (
    containers_of,
    default_pod_resources,
    default_requests,
    round_up,
)

if TYPE_CHECKING:
    from apfproxy.api.kind import Object

FILE_MODE = 0o644
TERMINATION_MESSAGE_PATH = "/dev/termination-log"
GRACE_PERIOD_S = 30
TOKEN_LIFETIME_S = 3600
CERTIFICATE_LIFETIME_S = 24 * 3600
NAME_LABEL = "kubernetes.io/metadata.name"
"""The label that every namespace has: its name."""

CONTAINER_FIELDS = ("containers", "initContainers", "ephemeralContainers")
PROBES = ("livenessProbe", "readinessProbe", "startupProbe")

VOLUME_DEFAULTS: dict[str, dict[str, Any]] = {
    "secret": {"defaultMode": FILE_MODE},
    "configMap": {"defaultMode": FILE_MODE},
    "downwardAPI": {"defaultMode": FILE_MODE},
    "projected": {"defaultMode": FILE_MODE},
    "hostPath": {"type": ""},
    "iscsi": {"iscsiInterface": "default"},
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "azureDisk": {
        "cachingMode": "ReadWrite",
        "fsType": "ext4",
        "readOnly": False,
        "kind": "Shared",
    },
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
}
"""Volume source to what its absent fields stand for."""


def set_namespace_defaults(obj: Object) -> None:
    """Complete a namespace: it has its name as a label, and a phase."""
    metadata = obj["metadata"]
    if metadata.get("name"):
        metadata["labels"] = {**metadata.get("labels", {}), NAME_LABEL: metadata["name"]}
    obj["status"].setdefault("phase", "Active")


def set_pod_defaults(obj: Object) -> None:
    """Complete a pod."""
    spec: dict[str, Any] = obj["spec"]
    for field in CONTAINER_FIELDS:
        for container in containers_of(spec, field):
            set_container_defaults(container)
    for field in CONTAINER_FIELDS[:2]:
        for container in containers_of(spec, field):
            default_requests(container["resources"])
            if spec.get("hostNetwork"):
                for port in container.get("ports", ()):
                    port.setdefault("hostPort", port["containerPort"])
    for volume in spec.get("volumes", ()):
        set_volume_defaults(volume)
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", GRACE_PERIOD_S)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("enableServiceLinks", True)
    # The older name of the field is read where the newer one is not set, and always written.
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for amounts in (spec.get("overhead"), *(spec.get("resources") or {}).values()):
        if isinstance(amounts, dict):
            round_up(amounts)
    default_pod_resources(spec)
    set_pod_ip(obj["status"])


def set_pod_ip(status: Object) -> None:
    """Make the one address and the list of all agree: the list counts if it begins with it."""
    addresses = status.get("podIPs", [])
    address = status.get("podIP")
    if address and (not addresses or addresses[0]["ip"] != address):
        status["podIPs"] = [{"ip": address}]
    elif addresses:
        status["podIP"] = addresses[0]["ip"]


def set_container_defaults(container: Object) -> None:
    """Complete a container of any kind."""
    container.setdefault("terminationMessagePath", TERMINATION_MESSAGE_PATH)
    container.setdefault("terminationMessagePolicy", "File")
    if "imagePullPolicy" not in container:
        container["imagePullPolicy"] = pull_policy(container.get("image", ""))
    for port in container.get("ports", ()):
        port.setdefault("protocol", "TCP")
    for variable in container.get("env", ()):
        source = variable.get("valueFrom", {})
        set_field_ref_defaults(source)
        if "fileKeyRef" in source:
            source["fileKeyRef"].setdefault("optional", False)
    for amounts in container["resources"].values():
        if isinstance(amounts, dict):
            round_up(amounts)
    for name in PROBES:
        if name in container:
            set_probe_defaults(container[name])
    lifecycle = container.get("lifecycle", {})
    for name in ("postStart", "preStop"):
        set_http_defaults(lifecycle.get(name, {}))


def set_field_ref_defaults(source: Object) -> None:
    """Complete the name of a pod's field, if the source has one."""
    if "fieldRef" in source:
        source["fieldRef"].setdefault("apiVersion", "v1")


def set_http_defaults(handler: Object) -> None:
    """Complete an HTTP request, if the handler makes one."""
    if "httpGet" in handler:
        handler["httpGet"].setdefault("path", "/")
        handler["httpGet"].setdefault("scheme", "HTTP")


def set_probe_defaults(probe: Object) -> None:
    """Complete a probe."""
    probe.setdefault("timeoutSeconds", 1)
    probe.setdefault("periodSeconds", 10)
    probe.setdefault("successThreshold", 1)
    probe.setdefault("failureThreshold", 3)
    set_http_defaults(probe)
    if "grpc" in probe and probe["grpc"].get("service") is None:
        probe["grpc"]["service"] = ""


def set_volume_defaults(volume: Object) -> None:
    """Complete a volume; without any source it is an empty directory."""
    if len(volume) == 1:
        volume["emptyDir"] = {}
    for source, defaults in VOLUME_DEFAULTS.items():
        if source in volume:
            for field, value in defaults.items():
                volume[source].setdefault(field, value)
    for file in volume.get("downwardAPI", {}).get("items", ()):
        set_field_ref_defaults(file)
    for source in volume.get("projected", {}).get("sources") or ():
        set_projection_defaults(source)
    if "image" in volume and "pullPolicy" not in volume["image"]:
        volume["image"]["pullPolicy"] = pull_policy(volume["image"].get("reference", ""))
    template = volume.get("ephemeral", {}).get("volumeClaimTemplate")
    if template:
        template["spec"].setdefault("volumeMode", "Filesystem")
        for amounts in template["spec"]["resources"].values():
            round_up(amounts)


def set_projection_defaults(source: Object) -> None:
    """Complete one source of a projected volume."""
    for file in source.get("downwardAPI", {}).get("items", ()):
        set_field_ref_defaults(file)
    if "serviceAccountToken" in source:
        source["serviceAccountToken"].setdefault("expirationSeconds", TOKEN_LIFETIME_S)
    if "podCertificate" in source:
        source["podCertificate"].setdefault("maxExpirationSeconds", CERTIFICATE_LIFETIME_S)
