"""Tests of `apfproxy.request.attributes`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.request.attributes import (
    KNOWN_PARAMETERS,
    MAX_KNOWN_QUERIES,
    MAX_KNOWN_QUERY_BYTES,
    MAX_QUERY_PARAMETERS,
    AttributesError,
    decode_path,
    decode_text,
    known_parameters,
    known_queries,
    parse_query,
    split_target,
)


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        pytest.param(b"/a/b?c=d", "/a/b", b"c=d", id="origin-form"),
        pytest.param(b"/a?", "/a", b"", id="empty-query"),
        pytest.param(b"/a?b?c", "/a", b"b?c", id="second-question-mark"),
        pytest.param(b"//api/v1?x", "//api/v1", b"x", id="leading-slashes-are-no-authority"),
        pytest.param(b"/a%2Fb%20c+d;e", "/a/b c+d;e", b"", id="escapes-and-nothing-else"),
        pytest.param(b"/a/../b/./c", "/a/../b/./c", b"", id="dot-segments"),
        pytest.param(b"/a#b?c", "/a#b", b"c", id="no-fragments"),
        pytest.param(b"/caf\xc3\xa9", "/caf\u00e9", b"", id="utf-8"),
        pytest.param(b"/%c0%af\xe2\x82", "/" + 4 * "\ufffd", b"", id="each-byte-that-is-not-utf-8"),
        pytest.param(b"*", "*", b"", id="asterisk-form"),
        pytest.param(b"http://apf.test", "", b"", id="absolute-form-without-path"),
        pytest.param(b"http://apf.test?a=b", "", b"a=b", id="absolute-form-query-only"),
        pytest.param(b"HTTP://u:p@apf.test:80/a?b", "/a", b"b", id="absolute-form"),
        pytest.param(b"http://[::1]:80/a", "/a", b"", id="ipv6"),
        pytest.param(b"http://[fe80::1%25en%20]/a", "/a", b"", id="ipv6-zone"),
        pytest.param(b"http://a%C3%A9:/a", "/a", b"", id="escapes-in-host"),
        pytest.param(b"ftp://a:b:1/a", "/a", b"", id="colons-in-hosts-of-other-schemes"),
        pytest.param(b"x:/a/b", "/a/b", b"", id="scheme-without-authority"),
        pytest.param(b"mailto:a@b?c", "", b"c", id="opaque"),
    ],
)
def test_split_target(target: bytes, path: str, query: bytes) -> None:
    """A target is split as Go splits it."""
    raw_path, raw_query = split_target("GET", target)

    assert (path, query) == (decode_path(raw_path), raw_query)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        pytest.param(b"", "neither a path nor", id="empty"),
        pytest.param(b"a/b", "neither a path nor", id="relative"),
        pytest.param(b":a", "neither a path nor", id="no-scheme"),
        pytest.param(b"1http://a/", "neither a path nor", id="digit-before-scheme"),
        pytest.param(b"/a\x00", "control character", id="nul"),
        pytest.param(b"/a\x7f", "control character", id="delete"),
        pytest.param(b"/a%zz", "percent escape", id="bad-escape"),
        pytest.param(b"/a%2", "percent escape", id="short-escape"),
        pytest.param(b"http://a b/", "authority", id="space-in-host"),
        pytest.param(b"http://a%20b/", "authority", id="escaped-space-in-host"),
        pytest.param(b"http://a:b/", "authority", id="port-is-no-number"),
        pytest.param(b"http://a:1:2/", "authority", id="two-ports"),
        pytest.param(b"http://::1/", "authority", id="ipv6-without-brackets"),
        pytest.param(b"http://a[::1]/", "authority", id="text-before-bracket"),
        pytest.param(b"http://[::1/", "authority", id="no-closing-bracket"),
        pytest.param(b"http://[::1]x/", "authority", id="text-after-bracket"),
        pytest.param(b"http://[127.0.0.1]/", "authority", id="ipv4-in-brackets"),
        pytest.param(b"http://[::1%25]/", "authority", id="empty-zone"),
        pytest.param(b"http://[::1%25%7f]/", "authority", id="control-character-in-zone"),
        pytest.param(b"http://a{b@c/", "authority", id="bad-user"),
        pytest.param(b"http://a%z@c/", "authority", id="bad-escape-in-user"),
    ],
)
def test_split_target_refuses(target: bytes, message: str) -> None:
    """What Go's server refuses is refused, with a reason."""
    with pytest.raises(AttributesError, match=message):
        decode_path(split_target("GET", target)[0])


def test_connect_has_an_authority_for_a_target() -> None:
    """CONNECT names a host, or, as a request that is none, a path."""
    assert split_target("CONNECT", b"apf.test:443") == (b"", b"")
    assert split_target("CONNECT", b"/a?b") == (b"/a", b"b")


@pytest.mark.parametrize(
    ("query", "parameters"),
    [
        pytest.param(b"", {}, id="empty"),
        pytest.param(b"a=b&a=c&d", {"a": ("b", "c"), "d": ("",)}, id="repeated-and-bare"),
        pytest.param(b"&&a=b=c&", {"a": ("b=c",)}, id="second-equals-sign"),
        pytest.param(b"%61=b+%2B%26", {"a": ("b +&",)}, id="escapes"),
        pytest.param(b"a;b=c&d=e;f", {}, id="semicolons"),
        pytest.param(b"a=%zz&b%=c&d=%41", {"d": ("A",)}, id="bad-escapes"),
        pytest.param(b"a=%ff", {"a": ("\ufffd",)}, id="not-utf-8"),
        pytest.param(b"=a", {"": ("a",)}, id="empty-key"),
    ],
)
def test_parse_query(query: bytes, parameters: dict[str, tuple[str, ...]]) -> None:
    """A query is decoded as Go decodes it, without the parameters that Go drops."""
    assert parameters == dict(parse_query(query))


names = st.sampled_from(
    ["limit", "limi%zz", "%6cimi%74", "%6Cimit", "watch", "%57atch", "li", "x", ""]
)
parts = st.sampled_from(["=", "=5", "=%zz", "=%41+", "=a;b", "=\\x41", "=%5c%ff", "", "=a=b"])


@given(st.lists(st.tuples(names, parts).map("".join)).map("&".join))
def test_known_parameters(query: str) -> None:
    """Of what is known the first value is the same as that of all."""
    parsed = parse_query(query.encode())

    assert known_parameters(query.encode()) == {
        name: parsed[name][:1] for name in KNOWN_PARAMETERS if name in parsed
    }


def test_what_is_kept_of_queries_is_bounded() -> None:
    """Neither many queries nor a long one fill the memory; each is read as the first time."""
    for number in [*range(2 * MAX_KNOWN_QUERIES), *range(10)]:
        assert known_parameters(b"limit=%d&a=b" % number) == {"limit": (str(number),)}
    before = len(known_queries)
    assert before <= MAX_KNOWN_QUERIES
    known_parameters(b"limit=7&a=" + b"b" * MAX_KNOWN_QUERY_BYTES)
    assert before == len(known_queries)


def test_known_parameters_are_bounded() -> None:
    """With one parameter too many there is none."""
    most = b"&".join(b"limit=7" for _ in range(MAX_QUERY_PARAMETERS))

    assert known_parameters(most) == {"limit": ("7",)}
    assert known_parameters(most + b"&a") == {}


def test_parse_query_is_bounded() -> None:
    """With one parameter too many there is none."""
    most = b"&".join(b"a" for _ in range(MAX_QUERY_PARAMETERS))

    assert len(parse_query(most)["a"]) == MAX_QUERY_PARAMETERS
    assert dict(parse_query(most + b"&a")) == {}


def test_decode_text() -> None:
    """Every byte that is not part of UTF-8 is replaced by itself, surrogates too."""
    assert decode_text(b"\xed\xa0\x80") == 3 * "\ufffd"
