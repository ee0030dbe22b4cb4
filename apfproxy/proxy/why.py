"""Why requests were refused, cut short or failed, in words for clients and the access log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.proxy.counters import Bound
from apfproxy.proxy.exchange_state import (
    AUTHENTICATING,
    AWAITING,
    CONNECTING,
    GATHERING,
    QUEUED,
    RESPONDING,
)

if TYPE_CHECKING:
    from apfproxy.flowcontrol.priority_level import PriorityLevel
    from apfproxy.proxy.request import Request

LEFT_WHERE = {
    GATHERING: "the client left before its body was there",
    AUTHENTICATING: "the client left before it was authenticated",
    QUEUED: "the client left while it waited for seats",
    CONNECTING: "the client left while it waited for a connection to the server",
    AWAITING: "the client left before the server answered",
    RESPONDING: "the client left before the end of the answer",
}
"""By where the request stood."""
MALFORMED_BODY = "the request's body is malformed, or too long"
OUT_OF_TIME = "its time was over before the end of the answer"
STOOD_STILL = "the answer stood still (downstream.requestTimeout)"
UNHELD = {
    Bound.CONNECTION: "too many bytes of its connection wait in the proxy"
    " (downstream.limits.maxHeldBytesPerConnection)",
    Bound.ADDRESS: "too many bytes of its client's address wait in the proxy"
    " (downstream.limits.maxHeldBytesPerAddress)",
    Bound.PROCESS: "too many bytes of clients wait in the proxy (downstream.limits.maxHeldBytes)",
    Bound.OVERLOAD: "the proxy is short of memory (downstream.overload.memoryBytes)",
}
"""Why a request could not be held."""


def crowd_text(level: PriorityLevel, itself: int = 0) -> str:
    """What a request met at its level.

    Args:
        level: With its queues as they are now.
        itself: 1 if the request is one of those that wait there.
    """
    waited = level.queue_set.requests_waiting - itself
    in_use = f"{level.queue_set.seats_in_use} of {level.current_limit} seats were in use"
    waiting = "1 request waited" if waited == 1 else f"{waited} requests waited"
    return f"when it came, {in_use} and {waiting}"


def late_text(
    request: Request,
    what: str,
    waited_ns: int,
    *,
    is_upstream_late: bool,
    is_request_late: bool,
) -> str:
    """What did not come in time, and the settings that would give it more.

    Args:
        request: That waited for it.
        what: What it waited for.
        waited_ns: Since its dispatch.
        is_upstream_late: Whether the upstream has had all the time that a server has.
        is_request_late: Whether the request has had all of its own time.
    """
    settings = []
    if is_upstream_late:
        settings.append("upstream.answerTimeout")
    if is_request_late or not settings:
        has_own = bool(request.attributes.query.get("timeout"))
        settings.append("its timeout parameter" if has_own else "downstream.requestTimeout")
    return f"{what} within {rounded_s(waited_ns)} ({', '.join(settings)})"


def rounded_s(duration_ns: int) -> str:
    """A duration in seconds, with its unit."""
    seconds = duration_ns / 1e9
    return f"{seconds:.{0 if seconds >= 2 else 1}f} s"
