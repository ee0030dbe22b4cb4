"""The resources of a comparison: where they are, an object that is right, and values to try."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from apfproxy.apiserver.core.cluster import NAMESPACE
from apfproxy.apiserver.core.pods import POD
from apfproxy.apiserver.flowcontrol import FLOW_SCHEMA, PRIORITY_LEVEL_CONFIGURATION
from apfproxy.apiserver.policy import POD_DISRUPTION_BUDGET
from apfproxy.apiserver.resource import RESOURCE_SLICE

if TYPE_CHECKING:
    from apfproxy.apiserver.kind import Kind

Object = dict[str, Any]


@dataclass(frozen=True)
class Subject:
    """One version of a resource.

    Attributes:
        kind: Of the objects.
        version: Of the requests.
        base: Content of an object that is right, without `kind`, `apiVersion` and `metadata`.
        rich: The same with as many fields as fit together.
        change: A merge patch that changes it.
        samples: How many objects with a wrong value somewhere are tried.
    """

    kind: Kind
    version: str
    base: Object
    rich: Object
    change: Object
    samples: int

    @property
    def name(self) -> str:
        """For ids: `flowschemas-v1`."""
        return f"{self.kind.plural}-{self.version}"

    @property
    def collection(self) -> str:
        """The path of all its objects, of the namespace `default` where they have one."""
        group = f"/apis/{self.kind.group}" if self.kind.group else "/api"
        namespace = "/namespaces/default" if self.kind.is_namespaced else ""
        return f"{group}/{self.version}{namespace}/{self.kind.plural}"

    def path(self, name: str) -> str:
        """The path of an object."""
        return f"{self.collection}/{name}"

    def object(self, name: str, content: Object | None = None, **metadata: Any) -> Object:  # noqa: ANN401 - JSON
        """A whole object."""
        return {
            "apiVersion": self.kind.api_version(self.version),
            "kind": self.kind.name,
            "metadata": {"name": name, **metadata},
            **(self.base if content is None else content),
        }


FLOW_SCHEMA_CONTENT: Object = {
    "spec": {
        "priorityLevelConfiguration": {"name": "global-default"},
        "matchingPrecedence": 777,
        "distinguisherMethod": {"type": "ByUser"},
        "rules": [
            {
                "subjects": [
                    {"kind": "User", "user": {"name": "alice"}},
                    {"kind": "Group", "group": {"name": "*"}},
                    {
                        "kind": "ServiceAccount",
                        "serviceAccount": {"namespace": "default", "name": "*"},
                    },
                ],
                "resourceRules": [
                    {
                        "verbs": ["get", "list"],
                        "apiGroups": ["", "apps"],
                        "resources": ["pods", "deployments/status"],
                        "clusterScope": True,
                        "namespaces": ["default", "kube-system"],
                    }
                ],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["/healthz", "/api/*"]}],
            }
        ],
    }
}
LEVEL_CONTENT: Object = {
    "spec": {
        "type": "Limited",
        "limited": {
            "nominalConcurrencyShares": 7,
            "lendablePercent": 40,
            "borrowingLimitPercent": 150,
            "limitResponse": {
                "type": "Queue",
                "queuing": {"queues": 16, "handSize": 4, "queueLengthLimit": 20},
            },
        },
    }
}
EXEMPT_CONTENT: Object = {
    "spec": {"type": "Exempt", "exempt": {"nominalConcurrencyShares": 3, "lendablePercent": 20}}
}
BUDGET_CONTENT: Object = {
    "spec": {
        "minAvailable": "50%",
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
        "selector": {
            "matchLabels": {"app": "web"},
            "matchExpressions": [{"key": "tier", "operator": "In", "values": ["a", "b"]}],
        },
    }
}
DEVICE: Object = {
    "attributes": {
        "model": {"string": "a100"},
        "example.com/driver": {"version": "1.2.3"},
        "index": {"int": 3},
        "fast": {"bool": True},
    },
    "capacity": {
        "memory": {
            "value": "40Gi",
            "requestPolicy": {"default": "1Gi", "validRange": {"min": "1Gi", "step": "1Gi"}},
        },
        "cores": {"value": "8"},
    },
    "allowMultipleAllocations": True,
    "taints": [{"key": "example.com/sick", "value": "yes", "effect": "NoSchedule"}],
    "consumesCounters": [{"counterSet": "shared", "counters": {"slices": {"value": "2"}}}],
    "bindsToNode": True,
    "bindingConditions": ["example.com/ready"],
    "bindingFailureConditions": ["example.com/failed"],
}
SLICE_SPEC: Object = {
    "driver": "gpu.example.com",
    "nodeName": "node-1",
    "pool": {"name": "node-1/pool", "generation": 1, "resourceSliceCount": 1},
}
SELECTOR: Object = {
    "nodeSelectorTerms": [
        {
            "matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}],
            "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}],
        }
    ]
}
POD_CONTENT: Object = {"spec": {"containers": [{"name": "web", "image": "nginx:1"}]}}
RICH_POD_CONTENT: Object = {
    "spec": {
        "activeDeadlineSeconds": 600,
        "terminationGracePeriodSeconds": 15,
        "restartPolicy": "OnFailure",
        "nodeSelector": {"disk": "ssd"},
        "hostname": "web-1",
        "subdomain": "web",
        "securityContext": {
            "runAsUser": 1000,
            "runAsNonRoot": True,
            "fsGroup": 2000,
            "supplementalGroups": [5, 6],
            "seccompProfile": {"type": "RuntimeDefault"},
            "sysctls": [{"name": "net.core.somaxconn", "value": "1024"}],
        },
        "imagePullSecrets": [{"name": "secret"}],
        "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a.example.com"]}],
        "dnsPolicy": "None",
        "dnsConfig": {
            "nameservers": ["10.0.0.2"],
            "searches": ["example.com"],
            "options": [{"name": "ndots", "value": "2"}],
        },
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": SELECTOR,
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 5,
                        "preference": {"matchExpressions": [{"key": "disk", "operator": "Exists"}]},
                    }
                ],
            },
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "topologyKey": "zone",
                        "labelSelector": {"matchLabels": {"app": "web"}},
                        "namespaces": ["default"],
                    }
                ]
            },
        },
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "web"}},
            }
        ],
        "tolerations": [
            {"key": "a", "operator": "Equal", "value": "b", "effect": "NoExecute"},
            {"key": "c", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60},
        ],
        "initContainers": [{"name": "init", "image": "busybox", "restartPolicy": "Always"}],
        "containers": [
            {
                "name": "web",
                "image": "nginx:1.27",
                "command": ["nginx"],
                "args": ["-g", "daemon off;"],
                "workingDir": "/srv",
                "ports": [{"name": "http", "containerPort": 80, "protocol": "TCP"}],
                "env": [
                    {"name": "A", "value": "b"},
                    {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                    {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
                    {
                        "name": "KEY",
                        "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": True}},
                    },
                ],
                "envFrom": [{"prefix": "P_", "configMapRef": {"name": "c"}}],
                "resources": {
                    "limits": {"cpu": "1", "memory": "128Mi"},
                    "requests": {"cpu": "100m", "memory": "64Mi"},
                },
                "volumeMounts": [
                    {"name": "tmp", "mountPath": "/scratch", "readOnly": False},
                    {"name": "conf", "mountPath": "/etc/conf", "subPath": "x"},
                ],
                "livenessProbe": {
                    "httpGet": {
                        "path": "/live",
                        "port": "http",
                        "httpHeaders": [{"name": "X-A", "value": "b"}],
                    },
                    "periodSeconds": 5,
                },
                "readinessProbe": {"tcpSocket": {"port": 80}, "failureThreshold": 2},
                "startupProbe": {"exec": {"command": ["true"]}},
                "lifecycle": {"preStop": {"sleep": {"seconds": 3}}},
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]},
                    "readOnlyRootFilesystem": True,
                },
            }
        ],
        "volumes": [
            {"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}},
            {"name": "conf", "configMap": {"name": "c", "items": [{"key": "k", "path": "p"}]}},
            {"name": "host", "hostPath": {"path": "/var", "type": "Directory"}},
            {"name": "secret", "secret": {"secretName": "s", "defaultMode": 256}},
            {
                "name": "all",
                "projected": {
                    "sources": [
                        {"configMap": {"name": "c"}},
                        {"serviceAccountToken": {"path": "token", "expirationSeconds": 900}},
                        {
                            "downwardAPI": {
                                "items": [
                                    {
                                        "path": "labels",
                                        "fieldRef": {"fieldPath": "metadata.labels"},
                                    }
                                ]
                            }
                        },
                    ]
                },
            },
            {"name": "claim", "persistentVolumeClaim": {"claimName": "data"}},
        ],
    }
}


def beta(spec: Object) -> Object:
    """The specification of a ResourceSlice in the form of v1beta1."""
    devices = [
        {
            "name": device["name"],
            "basic": {name: value for name, value in device.items() if name != "name"},
        }
        for device in spec.get("devices", ())
    ]
    return {**spec, "devices": devices}


RICH_SLICE = {**SLICE_SPEC, "devices": [{"name": "gpu-0", **DEVICE}, {"name": "gpu-1"}]}

SUBJECTS = (
    Subject(
        FLOW_SCHEMA,
        "v1",
        {"spec": {"priorityLevelConfiguration": {"name": "global-default"}}},
        FLOW_SCHEMA_CONTENT,
        {"spec": {"matchingPrecedence": 888}},
        180,
    ),
    Subject(
        PRIORITY_LEVEL_CONFIGURATION,
        "v1",
        LEVEL_CONTENT,
        LEVEL_CONTENT,
        {"spec": {"limited": {"nominalConcurrencyShares": 9}}},
        90,
    ),
    Subject(
        PRIORITY_LEVEL_CONFIGURATION,
        "v1",
        EXEMPT_CONTENT,
        EXEMPT_CONTENT,
        {"spec": {"exempt": {"nominalConcurrencyShares": 9}}},
        20,
    ),
    Subject(
        POD_DISRUPTION_BUDGET,
        "v1",
        {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}},
        BUDGET_CONTENT,
        {"spec": {"minAvailable": 2}},
        100,
    ),
    Subject(
        RESOURCE_SLICE,
        "v1",
        {"spec": SLICE_SPEC},
        {"spec": RICH_SLICE},
        {"spec": {"pool": {"generation": 2}}},
        200,
    ),
    Subject(
        RESOURCE_SLICE,
        "v1beta1",
        {"spec": SLICE_SPEC},
        {"spec": beta(RICH_SLICE)},
        {"spec": {"pool": {"generation": 2}}},
        120,
    ),
    Subject(POD, "v1", POD_CONTENT, RICH_POD_CONTENT, {"spec": {"activeDeadlineSeconds": 9}}, 500),
    Subject(NAMESPACE, "v1", {}, {"spec": {"finalizers": ["kubernetes"]}}, {}, 40),
)
"""Two of one resource try different objects of it."""
