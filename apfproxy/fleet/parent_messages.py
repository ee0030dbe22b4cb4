r"""What a worker and its parent process say to each other about the record: lines of JSON.

A connection begins with a greeting from either side, the worker's first, each with the newest
protocol that it speaks; both speak the older of the two.  A worker may be of newer code than its
parent.  Fields that a side does not know it ignores.

Then the worker asks, and each answer has the number of its question.  An answer of number 0 is of
no question: somebody wrote something urgent, or a line could not be read.

    > {"protocol":1}
    < {"protocol":1}
    > {"number":1,"verb":"listen","key":"apfproxy"}
    < {"number":1}
    > {"number":2,"verb":"read","key":"apfproxy"}
    < {"number":2,"version":"5f3a.17","data":"eyJ2..."}
    > {"number":3,"verb":"swap","key":"apfproxy","version":"5f3a.17","data":"eyJ2...","urgent":true}
    < {"number":3,"done":true,"version":"5f3a.18"}
    < {"urgent":"apfproxy"}
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Final, cast

import msgspec

from apfproxy.fleet.record import MAX_RECORD_BYTES

PROTOCOL: Final = 1
MAX_LINE_BYTES: Final = 2 * MAX_RECORD_BYTES
"""Data is in base64, which is a third longer."""
MAX_KEY: Final = 512

READ, SWAP, LISTEN = "read", "swap", "listen"


class Message(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Base of what is said."""


class Greeting(Message, frozen=True):
    """The first line of either side."""

    protocol: Annotated[int, msgspec.Meta(ge=1)]


class Question(Message, frozen=True):
    """What a worker wants.

    Attributes:
        version: Of what it saw; of a swap.
        data: In place of it; of a swap.
        is_urgent: Whether the other listeners are to be told.
    """

    number: int
    verb: str
    key: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_KEY)]
    version: str = ""
    data: bytes | None = None
    is_urgent: bool = msgspec.field(default=False, name="urgent")


class Answer(Message, frozen=True):
    """What the parent says.

    Attributes:
        is_done: Whether a swap is written.
        data: What is there; absent where the worker has it already, and where there is none.
        urgent: The key of what somebody else wrote.
        error: Why there is no good answer.
    """

    number: int = 0
    is_done: bool = msgspec.field(default=False, name="done")
    version: str = ""
    data: bytes | None = None
    urgent: str = ""
    error: str = ""


def line_of(message: Message) -> bytes:
    """A message as it is sent."""
    return msgspec.json.encode(message) + b"\n"


class LineProtocol(asyncio.Protocol):
    """A connection that carries lines of at most `MAX_LINE_BYTES`.

    Attributes:
        transport: Of the connection; None before it is there.
    """

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self._begun = bytearray()  # a line, without its end yet

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Hand over each line that is complete."""
        *ended, rest = data.split(b"\n")
        for part in ended:
            line = bytes(self._begun + part)
            self._begun.clear()
            if len(line) > MAX_LINE_BYTES:
                self.on_wrong("a line is too long")
                return
            self.on_line(line)
            if self.is_ending:
                return
        self._begun += rest
        if len(self._begun) > MAX_LINE_BYTES:
            self.on_wrong("a line is too long")

    def on_line(self, line: bytes) -> None:
        """Take a line, without its end."""
        raise NotImplementedError

    def on_wrong(self, problem: str) -> None:
        """The other side breaks the rules: end the connection."""
        raise NotImplementedError

    def send(self, message: Message) -> None:
        """Send a message, unless the connection ends."""
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(line_of(message))

    @property
    def is_ending(self) -> bool:
        """Whether it is closed, or about to be; not so before it is there."""
        return self.transport is not None and self.transport.is_closing()

    def end(self) -> None:
        """End it at once."""
        if self.transport is not None:
            self.transport.abort()
