"""The response to a request that no one waits for any more: its seats are kept until it has come.

Closing the connection tells the upstream that its response is not wanted.  Before a server that
does not notice, clients that ask and disconnect, again and again, would have it work on any number
of requests at once.  `upstream.abandonedWait` is for such servers:

1. The connection stays open, both halves: many servers close it otherwise, but go on.
2. The response is read and thrown away.  With its end, or the connection's, the seats go back.
3. After the setting's time, or `MAX_DISCARDED_BYTES` of the body, the connection is closed.
4. A watch holds its seats no longer than one whose client stays, `watch.limit`.
5. A completion is charged for the tokens that come: else to leave early would cost next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.base.faults import Part, contained, guarded, report
from apfproxy.http.response_head import ResponseError
from apfproxy.proxy.completions import count_tokens
from apfproxy.upstream.counters import UpstreamFailure
from apfproxy.upstream.response_sink import ResponseSink

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apfproxy.flowcontrol.passage import Passage
    from apfproxy.http.read_buffer import Piece
    from apfproxy.http.response_head import ResponseHead
    from apfproxy.http.token_counter import TokenCounter
    from apfproxy.proxy.context import Context
    from apfproxy.upstream.endpoint import UpstreamConnection

MAX_DISCARDED_BYTES = 1 << 20
"""Bytes of a response that are read: they cost a millisecond, and most are smaller."""


class AbandonedResponse(ResponseSink):
    """Takes the place of a relay as the sink of a response; `Context.abandoned` keeps it."""

    def __init__(
        self,
        context: Context,
        upstream: UpstreamConnection,
        passage: Passage,
        counter: TokenCounter | None,
        *,
        is_watch: bool,
    ) -> None:
        self._context = context
        self._upstream = upstream
        self._passage = passage
        self._counter = counter
        self._discarded_bytes = 0
        wait_ns = context.in_force.abandoned_wait_ns
        if is_watch:
            wait_ns = min(wait_ns, round(context.in_force.watch.limit_s * 1e9))
        self._timer = context.clock.call_at(context.clock.now_ns() + wait_ns, self._on_wait_over)
        context.abandoned[self] = self.end
        context.counters.abandoned_requests += 1
        upstream.sink = self
        upstream.resume_reading()

    def end(self) -> None:
        """Close the connection, and give the seats back; harmless once that is done."""
        if self not in self._context.abandoned:
            return
        self._context.abandoned.pop(self, None)
        self._timer.cancel()
        counter, completion = self._counter, self._passage.completion
        if counter is not None and completion is not None:
            count_tokens(completion, counter)
        try:
            self._upstream.abort()
        finally:
            self._passage.release(self._context.clock.now_ns())

    def fail(self, error: Exception) -> None:
        loop = self._context.loop
        report(Part.CONNECTION, error, "an error of the proxy itself: a response ends", loop=loop)
        with contained(Part.CONNECTION, loop):
            self.end()

    @guarded
    def _on_wait_over(self) -> None:
        self._context.counters.abandoned_given_up += 1
        self.end()

    # What the connection says.

    def on_interim(self, head: ResponseHead) -> None: ...

    def on_response(self, head: ResponseHead, body: Piece, *, is_whole: bool) -> None:  # noqa: ARG002  the sink's signature
        self._discard(len(body), is_last=is_whole)

    def on_body(self, pieces: Sequence[Piece], *, is_last: bool, trailers: bytes = b"") -> None:  # noqa: ARG002  as above
        if self._counter is not None:
            self._counter.feed(pieces)
        self._discard(sum(map(len, pieces)), is_last=is_last)

    def on_switch(self, head: ResponseHead, raw: bytes, rest: bytes) -> None:  # noqa: ARG002  as above
        raise ResponseError("a response 101 that no client waits for")

    def on_broken(self, reason: str, *, may_retry: bool) -> None:  # noqa: ARG002  as above
        # Responses that no one waits for are not counted: this says nothing of how many fail.
        self._upstream.endpoint.fail(UpstreamFailure.BROKEN_ANSWER, reason, is_telling=False)
        self.end()

    def on_upstream_writable(self) -> None: ...

    def _discard(self, size: int, *, is_last: bool) -> None:
        self._discarded_bytes += size
        if is_last or self._discarded_bytes > MAX_DISCARDED_BYTES:
            self.end()
