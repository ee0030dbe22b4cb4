"""The link between a parent and one of its workers: messages over a connected pair of sockets.

1. A message is a frame: 4 bytes with the length of what follows, big-endian, then a struct in
   msgpack, tagged by its name.  One that is not known, from another version, means nothing.
2. The parent tells the worker to drain, to leave what it listens on to the process that takes its
   place, or to end at once.  To say a thing twice does no harm, unlike a second signal; so a worker
   that a terminal or a service manager has signalled, too, still drains in order.  It sends the
   settings that it has read, which the worker puts in force or refuses.
3. The worker tells that it serves, that it ends, that it lives, and its state.
4. Either side asks, and the other one replies.
5. The end of the link is that of the other process, however it ended.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from apfproxy.base.faults import Part, report
from apfproxy.base.tasks import spawn

if TYPE_CHECKING:
    import socket

MAX_FRAME_BYTES: Final = 64 << 20
"""Bounds one message, and all that the other side has not read."""
MAX_REPLY_BYTES: Final = 48 << 20
"""Less than a frame, as a state may wait to be read beside it."""
READ_BYTES: Final = 1 << 18
LENGTH_BYTES: Final = 4
MAX_PROBLEM: Final = 200
"""Characters of an error of the other side."""

log = logging.getLogger(__name__)


class Message(msgspec.Struct, frozen=True, tag=True):
    """Tagged by its name."""


class Drain(Message, frozen=True):
    """End in order."""


class Leave(Message, frozen=True):
    """End in order: another process has taken over."""


class Cut(Message, frozen=True):
    """End at once, without waiting for requests."""


class Urgent(Message, frozen=True):
    """Another worker wrote something urgent to the record of a key."""

    key: str


class Renew(Message, frozen=True):
    """Read all files again, with these settings, pickled."""

    number: int
    settings: bytes


class Serving(Message, frozen=True):
    """The worker serves with the settings of this number, or has refused them."""

    refused: str = ""
    number: int = 0


class Ending(Message, frozen=True):
    """The worker ends."""


class Alive(Message, frozen=True):
    """The worker does what it is there for."""


class State(Message, frozen=True):
    """The state of a worker, encoded."""

    data: bytes


class Ask(Message, frozen=True):
    """A question; its number is the asking side's own."""

    number: int
    question: str
    arguments: bytes


class Reply(Message, frozen=True):
    """The reply to a question of that number, or why there is none."""

    number: int
    data: bytes = b""
    error: str = ""


Handlers = Mapping[str, Callable[[bytes], Awaitable[bytes]]]
"""By the question: from the arguments to the reply."""

_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(
    Drain | Leave | Cut | Urgent | Renew | Serving | Ending | Alive | State | Ask | Reply
)


class LinkError(Exception):
    """The other side does not reply, or cannot."""


class Link:
    """One end of a link, which it closes.

    `on_message` is called with each message but for questions and replies, `on_gone` once when the
    other process has ended.  `has_sent` is set while the other side has read all but what the
    kernel holds, or is gone.
    """

    def __init__(
        self,
        connection: socket.socket,
        on_message: Callable[[Message], None],
        on_gone: Callable[[], None],
        handlers: Handlers,
    ) -> None:
        self._connection = connection
        self._on_message = on_message
        self._on_gone = on_gone
        self._handlers = handlers
        self._received, self._unsent = bytearray(), bytearray()
        self._number = 0
        self._asked: dict[int, asyncio.Future[bytes]] = {}
        self.has_sent = asyncio.Event()
        self.has_sent.set()
        self._loop = asyncio.get_running_loop()
        connection.setblocking(False)
        self._loop.add_reader(connection.fileno(), self._read)

    def send(self, message: Message) -> None:
        """Harmless if the other process is gone, or has not listened for long."""
        data = msgspec.msgpack.encode(message)
        if self._connection.fileno() < 0 or len(self._unsent) + len(data) > MAX_FRAME_BYTES:
            return
        self._unsent += len(data).to_bytes(LENGTH_BYTES, "big") + data
        if self.has_sent.is_set():
            self._write()
            if self._unsent:
                self.has_sent.clear()
                self._loop.add_writer(self._connection.fileno(), self._write)

    async def ask(self, question: str, arguments: bytes, within_s: float | None = None) -> bytes:
        """The reply to a question; LinkError, also if there is none in that time."""
        self._number += 1
        number = self._number
        reply: asyncio.Future[bytes] = self._loop.create_future()
        self._asked[number] = reply
        if self._connection.fileno() < 0:
            self._fail()
        self.send(Ask(number, question, arguments))
        try:
            async with asyncio.timeout(within_s):
                return await reply
        except TimeoutError:
            raise LinkError(f"no answer within {within_s:g} s") from None
        finally:
            del self._asked[number]

    def close(self) -> None:
        if (number := self._connection.fileno()) >= 0:
            self._loop.remove_reader(number)
            self._loop.remove_writer(number)
            self._connection.close()
            self.has_sent.set()
            self._fail()

    def finish(self) -> None:
        """The other process has ended: read its last messages, then end the link."""
        while self._connection.fileno() >= 0:
            self._read(is_last=True)

    def _fail(self) -> None:
        for reply in self._asked.values():
            if not reply.done():
                reply.set_exception(LinkError("the other process is gone"))
                reply.exception()  # who asked may have given up

    def _write(self) -> None:
        try:
            sent = self._connection.send(self._unsent)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            sent = len(self._unsent)  # it is gone, as a read will tell
        del self._unsent[:sent]
        if not (self._unsent or self.has_sent.is_set()):
            self._loop.remove_writer(self._connection.fileno())
            self.has_sent.set()

    def _read(self, *, is_last: bool = False) -> None:
        try:
            data = self._connection.recv(READ_BYTES)
        except (BlockingIOError, InterruptedError):
            if not is_last:
                return
            data = b""  # a child of it has the other end
        except OSError:
            data = b""
        self._received += data
        if not data or not self._take_frames():
            self.close()
            self._on_gone()

    def _take_frames(self) -> bool:
        """Take what is complete; whether the other side keeps to the rules."""
        received = self._received
        while len(received) >= LENGTH_BYTES:
            end = LENGTH_BYTES + int.from_bytes(received[:LENGTH_BYTES], "big")
            if end > MAX_FRAME_BYTES + LENGTH_BYTES:
                log.error("a message over the link has %d bytes", end)
                return False
            if len(received) < end:
                break
            frame = bytes(received[LENGTH_BYTES:end])
            del received[:end]
            try:
                message = _decoder.decode(frame)
            except msgspec.MsgspecError as error:
                log.debug("a message over the link means nothing: %s", error)
                continue
            self._take(message)
        return True

    def _take(self, message: Message) -> None:
        if isinstance(message, Ask):
            spawn(self._answer(message), name="answering over the link")
        elif isinstance(message, Reply):
            reply = self._asked.get(message.number)
            if reply is None or reply.done():
                return
            if message.error:
                reply.set_exception(LinkError(message.error))
            else:
                reply.set_result(message.data)
        else:
            self._on_message(message)

    async def _answer(self, ask: Ask) -> None:
        if self._connection.fileno() < 0:
            return  # it has ended: what it held is dropped, and is not to come back
        try:
            data = await self._replied(ask)
        except Exception as error:  # noqa: BLE001 - whatever it is, the link goes on
            if not isinstance(error, LinkError):
                report(Part.ADMIN, error, f"the question {ask.question} got no answer")
            text = " ".join(str(error).split()) or type(error).__name__
            self.send(Reply(ask.number, error=text[:MAX_PROBLEM]))
        else:
            self.send(Reply(ask.number, data))

    async def _replied(self, ask: Ask) -> bytes:
        handler = self._handlers.get(ask.question)
        if handler is None:
            raise LinkError(f"knows no question {ask.question[:MAX_PROBLEM]!r}")
        data = await handler(ask.arguments)
        if len(data) > MAX_REPLY_BYTES:
            raise LinkError(f"its answer exceeds {MAX_REPLY_BYTES} bytes")
        return data

    def __repr__(self) -> str:
        return f"<Link {self._connection.fileno()}: {len(self._unsent)} bytes to send>"
