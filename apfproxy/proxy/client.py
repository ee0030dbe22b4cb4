"""Clients: as the server sees their connections, and as exchanges see whom they respond to.

An exchange has a `Client`: a connection of HTTP/1.1, or a stream of HTTP/2.  How a response is
framed, and whether more may come behind it, is the protocol's.  Base classes, not a `Protocol`:
compiled code calls their methods as fast as functions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from apfproxy.base.faults import guarded

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from apfproxy.authn.credentials import Peer
    from apfproxy.flowcontrol.observed_passage import Caller
    from apfproxy.http.read_buffer import Piece
    from apfproxy.http.request_head import RequestHead
    from apfproxy.http.response_head import ResponseHead
    from apfproxy.proxy.counters import Bound


class OpenConnection(ABC):
    """A client's connection, or a stream of one, as the server sees it."""

    def __init__(self) -> None:
        self.deadline_ns = 0

    @guarded
    def on_deadline(self) -> None:
        self.deadline_ns = 0
        self.meet_deadline()

    @abstractmethod
    def meet_deadline(self) -> None: ...

    @abstractmethod
    def fail(self, error: Exception) -> None:
        """End what is under way, and close; never raises."""

    def forget_peer(self) -> None:  # noqa: B027  nor has a stream anything to do here
        """Find out again what kind of client this is, when its next request comes."""

    def forget_header_blocks(self) -> None:  # noqa: B027
        """Forget the header blocks by which it is known: its kind has forgotten some."""

    def close_when_idle(self, deadline_ns: int) -> None:  # noqa: B027
        """Let the connection, if it is idle, close by then at the latest."""

    def relieve(self, now_ns: int) -> None:
        """Let go of what is of no use right now: memory is short."""
        self.close_when_idle(now_ns)

    @property
    @abstractmethod
    def has_seats(self) -> bool: ...

    @abstractmethod
    def leave(self) -> None:
        """Break the response under way and close: the proxy stops.  Asked again, close at once."""


class Client(OpenConnection):
    """Takes one response after the other.

    Attributes:
        forwarded_suffix: Ends the head of a forwarded request: the client's address.
        held: Bytes that are counted for the request under way.
        keep_alive: Whether another request may follow the one under way.
    """

    def __init__(self) -> None:
        super().__init__()
        self.address = ""
        self.forwarded_suffix = b""
        self.held = 0
        self.is_write_paused = False
        self.keep_alive = True
        self.callers: list[Caller] | None = None

    @property
    @abstractmethod
    def peer(self) -> Peer: ...

    @abstractmethod
    def send_continue(self) -> None: ...

    @abstractmethod
    def send_interim(self, head: ResponseHead) -> None: ...

    @abstractmethod
    def send_response(
        self, asked: RequestHead, head: ResponseHead, lines: bytes, body: Piece, *, is_whole: bool
    ) -> None:
        """Send the head on, with `lines` added, and the first of the body."""

    @abstractmethod
    def send_body(
        self, pieces: Sequence[Piece], size: int, *, is_last: bool, trailers: bytes = b""
    ) -> None:
        """Send `size` bytes more of the body, valid during the call; `trailers` are whole lines."""

    @abstractmethod
    def send_own(self, asked: RequestHead, build: Callable[..., bytes], extra: bytes) -> int:
        """Send what `build` of `own_responses` makes; returns the length of its body."""

    @abstractmethod
    def end_early(self) -> None:
        """End the response to a watch as if it were through: the proxy stops."""

    def hold(self, size: int) -> Bound | None:
        """Count `size` bytes for the request under way, or as many as before over this bound."""
        bound = self.change_held(size - self.held)
        if bound is None:
            self.held = size
        return bound

    @abstractmethod
    def change_held(self, by: int) -> Bound | None:
        """Have so many bytes more counted for the connection, or less; as of `Holding.change`."""

    @property
    def can_refuse(self) -> bool:
        """Whether the client can be told, without a response, that nothing was done."""
        return False

    def refuse_unprocessed(self, now_ns: int) -> None:
        """Tell it so: it may send the request again."""
        raise NotImplementedError

    @abstractmethod
    def pause_reading(self) -> None: ...

    @abstractmethod
    def resume_reading(self) -> None: ...

    @abstractmethod
    def on_exchange_end(self, exchange: object, now_ns: int) -> None: ...

    @abstractmethod
    def abort_after_write(self) -> None:
        """Send what is buffered, then close without ending the response."""

    @abstractmethod
    def abort(self) -> None:
        """Close at once, so that no one takes what is cut short for the whole."""

    @abstractmethod
    def reset(self) -> None:
        """Close at once, with a reset whatever is unsent."""

    # Tunnels: of clients that can ask for one.

    @property
    def makes_handshakes(self) -> bool:
        """Whether the handshake is the proxy's: the client has none, and takes success for it."""
        return False

    @property
    def can_half_close(self) -> bool:
        """Whether the client can be told that no more comes, and go on itself."""
        raise NotImplementedError

    def hand_over(self, protocol: asyncio.BufferedProtocol) -> bytes:
        """Have another protocol take what comes, for good: what has come and was not taken."""
        raise NotImplementedError

    def send_switch(self, head: ResponseHead, lines: bytes, protocol: bytes, data: bytes) -> None:
        """Send the upstream's response 101, with `lines` added, and the first bytes behind it."""
        raise NotImplementedError

    def send_pieces(self, pieces: Sequence[Piece], size: int) -> None:
        raise NotImplementedError

    def half_close(self) -> None:
        raise NotImplementedError

    def end_tunnel(self) -> None:
        """End the tunnel behind what is unsent."""
        raise NotImplementedError

    def count_tunnelled(self, size: int) -> None:
        """The tunnel has taken bytes from the client."""
        raise NotImplementedError

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget what was handed over: it is gone."""
        raise NotImplementedError
