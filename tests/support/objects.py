"""Valid objects as JSON and YAML, for tests to break."""

from __future__ import annotations

import copy
from typing import Any

import msgspec

from apfproxy.objects.decode import mandatory_objects, suggested_objects
from apfproxy.objects.types import GROUP, FlowControlObject, kind_of

V1 = "flowcontrol.apiserver.k8s.io/v1"
V1BETA3 = "flowcontrol.apiserver.k8s.io/v1beta3"
Json = dict[str, Any]
LEVEL_YAML = """apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: PriorityLevelConfiguration
metadata: {name: NAME}
spec: {type: Limited, limited: {nominalConcurrencyShares: 7, limitResponse: {type: Reject}}}
"""
SCHEMA_YAML = """apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata: {name: NAME}
spec:
  matchingPrecedence: 100
  priorityLevelConfiguration: {name: LEVEL}
"""

SUBJECT = {"kind": "User", "user": {"name": "alice"}}
RESOURCE_RULE = {
    "verbs": ["get"],
    "apiGroups": [""],
    "resources": ["pods"],
    "namespaces": ["default"],
}
URL_RULE = {"verbs": ["get"], "nonResourceURLs": ["/healthz"]}
QUEUING = {"queues": 16, "handSize": 4, "queueLengthLimit": 10}
LIMITED = {
    "nominalConcurrencyShares": 10,
    "limitResponse": {"type": "Queue", "queuing": QUEUING},
    "lendablePercent": 0,
}


def flow_schema(name: str = "one", **spec: Any) -> dict[str, Any]:  # noqa: ANN401  JSON
    """A FlowSchema, some fields of whose specification are set."""
    return copy.deepcopy(
        {
            "apiVersion": V1,
            "kind": "FlowSchema",
            "metadata": {"name": name},
            "spec": {
                "priorityLevelConfiguration": {"name": "workload-low"},
                "matchingPrecedence": 500,
                "rules": [{"subjects": [SUBJECT], "resourceRules": [RESOURCE_RULE]}],
                **spec,
            },
        }
    )


def priority_level(name: str = "one", version: str = V1, **spec: Any) -> dict[str, Any]:  # noqa: ANN401  JSON
    """A PriorityLevelConfiguration, some fields of whose specification are set."""
    return copy.deepcopy(
        {
            "apiVersion": version,
            "kind": "PriorityLevelConfiguration",
            "metadata": {"name": name},
            "spec": {"type": "Limited", "limited": LIMITED, **spec},
        }
    )


def limited(**fields: Any) -> dict[str, Any]:  # noqa: ANN401  JSON
    """A Limited priority level, some fields of whose limits are set."""
    return priority_level(limited={**LIMITED, **fields})


def queuing(**fields: Any) -> dict[str, Any]:  # noqa: ANN401  JSON
    """A Limited priority level that queues, some fields of whose queuing are set."""
    return limited(limitResponse={"type": "Queue", "queuing": {**QUEUING, **fields}})


def rules(*, subject: object = None, resource: object = None, url: object = None) -> dict[str, Any]:
    """A FlowSchema of one rule with this subject and these rules."""
    rule: dict[str, Any] = {"subjects": [subject or SUBJECT]}
    if resource is not None:
        rule["resourceRules"] = [resource]
    if url is not None:
        rule["nonResourceRules"] = [url]
    if resource is url is None:
        rule["resourceRules"] = [RESOURCE_RULE]
    return flow_schema(rules=[rule])


def as_written(obj: FlowControlObject) -> dict[str, Any]:
    """A typed object as JSON."""
    content: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(obj))
    return {"apiVersion": f"{GROUP}/v1", "kind": kind_of(obj), **content}


def level_yaml(name: str) -> str:
    return LEVEL_YAML.replace("NAME", name)


def level(name: str, shares: int = 5) -> Json:
    limited = {"nominalConcurrencyShares": shares, "limitResponse": {"type": "Reject"}}
    return {"metadata": {"name": name}, "spec": {"type": "Limited", "limited": limited}}


def schema(name: str, level_name: str) -> Json:
    spec = {"priorityLevelConfiguration": {"name": level_name}, "matchingPrecedence": 5}
    return {"metadata": {"name": name}, "spec": spec}


def slice_of(*endpoints: Json, name: str = "a", ports: Any = None, **others: Any) -> Json:  # noqa: ANN401
    return {
        "metadata": {"name": name},
        "addressType": "IPv4",
        "ports": [{"name": "https", "port": 6443, "protocol": "TCP"}] if ports is None else ports,
        "endpoints": list(endpoints),
        **others,
    }


def at(*addresses: str, conditions: Any = None, **others: Any) -> Json:  # noqa: ANN401
    return {
        "addresses": list(addresses),
        "conditions": {} if conditions is None else conditions,
        **others,
    }


def without_nulls(value: Any) -> Any:  # noqa: ANN401  any JSON
    """A JSON value without its null fields, which mean the same as absent ones."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def bootstrap_objects() -> tuple[FlowControlObject, ...]:
    return mandatory_objects() + suggested_objects()
