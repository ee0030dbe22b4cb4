"""Which upgrades are honoured, what must be in them, and which answers agree to them."""

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
        pytest.param([b"websocket"], (b"websocket",), id="websocket"),
        pytest.param([b"WebSocket"], (b"WebSocket",), id="in-any-case"),
        pytest.param([b"spdy/3.1"], (b"spdy/3.1",), id="spdy"),
        pytest.param([b"websocket, h2c"], (b"websocket",), id="not-h2c"),
        pytest.param([b"SPDY/3.1 ,, websocket"], (b"SPDY/3.1", b"websocket"), id="both"),
        pytest.param([b"SPDY/3.1", b"websocket"], (b"SPDY/3.1", b"websocket"), id="in-two-lines"),
        pytest.param([b"h2c"], None, id="h2c"),
        pytest.param([b"SPDY/3"], None, id="another-version"),
        pytest.param([b"websocket/13"], None, id="a-version-of-websocket"),
        pytest.param([b""], None, id="empty"),
        pytest.param([], None, id="none"),
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


def test_an_offer_shows_no_token() -> None:
    offer = Offer((b"websocket",), (KEY,), (b"13",), (BEARER_PREFIX + b"c2VjcmV0",))

    assert "c2VjcmV0" not in repr(offer)


@pytest.mark.parametrize(
    ("offer", "method", "target", "protocols"),
    [
        pytest.param(WEBSOCKET, "GET", POD + b"/exec", (b"websocket",), id="exec"),
        pytest.param(WEBSOCKET, "GET", POD + b"/attach", (b"websocket",), id="attach"),
        pytest.param(WEBSOCKET, "GET", POD + b"/portforward", (b"websocket",), id="portforward"),
        pytest.param(WEBSOCKET, "GET", POD + b"/proxy/x", (b"websocket",), id="proxy"),
        pytest.param(WEBSOCKET, "GET", POD + b"/log?follow=1", (b"websocket",), id="log"),
        pytest.param(WEBSOCKET, "GET", WATCH, (b"websocket",), id="watch"),
        pytest.param(WEBSOCKET, "GET", b"/api/v1/watch/pods", (b"websocket",), id="old-watch"),
        pytest.param(WEBSOCKET, "GET", b"/api/v1/proxy/nodes/n", (b"websocket",), id="old-proxy"),
        pytest.param(SPDY, "POST", POD + b"/exec", (b"SPDY/3.1",), id="spdy"),
        pytest.param(SPDY, "GET", POD + b"/portforward", (b"SPDY/3.1",), id="spdy-by-get"),
        pytest.param(BOTH, "GET", POD + b"/exec", (b"WebSocket", b"SPDY/3.1"), id="both"),
        pytest.param(BOTH, "GET", WATCH, (b"WebSocket",), id="no-spdy-for-a-watch"),
        pytest.param(SPDY, "GET", WATCH, None, id="spdy-watch"),
        pytest.param(SPDY, "GET", POD + b"/log", None, id="spdy-log"),
        pytest.param(SPDY, "HEAD", POD + b"/exec", None, id="head"),
        pytest.param(SPDY, "PUT", POD + b"/proxy", None, id="put"),
        pytest.param(WEBSOCKET, "GET", b"/api/v1/pods", None, id="list"),
        pytest.param(WEBSOCKET, "GET", POD, None, id="pod"),
        pytest.param(WEBSOCKET, "GET", b"/debug/pprof/profile", None, id="profile"),
        pytest.param(WEBSOCKET, "GET", b"/exec", None, id="no-resource"),
        pytest.param(WEBSOCKET, "GET", DEPLOYMENT, None, id="own-group"),
        pytest.param(WEBSOCKET, "GET", DEPLOYMENT + b"/shell", None, id="own-group-unknown"),
        pytest.param(WEBSOCKET, "GET", VM + b"/vnc", (b"websocket",), id="aggregated"),
        pytest.param(SPDY, "POST", VM + b"/portforward/80", (b"SPDY/3.1",), id="aggregated-spdy"),
        pytest.param(BOTH, "GET", VM + b"/log", BOTH.protocols, id="log-of-an-aggregated-server"),
        pytest.param(WEBSOCKET, "GET", VM, (b"websocket",), id="aggregated-resource"),
        pytest.param(SPDY, "PUT", VM + b"/pause", None, id="aggregated-put"),
        pytest.param(
            WEBSOCKET, "GET", b"/apis/metrics.k8s.io/v1/pods", (b"websocket",), id="also-aggregated"
        ),
        pytest.param(WEBSOCKET, "GET", b"/apis/a.example/v1", None, id="discovery"),
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


@pytest.mark.parametrize(
    ("target", "is_kept"),
    [
        pytest.param(b"/socket?a=b", True, id="allowed"),
        pytest.param(b"/socket/a", False, id="longer"),
        pytest.param(b"/sockets/a/b", True, id="below"),
        pytest.param(b"/sockets", False, id="only-below"),
        pytest.param(b"/socketsX", False, id="literal"),
        pytest.param(b"/api/v1/nodes/n/status", True, id="any-segments"),
        pytest.param(b"/api/v1/namespaces/a/pods/b/status", False, id="more-segments"),
        pytest.param(b"/sockets/../a", False, id="dots"),
        pytest.param(b"/sockets/%2e%2e/a", False, id="escaped-dots"),
        pytest.param(b"/sockets/secret", False, id="allowed-and-denied"),
        pytest.param(POD + b"/exec", False, id="denied"),
        pytest.param(POD + b"/attach", True, id="not-denied"),
        pytest.param(b"/apis/metrics.k8s.io/v1/pods", False, id="denied-group"),
        pytest.param(VM + b"/vnc", True, id="another-group"),
        pytest.param(VM + b"/./vnc", False, id="perhaps-denied"),
        pytest.param(b"//apis/metrics.k8s.io/v1/pods", False, id="denied-with-slashes"),
        pytest.param(POD + b"/exec/", False, id="denied-with-a-slash-at-the-end"),
        pytest.param(b"/sockets//secret", False, id="denied-though-allowed"),
        pytest.param(b"/sockets//a/", True, id="allowed-with-slashes"),
    ],
)
def test_settings_allow_and_deny_upgrades(target: bytes, *, is_kept: bool) -> None:
    kept = honoured(WEBSOCKET, "GET", parse_attributes("GET", target), RULES)

    assert is_kept == (kept is not None)


@pytest.mark.parametrize(
    ("target", "is_kept"),
    [
        pytest.param(b"/c/x" + POD + b"/exec", False, id="denied"),
        pytest.param(b"/c/x" + POD + b"/attach", True, id="not-denied"),
        pytest.param(b"/c/x/apis/metrics.k8s.io/v1/pods", False, id="denied-group"),
        pytest.param(b"/c/x/api/v1/nodes/n/status", True, id="allowed"),
        pytest.param(b"/c/x/api/v1/nodes/n", False, id="not-allowed"),
        pytest.param(b"/c/x/socket", False, id="no-resource"),
        pytest.param(b"/c/secret/apis/a.example/v1/things", False, id="denied-as-a-whole"),
    ],
)
def test_rules_below_a_prefix(target: bytes, *, is_kept: bool) -> None:
    rules = UpgradeRules(
        ("/socket", "/api/v1/*/*/status"),
        ("/api/v1/namespaces/*/pods/*/exec", "/apis/metrics.k8s.io/*", "/c/secret/*"),
    )
    below = RequestRules(api_prefixes=["/c/{x}"], subresources=["exec", "attach"])
    kept = honoured(WEBSOCKET, "GET", parse_attributes("GET", target, below), rules)

    assert is_kept == (kept is not None)


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
        pytest.param(Offer((b"websocket",), (), (b"13",)), "GET", 400, id="no-key"),
        pytest.param(Offer((b"websocket",), (KEY, KEY), (b"13",)), "GET", 400, id="two-keys"),
        pytest.param(Offer((b"websocket",), (b"x",), (b"13",)), "GET", 400, id="no-16-bytes"),
        pytest.param(Offer((b"websocket",), (KEY,)), "GET", 400, id="no-version"),
        pytest.param(Offer((b"websocket",), (KEY,), (b"13", b"8")), "GET", 400, id="two-versions"),
        pytest.param(Offer((b"websocket",), (KEY,), (b"8",)), "GET", 426, id="another-version"),
        pytest.param(WEBSOCKET, "POST", 400, id="post"),
        pytest.param(WEBSOCKET, "HEAD", 400, id="head"),
        pytest.param(Offer((b"SPDY/3.1", b"websocket")), "GET", 400, id="beside-spdy"),
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
    ids=["websocket", "in-any-case", "one-of-two", "subprotocol"],
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
    ids=[
        *("unasked", "another", "spdy", "two-at-once", "none", "not-nominated", "1.0"),
        *("another-subprotocol", "two-subprotocols"),
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
        pytest.param([token_of(b"a")], id="alone"),
        pytest.param([token_of(b"a"), token_of(b"b"), b"v5"], id="twice"),
        pytest.param([BEARER_PREFIX + b"YQ==", b"v5"], id="padded"),
        pytest.param([BEARER_PREFIX + b"a", b"v5"], id="no-base64"),
        pytest.param([BEARER_PREFIX + b"a+/b", b"v5"], id="not-for-urls"),
        pytest.param([token_of(b"\xff"), b"v5"], id="not-utf-8"),
    ],
)
def test_malformed_bearer_tokens(listed: list[bytes]) -> None:
    with pytest.raises(HeadError) as caught:
        bearer_token(listed)

    assert 401 == caught.value.code
    assert BEARER_PREFIX.decode() not in str(caught.value)
