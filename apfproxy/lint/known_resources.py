"""The resources of Kubernetes: their API groups, scopes and subresources.

A resource of a group here is doubted only if another group has it; other groups may have anything.

Source: Kubernetes API reference 1.36, beta and alpha resources left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from apfproxy.request.attributes import RequestAttributes


class KnownResource(NamedTuple):
    """A resource; `is_namespaced` is None for namespaces, whose requests count as both."""

    is_namespaced: bool | None
    subresources: frozenset[str]


def _known(is_namespaced: bool | None, listed: str) -> dict[str, KnownResource]:
    """Read a list such as `pods/status,log secrets`."""
    found = {}
    for each in listed.split():
        name, _, subresources = each.partition("/")
        names = frozenset(subresources.split(",")) if subresources else frozenset[str]()
        found[name] = KnownResource(is_namespaced, names)
    return found


def _group(namespaced: str, of_cluster: str = "") -> dict[str, KnownResource]:
    return {**_known(True, namespaced), **_known(False, of_cluster)}


KNOWN_GROUPS: dict[str, dict[str, KnownResource]] = {
    "": {
        **_group(
            "bindings configmaps endpoints events limitranges persistentvolumeclaims/status"
            " pods/attach,binding,ephemeralcontainers,eviction,exec,log,portforward,proxy,resize"
            ",status"
            " podtemplates replicationcontrollers/scale,status resourcequotas/status secrets"
            " serviceaccounts/token services/proxy,status",
            "componentstatuses nodes/proxy,status persistentvolumes/status",
        ),
        **_known(None, "namespaces/finalize,status"),
    },
    "admissionregistration.k8s.io": _group(
        "",
        "mutatingadmissionpolicies mutatingadmissionpolicybindings mutatingwebhookconfigurations"
        " validatingadmissionpolicies/status validatingadmissionpolicybindings"
        " validatingwebhookconfigurations",
    ),
    "apiextensions.k8s.io": _group("", "customresourcedefinitions/status"),
    "apiregistration.k8s.io": _group("", "apiservices/status"),
    "apps": _group(
        "controllerrevisions daemonsets/status deployments/scale,status replicasets/scale,status"
        " statefulsets/scale,status"
    ),
    "authentication.k8s.io": _group("", "selfsubjectreviews tokenreviews"),
    "authorization.k8s.io": _group(
        "localsubjectaccessreviews",
        "selfsubjectaccessreviews selfsubjectrulesreviews subjectaccessreviews",
    ),
    "autoscaling": _group("horizontalpodautoscalers/status"),
    "batch": _group("cronjobs/status jobs/status"),
    "certificates.k8s.io": _group("", "certificatesigningrequests/approval,status"),
    "coordination.k8s.io": _group("leasecandidates leases"),
    "discovery.k8s.io": _group("endpointslices"),
    "events.k8s.io": _group("events"),
    "flowcontrol.apiserver.k8s.io": _group(
        "", "flowschemas/status prioritylevelconfigurations/status"
    ),
    "networking.k8s.io": _group(
        "ingresses/status networkpolicies", "ingressclasses ipaddresses servicecidrs/status"
    ),
    "node.k8s.io": _group("", "runtimeclasses"),
    "policy": _group("poddisruptionbudgets/status"),
    "rbac.authorization.k8s.io": _group("rolebindings roles", "clusterrolebindings clusterroles"),
    "scheduling.k8s.io": _group("", "priorityclasses"),
    "storage.k8s.io": _group(
        "csistoragecapacities",
        "csidrivers csinodes storageclasses volumeattachments/status volumeattributesclasses",
    ),
}


def groups_of(resource: str) -> list[str]:
    return [group for group, resources in KNOWN_GROUPS.items() if resource in resources]


def is_of_kubernetes(attributes: RequestAttributes) -> bool:
    """Whether a request is for a resource of Kubernetes' core, or of any other group."""
    core = KNOWN_GROUPS[""]
    return attributes.is_resource_request and bool(
        attributes.api_group or attributes.resource in core
    )
