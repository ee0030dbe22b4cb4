"""What a request's target says, with the time-outs in force; kept by method and target, bounded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.flowcontrol.preset import PRESETS
from apfproxy.proxy.bounded_cache import BoundedCache, MemoryBudget
from apfproxy.proxy.cache_sizes import of_target
from apfproxy.proxy.head_error import HeadError
from apfproxy.proxy.request import Request
from apfproxy.proxy.upgrade import honoured
from apfproxy.request.attributes import AttributesError, RequestAttributes, parse_attributes
from apfproxy.request.deadline import DeadlineError, request_timeout_ns

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.flowcontrol.flow_control import FlowControl
    from apfproxy.proxy.request_head import RequestHead
    from apfproxy.settings import Settings

MAX_KEPT_TARGETS = 8192
"""Attributes by method and target; a typical one takes 1.5 KiB."""
KEPT_TARGETS_BYTES = 16 << 20
"""Of all of them."""
MAX_KEPT_TARGET_BYTES = 1024
"""Longer targets are parsed each time: they would take the room of many."""


class Targets:
    """Makes requests of heads."""

    def __init__(self, flow_control: FlowControl, settings: Settings) -> None:
        self._flow_control = flow_control
        self._default_timeout_ns = round(settings.downstream.request_timeout_s * 1e9)
        self._answer_timeout_ns = round(settings.upstream.answer_timeout_s * 1e9)
        self._preset = PRESETS[settings.preset]
        self._attributes = _nothing_kept()

    def enforce(self, flow_control: FlowControl) -> None:
        """Make requests for another flow control from now on."""
        self._flow_control = flow_control

    def configure(self, settings: Settings) -> None:
        """Put time-outs and the preset in force, for requests that are made from now on."""
        preset = PRESETS[settings.preset]
        if preset is not self._preset:
            self._preset = preset
            self._attributes = _nothing_kept()
        self._default_timeout_ns = round(settings.downstream.request_timeout_s * 1e9)
        self._answer_timeout_ns = round(settings.upstream.answer_timeout_s * 1e9)

    def request_of(self, head: RequestHead) -> Request:
        """The request that a head makes.

        Raises:
            HeadError: As of `read_target`.
        """
        head, attributes, timeout_ns = read_target(
            head, self._attributes_of, self._default_timeout_ns
        )
        answer_timeout_ns = self._answer_timeout_ns
        if not attributes.long_running and timeout_ns < answer_timeout_ns:
            answer_timeout_ns = timeout_ns
        flow_control = self._flow_control
        return Request(
            head,
            attributes,
            timeout_ns,
            answer_timeout_ns,
            flow_control.kinds.kinds[attributes.is_mutating],
            flow_control.estimator.fixed(attributes),
        )

    def _attributes_of(self, method: str, target: bytes) -> RequestAttributes:
        key = (method, target)
        attributes = self._attributes.values.get(key)
        if attributes is None:
            attributes = self._preset.attributes_of(method, target)
            if len(target) <= MAX_KEPT_TARGET_BYTES:
                self._attributes.offer(key, attributes)
        return attributes

    def __repr__(self) -> str:
        return f"<Targets, {len(self._attributes.values)} kept>"


def _nothing_kept() -> BoundedCache[tuple[str, bytes], RequestAttributes]:
    return BoundedCache(MAX_KEPT_TARGETS, MemoryBudget(KEPT_TARGETS_BYTES), of_target)


def read_target(
    head: RequestHead,
    attributes_of: Callable[[str, bytes], RequestAttributes] = parse_attributes,
    default_timeout_ns: int = 0,
) -> tuple[RequestHead, RequestAttributes, int]:
    """What a head's target says.

    Returns:
        The head with as much of the upgrade that it offers as is served there, the attributes, and
        how long the request may take.

    Raises:
        HeadError: Kubernetes would not understand the target, or its `timeout`, or an upgrade is
            malformed.
    """
    try:
        attributes = attributes_of(head.method, head.target)
        timeout_ns = request_timeout_ns(attributes, default_timeout_ns)
        if head.upgrade is not None:
            head = head.with_upgrade(honoured(head.upgrade, head.method, attributes))
    except AttributesError as error:
        raise HeadError(400, f"malformed request target: {error}") from error
    except DeadlineError as error:
        raise HeadError(400, f"invalid timeout specified in the request URL: {error}") from error
    return head, attributes, timeout_ns
