"""The interface of what takes a response from a connection to the upstream.

It is a base class, not a `Protocol`: compiled code calls its methods as fast as functions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apfproxy.http.read_buffer import Piece
    from apfproxy.http.response_head import ResponseHead


@mypyc_attr(allow_interpreted_subclasses=True)
class ResponseSink(ABC):
    __slots__ = ()

    @property
    def is_long_running(self) -> bool:
        """Whether the upstream may take as long as it likes."""
        return False

    @property
    def watching_ns(self) -> int:
        """When a watch that is under way was asked for; 0 for any other response."""
        return 0

    @property
    def can_end_watch(self) -> bool:
        """Whether it is a watch that is under way and can be ended now: between two events."""
        return False

    @property
    def is_connect(self) -> bool:
        """Whether the client takes any success for a tunnel: CONNECT of HTTP/2."""
        return False

    @property
    def sent_bytes(self) -> int:
        """Bytes of the body, or of a tunnel, that were passed on to the client."""
        return 0

    def end_watch(self) -> None:
        """End a watch as if it were through: its client resumes it."""
        raise NotImplementedError

    @abstractmethod
    def on_interim(self, head: ResponseHead) -> None:
        """A 1xx response, other than 101."""

    @abstractmethod
    def on_response(self, head: ResponseHead, body: Piece, *, is_whole: bool) -> None:
        """The final head with the first part of the body, and whether that is all of it."""

    @abstractmethod
    def on_switch(self, head: ResponseHead, raw: bytes, rest: bytes) -> None:
        """A response 101 and what came behind it; `raw` is the whole head.

        The connection is handed over to another protocol, unless this raises ResponseError, as it
        was not asked for.
        """

    @abstractmethod
    def on_body(self, pieces: Sequence[Piece], *, is_last: bool, trailers: bytes = b"") -> None:
        """A further part of the body; `trailers` are whole lines."""

    @abstractmethod
    def on_broken(self, reason: str, *, may_retry: bool) -> None:
        """The connection is gone before the response was whole.

        `may_retry` says that no byte of a response came, and either the connection had been used
        before, so that the server probably closed it before it saw the request, or there is another
        server.
        """

    @abstractmethod
    def on_upstream_writable(self) -> None:
        """The upstream takes more of the request's body."""

    @abstractmethod
    def fail(self, error: Exception) -> None:
        """End after an error of the program; never raises."""
