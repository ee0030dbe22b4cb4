"""User name and password of Basic."""

from __future__ import annotations

from base64 import b64encode

import pytest

from apfproxy.authn.credentials import BasicError, user_and_password


@pytest.mark.parametrize(
    ("pair", "found"),
    [
        pytest.param(b"alice:pass", ("alice", b"pass"), id="both"),
        pytest.param(b"alice:a:b", ("alice", b"a:b"), id="colon-in-the-password"),
        pytest.param(b"alice:", ("alice", b""), id="no-password"),
        pytest.param(b":key", ("", b"key"), id="no-user"),
        pytest.param("\u00e9:\u00e9".encode(), ("\u00e9", "\u00e9".encode()), id="utf-8"),
        pytest.param(b"a:\xff\x00", ("a", b"\xff\x00"), id="password-of-any-bytes"),
    ],
)
def test_reads(pair: bytes, found: tuple[str, bytes]) -> None:
    """The first colon parts them."""
    assert found == user_and_password(b64encode(pair).decode())


@pytest.mark.parametrize(
    ("encoded", "message"),
    [
        pytest.param(b64encode(b"alice").decode(), "has no password", id="no-colon"),
        pytest.param("", "has no password", id="empty"),
        pytest.param("YTpi!", "in Base64", id="no-base64"),
        pytest.param("YTp", "in Base64", id="cut"),
        pytest.param("YTpi YTpi", "in Base64", id="two"),
        pytest.param("\u00e9", "in Base64", id="no-ascii"),
        pytest.param(b64encode(b"\xff:s3cret").decode(), "in Base64", id="user-no-utf-8"),
    ],
)
def test_refuses(encoded: str, message: str) -> None:
    """What is no user name and password is said without a part of it."""
    with pytest.raises(BasicError, match=message) as raised:
        user_and_password(encoded)
    assert raised.value.__cause__ is None
    assert "s3cret" not in str(raised.value)
