"""Bearer tokens from a file."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.authn import secret_files as static_tokens
from apfproxy.authn.credentials import Verdict
from apfproxy.authn.secret_files import SecretFileError, StaticTokens
from apfproxy.request.user import User

if TYPE_CHECKING:
    from pathlib import Path

INFINITE = float("inf")


def taken(data: bytes) -> StaticTokens:
    """The tokens of a content."""
    tokens = StaticTokens("tokens.csv")
    tokens.take(data)
    return tokens


@pytest.mark.parametrize(
    ("data", "token", "user"),
    [
        pytest.param(b"t,jane,7", "t", User("jane", (), "7"), id="without-groups"),
        pytest.param(b"t,jane,\n", "t", User("jane", ()), id="without-uid"),
        pytest.param(b"t,jane,7,\n", "t", User("jane", ("",), "7"), id="empty-group"),
        pytest.param(b"t,jane,7,dev\n", "t", User("jane", ("dev",), "7"), id="one-group"),
        pytest.param(b't,j,7,"a,b"\n', "t", User("j", ("a", "b"), "7"), id="groups"),
        pytest.param(b't,j,7,""\n', "t", User("j", ("",), "7"), id="quoted-empty-group"),
        pytest.param(b't,j,7,"a,,b,"\n', "t", User("j", ("a", "", "b", ""), "7"), id="some-empty"),
        pytest.param(b't,j,7," a,b "\n', "t", User("j", (" a", "b "), "7"), id="spaces-count"),
        pytest.param(b'"a""b",j,7', 'a"b', User("j", (), "7"), id="doubled-quote"),
        pytest.param(b"\n\r\n\nt,j,7\r\n\n", "t", User("j", (), "7"), id="empty-lines"),
        pytest.param(b"t,j,7\r", "t", User("j", (), "7"), id="return-at-the-end"),
        pytest.param(b't,"j\r\nk",7\nu,v,w', "t", User("j\nk", (), "7"), id="line-in-field"),
        pytest.param("t,jané,7".encode(), "t", User("jané", (), "7"), id="utf-8"),
        pytest.param(b"#t,j,7", "#t", User("j", (), "7"), id="no-comments"),
        pytest.param(b"s,i,6\nt,j,7\nu,k,8\n", "t", User("j", (), "7"), id="among-others"),
    ],
)
def test_known_token(data: bytes, token: str, user: User) -> None:
    """The user of a token is the one in its record, for ever."""
    assert Verdict(user, INFINITE) == taken(data).check(token)


@pytest.mark.parametrize("token", ["", "T", "t ", " t", "tt", "j", "é", "\ud800", "t" * 100_000])
async def test_unknown_token(token: str) -> None:
    """Any other text is nobody's, at once and on review."""
    tokens = taken(b"t,j,7\n")

    assert Verdict(None, INFINITE, "the token is not in authentication.tokenFile") == tokens.check(
        token
    )
    assert tokens.check(token) == await tokens.review(token, "192.0.2.1")


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        pytest.param(b"secret,j\n", ":1: 2 columns instead of 3 or 4", id="two-columns"),
        pytest.param(b"secret,j,7,g,h\n", ":1: 5 columns instead of 3 or 4", id="five-columns"),
        pytest.param(b" \n", ":1: 1 columns instead of 3 or 4", id="blank-line"),
        pytest.param(b"\n# x\n", "; comments are not possible", id="comment"),
        pytest.param(b",j,7\n", ":1: the token is empty", id="empty-token"),
        pytest.param(b'"",j,7\n', ":1: the token is empty", id="quoted-empty-token"),
        pytest.param(b"secret,,7\n", ":1: the user is empty", id="empty-user"),
        pytest.param(b"secret,j,7\n\nsecret,k,8", ":3: the token of line 1 again", id="twice"),
        pytest.param(b'secret,"j\nk",7\nt,j\n', ":3: 2 columns", id="line-after-line-in-field"),
        pytest.param(b'secret,j"k,7\n', ":1: a quote inside a field", id="bare-quote"),
        pytest.param(b'secret,"j"k,7\n', ":1: a quote inside a field", id="after-quote"),
        pytest.param(b'\nsecret,"j,7\n', ":2: a quote inside a field", id="unfinished-quote"),
        pytest.param(b"\nsecret\xff,j,7\n", ":2: not UTF-8", id="not-utf-8"),
        pytest.param(b"\xef\xbb\xbfsecret,j,7\n", ":1: begins with a byte order mark", id="bom"),
    ],
)
def test_bad_file(data: bytes, problem: str) -> None:
    """A broken file is refused with file and line, without a token, and the old one stays."""
    tokens = taken(b"old,j,7\n")
    with pytest.raises(SecretFileError) as error:
        tokens.take(data)

    assert str(error.value).startswith("tokens.csv:")
    assert problem in str(error.value)
    assert "secret" not in str(error.value)
    assert error.value.__cause__ is None
    assert User("j", (), "7") == tokens.check("old").user


def test_reload() -> None:
    """A new file replaces the old one as a whole."""
    tokens = taken(b"old,j,7\nboth,j,7\n")
    tokens.take(b"new,k,8\nboth,k,8\n")

    assert [None, "k", "k"] == [
        user and user.name for user in (tokens.check(t).user for t in ("old", "new", "both"))
    ]


def test_load(tmp_path: Path) -> None:
    """The file is read when that is asked for."""
    path = tmp_path / "tokens.csv"
    path.write_bytes(b"t,j,7\n")
    tokens = StaticTokens(path)

    assert tokens.check("t").user is None
    tokens.load()
    assert User("j", (), "7") == tokens.check("t").user


def test_load_without_file(tmp_path: Path) -> None:
    """A file that is not there is an error that names it."""
    tokens = StaticTokens(tmp_path / "none.csv")
    with pytest.raises(SecretFileError, match=r"none\.csv: cannot be read: No such file"):
        tokens.load()


def test_load_of_a_huge_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is too large for a token file is not read as one."""
    monkeypatch.setattr(static_tokens, "MAX_FILE_BYTES", 10)
    path = tmp_path / "tokens.csv"
    path.write_bytes(b"t,j,7\n" * 2)
    with pytest.raises(SecretFileError, match="larger than 10 bytes"):
        StaticTokens(path).load()


def test_no_token_is_kept() -> None:
    """The object holds no token anywhere."""
    tokens = taken(b"secret-a,j,7\nsecret-b,k,8\n")

    assert "secret" not in repr(vars(tokens))


@given(data=st.binary(max_size=200) | st.text('a,"\r\n#', max_size=40).map(str.encode))
def test_any_file(data: bytes) -> None:
    """Any bytes are tokens or an error of ours."""
    try:
        taken(data)
    except SecretFileError as error:
        assert str(error).startswith("tokens.csv:")  # noqa: PT017 - most data raise nothing


FIELDS = st.text(st.characters(codec="utf-8", exclude_characters="\r"), min_size=1, max_size=9)


@given(users=st.dictionaries(FIELDS.filter(lambda token: token[0] != "\ufeff"), FIELDS))
def test_what_a_csv_writer_writes(users: dict[str, str]) -> None:
    """Whatever the standard library quotes, comes out again."""
    file = io.StringIO()
    csv.writer(file, quoting=csv.QUOTE_ALL).writerows(
        (token, name, "") for token, name in users.items()
    )
    tokens = taken(file.getvalue().encode())

    assert users == {
        token: user.name for token in users if (user := tokens.check(token).user) is not None
    }
