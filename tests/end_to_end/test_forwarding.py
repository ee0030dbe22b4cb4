"""What the proxy changes in a head, and what it must not."""

from __future__ import annotations

import pytest

from apfproxy.objects.decode import bootstrap_objects
from apfproxy.objects.types import kind_of, stable_uid
from tests.end_to_end.http2_peer import HTTP1, HTTP2
from tests.end_to_end.scene import (
    NARROW,
    OK,
    TRUSTED,
    Setup,
    on_uvloop,
    over_both_protocols,
    running,
)

FLOW_SCHEMA_UID = b"x-kubernetes-pf-flowschema-uid"
PRIORITY_LEVEL_UID = b"x-kubernetes-pf-prioritylevel-uid"


def request(*lines: bytes, method: bytes = b"GET", target: bytes = b"/x") -> bytes:
    """A request without a body."""
    return b"%b %b HTTP/1.1\r\nHost: a.test\r\n%b\r\n" % (
        method,
        target,
        b"".join(line + b"\r\n" for line in lines),
    )


@pytest.mark.parametrize(
    "target",
    [
        b"/",
        b"/%2e%2E/%2f//a/../b",
        b"/x?a=1&b=%zz&c=%0d%0aX-Remote-User:%20root&&;d",
        b"/x?q=a+b%20c\"<>[]{}|\\^`~!$'()*,:@",
        b"/" + b"y" * 8000,
        b"http://a.test/x?y=1",
    ],
)
@on_uvloop
async def test_the_target_is_forwarded_byte_for_byte(target: bytes) -> None:
    """The upstream gets the very target that the client sent."""
    async with running() as scene:
        got, _ = await scene.exchange(request(target=target))

        assert b"GET %b HTTP/1.1" % target == got.line


@on_uvloop
async def test_fields_are_forwarded() -> None:
    """Fields that concern client and upstream pass unchanged, in their order, repeated ones too."""
    lines = [b"X-B: 1", b"x-a:  two words ", b"X-B: 3", b"Cookie: a=b", b"Authorization: Bearer z"]
    async with running() as scene:
        got, answer = await scene.exchange(
            request(*lines),
            b"HTTP/1.1 200 Fine\r\nSet-Cookie: a\r\nX-B: 1\r\nSet-Cookie: b\r\n"
            b"Content-Length: 0\r\n\r\n",
        )

        assert [
            (b"host", b"a.test"),
            (b"x-b", b"1"),
            (b"x-a", b"two words"),
            (b"x-b", b"3"),
            (b"cookie", b"a=b"),
            (b"authorization", b"Bearer z"),
        ] == got.fields[:6]
        assert b"HTTP/1.1 200 Fine" == answer.line
        assert [b"a", b"b"] == answer.values(b"set-cookie")
        assert [b"1"] == answer.values(b"x-b")


@on_uvloop
async def test_hop_by_hop_fields_of_a_request() -> None:
    """Fields that concern one connection, and those that Connection nominates, end at the proxy."""
    async with running() as scene:
        got, _ = await scene.exchange(
            request(
                b"Connection: X-Hop, keep-alive",
                b"Connection: x-other",
                b"X-Hop: 1",
                b"X-OTHER: 2",
                b"Keep-Alive: timeout=5",
                b"Proxy-Connection: keep-alive",
                b"Proxy-Authorization: Basic eDp5",
                b"TE: trailers",
                b"Trailer: X-Sum",
                b"X-Stays: 3",
            )
        )

        assert {b"host", b"x-stays", b"via", b"x-forwarded-for", b"x-forwarded-proto"} == {
            name for name, _ in got.fields
        }


@over_both_protocols
@on_uvloop
async def test_hop_by_hop_fields_of_an_answer() -> None:
    """The same of an answer, and the flow control of the upstream gives way to the proxy's."""
    async with running() as scene:
        _, answer = await scene.exchange(
            request(),
            b"HTTP/1.1 200 OK\r\nConnection: X-Hop, keep-alive\r\nX-Hop: 1\r\nKeep-Alive: 5\r\n"
            b"Upgrade: h2c\r\nProxy-Authenticate: Basic\r\nX-Stays: 3\r\n"
            b"X-Kubernetes-PF-FlowSchema-UID: theirs\r\nContent-Length: 0\r\n\r\n",
        )

        assert {
            b"x-stays",
            b"content-length",
            b"date",
            b"via",
            FLOW_SCHEMA_UID,
            PRIORITY_LEVEL_UID,
        } == {name for name, _ in answer.fields}
        assert b"theirs" != answer.value(FLOW_SCHEMA_UID)


@on_uvloop
async def test_who_forwarded(protocol: str) -> None:
    """Via is added both ways; X-Forwarded-For gets the client's address behind earlier ones."""
    async with running() as scene:
        got, answer = await scene.exchange(
            request(b"X-Forwarded-For: 1.2.3.4", b"X-Forwarded-For: 5.6.7.8", b"Via: 1.0 other"),
            b"HTTP/1.1 200 OK\r\nVia: 1.1 theirs\r\nContent-Length: 0\r\n\r\n",
        )

        assert b"1.2.3.4, 5.6.7.8, 127.0.0.1" == got.value(b"x-forwarded-for")
        version = {HTTP1: b"1.1", HTTP2: b"2.0"}[protocol]
        assert [b"1.0 other", version + b" apfproxy"] == got.values(b"via")
        assert [b"1.1 theirs", b"1.1 apfproxy"] == answer.values(b"via")


@pytest.mark.parametrize(
    ("source", "expected"), [("127.0.0.1", b"http"), (TRUSTED, b"https")], ids=["any", "trusted"]
)
@over_both_protocols
@on_uvloop
async def test_the_scheme(source: str, expected: bytes) -> None:
    """X-Forwarded-Proto says how the client came, and only a trusted one may say it itself."""
    async with running() as scene:
        got, _ = await scene.exchange(request(b"X-Forwarded-Proto: https"), source=source)

        assert expected == got.value(b"x-forwarded-proto")


SPELLINGS = [
    b"X-Remote-User",
    b"x-remote-user",
    b"X_Remote_User",
    b"X-Remote_User",
    b"X.Remote.User",
    b"X-REMOTE-GROUP",
    b"X_REMOTE_GROUP",
    b"X-Remote-Uid",
    b"X-Remote-Extra-Scopes",
    b"X_Remote_Extra_Scopes",
    b"X-Remote-Extra.Scopes",
]


@pytest.mark.parametrize("name", SPELLINGS)
@over_both_protocols
@on_uvloop
async def test_nobody_makes_up_an_identity(name: bytes) -> None:
    """No spelling of an identity header passes from a client that is not trusted with them."""
    async with running(Setup(objects=BY_USER)) as scene:
        got, answer = await scene.exchange(request(b"%b: alice" % name))

        assert [] == [value for _, value in got.fields if value == b"alice"]
        assert UNKNOWN == answer.value(FLOW_SCHEMA_UID)


@over_both_protocols
@on_uvloop
async def test_a_trusted_client_says_who_asks() -> None:
    """Its identity headers decide the class and go on to the upstream; odd spellings do not."""
    lines = [
        b"X-Remote-User: alice",
        b"X-Remote-Group: dev",
        b"x-remote-group: ops",
        b"X-Remote-Extra-Scopes: a%2Fb",
    ]
    async with running(Setup(objects=BY_USER)) as scene:
        got, answer = await scene.exchange(
            request(*lines, b"X_Remote_User: root", b"X.Remote-Group: system:masters"),
            source=TRUSTED,
        )
        found = [(name, value) for name, value in got.fields if b"remote" in name]

        assert [
            (b"x-remote-user", b"alice"),
            (b"x-remote-group", b"dev"),
            (b"x-remote-group", b"ops"),
            (b"x-remote-extra-scopes", b"a%2Fb"),
        ] == found
        assert ALICE == answer.value(FLOW_SCHEMA_UID)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param([b"X-Remote-User: bob"], "AUTHENTICATED", id="authenticated"),
        pytest.param([], "UNKNOWN", id="anonymous"),
        pytest.param([b"X-Remote-Group: dev"], "UNKNOWN", id="a-group-without-a-user"),
    ],
)
@over_both_protocols
@on_uvloop
async def test_groups_of_a_trusted_client(lines: list[bytes], expected: str) -> None:
    """Who is named is authenticated, who is not is anonymous, also from a trusted address."""
    async with running(Setup(objects=BY_USER)) as scene:
        _, answer = await scene.exchange(request(*lines), source=TRUSTED)

        assert {"AUTHENTICATED": AUTHENTICATED, "UNKNOWN": UNKNOWN}[expected] == answer.value(
            FLOW_SCHEMA_UID
        )


@over_both_protocols
@on_uvloop
async def test_a_nominated_identity_is_refused() -> None:
    """A client behind a front proxy could otherwise have a part of its identity taken out."""
    async with running(Setup(objects=BY_USER)) as scene:
        client = await scene.ask(
            request(b"Connection: X-Remote-User", b"X-Remote-User: alice"), source=TRUSTED
        )
        answer = await client.read_answer()

        assert 400 == answer.status


def schema(name: str, precedence: int, subject: str) -> str:
    """A FlowSchema of one kind of client, with a uid that ends in its precedence."""
    return (
        NARROW[NARROW.index("---") :]
        .replace("everybody", name)
        .replace("00000000bbbb", f"{precedence:012}")
        .replace("matchingPrecedence: 100", f"matchingPrecedence: {precedence}")
        .replace(
            '    - {kind: Group, group: {name: "system:unauthenticated"}}\n'
            '    - {kind: Group, group: {name: "system:authenticated"}}',
            f"    - {subject}",
        )
    )


BY_USER = (
    NARROW[: NARROW.index("---")]
    + schema("alice", 11, "{kind: User, user: {name: alice}}")
    + schema("authenticated", 12, '{kind: Group, group: {name: "system:authenticated"}}')
    + schema("unknown", 13, '{kind: Group, group: {name: "system:unauthenticated"}}')
)
ALICE, AUTHENTICATED, UNKNOWN = (
    b"00000000-0000-0000-0000-%012d" % number for number in (11, 12, 13)
)


@on_uvloop
async def test_stable_uids() -> None:
    """An object without a uid has one made from its kind and name, the same in every process."""
    found = set()
    for _ in range(2):
        async with running() as scene:
            _, answer = await scene.exchange(request(target=b"/healthz"))
            found.add((answer.value(FLOW_SCHEMA_UID), answer.value(PRIORITY_LEVEL_UID)))
    uids = {
        (kind_of(each), each.metadata.name): stable_uid(each).encode()
        for each in bootstrap_objects()
    }

    assert {(uids["FlowSchema", "probes"], uids["PriorityLevelConfiguration", "exempt"])} == found


@over_both_protocols
@on_uvloop
async def test_every_answer_names_its_class() -> None:
    """The headers are on answers of the upstream and on 502 and 429 of the proxy."""
    async with running(
        Setup(objects=NARROW.replace("queueLengthLimit: 2", "queueLengthLimit: 1"), seats=1)
    ) as scene:
        answers = [(await scene.exchange(request()))[1]]
        hold = await scene.take_seat(request(method=b"POST"))
        waiting = await scene.ask(request())
        rejected = await scene.ask(request())
        answers.append(await rejected.read_answer())
        hold.arrival.peer.close()
        answers.append(await hold.client.read_answer())
        arrival = await scene.upstream.next_request()
        await arrival.peer.send(OK)
        answers.append(await waiting.read_answer())

        assert [200, 429, 502, 200] == [answer.status for answer in answers]
        assert {
            (b"00000000-0000-0000-0000-00000000bbbb", b"00000000-0000-0000-0000-00000000aaaa")
        } == {(a.value(FLOW_SCHEMA_UID), a.value(PRIORITY_LEVEL_UID)) for a in answers}
