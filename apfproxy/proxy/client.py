"""What an exchange asks of whatever brings requests: today a connection of HTTP/1.1.

Neither knows the other's file, so that another protocol can bring requests.  A base class, not a
`Protocol`: compiled code calls its methods as fast as functions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from apfproxy.authn.credentials import Peer
    from apfproxy.proxy.read_buffer import Piece


class Served(Protocol):
    """An exchange, as its client ends it after an error of the program."""

    def give_up(self) -> None:
        """Give back all that it holds; never raises."""


class Client(ABC):
    """Takes one answer after the other.

    Attributes:
        address: The client's.
        deadline_ns: When the exchange's `on_deadline` is due; 0 for never.
        forwarded_suffix: Ends the head of a forwarded request: the client's address.
        is_write_paused: Whether the client is slow to take an answer.
        keep_alive: Whether another request may follow the one under way.
        transport: The connection's; for a tunnel.
    """

    __slots__ = ("address", "deadline_ns", "forwarded_suffix", "is_write_paused", "keep_alive")

    def __init__(self) -> None:
        self.address = ""
        self.deadline_ns = 0
        self.forwarded_suffix = b""
        self.is_write_paused = False
        self.keep_alive = True

    @property
    @abstractmethod
    def transport(self) -> asyncio.Transport:
        """The connection's."""

    @property
    @abstractmethod
    def peer(self) -> Peer:
        """What is known of the client."""

    @abstractmethod
    def send(self, data: bytes) -> None:
        """Send a part of an answer."""

    @abstractmethod
    def send_pieces(self, pieces: Sequence[Piece], size: int) -> None:
        """Send pieces of an answer, of `size` bytes together."""

    @abstractmethod
    def pause_reading(self) -> None:
        """Take no more of the request's body for now."""

    @abstractmethod
    def resume_reading(self) -> None:
        """Take more."""

    @abstractmethod
    def may_keep_alive(self) -> bool:
        """Whether the connection goes on after the answer that is about to start; decides it."""

    @abstractmethod
    def on_exchange_end(self, exchange: Served, now_ns: int) -> None:
        """The answer is through."""

    @abstractmethod
    def abort_after_write(self) -> None:
        """Send what is buffered, then close without ending the answer."""

    @abstractmethod
    def abort(self) -> None:
        """Close at once, with a reset if anything is unsent."""

    @abstractmethod
    def reset(self) -> None:
        """Close at once, with a reset whatever is unsent."""

    @abstractmethod
    def fail(self, error: Exception, exchange: Served | None = None) -> None:
        """Close after an error of the program, wherever it came up; never raises.

        Args:
            error: What it is; it is reported.
            exchange: In which it came up, if that is not under way here any more.
        """

    @abstractmethod
    def hand_over(self, protocol: asyncio.BufferedProtocol) -> bytes:
        """Let another protocol have the transport, for good: what has come and was not taken."""

    @abstractmethod
    def connection_lost(self, exc: Exception | None) -> None:
        """The transport that was handed over is gone."""
