"""What the upstream is told of the user."""

from __future__ import annotations

from dataclasses import replace

import httptools
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.authn.authenticator import (
    AssertionRefusedError,
    front_proxy_lines,
    impersonation_lines,
)
from apfproxy.authn.credential_fields import CredentialRules, read_credentials
from apfproxy.request.user import ANONYMOUS, User
from apfproxy.settings import AuthenticationSettings

RULES = CredentialRules.of(AuthenticationSettings())
AUTHENTICATED, UNAUTHENTICATED = "system:authenticated", "system:unauthenticated"
ALL = User("\u00e9 x", ("g", "", "a\tb"), "1", (("a/B%", ("v", "")), ("k", ())))
ACCOUNT = "system:serviceaccount:ns:n"


class Fields:
    """What llhttp finds in a head."""

    def __init__(self, lines: bytes) -> None:
        self.found: list[tuple[bytes, bytes]] = []
        httptools.HttpRequestParser(self).feed_data(b"GET / HTTP/1.1\r\n" + lines + b"\r\n")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a field."""
        self.found.append((name.lower(), value.rstrip(b" \t")))


def plain(user: User) -> tuple[str, tuple[str, ...], str, dict[str, tuple[str, ...]]]:
    """The user, with the extra values of a key together, and in no order of the keys."""
    extra: dict[str, tuple[str, ...]] = {}
    for key, values in user.extra:
        if values:
            extra[key] = extra.get(key, ()) + values
    return user.name, user.groups, user.uid, extra


@pytest.mark.parametrize(
    ("user", "lines"),
    [
        pytest.param(User("u", ()), b"X-Remote-User: u\r\n", id="name"),
        pytest.param(
            ANONYMOUS,
            b"X-Remote-User: system:anonymous\r\nX-Remote-Group: system:unauthenticated\r\n",
            id="anonymous",
        ),
        pytest.param(
            ALL,
            b"X-Remote-User: \xc3\xa9 x\r\nX-Remote-Uid: 1\r\nX-Remote-Group: g\r\n"
            b"X-Remote-Group: \r\nX-Remote-Group: a\tb\r\n"
            b"X-Remote-Extra-a%2F%42%25: v\r\nX-Remote-Extra-a%2F%42%25: \r\n",
            id="all",
        ),
    ],
)
def test_front_proxy(user: User, lines: bytes) -> None:
    """Every group is named, the virtual ones too."""
    assert lines == front_proxy_lines(user)


@pytest.mark.parametrize(
    ("user", "groups"),
    [
        pytest.param(User("u", ("g", AUTHENTICATED)), ["g"], id="authenticated"),
        pytest.param(User("u", ("", AUTHENTICATED)), [""], id="empty"),
        pytest.param(ANONYMOUS, [], id="anonymous"),
        pytest.param(User("u", ()), [], id="none"),
        pytest.param(User("u", (UNAUTHENTICATED,)), [UNAUTHENTICATED], id="named-but-not-one"),
        pytest.param(
            User("u", (AUTHENTICATED, UNAUTHENTICATED)),
            [AUTHENTICATED, UNAUTHENTICATED],
            id="both",
        ),
        pytest.param(
            User(ANONYMOUS.name, (AUTHENTICATED, UNAUTHENTICATED)),
            [AUTHENTICATED],
            id="anonymous-and-authenticated",
        ),
        pytest.param(User(ACCOUNT, (AUTHENTICATED,)), [AUTHENTICATED], id="account-without-groups"),
        pytest.param(User(ACCOUNT, ("g", AUTHENTICATED)), ["g"], id="account"),
    ],
)
def test_groups_of_impersonation(user: User, groups: list[str]) -> None:
    """That which the server adds of its own accord is left out, and nothing else is added."""
    lines = b"".join(b"Impersonate-Group: %b\r\n" % group.encode() for group in groups)

    assert b"Impersonate-User: %b\r\n" % user.name.encode() + lines == impersonation_lines(user)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param(" ", id="space"),
        pytest.param(" admin", id="space-before"),
        pytest.param("admin\t", id="tab-behind"),
        pytest.param("a\r\nX-Remote-Group: system:masters", id="line"),
        pytest.param("a\nb", id="line-feed"),
        pytest.param("a\rb", id="carriage-return"),
        pytest.param("a\x00b", id="nul"),
        pytest.param("a\x7f", id="delete"),
        pytest.param("a\ud800", id="half-a-character"),
    ],
)
@pytest.mark.parametrize("lines", [front_proxy_lines, impersonation_lines])
def test_refuses(lines: object, text: str) -> None:
    """What a field would not carry as it is goes into none."""
    assert callable(lines)
    users = [User(text, ())]
    if text:
        users += [
            User("u", (text,)),
            User("u", (), text),
            User("u", (), "", (("k", (text,)),)),
        ]
    for user in users:
        with pytest.raises(AssertionRefusedError):
            lines(user)


@pytest.mark.parametrize("key", ["", "a\udc80"])
def test_refuses_keys(key: str) -> None:
    """Nor does a key that no name of a field can end with."""
    with pytest.raises(AssertionRefusedError):
        front_proxy_lines(User("u", (), "", ((key, ("v",)),)))


texts = st.one_of(
    st.text(max_size=6), st.sampled_from(["a", "A", "%41", "a:b", "\r\n", " a", "\u212a", "\x85"])
)
users = st.builds(
    User,
    texts,
    st.lists(st.one_of(texts, st.sampled_from([AUTHENTICATED, UNAUTHENTICATED]))).map(tuple),
    texts,
    st.lists(st.tuples(texts, st.lists(texts, max_size=2).map(tuple)), max_size=3).map(tuple),
)


@given(users)
def test_reads_back(user: User) -> None:
    """Whoever reads the lines, with any parser, reads the same user, and no other field.

    But for empty groups in the fields of a front proxy, which kube-apiserver leaves out.
    """
    try:
        asserted = Fields(front_proxy_lines(user)).found
        impersonated = Fields(impersonation_lines(user)).found
    except AssertionRefusedError:
        return
    claimed = read_credentials(RULES, asserted, [], []).claimed
    other = read_credentials(RULES, [], [], impersonated).impersonated

    assert claimed is not None
    assert other is not None
    groups = tuple(filter(None, user.groups))
    assert plain(replace(user, groups=groups)) == plain(claimed)
    virtual = {AUTHENTICATED, UNAUTHENTICATED}
    assert [g for g in user.groups if g not in virtual] == [
        g for g in other.groups if g not in virtual
    ]
    assert plain(user)[2:] == plain(other)[2:]
    assert user.name == other.name
