"""Header blocks: told apart, kept, and forgotten; heads that are known in part mean the same."""

from __future__ import annotations

import gc
import ipaddress
import tracemalloc
from base64 import b64encode
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from apfproxy.authn.authenticator import Authentication
from apfproxy.http.grammar import HeadError
from apfproxy.http.request_fields import HTTP_1_1, SIZED, RequestFields
from apfproxy.http.request_head import parse_head
from apfproxy.proxy import request as request_module
from apfproxy.proxy.cluster_router import ClusterRouter
from apfproxy.proxy.head_reader import MAX_BLOCK_BYTES, MAX_BLOCKS, MAX_REPEATED_BYTES, HeadReader
from apfproxy.proxy.request import MARK_BYTES, BoundedCache, HeaderBlock, MemoryBudget, key_of
from apfproxy.request.attributes import ANONYMOUS
from apfproxy.settings import DownstreamSettings
from tests.http.test_request_head import HEADS_OF_ALL_KINDS, heads
from tests.proxy.fakes import GET, OK, POST, Bench, FakeTransport, connection_of, status
from tests.proxy.test_http1_work import NAMING, TRUSTED, read

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.proxy.context import Context
    from apfproxy.proxy.request import Request

PUT_LINE = b"PUT / HTTP/1.1\r\n"
SPDY_LINES = b"Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"


@pytest.mark.parametrize(
    ("section", "key", "body_bytes"),
    [
        pytest.param(
            b"Host: h\r\nContent-Length: 12\r\nA: b\r\n\r\n",
            (b"Host: h\r\nContent-Length: ", b"\r\nA: b\r\n\r\n"),
            12,
            id="one",
        ),
        pytest.param(
            b"content-length: 7\r\n\r\n", (b"content-length: ", b"\r\n\r\n"), 7, id="first"
        ),
        pytest.param(
            b"Content-Length: 0\r\n\r\n", (b"", b"Content-Length: 0\r\n\r\n"), 0, id="zero"
        ),
        pytest.param(b"Host: h\r\n\r\n", (b"", b"Host: h\r\n\r\n"), 0, id="none"),
        pytest.param(
            b"A-Content-Length: 7\r\n\r\n", (b"", b"A-Content-Length: 7\r\n\r\n"), 0, id="another"
        ),
        pytest.param(
            b"Content-Length: 7\r\nContent-Length: 7\r\n\r\n",
            (b"", b"Content-Length: 7\r\nContent-Length: 7\r\n\r\n"),
            0,
            id="two",
        ),
    ],
)
def test_key(section: bytes, key: tuple[bytes, bytes], body_bytes: int) -> None:
    """The digits of one length, well written, are no part of the key."""
    assert (key, body_bytes) == key_of(section)


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        pytest.param(b"Content-Length: 7\r\nA: b\r\n\r\n", 7, id="the-same"),
        pytest.param(b"Content-Length: 123456\r\nA: b\r\n\r\n", 123456, id="longer"),
        pytest.param(b"Content-Length: " + b"9" * 18 + b"\r\nA: b\r\n\r\n", 10**18 - 1, id="long"),
        pytest.param(b"Content-Length: " + b"9" * 19 + b"\r\nA: b\r\n\r\n", -1, id="too-long"),
        pytest.param(b"Content-Length: 0\r\nA: b\r\n\r\n", -1, id="none"),
        pytest.param(b"Content-Length: 07\r\nA: b\r\n\r\n", -1, id="leading-zero"),
        pytest.param(b"Content-Length: \r\nA: b\r\n\r\n", -1, id="empty"),
        pytest.param(b"Content-Length: 7", -1, id="without-an-end"),
        pytest.param(b"Content-Length: +7\r\nA: b\r\n\r\n", -1, id="sign"),
        pytest.param(b"Content-Length: 7\r\nC: d\r\nA: b\r\n\r\n", -1, id="another-line"),
        pytest.param(b"Content-Length: 7\r\n\r\n", -1, id="without-a-line"),
        pytest.param(b"content-length: 7\r\nA: b\r\n\r\n", -1, id="another-spelling"),
    ],
)
def test_body_bytes(section: bytes, expected: int) -> None:
    """A head has the section if it differs in the digits alone."""
    fields = RequestFields(HTTP_1_1)
    fields.framing, fields.body_bytes, fields.has_one_length = SIZED, 5, True
    block = HeaderBlock(fields, key_of(b"Content-Length: 5\r\nA: b\r\n\r\n")[0])
    head = PUT_LINE + section
    end = len(head) if expected >= 0 else 0
    for data in (head, head + PUT_LINE, bytearray(head)):
        assert (end, max(0, expected)) == block.match(data, len(PUT_LINE))


def test_section_without_a_length() -> None:
    fields = RequestFields(HTTP_1_1)
    block = HeaderBlock(fields, key_of(b"A: b\r\n\r\n")[0])

    assert (len(PUT_LINE) + 8, 0) == block.match(PUT_LINE + b"A: b\r\n\r\nbody", len(PUT_LINE))
    assert (0, 0) == block.match(PUT_LINE + b"A: c\r\n\r\n", len(PUT_LINE))
    assert (0, 0) == block.match(PUT_LINE + b"C: d\r\nA: b\r\n\r\n", len(PUT_LINE))
    assert (0, 0) == block.match(PUT_LINE + b"A: b\r\n", len(PUT_LINE))


# Heads that are known in part.

OWN = ("method", "target", "is_head", "body_bytes", "framing", "is_http_10")
OTHERS = ("keep_alive", "expects_continue", "upgrade")


@pytest.fixture(name="context", scope="module")
def shared_context() -> Context:
    """What the requests of all these tests share; no other bench may be there at once."""
    limits = DownstreamSettings(max_header_fields=4, max_target_bytes=64)
    with Bench(downstream=limits) as bench:
        return bench.context


def new_reader(context: Context) -> HeadReader:
    """The reader of a connection of which nothing is known, nor of any other one."""
    context.client_kinds.forget()
    return HeadReader(ClusterRouter(context))


def outcome(reader: HeadReader, head: bytes) -> object:
    """All that a connection finds in a head, or the status that it refuses the head with."""
    block, end, body_bytes = reader.match(head)
    assert end in {0, len(head)}
    try:
        request = reader.read(head, block, body_bytes)
    except HeadError as error:
        return error.code
    found = request.head
    return [
        *(getattr(found, name) for name in (*OWN, *OTHERS)),
        found.forwarded(b"I: d\r\n", b"::1"),
        found.fields.credentials,
        request.attributes.path,
    ]


@pytest.mark.parametrize("head", HEADS_OF_ALL_KINDS)
def test_known_heads(context: Context, head: bytes) -> None:
    reader = new_reader(context)
    cold = outcome(reader, head)

    for _ in range(3):
        assert cold == outcome(reader, head)
    assert cold == outcome(HeadReader(ClusterRouter(context)), head)


@given(data=st.one_of(heads, st.binary(max_size=40)))
@example(data=b"")
def test_known_fields_behind_any_line(context: Context, data: bytes) -> None:
    """Whatever a head is made of, it is refused or forwarded, warm as cold, and as by llhttp."""
    if b"\r\n\r\n" in data:
        data = data[: data.index(b"\r\n\r\n") + 2]
    head = data + b"\r\n" if data.endswith(b"\r\n") else data + b"\r\n\r\n"
    reader = new_reader(context)
    cold = outcome(reader, head)
    assert cold == outcome(reader, head)
    section = head[head.index(b"\r\n") + 2 :]
    for _ in range(2):
        outcome(reader, b"GET / HTTP/1.1\r\n" + section)
    warm = outcome(reader, head)
    if isinstance(cold, int) and isinstance(warm, int):
        # One that breaks two rules may be told of the other one.
        assert {400, 405, 414, 417, 431} >= {cold, warm}
        return
    assert cold == warm
    kind = context.client_kinds.kind_of("")
    assert parse_head(head, kind.rules).target in head


lengths = st.lists(
    st.sampled_from([b"1", b"7", b"12", b"0", b"01", b"", b"x", b"-1", b"9" * 18, b"9" * 19]),
    min_size=1,
    max_size=8,
)


@given(
    data=heads,
    name=st.sampled_from([b"Content-Length: ", b"content-length: ", b"Content-Length:"]),
    place=st.integers(0, 5),
    values=lengths,
)
@example(
    data=b"PUT / HTTP/1.1\r\nHost: h\r\nContent-Length:1\r\n",
    name=b"Content-Length: ",
    place=2,
    values=[b"1", b"1", b"7"],
)
def test_length_is_told_apart_from_the_fields(
    context: Context, data: bytes, name: bytes, place: int, values: list[bytes]
) -> None:
    """Whatever a connection is known by, each head means what it means alone."""
    parts = data.split(b"\r\n")
    place = min(max(1, place), max(1, len(parts) - 1))
    made = [
        b"\r\n".join([*parts[:place], name + value, *parts[place:]]).rstrip(b"\r\n") + b"\r\n\r\n"
        for value in values
        for _ in range(3)
    ]
    if any(head.find(b"\r\n\r\n") != len(head) - 4 for head in made):
        return
    alone = [outcome(new_reader(context), head) for head in made]
    reader = new_reader(context)

    assert alone == [outcome(reader, head) for head in made]


def test_a_connection_is_known_by_few_blocks(context: Context) -> None:
    """Blocks that came twice are known, the last first, and no more than a few."""
    reader = new_reader(context)

    def known() -> list[bytes | None]:
        return [block.fields.host for block in reader._known]  # noqa: SLF001  nothing else tells

    for i in (1, 2, 3, 4, 5, 4):
        for _ in range(2):
            outcome(reader, b"GET / HTTP/1.1\r\nHost: h%d\r\n\r\n" % i)
    assert [b"h5", b"h4", b"h3"] == known()
    outcome(reader, b"GET / HTTP/1.1\r\nHost: h1\r\n\r\n")

    assert [b"h1", b"h5", b"h4"] == known()
    assert MAX_BLOCKS == len(known())


def test_other_fields_with_the_same_credentials(context: Context) -> None:
    reader = new_reader(context)
    section = b"GET / HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %b\r\nTraceparent: %d\r\n\r\n"
    for _ in range(2):
        first = reader.read(section % (b"a", 1), None, 0)
    first.block.authentication = authentication = Authentication(ANONYMOUS, b"", 1)
    same = reader.read(section % (b"a", 2), None, 0)
    other = reader.read(section % (b"b", 2), None, 0)

    assert authentication is same.block.authentication
    assert None is other.block.authentication


def test_kept_blocks_are_bounded(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither ever new blocks nor long ones fill the memory."""
    monkeypatch.setattr(request_module, "MAX_BLOCKS", 4)
    reader = new_reader(context)
    kind, counts = context.client_kinds.kind_of(""), []
    for i in range(9):
        for _ in range(2):
            outcome(reader, b"GET / HTTP/1.1\r\nHost: h%d\r\n\r\n" % i)
            outcome(reader, b"GET / HTTP/1.1\r\nHost: %b\r\n\r\n" % (b"h" * MAX_BLOCK_BYTES))
        counts.append(len(kind.blocks.values))

    assert [1, 2, 3, 4, 3, 4, 3, 4, 3] == counts


@pytest.mark.parametrize(
    ("target", "lines"),
    [
        pytest.param(b"/api/v1/namespaces/a/pods/b/exec", SPDY_LINES, id="served"),
        pytest.param(b"/api/v1/namespaces/a/pods/b", b"", id="not-served"),
    ],
)
def test_upgrade_depends_on_the_target(context: Context, target: bytes, lines: bytes) -> None:
    """Fields that are known from one target may mean nothing with the next."""
    raw = b"POST %b HTTP/1.1\r\nHost: h\r\n%b\r\n" % (target, SPDY_LINES)
    head = new_reader(context).read(raw, None, 0).head

    expected = b"POST %b HTTP/1.1\r\n%bHost: h\r\n" % (target, lines)
    assert head.forwarded().startswith(expected + b"X-Forwarded-Proto: ")
    assert bool(lines) == (head.upgrade is not None)


def ask(bench: Bench, client: FakeTransport, head: bytes, times: int) -> list[Request]:
    """Have a head answered so many times; the requests it became."""
    found = []
    for _ in range(times):
        bench.send(client, head)
        exchange = connection_of(client).exchange
        assert exchange is not None
        found.append(exchange.request)
        bench.send(bench.upstreams[0], OK)
        assert b"200" == status(client.take())
    return found


@pytest.mark.parametrize(
    ("head", "different"),
    [
        pytest.param(GET, 2, id="short"),
        pytest.param(GET[:-2] + b"A: %b\r\n\r\n" % (b"a" * MAX_REPEATED_BYTES), 5, id="long"),
        pytest.param(POST + b"\r\nbody", 5, id="body"),
        pytest.param(POST.replace(b"4", b"0") + b"\r\n", 2, id="empty-body"),
    ],
)
def test_a_repeated_head_is_not_parsed(bench: Bench, head: bytes, different: int) -> None:
    """From the third time on a short head without a body is the same request again."""
    client = bench.client()

    assert different == len(set(map(id, ask(bench, client, head, 5))))
    bench.assert_at_rest(client)


def test_what_a_connection_is_known_by_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks is authenticated again, and connections hold no more than the cache."""
    monkeypatch.setattr(request_module, "MAX_BLOCKS", 2)
    with Bench() as bench:
        client = bench.client()
        for forget in (
            bench.context.forget_authentications,
            connection_of(client).forget_header_blocks,
        ):
            before = ask(bench, client, GET, 3)
            forget()
            assert before[-1] is not ask(bench, client, GET, 1)[0]
        assert 1 == len(connection_of(client)._reader._known)  # noqa: SLF001  nothing else tells
        other = bench.client()
        for number in range(2):
            head = GET[:-2] + b"A: %d\r\n\r\n" % number
            ask(bench, other, head, 2)

        assert [] == connection_of(client)._reader._known  # noqa: SLF001
        bench.end(client)
        bench.end(other)


# How much memory they take: it is measured, and never more than is said.

LINE = b"GET %b HTTP/1.1\r\n%b\r\n"
HOST = b"Host: a\r\n"
ENTRIES = 100

HEADS: dict[str, Callable[[int], bytes]] = {
    "small": lambda n: LINE % (b"/", b"Host: %06d\r\n" % n),
    "long": lambda n: LINE % (b"/", HOST + b"A: %06d%b\r\n" % (n, b"a" * 1900)),
    "sized": lambda n: (
        LINE % (b"/", HOST + b"Content-Length: 9\r\nA: %06d%b\r\n" % (n, b"a" * 1000))
    ),
    "token": lambda n: LINE % (b"/", HOST + b"Authorization: Bearer %06d%b\r\n" % (n, b"a" * 1900)),
    "groups": lambda n: (
        LINE % (b"/", HOST + b"Impersonate-User: %06d\r\n" % n + b"Impersonate-Group: aa\r\n" * 85)
    ),
    "extra": lambda n: (
        LINE
        % (
            b"/",
            HOST
            + b"X-Remote-User: %06d\r\n" % n
            + b"".join(b"X-Remote-Extra-%03d: a\r\n" % key for key in range(85)),
        )
    ),
    "naming": lambda n: (
        LINE
        % (
            b"/",
            HOST
            + b"X-API-Key: %06d%b\r\n" % (n, b"k" * 600)
            + b"Authorization: Basic %b\r\n" % b64encode(b"%06d:%b" % (n, b"p" * 500))
            + b"X-Client-Id: %06d%b\r\nX-Forwarded-For: 192.0.2.7\r\n" % (n, b"a" * 240),
        )
    ),
    "subprotocols": lambda n: (
        LINE
        % (
            b"/",
            HOST
            + b"B: %06d\r\n" % n
            + b"Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Protocol: "
            + b"aa," * 600
            + b"\r\n",
        )
    ),
}


@pytest.mark.parametrize("kind", HEADS)
def test_what_is_kept_takes_no_more_than_is_said(kind: str) -> None:
    """Of each kind of head that takes much for its bytes, and of typical ones."""
    trusted = (ipaddress.ip_network(TRUSTED),)
    with Bench(
        downstream=DownstreamSettings(identity_headers_from=trusted), authentication=NAMING
    ) as bench:
        heads = [HEADS[kind](number) for number in range(ENTRIES)]
        assert max(map(len, heads)) <= MAX_BLOCK_BYTES
        read(bench, HEADS[kind](ENTRIES), address=TRUSTED)
        gc.collect()
        tracemalloc.start()
        for head in heads * 2:
            # As what comes from the network, in memory of its own.
            read(bench, bytes(bytearray(head)), address=TRUSTED)
        gc.collect()
        held_bytes, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        said = room_of(bench).taken

        assert held_bytes <= said <= 8 * held_bytes


def room_of(bench: Bench) -> MemoryBudget:
    return bench.context.client_kinds._room  # noqa: SLF001  what is tested


ROOMY = 1 << 20


def kept_in(room: MemoryBudget, bound: int = 100) -> BoundedCache[str, int]:
    """A collection of numbers that say how large they are."""
    return BoundedCache(bound, room, lambda _, size: size)


@pytest.mark.parametrize(
    ("room", "bound", "offers", "values", "taken"),
    [
        pytest.param(ROOMY, 4, "a1 b2 a3", {"a": 3}, 3 + MARK_BYTES, id="what-comes-twice"),
        pytest.param(ROOMY, 3, "a1 a1 b2 b2 c3 c3 d4 d4", {"c": 3, "d": 4}, 7, id="the-older-half"),
        pytest.param(ROOMY, 2, "a0 b0 c0 d0 e0 a0", {}, 2 * MARK_BYTES, id="is-forgotten"),
        pytest.param(ROOMY, 9, "a1 a10 a1 a20", {"a": 20}, 20, id="room-is-taken-once"),
        pytest.param(100, 9, "a1000 a1000 b1000 b1000", {}, 0, id="larger-than-the-room"),
    ],
)
def test_what_a_collection_keeps(
    room: int, bound: int, offers: str, values: dict[str, int], taken: int
) -> None:
    """No more values than its bound, and no more bytes than its room."""
    budget = MemoryBudget(room)
    kept = kept_in(budget, bound)
    for offer in offers.split():
        kept.offer(offer[0], int(offer[1:]))
    assert (values, taken) == (kept.values, budget.taken)
    assert list(values) == list(kept.values)
    del kept

    assert 0 == budget.taken


def test_collections_share_their_room() -> None:
    """When it is full, the older half of each goes, and what has come once."""
    room = MemoryBudget(700)
    one, other = kept_in(room), kept_in(room)
    for kept, keys in ((one, "aabbx"), (other, "ccdd")):
        for key in keys:
            kept.offer(key, 150)

    assert (["b"], ["d"]) == (list(one.values), list(other.values))
    assert 300 == room.taken


@pytest.mark.parametrize(
    ("room", "keys", "forgetful"),
    [pytest.param(700, "aa", 2, id="room"), pytest.param(ROOMY, "aabbcc", 1, id="bound")],
)
def test_others_hear_once_however_many_collections_forget(
    room: int, keys: str, forgetful: int
) -> None:
    """They may still use it; to tell thousands of connections of each collection takes seconds."""
    heard: list[int] = []
    budget = MemoryBudget(room, lambda: heard.append(budget.taken))
    caches = [kept_in(budget, 2) for _ in range(9)]
    for cache in caches[:forgetful]:
        for key in keys:
            cache.offer(key, 400)

    assert 1 == len(heard)
