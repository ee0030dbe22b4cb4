"""Fills in what an object leaves open, as kube-apiserver does before it validates.

Source: Kubernetes API reference, flowcontrol.apiserver.k8s.io/v1 and v1beta3, the fields'
descriptions.
"""

from __future__ import annotations

from msgspec.structs import replace

from apfproxy.api.flowcontrol.types import (
    ExemptPriorityLevelConfiguration,
    FlowControlObject,
    FlowSchema,
    LimitedPriorityLevelConfiguration,
    LimitResponse,
    PriorityLevelConfigurationSpec,
)

MATCHING_PRECEDENCE = 1000
NOMINAL_CONCURRENCY_SHARES = 30
QUEUES = 64
HAND_SIZE = 8
QUEUE_LENGTH_LIMIT = 50


def with_defaults(obj: FlowControlObject) -> FlowControlObject:
    """The object of v1 with defaults where it says nothing, or zero where zero means that."""
    if isinstance(obj, FlowSchema):
        precedence = obj.spec.matching_precedence or MATCHING_PRECEDENCE
        return replace(obj, spec=replace(obj.spec, matching_precedence=precedence))
    return replace(obj, spec=with_default_configuration(obj.spec))


def with_default_configuration(
    spec: PriorityLevelConfigurationSpec,
) -> PriorityLevelConfigurationSpec:
    """The specification with defaults in those of its parts that are there."""
    limited, exempt = spec.limited, spec.exempt
    return replace(
        spec,
        limited=limited and with_default_limits(limited),
        exempt=exempt and with_default_shares(exempt),
    )


def with_default_limits(
    limited: LimitedPriorityLevelConfiguration,
) -> LimitedPriorityLevelConfiguration:
    """The limits with defaults; the default of the borrowing limit is to have none."""
    shares = limited.nominal_concurrency_shares
    return replace(
        limited,
        nominal_concurrency_shares=NOMINAL_CONCURRENCY_SHARES if shares is None else shares,
        lendable_percent=limited.lendable_percent or 0,
        limit_response=with_default_queuing(limited.limit_response),
    )


def with_default_shares(
    exempt: ExemptPriorityLevelConfiguration,
) -> ExemptPriorityLevelConfiguration:
    """The exempt level's shares with defaults."""
    return replace(
        exempt,
        nominal_concurrency_shares=exempt.nominal_concurrency_shares or 0,
        lendable_percent=exempt.lendable_percent or 0,
    )


def with_default_queuing(response: LimitResponse) -> LimitResponse:
    """The response with defaults in its queuing, if it has that."""
    queuing = response.queuing
    return replace(
        response,
        queuing=queuing
        and replace(
            queuing,
            queues=queuing.queues or QUEUES,
            hand_size=queuing.hand_size or HAND_SIZE,
            queue_length_limit=queuing.queue_length_limit or QUEUE_LENGTH_LIMIT,
        ),
    )
