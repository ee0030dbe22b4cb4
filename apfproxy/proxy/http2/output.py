"""The output of a connection of HTTP/2, which all of its streams write to.

All that they send within a turn of the loop goes out in one write, and no more than the transport
takes: the rest waits in the streams, each of which is bounded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from apfproxy.base.faults import Part, contained
from apfproxy.http.read_buffer import NOWHERE, READ_BYTES, WRITE_HIGH_WATER_BYTES
from apfproxy.http.upgrade import UPGRADE_LINES
from apfproxy.proxy.client_limits import Holding
from apfproxy.proxy.head_reader import HeadReader
from apfproxy.proxy.http2.available import BINDING

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.flowcontrol.observed_passage import Caller
    from apfproxy.http.grammar import HeadError
    from apfproxy.proxy.cluster_router import ClusterRouter
    from apfproxy.proxy.context import Context, ListenerContext
    from apfproxy.proxy.counters import Bound

# Codes of RST_STREAM and GOAWAY; RFC 9113, section 7.
NO_ERROR: Final = 0
PROTOCOL_ERROR: Final = 1
INTERNAL_ERROR: Final = 2
REFUSED_STREAM: Final = 7
CANCEL: Final = 8
ENHANCE_YOUR_CALM: Final = 11

OUTPUT_BYTES: Final = 65536


class Http2Output:
    """Holds what the streams of a connection share; `flush` is the connection's."""

    def __init__(
        self,
        shared: ListenerContext,
        router: ClusterRouter,
        counted_as: str,
        flush: Callable[[], None],
    ) -> None:
        assert BINDING is not None, "no one may agree on HTTP/2 without it"
        self.shared = shared
        self.reader = HeadReader(router, is_http2=True)
        in_force = shared.in_force
        self.session = BINDING.Session(
            in_force.max_streams, READ_BYTES, in_force.max_head_bytes, WRITE_HIGH_WATER_BYTES, True
        )
        self.address = ""
        self.callers: list[Caller] = []
        self.forwarded_suffix = b""
        self.flush = flush
        self.transport = NOWHERE
        self.write = NOWHERE.write
        self.is_paused = False
        self.paused_ns = 0
        self._is_flush_due = False
        self._is_writing = False
        self._holding = Holding(shared.holdings, counted_as)

    def flush_soon(self) -> None:
        """Send what streams have to send, all of it at once when this turn of the loop is over."""
        if not self._is_flush_due:
            self._is_flush_due = True
            self.shared.loop.call_soon(self._flush_due)

    def _flush_due(self) -> None:
        if self._is_flush_due:
            self.flush()

    def write_all(self) -> bool:
        """Write as much as the transport takes; False from within another call, which goes on."""
        if self._is_writing:
            return False
        self._is_writing, self._is_flush_due = True, False
        session, counters = self.session, self.shared.counters
        try:
            while not self.is_paused:
                data = session.output(OUTPUT_BYTES)
                if not data:
                    break
                counters.bytes_to_clients += len(data)
                self.write(data)
        finally:
            self._is_writing = False
        return True

    def give_up(self, stream_id: int, code: int) -> None:
        """Reset a stream whose client does not take the rest of a response, or end its request."""
        since_ns = self.shared.clock.now_ns() - self.paused_ns
        if self.is_paused and since_ns >= self.shared.in_force.idle_timeout_ns:
            self.transport.abort()  # it does not take anything
        else:
            self.reset(stream_id, code)

    def reset(self, stream_id: int, code: int) -> None:
        self.session.reset(stream_id, code)
        self.flush_soon()

    def reset_after_error(self, stream_id: int) -> None:
        with contained(Part.CONNECTION, self.shared.loop):
            self.reset(stream_id, INTERNAL_ERROR)

    def change_held(self, by: int) -> Bound | None:
        return self._holding.change(by)

    def refuse(
        self,
        stream_id: int,
        error: HeadError,
        context: Context | None,
        *,
        is_head: bool,
        is_logged: bool = False,
    ) -> None:
        response = self.shared.refuse(
            context, self.address, error, is_head=is_head, is_logged=is_logged
        )
        for lines in (b"Connection: close\r\n", UPGRADE_LINES):
            response = response.replace(lines, b"", 1)
        self.send_whole(stream_id, response)

    def send_whole(self, stream_id: int, response: bytes) -> int:
        """Send a response that is written as HTTP/1.1's; returns the length of its body."""
        end = response.index(b"\r\n\r\n") + 4
        fields = fields_of(response[: end - 2])
        self.session.answer(stream_id, int(response[9:12]), fields, response[end:], True)
        self.flush_soon()
        return len(response) - end


def fields_of(lines: bytes) -> bytes:
    return lines[lines.index(b"\r\n") + 2 :]
