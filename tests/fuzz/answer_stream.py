"""Any bytes from an upstream, through a whole data plane on transports that are not real.

The client gets the status, the fields and the body that the plain reader finds in these bytes, with
an end only where they had one.  Bytes behind a response never become the one to another request.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import httptools

from tests.fuzz.driver import Read, Stage, leave, raw_messages, splits
from tests.fuzz.messages import (
    UNTIL_CLOSE,
    MalformedError,
    Message,
    UnfinishedError,
    read_answer,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.proxy.fakes import Bench, FakeTransport

STAGE = Stage()
MAX_INTERIM_ANSWERS = 32
OF_CONNECTIONS = frozenset(
    b"connection keep-alive proxy-authenticate proxy-connection te transfer-encoding upgrade"
    b" x-kubernetes-pf-flowschema-uid x-kubernetes-pf-prioritylevel-uid".split()
)
OWN = frozenset((b"via", b"connection", b"transfer-encoding", *sorted(OF_CONNECTIONS)))
SECOND = b"GET /second HTTP/1.1\r\nHost: h\r\n\r\n"
SECOND_BODY = b"the second's"


@dataclass(frozen=True)
class Request:
    is_head: bool
    is_http_10: bool

    @property
    def raw(self) -> bytes:
        method = b"HEAD" if self.is_head else b"GET"
        if self.is_http_10:
            return method + b" /first HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
        return method + b" /first HTTP/1.1\r\nHost: h\r\n\r\n"


@dataclass(eq=False)
class Outcome:
    """The interim and the final response that the client got, or should get.

    `is_closed` says that the proxy has ended the connection, or what the upstream sends has;
    `breaks_off` that the body turns out to be malformed.
    """

    interims: list[int]
    answer: Message | None
    is_closed: bool
    breaks_off: bool = False

    @property
    def key(self) -> tuple[object, ...]:
        answer = self.answer
        if answer is None:
            return (self.interims, None, self.is_closed)
        # Of an answer that breaks off less may have come through.
        body = answer.body if answer.is_whole or not self.is_closed else None
        # The proxy's own answers differ in these each time.
        fields = [field for field in answer.fields if field[0] not in (b"date", b"audit-id")]
        return (self.interims, answer.line, fields, body, answer.is_whole)


def run_one(data: bytes) -> None:
    """Take a byte that says who asked and how it is split, then the upstream's bytes."""
    choice, stream = data[0] if data else 0, data[1:]
    request = Request(is_head=bool(choice & 0x80), is_http_10=bool(choice & 0x40))
    has_end = bool(choice & 0x20)
    with STAGE.dropped_on_error():
        expected = _expected(stream, request, has_end=has_end)
        outcomes = [
            _play(pieces, request, has_end=has_end) for pieces in splits(stream, choice & 0x1F)
        ]
        for outcome in outcomes:
            # Of an answer without an end, what one read brought goes on together or not at all.
            is_whole = expected.answer is None or expected.answer.is_whole
            assert not is_whole or outcome.key == outcomes[0].key, outcomes
            _check(expected, outcome, request)


def _expected(stream: bytes, request: Request, *, has_end: bool) -> Outcome:
    """The response that the plain reader finds; none where there is no good head."""
    interims: list[int] = []
    position = 0
    try:
        while True:
            answer = read_answer(stream, position, to_head=request.is_head, is_ended=has_end)
            if answer.status >= 200:
                return Outcome(interims, answer, is_closed=False)
            if answer.status == 101 or len(interims) == MAX_INTERIM_ANSWERS:
                return Outcome(interims, None, is_closed=True)
            interims.append(answer.status)
            position = answer.end
    except UnfinishedError:
        return Outcome(interims, None, is_closed=has_end)
    except MalformedError:
        # Perhaps of the body: then the head has been good.
        head = stream[: stream.find(b"\r\n\r\n", position) + 4]
        with suppress(MalformedError, UnfinishedError):
            answer = read_answer(head, position, to_head=request.is_head, is_ended=False)
            return Outcome(interims, answer, is_closed=True, breaks_off=True)
        return Outcome(interims, None, is_closed=True)


def _play(pieces: Iterable[bytes], request: Request, *, has_end: bool) -> Outcome:
    bench = STAGE.bench()
    client = bench.ask(request.raw)
    upstream = _asked(bench)
    upstream.take()
    for piece in pieces:
        if not upstream.ended_by:
            bench.send(upstream, piece)
    if has_end:
        bench.end(upstream)
        if bench.connecting:
            # Nothing came on a connection that was used before: so the request was sent again.
            assert not any(pieces)
            upstream = _asked(bench)
            upstream.take()
            bench.end(upstream)
    bench.loop.run_ready()
    is_closed = client.has_eof or bool(client.ended_by)
    outcome = _received(client.take(), request, is_closed=is_closed)
    answer = outcome.answer
    if answer is not None and answer.is_whole and not is_closed:
        _ask_again(bench, client)
    leave(bench, client)
    return outcome


def _asked(bench: Bench) -> FakeTransport:
    while bench.connecting:
        bench.connect()
    (upstream,) = [each for each in bench.upstreams if each.written and not each.ended_by]
    return upstream


def _ask_again(bench: Bench, client: FakeTransport) -> None:
    bench.send(client, SECOND)
    upstream = _asked(bench)
    assert upstream.take().startswith(b"GET /second HTTP/1.1\r\n")
    bench.send(
        upstream, b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(SECOND_BODY) + SECOND_BODY
    )
    raw = client.take()
    answer = read_answer(raw, to_head=False, is_ended=False)
    assert (200, SECOND_BODY, len(raw)) == (answer.status, answer.body, answer.end), raw


def _received(raw: bytes, request: Request, *, is_closed: bool) -> Outcome:
    interims: list[int] = []
    position = 0
    while position < len(raw):
        # Whatever this raises, the client was sent it.
        answer = read_answer(raw, position, to_head=request.is_head, is_ended=is_closed)
        position = answer.end
        if answer.status >= 200:
            assert position == len(raw), ("something follows the answer", raw)
            if not request.is_head:
                _check_by_llhttp(raw, answer, len(interims))
            assert answer.framing != UNTIL_CLOSE or answer.values(b"connection") == [b"close"]
            return Outcome(interims, answer, is_closed)
        assert [] == answer.values(b"content-length"), raw  # likewise
        interims.append(answer.status)
    return Outcome(interims, None, is_closed)


def _check(expected: Outcome, got: Outcome, request: Request) -> None:
    if request.is_http_10:
        assert got.interims == []
    else:
        assert expected.interims == got.interims, (expected, got)
    answer, sent = got.answer, expected.answer
    if sent is None:
        if not expected.is_closed and answer is None:
            return
        assert answer is not None, (expected, got)
        assert 502 == answer.status, (expected, got)
        assert answer.is_whole
        return
    assert answer is not None, (expected, got)
    assert sent.line[1:] == answer.line[1:], (expected, got)
    assert expected.breaks_off or sent.body == answer.body or _is_cut(sent, answer), (expected, got)
    assert not expected.breaks_off or got.is_closed
    if not request.is_http_10 or sent.framing != "chunked":
        # A client of HTTP/1.0 cannot be told that an answer without a length broke off.
        assert sent.is_whole == answer.is_whole or not got.is_closed, (expected, got)
        assert not answer.is_whole or sent.is_whole, (expected, got)
    nominated = {
        option.strip(b" \t").lower()
        for value in sent.values(b"connection")
        for option in value.split(b",")
    } - {b"content-length"}
    if sent.status == 204:  # RFC 9110, section 8.6: a server must not send a length with it
        assert [] == answer.values(b"content-length")
        nominated |= {b"content-length"}
    passed_on = [
        (name, value)
        for name, value in sent.fields
        if name not in OF_CONNECTIONS and name not in nominated
    ]
    added = {b"via": b"1.1 apfproxy"}
    if all(name != b"date" for name, _ in passed_on):  # RFC 9110, section 6.6.1
        added[b"date"] = answer.values(b"date")[-1]
    assert passed_on == [
        (name, value)
        for name, value in answer.fields
        if name not in OF_CONNECTIONS and added.get(name) != value
    ], (expected, got)


def _is_cut(sent: Message, got: Message) -> bool:
    return not sent.is_whole and sent.body.startswith(got.body)


def _check_by_llhttp(raw: bytes, answer: Message, interims: int) -> None:
    found = Read()
    parser = httptools.HttpResponseParser(found)
    parser.feed_data(raw)
    assert (answer.status, answer.body) == (parser.get_status_code(), found.body), raw
    if answer.framing != UNTIL_CLOSE:
        assert answer.is_whole == (found.messages > interims), raw


def seeds() -> list[bytes]:
    raw = [
        *raw_messages(of_upstreams=True),
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-A: b\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nConnection: keep-alive, x-a\r\nX-A: b\r\n\r\nuntil the end",
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n",
    ]
    return [
        bytes([3 + number % 8 + kind]) + text
        for number, text in enumerate(raw)
        for kind in (0, 0x20, 0x40, 0x80)
    ]
