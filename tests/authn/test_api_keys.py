"""API keys by their SHA-256."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from typing import TYPE_CHECKING

import pytest

from apfproxy.authn.secret_files import ApiKeys, BasicKeys, SecretFileError
from apfproxy.request.user import ANONYMOUS, User
from tests.authn.scripted_api import ADDRESS

if TYPE_CHECKING:
    from pathlib import Path

ALICE = User("alice", ("batch", "dev"), "7")
INFINITY = float("inf")


def sha256(key: str) -> str:
    """What sha256sum prints."""
    return hashlib.sha256(key.encode()).hexdigest()


def keys_of(text: str, *, is_unknown_anonymous: bool = False) -> ApiKeys:
    """The keys of a file with that content."""
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
    """Whoever has a key is the user of its line."""
    keys = keys_of(FILE)
    verdict = keys.check(key)

    assert (user, INFINITY) == (verdict.user, verdict.lifetime_s)
    assert bool(verdict.problem) == (user is None)
    assert await keys.review(key, ADDRESS) is verdict


@pytest.mark.parametrize("is_unknown_anonymous", [False, True])
def test_hash_of_a_whole_line(is_unknown_anonymous: bool) -> None:
    """The likely mistake is named, and lets nobody in."""
    keys = keys_of(f"{sha256('k1' + chr(10))},alice,", is_unknown_anonymous=is_unknown_anonymous)
    verdict = keys.check("k1")

    assert verdict.user is None
    assert verdict.problem.endswith("make it with: printf %s KEY | sha256sum")


def test_unknown_keys_may_be_anonymous() -> None:
    """Where only the server knows them."""
    assert keys_of(FILE, is_unknown_anonymous=True).check("k3").user is ANONYMOUS


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
    """The key is the password of its user, and of nobody else."""
    basic = BasicKeys(keys_of(FILE))
    verdict = basic.check(b64encode(pair.encode()).decode())
    later = await basic.review(b64encode(pair.encode()).decode(), ADDRESS)

    assert user == (verdict.user.name if verdict.user else verdict.problem)
    assert later == verdict


def test_basic_with_a_key_that_only_the_server_knows() -> None:
    """It counts as none, but a malformed one is refused still."""
    basic = BasicKeys(keys_of(FILE, is_unknown_anonymous=True))

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
        pytest.param(
            f"{sha256('a')}\n", "1 columns instead of 3 or 4, which are sha256,", id="one"
        ),
        pytest.param(f"{sha256('a')},,\n", ":1: the user is empty", id="nobody"),
        pytest.param(",alice,\n", ":1: the sha256 is empty", id="no-hash"),
    ],
)
def test_refuses_a_file(text: str, message: str) -> None:
    """A broken file leaves the keys as they were, and no problem shows a key."""
    keys = keys_of(FILE)
    with pytest.raises(SecretFileError, match=message) as raised:
        keys.take(text.encode())

    assert "s3cret" not in str(raised.value)
    assert ALICE == keys.check("k1").user


def test_reads_its_file_again(tmp_path: Path) -> None:
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
    file.unlink()
    with pytest.raises(SecretFileError, match="cannot be read"):
        keys.load()
    assert User("carol", ()) == keys.check("k9").user
