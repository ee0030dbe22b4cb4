"""Requests whose responses tell whose they are, and how clients judge those.

A request has a number.  Its response has the number in a header field, and a body that is nothing
but that number again and again; so has the body of a request.  So a client that gets a byte of
another message sees it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from apfproxy.objects.types import QueuingConfiguration
from tests.support.builders import as_text, flow_schema, group_subject, priority_level

if TYPE_CHECKING:
    import random
    import ssl
    from collections.abc import Sequence

GROUP = "testers"
ID, ANSWER = b"x-request-id", b"x-answer"
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
EVENTS = 4
"""For a watch that ends by itself."""
EVENT_PERIOD_S = 0.02
MAX_SIZE = 1 << 20
CHUNK_BYTES = 32768
"""As Go's clients and servers copy bodies."""
SWITCH = (
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
)
"""For every request that wants to upgrade; what then comes is no WebSocket, but echoed."""

NEVER = "never"
"""A kind of response that does not come."""

KINDS = {
    # Kind of response: weight, method.
    "sized": (45, "GET"),
    "chunked": (20, "GET"),
    "until-close": (4, "GET"),
    "hinted": (3, "GET"),
    "bodiless": (5, "HEAD"),
    "empty": (5, "DELETE"),
    "watch": (3, "GET"),
    "posted": (10, "POST"),
    "put-in-chunks": (5, "PUT"),
}
WITH_BODY = ("posted", "put-in-chunks")
OWN_ANSWERS = frozenset((408, 429, 502, 503, 504))
"""Statuses that a proxy may answer by itself to requests that are all right."""


def level_of(group: str, *, shares: int = 300, lendable_percent: int = 0, **sizes: int) -> str:
    """A file of objects that give a group a level of its own."""
    queuing = QueuingConfiguration(
        **{"queues": 32, "hand_size": 4, "queue_length_limit": 200} | sizes
    )
    level = priority_level(
        group,
        shares=shares,
        queuing=queuing,
        lendable_percent=lendable_percent,
        borrowing_limit_percent=None,
    )
    return as_text(level, flow_schema(group, group, group_subject(group)))


OBJECTS = level_of(GROUP)


@dataclass(frozen=True, slots=True)
class Ask:
    """One request; `size` is in bytes, of the response's body and of its own if it has one."""

    number: int
    kind: str
    size: int

    @property
    def id(self) -> bytes:
        return b"r%09d" % self.number

    @property
    def method(self) -> str:
        return KINDS[self.kind][1]

    @property
    def is_watch(self) -> bool:
        return self.kind == "watch"

    def expected_body(self) -> bytes:
        if self.kind in ("bodiless", "empty"):
            return b""
        if self.is_watch:
            return event(self.id) * EVENTS
        return pattern(self.id, self.size)

    def begins(self, body: bytes) -> bool:
        """Whether the response's body may begin so; a watch may have no end."""
        if not self.is_watch:
            return self.expected_body().startswith(body)
        one = event(self.id)
        return (one * (len(body) // len(one) + 1)).startswith(body)

    @property
    def target(self) -> str:
        name = self.id.decode()
        return f"{CONFIGMAPS}?watch=true&n={name}" if self.is_watch else f"{CONFIGMAPS}/{name}"

    @property
    def body(self) -> bytes | None:
        return pattern(self.id, self.size) if self.kind in WITH_BODY else None

    def lines(self, user: str, fields: str = "") -> str:
        return (
            f"X-Remote-User: {user}\r\nX-Remote-Group: {GROUP}\r\n{fields}"
            f"X-Request-Id: {self.id.decode()}\r\nX-Answer: {self.kind} {self.size}\r\n"
        )

    def encode(self, user: str, fields: str = "") -> bytes:
        """The request's bytes over HTTP/1.1."""
        line = f"{self.method} {self.target} HTTP/1.1\r\nHost: a.test\r\n"
        head, body = (line + self.lines(user, fields)).encode(), self.body
        if body is None:
            return head + b"\r\n"
        if self.kind == "posted":
            return b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body)
        return b"%bTransfer-Encoding: chunked\r\n\r\n%b" % (head, in_chunks(body))


def draw(number: int, random: random.Random, kinds: dict[str, int]) -> Ask:
    """Draw a request; most are small, one in a hundred may have a megabyte."""
    (kind,) = random.choices(list(kinds), list(kinds.values()))
    chance = random.random()
    most = 0 if chance < 0.05 else 2000 if chance < 0.9 else 65_536 if chance < 0.99 else MAX_SIZE
    return Ask(number, kind, random.randint(0, most))


def pattern(name: bytes, size: int) -> bytes:
    """A body of so many bytes that is a name's own."""
    return ((name + b"|") * (size // (len(name) + 1) + 1))[:size]


def in_chunks(body: bytes) -> bytes:
    pieces = (body[at : at + CHUNK_BYTES] for at in range(0, len(body), CHUNK_BYTES))
    return b"".join(b"%x\r\n%b\r\n" % (len(each), each) for each in pieces) + b"0\r\n\r\n"


def event(name: bytes) -> bytes:
    return b'{"type":"ADDED","object":{"metadata":{"name":"%b"}}}\n' % name


class FirstFew(list[str]):
    """The first 20 of possibly very many complaints."""

    def add(self, text: str) -> None:
        if len(self) < 20:
            self.append(text)


@dataclass(frozen=True, kw_only=True)
class Habits:
    """How clients behave.

    Attributes:
        kinds: Kind of request to weight.
        abort_share: Share of requests in the middle of which the client leaves.
        patience_s: After which a request without an end counts as hung.
        fields: Lines of the head to choose from, such as credentials.
        requests_per_s: Of all connections; 0 for as fast as responses come.
    """

    kinds: dict[str, int] = field(
        default_factory=lambda: {kind: weight for kind, (weight, _) in KINDS.items()}
    )
    abort_share: float = 0.01
    patience_s: float = 12.0
    users: int = 20
    fields: Sequence[str] = ("",)
    tls: Sequence[ssl.SSLContext] = ()
    requests_per_s: float = 0.0
    http2: bool = False


@dataclass(slots=True)
class Answer:
    """A response as far as it has come.

    Attributes:
        name: Of the request that it says it is for; None if the proxy made it.
        left: Bytes of its body to come; -1 for chunks, -2 for all until the connection ends.
    """

    status: int
    name: bytes | None
    left: int
    body: bytearray = field(default_factory=bytearray)


@dataclass(slots=True)
class Tally:
    """Ends of requests, counted.

    Attributes:
        asked: Sent, or begun to be.
        answered: Right and whole, from the origin.
        by_status: The proxy's own responses.
        broken: The response began, and its connection ended before its end.
        lost: The connection ended before the response began.
        left: The client did.
        cut: Right and apparently whole, but short: the origin's connection marked its end and was
            closed early, which no client can tell from the real end.
        mispaired: The response is, in part or whole, not that of the request.
        hung: Neither a response nor an end came.
        refused: Connections that were not made.
        wrong: The first few of `mispaired` and `hung`.
    """

    asked: int = 0
    answered: int = 0
    by_status: dict[int, int] = field(default_factory=dict)
    broken: int = 0
    lost: int = 0
    left: int = 0
    cut: int = 0
    mispaired: int = 0
    hung: int = 0
    refused: int = 0
    wrong: FirstFew = field(default_factory=FirstFew)

    @property
    def ended(self) -> int:
        failed = self.broken + self.lost + self.left + self.cut + self.mispaired + self.hung
        return self.answered + sum(self.by_status.values()) + failed

    def on_mispaired(self, text: str) -> None:
        self.mispaired += 1
        self.wrong.add(text)

    def judge(self, ask: Ask, answer: Answer) -> None:
        if answer.name is None:
            if answer.status in OWN_ANSWERS:
                self.by_status[answer.status] = self.by_status.get(answer.status, 0) + 1
            else:
                text = bytes(answer.body[:200])
                self.on_mispaired(f"{answer.status} for {ask}: {text!r}")
            return
        expected = ask.expected_body()
        body = bytes(answer.body)
        if answer.name == ask.id and body == expected:
            self.answered += 1
        elif answer.name == ask.id and ask.kind == "until-close" and expected.startswith(body):
            self.cut += 1
        else:
            self.on_mispaired(f"{answer.name!r}, {len(body)} bytes {body[:100]!r} for {ask}")

    def judge_broken(self, ask: Ask, answer: Answer) -> None:
        if answer.name is None or self.judge_begun(ask, answer):
            self.broken += 1

    def judge_begun(self, ask: Ask, answer: Answer) -> bool:
        is_right = answer.name == ask.id and ask.begins(bytes(answer.body))
        if not is_right:
            self.on_mispaired(f"{answer.name!r}, {bytes(answer.body[:100])!r} for {ask}")
        return is_right
