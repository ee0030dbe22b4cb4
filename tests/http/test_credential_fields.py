"""The header fields with credentials."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.http.credential_fields import (
    NO_CREDENTIALS,
    BasicError,
    CredentialRules,
    Credentials,
    CredentialsError,
    Lines,
    alias_of_address,
    is_impersonation,
    read_credentials,
    user_and_password,
)
from apfproxy.request.attributes import User
from apfproxy.settings import (
    ApiKeySettings,
    AuthenticationSettings,
    FrontProxySettings,
    UnverifiedSettings,
)
from tests.support.credentials import basic, digest

STANDARD = AuthenticationSettings().credential_rules
CUSTOM = AuthenticationSettings(
    front_proxy=FrontProxySettings(
        username_headers=("X-User", "X-Remote-User"),
        uid_headers=(),
        group_headers=("X-Group", "X-Remote-Group"),
        extra_header_prefixes=("X-Extra-", "X-More-"),
    )
).credential_rules
UNVERIFIED = UnverifiedSettings(
    is_by_basic=True,
    secret_headers=("Authorization", "X-Secret"),
    headers=("X-Client", "X-Team"),
    is_by_address=True,
)
NAMING = AuthenticationSettings(
    api_keys=ApiKeySettings(file="k.csv"), unverified=UNVERIFIED
).credential_rules


def lines(text: bytes) -> Lines:
    return [(name, value) for name, _, value in (each.partition(b"=") for each in text.split())]


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
def test_token_is_the_second_of_words_that_one_space_separates(value: bytes, token: str) -> None:
    assert token == read_credentials(STANDARD, [], [value], []).token
    found = read_credentials(STANDARD, [], [value], [], websocket_token=b"w")
    assert (token or "w") == found.token


@pytest.mark.parametrize(
    ("text", "rules", "user"),
    [
        pytest.param(b"", STANDARD, None, id="nothing"),
        pytest.param(b"x-remote-user=", STANDARD, None, id="empty-name"),
        pytest.param(b"x-remote-group=g", STANDARD, None, id="group-alone"),
        pytest.param(
            b"x-remote-group=b x-remote-user=u x-remote-group= x-remote-group=a x-remote-uid=1",
            STANDARD,
            User("u", ("b", "a"), "1"),
            id="all",
        ),
        pytest.param(
            b"x-remote-user=u x-remote-user= x-remote-user=u",
            STANDARD,
            User("u", ()),
            id="same-again",
        ),
        pytest.param(b"x-user=u", STANDARD, None, id="name-of-others"),
        pytest.param(
            b"x-remote-user=second x-user=first",
            CUSTOM,
            User("first", ()),
            id="order-of-the-settings",
        ),
        pytest.param(
            b"x-remote-user=second x-user=", CUSTOM, User("second", ()), id="first-that-has-any"
        ),
        pytest.param(
            b"x-remote-user=u x-remote-group=2 x-group=1",
            CUSTOM,
            User("u", ("1", "2")),
            id="groups-of-all-names",
        ),
        pytest.param(b"x-user=u x-remote-uid=1", CUSTOM, User("u", ()), id="uid"),
        pytest.param(
            b"x-user=u x-extra-b%2fc=1 x-more-a= x-extra-a=2 x-extra-=3 x-remote-extra-a=4",
            CUSTOM,
            User("u", (), "", (("a", ("", "2")), ("b/c", ("1",)))),
            id="extra",
        ),
    ],
)
def test_claimed_user_is_by_the_first_name_that_has_a_value(
    text: bytes, rules: CredentialRules, user: User | None
) -> None:
    assert user == read_credentials(rules, lines(text), [], []).claimed


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
def test_keys_are_unescaped_if_all_escapes_hold(name: bytes, key: str) -> None:
    named = lines(b"impersonate-user=u impersonate-extra-%b=v" % name)

    expected = User("u", (), "", ((key, ("v",)),))
    assert expected == read_credentials(STANDARD, [], [], named).impersonated


@pytest.mark.parametrize(
    ("text", "user"),
    [
        pytest.param(b"impersonate-user=u", User("u", ()), id="user"),
        pytest.param(
            b"impersonate-user=u impersonate-group=g impersonate-group= impersonate-uid=1",
            User("u", ("g", ""), "1"),
            id="all",
        ),
        pytest.param(b"impersonate-user=", None, id="empty"),
        pytest.param(b"impersonate-other=x", None, id="unknown"),
        pytest.param(b"impersonate-uid=", None, id="empty-uid"),
    ],
)
def test_impersonated_user_has_all_groups_even_the_empty_one(
    text: bytes, user: User | None
) -> None:
    assert user == read_credentials(STANDARD, [], [], lines(text)).impersonated


@pytest.mark.parametrize(
    ("claims", "authorizations", "impersonations", "message"),
    [
        (b"x-remote-user=a x-remote-user=b", [], b"", "x-remote-user is there"),
        (b"x-remote-user=a x-remote-uid=1 x-remote-uid=2", [], b"", "x-remote-uid is"),
        (b"x-remote-user=\xff", [], b"", "not UTF-8"),
        (b"x-remote-user=a x-remote-group=\xc0\x80", [], b"", "not UTF-8"),
        (b"x-remote-user=a x-remote-extra-%ff=v", [], b"", "not UTF-8"),
        (b"", [b"Bearer a"] * 2, b"", "more than once"),
        (b"", [b"Bearer \xff"], b"", "not UTF-8"),
        (b"", [], b"impersonate-user=a impersonate-user=b", "more than once"),
        *(
            (b"", [], named, "need Impersonate-User")
            for named in (
                b"impersonate-group=g",
                b"impersonate-group=",
                b"impersonate-uid=1",
                b"impersonate-user= impersonate-extra-a=b",
            )
        ),
    ],
)
def test_refuses_what_servers_might_read_as_different_users(
    claims: bytes, authorizations: list[bytes], impersonations: bytes, message: str
) -> None:
    with pytest.raises(CredentialsError, match=message):
        read_credentials(STANDARD, lines(claims), authorizations, lines(impersonations))


@pytest.mark.parametrize(
    ("name", "standard", "custom", "naming"),
    [
        pytest.param(b"x-remote-user", "claim", "claim", "claim", id="user"),
        pytest.param(b"x-remote-group", "claim", "claim", "claim", id="group"),
        pytest.param(b"x-remote-uid", "claim", "claim", "claim", id="uid-though-not-set"),
        pytest.param(b"x-remote-extra-", "claim", "claim", "claim", id="prefix-alone"),
        pytest.param(b"x-remote-extra-a", "claim", "claim", "claim", id="extra-though-not-set"),
        pytest.param(b"x-user", "", "claim", "", id="own"),
        pytest.param(b"x-more-a", "", "claim", "", id="own-prefix"),
        pytest.param(b"x-remote-users", "", "", "", id="longer"),
        pytest.param(b"x-api-key", "", "", "name", id="key"),
        pytest.param(b"x-team", "", "", "name", id="name"),
        pytest.param(b"authorization", "", "", "", id="read-anyway"),
        pytest.param(b"", "", "", "", id="no-key"),
    ],
)
def test_standard_names_are_for_front_proxies_whatever_settings_say(
    name: bytes, standard: str, custom: str, naming: str
) -> None:
    found = [
        "claim" if rules.is_claim(name) else "name" if rules.names_user(name) else ""
        for rules in (STANDARD, CUSTOM, NAMING)
    ]

    assert [standard, custom, naming] == found


def test_names_of_secrets_and_of_impersonation() -> None:
    assert {"x-api-key", "authorization", "x-secret"} == NAMING.secret_names
    assert is_impersonation(b"impersonate-user")
    assert not is_impersonation(b"impersonator")


@pytest.mark.parametrize(
    ("text", "authorization", "key", "name"),
    [
        pytest.param(b"", b"", "", None, id="nothing"),
        pytest.param(b"x-api-key=k", b"", "k", None, id="key"),
        pytest.param(b"x-api-key=", b"", "", None, id="empty-key"),
        pytest.param(b"x-api-key=k x-api-key=", b"", "k", None, id="one-key"),
        pytest.param(b"", b"Basic", "", None, id="basic-alone"),
        pytest.param(b"", b"\tbAsIc  YTpi ", "", "basic:a", id="basic-spelling"),
        pytest.param(b"", b"Basic OnB3", "", None, id="basic-without-a-user"),
        pytest.param(b"", b"Basic !", "", None, id="basic-malformed"),
        pytest.param(b"", b"BASIC  !", "", None, id="password-is-not-hashed"),
        pytest.param(b"", b"Basically YTpi", "", digest("YTpi"), id="other-scheme"),
        pytest.param(b"", b"token  abc", "", digest("abc"), id="any-scheme"),
        pytest.param(b"", b"Bearer t", "", digest("t"), id="token"),
        pytest.param(b"", b'Digest a="b", c="d"', "", None, id="digest"),
        pytest.param(b"", b"abc", "", None, id="no-scheme"),
        pytest.param(b"x-client=c", b"", "", "header:c", id="name"),
        pytest.param(b"x-client=system:admin", b"", "", "header:system:admin", id="system"),
        pytest.param(b"x-client=basic:al", b"", "", "header:basic:al", id="no-other-kind"),
        pytest.param(b"x-client= x-team=t", b"", "", "header:t", id="second"),
        pytest.param(b"x-other=t", b"", "", None, id="another"),
        pytest.param(b"x-client=" + b"a" * 256, b"", "", "header:" + "a" * 256, id="longest"),
        pytest.param(b"x-client=\xc3\xa9,b", b"", "", "header:\u00e9,b", id="text"),
        pytest.param(b"x-secret=s x-client=c x-api-key=k", b"", "k", digest("s"), id="all"),
        pytest.param(b"x-secret=s x-client=c", b"Basic YTpi", "", "basic:a", id="basic-before-all"),
        pytest.param(b"x-secret=s", b"Bearer t", "", digest("t"), id="order-of-the-settings"),
        pytest.param(
            b"x-secret=k x-secret= x-secret=l x-secret=k", b"", "", digest("k, l"), id="secrets"
        ),
        pytest.param(b"x-secret=\xff", b"", "", "key:a8100ae6aa1940d0", id="secret-no-utf-8"),
    ],
)
def test_first_name_that_is_there_counts_and_is_in_one_group_only(
    text: bytes, authorization: bytes, key: str, name: str | None
) -> None:
    authorizations = [authorization] if authorization else []
    found = read_credentials(NAMING, [], authorizations, [], lines(text))

    alias = None if name is None else User(name, ("system:unauthenticated",))
    assert (key, alias, None) == (found.key, found.alias, found.source)
    assert "YTpi" not in repr(found)


@pytest.mark.parametrize(
    ("authorization", "expected"),
    [(b"\tbAsIc  YTpi ", "YTpi"), (b"Basic", ""), (b"Basically YTpi", ""), (b"Bearer YTpi", "")],
)
def test_basic(authorization: bytes, expected: str) -> None:
    assert expected == read_credentials(NAMING, [], [authorization], []).basic
    assert "" == read_credentials(STANDARD, [], [authorization], []).basic


@pytest.mark.parametrize(
    ("text", "authorization", "message"),
    [
        pytest.param(b"x-api-key=k x-api-key=l", b"", "x-api-key is", id="two-keys"),
        pytest.param(b"x-client=k x-client=l", b"", "x-client is", id="two-names"),
        pytest.param(b"x-client=\xff", b"", "not UTF-8", id="no-utf-8"),
        pytest.param(b"x-api-key=\xff", b"", "not UTF-8", id="key-no-utf-8"),
        pytest.param(b"x-client=" + b"a" * 257, b"", "x-client is longer than 256", id="long"),
        pytest.param(b"x-client=" + b"\xc3\xa9" * 129, b"", "longer than 256", id="long-in-bytes"),
        pytest.param(b"x-client=a\x1bb", b"", "x-client has a character that", id="control"),
        pytest.param(b"x-client=a\xe2\x80\xaeb", b"", "cannot be printed", id="right-to-left"),
        pytest.param(b"x-client=a\xc2\x9bb", b"", "cannot be printed", id="terminal"),
        pytest.param(b"", basic(b"a\nb:c").encode(), "user name of Basic has", id="basic-control"),
        pytest.param(b"", basic(b"a" * 257 + b":").encode(), "of Basic is longer", id="basic-long"),
    ],
)
def test_refuses_names_that_servers_might_read_otherwise_or_cannot_be_printed(
    text: bytes, authorization: bytes, message: str
) -> None:
    with pytest.raises(CredentialsError, match=message):
        read_credentials(NAMING, [], [b"Basic " + authorization], [], lines(text))


def test_fields_mean_nothing_without_settings() -> None:
    named = lines(b"x-api-key=k x-client=c")

    for authorizations in ([], [b"Basic YTpi"]):
        found = read_credentials(STANDARD, [], authorizations, [], named, address="192.0.2.7")
        assert found is NO_CREDENTIALS


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        pytest.param("192.0.2.7", "address:192.0.2.7", id="ipv4"),
        pytest.param("::ffff:192.0.2.7", "address:192.0.2.7", id="mapped"),
        pytest.param("2001:db8:1:2:3:4:5:6", "address:2001:db8:1:2::/64", id="ipv6"),
        pytest.param("fe80::1%eth0", "address:fe80::/64", id="zone"),
        pytest.param("unknown", None, id="unix-socket"),
        pytest.param("", None, id="none"),
    ],
)
def test_addresses_of_ipv6_are_told_apart_by_their_network(
    address: str, expected: str | None
) -> None:
    alias = None if expected is None else User(expected, ("system:unauthenticated",))

    assert alias == alias_of_address(address)
    assert alias == read_credentials(NAMING, [], [], [], address=address).source


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
def test_user_and_password(pair: bytes, found: tuple[str, bytes]) -> None:
    assert found == user_and_password(basic(pair))


@pytest.mark.parametrize(
    ("encoded", "message"),
    [
        pytest.param(basic(b"alice"), "has no password", id="no-colon"),
        pytest.param("", "has no password", id="empty"),
        pytest.param("YTpi!", "in Base64", id="no-base64"),
        pytest.param("YTp", "in Base64", id="cut"),
        pytest.param("YTpi YTpi", "in Base64", id="two"),
        pytest.param("\u00e9", "in Base64", id="no-ascii"),
        pytest.param(basic(b"\xff:s3cret"), "in Base64", id="user-no-utf-8"),
    ],
)
def test_refuses_basic(encoded: str, message: str) -> None:
    with pytest.raises(BasicError, match=message) as raised:
        user_and_password(encoded)
    assert raised.value.__cause__ is None
    assert "s3cret" not in str(raised.value)


names = st.sampled_from(
    [b"user", b"group", b"uid", b"extra-", b"extra-a", b"extra-%41", b"extra-%", b"extra-%ff", b""]
)
values = st.one_of(st.sampled_from([b"", b"a", b"b", b"\xff"]), st.binary(max_size=8))
lines_of = st.lists(st.tuples(names, values), max_size=6)


@given(claims=lines_of, tokens=st.lists(st.binary(max_size=20), max_size=2), others=lines_of)
def test_any_fields_are_credentials_or_refused(
    claims: Lines, tokens: list[bytes], others: Lines
) -> None:
    try:
        found = read_credentials(
            STANDARD,
            [(b"x-remote-" + name, value) for name, value in claims],
            [b"Bearer " + token for token in tokens],
            [(b"impersonate-" + name, value) for name, value in others],
        )
    except CredentialsError:
        return
    secret = Credentials("s3cret", found.claimed, found.impersonated)
    assert "s3cret" not in repr(secret)
    assert repr(secret) == repr(found)
