"""Configurations for simulations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.objects.decode import decode_documents, mandatory_objects

if TYPE_CHECKING:
    from apfproxy.objects.types import FlowControlObject

LEVEL = """
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: PriorityLevelConfiguration
metadata: {name: level, annotations: {LEVEL_ANNOTATIONS}}
spec:
  type: Limited
  limited:
    nominalConcurrencyShares: 1000
    lendablePercent: 0
    borrowingLimitPercent: 0
    limitResponse: {type: Queue, queuing: {queues: 8, handSize: 2, queueLengthLimit: 2}}
---
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata: {name: schema, annotations: {SCHEMA_ANNOTATIONS}}
spec:
  priorityLevelConfiguration: {name: level}
  matchingPrecedence: 100
  distinguisherMethod: {type: ByUser}
  rules:
  - subjects: [{kind: Group, group: {name: 'system:authenticated'}}]
    resourceRules:
    - {verbs: ['*'], apiGroups: ['*'], resources: ['*'], namespaces: ['*'], clusterScope: true}
    nonResourceRules:
    - {verbs: ['*'], nonResourceURLs: ['*']}
"""
QUEUING = "queues: 8, handSize: 2, queueLengthLimit: 2"


def objects(*, level: str = "", schema: str = "", queuing: str = "") -> list[FlowControlObject]:
    """The mandatory objects, and a level with nearly all seats and 8 queues of 2."""
    text = LEVEL.replace("LEVEL_ANNOTATIONS", level).replace("SCHEMA_ANNOTATIONS", schema)
    text = text.replace(QUEUING, queuing or QUEUING)
    decoded = decode_documents(text.encode(), "test")
    assert () == tuple(decoded.problems)
    return [*mandatory_objects(), *decoded.objects]
