"""Heads of requests."""

from __future__ import annotations

import gc
import itertools
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.http.grammar import HeadError
from apfproxy.http.request_fields import VIA, FieldRules
from apfproxy.http.request_head import HeadProbe, RequestHead, parse_head
from apfproxy.settings import AuthenticationSettings

NAMES = AuthenticationSettings().credential_rules
RULES = FieldRules(NAMES, max_fields=4, max_target_bytes=64, default_host=b"o:80")
END = b"X-Forwarded-Proto: http\r\n" + VIA + b"X-Forwarded-For: "

SERVED = [
    (b"GET /a HTTP/1.0", "GET", b"/a", b"GET /a HTTP/1.1"),
    (b"LIST /a HTTP/1.0", "LIST", b"/a", b"LIST /a HTTP/1.1"),
    (b"GET / HTTP/1.1", "GET", b"/", None),
    *(
        (b"%b %b HTTP/1.1" % (method.encode(), target), method, target, None)
        for method, target in (
            *(
                ("HEAD", b"/a?b=%20&c"),
                ("GET", b"//a/../b;c"),
                ("OPTIONS", b"*"),
                ("GET", b"http://h/a"),
            ),
            *(
                ("GET", b"HTTPS://H?a"),
                ("PROPFIND", b"/a"),
                ("M-SEARCH", b"/a"),
                ("LIST", b"/v1/a"),
            ),
            *(("GET", b"/\xc3\xa9?a=\xff"), ("HEAD", b"/\xc3\xa9"), ("GET", b"http://h/\xe9")),
            *(("Label_2", b"/a"), ("!#$%&'*+-.^_`|~", b"/a"), ("get", b"/a"), ("M" * 64, b"/a")),
        )
    ),
]
HOST = b"\r\nHost: h\r\n"
REFUSED = [
    *((line, 400) for line in (b"\r\n", b"GET / HTTP/1.1\r\n", b"PRI * HTTP/2.0\r\n")),
    *((b"GET /" + each + HOST, 400) for each in (b"", b" HTTP/0.9", b" HTTP/1.2", b" HTTP/2.0")),
    *((b"GET /" + each + HOST, 400) for each in (b" RTSP/1.0", b" HTTP/1.1 ", b"\xe9 HTTP/1.\xb1")),
    *(
        (each + b" / HTTP/1.1" + HOST, 400)
        for each in (b"PRI", b"L(ST", b"L\xc3ST", b" GET", b"GET ")
    ),
    *((each + b" / HTTP/1.1" + HOST, 405) for each in (b"head", b"traCE", b"pri", b"TRACE")),
    *((each + b" h:1 HTTP/1.1" + HOST, 405) for each in (b"Connect", b"CONNECT")),
    (b"%b / HTTP/1.1\r\nHost: h\r\n" % (b"M" * 65), 501),
    *((b"LIST" + each, 400) for each in (b"\t/ HTTP/1.1" + HOST, b"  / HTTP/1.1" + HOST)),
    *((b"LIST" + each, 400) for each in (b" /\nHTTP/1.1" + HOST, b" / RTSP/1.0" + HOST)),
    *((b"LIST / HTTP/1.1" + HOST[:-2] + b"\nA: b\r\n", 400), (b"GET / HTTP/1.1\nHost: h\r\n", 400)),
    *(
        (b"GET / HTTP/1.1" + fields + b"\r\n", 400)
        for fields in (
            *(
                b"\r\nHost: h\nA: b",
                b"\r\nHost: h\rA: b",
                b"\r\nHost: h\n\nGET /b HTTP/1.1\r\nHost: h",
            ),
            *(b"\r\nHost : h", b"\r\nHost: h\r\n a", b"\r\n Host: h", b"\r\nHost: h\0"),
            b"\r\nHost: h\r\nX\xe9: b",
        )
    ),
    *(
        (b"GET " + target + b" HTTP/1.1" + HOST, 400)
        for target in (
            *(b"/\xc3\xa9\x7f", b"\xc3\xa9", b"http://\xe9/", b"/a#b", b"a", b"*", b"http://i/"),
            *(b"http://u@h/", b"ftp://h/"),
        )
    ),
    (b"GET http://h/ HTTP/1.0\r\n", 400),
    *((b"GET /%b HTTP/%b\r\nHost: h\r\n" % (b"a" * 64, each), 414) for each in (b"1.1", b"1.0")),
    (b"GET / HTTP/1.1\r\nHost: h\r\n" + b"A: b\r\n" * 4, 431),
]
HEADS_OF_ALL_KINDS = [
    *(line + b"\r\nHost: h\r\n\r\n" for line, *_ in SERVED),
    *(head + b"\r\n" for head, _ in REFUSED),
]


def parse(head: bytes) -> RequestHead:
    return parse_head(head, RULES)


def refusal(head: bytes) -> int:
    try:
        parse(head)
    except HeadError as error:
        return error.code
    return 0


@pytest.mark.parametrize(("line", "method", "target", "forwarded"), SERVED)
def test_request_lines(line: bytes, method: str, target: bytes, forwarded: bytes | None) -> None:
    end = END.replace(b"Via: 1.1", b"Via: %b" % line[-3:])
    head = parse(line + b"\r\nHost: h\r\n\r\n")

    assert (method, target) == (head.method, head.target)
    assert (forwarded or line) + b"\r\nHost: h\r\n" + end == head.forwarded()
    assert (method == "HEAD") == head.is_head


@pytest.mark.parametrize(("head", "code"), REFUSED)
def test_refuses(head: bytes, code: int) -> None:
    assert code == refusal(head + b"\r\n")


def test_takes_as_much_as_the_limits_say() -> None:
    head = b"GET /%b HTTP/1.1\r\nHost: h\r\n%b\r\n" % (b"a" * 63, b"A: b\r\n" * 3)

    assert b"/" + b"a" * 63 == parse(head).target


def test_white_space_around_values_is_no_part_of_them() -> None:
    head = parse(b"POST / HTTP/1.1\r\nHost: \t h \t\r\nContent-Length: 3 \r\nA: b c\t\r\n\r\n")

    expected = b"POST / HTTP/1.1\r\nContent-Length: 3\r\nHost: h\r\nA: b c\r\n" + END
    assert expected == head.forwarded()
    assert 3 == head.body_bytes


lines = st.one_of(
    st.sampled_from(
        [b"POST /a HTTP/1.1", b"GET http://h/ HTTP/1.1", b"OPTIONS * HTTP/1.1", b"GET / HTTP/1.0"]
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


@given(data=st.one_of(heads, st.binary(max_size=40)), cuts=st.lists(st.integers(0, 60)))
def test_probe_refuses_nothing_that_is_well_formed(data: bytes, cuts: list[int]) -> None:
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
        assert refusal(head)


@pytest.mark.parametrize("head", [b"GET / HTTP/1.1\nHost: h\n\r\n", b"CONNECT ap1.0\n\r\n100"])
def test_probe_refuses_heads_that_end_otherwise(head: bytes) -> None:
    with pytest.raises(HeadError) as refused:
        HeadProbe().feed(head)

    assert 400 == refused.value.code


def test_probe_is_gone_with_its_head() -> None:
    probe = HeadProbe()
    probe.feed(b"GET / HTT")

    assert [] == [each for each in gc.get_referrers(probe) if not isinstance(each, FrameType)]
