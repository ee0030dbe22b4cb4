"""Any frames of HTTP/2 from a client, through a whole data plane on transports that are not real.

What is forwarded is a request that a stream has brought, as the library `hpack` reads it, with its
body, and without a field of a connection or of an identity.  What the client gets are frames in an
order that RFC 9113 allows.  The same comes of the bytes however they are split.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hpack import Decoder, HPACKError

from apfproxy.settings import DownstreamSettings, Http2Settings
from tests.end_to_end.http2.cases import CASES
from tests.end_to_end.http2.frames import (
    END_HEADERS,
    PADDED,
    PREFACE,
    PRIORITIZED,
    Frame,
    FrameReader,
    Kind,
    block,
    frame,
    request,
    settings,
)
from tests.fuzz.driver import Stage, leave, serve, splits
from tests.fuzz.messages import CHUNKED
from tests.fuzz.request_stream import ASSERTED, OF_CONNECTIONS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.fuzz.messages import Message

STAGE = Stage(
    DownstreamSettings(
        max_head_bytes=1024,
        max_header_fields=16,
        max_target_bytes=256,
        http2=Http2Settings(is_cleartext=True, max_concurrent_streams=5),
    )
)
"""With limits that short inputs reach."""

FRAME_HEAD_BYTES = 9
BLOCKS = (
    request(),
    request(b"POST"),
    request(b"POST", b"/a", (b"content-length", b"4")),
    request(b"GET", b"/api/v1/pods?watch=1", (b"x-remote-user", b"root")),
    request(b"PUT", b"/b", (b"host", b"localhost"), (b"cookie", b"a=b"), (b"cookie", b"c=d")),
    block((b"x-more", b"more")),
    b"\x20",
    b"",
)
"""Blocks of fields that an input names by a number."""
OWN = frozenset(b"host content-length transfer-encoding via connection".split())
"""Fields that the proxy may say in a way of its own."""
OF_PROXIES = (b"x-forwarded-", b"x-remote-", b"forwarded")


def run_one(data: bytes) -> None:
    choice, rest = data[0] if data else 0, data[1:]
    stream = PREFACE + settings() + (rest if choice & 0x80 else framed(rest))
    with STAGE.dropped_on_error():
        plays = [Play(pieces) for pieces in splits(stream, choice & 0x3F)]
        asked = Asked(stream)
        for play in plays:
            play.check(asked)
            _check_alike(plays[0], play)


def framed(data: bytes) -> bytes:
    """Frames of records: kind, flags, stream, which block begins it, the length of the rest."""
    made = []
    at = 0
    while at + 5 <= len(data):
        kind, flags, stream_id, begin, size = data[at : at + 5]
        at += 5
        payload = data[at : at + size]
        at += size
        if kind % 12 in (Kind.HEADERS, Kind.CONTINUATION):
            payload = BLOCKS[begin % len(BLOCKS)] + payload
        made.append(frame(kind % 12, flags, stream_id % 16, payload))
    return b"".join(made)


@dataclass
class AskedStream:
    fields: list[tuple[bytes, bytes]] = field(default_factory=list)
    trailers: list[tuple[bytes, bytes]] = field(default_factory=list)
    body: bytes = b""
    has_ended: bool = False

    def add(self, frame: Frame, fields: list[tuple[bytes, bytes]], body: bytes) -> None:
        if not self.has_ended:
            (self.trailers if self.fields else self.fields).extend(fields)
            self.body += body
            self.has_ended = frame.ends


class Asked:
    """A plain reader of the frames of a client."""

    def __init__(self, stream: bytes) -> None:
        self.is_readable = True
        self.streams: defaultdict[int, AskedStream] = defaultdict(AskedStream)
        decoder = Decoder(max_header_list_size=1 << 24)
        reader = FrameReader()
        pending = b""
        beginning = Frame(0, 0, 0, b"")
        frames = reader.feed(stream[len(PREFACE) :])
        if len(reader.pending) >= FRAME_HEAD_BYTES and reader.pending[3] == Kind.DATA:
            # What came of it is passed on at once; padding would come last.
            missing = int.from_bytes(reader.pending[:3], "big") + FRAME_HEAD_BYTES
            frames += reader.feed(bytes(missing - len(reader.pending)))
        for each in frames:
            if each.kind == Kind.DATA:
                self.streams[each.number].add(each, [], _content(each))
            elif each.kind in (Kind.HEADERS, Kind.CONTINUATION):
                beginning = each if each.kind == Kind.HEADERS else beginning
                pending += _content(each)
                if not each.flags & END_HEADERS:
                    continue
                try:
                    found = decoder.decode(pending, raw=True)
                except (HPACKError, IndexError):
                    self.is_readable = False
                    return
                pending = b""
                fields = [(bytes(n), bytes(v)) for n, v in found]
                self.streams[each.number].add(beginning, fields, b"")

    def has(self, got: Message) -> bool:
        return any(_brought(each, got) for each in self.streams.values())


def _content(each: Frame) -> bytes:
    """The payload without padding and priority; b"" if they are wrong."""
    payload = each.payload
    if each.kind != Kind.CONTINUATION:
        if each.flags & PADDED:
            size = payload[0] if payload else 0
            payload = payload[1 : len(payload) - size]
        if each.kind == Kind.HEADERS and each.flags & PRIORITIZED:
            payload = payload[5:]
    return payload


def _brought(asked: AskedStream, got: Message) -> bool:
    known = {(name, value.strip(b" \t")) for name, value in asked.fields + asked.trailers}
    cookies = (value for name, value in asked.fields if name == b"cookie")
    cookie = b"; ".join(cookies).strip(b" \t")
    return (
        {(b":method", got.method), (b":path", got.target)} <= known
        and asked.body.startswith(got.body)
        and all(
            name in OWN
            or name.startswith(OF_PROXIES)
            or (name, value) in known
            or (name, value) == (b"cookie", cookie)
            for name, value in got.fields
        )
    )


class Play:
    """One connection and what came of it."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._bench = bench = STAGE.bench()
        self.forwarded: list[Message] = []
        self.answered: dict[int, int] = {}
        counts = bench.counters.listener.http2
        ends = self._ends()
        client = bench.client()
        received = b""
        for piece in pieces:
            bench.send(client, piece)
            serve(bench, self.forwarded)
            received += client.take()
        serve(bench, self.forwarded)
        received += client.take()
        self.is_plain = ends == self._ends() and not client.ended_by
        self._read(received)
        leave(bench, client)
        assert (0, 0) == (counts.connections_open, counts.streams_open)

    def _ends(self) -> int:
        counts = self._bench.counters.listener.http2
        return sum(counts.goaways.values()) + sum(counts.resets.values())

    def _read(self, received: bytes) -> None:
        reader, decoder = FrameReader(), Decoder()
        ended: set[int] = set()
        for each in reader.feed(received):
            assert each.kind in list(Kind), each
            if each.kind in (Kind.HEADERS, Kind.DATA):
                assert each.number not in ended, ("a frame behind the end", each)
            if each.kind == Kind.HEADERS:
                fields = dict(decoder.decode(each.payload, raw=True))
                status = int(fields.get(b":status", b"0"))
                if status >= 200:
                    assert each.number not in self.answered, ("a second answer", each)
                    self.answered[each.number] = status
            elif each.kind == Kind.DATA:
                assert each.number in self.answered, ("data before an answer", each)
            if each.ends or each.kind == Kind.RST_STREAM:
                ended.add(each.number)
            self.is_plain &= each.kind != Kind.RST_STREAM
        assert b"" == reader.pending, "a frame is cut short"

    def check(self, asked: Asked) -> None:
        for got in self.forwarded:
            assert 1 == len(got.values(b"host")), got
            assert [] == got.values(b"transfer-encoding") or got.framing == CHUNKED, got
            for name, _ in got.fields:
                assert name not in OF_CONNECTIONS, (name, got)
                assert not name.startswith(ASSERTED), (name, got)
            assert not asked.is_readable or asked.has(got), ("no stream asked for it", got)

    def __repr__(self) -> str:
        return f"<Play {self.answered}, plain {self.is_plain}, {self.forwarded}>"


def _check_alike(whole: Play, split: Play) -> None:
    if whole.is_plain and split.is_plain:
        assert whole.answered == split.answered, (whole, split)
        assert len(whole.forwarded) == len(split.forwarded), (whole, split)


def seeds() -> list[bytes]:
    written = [
        b"".join(step for step in steps if isinstance(step, bytes))[:2000]
        for steps in CASES.values()
    ]
    asking = bytes((Kind.HEADERS, 5, 1, 0, 0))
    records = [
        asking + bytes((kind, 4, 1, number % 8, 4)) + bytes(4)
        for number, kind in enumerate(range(12))
    ]
    return [b"\x87" + each for each in written] + [b"\x03" + each for each in records]
