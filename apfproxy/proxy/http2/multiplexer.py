"""What a stream asks of the connection that it shares with others.

A base class, not a `Protocol`: compiled code calls its methods as fast as functions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from apfproxy.authn.credentials import Peer
    from apfproxy.flowcontrol.observed_passage import Caller
    from apfproxy.http.head_error import HeadError
    from apfproxy.proxy.context import Context
    from apfproxy.proxy.counters import Bound


class Multiplexer(ABC):
    """A connection that carries streams.

    Attributes:
        address: The client's; "" until the connection has come about.
        callers: As of `ObservedPassage`.
        forwarded_suffix: Ends the head of every forwarded request: the client's address.
    """

    __slots__ = ("address", "callers", "forwarded_suffix")

    def __init__(self) -> None:
        self.address = ""
        self.callers: list[Caller] = []
        self.forwarded_suffix = b""

    @abstractmethod
    def now_ns(self) -> int:
        """The time."""

    @property
    @abstractmethod
    def idle_timeout_ns(self) -> int:
        """Until a client must have taken an answer that is through."""

    @property
    @abstractmethod
    def linger_ns(self) -> int:
        """For how long the rest of a request is taken that has its answer."""

    @abstractmethod
    def peer_at(self, context: Context) -> Peer:
        """What is known of the client, by the rules of a cluster."""

    @abstractmethod
    def change_held(self, by: int) -> Bound | None:
        """Have so many bytes more counted for the connection, or less; as of `Holding.change`."""

    @abstractmethod
    def send_whole(self, stream_id: int, answer: bytes) -> int:
        """Send a whole answer that is written as HTTP/1.1's; says how long its body is."""

    @abstractmethod
    def refuse(
        self,
        stream_id: int,
        error: HeadError,
        context: Context | None,
        *,
        is_head: bool = False,
        is_logged: bool = False,
    ) -> None:
        """Answer what is no request, or none that a cluster takes."""

    @abstractmethod
    def flush(self) -> None:
        """Send as much as the transport takes."""

    @abstractmethod
    def flush_soon(self) -> None:
        """Send what streams have to send, all of it at once when this turn of the loop is over."""

    @abstractmethod
    def give_up(self, stream_id: int, code: int) -> None:
        """Reset a stream whose client does not take the rest of an answer, or end its request."""

    @abstractmethod
    def reset_after_error(self, stream_id: int) -> None:
        """Reset a stream after an error of the program; never raises."""
