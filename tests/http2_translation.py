"""HTTP/1.1 in, HTTP/2 out and back, so that tests with requests as text run over both protocols.

Nothing is checked or mended on the way: what a hostile client would put into fields is what the
proxy gets.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING

from hpack import Decoder, Encoder
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
FRAME_BYTES = 16384
WINDOW_BYTES = 65535
FRAME_HEAD_BYTES = 9

NO_ERROR, PROTOCOL_ERROR, CANCEL = 0, 1, 8
"""Codes of errors, by RFC 9113, section 7."""

ABSOLUTE = re.compile(rb"([a-z]+)://([^/]*)(.*)", re.DOTALL)
LENGTH = re.compile(rb"[0-9]+")
OF_THE_CONNECTION = {
    (b"connection", b"close"),
    (b"connection", b"keep-alive"),
    (b"transfer-encoding", b"chunked"),
}
"""Fields that a client leaves out over HTTP/2, which has other means; what else it adds is sent."""
BODILESS = (b"204", b"304")


class UnframedError(Exception):
    """A request that is not framed as HTTP/1.1, so that nothing says what it would be here."""


@dataclass
class Stream:
    """A request with its answer, whose text is kept until it is taken."""

    id: int
    is_head: bool
    is_connect: bool  # bodies are bytes of a tunnel
    window: int
    unsent: bytearray = field(default_factory=bytearray)
    last: list[tuple[bytes, bytes]] | None = None  # what ends its body, once that is known
    answer: bytearray = field(default_factory=bytearray)
    is_chunked: bool = False
    is_answered: bool = False  # its head has come
    is_over: bool = False
    code: int | None = None  # with which the server reset it

    @property
    def is_cut(self) -> bool:
        return self.is_over and self.code is not None


class Translation:
    """One connection of a client; streams that are `withheld` get no room for more answers."""

    def __init__(self, scheme: bytes = b"http") -> None:
        self._scheme = scheme
        self._encoder, self._decoder = Encoder(), Decoder()
        self._output = bytearray(PREFACE)
        self._write(SettingsFrame(0, {SettingsFrame.ENABLE_PUSH: 0}))
        self._next_id = 1
        self._window = WINDOW_BYTES
        self._input = b""
        self._block = bytearray()
        self._text = b""
        self._reading = self._read_requests()
        next(self._reading)
        self._order: deque[Stream] = deque()
        self.withheld: set[int] = set()
        self.streams: dict[int, Stream] = {}
        self.goaway: tuple[int, int] | None = None
        self.informed: dict[int, int] = {}

    @property
    def has_unsent(self) -> bool:
        return any(stream.unsent and not stream.is_over for stream in self.streams.values())

    def output(self) -> bytes:
        for stream in self.streams.values():
            self._send_body(stream)
        taken = bytes(self._output)
        self._output.clear()
        return taken

    def request(self, text: bytes) -> None:
        """Send text of requests, which may begin and end anywhere; raises UnframedError."""
        self._text += text
        next(self._reading)

    def answer(self, data: bytes) -> None:
        self._input += data
        while len(self._input) >= FRAME_HEAD_BYTES:
            frame, length = Frame.parse_frame_header(memoryview(self._input[:FRAME_HEAD_BYTES]))
            end = FRAME_HEAD_BYTES + length
            if len(self._input) < end:
                return
            frame.parse_body(memoryview(self._input[FRAME_HEAD_BYTES:end]))
            self._input = self._input[end:]
            self._on_frame(frame)

    def taken(self) -> bytes | None:
        """Text of answers, in the order of their requests; None, once, where one was cut off."""
        text = bytearray()
        while self._order:
            stream = self._order[0]
            text += stream.answer
            stream.answer.clear()
            if not stream.is_over or (stream.is_cut and text):
                break
            self._order.popleft()
            del self.streams[stream.id]
            if stream.is_cut:
                return None
        return bytes(text)

    def reset(self, code: int) -> None:
        """Leave the oldest request that is not answered, if there is one."""
        if not self._order:
            return
        stream = self._order.popleft()
        del self.streams[stream.id]
        self._write(RstStreamFrame(stream.id, code))

    # What is sent.

    def _read_requests(self) -> Generator[None, None, None]:
        """Read requests out of `_text`, and yield where it has no more."""
        while True:
            head = yield from self._until(b"\r\n\r\n")
            stream, fields = self._begin(head)
            yield from self._read_body(stream, fields)

    def _read_body(
        self, stream: Stream, fields: list[tuple[bytes, bytes]]
    ) -> Generator[None, None, None]:
        codings = [value for name, value in fields if name == b"transfer-encoding"]
        lengths = [value for name, value in fields if name == b"content-length"]
        if codings == [b"chunked"]:
            while size := int((yield from self._until(b"\r\n")), 16):
                yield from self._read_data(stream, size)
                yield from self._until(b"\r\n")
            lines = b""
            while line := (yield from self._until(b"\r\n")):
                lines += line + b"\r\n"
            stream.last = fields_of(lines)
        elif stream.is_connect:
            yield from self._read_data(stream, 1 << 62)
        elif lengths and LENGTH.fullmatch(lengths[0]):
            yield from self._read_data(stream, int(lengths[0]))
            stream.last = []

    def _read_data(self, stream: Stream, size: int) -> Generator[None, None, None]:
        while size:
            piece, self._text = self._text[:size], self._text[size:]
            stream.unsent += piece
            size -= len(piece)
            if size:
                yield

    def _until(self, end: bytes) -> Generator[None, None, bytes]:
        while end not in self._text:
            yield
        before, _, self._text = self._text.partition(end)
        return before

    def _begin(self, head: bytes) -> tuple[Stream, list[tuple[bytes, bytes]]]:
        """Send the head of a request: its stream, and its fields as they were in HTTP/1.1."""
        line, _, lines = head.lstrip(b"\r\n").partition(b"\r\n")
        words = line.split(b" ")
        if len(words) != 3:
            raise UnframedError(line)
        method, target, _ = words
        fields = fields_of(lines)
        hosts = [value for name, value in fields if name == b"host"]
        sent = [(b":method", method)]
        if method == b"CONNECT":
            sent.append((b":authority", target))
        else:
            absolute = ABSOLUTE.fullmatch(target)
            scheme, host, path = absolute.groups() if absolute else (self._scheme, None, target)
            host = host or (hosts[0] if hosts else None)
            sent += [(b":scheme", scheme), (b":path", path or b"/")]
            sent += [] if host is None else [(b":authority", host)]
        is_first_host = True
        for name, value in fields:
            if name == b"host" and is_first_host:
                is_first_host = False
            elif (name, value.lower()) not in OF_THE_CONNECTION:
                sent.append((name, value))
        stream = Stream(
            self._next_id,
            is_head=method == b"HEAD",
            is_connect=method == b"CONNECT",
            window=self.informed.get(SettingsFrame.INITIAL_WINDOW_SIZE, WINDOW_BYTES),
        )
        self._next_id += 2
        self._order.append(stream)
        self.streams[stream.id] = stream
        has_body = stream.is_connect or any(
            (name == b"content-length" and value != b"0") or name == b"transfer-encoding"
            for name, value in fields
        )
        self._write_fields(stream, sent, is_last=not has_body)
        return stream, fields

    def _write_fields(
        self, stream: Stream, fields: list[tuple[bytes, bytes]], *, is_last: bool
    ) -> None:
        block = self._encoder.encode(fields, huffman=False)
        first, rest = block[:FRAME_BYTES], block[FRAME_BYTES:]
        frame: HeadersFrame | ContinuationFrame = HeadersFrame(stream.id, first)
        if is_last:
            frame.flags.add("END_STREAM")
        while rest:
            self._write(frame)
            frame = ContinuationFrame(stream.id, rest[:FRAME_BYTES])
            rest = rest[FRAME_BYTES:]
        frame.flags.add("END_HEADERS")
        self._write(frame)

    def _send_body(self, stream: Stream) -> None:
        if stream.is_over:
            return
        while size := min(len(stream.unsent), stream.window, self._window, FRAME_BYTES):
            piece = bytes(stream.unsent[:size])
            del stream.unsent[:size]
            stream.window -= size
            self._window -= size
            frame = DataFrame(stream.id, piece)
            if stream.last == [] and not stream.unsent:
                frame.flags.add("END_STREAM")
                stream.last = None
            self._write(frame)
        if stream.last is not None and not stream.unsent:
            if stream.last:
                self._write_fields(stream, stream.last, is_last=True)
            else:
                self._write(DataFrame(stream.id, b"", flags=["END_STREAM"]))
            stream.last = None

    def _write(self, frame: Frame) -> None:
        self._output += frame.serialize()

    # What comes.

    def _on_frame(self, frame: Frame) -> None:
        stream = self.streams.get(frame.stream_id)
        match frame:
            case HeadersFrame() | ContinuationFrame():
                self._block += frame.data
                if "END_HEADERS" in frame.flags:
                    fields = list[tuple[bytes, bytes]](
                        self._decoder.decode(bytes(self._block), raw=True)
                    )
                    self._block.clear()
                    if stream is not None:
                        on_fields(stream, fields, is_last="END_STREAM" in frame.flags)
            case DataFrame():
                self._on_data(frame, stream)
            case RstStreamFrame() if stream is not None and not stream.is_over:
                stream.is_over, stream.code = True, frame.error_code
                if frame.error_code == PROTOCOL_ERROR and not stream.is_answered:
                    # RFC 9113, 8.1.1: a malformed request, which HTTP/1.1 answers so.
                    stream.answer += b"HTTP/1.1 400 Malformed\r\nContent-Length: 0\r\n\r\n"
            case SettingsFrame() if "ACK" not in frame.flags:
                self._on_settings(frame)
            case PingFrame() if "ACK" not in frame.flags:
                self._write(PingFrame(0, frame.opaque_data, flags=["ACK"]))
            case WindowUpdateFrame() if frame.stream_id == 0:
                self._window += frame.window_increment
            case WindowUpdateFrame() if stream is not None:
                stream.window += frame.window_increment
            case GoAwayFrame():
                self.goaway = frame.last_stream_id, frame.error_code
                for each in self.streams.values():
                    if each.id > frame.last_stream_id and not each.is_over:
                        each.is_over, each.code = True, NO_ERROR

    def _on_data(self, frame: DataFrame, stream: Stream | None) -> None:
        if frame.flow_controlled_length:
            self._write(WindowUpdateFrame(0, frame.flow_controlled_length))
        if stream is None or stream.is_over:
            return
        is_last = "END_STREAM" in frame.flags
        if frame.flow_controlled_length and not is_last and stream.id not in self.withheld:
            self._write(WindowUpdateFrame(stream.id, frame.flow_controlled_length))
        data = bytes(frame.data)
        if stream.is_chunked and data:
            data = b"%x\r\n%b\r\n" % (len(data), data)
        stream.answer += data
        if is_last:
            stream.answer += b"0\r\n\r\n" if stream.is_chunked else b""
            stream.is_over = True

    def _on_settings(self, frame: SettingsFrame) -> None:
        before = self.informed.get(SettingsFrame.INITIAL_WINDOW_SIZE, WINDOW_BYTES)
        self.informed |= frame.settings
        change = self.informed.get(SettingsFrame.INITIAL_WINDOW_SIZE, WINDOW_BYTES) - before
        for stream in self.streams.values():
            stream.window += change
        self._write(SettingsFrame(0, flags=["ACK"]))


def fields_of(lines: bytes) -> list[tuple[bytes, bytes]]:
    """The fields of lines, with all that is odd about them but the case of names."""
    parts = [line.partition(b":") for line in lines.split(b"\r\n") if line]
    return [(name.lower(), value.strip(b" \t")) for name, _, value in parts]


def on_fields(stream: Stream, fields: Sequence[tuple[bytes, bytes]], *, is_last: bool) -> None:
    """Write a head or trailers of an answer as text."""
    lines = b"".join(b"%b: %b\r\n" % line for line in fields if not line[0].startswith(b":"))
    if stream.is_answered:
        stream.answer += b"0\r\n" + lines + b"\r\n"
        stream.is_over = True
        return
    status = dict(fields)[b":status"]
    is_interim = status.startswith(b"1")
    stream.is_answered = not is_interim
    has_length = any(name == b"content-length" for name, _ in fields)
    has_body = not (is_interim or stream.is_head or stream.is_connect or status in BODILESS)
    stream.is_chunked = has_body and not has_length and not is_last
    if stream.is_chunked:
        lines += b"Transfer-Encoding: chunked\r\n"
    elif has_body and not has_length:
        lines += b"Content-Length: 0\r\n"
    phrase = HTTPStatus(int(status)).phrase.encode()
    stream.answer += b"HTTP/1.1 %b %b\r\n%b\r\n" % (status, phrase, lines)
    stream.is_over = is_last
