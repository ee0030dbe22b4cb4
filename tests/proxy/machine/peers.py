"""Clients that know what they have asked, and upstreams that know whom they answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.fuzz.messages import (
    UNTIL_CLOSE,
    MalformedError,
    Message,
    UnfinishedError,
    read_answer,
    read_chunked,
)
from tests.proxy.machine.requests import BY_LINE, Request

if TYPE_CHECKING:
    from tests.proxy.machine.wires import Wire

OF_CERTIFICATE = "carl"
"""The user whom all certificates name, of clients in a network of their own."""
ID_BYTES = 8
MARK = b"X-Upstream: o\r\n"
"""In every head of an upstream's answer: all of a kind are equal."""


@dataclass
class Answer:
    """A response; `body` is what was sent of it, decoded, and begins with its number."""

    address: bytes
    request: Request
    body: bytes = b""
    is_whole: bool = False


class Answers:
    """All responses by number; `are_ended` once the proxy is about to stop."""

    def __init__(self) -> None:
        self.are_ended = False
        self.all: list[Answer] = []

    def begin(self, address: bytes, asked: Request) -> int:
        self.all.append(Answer(address, asked))
        return len(self.all) - 1


@dataclass
class _Part:
    request: Request
    data: bytes
    head_left: int


class Client:
    """A client's connection, with the requests whose heads are sent, and what became of them."""

    def __init__(self, wire: Wire, address: bytes) -> None:
        self.wire = wire
        self.address = address
        self.asked: list[Request] = []
        self.is_garbled = False
        self.is_last = False
        self._outbox: list[_Part] = []
        self._position = 0
        self._answered = 0
        self._last_number = -1
        self.is_tunnel = False

    @property
    def has_more(self) -> bool:
        return bool(self._outbox)

    def ask(self, request: Request, body: bytes) -> None:
        self._outbox.append(_Part(request, request.head + body, len(request.head)))

    def send(self, count: int) -> None:
        data = b""
        while self._outbox and count > len(data):
            part = self._outbox[0]
            piece = part.data[: count - len(data)]
            data += piece
            part.data = part.data[len(piece) :]
            was_open = part.head_left > 0
            part.head_left -= len(piece)
            if was_open and part.head_left <= 0:
                self.asked.append(part.request)
            if not part.data:
                self._outbox.pop(0)
        if data:
            self.wire.feed(data)

    def send_raw(self, data: bytes) -> None:
        self.is_garbled = True
        self.wire.feed(data)

    @property
    def open_request(self) -> Request | None:
        if self._answered < len(self.asked):
            return self.asked[self._answered]
        return None

    def read(self, answers: Answers) -> None:
        """Read on in what came, and check it."""
        data, is_ended = bytes(self.wire.received), self.wire.is_ended
        while self._position < len(data) and not self.is_tunnel:
            request = self.open_request
            try:
                answer = read_answer(
                    data,
                    self._position,
                    to_head=request is not None and request.method == b"HEAD",
                    is_ended=is_ended,
                )
            except UnfinishedError:
                return
            except MalformedError as error:
                if request is not None and request.method == b"HEAD" and is_ended:
                    return
                raise AssertionError(f"no answer: {error}: {data[self._position :]!r}") from error
            if 101 != answer.status < 200:
                self._position = answer.end
                continue
            self._check(request, answer, answers)
            if answer.status == 101:
                self.is_tunnel = True
            elif not answer.is_whole:
                return
            self._position = answer.end
            self._answered += 1

    def _check(self, request: Request | None, answer: Message, answers: Answers) -> None:
        self.is_last = self.is_last or b"close" in answer.values(b"connection")
        if not answer.values(b"x-upstream"):
            assert answer.status >= 400, ("an answer of the proxy", answer)
            if request is None:
                assert b"close" in answer.values(b"connection"), ("to nothing", answer)
            return
        assert request is not None, ("an answer to nothing", answer)
        assert request.protocol or answer.status != 101, ("an upgrade of nothing", answer)
        number = _number(answer)
        if number is None:
            return
        known = answers.all[number]
        assert (self.address, request.target, request.method) == (
            known.address,
            known.request.target,
            known.request.method,
        ), ("another's answer", known, request)
        assert number > self._last_number or not answer.is_whole, "an answer that came already"
        # A proxy that is about to stop ends what has no end of its own.
        is_ended = answers.are_ended and request.is_long_running
        if answer.is_whole:
            self._last_number = number
            if answer.framing != UNTIL_CLOSE and not is_ended:
                assert known.is_whole, ("more whole than it was", answer)
        if request.method != b"HEAD" and answer.status not in (101, 204, 304):
            if answer.is_whole and answer.framing != UNTIL_CLOSE and not is_ended:
                assert known.body == answer.body, ("another body", known, answer)
            assert known.body.startswith(answer.body), ("another body", known, answer)

    def __repr__(self) -> str:
        return f"<Client {self.address!r}: {self._answered} of {len(self.asked)} answered>"


def _number(answer: Message) -> int | None:
    numbers = answer.values(b"x-number")
    text = numbers[0] if numbers else answer.body[:ID_BYTES]
    return int(text) if len(text) == ID_BYTES else None


@dataclass
class Asked:
    """An upstream's last request; `rest` is None before the first part of its response."""

    request: Request
    number: int
    body: bytes = b""
    is_whole: bool = False
    rest: bytes | None = None
    is_open: bool = False
    is_chunked: bool = False
    is_answered: bool = False


@dataclass
class Upstream:
    """The upstream's side of a connection; `is_last` once it may be asked no more."""

    wire: Wire
    answers: Answers
    refused: frozenset[str]
    asked: Asked | None = None
    is_tunnel: bool = False
    is_last: bool = False
    _position: int = field(default=0)

    def read(self) -> None:
        """Read on in what came, and check it."""
        data = self.wire.received
        while self._position < len(data) and not self.is_tunnel:
            asked = self.asked
            if asked is None:
                end = data.find(b"\r\n\r\n", self._position)
                if end < 0:
                    return
                self.asked = self._read_head(bytes(data[self._position : end + 4]))
                self._position = end + 4
            elif asked.is_whole:
                raise AssertionError(f"more than was asked: {bytes(data[self._position :])!r}")
            else:
                self._position += self._read_body(asked, bytes(data[self._position :]))
                if asked.is_whole and asked.is_answered:
                    self.asked = None

    def _read_head(self, head: bytes) -> Asked:
        assert not self.is_last, ("asked once more", self, head)
        line, _, fields = head.partition(b"\r\n")
        method, target, version = line.split(b" ")
        request = BY_LINE[method, target]
        assert version == b"HTTP/1.1"
        assert request.is_good, ("what must not be forwarded", head)
        address = fields.rpartition(b"X-Forwarded-For: ")[2].partition(b"\r\n")[0]
        has_certificate = address.startswith(b"10.0.1.")
        assert has_certificate or request.token not in self.refused, ("a request of nobody", head)
        if b"X-Remote-User" in head:
            is_its = b"X-Remote-User: %b\r\n" % OF_CERTIFICATE.encode() in head
            assert is_its == has_certificate, ("another's request", head)
        asked = Asked(request, self.answers.begin(address, request))
        asked.is_whole = not request.content
        return asked

    def _read_body(self, asked: Asked, data: bytes) -> int:
        request, known = asked.request, len(asked.body)
        if b"Transfer-Encoding" in request.head:
            asked.body += data
            try:
                body, asked.is_whole, end = read_chunked(asked.body, 0)
            except MalformedError as error:
                raise AssertionError(f"no body: {error}: {asked.body!r}") from error
            asked.body = asked.body[:end]
        else:
            asked.body = body = (asked.body + data)[: len(request.content)]
            asked.is_whole = len(body) == len(request.content)
        assert request.content.startswith(body), ("another body", request, body)
        return len(asked.body) - known

    @property
    def holds_seats(self) -> bool:
        asked = self.asked
        if asked is None or asked.is_answered or self.is_tunnel or self.wire.is_closed:
            return False
        return asked.request.takes_seats and not asked.request.is_long_running

    @property
    def _busy(self) -> Asked:
        assert self.asked is not None
        return self.asked

    @property
    def is_gone(self) -> bool:
        return self.wire.is_closed or self.wire.has_left

    # Answers.

    def send(self, data: bytes) -> None:
        self.wire.feed(data)

    def answer(
        self, status: bytes, size: int, *, part: int | None = None, more: bytes = b""
    ) -> None:
        asked = self._busy
        body = b"%08d" % asked.number + b"." * max(0, size - ID_BYTES)
        head = b"HTTP/1.1 %b\r\n%b%bContent-Length: %d\r\n\r\n" % (status, MARK, more, len(body))
        self._record(asked, body, is_whole=True)
        if asked.request.method == b"HEAD":
            head = head.replace(MARK, MARK + b"X-Number: %08d\r\n" % asked.number)
            body = b""
        data = head + body
        cut = len(data) if part is None else min(part, len(data))
        asked.rest = data[cut:]
        self.is_last = self.is_last or b"close" in more
        if not asked.rest:
            self._settle(asked)
        self.send(data[:cut])

    def answer_too_much(self, size: int) -> None:
        asked = self._busy
        body = b"" if asked.request.method == b"HEAD" else b"%08d" % asked.number + b"." * size
        self._record(asked, body, is_whole=True)
        number = b"X-Number: %08d\r\nContent-Length: %d\r\n" % (asked.number, len(body))
        self._settle(asked)
        self.send(b"HTTP/1.1 200 OK\r\n%b%b\r\n%bmore" % (MARK, number, body))

    def answer_in_chunks(self, trailers: bytes) -> None:
        asked = self._busy
        body = b"%08d" % asked.number
        framing = b"Transfer-Encoding: chunked\r\n"
        if asked.request.method == b"HEAD":
            self.answer_without_body(b"200 OK", framing)
            return
        self._record(asked, body, is_whole=True)
        self._settle(asked)
        head = b"HTTP/1.1 200 OK\r\n%b%b\r\n" % (MARK, framing)
        self.send(head + b"8\r\n%b\r\n0\r\n%b\r\n" % (body, trailers))

    def answer_without_body(self, status: bytes, more: bytes = b"") -> None:
        asked = self._busy
        self._record(asked, b"", is_whole=True)
        number = b"X-Number: %08d\r\n" % asked.number
        self._settle(asked)
        self.send(b"HTTP/1.1 %b\r\n%b%b%b\r\n" % (status, MARK, number, more))

    def begin(self, body: bytes, *, is_chunked: bool, more: bytes = b"") -> None:
        asked = self._busy
        asked.is_chunked, asked.is_open = is_chunked, not is_chunked
        asked.rest = b""
        framing = b"Transfer-Encoding: chunked\r\n" if is_chunked else b""
        head = b"HTTP/1.1 200 OK\r\n%b%b%b" % (MARK, more, framing)
        if asked.request.method == b"HEAD":
            self.answer_without_body(b"200 OK", framing)
            return
        self.is_last = self.is_last or b"close" in more
        self._record(asked, b"%08d" % asked.number + body, is_whole=False)
        data = b"%08d" % asked.number + body
        self.send(head + b"\r\n" + (b"%x\r\n%b\r\n" % (len(data), data) if is_chunked else data))

    def go_on(self, data: bytes) -> None:
        asked = self._busy
        if asked.rest:
            rest, asked.rest = asked.rest, b""
            self._settle(asked)
            self.send(rest)
        elif asked.is_chunked or asked.is_open:
            self._record(asked, data, is_whole=False)
            self.send(b"%x\r\n%b\r\n" % (len(data), data) if asked.is_chunked else data)

    def finish(self, trailers: bytes = b"") -> None:
        asked = self._busy
        if asked.rest:
            self.go_on(b"")
        elif asked.is_chunked:
            self._record(asked, b"", is_whole=True)
            self._settle(asked)
            self.send(b"0\r\n%b\r\n" % trailers)
        elif asked.is_open:
            self._record(asked, b"", is_whole=True)
            self.wire.end()

    def switch(self, protocol: bytes) -> None:
        self.is_tunnel = self.asked is not None and protocol == self.asked.request.protocol
        if self.asked is not None:
            self._record(self.asked, b"", is_whole=True)
        self.send(
            b"HTTP/1.1 101 Switching Protocols\r\n%bConnection: Upgrade\r\nUpgrade: %b\r\n\r\n"
            % (MARK, protocol)
        )

    def _record(self, asked: Asked, body: bytes, *, is_whole: bool) -> None:
        known = self.answers.all[asked.number]
        known.body += body
        known.is_whole = is_whole

    def _settle(self, asked: Asked) -> None:
        asked.rest, asked.is_chunked, asked.is_answered = b"", False, True
        self.asked = None if asked.is_whole else asked

    def __repr__(self) -> str:
        return f"<Upstream {self.asked}, {self.wire!r}>"
