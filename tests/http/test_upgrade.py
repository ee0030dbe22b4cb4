"""Which upgrades are honoured, which responses agree to them; frames of WebSockets."""

from __future__ import annotations

import contextlib
import re
from base64 import urlsafe_b64encode

import pytest

from apfproxy.http.grammar import HeadError
from apfproxy.http.response_head import ResponseError
from apfproxy.http.upgrade import (
    BEARER_PREFIX,
    Offer,
    UpgradeRules,
    bearer_token,
    check_accept,
    check_declined,
    honoured,
    offered,
    switch_lines,
    switched,
    without_bearer,
)
from apfproxy.http.websocket_frames import GOING_AWAY, FramePosition
from apfproxy.request.attributes import parse_attributes, plain_attributes
from apfproxy.request.rules import RequestRules

KEY = b"dGhlIHNhbXBsZSBub25jZQ=="
POD = b"/api/v1/namespaces/a/pods/b"
WATCH = b"/api/v1/pods?watch=1"
VM = b"/apis/subresources.kubevirt.io/v1/namespaces/a/virtualmachineinstances/vm"
DEPLOYMENT = b"/apis/apps/v1/namespaces/a/deployments/d"
WEBSOCKET = Offer((b"websocket",), (KEY,), (b"13",), (b"v5.channel.k8s.io", b"v4.channel.k8s.io"))
SPDY = Offer((b"SPDY/3.1",))
BOTH = Offer((b"WebSocket", b"SPDY/3.1"), (KEY,), (b"13",))


@pytest.mark.parametrize(
    ("upgrades", "protocols"),
    [
        *(([each], (each,)) for each in (b"websocket", b"WebSocket", b"spdy/3.1")),
        ([b"websocket, h2c"], (b"websocket",)),
        ([b"SPDY/3.1 ,, websocket"], (b"SPDY/3.1", b"websocket")),
        ([b"SPDY/3.1", b"websocket"], (b"SPDY/3.1", b"websocket")),
        *(([each], None) for each in (b"h2c", b"SPDY/3", b"websocket/13", b"")),
        ([], None),
    ],
)
def test_offered(upgrades: list[bytes], protocols: tuple[bytes, ...] | None) -> None:
    offer = offered(upgrades, [], set())

    assert protocols == (offer.protocols if offer is not None else None)


def test_offer_has_all_lines_but_those_that_connection_names() -> None:
    fields = [
        (b"Sec-WebSocket-Key", KEY),
        (b"sec-websocket-version", b"13"),
        (b"Sec-WebSocket-Protocol", b"a, b"),
        (b"Sec-WebSocket-Protocol", b"c,"),
    ]
    offer = offered([b"websocket"], fields, set())
    without_key = offered([b"websocket"], fields, {b"sec-websocket-key"})

    assert Offer((b"websocket",), (KEY,), (b"13",), (b"a", b"b", b"c")) == offer
    assert without_key is not None
    assert () == without_key.keys
    assert b"Connection: Upgrade\r\nUpgrade: WebSocket, SPDY/3.1\r\n" == BOTH.lines


@pytest.mark.parametrize(
    ("offer", "method", "target", "protocols"),
    [
        *(
            (WEBSOCKET, "GET", target, (b"websocket",))
            for target in (
                *(
                    POD + each
                    for each in b"/exec /attach /portforward /proxy/x /log?follow=1".split()
                ),
                *(WATCH, b"/api/v1/watch/pods", b"/api/v1/proxy/nodes/n", VM + b"/vnc", VM),
                b"/apis/metrics.k8s.io/v1/pods",
            )
        ),
        *(
            (WEBSOCKET, "GET", target, None)
            for target in (
                *(b"/api/v1/pods", POD, b"/debug/pprof/profile", b"/exec", b"/apis/a.example/v1"),
                *(DEPLOYMENT, DEPLOYMENT + b"/shell"),
            )
        ),
        (SPDY, "POST", POD + b"/exec", (b"SPDY/3.1",)),
        (SPDY, "GET", POD + b"/portforward", (b"SPDY/3.1",)),
        (SPDY, "POST", VM + b"/portforward/80", (b"SPDY/3.1",)),
        (BOTH, "GET", POD + b"/exec", (b"WebSocket", b"SPDY/3.1")),
        (BOTH, "GET", WATCH, (b"WebSocket",)),
        (BOTH, "GET", VM + b"/log", BOTH.protocols),
        *((SPDY, "GET", target, None) for target in (WATCH, POD + b"/log")),
        (SPDY, "HEAD", POD + b"/exec", None),
        *((SPDY, "PUT", target, None) for target in (POD + b"/proxy", VM + b"/pause")),
    ],
)
def test_where_upgrades_are_honoured(
    offer: Offer, method: str, target: bytes, protocols: tuple[bytes, ...] | None
) -> None:
    kept = honoured(offer, method, parse_attributes(method, target))

    assert protocols == (kept.protocols if kept is not None else None)


RULES = UpgradeRules(
    ("/socket", "/sockets/*", "/api/v1/*/*/status"),
    ("/api/v1/namespaces/*/pods/*/exec", "/apis/metrics.k8s.io/*", "/sockets/secret", "/chat/*"),
)


BELOW = RequestRules(api_prefixes=["/c/{x}"], subresources=["exec", "attach"])
RULES_BELOW = UpgradeRules(
    ("/socket", "/api/v1/*/*/status"),
    ("/api/v1/namespaces/*/pods/*/exec", "/apis/metrics.k8s.io/*", "/c/secret/*"),
)


@pytest.mark.parametrize(
    ("targets", "is_kept"),
    [
        (b"/socket?a=b /sockets/a/b /api/v1/nodes/n/status /sockets//a/", True),
        (POD + b"/attach " + VM + b"/vnc", True),
        (b"/socket/a /sockets /socketsX /sockets/../a /sockets/%2e%2e/a /sockets//secret", False),
        (b"/api/v1/namespaces/a/pods/b/status /sockets/secret", False),
        (b"/apis/metrics.k8s.io/v1/pods //apis/metrics.k8s.io/v1/pods", False),
        (b" ".join((POD + b"/exec", POD + b"/exec/", VM + b"/./vnc")), False),
    ],
)
def test_settings_allow_and_deny_upgrades(targets: bytes, *, is_kept: bool) -> None:
    for target in targets.split():
        kept = honoured(WEBSOCKET, "GET", parse_attributes("GET", target), RULES)
        assert is_kept == (kept is not None), target


@pytest.mark.parametrize(
    ("targets", "is_kept"),
    [
        (b"/c/x" + POD + b"/attach /c/x/api/v1/nodes/n/status", True),
        (b"/c/x" + POD + b"/exec /c/x/apis/metrics.k8s.io/v1/pods /c/x/api/v1/nodes/n", False),
        (b"/c/x/socket /c/secret/apis/a.example/v1/things", False),
    ],
)
def test_rules_below_a_prefix(targets: bytes, *, is_kept: bool) -> None:
    for target in targets.split():
        attributes = parse_attributes("GET", target, BELOW)
        kept = honoured(WEBSOCKET, "GET", attributes, RULES_BELOW)
        assert is_kept == (kept is not None), target


@pytest.mark.parametrize(
    ("target", "is_kept"),
    [(b"/a/../chat", False), (b"/chat/a", False), (b"/chat", True), (POD + b"/exec", False)],
)
def test_rules_of_other_apis(target: bytes, *, is_kept: bool) -> None:
    attributes = plain_attributes("GET", target)
    assert honoured(BOTH, "GET", attributes) is not None
    kept = honoured(BOTH, "GET", attributes, RULES)

    assert is_kept == (kept is not None)
    assert kept is None or kept.protocols == (b"WebSocket",)


@pytest.mark.parametrize(
    ("offer", "method", "code"),
    [
        (Offer((b"websocket",), (), (b"13",)), "GET", 400),
        (Offer((b"websocket",), (KEY, KEY), (b"13",)), "GET", 400),
        (Offer((b"websocket",), (b"x",), (b"13",)), "GET", 400),
        (Offer((b"websocket",), (KEY,)), "GET", 400),
        (Offer((b"websocket",), (KEY,), (b"13", b"8")), "GET", 400),
        (Offer((b"websocket",), (KEY,), (b"8",)), "GET", 426),
        *((WEBSOCKET, method, 400) for method in ("POST", "HEAD")),
        (Offer((b"SPDY/3.1", b"websocket")), "GET", 400),
    ],
)
def test_malformed_handshakes(offer: Offer, method: str, code: int) -> None:
    with pytest.raises(HeadError) as caught:
        honoured(offer, method, parse_attributes(method, POD + b"/exec"))

    assert code == caught.value.code
    assert (code == 426) == (b"Sec-WebSocket-Version: 13\r\n" in caught.value.lines)


def answer(*lines: bytes, version: bytes = b"HTTP/1.1") -> bytes:
    return b"\r\n".join((version + b" 101 Switching Protocols", *lines, b"", b""))


AGREED = (b"Connection: Upgrade", b"Upgrade: websocket")


@pytest.mark.parametrize(
    ("lines", "offer", "protocol"),
    [
        (AGREED, WEBSOCKET, b"websocket"),
        ((b"connection: keep-alive, upgrade", b"upgrade:WEBSOCKET "), WEBSOCKET, b"WEBSOCKET"),
        ((AGREED[0], b"Upgrade: SPDY/3.1"), BOTH, b"SPDY/3.1"),
        ((*AGREED, b"Sec-WebSocket-Protocol: v4.channel.k8s.io"), WEBSOCKET, b"websocket"),
    ],
)
def test_switched(lines: tuple[bytes, ...], offer: Offer, protocol: bytes) -> None:
    assert protocol == switched(answer(*lines), offer)


@pytest.mark.parametrize(
    ("head", "offer", "reason"),
    [
        (answer(*AGREED), None, "an unexpected answer 101"),
        (answer(AGREED[0], b"Upgrade: h2c"), WEBSOCKET, "a protocol"),
        (answer(AGREED[0], b"Upgrade: SPDY/3.1"), WEBSOCKET, "a protocol"),
        (answer(AGREED[0], b"Upgrade: websocket, h2c"), WEBSOCKET, "a protocol"),
        (answer(AGREED[0]), WEBSOCKET, "a protocol"),
        (answer(AGREED[1]), WEBSOCKET, "does not"),
        (answer(*AGREED, version=b"HTTP/1.0"), WEBSOCKET, "does not"),
        *(
            (answer(*AGREED, b"Sec-WebSocket-Protocol: " + each), WEBSOCKET, "a WebSocket sub")
            for each in (b"evil.io", b"v4.channel.k8s.io, v5.channel.k8s.io")
        ),
    ],
)
def test_switch_that_was_not_asked_for_is_refused(
    head: bytes, offer: Offer | None, reason: str
) -> None:
    with pytest.raises(ResponseError, match=re.escape(reason)):
        switched(head, offer)


@pytest.mark.parametrize(
    ("lines", "is_believed"),
    [
        (b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n", True),
        (b"sec-websocket-accept:s3pPLMBiTxaQ9kYGzzhZRbK+xOo= \r\n", True),
        (b"Sec-WebSocket-Accept: S3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n", False),
        (b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n" * 2, False),
        (b"", False),
    ],
)
def test_proof_that_the_key_was_read(lines: bytes, *, is_believed: bool) -> None:
    offer = Offer((b"websocket",), keys=(b"dGhlIHNhbXBsZSBub25jZQ==",))
    head = b"HTTP/1.1 101 Switching Protocols\r\nA: b\r\n" + lines + b"\r\n"
    if is_believed:
        check_accept(head, offer)
    else:
        with pytest.raises(ResponseError, match="Sec-WebSocket-Accept is not"):
            check_accept(head, offer)


@pytest.mark.parametrize(
    ("status", "of_upgrade", "of_connect"),
    [(200, True, False), (204, True, False), (302, False, False), (403, True, True)],
)
def test_no_redirect_and_no_success_in_place_of_a_tunnel_is_passed_on(
    status: int, *, of_upgrade: bool, of_connect: bool
) -> None:
    for is_connect, is_passed in ((False, of_upgrade), (True, of_connect)):
        with contextlib.nullcontext() if is_passed else pytest.raises(ResponseError):
            check_declined(status, is_connect=is_connect)


def test_switch_has_no_length() -> None:
    assert (
        b"HTTP/1.1 101 X\r\nA: b\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        == switch_lines(b"HTTP/1.1 101 X\r\nContent-Length: 5\r\nA: b\r\n", b"websocket")
    )


def token_of(token: bytes) -> bytes:
    return BEARER_PREFIX + urlsafe_b64encode(token).rstrip(b"=")


@pytest.mark.parametrize(
    "token", [b"user-a", b"a", b"ab", b"abc", b"\xc3\xbf\xef\xbf\xbf?>", b""], ids=repr
)
def test_bearer_token(token: bytes) -> None:
    for listed in ([token_of(token), b"v5"], [b"v5", token_of(token)]):
        assert token == bearer_token(listed)
        assert [b"v5"] == without_bearer(listed)
    assert b"" == bearer_token([b"v5", b"v4"]) == bearer_token([])


@pytest.mark.parametrize(
    "listed",
    [
        [token_of(b"a")],
        [token_of(b"a"), token_of(b"b"), b"v5"],
        *(
            [each, b"v5"]
            for each in (BEARER_PREFIX + b"YQ==", BEARER_PREFIX + b"a", token_of(b"\xff"))
        ),
        [BEARER_PREFIX + b"a+/b", b"v5"],
    ],
)
def test_malformed_bearer_tokens(listed: list[bytes]) -> None:
    with pytest.raises(HeadError) as caught:
        bearer_token(listed)

    assert 401 == caught.value.code
    assert BEARER_PREFIX.decode() not in str(caught.value)


FRAMES = [
    *(b"\x81\x00", b"\x81\x05hello", b"\x82\x7d" + b"x" * 125, b"\x02\x7e\x00\x7e" + b"x" * 126),
    *(b"\x80\x7f" + (300).to_bytes(8, "big") + b"x" * 300, b"\x81\xfe\x01\x00mask" + b"x" * 256),
    *(b"\x81\x82maskxx", b"\x8a\x80mask", b"\xc1\x01x", b"\x89\x03png"),
]
"""Lengths of all forms, masked and not, compressed, a ping."""


@pytest.mark.parametrize("frame", FRAMES, ids=range(len(FRAMES)))
@pytest.mark.parametrize("step", [1, 3, 1000])
def test_one_frame(frame: bytes, step: int) -> None:
    position = FramePosition()
    assert position.is_between
    for start in range(0, len(frame), step):
        part = frame[start : start + step]
        assert len(part) == position.feed(memoryview(part))
        assert position.is_between == (start + len(part) == len(frame))

    assert not position.has_closed


def test_many_frames_at_once() -> None:
    rest = b"".join(FRAMES)
    position = FramePosition()
    for data in (rest, b"\x81\x00" * 32768):
        assert len(data) == position.feed(data)
        assert position.is_between
    for frame in FRAMES:
        assert len(frame) == position.feed(rest, to_end=True)
        rest = rest[len(frame) :]

    assert 0 == position.feed(rest, to_end=True)


def test_close_frame() -> None:
    position = FramePosition()
    position.feed(GOING_AWAY[:1])
    assert not position.has_closed
    position.feed(GOING_AWAY[1:])

    assert (True, True) == (position.has_closed, position.is_between)
    assert b"\x88\x02\x03\xe9" == GOING_AWAY
