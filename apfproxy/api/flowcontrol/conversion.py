"""Converts between v1, which is used inside, and v1beta3.

The two differ in one thing: zero `nominalConcurrencyShares` of a Limited priority level.  In v1
zero means zero and only an absent value gets the default.  In v1beta3 zero means the default,
unless an annotation says to keep it.

Source: Kubernetes API reference; KEP-1040, "v1beta3 and v1".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from apfproxy.api.flowcontrol.types import FlowControlObject, PriorityLevelConfiguration

if TYPE_CHECKING:
    from apfproxy.api.meta import ObjectMeta

V1 = "v1"
V1BETA3 = "v1beta3"
VERSIONS = (V1, V1BETA3)

PRESERVE_ZERO = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares"
"""The annotation, of any value, by which zero shares keep their meaning in v1beta3."""


def from_v1beta3(obj: FlowControlObject) -> FlowControlObject:
    """The object of v1 that says the same, before defaults."""
    if not isinstance(obj, PriorityLevelConfiguration):
        return obj
    preserved = PRESERVE_ZERO in obj.metadata.annotations
    limited = obj.spec.limited
    if limited is not None:
        shares = limited.nominal_concurrency_shares
        if preserved:
            shares = shares or 0
        elif shares == 0:
            shares = None
        limited = replace(limited, nominal_concurrency_shares=shares)
    annotations = {
        key: value for key, value in obj.metadata.annotations.items() if key != PRESERVE_ZERO
    }
    return annotated(replace(obj, spec=replace(obj.spec, limited=limited)), annotations)


def to_v1beta3(obj: FlowControlObject) -> FlowControlObject:
    """The object of v1beta3 that says the same as one of v1 that has its defaults."""
    if not isinstance(obj, PriorityLevelConfiguration) or obj.spec.limited is None:
        return obj
    if obj.spec.limited.nominal_concurrency_shares != 0:
        return obj
    return annotated(obj, {PRESERVE_ZERO: "", **obj.metadata.annotations})


def annotated(
    obj: PriorityLevelConfiguration, annotations: dict[str, str]
) -> PriorityLevelConfiguration:
    """The object with these annotations instead of its own."""
    metadata: ObjectMeta = replace(obj.metadata, annotations=annotations)
    return replace(obj, metadata=metadata)
