"""What a request's line asks for, with the time-outs in force; kept by its bytes, bounded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from apfproxy.flowcontrol.preset import PRESETS
from apfproxy.flowcontrol.request_digest import Asked
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
"""Request lines; a typical one takes 1.5 KiB."""
KEPT_TARGETS_BYTES = 16 << 20
"""Of all of them."""
MAX_KEPT_LINE_BYTES: Final = 1024
"""Longer targets are parsed each time: they would take the room of many."""


class Targets:
    """Makes requests of heads."""

    def __init__(self, flow_control: FlowControl, settings: Settings) -> None:
        self._flow_control = flow_control
        self._default_timeout_ns = round(settings.downstream.request_timeout_s * 1e9)
        self._answer_timeout_ns = round(settings.upstream.answer_timeout_s * 1e9)
        self._preset = PRESETS[settings.preset]
        self._kept = _nothing_kept()

    def enforce(self, flow_control: FlowControl) -> None:
        """Make requests for another flow control from now on."""
        self._flow_control = flow_control
        self._kept = _nothing_kept()

    def configure(self, settings: Settings) -> None:
        """Put time-outs and the preset in force, for requests that are made from now on."""
        self._preset = PRESETS[settings.preset]
        self._kept = _nothing_kept()
        self._default_timeout_ns = round(settings.downstream.request_timeout_s * 1e9)
        self._answer_timeout_ns = round(settings.upstream.answer_timeout_s * 1e9)

    def request_of(self, head: RequestHead) -> Request:
        """The request that a head makes.

        Raises:
            HeadError: As of `read_target`.
        """
        line = head.line
        asked = self._kept.values.get(line)
        if asked is None:
            attributes, timeout_ns = read_target(
                head, self._preset.attributes_of, self._default_timeout_ns
            )
            control = self._flow_control
            asked = Asked(
                attributes,
                timeout_ns,
                control.kinds.kinds[attributes.is_mutating],
                control.estimator.fixed(attributes),
            )
            if len(line) <= MAX_KEPT_LINE_BYTES:
                self._kept.offer(line, asked)
        if head.upgrade is not None:
            head = with_upgrade(head, asked.attributes)
        answer_timeout_ns = self._answer_timeout_ns
        if not asked.is_long_running and asked.timeout_ns < answer_timeout_ns:
            answer_timeout_ns = asked.timeout_ns
        return Request(head, asked, answer_timeout_ns)

    def __repr__(self) -> str:
        return f"<Targets, {len(self._kept.values)} kept>"


def _nothing_kept() -> BoundedCache[bytes, Asked]:
    return BoundedCache(MAX_KEPT_TARGETS, MemoryBudget(KEPT_TARGETS_BYTES), of_target)


def read_target(
    head: RequestHead,
    attributes_of: Callable[[str, bytes], RequestAttributes] = parse_attributes,
    default_timeout_ns: int = 0,
) -> tuple[RequestAttributes, int]:
    """What a head's target says: the attributes, and how long the request may take.

    Raises:
        HeadError: Kubernetes would not understand the target, or its `timeout`.
    """
    try:
        attributes = attributes_of(head.method, head.target)
        timeout_ns = request_timeout_ns(attributes, default_timeout_ns)
    except AttributesError as error:
        raise HeadError(400, f"malformed request target: {error}") from error
    except DeadlineError as deadline_error:
        raise HeadError(
            400, f"invalid timeout specified in the request URL: {deadline_error}"
        ) from deadline_error
    return attributes, timeout_ns


def with_upgrade(head: RequestHead, attributes: RequestAttributes) -> RequestHead:
    """The head with as much of the upgrade that it offers as is served there.

    Raises:
        HeadError: The upgrade is malformed.
    """
    assert head.upgrade is not None
    return head.with_upgrade(honoured(head.upgrade, head.method, attributes))
