"""The header fields with credentials."""

from __future__ import annotations

import pytest

from apfproxy.http.credential_fields import (
    NO_CREDENTIALS,
    BasicError,
    CredentialRules,
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
    cookies=("sessionid", "connect.sid"),
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
        *(
            (value, "t")
            for value in b"Bearer t|bEaReR t|Bearer t more words| \tBearer t\t".split(b"|")
        ),
        (b"Bearer a, Bearer b", "a,"),
        (b"Bearer \xc3\xa9", "\u00e9"),
        *((value, "") for value in b"Bearer|Bearer  t|Bearer\tt|Bearert|Basic YTpi|".split(b"|")),
    ],
)
def test_token_is_the_second_of_words_that_one_space_separates(value: bytes, token: str) -> None:
    assert token == read_credentials(STANDARD, [], [value], []).token
    found = read_credentials(STANDARD, [], [value], [], websocket_token=b"w")
    assert (token or "w") == found.token


@pytest.mark.parametrize(
    ("text", "rules", "user"),
    [
        *(
            (text, STANDARD, None)
            for text in b"|x-remote-user=|x-remote-group=g|x-user=u".split(b"|")
        ),
        (
            b"x-remote-group=b x-remote-user=u x-remote-group= x-remote-group=a x-remote-uid=1",
            STANDARD,
            User("u", ("b", "a"), "1"),
        ),
        (b"x-remote-user=u x-remote-user= x-remote-user=u", STANDARD, User("u", ())),
        (b"x-remote-user=second x-user=first", CUSTOM, User("first", ())),
        (b"x-remote-user=second x-user=", CUSTOM, User("second", ())),
        (b"x-remote-user=u x-remote-group=2 x-group=1", CUSTOM, User("u", ("1", "2"))),
        (b"x-user=u x-remote-uid=1", CUSTOM, User("u", ())),
        (
            b"x-user=u x-extra-b%2fc=1 x-more-a= x-extra-a=2 x-extra-=3 x-remote-extra-a=4",
            CUSTOM,
            User("u", (), "", (("a", ("", "2")), ("b/c", ("1",)))),
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
        (b"acme.com%2fproject", "acme.com/project"),
        (b"%41b", "Ab"),
        (b"%0d%0ax", "\r\nx"),
        (b"%c3%a9", "\u00e9"),
        (b"%2541", "%41"),
        *((text.encode(), text) for text in ("%41%4", "a%zz", "a+b")),
    ],
)
def test_keys_are_unescaped_if_all_escapes_hold(name: bytes, key: str) -> None:
    named = lines(b"impersonate-user=u impersonate-extra-%b=v" % name)

    expected = User("u", (), "", ((key, ("v",)),))
    assert expected == read_credentials(STANDARD, [], [], named).impersonated


@pytest.mark.parametrize(
    ("text", "user"),
    [
        (b"impersonate-user=u", User("u", ())),
        (
            b"impersonate-user=u impersonate-group=g impersonate-group= impersonate-uid=1",
            User("u", ("g", ""), "1"),
        ),
        *((text, None) for text in (b"impersonate-user=", b"impersonate-x=x", b"impersonate-uid=")),
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
    ("names", "standard", "custom", "naming"),
    [
        (b"x-remote-user x-remote-group x-remote-uid x-remote-extra-", "claim", "claim", "claim"),
        (b"x-remote-extra-a", "claim", "claim", "claim"),
        (b"x-user x-more-a", "", "claim", ""),
        (b"x-api-key x-team cookie", "", "", "name"),
        (b"x-remote-users authorization", "", "", ""),
    ],
)
def test_standard_names_are_for_front_proxies_whatever_settings_say(
    names: bytes, standard: str, custom: str, naming: str
) -> None:
    for name in names.split():
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
        (b"x-api-key=k", b"", "k", None),
        (b"x-api-key=k x-api-key=", b"", "k", None),
        (b"", b"\tbAsIc  YTpi ", "", "basic:a"),
        (b"", b"Basically YTpi", "", digest("YTpi")),
        (b"", b"token  abc", "", digest("abc")),
        (b"", b"Bearer t", "", digest("t")),
        *((b"", value, "", None) for value in b"|Basic|Basic OnB3|BASIC  !|abc".split(b"|")),
        (b"", b'Digest a="b", c="d"', "", None),
        (b"x-api-key= x-other=t", b"", "", None),
        (b"x-client=system:admin", b"", "", "header:system:admin"),
        (b"x-client=basic:al", b"", "", "header:basic:al"),
        (b"x-client= x-team=t", b"", "", "header:t"),
        (b"x-client=" + b"a" * 256, b"", "", "header:" + "a" * 256),
        (b"x-client=\xc3\xa9,b", b"", "", "header:\u00e9,b"),
        (b"x-secret=s x-client=c x-api-key=k", b"", "k", digest("s")),
        (b"x-secret=s x-client=c", b"Basic YTpi", "", "basic:a"),
        (b"x-secret=s", b"Bearer t", "", digest("t")),
        (b"x-secret=k x-secret= x-secret=l x-secret=k", b"", "", digest("k, l")),
        (b"x-secret=\xff", b"", "", "key:a8100ae6aa1940d0"),
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
        (b"x-api-key=k x-api-key=l", b"", "x-api-key is"),
        (b"x-client=k x-client=l", b"", "x-client is"),
        (b"x-client=\xff", b"", "not UTF-8"),
        (b"x-api-key=\xff", b"", "not UTF-8"),
        (b"x-client=" + b"a" * 257, b"", "x-client is longer than 256"),
        (b"x-client=" + b"\xc3\xa9" * 129, b"", "longer than 256"),
        *((b"x-client=" + each, b"", "cannot be printed") for each in (b"a\x1b", b"\xe2\x80\xaeb")),
        (b"x-client=a\xc2\x9bb", b"", "x-client has a character that cannot be printed"),
        (b"", basic(b"a\nb:c").encode(), "user name of Basic has"),
        (b"", basic(b"a" * 257 + b":").encode(), "of Basic is longer"),
    ],
)
def test_refuses_names_that_servers_might_read_otherwise_or_cannot_be_printed(
    text: bytes, authorization: bytes, message: str
) -> None:
    with pytest.raises(CredentialsError, match=message):
        read_credentials(NAMING, [], [b"Basic " + authorization], [], lines(text))


def session(value: str) -> str:
    return "cookie:" + digest(value).removeprefix("key:")


@pytest.mark.parametrize(
    ("cookies", "name"),
    [
        (["sessionid=a"], session("a")),
        (["x=1; sessionid = a\t; y=2"], session("a")),
        (["x=1", "y=2;sessionid=a", "sessionid=b"], session("a")),
        (["connect.sid=b; sessionid=a"], session("a")),
        (["connect.sid=b", "sessionid= "], session("b")),
        (['sessionid="a=b"'], session('"a=b"')),
        *(([text], "header:c") for text in ("", ";", "Sessionid=a", "xsessionid=a", "sessionid")),
        *(([text], "header:c") for text in ("sessionid=;", "connect-sid=a", "x=sessionid=a")),
    ],
)
def test_session_cookies_come_after_secrets_and_before_names(cookies: list[str], name: str) -> None:
    """The first of several fields and values counts."""
    fields = [(b"cookie", each.encode()) for each in cookies]
    found = read_credentials(NAMING, [], [], [], [(b"x-client", b"c"), *fields])
    assert User(name, ("system:unauthenticated",)) == found.alias
    found = read_credentials(NAMING, [], [], [], [*fields, (b"x-secret", b"s")])
    assert User(digest("s"), ("system:unauthenticated",)) == found.alias


def test_fields_mean_nothing_without_settings() -> None:
    named = lines(b"x-api-key=k x-client=c")

    for authorizations in ([], [b"Basic YTpi"]):
        found = read_credentials(STANDARD, [], authorizations, [], named, address="192.0.2.7")
        assert found is NO_CREDENTIALS


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("192.0.2.7", "address:192.0.2.7"),
        ("::ffff:192.0.2.7", "address:192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "address:2001:db8:1:2::/64"),
        ("fe80::1%eth0", "address:fe80::/64"),
        ("unknown", None),
        ("", None),
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
        (b"alice:a:b", ("alice", b"a:b")),
        (b"alice:", ("alice", b"")),
        (b":key", ("", b"key")),
        ("\u00e9:\u00e9".encode(), ("\u00e9", "\u00e9".encode())),
        (b"a:\xff\x00", ("a", b"\xff\x00")),
    ],
)
def test_user_and_password(pair: bytes, found: tuple[str, bytes]) -> None:
    assert found == user_and_password(basic(pair))


@pytest.mark.parametrize(
    ("encoded", "message"),
    [
        *((encoded, "has no password") for encoded in (basic(b"alice"), "")),
        *((encoded, "in Base64") for encoded in ("YTpi!", "YTp", "YTpi YTpi", "\u00e9")),
        (basic(b"\xff:s3cret"), "in Base64"),
    ],
)
def test_refuses_basic(encoded: str, message: str) -> None:
    with pytest.raises(BasicError, match=message) as raised:
        user_and_password(encoded)
    assert raised.value.__cause__ is None
    assert "s3cret" not in str(raised.value)
