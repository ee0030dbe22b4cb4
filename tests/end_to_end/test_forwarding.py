"""Heads as the upstream and the client get them."""

from __future__ import annotations

from tests.end_to_end.http2_peer import HTTP1, HTTP2
from tests.end_to_end.scene import GET, NARROW, OK, Setup, on_uvloop, over_both_protocols, running

FLOW_SCHEMA_UID = b"x-kubernetes-pf-flowschema-uid"
PRIORITY_LEVEL_UID = b"x-kubernetes-pf-prioritylevel-uid"
REQUEST = (
    b"GET /%2e%2E/%2f//a/../b?a=1&b=%zz&c=%0d%0aX-Remote-User:%20root&&;d HTTP/1.1\r\n"
    b"Host: a.test\r\nX-B: 1\r\nx-a:  two words \r\nX-B: 3\r\nAuthorization: Bearer z\r\n"
    b"X_Remote_User: root\r\nX-Forwarded-For: 1.2.3.4\r\nX-Forwarded-For: 5.6.7.8\r\n"
    b"Via: 1.0 other\r\nX-Forwarded-Proto: https\r\n%b\r\n"
)
HOP_BY_HOP = (
    b"Connection: X-Hop, keep-alive\r\nConnection: x-other\r\nX-Hop: 1\r\nX-OTHER: 2\r\n"
    b"Keep-Alive: timeout=5\r\nProxy-Connection: keep-alive\r\nTE: trailers\r\nTrailer: X-Sum\r\n"
    b"Proxy-Authorization: Basic eDp5\r\n"
)
RESPONSE = (
    b"HTTP/1.1 200 Fine\r\nConnection: X-Hop, keep-alive\r\nX-Hop: 1\r\nKeep-Alive: 5\r\n"
    b"Upgrade: h2c\r\nProxy-Authenticate: Basic\r\nSet-Cookie: a\r\nX-B: 1\r\nSet-Cookie: b\r\n"
    b"Via: 1.1 theirs\r\nX-Kubernetes-PF-FlowSchema-UID: theirs\r\nContent-Length: 0\r\n\r\n"
)


@on_uvloop
async def test_heads(protocol: str) -> None:
    """Fields for the other side pass; those of one connection and forged ones end here."""
    version = {HTTP1: b"1.1", HTTP2: b"2.0"}[protocol]
    own = HOP_BY_HOP if protocol == HTTP1 else b""  # HTTP/2 forbids them
    async with running() as scene:
        got, answer = await scene.exchange(REQUEST.replace(b"%b", own), RESPONSE)

    assert REQUEST.partition(b"\r\n")[0] == got.line
    assert sorted(got.fields) == sorted([
        (b"host", b"a.test"),
        (b"x-b", b"1"),
        (b"x-a", b"two words"),
        (b"x-b", b"3"),
        (b"authorization", b"Bearer z"),
        (b"via", b"1.0 other"),
        (b"via", version + b" apfproxy"),
        (b"x-forwarded-for", b"1.2.3.4, 5.6.7.8, 127.0.0.1"),
        (b"x-forwarded-proto", b"http"),
    ])  # fmt: skip
    assert [b"1", b"3"] == got.values(b"x-b")
    assert b"200" == answer.line.split()[1]
    assert [b"a", b"b"] == answer.values(b"set-cookie")
    assert [b"1.1 theirs", b"1.1 apfproxy"] == answer.values(b"via")
    own_fields = {b"date", b"via", FLOW_SCHEMA_UID, PRIORITY_LEVEL_UID}
    assert {b"set-cookie", b"x-b", b"content-length", *own_fields} == {n for n, _ in answer.fields}
    assert b"theirs" != answer.value(FLOW_SCHEMA_UID)


@over_both_protocols
@on_uvloop
async def test_every_answer_names_its_class() -> None:
    """The headers are on responses of the upstream and on 502 and 429 of the proxy."""
    objects = NARROW.replace("queueLengthLimit: 2", "queueLengthLimit: 1")
    async with running(Setup(objects=objects, seats=1)) as scene:
        answers = [(await scene.exchange(GET))[1]]
        hold = await scene.take_seat(GET.replace(b"GET", b"POST"))
        waiting = await scene.ask(GET)
        rejected = await scene.ask(GET)
        answers.append(await rejected.read_answer())
        hold.arrival.peer.close()
        answers.append(await hold.client.read_answer())
        arrival = await scene.upstream.next_request()
        await arrival.peer.send(OK)
        answers.append(await waiting.read_answer())

    assert [200, 429, 502, 200] == [answer.status for answer in answers]
    assert {(b"00000000-0000-0000-0000-00000000bbbb", b"00000000-0000-0000-0000-00000000aaaa")} == {
        (a.value(FLOW_SCHEMA_UID), a.value(PRIORITY_LEVEL_UID)) for a in answers
    }
