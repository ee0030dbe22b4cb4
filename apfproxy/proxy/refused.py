"""The response to what is no request, or none that a cluster takes: it is counted and logged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from apfproxy.http.grammar import GrpcError, UnheldError
from apfproxy.proxy import own_responses
from apfproxy.proxy.request_record import Failure, RequestRecord

if TYPE_CHECKING:
    from apfproxy.http.grammar import HeadError
    from apfproxy.proxy.context import Context
    from apfproxy.proxy.listener_context import ListenerContext

_REASONS: Final = {
    404: Failure.NO_CLUSTER,
    408: Failure.CLIENT_TIMEOUT,
    421: Failure.NO_CLUSTER,
    503: Failure.NO_CLUSTER,
}


def refused(
    shared: ListenerContext,
    context: Context | None,
    address: str,
    error: HeadError,
    *,
    is_head: bool = False,
    is_logged: bool = False,
) -> bytes:
    """The whole response, after which an HTTP/1.1 connection closes.

    `context` is of the cluster that the client was at last; `is_logged` says whether the access log
    has it already.
    """
    if error.code == 400:
        shared.counters.malformed_requests += 1
    elif error.code == 404:
        shared.counters.unrouted_requests += 1
    shared.counters.count_own(error.code)
    is_plain = shared.is_plain if context is None else context.is_plain
    build = own_responses.plain_response if is_plain else own_responses.status_response
    if isinstance(error, GrpcError):
        build = own_responses.grpc_response
    close = b"Connection: close\r\n"
    response = build(error.code, str(error), is_head=is_head, extra=error.lines, connection=close)
    access_log = shared.access_log if context is None else context.access_log
    if access_log is not None and not is_logged:
        reason = _REASONS.get(error.code, Failure.MALFORMED)
        if isinstance(error, UnheldError):
            reason = Failure.MEMORY
        code, size, why = error.code, own_responses.body_bytes(response), str(error)
        now = shared.clock.now_ns()
        record = RequestRecord(
            None, None, None, None, None, address, 0, now, 0, now, 0, code, 0, size, reason, why
        )
        access_log.take(record)
    return response
