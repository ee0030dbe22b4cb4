"""The response to what is no request, or none that a cluster takes: it is counted and logged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.http.grammar import GrpcError, UnheldError
from apfproxy.proxy import own_responses
from apfproxy.proxy.request_record import Failure, RequestRecord

if TYPE_CHECKING:
    from apfproxy.http.grammar import HeadError
    from apfproxy.proxy.client import ListenerContext
    from apfproxy.proxy.context import Context


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

    `context` is of the client's last cluster, `is_logged` says whether the log has it already.
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
        reason = Failure.NO_CLUSTER if error.code in (404, 421, 503) else Failure.MALFORMED
        if error.code == 408:
            reason = Failure.CLIENT_TIMEOUT
        if isinstance(error, UnheldError):
            reason = Failure.MEMORY
        code, size, why = error.code, own_responses.body_bytes(response), str(error)
        now = shared.clock.now_ns()
        record = RequestRecord(
            None, None, None, None, None, address, 0, now, 0, now, 0, code, 0, size, reason, why
        )
        access_log.take(record)
    return response
