"""Tests of `apfproxy.apiserver.continue_token`."""

from __future__ import annotations

import base64
import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.apiserver.continue_token import LONGEST, decode, encode
from apfproxy.apiserver.errors import StatusError


def token_of(data: bytes) -> str:
    """The token that some data are."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


names = st.text("abc.-1", min_size=1).filter(lambda name: name not in {".", ".."})


@given(
    st.integers(-(1 << 63), (1 << 63) - 1).filter(bool),
    st.just("") | names,
    names,
)
def test_token(resource_version: int, namespace: str, name: str) -> None:
    """What a token is made of is what it says."""
    token = encode(resource_version, (namespace, name))

    assert (resource_version, (namespace, name)) == decode(token)


def test_form() -> None:
    """A token has the form of Kubernetes'."""
    expected = token_of(b'{"v":"meta.k8s.io/v1","rv":7,"start":"a/b\\u0000"}')

    assert expected == encode(7, ("a", "b"))


PREFIX = "invalid continue token: continue key is not valid: "


@pytest.mark.parametrize(
    ("token", "message"),
    [
        ("garbage", "invalid character"),
        ("*", "illegal base64 data"),
        ("\u20ac", "illegal base64 data"),
        ("a", "illegal base64 data"),
        ("a" * (LONGEST + 4), f"it has more than {LONGEST} characters"),
        ("", "unexpected end of JSON input"),
        (
            token_of(b"[]"),
            "json: cannot unmarshal array into Go value of type storage.continueToken",
        ),
        (
            token_of(b'{"rv":"a"}'),
            "json: cannot unmarshal string into Go struct field continueToken.rv of type int64",
        ),
        (token_of(b'{"v":"\xff"}'), ""),
        (token_of(b'{"v":"x"}'), "server does not recognize this encoded version x"),
        (
            token_of(b'{"v":"meta.k8s.io/v1","start":"a"}'),
            "incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
        ),
        (
            token_of(b'{"v":"meta.k8s.io/v1","rv":1}'),
            "encoded start key empty (version meta.k8s.io/v1)",
        ),
        (token_of(b'{"v":"meta.k8s.io/v1","rv":1,"start":"../a"}'), "../a"),
        (token_of(b'{"v":"meta.k8s.io/v1","rv":1,"start":"a//b"}'), "a//b"),
    ],
)
def test_refused(token: str, message: str) -> None:
    """What is no token is answered with 400."""
    with pytest.raises(StatusError) as caught:
        decode(token)

    assert 400 == caught.value.code
    assert caught.value.message.startswith(PREFIX + message)


@given(st.text() | st.binary().map(token_of))
def test_any_text(text: str) -> None:
    """Any text is a token or refused."""
    with contextlib.suppress(StatusError):
        resource_version, _ = decode(text)
        assert 0 != resource_version


def test_key_from_the_root() -> None:
    """A key may begin with a slash."""
    assert (1, ("", "a")) == decode(token_of(b'{"v":"meta.k8s.io/v1","rv":1,"start":"/a"}'))
