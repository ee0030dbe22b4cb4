"""Defaults of objects as JSON has them, and their conversion between v1 and v1beta3.

The two versions differ in one thing: zero `nominalConcurrencyShares` of a Limited priority level.
In v1 zero means zero and only an absent value gets the default.  In v1beta3 zero means the default,
unless an annotation says to keep it.

Sources: Kubernetes API reference, flowcontrol.apiserver.k8s.io/v1 and v1beta3; KEP-1040, "v1beta3
and v1".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from apfproxy.objects.types import Object

V1 = "v1"
V1BETA3 = "v1beta3"
PRESERVE_ZERO = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares"
"""The annotation, of any value, by which zero shares keep their meaning in v1beta3."""
SHARES = "nominalConcurrencyShares"
LENDABLE = "lendablePercent"
MATCHING_PRECEDENCE = 1000
NOMINAL_CONCURRENCY_SHARES = 30
QUEUING = {"queues": 64, "handSize": 8, "queueLengthLimit": 50}


def to_v1_with_defaults(obj: Object, kind: str, version: str) -> Object:
    """The object in v1, with the defaults that its own version gives it."""
    if kind == "FlowSchema":
        default_flow_schema(obj)
        return obj
    if version == V1:
        default_priority_level(obj)
        return obj
    default_priority_level_v1beta3(obj)
    return level_to_v1(obj)


def default_flow_schema(obj: Object) -> None:
    """Give a FlowSchema of any version its defaults."""
    spec = obj["spec"]
    spec["matchingPrecedence"] = spec.get("matchingPrecedence") or MATCHING_PRECEDENCE


def default_priority_level(obj: Object) -> None:
    """Give a PriorityLevelConfiguration of v1 its defaults: zero shares are no absent ones."""
    limited = obj["spec"].get("limited")
    exempt = obj["spec"].get("exempt")
    if exempt is not None:
        exempt.setdefault(SHARES, 0)
        exempt.setdefault(LENDABLE, 0)
    if limited is None:
        return
    if limited.get(SHARES) is None:
        limited[SHARES] = NOMINAL_CONCURRENCY_SHARES
    limited.setdefault(LENDABLE, 0)
    queuing = limited.get("limitResponse", {}).get("queuing")
    if queuing is not None:
        for field, default in QUEUING.items():
            queuing[field] = queuing.get(field) or default


def default_priority_level_v1beta3(obj: Object) -> None:
    """Give a PriorityLevelConfiguration of v1beta3 its defaults: an annotation keeps zeros."""
    limited = obj["spec"].get("limited")
    if limited is not None and not limited.get(SHARES):
        preserved = PRESERVE_ZERO in obj["metadata"].get("annotations", ())
        limited[SHARES] = 0 if preserved else NOMINAL_CONCURRENCY_SHARES
    default_priority_level(obj)


def level_to_v1(obj: Object) -> Object:
    """The PriorityLevelConfiguration of v1 that says the same as one of v1beta3 with defaults."""
    annotations = obj["metadata"].get("annotations", {})
    if PRESERVE_ZERO not in annotations:
        return obj
    left = {key: value for key, value in annotations.items() if key != PRESERVE_ZERO}
    return _annotated(obj, left)


def level_to_v1beta3(obj: Object) -> Object:
    """The PriorityLevelConfiguration of v1beta3 that says the same as one of v1."""
    limited = obj["spec"].get("limited")
    if limited is None or limited[SHARES] != 0:
        return obj
    return _annotated(obj, {**obj["metadata"].get("annotations", {}), PRESERVE_ZERO: ""})


def _annotated(obj: Object, annotations: dict[str, str]) -> Object:
    metadata = {**obj["metadata"], "annotations": annotations}
    if not annotations:
        del metadata["annotations"]
    return {**obj, "metadata": metadata}
