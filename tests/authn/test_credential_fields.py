"""The header fields with credentials."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.authn.credential_fields import (
    CredentialRules,
    CredentialsError,
    Lines,
    is_impersonation,
    read_credentials,
)
from apfproxy.authn.credentials import NO_CREDENTIALS, Credentials
from apfproxy.request.attributes import User
from apfproxy.settings import (
    ApiKeySettings,
    AuthenticationSettings,
    FrontProxySettings,
    UnverifiedSettings,
)
from tests.authn.test_unverified_names import basic, digest

STANDARD = CredentialRules.of(AuthenticationSettings())
CUSTOM = CredentialRules.of(
    AuthenticationSettings(
        front_proxy=FrontProxySettings(
            username_headers=("X-User", "X-Remote-User"),
            uid_headers=(),
            group_headers=("X-Group", "X-Remote-Group"),
            extra_header_prefixes=("X-Extra-", "X-More-"),
        )
    )
)


def claimed(*lines: tuple[bytes, bytes], rules: CredentialRules = STANDARD) -> User | None:
    """Whom the fields of a front proxy name."""
    return read_credentials(rules, list(lines), [], []).claimed


def impersonated(*lines: tuple[bytes, bytes]) -> User | None:
    """Whom the fields of impersonation name."""
    return read_credentials(STANDARD, [], [], list(lines)).impersonated


@pytest.mark.parametrize(
    ("value", "token"),
    [
        pytest.param(b"Bearer t", "t", id="plain"),
        pytest.param(b"bEaReR t", "t", id="case"),
        pytest.param(b"Bearer t more words", "t", id="second-word"),
        pytest.param(b" \tBearer t\t", "t", id="around"),
        pytest.param(b"Bearer a, Bearer b", "a,", id="list"),
        pytest.param(b"Bearer \xc3\xa9", "\u00e9", id="not-ascii"),
        pytest.param(b"Bearer", "", id="no-token"),
        pytest.param(b"Bearer  t", "", id="two-spaces"),
        pytest.param(b"Bearer\tt", "", id="tab"),
        pytest.param(b"Bearert", "", id="one-word"),
        pytest.param(b"Basic YTpi", "", id="basic"),
        pytest.param(b"", "", id="empty"),
    ],
)
def test_token(value: bytes, token: str) -> None:
    """The second of words that one space separates, as in kube-apiserver."""
    assert token == read_credentials(STANDARD, [], [value], []).token


def test_token_of_the_subprotocol() -> None:
    """It counts where Authorization has none."""
    tokens = [
        read_credentials(STANDARD, [], values, [], websocket_token=b"w").token
        for values in ([], [b"Basic x"], [b"Bearer t"])
    ]

    assert ["w", "w", "t"] == tokens


@pytest.mark.parametrize(
    ("lines", "rules", "user"),
    [
        pytest.param([], STANDARD, None, id="nothing"),
        pytest.param([(b"x-remote-user", b"")], STANDARD, None, id="empty-name"),
        pytest.param([(b"x-remote-group", b"g")], STANDARD, None, id="group-alone"),
        pytest.param(
            [
                (b"x-remote-group", b"b"),
                (b"x-remote-user", b"u"),
                (b"x-remote-group", b""),
                (b"x-remote-group", b"a"),
                (b"x-remote-uid", b"1"),
            ],
            STANDARD,
            User("u", ("b", "a"), "1"),
            id="all",
        ),
        pytest.param(
            [(b"x-remote-user", b"u"), (b"x-remote-user", b""), (b"x-remote-user", b"u")],
            STANDARD,
            User("u", ()),
            id="same-again",
        ),
        pytest.param([(b"x-user", b"u")], STANDARD, None, id="name-of-others"),
        pytest.param(
            [(b"x-remote-user", b"second"), (b"x-user", b"first")],
            CUSTOM,
            User("first", ()),
            id="order-of-the-settings",
        ),
        pytest.param(
            [(b"x-remote-user", b"second"), (b"x-user", b"")],
            CUSTOM,
            User("second", ()),
            id="first-that-has-any",
        ),
        pytest.param(
            [(b"x-remote-user", b"u"), (b"x-remote-group", b"2"), (b"x-group", b"1")],
            CUSTOM,
            User("u", ("1", "2")),
            id="groups-of-all-names",
        ),
        pytest.param([(b"x-user", b"u"), (b"x-remote-uid", b"1")], CUSTOM, User("u", ()), id="uid"),
        pytest.param(
            [
                (b"x-user", b"u"),
                (b"x-extra-b%2fc", b"1"),
                (b"x-more-a", b""),
                (b"x-extra-a", b"2"),
                (b"x-extra-", b"3"),
                (b"x-remote-extra-a", b"4"),
            ],
            CUSTOM,
            User("u", (), "", (("a", ("", "2")), ("b/c", ("1",)))),
            id="extra",
        ),
    ],
)
def test_claimed(lines: Lines, rules: CredentialRules, user: User | None) -> None:
    """Names are those of the settings, and of a kind the first counts that has a value."""
    assert user == claimed(*lines, rules=rules)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        pytest.param(b"acme.com%2fproject", "acme.com/project", id="escaped"),
        pytest.param(b"%41b", "Ab", id="capital"),
        pytest.param(b"%0d%0ax", "\r\nx", id="line-end"),
        pytest.param(b"%c3%a9", "\u00e9", id="utf-8"),
        pytest.param(b"%2541", "%41", id="once"),
        pytest.param(b"%41%4", "%41%4", id="one-that-is-none"),
        pytest.param(b"a%zz", "a%zz", id="no-escape"),
        pytest.param(b"a+b", "a+b", id="plus"),
    ],
)
def test_keys(name: bytes, key: str) -> None:
    """Keys are percent-encoded in names of fields; all escapes hold, or none."""
    user = impersonated((b"impersonate-user", b"u"), (b"impersonate-extra-" + name, b"v"))

    assert User("u", (), "", ((key, ("v",)),)) == user


@pytest.mark.parametrize(
    ("lines", "user"),
    [
        pytest.param([(b"impersonate-user", b"u")], User("u", ()), id="user"),
        pytest.param(
            [
                (b"impersonate-user", b"u"),
                (b"impersonate-group", b"g"),
                (b"impersonate-group", b""),
                (b"impersonate-uid", b"1"),
            ],
            User("u", ("g", ""), "1"),
            id="all",
        ),
        pytest.param([(b"impersonate-user", b"")], None, id="empty"),
        pytest.param([(b"impersonate-other", b"x")], None, id="unknown"),
        pytest.param([(b"impersonate-uid", b"")], None, id="empty-uid"),
    ],
)
def test_impersonated(lines: Lines, user: User | None) -> None:
    """Every group that is named needs leave, even the empty one."""
    assert user == impersonated(*lines)


@pytest.mark.parametrize(
    ("claims", "authorizations", "impersonations", "message"),
    [
        pytest.param([], [b"Bearer a"] * 2, [], "more than once", id="two-tokens"),
        pytest.param([], [b"Bearer \xff"], [], "not UTF-8", id="token-no-text"),
        pytest.param(
            [(b"x-remote-user", b"a"), (b"x-remote-user", b"b")],
            [],
            [],
            "x-remote-user is there more than once",
            id="two-users",
        ),
        pytest.param(
            [(b"x-remote-user", b"a"), (b"x-remote-uid", b"1"), (b"x-remote-uid", b"2")],
            [],
            [],
            "x-remote-uid is there more than once",
            id="two-uids",
        ),
        pytest.param([(b"x-remote-user", b"\xff")], [], [], "not UTF-8", id="user-no-text"),
        pytest.param(
            [(b"x-remote-user", b"a"), (b"x-remote-group", b"\xc0\x80")],
            [],
            [],
            "not UTF-8",
            id="overlong",
        ),
        pytest.param(
            [(b"x-remote-user", b"a"), (b"x-remote-extra-%ff", b"v")],
            [],
            [],
            "not UTF-8",
            id="key-no-text",
        ),
        pytest.param(
            [], [], [(b"impersonate-user", b"a"), (b"impersonate-user", b"b")], "once", id="two"
        ),
        pytest.param([], [], [(b"impersonate-group", b"g")], "need Impersonate-User", id="group"),
        pytest.param([], [], [(b"impersonate-group", b"")], "need Impersonate-User", id="no-group"),
        pytest.param([], [], [(b"impersonate-uid", b"1")], "need Impersonate-User", id="uid"),
        pytest.param(
            [],
            [],
            [(b"impersonate-user", b""), (b"impersonate-extra-a", b"b")],
            "need Impersonate-User",
            id="extra-of-an-empty-user",
        ),
    ],
)
def test_refuses(
    claims: Lines, authorizations: list[bytes], impersonations: Lines, message: str
) -> None:
    """Where servers might read different users, there is none."""
    with pytest.raises(CredentialsError, match=message):
        read_credentials(STANDARD, claims, authorizations, impersonations)


@pytest.mark.parametrize(
    ("name", "standard", "custom"),
    [
        pytest.param(b"x-remote-user", True, True, id="user"),
        pytest.param(b"x-remote-group", True, True, id="group"),
        pytest.param(b"x-remote-uid", True, True, id="uid-though-not-set"),
        pytest.param(b"x-remote-extra-", True, True, id="prefix-alone"),
        pytest.param(b"x-remote-extra-a", True, True, id="extra-though-not-set"),
        pytest.param(b"x-user", False, True, id="own"),
        pytest.param(b"x-more-a", False, True, id="own-prefix"),
        pytest.param(b"x-remote-users", False, False, id="longer"),
        pytest.param(b"remote-user", False, False, id="another"),
    ],
)
def test_claims(name: bytes, standard: bool, custom: bool) -> None:
    """Kubernetes' own names are for front proxies only, whatever the settings call them."""
    assert (standard, custom) == (STANDARD.is_claim(name), CUSTOM.is_claim(name))


def test_nothing_is_no_credentials() -> None:
    """One object for all who show none."""
    assert read_credentials(STANDARD, [], [], []) is NO_CREDENTIALS
    assert is_impersonation(b"impersonate-user")
    assert not is_impersonation(b"impersonator")


def anonymous(name: str) -> User:
    """The user that an anonymous client counts as."""
    return User(name, ("system:unauthenticated",))


NAMING = CredentialRules.of(
    AuthenticationSettings(
        api_keys=ApiKeySettings(file="k.csv", is_basic=True),
        unverified=UnverifiedSettings(
            secret_headers=("X-Secret", "Authorization"), headers=("X-Client", "X-Team")
        ),
    )
)


@pytest.mark.parametrize(
    ("lines", "authorization", "expected"),
    [
        pytest.param([], b"", NO_CREDENTIALS, id="nothing"),
        pytest.param([(b"x-api-key", b"k")], b"", Credentials(key="k"), id="key"),
        pytest.param([(b"x-api-key", b"")], b"", NO_CREDENTIALS, id="empty-key"),
        pytest.param(
            [(b"x-api-key", b"k"), (b"x-api-key", b"")], b"", Credentials(key="k"), id="one"
        ),
        pytest.param([], b"Basic YTpi", Credentials(basic="YTpi"), id="basic"),
        pytest.param([], b"\tbAsIc  YTpi ", Credentials(basic="YTpi"), id="basic-spelling"),
        pytest.param([], b"Basic", NO_CREDENTIALS, id="basic-alone"),
        pytest.param(
            [], b"Basically YTpi", Credentials(alias=anonymous(digest("YTpi"))), id="other-scheme"
        ),
        pytest.param(
            [],
            b"Bearer t",
            Credentials("t", alias=anonymous(digest("t"))),
            id="token-that-tells-apart",
        ),
        pytest.param(
            [(b"x-client", b"c")], b"", Credentials(alias=anonymous("header:c")), id="name"
        ),
        pytest.param(
            [(b"x-client", b""), (b"x-team", b"t")],
            b"",
            Credentials(alias=anonymous("header:t")),
            id="second",
        ),
        pytest.param(
            [(b"x-secret", b"s"), (b"x-client", b"c"), (b"x-api-key", b"k")],
            b"",
            Credentials(key="k", alias=anonymous(digest("s"))),
            id="all",
        ),
        pytest.param(
            [(b"x-secret", b"k"), (b"x-secret", b""), (b"x-secret", b"l"), (b"x-secret", b"k")],
            b"",
            Credentials(alias=anonymous(digest("k, l"))),
            id="secrets",
        ),
        pytest.param(
            [(b"x-secret", b"\xff")],
            b"",
            Credentials(alias=anonymous("key:a8100ae6aa1940d0")),
            id="secret-no-utf-8",
        ),
    ],
)
def test_naming(lines: Lines, authorization: bytes, expected: Credentials) -> None:
    """What tells clients apart."""
    found = read_credentials(NAMING, [], [authorization] if authorization else [], [], lines)

    assert expected == found
    assert "YTpi" not in repr(found)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        pytest.param([(b"x-api-key", b"k"), (b"x-api-key", b"l")], "x-api-key is", id="two-keys"),
        pytest.param([(b"x-client", b"k"), (b"x-client", b"l")], "x-client is", id="two-names"),
        pytest.param([(b"x-client", b"\xff")], "not UTF-8", id="no-utf-8"),
        pytest.param([(b"x-api-key", b"\xff")], "not UTF-8", id="key-no-utf-8"),
        pytest.param([(b"x-client", b"a" * 65536)], "longer than 256 bytes", id="long"),
    ],
)
def test_refuses_names(lines: Lines, message: str) -> None:
    """Where the server might read another one, or nobody can."""
    with pytest.raises(CredentialsError, match=message):
        read_credentials(NAMING, [], [], [], lines)


def test_naming_without_settings() -> None:
    """A field means nothing unless a setting gives it a meaning."""
    lines = [(b"x-api-key", b"k"), (b"x-client-id", b"c")]

    assert read_credentials(STANDARD, [], [b"Basic YTpi"], [], lines) is NO_CREDENTIALS
    assert not STANDARD.names_user(b"x-api-key")
    assert NAMING.names_user(b"x-api-key")
    assert NAMING.names_user(b"x-team")
    assert NAMING.names_user(b"x-remote-user")
    assert not NAMING.is_claim(b"x-api-key")
    assert basic(b"a:b") == "YTpi"


names = st.sampled_from(
    [b"user", b"group", b"uid", b"extra-", b"extra-a", b"extra-%41", b"extra-%", b"extra-%ff", b""]
)
values = st.one_of(st.sampled_from([b"", b"a", b"b", b"\xff"]), st.binary(max_size=8))
lines_of = st.lists(st.tuples(names, values), max_size=6)


@given(claims=lines_of, tokens=st.lists(st.binary(max_size=20), max_size=2), others=lines_of)
def test_any_fields(claims: Lines, tokens: list[bytes], others: Lines) -> None:
    """Whatever they hold, they are credentials or refused, and no repr shows a token."""
    try:
        found = read_credentials(
            STANDARD,
            [(b"x-remote-" + name, value) for name, value in claims],
            [b"Bearer " + token for token in tokens],
            [(b"impersonate-" + name, value) for name, value in others],
        )
    except CredentialsError:
        return
    assert type(found) is Credentials
    secret = Credentials("s3cret", found.claimed, found.impersonated)
    assert "s3cret" not in repr(secret)
    assert repr(secret) == repr(found)
