"""The fields of a request."""

from __future__ import annotations

import ipaddress

import pytest

from apfproxy.base.address import address_from
from apfproxy.http.credential_fields import Credentials
from apfproxy.http.grammar import HeadError
from apfproxy.http.request_fields import (
    CHUNKED,
    MAX_HOPS,
    NO_BODY,
    RESERVED_NAMES,
    SIZED,
    VIA,
    FieldRules,
    RequestFields,
    UpstreamHosts,
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

HOSTS = UpstreamHosts(b"upstream:80", b"")
NAMES = AuthenticationSettings(
    front_proxy=FrontProxySettings(username_headers=("X-My-User", "X-Remote-User"))
).credential_rules
HOST = (b"Host", b"h")
SPDY = (b"Upgrade", b"SPDY/3.1")
END = b"X-Forwarded-Proto: http\r\n" + VIA + b"X-Forwarded-For: "
PROXIES = (ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("fd00::/8"))
Lines = list[tuple[bytes, bytes]]


def read(
    *lines: tuple[bytes, bytes], hosts: UpstreamHosts = HOSTS, is_http_10: bool = False
) -> RequestFields:
    return read_fields(list(lines), FieldRules(hosts, NAMES, 100, 8000), is_http_10=is_http_10)


def read_trusted(*lines: tuple[bytes, bytes]) -> RequestFields:
    rules = FieldRules(HOSTS, NAMES, 100, 8000, believes_claims=True, believes_forwarding=True)
    return read_fields([HOST, *lines], rules, is_http_10=False)


def named(names: bytes) -> Lines:
    return [(name, b"x") for name in names.split()]


@pytest.mark.parametrize(
    ("lines", "forwarded"),
    [
        pytest.param([], b"", id="nothing"),
        pytest.param([(b"A", b"b"), (b"a", b"")], b"A: b\r\na: \r\n", id="order-and-spelling"),
        pytest.param([(b"Authorization", b"x")], b"Authorization: x\r\n", id="authorization"),
        pytest.param([(b"Impersonate-User", b"x")], b"Impersonate-User: x\r\n", id="impersonation"),
        pytest.param(
            [(b"Connection", b"close, x-a ,X-B,,"), (b"X-A", b"1"), (b"x-b", b"2"), (b"C", b"3")],
            b"C: 3\r\n",
            id="nominated",
        ),
        pytest.param(
            named(
                b"Keep-Alive Proxy-Authenticate Proxy-Authorization Proxy-Connection TE Trailer"
                b" Upgrade"
            ),
            b"",
            id="hop-by-hop",
        ),
        pytest.param(
            named(
                b"X-Forwarded-Proto X-Forwarded-Host X-Forwarded-Uri X-Forwarded-Prefix Forwarded"
                b" X_Forwarded_Port X-Real-IP X-Original-URL X-Rewrite-URL X-Remote-User"
                b" x-remote-GROUP X-Remote-Uid X-Remote-Extra-Scopes"
            ),
            b"",
            id="what-only-trusted-fronts-say",
        ),
        pytest.param(
            named(
                b"X_Remote_User x.remote.group X-Remote_Uid x_remote-extra-a X_Remote_Extra_"
                b" Content_Length content.length Transfer_Encoding X_Forwarded_For X_Real_IP"
                b" Proxy_Authorization Keep_Alive"
            ),
            b"",
            id="look-alikes",
        ),
        pytest.param(
            [(b"X_Remote", b"1"), (b"My_Host", b"2"), (b"Content_Type", b"3")],
            b"X_Remote: 1\r\nMy_Host: 2\r\nContent_Type: 3\r\n",
            id="look-alikes-of-nothing",
        ),
    ],
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
        pytest.param([(b"hOST", b"a:1")], False, b"", b"a:1", b"a:1", id="kept"),
        pytest.param([(b"Host", b"[::1]:8")], False, b"", b"[::1]:8", b"[::1]:8", id="ipv6"),
        pytest.param([(b"Host", b"")], False, b"", b"", b"", id="empty"),
        pytest.param([(b"Host", b"a")], False, b"o", b"o", b"a", id="replaced"),
        pytest.param([], True, b"", b"upstream:80", None, id="1.0-without"),
        pytest.param([], True, b"o", b"o", None, id="1.0-without-replaced"),
        pytest.param([(b"Host", b"a")], True, b"", b"a", b"a", id="1.0-with"),
    ],
)
def test_host_goes_on_unless_settings_say_another_or_there_is_none(
    lines: Lines, is_http_10: bool, always: bytes, forwarded: bytes, host: bytes | None
) -> None:
    found = read(*lines, hosts=UpstreamHosts(b"upstream:80", always), is_http_10=is_http_10)

    end = END.replace(b"1.1", b"1.0") if is_http_10 else END
    assert b"Host: %b\r\n" % forwarded + end == found.forward
    assert host == found.host


@pytest.mark.parametrize(
    ("lines", "framing", "body_bytes", "forwarded"),
    [
        pytest.param([], NO_BODY, 0, b"", id="none"),
        pytest.param([(b"Content-Length", b"0")], NO_BODY, 0, b"Content-Length: 0\r\n", id="empty"),
        pytest.param([(b"content-length", b"007")], SIZED, 7, b"", id="sized"),
        pytest.param(
            [(b"Content-Length", b"7"), (b"Content-Length", b"7")],
            SIZED,
            7,
            b"",
            id="the-same-length-twice",
        ),
        pytest.param(
            [(b"Transfer-Encoding", b"Chunked")],
            CHUNKED,
            0,
            b"Transfer-Encoding: chunked\r\n",
            id="chunked",
        ),
    ],
)
def test_body_is_framed_one_way(
    lines: Lines, framing: int, body_bytes: int, forwarded: bytes
) -> None:
    found = read(HOST, *lines)

    assert (framing, body_bytes) == (found.framing, found.body_bytes)
    assert b"Host: h\r\n" + forwarded + END == found.forward


@pytest.mark.parametrize(
    ("is_http_10", "is_http2", "protocol", "version"),
    [
        pytest.param(True, False, "HTTP/1.0", b"1.0", id="1.0"),
        pytest.param(False, False, "HTTP/1.1", b"1.1", id="1.1"),
        pytest.param(False, True, "HTTP/2.0", b"2.0", id="2"),
    ],
)
@pytest.mark.parametrize("section", [b"", b"Host: h\r\n"], ids=["rewritten", "verbatim"])
def test_via_tells_the_protocol(
    is_http_10: bool, is_http2: bool, protocol: str, version: bytes, section: bytes
) -> None:
    rules = FieldRules(HOSTS, NAMES, 100, 8000, is_http2=is_http2)
    found = read_fields([HOST], rules, section, is_http_10=is_http_10)

    assert protocol == found.protocol
    assert b"Via: %b apfproxy\r\nX-Forwarded-For: " % version in found.forward


@pytest.mark.parametrize(
    ("lines", "is_http_10", "keep_alive"),
    [
        pytest.param([], False, True, id="1.1"),
        pytest.param([(b"Connection", b"x, CLOSE")], False, False, id="1.1-close"),
        pytest.param([(b"Connection", b"close, keep-alive")], False, False, id="1.1-both"),
        pytest.param([], True, False, id="1.0"),
        pytest.param([(b"Connection", b"Keep-Alive")], True, True, id="1.0-keep-alive"),
        pytest.param(
            [(b"Connection", b"keep-alive"), (b"Connection", b"close")], True, False, id="1.0-both"
        ),
    ],
)
def test_keep_alive_is_the_default_in_http_11_alone(
    lines: Lines, is_http_10: bool, keep_alive: bool
) -> None:
    assert keep_alive == read(HOST, *lines, is_http_10=is_http_10).keep_alive


@pytest.mark.parametrize(
    ("lines", "is_http_10", "expects"),
    [
        pytest.param([(b"Content-Length", b"1")], False, True, id="sized"),
        pytest.param([(b"Transfer-Encoding", b"chunked")], False, True, id="chunked"),
        pytest.param([(b"Content-Length", b"0")], False, False, id="no-body"),
        pytest.param([(b"Content-Length", b"1")], True, False, id="1.0"),
    ],
)
def test_only_http_11_with_a_body_expects_a_100(
    lines: Lines, is_http_10: bool, expects: bool
) -> None:
    found = read(HOST, (b"Expect", b"100-Continue"), *lines, is_http_10=is_http_10)

    assert expects == found.expects_continue
    assert b"xpect" not in found.forward


@pytest.mark.parametrize(
    ("lines", "is_http_10", "upgrade"),
    [
        pytest.param([SPDY, (b"Connection", b"Upgrade")], False, Offer((b"SPDY/3.1",)), id="asked"),
        pytest.param([(b"Upgrade", b"h2c"), (b"Connection", b"upgrade")], False, None, id="h2c"),
        pytest.param([(b"Upgrade", b""), (b"Connection", b"upgrade")], False, None, id="unnamed"),
        pytest.param([SPDY], False, None, id="not-nominated"),
        pytest.param([(b"Connection", b"Upgrade")], False, None, id="nominated-only"),
        pytest.param([SPDY, (b"Connection", b"Upgrade")], True, None, id="1.0"),
    ],
)
def test_upgrade_takes_both_fields_and_http_11(
    lines: Lines, is_http_10: bool, upgrade: Offer | None
) -> None:
    found = read(HOST, *lines, is_http_10=is_http_10)

    assert upgrade == found.upgrade
    assert b"pgrade" not in found.forward


def upgrade_with(*subprotocols: bytes, upgrade: bytes = b"websocket") -> Lines:
    return [
        HOST,
        (b"Connection", b"Upgrade"),
        (b"Upgrade", upgrade),
        (b"Sec-WebSocket-Protocol", b", ".join(subprotocols)),
    ]


TOKEN = BEARER_PREFIX + b"dXNlci1h"


@pytest.mark.parametrize(
    ("upgrade", "token"), [(b"websocket", "user-a"), (b"SPDY/3.1", ""), (b"h2c", "")]
)
def test_token_among_subprotocols_counts_in_a_websocket_handshake_only(
    upgrade: bytes, token: str
) -> None:
    lines = upgrade_with(TOKEN, b"v5", upgrade=upgrade)
    found = read(*lines)

    assert token == found.credentials.token
    assert b"Sec-WebSocket-Protocol: " + TOKEN + b", v5\r\n" in found.forward


@pytest.mark.parametrize("upgrade", [b"websocket", b"h2c"])
def test_token_does_not_go_on_where_the_proxy_names_the_user(upgrade: bytes) -> None:
    rules = FieldRules(HOSTS, NAMES, 100, 8000, forwards_credentials=False)
    found = read_fields(upgrade_with(TOKEN, b"v5", upgrade=upgrade), rules, is_http_10=False)
    alone = read_fields(upgrade_with(TOKEN, upgrade=b"h2c"), rules, is_http_10=False)

    assert b"\r\nSec-WebSocket-Protocol: v5\r\n" in found.forward
    assert b"bearer" not in found.forward
    assert b"Sec-WebSocket" not in alone.forward


@pytest.mark.parametrize(
    ("lines", "claimed"),
    [
        pytest.param([(b"X-Remote-User", b"u")], User("u", ()), id="user"),
        pytest.param([(b"x-MY-user", b"u")], User("u", ()), id="by-a-name-of-ours"),
        pytest.param(
            [(b"X-Remote-Group", b"g"), (b"X-Remote-User", b"\xc3\xa9"), (b"X-Remote-Uid", b"1")],
            User("\u00e9", ("g",), "1"),
            id="user-with-group",
        ),
        pytest.param([(b"Connection", b"x-remote-user")], None, id="nominated-but-not-there"),
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
    rules = FieldRules(
        HOSTS,
        NAMES,
        100,
        8000,
        forwards_credentials=forwards_credentials,
        forwards_impersonation=forwards_credentials,
    )
    lines = [HOST, (b"Authorization", b"bearer t"), (b"Impersonate-User", b"u")]
    found = read_fields(lines, rules, is_http_10=False)
    own = b"Authorization: bearer t\r\nImpersonate-User: u\r\n" if forwards_credentials else b""

    assert b"Host: h\r\n" + own + END == found.forward
    assert Credentials("t", None, User("u", ())) == found.credentials


def test_look_alikes_of_credentials_do_not_go_on() -> None:
    lines = named(
        b"X_Remote_User x_my.user Impersonate_User Impersonate_Extra_a Impersonate-Extra_a"
        b" Sec_WebSocket_Protocol"
    )

    assert b"Host: h\r\n" + END == read(HOST, *lines).forward


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


def test_refuses_with_what_is_known_of_the_client() -> None:
    with pytest.raises(HeadError) as coded:
        read(HOST, (b"Transfer-Encoding", b"chunked"), is_http_10=True)
    with pytest.raises(HeadError) as named:
        read_trusted((b"X-Remote-User", b"\xff"))
    with pytest.raises(HeadError) as token:
        read(*upgrade_with(TOKEN))

    assert [400, 400, 401] == [each.value.code for each in (coded, named, token)]


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
        pytest.param([], "", id="none"),
        pytest.param([b""], "", id="empty"),
        pytest.param([b"192.0.2.1"], "192.0.2.1", id="client"),
        pytest.param([b"192.0.2.1, 192.0.2.2"], "192.0.2.2", id="made-up-before"),
        pytest.param([b"192.0.2.1,10.0.0.2,\t10.0.0.3"], "192.0.2.1", id="behind-proxies"),
        pytest.param([b"192.0.2.1", b"10.0.0.2"], "192.0.2.1", id="fields-in-their-order"),
        pytest.param([b"10.0.0.9, 192.0.2.1, 10.0.0.2"], "192.0.2.1", id="made-up-proxy"),
        pytest.param([b"10.0.0.9, 10.0.0.2"], "10.0.0.9", id="inside"),
        pytest.param([b"192.0.2.1, unknown"], "", id="no-address-last"),
        pytest.param([b"192.0.2.1, unknown, 10.0.0.2"], "10.0.0.2", id="no-address-between"),
        pytest.param([b"192.0.2.1,, 10.0.0.2"], "10.0.0.2", id="empty-between"),
        pytest.param([b"192.0.2.1:4711"], "192.0.2.1", id="port"),
        pytest.param([b"[2001:db8::1]:443"], "2001:db8::1", id="ipv6-port"),
        pytest.param([b"[2001:db8::1]"], "2001:db8::1", id="brackets"),
        pytest.param([b"2001:DB8::0001, fd00::1"], "2001:db8::1", id="ipv6-in-one-form"),
        pytest.param([b"::ffff:192.0.2.1"], "192.0.2.1", id="mapped"),
        pytest.param([b"192.0.2.1, ::ffff:10.0.0.2"], "192.0.2.1", id="mapped-proxy"),
        pytest.param([b"fe80::1%\xff"], "fe80::1", id="zone-of-any-bytes"),
        pytest.param([b"\xff"], "", id="no-text"),
        pytest.param([b'"192.0.2.1"'], "", id="quoted"),
        pytest.param([b"192.0.2.01"], "", id="octal"),
        pytest.param([b"fe80::1%" + b"a" * 60000], "", id="long"),
        pytest.param([b"192.0.2.1" + b",10.0.0.2" * (MAX_HOPS - 1)], "192.0.2.1", id="many"),
        pytest.param([b"192.0.2.1" + b",10.0.0.2" * 7000], "10.0.0.2", id="too-many"),
    ],
)
def test_client_is_the_last_address_that_no_trusted_proxy_has(
    values: list[bytes], client: str
) -> None:
    assert client == forwarded_client(values, PROXIES)


@pytest.mark.parametrize(
    ("text", "is_in"),
    [
        pytest.param("10.1.2.3", True, id="ipv4"),
        pytest.param("::ffff:10.1.2.3", True, id="mapped"),
        pytest.param("11.0.0.1", False, id="outside"),
        pytest.param("fd00::1%eth0", True, id="zone"),
        pytest.param("fe80::1", False, id="ipv6-outside"),
        pytest.param("unknown", False, id="no-address"),
    ],
)
def test_each_form_of_an_address_is_in_the_same_networks(text: str, is_in: bool) -> None:
    assert is_in == is_among(address_from(text), PROXIES)
