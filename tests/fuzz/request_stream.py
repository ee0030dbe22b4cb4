"""Any bytes from a client, through a whole data plane on transports that are not real.

What is forwarded, as the plain reader and llhttp find it, is exactly the request that the client
sent, framed in one way, without a field that belongs to the connection, looks like one that does,
or names the user.  It is the same however the bytes are split, and however often they came before.
"""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

from apfproxy.settings import DownstreamSettings
from tests.fuzz.driver import Stage, leave, raw_messages, serve, splits
from tests.fuzz.messages import (
    CHUNKED,
    SIZED,
    MalformedError,
    Message,
    UnfinishedError,
    read_answer,
    read_request,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

SETTINGS = DownstreamSettings(
    max_head_bytes=1024,
    max_header_fields=16,
    max_target_bytes=256,
    identity_headers_from=(ipaddress.ip_network("10.0.0.0/8"),),
)
"""Limits that short inputs reach."""

NO_ESCAPE = re.compile(rb"%(?![0-9a-fA-F]{2})")
NOT_ALPHANUMERIC = re.compile(rb"[^0-9a-z]")
OF_CONNECTIONS = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer"
    b" upgrade".split()
)
FRAMING = frozenset((b"content-length", b"transfer-encoding", b"expect", b"host"))
FORWARDING = frozenset(
    b"forwarded x-forwarded-for x-forwarded-proto x-forwarded-host x-forwarded-uri x-real-ip via"
    b" authorization".split()
)
SUBPROTOCOLS = b"sec-websocket-protocol"
"""May carry a token, so no other spelling of it goes on."""
IDENTITY = frozenset((b"x-remote-user", b"x-remote-group", b"x-remote-uid"))
EXTRA_PREFIX = b"x-remote-extra-"
ASSERTED = (*sorted(IDENTITY), EXTRA_PREFIX, b"impersonate-")

AGAIN = 2
"""So often the stream comes once more on connections of its own, and as often on one."""
REFUSED = -1
Order = list[int]
"""The number of the forwarded request that each response belongs to, or `REFUSED`."""


STAGE = Stage(SETTINGS)


def run_one(data: bytes) -> None:
    """Take a byte that says how the stream is split and by whom it is sent, then the stream."""
    choice, stream = data[0] if data else 0, data[1:]
    is_trusted = bool(choice & 0x80)
    with STAGE.dropped_on_error():
        plays = [
            Play(pieces, is_trusted=is_trusted, answers_late=bool(number and choice & 0x40))
            for number, pieces in enumerate(splits(stream, choice & 0x3F))
        ]
        # Equal heads are kept once they came twice, and who asks is remembered with them.
        plays += [Play([stream], is_trusted=is_trusted) for _ in range(AGAIN)]
        asked = _requests(stream)
        for play in plays:
            play.check(asked)
            _check_alike(plays[0], play)
        Play([stream] * AGAIN, is_trusted=is_trusted).check(_requests(stream * AGAIN))


class Play:
    """One connection and what came of it."""

    def __init__(
        self, pieces: Iterable[bytes], *, is_trusted: bool, answers_late: bool = False
    ) -> None:
        bench = STAGE.bench()
        self._is_trusted = is_trusted
        self.forwarded: list[Message] = []
        client = bench.client(("10.0.0.1" if is_trusted else "192.0.2.1", 4711))
        for piece in pieces:
            bench.send(client, piece)
            if not answers_late:
                serve(bench, self.forwarded)
        serve(bench, self.forwarded)
        self.is_closed = client.has_eof or bool(client.ended_by)
        self._received = client.take()
        self.answers: Order = []
        leave(bench, client)

    def check(self, asked: list[Message]) -> None:
        position = 0
        while position < len(self._received):
            number = len(self.answers)
            to_head = number < len(asked) and asked[number].method == b"HEAD"
            answer = read_answer(self._received, position, to_head=to_head, is_ended=self.is_closed)
            position = answer.end
            if answer.status < 200:
                continue
            tags = answer.values(b"x-number")
            if to_head and not tags and b"close" in answer.values(b"connection"):
                position = len(self._received)  # what follows is the body of a refused head
            assert answer.is_whole
            self.answers.append(int(tags[0]) if tags else REFUSED)
            if tags:
                # Served, so the plain reader must have found the very same request there.
                assert number < len(asked), ("served what is no request", number, self._received)
                self._compare(asked[number], self.forwarded[int(tags[0])])
        numbers = [number for number in self.answers if number != REFUSED]
        assert list(range(len(self.forwarded))) == numbers, (numbers, self.forwarded)

    def _compare(self, asked: Message, got: Message) -> None:
        assert asked.method == got.method, (asked, got)
        assert asked.target == got.target, (asked, got)
        assert asked.is_whole
        assert asked.framing == got.framing, (asked, got)
        assert asked.body == got.body, (asked, got)
        assert got.line[2] == b"HTTP/1.1"
        _check_fields(asked, got, is_trusted=self._is_trusted)

    def __repr__(self) -> str:
        return f"<Play {self.answers}, closed {self.is_closed}, {self._received!r}>"


def _requests(stream: bytes) -> list[Message]:
    found: list[Message] = []
    position = 0
    try:
        while position < len(stream):
            found.append(read_request(stream, position))
            position = found[-1].end
    except (MalformedError, UnfinishedError):
        pass
    return found


def _check_alike(whole: Play, split: Play) -> None:
    """One play may end sooner, since of a request that is refused less had come; no other way."""
    shorter, longer = sorted((whole, split), key=lambda play: len(play.answers))
    count = len(shorter.answers)
    assert shorter.answers == longer.answers[:count], (whole, split)
    if count < len(longer.answers):
        assert shorter.is_closed, (whole, split)
        assert shorter.answers[-1:] == [REFUSED], (whole, split)
    for one, other in zip(whole.forwarded, split.forwarded, strict=False):
        assert one.line == other.line
        assert one.fields == other.fields
        assert one.body == other.body


def _check_fields(asked: Message, got: Message, *, is_trusted: bool) -> None:
    assert 1 == len(got.values(b"host"))
    assert asked.values(b"host") in ([], got.values(b"host")), (asked, got)
    lengths, codings = got.values(b"content-length"), got.values(b"transfer-encoding")
    assert codings == ([b"chunked"] if got.framing == CHUNKED else [])
    assert len(lengths) <= 1
    assert got.framing != SIZED or [b"%d" % len(got.body)] == lengths
    is_upgrade = got.values(b"connection") == [b"Upgrade"] and len(got.values(b"upgrade")) == 1
    nominated = {
        option.strip(b" \t").lower()
        for value in asked.values(b"connection")
        for option in value.split(b",")
    }
    sent = list(asked.fields)
    for name, value in got.fields:
        folded = NOT_ALPHANUMERIC.sub(b"-", name)
        if name in OF_CONNECTIONS:
            assert is_upgrade, (name, got)
            assert name in (b"connection", b"upgrade"), (name, got)
            continue
        assert folded == name or not (_is_guarded(folded) or folded == SUBPROTOCOLS), (name, got)
        is_identity = folded in IDENTITY or folded.startswith(EXTRA_PREFIX)
        assert is_trusted or not is_identity, (name, got)
        if name in FRAMING or name in FORWARDING - {b"authorization"}:
            continue
        assert name not in nominated, (name, got)
        if name.startswith(ASSERTED):  # the proxy says these in an order and escapes of its own
            sent_as = [(_unescaped(each), value) for each, value in asked.fields]
            assert (_unescaped(name), value) in sent_as, (name, got)
            continue
        while sent and sent[0] != (name, value):
            _check_dropped(sent.pop(0)[0], nominated)
        assert sent, ("a field that was not sent", name, got)
        sent.pop(0)
    for name, _ in sent:
        _check_dropped(name, nominated)


def _unescaped(name: bytes) -> bytes:
    """The key in a name as Kubernetes reads it: one with any escape that is none has none."""
    return name if NO_ESCAPE.search(name) else unquote_to_bytes(name)


def _check_dropped(name: bytes, nominated: set[bytes]) -> None:
    folded = NOT_ALPHANUMERIC.sub(b"-", name)
    is_look_alike = name != folded == SUBPROTOCOLS
    assert (
        name in nominated or _is_guarded(folded) or is_look_alike or folded.startswith(ASSERTED)
    ), name


def _is_guarded(folded: bytes) -> bool:
    return folded in OF_CONNECTIONS or folded in FRAMING or folded in FORWARDING


def seeds() -> list[bytes]:
    raw = raw_messages()
    return [
        bytes([13 + number % 7 + (0x80 * (number % 2))]) + text for number, text in enumerate(raw)
    ]
