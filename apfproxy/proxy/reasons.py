"""Explanations for clients and operators: why they failed, and the debug headers X-Apfproxy-*.

Reasons are for clients and the access log.  Debug headers tell some users what flow control made
of a request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.proxy.counters import Bound
from apfproxy.proxy.exchange_state import ExchangeState
from apfproxy.settings import EVERYBODY

if TYPE_CHECKING:
    from apfproxy.flowcontrol.passage import Passage
    from apfproxy.proxy.request import Request
    from apfproxy.request.attributes import User
    from apfproxy.settings import AudienceSettings

NO_CONNECTION = "there was no connection to the server"
LEFT_WHERE = {
    ExchangeState.GATHERING: "the client left before its body was there",
    ExchangeState.AUTHENTICATING: "the client left before it was authenticated",
    ExchangeState.QUEUED: "the client left while it waited for seats",
    ExchangeState.CONNECTING: "the client left while it waited for a connection to the server",
    ExchangeState.AWAITING: "the client left before the server answered",
    ExchangeState.RESPONDING: "the client left before the end of the answer",
}
MALFORMED_BODY = "the request's body is malformed, or too long"
OUT_OF_TIME = "its time was over before the end of the answer"
STOOD_STILL = "the answer stood still (upstream.streamIdleTimeout, downstream.requestTimeout)"
LATE = {
    (True, True): "the server did not begin its answer",
    (True, False): "the server did not take all of the request",
    (False, True): NO_CONNECTION,
    (False, False): NO_CONNECTION,
}
"""The part that did not come, by whether there is a connection, and the request is whole."""
UNHELD = {
    Bound.CONNECTION: "too many bytes of its connection wait in the proxy"
    " (downstream.limits.maxHeldBytesPerConnection)",
    Bound.ADDRESS: "too many bytes of its client's address wait in the proxy"
    " (downstream.limits.maxHeldBytesPerAddress)",
    Bound.PROCESS: "too many bytes of clients wait in the proxy (downstream.limits.maxHeldBytes)",
    Bound.OVERLOAD: "the proxy is short of memory (downstream.overload.memoryBytes)",
}


def crowd_text(passage: Passage, itself: int = 0) -> str:
    found = passage.classification
    assert found is not None
    queue_set = found.level.queue_set
    waited = queue_set.requests_waiting - itself
    in_use = f"{queue_set.seats_in_use} of {found.level.current_limit} seats were in use"
    waiting = "1 request waited" if waited == 1 else f"{waited} requests waited"
    return f"when it came, {in_use} and {waiting}"


def late_text(request: Request, what: str, waited_ns: int, age_ns: int, is_late: bool) -> str:
    """Say what did not come, and the settings that give more time.

    `is_late` says whether the upstream had all of its time; `age_ns` is the request's.
    """
    settings = ["upstream.answerTimeout"] if is_late else []
    if age_ns >= request.timeout_ns or not settings:
        has_own = bool(request.attributes.query.get("timeout"))
        settings.append("its timeout parameter" if has_own else "downstream.requestTimeout")
    return f"{what} within {rounded_s(waited_ns)} ({', '.join(settings)})"


def rounded_s(duration_ns: int) -> str:
    seconds = duration_ns / 1e9
    return f"{seconds:.{0 if seconds >= 2 else 1}f} s"


class Audience:
    """Users and groups that settings name, such as those whose responses have debug headers."""

    def __init__(self, settings: AudienceSettings) -> None:
        self._users = frozenset(settings.users)
        self._groups = frozenset(settings.groups)
        self.is_empty = not self._users and not self._groups

    def has(self, user: User) -> bool:
        return (
            EVERYBODY in self._users
            or user.name in self._users
            or not self._groups.isdisjoint(user.groups)
        )


def debug_lines(passage: Passage, now_ns: int, reason: str) -> bytes:
    """Debug headers; `now_ns` counts if it has no seats, `reason` is why it failed or ""."""
    found, ticket = passage.classification, passage.ticket
    assert found is not None
    waited_ns = 0
    if ticket is not None:
        until_ns = ticket.dispatched_ns if ticket.dispatched_ns >= 0 else now_ns
        waited_ns = until_ns - ticket.arrived_ns
    if not reason and passage.refusal is not None:
        reason = passage.refusal.reason  # observed: it would have been rejected
    # Validation allows neither spaces nor line ends in names.
    lines = (
        f"X-Apfproxy-Flow-Schema: {found.flow.counters.flow_schema}\r\n"
        f"X-Apfproxy-Priority-Level: {found.level.name}\r\n"
        f"X-Apfproxy-Seats: {passage.seats}\r\n"
        f"X-Apfproxy-Waited: {waited_ns / 1_000_000:.3f}ms\r\n"
    )
    if reason:
        lines += f"X-Apfproxy-Reason: {reason}\r\n"
    return lines.encode()
