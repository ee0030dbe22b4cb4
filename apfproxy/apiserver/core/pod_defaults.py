"""What absent fields of pods stand for.

Objects have the canonical form of their schema: structs that are no pointers are there.

Sources: Kubernetes API reference, the fields' defaults; the reference grammar of the OCI
distribution specification (names of images).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from apfproxy.apiserver.core.resources import containers_of

if TYPE_CHECKING:
    from apfproxy.objects.types import Object

TERMINATION_MESSAGE_PATH = "/dev/termination-log"
GRACE_PERIOD_S = 30

LONGEST_NAME = 255
"""Characters of an image's name, registry included; Kubernetes' limit, too."""
LONGEST_IMAGE = 1_000
"""Longer ones have no valid name, tag and digest."""

DOMAIN_LABEL = "[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
DOMAIN = rf"(?:{DOMAIN_LABEL}(?:\.{DOMAIN_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
COMPONENT = "[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
TAG = "[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"
DIGEST = "[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}"
IMAGE = re.compile(rf"((?:{DOMAIN}/)?{COMPONENT}(?:/{COMPONENT})*)(?::({TAG}))?(?:@({DIGEST}))?")
IDENTIFIER = re.compile("[a-f0-9]{64}")
"""An image's own digest, which is no name."""


def set_pod_defaults(obj: Object) -> None:
    """Complete a pod; what a container only limits, it requests."""
    spec: dict[str, Any] = obj["spec"]
    set_pod_spec_defaults(spec)
    for container in (*containers_of(spec), *containers_of(spec, "initContainers")):
        resources = container["resources"]
        if "limits" in resources:
            resources["requests"] = {**resources["limits"], **resources.get("requests", {})}
    spec.setdefault("enableServiceLinks", True)
    set_pod_ip(obj["status"])


def set_pod_spec_defaults(spec: dict[str, Any]) -> None:
    """Complete the specification of a pod, or of a template of pods."""
    for field in ("containers", "initContainers"):
        for container in containers_of(spec, field):
            set_container_defaults(container)
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", GRACE_PERIOD_S)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    # The older name of the field is read where the newer one is not set, and always written.
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account


def set_pod_ip(status: Object) -> None:
    """Make the one address and the list of all agree: the list counts if it begins with it."""
    addresses = status.get("podIPs", [])
    address = status.get("podIP")
    if address and (not addresses or addresses[0]["ip"] != address):
        status["podIPs"] = [{"ip": address}]
    elif addresses:
        status["podIP"] = addresses[0]["ip"]


def set_container_defaults(container: Object) -> None:
    """Complete a container."""
    container.setdefault("terminationMessagePath", TERMINATION_MESSAGE_PATH)
    container.setdefault("terminationMessagePolicy", "File")
    if "imagePullPolicy" not in container:
        container["imagePullPolicy"] = pull_policy(container.get("image", ""))
    for port in container.get("ports", ()):
        port.setdefault("protocol", "TCP")


@lru_cache(maxsize=1024)
def pull_policy(image: str) -> str:
    """When an image is pulled unless said otherwise: always if its tag is `latest`.

    That is the tag of a name without tag and digest.  What is no image name is not pulled always.
    """
    match = IMAGE.fullmatch(image) if len(image) <= LONGEST_IMAGE else None
    if match is None or len(match[1]) > LONGEST_NAME or IDENTIFIER.fullmatch(image):
        return "IfNotPresent"
    _, tag, digest = match.groups()
    is_latest = tag == "latest" or not (tag or digest)
    return "Always" if is_latest else "IfNotPresent"
