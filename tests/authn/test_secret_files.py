"""Files of bearer tokens and of API keys."""

from __future__ import annotations

import csv
import io
from base64 import b64encode
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.authn import secret_files
from apfproxy.authn.credentials import Verdict
from apfproxy.authn.secret_files import ApiKeys, BasicKeys, StaticTokens
from apfproxy.base.errors import OperatorError
from apfproxy.request.attributes import ANONYMOUS, User
from tests.authn.scripted_api import ADDRESS
from tests.support.credentials import sha256

if TYPE_CHECKING:
    from pathlib import Path

INFINITE = float("inf")


def taken(data: bytes) -> StaticTokens:
    tokens = StaticTokens("tokens.csv")
    tokens.take(data)
    return tokens


@pytest.mark.parametrize(
    ("data", "token", "user"),
    [
        pytest.param(b"t,jane,\n", "t", User("jane", ()), id="without-uid"),
        pytest.param(b't,j,7,"a,b"\n', "t", User("j", ("a", "b"), "7"), id="groups"),
        pytest.param(b't,j,7,"a,,b,"\n', "t", User("j", ("a", "", "b", ""), "7"), id="some-empty"),
        pytest.param(b't,j,7," a,b "\n', "t", User("j", (" a", "b "), "7"), id="spaces-count"),
        pytest.param(b'"a""b",j,7', 'a"b', User("j", (), "7"), id="doubled-quote"),
        pytest.param(b"\n\r\n\nt,j,7\r\n\n", "t", User("j", (), "7"), id="empty-lines"),
        pytest.param(b"t,j,7\r", "t", User("j", (), "7"), id="return-at-the-end"),
        pytest.param(b't,"j\r\nk",7\nu,v,w', "t", User("j\nk", (), "7"), id="line-in-field"),
        pytest.param("t,jané,7".encode(), "t", User("jané", (), "7"), id="utf-8"),
    ],
)
def test_known_token(data: bytes, token: str, user: User) -> None:
    assert Verdict(user, INFINITE) == taken(data).check(token)


@pytest.mark.parametrize("token", ["", "T", "t ", "j", "\ud800", "t" * 100_000])
async def test_unknown_token(token: str) -> None:
    tokens = taken(b"t,j,7\n")
    expected = Verdict(None, INFINITE, "the token is not in authentication.tokenFile")

    assert expected == tokens.check(token) == await tokens.review(token, ADDRESS)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        pytest.param(b"secret,j\n", ":1: 2 columns instead of 3 or 4", id="two-columns"),
        pytest.param(b"\n# x\n", "; comments are not possible", id="comment"),
        pytest.param(b",j,7\n", ":1: the token is empty", id="empty-token"),
        pytest.param(b"secret,,7\n", ":1: the user is empty", id="empty-user"),
        pytest.param(b"secret,j,7\n\nsecret,k,8", ":3: the token of line 1 again", id="twice"),
        pytest.param(b'secret,"j\nk",7\nt,j\n', ":3: 2 columns", id="line-after-line-in-field"),
        pytest.param(b'secret,j"k,7\n', ":1: a quote inside a field", id="bare-quote"),
        pytest.param(b'secret,"j"k,7\n', ":1: a quote inside a field", id="after-quote"),
        pytest.param(b"\nsecret\xff,j,7\n", ":2: not UTF-8", id="not-utf-8"),
        pytest.param(b"\xef\xbb\xbfsecret,j,7\n", ":1: begins with a byte order mark", id="bom"),
    ],
)
def test_bad_file(data: bytes, problem: str) -> None:
    tokens = taken(b"old,j,7\n")
    with pytest.raises(OperatorError) as error:
        tokens.take(data)

    assert str(error.value).startswith("tokens.csv:")
    assert problem in str(error.value)
    assert "secret" not in str(error.value)
    assert error.value.__cause__ is None
    assert User("j", (), "7") == tokens.check("old").user


def test_hash_in_place_of_a_token() -> None:
    """The token itself is refused, and the log says why; its hash is a token of its own."""
    tokens = taken(f"{sha256('secret')},j,7\n".encode())

    assert "hashes are for authentication.apiKeys.file" in tokens.check("secret").problem
    assert tokens.check(sha256("secret")).user == User("j", (), "7")


def test_no_token_is_kept() -> None:
    tokens = taken(b"secret-a,j,7\nsecret-b,k,8\n")

    assert "secret" not in repr(vars(tokens))


@given(data=st.binary(max_size=200) | st.text('a,"\r\n#', max_size=40).map(str.encode))
def test_any_file(data: bytes) -> None:
    try:
        taken(data)
    except OperatorError as error:
        assert str(error).startswith("tokens.csv:")  # noqa: PT017 - most data raise nothing


FIELDS = st.text(st.characters(codec="utf-8", exclude_characters="\r"), min_size=1, max_size=9)


@given(users=st.dictionaries(FIELDS.filter(lambda token: token[0] != "\ufeff"), FIELDS))
def test_what_a_csv_writer_writes(users: dict[str, str]) -> None:
    file = io.StringIO()
    csv.writer(file, quoting=csv.QUOTE_ALL).writerows(
        (token, name, "") for token, name in users.items()
    )
    tokens = taken(file.getvalue().encode())

    assert users == {
        token: user.name for token in users if (user := tokens.check(token).user) is not None
    }


ALICE = User("alice", ("batch", "dev"), "7")


def keys_of(text: str, *, is_unknown_anonymous: bool = False) -> ApiKeys:
    keys = ApiKeys("keys.csv", is_unknown_anonymous=is_unknown_anonymous)
    keys.take(text.encode())
    return keys


FILE = f'{sha256("k1")},alice,7,"batch,dev"\n{sha256("k2").upper()},bob,\n'


@pytest.mark.parametrize(
    ("key", "user"),
    [
        pytest.param("k1", ALICE, id="user-uid-and-groups"),
        pytest.param("k2", User("bob", ()), id="capital-digits"),
        pytest.param("k3", None, id="unknown"),
        pytest.param("", None, id="empty"),
        pytest.param(sha256("k1"), None, id="the-hash-itself"),
        pytest.param("\ud800", None, id="no-unicode"),
    ],
)
async def test_keys(key: str, user: User | None) -> None:
    keys = keys_of(FILE)
    verdict = keys.check(key)

    assert (user, INFINITE) == (verdict.user, verdict.lifetime_s)
    assert bool(verdict.problem) == (user is None)
    assert await keys.review(key, ADDRESS) is verdict


@pytest.mark.parametrize("is_unknown_anonymous", [False, True])
def test_hash_of_a_whole_line(is_unknown_anonymous: bool) -> None:
    keys = keys_of(f"{sha256('k1' + chr(10))},alice,", is_unknown_anonymous=is_unknown_anonymous)
    verdict = keys.check("k1")

    assert verdict.user is None
    assert verdict.problem.endswith("make it with: printf %s KEY | sha256sum")


@pytest.mark.parametrize(
    ("pair", "user"),
    [
        pytest.param("alice:k1", "alice", id="good"),
        pytest.param("bob:k1", "the key is another user's than Basic names", id="another-user"),
        pytest.param(":k1", "the key is another user's than Basic names", id="no-user"),
        pytest.param("alice:k3", "the key is not in authentication.apiKeys.file", id="unknown"),
        pytest.param("alice", "Basic has no password", id="malformed"),
    ],
)
async def test_basic(pair: str, user: str) -> None:
    basic = BasicKeys(keys_of(FILE))
    token = b64encode(pair.encode()).decode()
    verdict = basic.check(token)

    assert user == (verdict.user.name if verdict.user else verdict.problem)
    assert verdict == await basic.review(token, ADDRESS)


def test_basic_with_a_key_that_only_the_server_knows() -> None:
    """It counts as none, but malformed Basic is refused still."""
    keys = keys_of(FILE, is_unknown_anonymous=True)
    basic = BasicKeys(keys)

    assert keys.check("k3").user is ANONYMOUS
    assert basic.check(b64encode(b"a:b").decode()).user is ANONYMOUS
    assert basic.check("!").user is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("s3cret,alice,\n", ":1: the first column is not the SHA-256", id="key"),
        pytest.param(f"{sha256('')},alice,\n", ":1: this is the SHA-256 of nothing", id="nothing"),
        pytest.param(
            f"{sha256('a')},a,\n\n{sha256('a')},b,\n", ":3: the key of line 1", id="twice"
        ),
        pytest.param(",alice,\n", ":1: the sha256 is empty", id="no-hash"),
    ],
)
def test_refuses_a_file(text: str, message: str) -> None:
    keys = keys_of(FILE)
    with pytest.raises(OperatorError, match=message) as raised:
        keys.take(text.encode())

    assert "s3cret" not in str(raised.value)
    assert ALICE == keys.check("k1").user


def test_reads_its_file_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys that are gone count no more; a file that cannot be read changes nothing."""
    file = tmp_path / "keys.csv"
    file.write_text(FILE)
    keys = ApiKeys(file)
    assert keys.check("k1").user is None
    keys.load()
    assert ALICE == keys.check("k1").user
    file.write_text(f"{sha256('k9')},carol,\n")
    keys.load()
    assert keys.check("k1").user is None
    monkeypatch.setattr(secret_files, "MAX_FILE_BYTES", 10)
    with pytest.raises(OperatorError, match="larger than 10 bytes"):
        keys.load()
    file.unlink()
    with pytest.raises(OperatorError, match="cannot be read"):
        keys.load()
    assert User("carol", ()) == keys.check("k9").user
