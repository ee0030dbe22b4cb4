"""Heads of requests."""

from __future__ import annotations

import gc
import itertools
import re
from types import FrameType

import httptools
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from apfproxy.authn.authenticator import Authentication
from apfproxy.authn.credential_fields import CredentialRules
from apfproxy.base.bounded_cache import MemoryBudget
from apfproxy.http.head_error import HeadError
from apfproxy.http.header_block import HeaderBlock
from apfproxy.http.request_fields import VIA, FieldRules, UpstreamHosts
from apfproxy.http.request_head import (
    MAX_BLOCKS,
    MAX_KEPT_FIELDS_BYTES,
    HeadLimits,
    HeadParser,
    HeadProbe,
    RequestHead,
)
from apfproxy.http.upgrade import Offer
from apfproxy.proxy.targets import read_target, with_upgrade
from apfproxy.request.user import ANONYMOUS
from apfproxy.settings import AuthenticationSettings

NAMES = CredentialRules.of(AuthenticationSettings())
END = b"X-Forwarded-Proto: http\r\n" + VIA + b"X-Forwarded-For: "
SPDY_LINES = b"Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
OWN = ("method", "target", "is_head", "body_bytes", "framing", "is_http_10")
OTHERS = ("keep_alive", "expects_continue", "upgrade")


def new_parser(max_kept: int = 9) -> HeadParser:
    """A parser that knows nothing yet."""
    return HeadParser(
        HeadLimits(4, 64),
        FieldRules(UpstreamHosts(b"o:80", b""), NAMES),
        MemoryBudget(1 << 20),
        max_kept,
    )


def parsed(parser: HeadParser, head: bytes, known: list[HeaderBlock]) -> RequestHead:
    """Parse a head as a connection does that is known by these header blocks."""
    start = head.find(b"\r\n") + 2
    matches = ((block, *block.match(head, start)) for block in known)
    block, end, body_bytes = next((each for each in matches if each[1]), (None, 0, 0))
    assert end in {0, len(head)}
    return parser.parse(head, known, block, body_bytes)


def outcome(parser: HeadParser, head: bytes, known: list[HeaderBlock] | None = None) -> object:
    """All that a parser finds, or the status that it refuses the head with."""
    try:
        found = parsed(parser, head, [] if known is None else known)
    except HeadError as error:
        return error.code
    return [
        *(getattr(found, name) for name in (*OWN, *OTHERS)),
        found.forwarded(b"I: d\r\n", b"::1"),
        found.fields.credentials,
    ]


def parse(head: bytes) -> RequestHead:
    """Parse a head cold and again warm, which must make no difference."""
    parser, known = new_parser(), list[HeaderBlock]()
    cold = outcome(parser, head, known)
    assert cold == outcome(parser, head, known) == outcome(parser, head, known)
    assert cold == outcome(parser, head)
    return parser.parse(head, known)


@pytest.mark.parametrize(
    ("line", "method", "target", "forwarded"),
    [
        pytest.param(b"GET / HTTP/1.1", "GET", b"/", b"GET / HTTP/1.1", id="common"),
        pytest.param(b"HEAD /a?b=%20&c HTTP/1.1", "HEAD", b"/a?b=%20&c", None, id="query"),
        pytest.param(b"GET //a/../b;c HTTP/1.1", "GET", b"//a/../b;c", None, id="odd-path"),
        pytest.param(b"GET /a HTTP/1.0", "GET", b"/a", b"GET /a HTTP/1.1", id="1.0"),
        pytest.param(b"OPTIONS * HTTP/1.1", "OPTIONS", b"*", None, id="asterisk"),
        pytest.param(b"GET http://h/a HTTP/1.1", "GET", b"http://h/a", None, id="absolute"),
        pytest.param(b"GET HTTPS://H?a HTTP/1.1", "GET", b"HTTPS://H?a", None, id="absolute-case"),
        pytest.param(b"PROPFIND /a HTTP/1.1", "PROPFIND", b"/a", None, id="rare-method"),
        pytest.param(b"M-SEARCH /a HTTP/1.1", "M-SEARCH", b"/a", None, id="method-with-hyphen"),
        pytest.param(
            b"GET /\xc3\xa9?a=\xff HTTP/1.1", "GET", b"/\xc3\xa9?a=\xff", None, id="utf-8"
        ),
        pytest.param(b"HEAD /\xc3\xa9 HTTP/1.1", "HEAD", b"/\xc3\xa9", None, id="head-of-utf-8"),
        pytest.param(
            b"GET http://h/\xe9 HTTP/1.1", "GET", b"http://h/\xe9", None, id="url-latin-1"
        ),
        pytest.param(b"LIST /v1/a HTTP/1.1", "LIST", b"/v1/a", None, id="method-of-vault"),
        pytest.param(b"Label_2 /a HTTP/1.1", "Label_2", b"/a", None, id="method-any-token"),
        pytest.param(b"!#$%&'*+-.^_`|~ /a HTTP/1.1", "!#$%&'*+-.^_`|~", b"/a", None, id="marks"),
        pytest.param(b"get /a HTTP/1.1", "get", b"/a", None, id="small-method"),
        pytest.param(b"LIST /a HTTP/1.0", "LIST", b"/a", b"LIST /a HTTP/1.1", id="list-1.0"),
        pytest.param(b"%b /a HTTP/1.1" % (b"M" * 64), "M" * 64, b"/a", None, id="longest-method"),
    ],
)
def test_request_lines(line: bytes, method: str, target: bytes, forwarded: bytes | None) -> None:
    """The line goes on as it stands, but always as HTTP/1.1; Via says what it was."""
    end = END.replace(b"Via: 1.1", b"Via: %b" % line[-3:])
    head = parse(line + b"\r\nHost: h\r\n\r\n")

    assert (method, target) == (head.method, head.target)
    assert (forwarded or line) + b"\r\nHost: h\r\n" + end == head.forwarded()
    assert (method == "HEAD") == head.is_head


@pytest.mark.parametrize(
    ("head", "code"),
    [
        pytest.param(b"\r\n", 400, id="nothing"),
        pytest.param(b"GET / HTTP/1.1\r\n", 400, id="no-host"),
        pytest.param(b"GET /\r\nHost: h\r\n", 400, id="no-version"),
        pytest.param(b"GET / HTTP/0.9\r\nHost: h\r\n", 400, id="version-0.9"),
        pytest.param(b"GET / HTTP/1.2\r\nHost: h\r\n", 400, id="version-1.2"),
        pytest.param(b"GET / HTTP/2.0\r\nHost: h\r\n", 400, id="version-2.0"),
        pytest.param(b"PRI * HTTP/2.0\r\n", 400, id="preface-of-http-2"),
        pytest.param(b"GET / RTSP/1.0\r\nHost: h\r\n", 400, id="other-protocol"),
        pytest.param(b"PRI / HTTP/1.1\r\nHost: h\r\n", 400, id="method-of-the-preface"),
        pytest.param(b"head / HTTP/1.1\r\nHost: h\r\n", 405, id="small-head"),
        pytest.param(b"Connect h:1 HTTP/1.1\r\nHost: h\r\n", 405, id="small-connect"),
        pytest.param(b"traCE / HTTP/1.1\r\nHost: h\r\n", 405, id="small-trace"),
        pytest.param(b"pri / HTTP/1.1\r\nHost: h\r\n", 405, id="small-pri"),
        pytest.param(b"%b / HTTP/1.1\r\nHost: h\r\n" % (b"M" * 65), 501, id="long-method"),
        pytest.param(b"L(ST / HTTP/1.1\r\nHost: h\r\n", 400, id="method-no-token"),
        pytest.param(b"L\xc3ST / HTTP/1.1\r\nHost: h\r\n", 400, id="method-beyond-ascii"),
        pytest.param(b"LIST\t/ HTTP/1.1\r\nHost: h\r\n", 400, id="tab-behind-the-method"),
        pytest.param(b"LIST  / HTTP/1.1\r\nHost: h\r\n", 400, id="list-two-spaces"),
        pytest.param(b"LIST /\nHTTP/1.1\r\nHost: h\r\n", 400, id="list-bare-lf"),
        pytest.param(b"LIST / HTTP/1.1\r\nHost: h\nA: b\r\n", 400, id="list-bare-lf-in-fields"),
        pytest.param(b"LIST / RTSP/1.0\r\nHost: h\r\n", 400, id="list-other-protocol"),
        pytest.param(
            b"LIST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n",
            400,
            id="list-two-lengths",
        ),
        pytest.param(b"GET  / HTTP/1.1\r\nHost: h\r\n", 400, id="two-spaces"),
        pytest.param(b"GET / HTTP/1.1 \r\nHost: h\r\n", 400, id="space-behind-the-version"),
        pytest.param(b" GET / HTTP/1.1\r\nHost: h\r\n", 400, id="space-before-the-method"),
        pytest.param(b"GET / HTTP/1.1\nHost: h\r\n", 400, id="bare-lf-behind-the-line"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: h\nA: b\r\n", 400, id="bare-lf-behind-a-field"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: h\rA: b\r\n", 400, id="bare-cr"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: h\n\nGET /b HTTP/1.1\r\nHost: h\r\n", 400, id="two"),
        pytest.param(b"GET / HTTP/1.1\r\nHost : h\r\n", 400, id="space-before-colon"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: h\r\n a\r\n", 400, id="continued"),
        pytest.param(b"GET / HTTP/1.1\r\n Host: h\r\n", 400, id="continued-from-the-line"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: h\x00\r\n", 400, id="nul"),
        pytest.param(b"GET /\xc3\xa9\x7f HTTP/1.1\r\nHost: h\r\n", 400, id="control-in-utf-8"),
        pytest.param(b"GET \xc3\xa9 HTTP/1.1\r\nHost: h\r\n", 400, id="relative-utf-8"),
        pytest.param(b"GET http://\xe9/ HTTP/1.1\r\nHost: h\r\n", 400, id="authority-in-utf-8"),
        pytest.param(b"GET /\xe9 HTTP/1.\xb1\r\nHost: h\r\n", 400, id="version-beyond-ascii"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: h\r\nX\xe9: b\r\n", 400, id="name-beyond-ascii"),
        pytest.param(b"GET /a#b HTTP/1.1\r\nHost: h\r\n", 400, id="fragment"),
        pytest.param(b"GET a HTTP/1.1\r\nHost: h\r\n", 400, id="relative-target"),
        pytest.param(b"GET * HTTP/1.1\r\nHost: h\r\n", 400, id="asterisk-without-options"),
        pytest.param(b"GET http://i/ HTTP/1.1\r\nHost: h\r\n", 400, id="another-authority"),
        pytest.param(b"GET http://u@h/ HTTP/1.1\r\nHost: h\r\n", 400, id="user-in-authority"),
        pytest.param(b"GET http://h/ HTTP/1.0\r\n", 400, id="absolute-without-host"),
        pytest.param(b"GET ftp://h/ HTTP/1.1\r\nHost: h\r\n", 400, id="other-scheme"),
        pytest.param(b"CONNECT h:1 HTTP/1.1\r\nHost: h\r\n", 405, id="connect"),
        pytest.param(b"TRACE / HTTP/1.1\r\nHost: h\r\n", 405, id="trace"),
        pytest.param(b"GET /%b HTTP/1.1\r\nHost: h\r\n" % (b"a" * 64), 414, id="long-target"),
        pytest.param(b"GET /%b HTTP/1.0\r\nHost: h\r\n" % (b"a" * 64), 414, id="long-target-1.0"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: h\r\n" + b"A: b\r\n" * 4, 431, id="many-fields"),
        pytest.param(
            b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 1\r\n",
            400,
            id="two-lengths",
        ),
        pytest.param(
            b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999999999999\r\n",
            400,
            id="length-overflow",
        ),
        pytest.param(
            b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n",
            400,
            id="two-framings",
        ),
    ],
)
def test_refuses(head: bytes, code: int) -> None:
    """What must not be forwarded is refused, cold and warm."""
    parser = new_parser()
    for _ in range(2):
        parser.parse(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n", [])

    assert code == outcome(parser, head + b"\r\n") == outcome(parser, head + b"\r\n")


def test_takes_as_much_as_the_limits_say() -> None:
    """A limit is the last thing that passes."""
    head = b"GET /%b HTTP/1.1\r\nHost: h\r\n%b\r\n" % (b"a" * 63, b"A: b\r\n" * 3)

    assert b"/" + b"a" * 63 == parse(head).target


def test_white_space_around_values_is_no_part_of_them() -> None:
    """RFC 9112, section 5: it is left out before a value is looked at."""
    head = parse(b"POST / HTTP/1.1\r\nHost: \t h \t\r\nContent-Length: 3 \r\nA: b c\t\r\n\r\n")

    expected = b"POST / HTTP/1.1\r\nContent-Length: 3\r\nHost: h\r\nA: b c\r\n" + END
    assert expected == head.forwarded()
    assert 3 == head.body_bytes


def test_upgrade_without_its_nomination_is_ignored() -> None:
    """The parser stops at every Upgrade field; only both fields ask for one."""
    assert None is parse(b"GET / HTTP/1.1\r\nHost: h\r\nUpgrade: SPDY/3.1\r\n\r\n").upgrade
    asked = b"GET / HTTP/1.1\r\nHost: h\r\nUpgrade: SPDY/3.1\r\nConnection: upgrade\r\n\r\n"
    assert Offer((b"SPDY/3.1",)) == parse(asked).upgrade


@pytest.mark.parametrize(
    ("target", "lines"),
    [
        pytest.param(b"/api/v1/namespaces/a/pods/b/exec", SPDY_LINES, id="served"),
        pytest.param(b"/api/v1/namespaces/a/pods/b", b"", id="not-served"),
    ],
)
def test_upgrade_depends_on_the_target(target: bytes, lines: bytes) -> None:
    """Fields that are known from one target may mean nothing with the next."""
    head = parse(b"POST %b HTTP/1.1\r\nHost: h\r\n%b\r\n" % (target, SPDY_LINES))
    head = with_upgrade(head, read_target(head)[0])

    expected = b"POST %b HTTP/1.1\r\n%bHost: h\r\n" % (target, lines)
    assert expected + END == head.forwarded()
    assert bool(lines) == (head.upgrade is not None)


def test_malformed_upgrade() -> None:
    """The answer says what is served."""
    target = b"/api/v1/namespaces/a/pods/b/exec"
    head = parse(
        b"GET %b HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 8\r\n\r\n" % target
    )
    with pytest.raises(HeadError) as caught:
        with_upgrade(head, read_target(head)[0])

    assert 426 == caught.value.code
    assert caught.value.lines.endswith(b"\r\nSec-WebSocket-Version: 13\r\n")


def test_kept_fields_are_bounded() -> None:
    """Neither ever new fields nor long ones fill the memory."""
    parser = new_parser(max_kept=4)
    counts = []
    for i in range(9):
        for _ in range(2):
            parser.parse(b"GET / HTTP/1.1\r\nHost: h%d\r\n\r\n" % i, [])
            long = b"GET / HTTP/1.1\r\nHost: %b\r\n\r\n" % (b"h" * MAX_KEPT_FIELDS_BYTES)
            parser.parse(long, [])
        counts.append(repr(parser))

    assert [1, 2, 3, 4, 3, 4, 3, 4, 3] == [int(text.split()[1]) for text in counts]


def test_shows_what_is_asked() -> None:
    """A log can read a head."""
    assert "<RequestHead GET b'/'>" == repr(parse(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"))


lines = st.one_of(
    st.sampled_from(
        [
            b"GET / HTTP/1.1",
            b"POST /a HTTP/1.1",
            b"GET /a HTTP/1.0",
            b"GET http://h/ HTTP/1.1",
            b"OPTIONS * HTTP/1.1",
            b"CONNECT h:1 HTTP/1.1",
        ]
    ),
    st.builds(
        lambda method, target, version: method + b" " + target + b" " + version,
        st.sampled_from([b"GET", b"HEAD", b"POST", b"PUT", b"OPTIONS", b"TRACE", b"Get", b""]),
        st.one_of(
            st.sampled_from([b"/", b"*", b"http://h", b"https://h?x", b"http://h:1/", b"http:///"]),
            st.text(st.characters(min_codepoint=32, max_codepoint=127), max_size=8).map(
                lambda text: b"/" + text.encode()
            ),
            st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=8).map(
                lambda text: b"http://h" + text.encode()
            ),
            st.binary(max_size=6),
        ),
        st.sampled_from([b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.0", b"HTTP/2.0", b"HTTP/1.1 "]),
    ),
)
fields = st.builds(
    lambda name, colon, value: name + colon + value,
    st.sampled_from(
        b"Host Content-Length Transfer-Encoding Connection Expect Upgrade A X-Remote-User"
        b" content_length Proxy-Connection".split()
    )
    | st.binary(max_size=3),
    st.sampled_from([b": ", b":", b" :", b""]),
    st.sampled_from([b"h", b"1", b"0", b"chunked", b"close", b"upgrade", b"", b"100-continue"])
    | st.binary(max_size=4),
)
heads = st.builds(
    lambda line, section, end: line + end + b"".join(field + end for field in section),
    lines,
    st.lists(st.one_of(st.just(b"Host: h"), fields), max_size=5),
    st.sampled_from([b"\r\n", b"\r\n", b"\r\n", b"\n"]),
)


@given(data=st.one_of(heads, st.binary(max_size=40)))
@example(data=b"")
def test_any_bytes_give_a_head_or_an_error_of_ours(data: bytes) -> None:
    """Whatever a head is made of, it is refused or forwarded, warm as cold."""
    if b"\r\n\r\n" in data:
        data = data[: data.index(b"\r\n\r\n") + 2]
    head = data + b"\r\n" if data.endswith(b"\r\n") else data + b"\r\n\r\n"
    parser = new_parser()
    cold = outcome(parser, head)
    assert cold == outcome(parser, head)
    section = head[head.index(b"\r\n") + 2 :]
    for _ in range(2):
        outcome(parser, b"GET / HTTP/1.1\r\n" + section)
    warm = outcome(parser, head)
    if isinstance(cold, int) and isinstance(warm, int):
        # One that breaks two rules may be told of the other one.
        assert {400, 405, 414, 417, 431} >= {cold, warm}
        return
    assert cold == warm


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
    data: bytes, name: bytes, place: int, values: list[bytes]
) -> None:
    """Whatever a connection is known by, each head means what it means alone."""
    parts = data.split(b"\r\n")
    place = min(max(1, place), max(1, len(parts) - 1))
    parser, known = new_parser(), list[HeaderBlock]()
    for value in values:
        for _ in range(3):
            lines = [*parts[:place], name + value, *parts[place:]]
            head = b"\r\n".join(lines).rstrip(b"\r\n") + b"\r\n\r\n"
            if head.find(b"\r\n\r\n") != len(head) - 4:
                return
            assert outcome(new_parser(), head) == outcome(parser, head, known)


def test_a_connection_is_known_by_few_senders() -> None:
    """Sections that came twice are known, the last first, and no more than a few."""
    parser, known = new_parser(), list[HeaderBlock]()
    for i in (1, 2, 3, 4, 5, 4):
        for _ in range(2):
            parsed(parser, b"GET / HTTP/1.1\r\nHost: h%d\r\n\r\n" % i, known)
    assert [b"h5", b"h4", b"h3"] == [each.fields.host for each in known]
    parsed(parser, b"GET / HTTP/1.1\r\nHost: h1\r\n\r\n", known)

    assert [b"h1", b"h5", b"h4"] == [each.fields.host for each in known]
    assert MAX_BLOCKS == len(known)


def test_other_fields_with_the_same_credentials() -> None:
    """Who asks does not depend on a trace's identifier."""
    parser, known = new_parser(), list[HeaderBlock]()
    section = b"Host: h\r\nAuthorization: Bearer %b\r\nTraceparent: %d\r\n\r\n"
    for _ in range(2):
        first = parser.parse(b"GET / HTTP/1.1\r\n" + section % (b"a", 1), known)
    first.block.authentication = identity = Authentication(ANONYMOUS, b"", 1)
    same = parser.parse(b"GET / HTTP/1.1\r\n" + section % (b"a", 2), known)
    other = parser.parse(b"GET / HTTP/1.1\r\n" + section % (b"b", 2), known)

    assert identity is same.block.authentication
    assert None is other.block.authentication


@given(data=heads)
def test_accepts_no_more_than_llhttp(data: bytes) -> None:
    """A head that is known in part is accepted only if a cold parse by llhttp accepts it.

    Methods but for those that mean more than fields say are the proxy's own to judge, as are bytes
    above 0x7F of a target.
    """
    head = data + b"\r\n"
    if head.find(b"\r\n\r\n") != len(head) - 4:
        return
    parser = new_parser()
    for _ in range(2):
        outcome(parser, b"GET / HTTP/1.1\r\n" + head[head.index(b"\r\n") + 2 :])
    if isinstance(outcome(parser, head), int):
        return
    found = parser.parse(head, [])
    judge = httptools.HttpRequestParser(object())
    method = found.method.encode()
    assert head.startswith(method + b" ")
    line, _, rest = head.partition(b"\n")
    head = re.sub(rb"[\x80-\xff]", b"x", line) + b"\n" + rest
    try:
        judge.feed_data(head if method == b"HEAD" else b"POST" + head[len(method) :])
    except httptools.HttpParserUpgrade:
        assert b"upgrade" in head.lower()

    assert re.fullmatch(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,64}", method)
    assert method == b"HEAD" or method.upper() not in {b"CONNECT", b"HEAD", b"PRI", b"TRACE"}


@given(data=st.one_of(heads, st.binary(max_size=40)), cuts=st.lists(st.integers(0, 60)))
def test_probe_refuses_nothing_that_is_well_formed(data: bytes, cuts: list[int]) -> None:
    """The start of a head is refused only if the whole of it is; nothing else is ever raised."""
    head = data + b"\r\n"
    probe = HeadProbe()
    most = len(head) - 1  # with its last byte it is whole, and no probe's business any more
    places = sorted({0, most, *(cut for cut in cuts if cut < most)})
    refused = 0
    try:
        for start, end in itertools.pairwise(places):
            probe.feed(head[start:end])
    except HeadError as error:
        refused = error.code

    assert refused in {0, 400, 405, 501}
    if refused and head.find(b"\r\n\r\n") == len(head) - 4:
        assert isinstance(outcome(new_parser(), head), int)


@pytest.mark.parametrize("head", [b"GET / HTTP/1.1\nHost: h\n\r\n", b"CONNECT ap1.0\n\r\n100"])
def test_probe_refuses_heads_that_end_otherwise(head: bytes) -> None:
    """What another parser may take for the end of a head is refused, and not waited behind."""
    with pytest.raises(HeadError) as refused:
        HeadProbe().feed(head)

    assert 400 == refused.value.code


def test_probe_is_gone_with_its_head() -> None:
    """Nothing of it waits for the collector of garbage, which is seldom about."""
    probe = HeadProbe()
    probe.feed(b"GET / HTT")

    assert [] == [each for each in gc.get_referrers(probe) if not isinstance(each, FrameType)]
