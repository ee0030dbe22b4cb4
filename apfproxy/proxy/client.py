"""What an exchange asks of whatever brings requests: today a connection of HTTP/1.1.

Neither knows the other's file, so that another protocol can bring requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio

    from apfproxy.authn.credentials import Peer


class Served(Protocol):
    """An exchange, as its client ends it after an error of the program."""

    def give_up(self) -> None:
        """Give back all that it holds; never raises."""


class Client(Protocol):
    """Takes one answer after the other.

    Attributes:
        address: The client's.
        deadline_ns: When the exchange's `on_deadline` is due; 0 for never.
        forwarded_suffix: Ends the head of a forwarded request: the client's address.
        is_write_paused: Whether the client is slow to take an answer.
        keep_alive: Whether another request may follow the one under way.
        transport: The connection's; for a tunnel.
    """

    address: str
    deadline_ns: int
    forwarded_suffix: bytes
    is_write_paused: bool
    keep_alive: bool

    @property
    def transport(self) -> asyncio.Transport: ...

    @property
    def peer(self) -> Peer:
        """What is known of the client."""

    def send(self, data: bytes) -> None:
        """Send a part of an answer."""

    def pause_reading(self) -> None:
        """Take no more of the request's body for now."""

    def resume_reading(self) -> None:
        """Take more."""

    def may_keep_alive(self) -> bool:
        """Whether the connection goes on after the answer that is about to start; decides it."""

    def on_exchange_end(self, exchange: Served, now_ns: int) -> None:
        """The answer is through."""

    def abort_after_write(self) -> None:
        """Send what is buffered, then close without ending the answer."""

    def abort(self) -> None:
        """Close at once, with a reset if anything is unsent."""

    def reset(self) -> None:
        """Close at once, with a reset whatever is unsent."""

    def fail(self, error: Exception, exchange: Served | None = None) -> None:
        """Close after an error of the program, wherever it came up; never raises.

        Args:
            error: What it is; it is reported.
            exchange: In which it came up, if that is not under way here any more.
        """

    def hand_over(self, protocol: asyncio.BufferedProtocol) -> bytes:
        """Let another protocol have the transport, for good: what has come and was not taken."""

    def connection_lost(self, exc: Exception | None) -> None:
        """The transport that was handed over is gone."""
