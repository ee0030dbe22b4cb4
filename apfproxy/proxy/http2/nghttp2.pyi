"""The server's side of HTTP/2 connections by libnghttp2, as bytes in and bytes out; no policy."""

from typing import Any, Final, final

VERSION: Final[str]
"""Of the library that is loaded, such as `1.52.0`."""

REQUEST: Final = 1
"""`(REQUEST, stream, (method, scheme, authority, path, protocol, fields, marks), is_last)`.

The first six are bytes; a pseudo field that did not come is empty, and `fields` are lines, by their
names unless there are more than 64.  `marks` are bits, whether some fields are among them.
"""
HAS_LENGTH: Final = 1
"""A content-length."""
HAS_HOST: Final = 2
"""A host."""
HAS_COOKIES: Final = 4
"""More than one cookie."""
TOO_LARGE: Final = 2
"""`(TOO_LARGE, stream, method, has_cut)`: a request whose fields are over the bound.

`has_cut` says that one of them is longer than the library takes, 64 KiB as it comes.
"""
DATA: Final = 3
"""`(DATA, stream, data, False)`: some of its body; all of its length waits for `consume`."""
TRAILERS: Final = 4
"""`(TRAILERS, stream, fields, True)`: the end of its body, with these lines."""
END: Final = 5
"""`(END, stream, b"", True)`: the end of its body."""
CLOSED: Final = 6
"""`(CLOSED, stream, None, code)`: gone, whichever side ended it; 0 if both did as they should."""
ROOM: Final = 7
"""`(ROOM, stream, None, 0)`: what `want_room` asked for."""
ANSWERED: Final = 8
"""`(ANSWERED, stream, None, 0)`: the answer went out whole, before the end of its request."""

class SessionError(Exception):
    """The connection is over; `output` still has its GOAWAY."""

    code: int
    """Of the GOAWAY."""

@final
class Session:
    r"""The server's side of one connection.

    Lines are `name: value\r\n` each, as HTTP/1.1 writes them.  Calls for a stream that is gone do
    nothing.  A field with a byte that none may have, and any other breach of RFC 9113's rules, ends
    its stream or the connection without a word here but the counts.
    """

    def __init__(
        self,
        max_streams: int,
        window_bytes: int,
        max_fields_bytes: int,
        low_water_bytes: int,
        connect_protocol: bool,
    ) -> None:
        """Prepare the connection's SETTINGS.

        Args:
            max_streams: How many streams may be open at once.
            window_bytes: The window of a stream; the connection's is as much for all of them.
            max_fields_bytes: What a request's fields, or its trailers, may take: names and
                values with 32 bytes a field, as RFC 9113, 6.5.2 counts.
            low_water_bytes: At how many unsent bytes `ROOM` comes.
            connect_protocol: Whether extended CONNECT (RFC 8441) is offered.
        """

    def receive(self, data: bytes | memoryview) -> list[tuple[int, int, Any, int]]:
        """Read what came, and give all events until now.

        A request whose stream was closed again within `data` is not told of.

        Raises:
            SessionError: The client broke a rule of the connection.
        """

    def events(self) -> list[tuple[int, int, Any, int]]:
        """What came up in other calls: `CLOSED`, `ROOM` and `ANSWERED`."""

    def output(self, max_bytes: int) -> bytes:
        """What is to be written now, up to a frame more than `max_bytes`; empty for nothing.

        Raises:
            SessionError: The connection is over, and nothing can be written.
        """

    def interim(self, stream_id: int, status: int, lines: bytes) -> None:
        """Send an interim answer, of a status from 100 to 199."""

    def answer(self, stream_id: int, status: int, lines: bytes, body: bytes, is_last: bool) -> None:
        """Send the head of the answer, with its first bytes, or all, of its body."""

    def send(self, stream_id: int, data: bytes, is_last: bool) -> None:
        """Send more of the answer's body."""

    def end(self, stream_id: int, trailers: bytes) -> None:
        """End the answer, by trailers if there are lines of them."""

    def half_close(self, stream_id: int) -> None:
        """End the answer, though the client may go on: no `ANSWERED` follows."""

    def break_off(self, stream_id: int, code: int) -> None:
        """End the stream by RST_STREAM behind what is unsent; after `half_close` behind its end."""

    def reset(self, stream_id: int, code: int) -> None:
        """End the stream by RST_STREAM; what is unsent is dropped.

        With PROTOCOL_ERROR it counts as one of `own_resets`.
        """

    def consume(self, stream_id: int, size: int) -> None:
        """Give back as much of the stream's window."""

    def unsent(self, stream_id: int) -> int:
        """How many bytes of the answer's body `output` has not given yet."""

    def want_room(self, stream_id: int) -> None:
        """Ask for one `ROOM`, once no more than `low_water_bytes` are unsent."""

    def ping(self) -> None:
        """Send PING, which the client has to answer."""

    def announce_shutdown(self) -> None:
        """Send the GOAWAY that announces another: streams under way still come in."""

    def go_away(self, code: int, reason: bytes = b"") -> None:
        """Send GOAWAY with the last stream that was taken; later ones are ignored."""

    @property
    def is_over(self) -> bool:
        """Whether it wants neither to read nor to write."""

    @property
    def unfinished(self) -> int:
        """How much has come of a header block that is not whole, in bytes."""

    unsent_bytes: Final[int]
    """How many bytes of all answers' bodies `output` has not given yet."""
    requests: Final[int]
    """First HEADERS of streams."""
    resets: Final[int]
    """Streams that the client reset before their answer began."""
    own_resets: Final[int]
    """Streams that were ended by RST_STREAM, for the client broke a rule."""
    window_updates: Final[int]
    """WINDOW_UPDATE frames."""
    empty_data: Final[int]
    """DATA frames without data that do not end a request."""
    continuations: Final[int]
    """CONTINUATION frames below 1 KiB."""
    data_sent: Final[int]
    """DATA frames to the client, but those that its window kept below 1 KiB."""
    nuisances: Final[int]
    """All frames from the client but first HEADERS, larger CONTINUATION, DATA with data, and ends
    of requests;
    with `own_resets`."""
