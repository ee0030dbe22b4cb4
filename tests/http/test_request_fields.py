"""The fields of a request, and lists in fields."""

from __future__ import annotations

import ipaddress
from functools import partial

import pytest

from apfproxy.base.address import address_from
from apfproxy.http.credential_fields import Credentials
from apfproxy.http.grammar import HeadError, accepted, elements, weight_of
from apfproxy.http.request_fields import (
    CHUNKED,
    MAX_HOPS,
    NO_BODY,
    RESERVED_NAMES,
    SIZED,
    VIA,
    FieldRules,
    RequestFields,
    forwarded_client,
    is_among,
    read_fields,
)
from apfproxy.http.request_head import RequestHead
from apfproxy.http.upgrade import BEARER_PREFIX, Offer
from apfproxy.objects.additions import DISTINGUISHER
from apfproxy.objects.types import FlowSchema, ObjectMeta
from apfproxy.request.attributes import User
from apfproxy.settings import AuthenticationSettings, FrontProxySettings

NAMES = AuthenticationSettings(
    front_proxy=FrontProxySettings(username_headers=("X-My-User", "X-Remote-User"))
).credential_rules
rules_with = partial(FieldRules, NAMES, 100, 8000, b"upstream:80")
HOST = (b"Host", b"h")
SPDY, UPGRADE = (b"Upgrade", b"SPDY/3.1"), (b"Connection", b"Upgrade")
KEEP_ALIVE, EXPECT = (b"Connection", b"Keep-Alive"), (b"Expect", b"100-Continue")
END = b"X-Forwarded-Proto: http\r\n" + VIA + b"X-Forwarded-For: "
PROXIES = (ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("fd00::/8"))
Lines = list[tuple[bytes, bytes]]


def read(*lines: tuple[bytes, bytes], host: bytes = b"", is_http_10: bool = False) -> RequestFields:
    return read_fields(list(lines), rules_with(host=host), is_http_10=is_http_10)


def read_trusted(*lines: tuple[bytes, bytes]) -> RequestFields:
    rules = rules_with(believes_claims=True, believes_forwarding=True)
    return read_fields([HOST, *lines], rules, is_http_10=False)


def named(names: bytes) -> Lines:
    return [(name, b"x") for name in names.split()]


NOT_FORWARDED = [
    b"Keep-Alive Proxy-Authenticate Proxy-Authorization Proxy-Connection TE Trailer Upgrade",
    (
        b"X-Forwarded-Proto X-Forwarded-Host X-Forwarded-Uri X-Forwarded-Prefix Forwarded"
        b" X_Forwarded_Port X-Real-IP X-Original-URL X-Rewrite-URL X-Remote-User"
        b" x-remote-GROUP X-Remote-Uid X-Remote-Extra-Scopes"
    ),
    (
        b"X_Remote_User x.remote.group X-Remote_Uid x_remote-extra-a X_Remote_Extra_"
        b" Content_Length content.length Transfer_Encoding X_Forwarded_For X_Real_IP"
        b" Proxy_Authorization Keep_Alive x_my.user Impersonate_User Impersonate_Extra_a"
        b" Impersonate-Extra_a Sec_WebSocket_Protocol"
    ),
]


@pytest.mark.parametrize(
    ("lines", "forwarded"),
    [
        ([], b""),
        ([(b"A", b"b"), (b"a", b"")], b"A: b\r\na: \r\n"),
        ([(b"Authorization", b"x")], b"Authorization: x\r\n"),
        ([(b"Impersonate-User", b"x")], b"Impersonate-User: x\r\n"),
        (
            [(b"Connection", b"close, x-a ,X-B,,"), (b"X-A", b"1"), (b"x-b", b"2"), (b"C", b"3")],
            b"C: 3\r\n",
        ),
        *((named(names), b"") for names in NOT_FORWARDED),
        (
            [(b"X_Remote", b"1"), (b"My_Host", b"2"), (b"Content_Type", b"3")],
            b"X_Remote: 1\r\nMy_Host: 2\r\nContent_Type: 3\r\n",
        ),
    ],
    ids=range(9),
)
def test_forwards_but_for_fields_of_the_hop_and_those_made_up(
    lines: Lines, forwarded: bytes
) -> None:
    expected = b"Host: h\r\n" + forwarded + END

    assert expected == read(HOST, *lines).forward
    assert expected == read(*lines, HOST).forward


@pytest.mark.parametrize(
    ("lines", "is_http_10", "always", "forwarded", "host"),
    [
        ([(b"hOST", b"a:1")], False, b"", b"a:1", b"a:1"),
        ([(b"Host", b"[::1]:8")], False, b"", b"[::1]:8", b"[::1]:8"),
        ([(b"Host", b"")], False, b"", b"", b""),
        ([(b"Host", b"a")], False, b"o", b"o", b"a"),
        ([], True, b"", b"upstream:80", None),
        ([], True, b"o", b"o", None),
        ([(b"Host", b"a")], True, b"", b"a", b"a"),
    ],
)
def test_host_goes_on_unless_settings_say_another_or_there_is_none(
    lines: Lines, is_http_10: bool, always: bytes, forwarded: bytes, host: bytes | None
) -> None:
    found = read(*lines, host=always, is_http_10=is_http_10)

    end = END.replace(b"1.1", b"1.0") if is_http_10 else END
    assert b"Host: %b\r\n" % forwarded + end == found.forward
    assert host == found.host


@pytest.mark.parametrize(
    ("lines", "framing", "body_bytes", "forwarded"),
    [
        ([], NO_BODY, 0, b""),
        ([(b"Content-Length", b"0")], NO_BODY, 0, b"Content-Length: 0\r\n"),
        ([(b"content-length", b"007")], SIZED, 7, b""),
        ([(b"Content-Length", b"7")] * 2, SIZED, 7, b""),
        ([(b"Transfer-Encoding", b"Chunked")], CHUNKED, 0, b"Transfer-Encoding: chunked\r\n"),
    ],
)
def test_body_is_framed_one_way(
    lines: Lines, framing: int, body_bytes: int, forwarded: bytes
) -> None:
    found = read(HOST, *lines)

    assert (framing, body_bytes) == (found.framing, found.body_bytes)
    assert b"Host: h\r\n" + forwarded + END == found.forward


@pytest.mark.parametrize(
    ("is_http_10", "is_http2", "version"),
    [(True, False, "1.0"), (False, False, "1.1"), (False, True, "2.0")],
)
@pytest.mark.parametrize("section", [b"", b"Host: h\r\n"], ids=["rewritten", "verbatim"])
def test_via_tells_the_protocol(
    is_http_10: bool, is_http2: bool, version: str, section: bytes
) -> None:
    rules = rules_with(is_http2=is_http2)
    found = read_fields([HOST], rules, section, is_http_10=is_http_10)

    assert f"HTTP/{version}" == found.protocol
    assert f"Via: {version} apfproxy\r\nX-Forwarded-For: ".encode() in found.forward


@pytest.mark.parametrize(
    ("attribute", "lines", "is_http_10", "expected"),
    [
        ("keep_alive", [], False, True),
        ("keep_alive", [(b"Connection", b"x, CLOSE")], False, False),
        ("keep_alive", [(b"Connection", b"close, keep-alive")], False, False),
        ("keep_alive", [], True, False),
        ("keep_alive", [KEEP_ALIVE], True, True),
        ("keep_alive", [KEEP_ALIVE, (b"Connection", b"close")], True, False),
        ("expects_continue", [EXPECT, (b"Content-Length", b"1")], False, True),
        ("expects_continue", [EXPECT, (b"Transfer-Encoding", b"chunked")], False, True),
        ("expects_continue", [EXPECT, (b"Content-Length", b"0")], False, False),
        ("expects_continue", [EXPECT, (b"Content-Length", b"1")], True, False),
        ("upgrade", [SPDY, UPGRADE], False, Offer((b"SPDY/3.1",))),
        ("upgrade", [(b"Upgrade", b"h2c"), UPGRADE], False, None),
        ("upgrade", [(b"Upgrade", b""), UPGRADE], False, None),
        ("upgrade", [SPDY], False, None),
        ("upgrade", [UPGRADE], False, None),
        ("upgrade", [SPDY, UPGRADE], True, None),
    ],
)
def test_what_fields_ask_of_the_hop(
    attribute: str, lines: Lines, is_http_10: bool, expected: object
) -> None:
    found = read(HOST, *lines, is_http_10=is_http_10)

    assert expected == getattr(found, attribute)
    for part in (b"onnection", b"xpect", b"pgrade"):
        assert part not in found.forward


def upgrade_with(*subprotocols: bytes, upgrade: bytes = b"websocket") -> Lines:
    return [
        HOST,
        UPGRADE,
        (b"Upgrade", upgrade),
        (b"Sec-WebSocket-Protocol", b", ".join(subprotocols)),
    ]


TOKEN = BEARER_PREFIX + b"dXNlci1h"


@pytest.mark.parametrize(
    ("upgrade", "token"), [(b"websocket", "user-a"), (b"SPDY/3.1", ""), (b"h2c", "")]
)
@pytest.mark.parametrize("is_kept", [True, False])
def test_token_among_subprotocols_counts_in_a_websocket_handshake_only(
    upgrade: bytes, token: str, *, is_kept: bool
) -> None:
    """It does not go on where the proxy names the user."""
    rules = rules_with(forwards_credentials=is_kept)
    found = read_fields(upgrade_with(TOKEN, b"v5", upgrade=upgrade), rules, is_http_10=False)
    alone = read_fields(upgrade_with(TOKEN, upgrade=b"h2c"), rules, is_http_10=False)

    assert token == found.credentials.token
    own = TOKEN + b", v5" if is_kept else b"v5"
    assert b"\r\nSec-WebSocket-Protocol: " + own + b"\r\n" in found.forward
    assert is_kept == (b"Sec-WebSocket" in alone.forward)


@pytest.mark.parametrize(
    ("lines", "claimed"),
    [
        ([(b"x-MY-user", b"u")], User("u", ())),
        (
            [(b"X-Remote-Group", b"g"), (b"X-Remote-User", b"\xc3\xa9"), (b"X-Remote-Uid", b"1")],
            User("\u00e9", ("g",), "1"),
        ),
        ([(b"Connection", b"x-remote-user")], None),
    ],
)
def test_front_proxy_alone_claims_a_user(lines: Lines, claimed: User | None) -> None:
    trusted, other = read_trusted(*lines), read(HOST, *lines)

    assert claimed == trusted.credentials.claimed
    assert None is other.credentials.claimed
    assert b"Host: h\r\n" + END == trusted.forward == other.forward


@pytest.mark.parametrize("name", [b"X-Remote-User", b"x-my-user", b"X-Remote-Extra-Scopes"])
def test_claim_that_connection_names_is_refused(name: bytes) -> None:
    lines = [(b"Connection", name.upper()), (b"X-Remote-User", b"u"), (name, b"u")]

    assert None is read(HOST, *lines).credentials.claimed
    with pytest.raises(HeadError) as caught:
        read_trusted(*lines)
    assert 400 == caught.value.code


@pytest.mark.parametrize("forwards_credentials", [True, False])
def test_credentials_go_on_only_where_the_upstream_judges_them(forwards_credentials: bool) -> None:
    rules = rules_with(
        forwards_credentials=forwards_credentials,
        forwards_impersonation=forwards_credentials,
    )
    lines = [HOST, (b"Authorization", b"bearer t"), (b"Impersonate-User", b"u")]
    found = read_fields(lines, rules, is_http_10=False)
    own = b"Authorization: bearer t\r\nImpersonate-User: u\r\n" if forwards_credentials else b""

    assert b"Host: h\r\n" + own + END == found.forward
    assert Credentials("t", None, User("u", ())) == found.credentials


def test_keys_of_extra_values_may_be_odd() -> None:
    lines = [(b"Impersonate-User", b"u"), (b"Impersonate-Extra-acme.com%2Fa_b", b"x")]
    found = read(HOST, *lines)

    assert b"\r\nImpersonate-Extra-acme.com%2Fa_b: x\r\n" in found.forward
    assert User("u", (), "", (("acme.com/a_b", ("x",)),)) == found.credentials.impersonated


def test_trusted_front_says_how_it_was_reached() -> None:
    lines = named(b"X-Forwarded-Proto X-Forwarded-Host X-Forwarded-Port X-Real-Ip Forwarded")
    written = b"".join(b"%b: %b\r\n" % line for line in lines)

    assert b"Host: h\r\n" + written + VIA + b"X-Forwarded-For: " == read_trusted(*lines).forward


def test_earlier_hops_come_first() -> None:
    lines = [(b"X-Forwarded-For", value) for value in (b"a, b", b"", b"c")]

    assert b"Host: h\r\n" + END + b"a, b, c, " == read(HOST, *lines).forward


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        ([(b"A", b"b")], 400),
        ([HOST, HOST], 400),
        *(([(b"Host", each)], 400) for each in (b"a b", b"u@a", b"a/b", b"a:b", b"[::1")),
        *(
            ([HOST, (b"Connection", each)], 400)
            for each in (
                *(b"host", b"Content-Length", b"authorization", b"impersonate-user"),
                *(b"a b", b'"close"'),
            )
        ),
        ([HOST, *[(b"Authorization", b"Bearer a")] * 2], 400),
        ([HOST, (b"Impersonate-Group", b"g")], 400),
        ([HOST, (b"Expect", b"200-ok")], 417),
        ([HOST, (b"Expect", b"")], 417),
        *(([HOST, (b"Content-Length", each)], 400) for each in (b"", b"+1", b"1, 1", b"1" * 19)),
        ([HOST, (b"Content-Length", b"1"), (b"Content-Length", b"01")], 400),
        ([HOST, (b"Content-Length", b"1"), (b"Transfer-Encoding", b"chunked")], 400),
        *(
            ([HOST, (b"Transfer-Encoding", each)], 400)
            for each in (b"gzip, chunked", b"", b"identity")
        ),
        ([HOST, *[(b"Transfer-Encoding", b"chunked")] * 2], 400),
    ],
    ids=str,
)
def test_refuses(lines: Lines, code: int) -> None:
    with pytest.raises(HeadError) as refused:
        read(*lines)

    assert code == refused.value.code


def test_refuses_what_it_would_take_of_others() -> None:
    with pytest.raises(HeadError, match=r"HTTP/1\.0"):
        read(HOST, (b"Transfer-Encoding", b"chunked"), is_http_10=True)
    with pytest.raises(HeadError, match="UTF-8"):
        read_trusted((b"X-Remote-User", b"\xff"))
    with pytest.raises(HeadError) as token:
        read(*upgrade_with(TOKEN))

    assert 401 == token.value.code


@pytest.mark.parametrize("name", sorted(RESERVED_NAMES))
def test_what_is_not_forwarded_tells_no_flows_apart(name: bytes) -> None:
    try:
        found = read_trusted((name, b"1"))
    except HeadError:
        return  # no such request comes to a flow
    head = RequestHead("GET", b"/", b"", b"", found, found.body_bytes, None)
    text = f"header:{name.decode()}"
    schema = FlowSchema(metadata=ObjectMeta(annotations={DISTINGUISHER: text}))

    assert name + b": 1" in head.forwarded().lower() or schema.additions.errors


@pytest.mark.parametrize(
    ("values", "client"),
    [
        ([], ""),
        ([b""], ""),
        ([b"192.0.2.1, 192.0.2.2"], "192.0.2.2"),
        ([b"192.0.2.1,10.0.0.2,\t10.0.0.3"], "192.0.2.1"),
        ([b"192.0.2.1", b"10.0.0.2"], "192.0.2.1"),
        ([b"10.0.0.9, 192.0.2.1, 10.0.0.2"], "192.0.2.1"),
        ([b"10.0.0.9, 10.0.0.2"], "10.0.0.9"),
        *(
            ([value], "")
            for value in (b"192.0.2.1, unknown", b"\xff", b'"192.0.2.1"', b"192.0.2.01")
        ),
        *(([b"192.0.2.1, %b, 10.0.0.2" % each], "10.0.0.2") for each in (b"unknown", b"")),
        ([b"192.0.2.1:4711"], "192.0.2.1"),
        ([b"[2001:db8::1]:443"], "2001:db8::1"),
        ([b"[2001:db8::1]"], "2001:db8::1"),
        ([b"2001:DB8::0001, fd00::1"], "2001:db8::1"),
        ([b"::ffff:192.0.2.1, ::ffff:10.0.0.2"], "192.0.2.1"),
        ([b"fe80::1%\xff"], "fe80::1"),
        ([b"fe80::1%" + b"a" * 60000], ""),
        ([b"192.0.2.1" + b",10.0.0.2" * (MAX_HOPS - 1)], "192.0.2.1"),
        ([b"192.0.2.1" + b",10.0.0.2" * 7000], "10.0.0.2"),
    ],
    ids=range(22),
)
def test_client_is_the_last_address_that_no_trusted_proxy_has(
    values: list[bytes], client: str
) -> None:
    assert client == forwarded_client(values, PROXIES)


@pytest.mark.parametrize(
    ("text", "is_in"),
    [
        *((text, True) for text in ("10.1.2.3", "::ffff:10.1.2.3", "fd00::1%eth0")),
        *((text, False) for text in ("11.0.0.1", "fe80::1", "unknown")),
    ],
)
def test_each_form_of_an_address_is_in_the_same_networks(text: str, is_in: bool) -> None:
    assert is_in == is_among(address_from(text), PROXIES)


def test_elements() -> None:
    assert [b"a", b"b", b"c"] == elements([b" a,, b ", b"", b"c\t"])


def test_accepted() -> None:
    found = accepted("text/html ;level=1; q = 0.4 ,, gzip;q")

    assert [("text/html", [("level", "1"), ("q", "0.4")]), ("", []), ("gzip", [("q", "")])] == found


@pytest.mark.parametrize(("text", "weight"), [("0.5", 0.5), ("1", 1.0), ("", 0.0), ("much", 0.0)])
def test_weight_of(text: str, weight: float) -> None:
    assert weight == weight_of(text)
