"""Structure of pods: what is wanted."""

from __future__ import annotations

from apfproxy.api.core.container_schema import (
    CONTAINER,
    EPHEMERAL_CONTAINER,
    RESOURCE_REQUIREMENTS,
)
from apfproxy.api.core.pod_status_schema import POD_STATUS
from apfproxy.api.core.scheduling_schema import AFFINITY, TOLERATION, TOPOLOGY_SPREAD_CONSTRAINT
from apfproxy.api.core.security_schema import POD_SECURITY_CONTEXT
from apfproxy.api.core.structs import (
    BOOLEAN,
    INT32,
    INT64,
    LOCAL_OBJECT_REFERENCE,
    PACKAGE,
    RESOURCE_LIST,
    STRING,
    STRINGS,
    keyed,
    struct,
)
from apfproxy.api.core.volume_schema import VOLUME
from apfproxy.api.schema.meta import object_struct
from apfproxy.api.schema.types import Field, List, Map, Union, pointer, required

RESTART_POLICIES = ("Always", "Never", "OnFailure")
DNS_POLICIES = ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None")
PREEMPTION_POLICIES = ("Never", "PreemptLowerPriority")

HOST_ALIAS = struct(
    "HostAlias",
    "A line of the pod's hosts file.",
    required("ip", STRING, "The address."),
    Field("hostnames", STRINGS, "Its names."),
)

POD_DNS_CONFIG_OPTION = struct(
    "PodDNSConfigOption",
    "An option of the resolver.",
    Field("name", STRING, "Its name."),
    pointer("value", STRING, "Its value."),
)

POD_DNS_CONFIG = struct(
    "PodDNSConfig",
    "How the pod resolves names, besides its `dnsPolicy`.",
    Field("nameservers", STRINGS, "Addresses of name servers."),
    Field("searches", STRINGS, "Domains to search."),
    Field("options", List(POD_DNS_CONFIG_OPTION), "Options of the resolver."),
)

POD_READINESS_GATE = struct(
    "PodReadinessGate",
    "A condition that readiness depends on.",
    required("conditionType", STRING, "Type of the condition."),
)

POD_OS = struct(
    "PodOS", "The operating system of a pod.", required("name", STRING, "linux or windows.")
)

POD_SCHEDULING_GATE = struct(
    "PodSchedulingGate",
    "Something that keeps the pod from being scheduled.",
    required("name", STRING, "Its name."),
)

POD_RESOURCE_CLAIM = struct(
    "PodResourceClaim",
    "A ResourceClaim that the pod uses.",
    required("name", STRING, "What containers call it."),
    pointer("resourceClaimName", STRING, "Name of a ResourceClaim."),
    pointer("resourceClaimTemplateName", STRING, "Name of a template to make one from."),
)

POD_SCHEDULING_GROUP = struct(
    "PodSchedulingGroup",
    "Pods that are scheduled together.",
    pointer("podGroupName", STRING, "Name of the PodGroup."),
    union=Union(("podGroupName",)),
)

POD_SPEC = struct(
    "PodSpec",
    "What a pod runs, and how.",
    Field(
        "volumes",
        keyed(VOLUME, "name", retains_keys=True),
        "Directories that its containers may mount.",
    ),
    Field("initContainers", keyed(CONTAINER, "name"), "Containers that run before the others."),
    Field(
        "containers",
        keyed(CONTAINER, "name"),
        "Containers of the pod; at least one.",
        is_required=True,
        is_always_written=True,
    ),
    Field(
        "ephemeralContainers",
        keyed(EPHEMERAL_CONTAINER, "name"),
        "Containers added to look into the running pod.",
    ),
    Field(
        "restartPolicy",
        STRING,
        "Which containers are restarted when they end; Always unless given.",
        enum=RESTART_POLICIES,
    ),
    pointer(
        "terminationGracePeriodSeconds",
        INT64,
        "Seconds that the pod gets to end before it is killed; 30 unless given.",
    ),
    pointer("activeDeadlineSeconds", INT64, "Seconds that the pod may run at most."),
    Field(
        "dnsPolicy",
        STRING,
        "Whose name servers it uses; ClusterFirst unless given.",
        enum=DNS_POLICIES,
    ),
    Field(
        "nodeSelector",
        Map(STRING, is_atomic=True),
        "Labels that a node must have to run it.",
    ),
    Field("serviceAccountName", STRING, "Name of the ServiceAccount that it runs as."),
    Field("serviceAccount", STRING, "The older name of `serviceAccountName`."),
    pointer("automountServiceAccountToken", BOOLEAN, "Whether it gets the account's token."),
    Field("nodeName", STRING, "Node that it is assigned to; set by the scheduler."),
    Field("hostNetwork", BOOLEAN, "Whether it uses the node's network."),
    Field("hostPID", BOOLEAN, "Whether it sees the node's processes."),
    Field("hostIPC", BOOLEAN, "Whether it uses the node's IPC."),
    pointer("shareProcessNamespace", BOOLEAN, "Whether its containers see each other's processes."),
    pointer("securityContext", POD_SECURITY_CONTEXT, "Rights of all its containers."),
    Field(
        "imagePullSecrets",
        keyed(LOCAL_OBJECT_REFERENCE, "name"),
        "Secrets for pulling its images.",
    ),
    Field("hostname", STRING, "Host name; the pod's name unless given."),
    Field("subdomain", STRING, "Domain of its host name."),
    pointer("affinity", AFFINITY, "Where it has to run, and where it should."),
    Field("schedulerName", STRING, "Scheduler that assigns it to a node."),
    Field("tolerations", List(TOLERATION), "Taints of nodes that it does not mind."),
    Field("hostAliases", keyed(HOST_ALIAS, "ip"), "Lines of its hosts file."),
    Field("priorityClassName", STRING, "Name of the class that sets its priority."),
    pointer("priority", INT32, "Its priority; higher goes first."),
    pointer("dnsConfig", POD_DNS_CONFIG, "How it resolves names, besides `dnsPolicy`."),
    Field("readinessGates", List(POD_READINESS_GATE), "Conditions that readiness depends on."),
    pointer("runtimeClassName", STRING, "RuntimeClass that runs it."),
    pointer(
        "enableServiceLinks", BOOLEAN, "Whether services are shown as variables; true unless given."
    ),
    Field(
        "preemptionPolicy",
        STRING,
        "Whether it may take the place of pods with lower priority.",
        is_pointer=True,
        enum=PREEMPTION_POLICIES,
    ),
    Field("overhead", RESOURCE_LIST, "What running it costs besides its containers."),
    Field(
        "topologySpreadConstraints",
        keyed(TOPOLOGY_SPREAD_CONSTRAINT, "topologyKey", "whenUnsatisfiable"),
        "How evenly such pods are spread.",
    ),
    pointer("setHostnameAsFQDN", BOOLEAN, "Whether its host name is fully qualified."),
    pointer("os", POD_OS, "Operating system that it needs."),
    pointer("hostUsers", BOOLEAN, "Whether it uses the node's user ids; true unless given."),
    Field(
        "schedulingGates",
        keyed(POD_SCHEDULING_GATE, "name"),
        "What keeps it from being scheduled.",
    ),
    Field(
        "resourceClaims",
        keyed(POD_RESOURCE_CLAIM, "name", retains_keys=True),
        "ResourceClaims that it uses.",
    ),
    pointer("resources", RESOURCE_REQUIREMENTS, "What all its containers need together."),
    pointer("hostnameOverride", STRING, "Host name in place of all others."),
    pointer("schedulingGroup", POD_SCHEDULING_GROUP, "Pods that it is scheduled with."),
)

POD_OBJECT = object_struct(
    "Pod",
    PACKAGE,
    POD_SPEC,
    POD_STATUS,
    "Containers that run together on one node.",
)
