"""Why requests were refused, cut short or failed, in words for clients and the access log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.proxy.counters import Bound
from apfproxy.proxy.exchange_state import ExchangeState

if TYPE_CHECKING:
    from apfproxy.flowcontrol.passage import Passage
    from apfproxy.proxy.exchange import Exchange

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
STOOD_STILL = "the answer stood still (downstream.requestTimeout)"
UNHELD = {
    Bound.CONNECTION: "too many bytes of its connection wait in the proxy"
    " (downstream.limits.maxHeldBytesPerConnection)",
    Bound.ADDRESS: "too many bytes of its client's address wait in the proxy"
    " (downstream.limits.maxHeldBytesPerAddress)",
    Bound.PROCESS: "too many bytes of clients wait in the proxy (downstream.limits.maxHeldBytes)",
    Bound.OVERLOAD: "the proxy is short of memory (downstream.overload.memoryBytes)",
}


def crowd_text(passage: Passage, itself: int = 0) -> str:
    """What a request met at its level; `itself`: 1 if it is one of those that wait there."""
    found = passage.classification
    assert found is not None
    queue_set = found.level.queue_set
    waited = queue_set.requests_waiting - itself
    in_use = f"{queue_set.seats_in_use} of {found.level.current_limit} seats were in use"
    waiting = "1 request waited" if waited == 1 else f"{waited} requests waited"
    return f"when it came, {in_use} and {waiting}"


def late_text(exchange: Exchange, now_ns: int, *, has_connection: bool) -> str:
    """What did not come in time, and the settings that would give it more."""
    request, waited_ns = exchange.request, now_ns - exchange.sent_ns
    settings = []
    if exchange.is_whole and waited_ns >= exchange.context.in_force.answer_timeout_ns:
        settings.append("upstream.answerTimeout")
    begun_ns = exchange.sent_ns if request.attributes.is_plain else exchange.asked_ns
    if now_ns - begun_ns >= request.timeout_ns or not settings:
        has_own = bool(request.attributes.query.get("timeout"))
        settings.append("its timeout parameter" if has_own else "downstream.requestTimeout")
    what = "the server did not begin its answer"
    if not has_connection:
        what = "there was no connection to the server"
    elif not exchange.is_whole:
        what = "the server did not take all of the request"
    return f"{what} within {rounded_s(waited_ns)} ({', '.join(settings)})"


def rounded_s(duration_ns: int) -> str:
    """A duration in seconds, with its unit."""
    seconds = duration_ns / 1e9
    return f"{seconds:.{0 if seconds >= 2 else 1}f} s"
