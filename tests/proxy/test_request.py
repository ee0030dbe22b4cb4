"""Requests and their header blocks, whose users and classes are kept."""

from __future__ import annotations

import gc
import ipaddress
import tracemalloc
from base64 import b64encode
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from apfproxy.authn.authenticator import Authentication, Authenticator
from apfproxy.authn.credentials import UNKNOWN_PEER, Peer
from apfproxy.http.grammar import HeadError
from apfproxy.http.request_fields import HTTP_1_1, SIZED, RequestFields
from apfproxy.proxy import request as request_module
from apfproxy.proxy.cluster_router import ClusterRouter
from apfproxy.proxy.head_reader import MAX_BLOCK_BYTES, HeadReader
from apfproxy.proxy.request import MARK_BYTES, BoundedCache, HeaderBlock, MemoryBudget, key_of
from apfproxy.request.attributes import ANONYMOUS, User
from apfproxy.settings import (
    ApiKeySettings,
    AuthenticationSettings,
    DownstreamSettings,
    UnverifiedSettings,
)
from tests.http.test_request_head import HEADS_OF_ALL_KINDS, heads
from tests.proxy.fakes import GET, OK, Bench, Certificates, FakeTransport, connection_of, status
from tests.proxy.test_http1_work import NAMING, TRUSTED, read

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.proxy.context import Context
    from apfproxy.proxy.request import Request
    from tests.support.clocks import VirtualClock


def prepare(bench: Bench, line: bytes) -> Request:
    return bench.request_of(line + b" HTTP/1.1\r\nHost: h\r\n\r\n")


def test_equal_fields_are_of_one_user(bench: Bench) -> None:
    first = bench.request_of(GET)
    again = bench.request_of(GET)
    bench.request_of(GET)
    assert "system:anonymous" == first.user.name
    again.take_authentication(Authentication(User("ann", ()), b"X-Remote-User: ann\r\n", 9))
    other = bench.request_of(GET.replace(b"/b ", b"/c "))

    assert ("ann", 9) == (other.user.name, other.authenticated_until_ns)
    assert b"X-Remote-User: ann\r\n" == other.user_lines
    assert b"X-Remote-User" not in other.head.forwarded()


@pytest.mark.parametrize(
    ("lines", "name", "expected"),
    [
        (b"x-tenant:blue\r\nX-Tenant: red\r\n", "X-Tenant", "blue"),
        (b"X-Tenant:  \r\n", "x-tenant", ""),
        (b"A-X-Tenant: red\r\nOther: x-tenant: red\r\n", "x-tenant", ""),
        (b"X-Tenant: \xc3\xa4\xff\r\n", "x-tenant", "\u00e4\ufffd"),
        (b"X-Remote-User: root\r\n", "x-remote-user", ""),
    ],
)
def test_header(bench: Bench, lines: bytes, name: str, expected: str) -> None:
    assert expected == bench.request_of(GET[:-2] + lines + b"\r\n").header(name)


def test_secrets() -> None:
    keys = ApiKeySettings(file="keys.csv", header="X-Key")
    unverified = UnverifiedSettings(secret_headers=("X-Old-Key",))
    authentication = AuthenticationSettings(api_keys=keys, unverified=unverified)
    with Bench(authentication=authentication) as bench:
        head = GET[:-2] + b"X-Old-Key: abc\r\nX-Key: abc\r\nX-Team: abc\r\n\r\n"
        request = bench.request_of(head)

        assert "ba7816bf8f01cfea" == request.header("x-old-key") == request.header("X-Key")
        assert "abc" == request.header("x-team")
        assert "" == bench.request_of(GET[:-2] + b"X-Key: \r\n\r\n").header("x-key")


POD = b"/api/v1/namespaces/a/pods/b"


@pytest.mark.parametrize(
    ("line", "fields", "expected"),
    [
        *(
            (line, b"", True)
            for line in (b"GET /", b"HEAD /", b"GET /exec", b"GET " + POD + b"/proxy/x")
        ),
        *((b"GET " + POD + each, b"", False) for each in (b"/exec", b"/portforward")),
        *((line, b"", False) for line in (b"DELETE " + POD, b"POST /")),
        (b"GET /", b"Content-Length: 1\r\n", False),
        (b"PUT " + POD, b"If-Match: 1\r\n", False),
        *(
            (b"GET /", line, False)
            for line in (b"X-HTTP-Method-Override: PUT\r\n", b"X_HTTP_Method_Override: PUT\r\n")
        ),
        (b"GET /", b"x-http-method: GET\r\n", False),
        (b"GET /", b"Connection: X-HTTP-Method\r\nX-HTTP-Method: PUT\r\n", True),
        (b"GET " + POD + b"/proxy", b"Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n", False),
    ],
)
def test_what_a_second_server_may_get(
    bench: Bench, line: bytes, fields: bytes, *, expected: bool
) -> None:
    head = bench.request_of(line + b" HTTP/1.1\r\nHost: h\r\n" + fields + b"\r\n")

    assert expected == head.is_repeatable


@pytest.mark.parametrize(
    ("line", "is_watch", "takes_seats", "is_fixed"),
    [
        (b"GET /api/v1/pods/a", False, True, True),
        (b"GET /api/v1/pods", False, True, False),
        (b"POST /api/v1/namespaces/a/pods", False, True, False),
        (b"GET /api/v1/pods?watch=1&resourceVersion=5", True, True, True),
        (b"GET /api/v1/pods?watch=1&sendInitialEvents=1", True, True, False),
        (b"GET /api/v1/watch/pods", True, True, False),
        (b"GET /api/v1/namespaces/a/pods/b/log", False, False, True),
        (b"POST /api/v1/namespaces/a/pods/b/exec", False, False, False),
        (b"GET /debug/pprof/profile", False, False, True),
    ],
)
def test_prepares(
    bench: Bench, line: bytes, is_watch: bool, takes_seats: bool, is_fixed: bool
) -> None:
    request = prepare(bench, line)

    assert (is_watch, takes_seats) == (request.is_watch, request.takes_seats)
    assert is_fixed == (request.fixed_estimate is not None)


@pytest.mark.parametrize(
    "line",
    [
        *(b"GET /%zz", b"GET /api/v1/watch", b"GET /api/v1/watch/", b"DELETE /apis/apps/v1/proxy"),
        b"GET /api/v1/pods?timeout=x",
    ],
)
def test_refuses(bench: Bench, line: bytes) -> None:
    for _ in range(2):
        with pytest.raises(HeadError) as refused:
            prepare(bench, line)
        assert 400 == refused.value.code


def test_classifies_once_per_configuration(bench: Bench) -> None:
    request = prepare(bench, b"GET /refusing")
    found = bench.flow_control.classify(request)
    assert found is bench.flow_control.classify(request)
    assert "refusing" == found.level.name
    uid = found.priority_level_uid.encode()
    expected = (
        b"X-Kubernetes-PF-FlowSchema-UID: schema-uid\r\n"
        b"X-Kubernetes-PF-PriorityLevel-UID: " + uid + b"\r\n"
    )
    assert expected == request.class_lines(found)
    bench.controller.commit(bench.controller.digest([]))

    other = bench.flow_control.classify(request)
    assert "catch-all" == other.level.name
    assert other.priority_level_uid.encode() in request.class_lines(other)


def test_no_uid_ends_a_header_line(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    request = prepare(bench, b"GET /refusing")
    found = bench.controller.classify(request.user, request.attributes, request.header)
    found.flow_schema_uid, found.priority_level_uid = "a\r\nX-Evil: 1", "\ud800\0\u00fc \x85z"
    monkeypatch.setattr(type(bench.controller), "classify", lambda *_: found)
    assert request.class_lines(bench.flow_control.classify(request)) == (
        b"X-Kubernetes-PF-FlowSchema-UID: a__X-Evil:_1\r\n"
        b"X-Kubernetes-PF-PriorityLevel-UID: _____z\r\n"
    )


def authenticator(clock: VirtualClock) -> Authenticator:
    result = Authenticator(clock)
    result.certificates = Certificates()
    return result


A = User("a", ())


@pytest.mark.parametrize(
    ("address", "certificate", "expected"),
    [
        ("10.0.0.1", None, UNKNOWN_PEER),
        ("::ffff:10.1.0.1", None, Peer(is_front_proxy=True)),
        ("unknown", None, UNKNOWN_PEER),
        ("10.0.0.1", b"a", Peer(A, has_certificate=True)),
        ("10.1.0.1", b"a", Peer(A, is_front_proxy=True, has_certificate=True)),
    ],
)
def test_kinds_of_clients(address: str, certificate: bytes | None, expected: Peer) -> None:
    networks = (ipaddress.ip_network("10.1.0.0/16"),)
    with Bench(
        downstream=DownstreamSettings(identity_headers_from=networks), authenticator=authenticator
    ) as bench:
        kinds = bench.context.client_kinds
        kind = kinds.kind_of(address, certificate)
        assert expected == kind.peer
        assert kind is kinds.kind_of(address, certificate)
        assert kind.blocks is not kinds.kind_of(address, b"b").blocks
        assert kind.blocks is not kinds.kind_of(address, certificate, is_tls=True).blocks
        assert kind.blocks is not kinds.kind_of(address, certificate, is_http2=True).blocks


@pytest.mark.parametrize(
    ("section", "key", "body_bytes"),
    [
        (b"A: b\r\nContent-Length: 12\r\nC: d\r\n\r\n", (22, b"\r\nC: d\r\n\r\n"), 12),
        (b"content-length: 7\r\n\r\n", (16, b"\r\n\r\n"), 7),
        *(
            (b"Content-Length: %b\r\n\r\n" % each, None, 0)
            for each in (b"0", b"07", b"9" * 19, b"+7")
        ),
        *((each + b"\r\n\r\n", None, 0) for each in (b"Host: h", b"A-Content-Length: 7")),
        (b"Content-Length: 7\r\nContent-Length: 7\r\n\r\n", None, 0),
    ],
)
def test_digits_of_one_length_are_no_part_of_the_key(
    section: bytes, key: tuple[int, bytes] | None, body_bytes: int
) -> None:
    expected = (b"", section) if key is None else (section[: key[0]], key[1])
    assert (expected, body_bytes) == key_of(section)


@pytest.mark.parametrize(
    ("section", "body_bytes"),
    [
        *((b"Content-Length: %d\r\nA: b\r\n\r\n" % each, each) for each in (123456, 10**18 - 1)),
        *((b"Content-Length: %b\r\nA: b\r\n\r\n" % each, -1) for each in (b"0", b"07", b"", b"+7")),
        (b"Content-Length: " + b"9" * 19 + b"\r\nA: b\r\n\r\n", -1),
        *((each, -1) for each in (b"Content-Length: 7", b"Content-Length: 7\r\n\r\n")),
        (b"Content-Length: 7\r\nC: d\r\nA: b\r\n\r\n", -1),
        (b"content-length: 7\r\nA: b\r\n\r\n", -1),
    ],
)
def test_a_section_differs_in_the_digits_alone(section: bytes, body_bytes: int) -> None:
    fields = RequestFields(HTTP_1_1)
    fields.framing, fields.body_bytes, fields.has_one_length = SIZED, 5, True
    block = HeaderBlock(fields, key_of(b"Content-Length: 5\r\nA: b\r\n\r\n")[0])
    line = b"PUT / HTTP/1.1\r\n"
    end = len(line + section) if body_bytes >= 0 else 0
    for data in (line + section, line + section + line, bytearray(line + section)):
        assert (end, max(0, body_bytes)) == block.match(data, len(line))


# Heads that are known in part.

OWN = ("method", "target", "is_head", "body_bytes", "framing", "is_http_10")
OTHERS = ("keep_alive", "expects_continue", "upgrade")


@pytest.fixture(name="context", scope="module")
def shared_context() -> Context:
    limits = DownstreamSettings(max_header_fields=4, max_target_bytes=64)
    with Bench(downstream=limits) as bench:
        return bench.context


def new_reader(context: Context) -> HeadReader:
    context.client_kinds.forget()
    return HeadReader(ClusterRouter(context))


def outcome(reader: HeadReader, head: bytes) -> object:
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
    monkeypatch.setattr(request_module, "MAX_BLOCKS", 4)
    reader = new_reader(context)
    kind, counts = context.client_kinds.kind_of(""), []
    for i in range(9):
        for _ in range(2):
            outcome(reader, b"GET / HTTP/1.1\r\nHost: h%d\r\n\r\n" % i)
            outcome(reader, b"GET / HTTP/1.1\r\nHost: %b\r\n\r\n" % (b"h" * MAX_BLOCK_BYTES))
        counts.append(len(kind.blocks.values))

    assert [1, 2, 3, 4, 3, 4, 3, 4, 3] == counts


def ask(bench: Bench, client: FakeTransport, head: bytes, times: int) -> list[Request]:
    found = []
    for _ in range(times):
        bench.send(client, head)
        exchange = connection_of(client).exchange
        assert exchange is not None
        found.append(exchange.request)
        bench.send(bench.upstreams[0], OK)
        assert b"200" == status(client.take())
    return found


def test_what_a_connection_is_known_by_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
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

ENTRIES = 40

UPGRADE = b"Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Protocol: "
FIELDS: dict[str, Callable[[int], bytes]] = {
    "small": lambda n: b"B: %06d\r\n" % n,
    "long": lambda n: b"A: %06d%b\r\n" % (n, b"a" * 1900),
    "sized": lambda n: b"Content-Length: 9\r\nA: %06d%b\r\n" % (n, b"a" * 1000),
    "token": lambda n: b"Authorization: Bearer %06d%b\r\n" % (n, b"a" * 1900),
    "groups": lambda n: b"Impersonate-User: %06d\r\n" % n + b"Impersonate-Group: aa\r\n" * 85,
    "extra": lambda n: (
        b"X-Remote-User: %06d\r\n" % n
        + b"".join(b"X-Remote-Extra-%03d: a\r\n" % key for key in range(85))
    ),
    "naming": lambda n: (
        b"X-API-Key: %06d%b\r\n" % (n, b"k" * 600)
        + b"Authorization: Basic %b\r\n" % b64encode(b"%06d:%b" % (n, b"p" * 500))
        + b"X-Client-Id: %06d%b\r\nX-Forwarded-For: 192.0.2.7\r\n" % (n, b"a" * 240)
    ),
    "subprotocols": lambda n: b"B: %06d\r\n" % n + UPGRADE + b"aa," * 600 + b"\r\n",
}


def head_of(kind: str, number: int) -> bytes:
    return b"GET / HTTP/1.1\r\nHost: a\r\n%b\r\n" % FIELDS[kind](number)


@pytest.mark.parametrize("kind", FIELDS)
def test_what_is_kept_takes_no_more_than_is_said(kind: str) -> None:
    trusted = (ipaddress.ip_network(TRUSTED),)
    with Bench(
        downstream=DownstreamSettings(identity_headers_from=trusted), authentication=NAMING
    ) as bench:
        heads = [head_of(kind, number) for number in range(ENTRIES)]
        assert max(map(len, heads)) <= MAX_BLOCK_BYTES
        read(bench, head_of(kind, ENTRIES), address=TRUSTED)
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
    return BoundedCache(bound, room, lambda _, size: size)


@pytest.mark.parametrize(
    ("room", "bound", "offers", "values", "taken"),
    [
        (ROOMY, 4, "a1 b2 a3", {"a": 3}, 3 + MARK_BYTES),
        (ROOMY, 3, "a1 a1 b2 b2 c3 c3 d4 d4", {"c": 3, "d": 4}, 7),
        (ROOMY, 2, "a0 b0 c0 d0 e0 a0", {}, 2 * MARK_BYTES),
        (ROOMY, 9, "a1 a10 a1 a20", {"a": 20}, 20),
        (100, 9, "a1000 a1000 b1000 b1000", {}, 0),
    ],
)
def test_what_a_collection_keeps(
    room: int, bound: int, offers: str, values: dict[str, int], taken: int
) -> None:
    budget = MemoryBudget(room)
    kept = kept_in(budget, bound)
    for offer in offers.split():
        kept.offer(offer[0], int(offer[1:]))
    assert (values, taken) == (kept.values, budget.taken)
    assert list(values) == list(kept.values)
    del kept

    assert 0 == budget.taken


def test_collections_share_their_room() -> None:
    room = MemoryBudget(700)
    one, other = kept_in(room), kept_in(room)
    for kept, keys in ((one, "aabbx"), (other, "ccdd")):
        for key in keys:
            kept.offer(key, 150)

    assert (["b"], ["d"]) == (list(one.values), list(other.values))
    assert 300 == room.taken
