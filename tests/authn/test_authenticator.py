"""Authentication, and the header lines that name the user to the upstream."""

from __future__ import annotations

from typing import TYPE_CHECKING

import httptools
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from apfproxy.authn.authenticator import (
    FOREVER_NS,
    NOT_KNOWN_WHETHER,
    AssertionRefusedError,
    Authentication,
    Authenticator,
    Refusal,
    Rules,
    front_proxy_lines,
    impersonation_lines,
)
from apfproxy.authn.credentials import UNKNOWN_PEER, Peer, Verdict
from apfproxy.authn.impersonation import Impersonations, effective
from apfproxy.authn.secret_files import ApiKeys, BasicKeys
from apfproxy.authn.unverified_names import RENEWAL_NS, NamesOfAddresses
from apfproxy.http.credential_fields import (
    NO_CREDENTIALS,
    Credentials,
    read_credentials,
)
from apfproxy.request.attributes import ANONYMOUS, User, unverified
from apfproxy.settings import (
    FRONT_PROXY,
    IMPERSONATE,
    PASS_THROUGH,
    AuthenticationSettings,
    ImpersonationSettings,
)
from tests.authn.scripted_api import ADDRESS
from tests.support.clocks import VirtualClock
from tests.support.credentials import basic, sha256

if TYPE_CHECKING:
    from collections.abc import Callable

S = 1_000_000_000
NOW_S = 5000.0
AUTHENTICATED, UNAUTHENTICATED = "system:authenticated", "system:unauthenticated"

CLAIMED = User("claimed", ("front",), "1", (("k", ("v",)),))
OF_CERTIFICATE = User("certificate", ("org",))
OF_TOKEN = User("token", ("dev",))
WANTED = User("wanted", ("ops",))

FRONT = Peer(is_front_proxy=True)
FRONT_CERTIFICATE = Peer(is_front_proxy=True, has_certificate=True)
CERTIFICATE = Peer(OF_CERTIFICATE, has_certificate=True)
BOTH = Peer(OF_CERTIFICATE, is_front_proxy=True, has_certificate=True)
BAD = Peer(has_certificate=True, problem="the certificate is bad")
EXPIRED = replace(CERTIFICATE, valid_until_s=NOW_S)
EXPIRED_FRONT = replace(FRONT_CERTIFICATE, valid_until_s=NOW_S - 1)

OVER = "401 the client's certificate has expired"
NO_USER = "401 a front proxy names no user, and its certificate is no user's"

CLAIM = Credentials(claimed=CLAIMED)
GOOD = Credentials("good")
SLOW = Credentials("slow")
WRONG = Credentials("wrong")
OPEN = Credentials("open")
SLOW_OPEN = Credentials("slow-open")


class Tokens:
    """Knows `good` at once, and `slow` once it is asked for; `open` cannot be verified now."""

    def __init__(self, name: str = "") -> None:
        self.known = {name + "good"}
        self._name = name
        self.reviewed: list[str] = []

    def check(self, token: str) -> Verdict | None:
        if token in {self._name + "slow", "slow-open"}:
            return None
        return self._verdict(token in self.known, is_open=token == self._name + "open")

    async def review(self, token: str, address: str) -> Verdict:
        assert address == ADDRESS
        self.reviewed.append(token)
        return self._verdict(token == self._name + "slow", is_open=token.endswith("open"))

    def _verdict(self, is_known: bool, *, is_open: bool) -> Verdict:
        problem = "" if is_known else f"{self._name}away" if is_open else f"no {self._name}token"
        return Verdict(OF_TOKEN if is_known else None, 30.0, problem, is_open)


class Leave(Impersonations):
    """Says at once, or once it is asked, who may be whom; `asked` are the pairs."""

    def __init__(
        self, *, answer: bool | None, is_known: bool = True, leave_s: float = float("inf")
    ) -> None:
        super().__init__(ImpersonationSettings(), None)
        self._answer = answer
        self._is_known = is_known
        self._leave_s = leave_s
        self.asked: list[tuple[User, User]] = []

    def check(self, user: User, wanted: User) -> bool | None:
        self.asked.append((user, wanted))
        return self._answer if self._is_known else None

    async def review(self, user: User, wanted: User, address: str) -> bool | None:
        assert address == ADDRESS
        self.asked.append((user, wanted))
        return self._answer

    def lifetime_s(self, user: User, wanted: User) -> float:  # noqa: ARG002  the base's signature
        return self._leave_s


def authenticator(
    rules: Rules | None = None,
    impersonations: Impersonations | None = None,
    *tokens: Tokens,
) -> Authenticator:
    return Authenticator(
        VirtualClock(S),
        rules or Rules(judges_certificates=True),
        tokens or (Tokens(),),
        impersonations,
        lambda: b"0wn",
        lambda: NOW_S,
    )


async def found(
    subject: Authenticator, peer: Peer, credentials: Credentials
) -> Authentication | Refusal:
    """The outcome, which must be the same whether it is known at once or later."""
    at_once = subject.authenticate(peer, credentials)
    later = await subject.authenticate_later(peer, credentials, ADDRESS)
    assert at_once in (None, later)
    return later


async def identified(
    subject: Authenticator, peer: Peer, credentials: Credentials
) -> Authentication:
    result = await found(subject, peer, credentials)
    assert isinstance(result, Authentication)
    return result


def name_of(result: Authentication | Refusal) -> str:
    if isinstance(result, Refusal):
        return f"{result.code} {result.problem}"
    return result.user.name


def lines(prefix: str, *fields: str) -> bytes:
    """Header lines whose names begin with this; impersonation has the proxy's own token."""
    own = b"Authorization: Bearer 0wn\r\n" if prefix == "Impersonate-" else b""
    return own + b"".join(f"{prefix}{field}\r\n".encode() for field in fields)


@pytest.mark.parametrize(
    ("peer", "credentials", "who"),
    [
        # Nothing but what the peer is.
        pytest.param(UNKNOWN_PEER, NO_CREDENTIALS, "system:anonymous", id="nothing"),
        pytest.param(CERTIFICATE, NO_CREDENTIALS, "certificate", id="certificate"),
        pytest.param(FRONT, NO_CREDENTIALS, "system:anonymous", id="front-by-address"),
        pytest.param(FRONT_CERTIFICATE, NO_CREDENTIALS, NO_USER, id="front-by-certificate"),
        pytest.param(BOTH, NO_CREDENTIALS, "certificate", id="front-that-is-a-user"),
        pytest.param(BAD, NO_CREDENTIALS, "401 the certificate is bad", id="bad-certificate"),
        pytest.param(EXPIRED, NO_CREDENTIALS, OVER, id="expired"),
        # Fields of front proxies come first, and count for front proxies only.
        pytest.param(UNKNOWN_PEER, CLAIM, "system:anonymous", id="claim-of-nobody"),
        pytest.param(CERTIFICATE, CLAIM, "certificate", id="claim-of-a-user"),
        pytest.param(FRONT, CLAIM, "claimed", id="claim"),
        pytest.param(BOTH, CLAIM, "claimed", id="claim-before-certificate"),
        pytest.param(FRONT, replace(GOOD, claimed=CLAIMED), "claimed", id="claim-before-token"),
        pytest.param(FRONT, replace(WRONG, claimed=CLAIMED), "claimed", id="claim-and-bad-token"),
        pytest.param(EXPIRED_FRONT, CLAIM, OVER, id="claim-under-an-expired-certificate"),
        pytest.param(EXPIRED_FRONT, replace(GOOD, claimed=CLAIMED), "token", id="expired-token"),
        # Then certificates.
        pytest.param(CERTIFICATE, GOOD, "certificate", id="certificate-before-token"),
        pytest.param(CERTIFICATE, WRONG, "certificate", id="certificate-and-bad-token"),
        # Then tokens, which make up for a certificate that is no good.
        pytest.param(UNKNOWN_PEER, GOOD, "token", id="token"),
        pytest.param(UNKNOWN_PEER, SLOW, "token", id="reviewed-token"),
        pytest.param(FRONT, GOOD, "token", id="token-through-a-front"),
        pytest.param(BAD, GOOD, "token", id="token-and-bad-certificate"),
        pytest.param(EXPIRED, SLOW, "token", id="token-and-expired-certificate"),
        # One that is no good is not none.
        pytest.param(UNKNOWN_PEER, WRONG, "401 no token", id="bad-token"),
        pytest.param(FRONT, WRONG, "401 no token", id="bad-token-through-a-front"),
        pytest.param(UNKNOWN_PEER, replace(WRONG, claimed=CLAIMED), "401 no token", id="forged"),
        # One that may be good is neither.
        pytest.param(UNKNOWN_PEER, OPEN, "503 away", id="open"),
        pytest.param(UNKNOWN_PEER, SLOW_OPEN, "503 away", id="open-after-asking"),
        pytest.param(CERTIFICATE, OPEN, "certificate", id="certificate-and-open-token"),
    ],
)
@pytest.mark.parametrize("allows_anonymous", [True, False])
async def test_order(
    peer: Peer, credentials: Credentials, who: str, allows_anonymous: bool
) -> None:
    """Kubernetes' order; without anonymous requests only those without credentials are refused."""
    rules = Rules(allows_anonymous=allows_anonymous, judges_certificates=True)
    if who == "system:anonymous" and not allows_anonymous:
        who = "401 no credentials"

    assert who == name_of(await found(authenticator(rules), peer, credentials))


async def test_no_credentials_of_a_user() -> None:
    # A credential, so it is served even where anonymous requests are refused.
    claimed = User(ANONYMOUS.name, ("g",))
    strict = authenticator(Rules(allows_anonymous=False))
    assert claimed == (await identified(strict, FRONT, Credentials(claimed=claimed))).user
    # No credential of a user without a CA of users.
    result = await identified(authenticator(Rules()), FRONT_CERTIFICATE, NO_CREDENTIALS)
    assert ANONYMOUS == result.user
    # No credential without authenticators of tokens: the upstream may well know it.
    subject = Authenticator(VirtualClock(S), now_s=lambda: NOW_S)
    assert ANONYMOUS == (await identified(subject, UNKNOWN_PEER, GOOD)).user


async def test_order_of_token_authenticators() -> None:
    """The first that knows the token decides; one that has to ask is asked in its turn."""
    first, second = Tokens("a"), Tokens("b")
    subject = authenticator(None, None, first, second)
    names = [
        name_of(await found(subject, UNKNOWN_PEER, Credentials(token)))
        for token in ("agood", "bgood", "aslow", "bslow", "wrong", "aopen", "bopen")
    ]

    assert ["token", "token", "token", "token", "401 no atoken; no btoken"] == names[:5]
    # Open to one and no one's to the other, it is open.
    assert ["503 aaway; no btoken", "503 no atoken; baway"] == names[5:]
    assert (["aslow"], ["bslow"]) == (first.reviewed, second.reviewed)
    # Open to one and somebody's to the other, it is theirs.
    second.known.add("aopen")
    assert "token" == name_of(await found(subject, UNKNOWN_PEER, Credentials("aopen")))
    assert subject.authenticate(UNKNOWN_PEER, Credentials("aslow")) is None


ROOT = Credentials(claimed=User("u", ("system:masters",)))
NOBODY = ("User: system:anonymous", "Group: system:unauthenticated")
AS_CLAIMED = ("User: claimed", "Uid: 1", "Group: front", "Extra-k: v")


@pytest.mark.parametrize(
    ("assertion", "peer", "credentials", "fields"),
    [
        pytest.param(PASS_THROUGH, UNKNOWN_PEER, GOOD, (), id="pass-token"),
        pytest.param(PASS_THROUGH, CERTIFICATE, CLAIM, (), id="pass-certificate"),
        pytest.param(PASS_THROUGH, FRONT, CLAIM, AS_CLAIMED, id="pass-claim"),
        pytest.param(FRONT_PROXY, UNKNOWN_PEER, NO_CREDENTIALS, NOBODY, id="front-nobody"),
        pytest.param(
            FRONT_PROXY,
            FRONT,
            ROOT,
            ("User: u", "Group: system:masters", "Group: system:authenticated"),
            id="front-claim",
        ),
        pytest.param(IMPERSONATE, UNKNOWN_PEER, NO_CREDENTIALS, NOBODY[:1], id="imp-nobody"),
        pytest.param(
            IMPERSONATE,
            CERTIFICATE,
            WRONG,
            ("User: certificate", "Group: org"),
            id="imp-certificate",
        ),
        pytest.param(IMPERSONATE, FRONT, CLAIM, AS_CLAIMED, id="imp-claim"),
    ],
)
async def test_lines(
    assertion: str, peer: Peer, credentials: Credentials, fields: tuple[str, ...]
) -> None:
    prefix = "Impersonate-" if assertion == IMPERSONATE else "X-Remote-"
    result = await identified(authenticator(Rules(assertion=assertion)), peer, credentials)

    assert lines(prefix, *fields) == result.lines


REAL = lines("X-Remote-", "User: token", "Group: dev", "Group: system:authenticated")
BECOMES = lines("Impersonate-", "User: wanted", "Group: ops")
FORBIDDEN = (
    '403 users "wanted" is forbidden: User "token" cannot impersonate resource "users"'
    ' in API group "" at the cluster scope'
)


@pytest.mark.parametrize(
    ("assertion", "leave", "who", "told"),
    [
        pytest.param(PASS_THROUGH, None, "token", b"", id="pass-unasked"),
        pytest.param(PASS_THROUGH, False, "token", b"", id="pass-denied"),
        pytest.param(PASS_THROUGH, True, "wanted", b"", id="pass-allowed"),
        pytest.param(FRONT_PROXY, None, "token", REAL, id="front-unasked"),
        pytest.param(FRONT_PROXY, False, "token", REAL, id="front-denied"),
        pytest.param(FRONT_PROXY, True, "wanted", REAL, id="front-allowed"),
        pytest.param(IMPERSONATE, None, FORBIDDEN, b"", id="impersonate-unasked"),
        pytest.param(IMPERSONATE, False, FORBIDDEN, b"", id="impersonate-denied"),
        pytest.param(IMPERSONATE, True, "wanted", BECOMES, id="impersonate-allowed"),
        pytest.param(PASS_THROUGH, "open", "token", b"", id="pass-open"),
        pytest.param(FRONT_PROXY, "open", "token", REAL, id="front-open"),
        pytest.param(IMPERSONATE, "open", f"503 {NOT_KNOWN_WHETHER}", b"", id="impersonate-open"),
    ],
)
@pytest.mark.parametrize("is_known", [True, False])
async def test_impersonation(
    assertion: str, leave: bool | str | None, is_known: bool, who: str, told: bytes
) -> None:
    """With leave it changes the class; the upstream judges it, unless the proxy's rights do."""
    is_known = is_known and leave != "open"
    answer = leave if isinstance(leave, bool) else None
    leaves = None if leave is None else Leave(answer=answer, is_known=is_known)
    subject = authenticator(Rules(assertion=assertion), leaves)
    for token in ("good", "slow"):
        credentials = Credentials(token, impersonated=WANTED)
        result = await found(subject, UNKNOWN_PEER, credentials)
        if isinstance(result, Authentication):
            assert (who, told) == (result.user.name, result.lines)
        else:
            assert who == f"{result.code} {result.message}"
        if leaves is not None and not is_known:
            assert subject.authenticate(UNKNOWN_PEER, credentials) is None
    if leaves is not None:
        real = User("token", ("dev", AUTHENTICATED))
        assert {(real, WANTED)} == set(leaves.asked)
        assert effective(WANTED) == User("wanted", ("ops", AUTHENTICATED))


async def test_leave_is_of_the_real_user() -> None:
    """Unknown users get no further; users that a client only claims are not asked for."""
    leaves = Leave(answer=True)
    subject = authenticator(None, leaves)
    for peer, credentials in (
        (UNKNOWN_PEER, replace(WRONG, impersonated=WANTED)),
        (BAD, Credentials(impersonated=WANTED)),
    ):
        assert isinstance(await found(subject, peer, credentials), Refusal)
    assert [] == leaves.asked
    forged = Credentials("good", CLAIMED, WANTED)
    await found(subject, UNKNOWN_PEER, forged)
    assert {"token"} == {real.name for real, _ in leaves.asked}


@pytest.mark.parametrize("assertion", [FRONT_PROXY, IMPERSONATE])
async def test_user_that_no_field_can_carry(assertion: str) -> None:
    """No user is taken for another that the name would turn into on its way."""
    peer = Peer(User(" admin", ()), has_certificate=True)
    subject = authenticator(Rules(assertion=assertion))

    assert "401 a name or value of the user cannot be in a header field" == name_of(
        await found(subject, peer, NO_CREDENTIALS)
    )


@pytest.mark.parametrize(
    ("peer", "credentials", "leave_s", "valid_s"),
    [
        pytest.param(UNKNOWN_PEER, NO_CREDENTIALS, None, None, id="nobody-for-ever"),
        pytest.param(FRONT, CLAIM, None, None, id="claim-by-address-for-ever"),
        pytest.param(replace(CERTIFICATE, valid_until_s=NOW_S + 7), GOOD, None, 7, id="peer"),
        pytest.param(replace(FRONT, valid_until_s=NOW_S + 7), CLAIM, None, 7, id="front"),
        pytest.param(UNKNOWN_PEER, GOOD, None, 30, id="token"),
        pytest.param(EXPIRED, GOOD, None, 30, id="token-beside-an-expired-certificate"),
        pytest.param(UNKNOWN_PEER, GOOD, 10.0, 10, id="leave"),
        pytest.param(UNKNOWN_PEER, GOOD, 40.0, 30, id="leave-beyond-the-token"),
        pytest.param(FRONT, CLAIM, 0.0, 0, id="no-answer"),
        pytest.param(
            replace(CERTIFICATE, valid_until_s=1e30), NO_CREDENTIALS, None, None, id="never"
        ),
    ],
)
async def test_validity(
    peer: Peer, credentials: Credentials, leave_s: float | None, valid_s: int | None
) -> None:
    """An identity holds as long as all that it hangs on, on the clock of the process."""
    leaves = None
    if leave_s is not None:
        leaves = Leave(answer=True, leave_s=leave_s)
        credentials = replace(credentials, impersonated=WANTED)
    result = await identified(authenticator(None, leaves), peer, credentials)

    assert result.valid_until_ns == (FOREVER_NS if valid_s is None else (1 + valid_s) * S)


async def test_counts_and_shows_no_token() -> None:
    subject = authenticator(Rules(assertion=IMPERSONATE))
    identity = await identified(subject, UNKNOWN_PEER, GOOD)
    for credentials in (NO_CREDENTIALS, WRONG, SLOW):
        subject.authenticate(UNKNOWN_PEER, credentials)

    counters = subject.counters
    assert (1, 2, 1) == (counters.anonymous, counters.authenticated, counters.refused)
    assert b"Bearer" in identity.lines
    assert "Bearer" not in repr(identity)


KEY = Credentials(key="k1")
BAD_KEY = Credentials(key="k2")
PASSWORD = Credentials(basic=basic(b"keyed:k1"))
BAD_PASSWORD = Credentials(basic=basic(b"keyed:k2"))
NO_KEY = "the key is not in authentication.apiKeys.file"


def with_keys(*, is_unknown_anonymous: bool = False) -> Authenticator:
    keys = ApiKeys("k.csv", is_unknown_anonymous=is_unknown_anonymous)
    keys.take(f"{sha256('k1')},keyed,,batch".encode())
    return Authenticator(
        VirtualClock(S),
        Rules(judges_certificates=True),
        (Tokens(),),
        now_s=lambda: NOW_S,
        keys=keys,
        passwords=BasicKeys(keys),
    )


@pytest.mark.parametrize(
    ("peer", "credentials", "who"),
    [
        pytest.param(UNKNOWN_PEER, KEY, "keyed", id="key"),
        pytest.param(UNKNOWN_PEER, PASSWORD, "keyed", id="basic"),
        pytest.param(UNKNOWN_PEER, BAD_KEY, f"401 {NO_KEY}", id="unknown-key"),
        pytest.param(UNKNOWN_PEER, replace(GOOD, key="k1"), "keyed", id="key-before-token"),
        pytest.param(UNKNOWN_PEER, replace(GOOD, key="k2"), "token", id="token-beside-bad-key"),
        pytest.param(UNKNOWN_PEER, replace(SLOW, key="k2"), "token", id="reviewed-token"),
        pytest.param(UNKNOWN_PEER, replace(WRONG, key="k2"), "401 no token", id="both-bad"),
        pytest.param(CERTIFICATE, KEY, "certificate", id="certificate-first"),
        pytest.param(FRONT, replace(KEY, claimed=CLAIMED), "claimed", id="front-proxy-first"),
        pytest.param(BAD, KEY, "keyed", id="beside-a-bad-certificate"),
        pytest.param(EXPIRED, BAD_KEY, OVER, id="expired"),
    ],
)
async def test_keys(peer: Peer, credentials: Credentials, who: str) -> None:
    """API keys come before tokens, and a bad one does not matter beside a good credential."""
    result = await found(with_keys(), peer, credentials)
    assert who == name_of(result)
    if isinstance(result, Authentication) and who == "keyed":
        assert User("keyed", ("batch", AUTHENTICATED)) == result.user
        assert FOREVER_NS == result.valid_until_ns


@pytest.mark.parametrize(
    ("credentials", "who"),
    [
        pytest.param(BAD_KEY, "system:anonymous", id="key"),
        pytest.param(BAD_PASSWORD, "system:anonymous", id="basic"),
        pytest.param(replace(BAD_KEY, alias=unverified("key:", "1")), "key:1", id="told-apart"),
        pytest.param(replace(WRONG, key="k2"), "401 no token", id="beside-a-bad-token"),
        pytest.param(replace(GOOD, key="k2"), "token", id="beside-a-token"),
        pytest.param(Credentials(basic="!"), "401 Basic is not a user name", id="malformed"),
        pytest.param(KEY, "keyed", id="known"),
    ],
)
async def test_unknown_keys_as_none(credentials: Credentials, who: str) -> None:
    subject = with_keys(is_unknown_anonymous=True)

    assert name_of(await found(subject, UNKNOWN_PEER, credentials)).startswith(who)


ALIAS, OF_ADDRESS = unverified("header:", "al"), unverified("address:", "10.0.0.1")
NAMED = Credentials(alias=ALIAS)
AT = Peer(alias=OF_ADDRESS)


@pytest.mark.parametrize(
    ("peer", "credentials", "who"),
    [
        pytest.param(UNKNOWN_PEER, NAMED, "header:al", id="name"),
        pytest.param(AT, NO_CREDENTIALS, "address:10.0.0.1", id="address"),
        pytest.param(AT, NAMED, "header:al", id="name-before-address"),
        pytest.param(AT, replace(GOOD, alias=ALIAS), "token", id="token"),
        pytest.param(AT, replace(WRONG, alias=ALIAS), "401 no token", id="bad-token"),
        pytest.param(AT, replace(KEY, alias=ALIAS), "keyed", id="key"),
        pytest.param(AT, replace(BAD_KEY, alias=ALIAS), f"401 {NO_KEY}", id="bad-key"),
        pytest.param(replace(BAD, alias=OF_ADDRESS), NAMED, f"401 {BAD.problem}", id="bad-peer"),
        pytest.param(CERTIFICATE, NAMED, "certificate", id="certificate"),
        pytest.param(
            FRONT,
            replace(NAMED, claimed=User("system:anonymous", ())),
            "system:anonymous",
            id="anonymous-by-a-front-proxy",
        ),
    ],
)
async def test_unverified_names(peer: Peer, credentials: Credentials, who: str) -> None:
    """They stand in for the anonymous user only, and are no credential."""
    assert who == name_of(await found(with_keys(), peer, credentials))
    if who.startswith(("header:", "address:")):
        strict = authenticator(Rules(allows_anonymous=False))
        assert "401 no credentials" == name_of(await found(strict, peer, credentials))


@pytest.mark.parametrize(
    ("assertion", "told"),
    [
        pytest.param(PASS_THROUGH, b"", id="pass"),
        pytest.param(FRONT_PROXY, lines("X-Remote-", *NOBODY), id="front-proxy"),
        pytest.param(IMPERSONATE, lines("Impersonate-", NOBODY[0]), id="impersonate"),
    ],
)
async def test_upstream_hears_of_no_unverified_name(assertion: str, told: bytes) -> None:
    subject = authenticator(Rules(assertion=assertion))
    identity = await identified(subject, AT, NAMED)

    assert (ALIAS, told) == (identity.user, identity.lines)
    assert (0, 0, 2) == (
        subject.counters.anonymous,
        subject.counters.authenticated,
        subject.counters.unverified,
    )


@pytest.mark.parametrize(
    ("peer", "who"),
    [
        pytest.param(AT, OF_ADDRESS, id="address"),
        pytest.param(UNKNOWN_PEER, ANONYMOUS, id="unix-socket"),
    ],
)
async def test_unverified_name_without_a_place(peer: Peer, who: User) -> None:
    """The address stands in for it, if there is one; the name is tried again later."""
    names = NamesOfAddresses(1, VirtualClock())
    names.admit("header:another", OF_ADDRESS.name if peer is AT else "")
    subject = authenticator(Rules(names=names))
    identity = await identified(subject, peer, NAMED)

    assert (who, S + RENEWAL_NS) == (identity.user, identity.valid_until_ns)
    assert (0, 2) == (subject.counters.unverified, subject.counters.crowded)


async def test_unverified_name_may_not_impersonate() -> None:
    """Reviews are about the anonymous user; and the impersonated one is classified."""
    settings = ImpersonationSettings(users=(ALIAS.name,), groups=("system:masters",))
    listed = authenticator(None, Impersonations(settings, None))
    asked = Leave(answer=True)
    wanted = replace(NAMED, impersonated=WANTED)

    assert ALIAS.name == name_of(await found(listed, AT, wanted))
    allowed = authenticator(None, asked)
    assert WANTED.name == name_of(await found(allowed, AT, wanted))
    assert {"system:anonymous"} == {user.name for user, _ in asked.asked}
    assert (0, 2) == (allowed.counters.unverified, allowed.counters.anonymous)


RULES = AuthenticationSettings().credential_rules
ACCOUNT = "system:serviceaccount:ns:n"
VIRTUAL = (AUTHENTICATED, UNAUTHENTICATED)


class Fields:
    def __init__(self, lines: bytes) -> None:
        self.found: list[tuple[bytes, bytes]] = []
        httptools.HttpRequestParser(self).feed_data(b"GET / HTTP/1.1\r\n" + lines + b"\r\n")

    def on_header(self, name: bytes, value: bytes) -> None:
        self.found.append((name.lower(), value.rstrip(b" \t")))


def plain(user: User) -> tuple[str, tuple[str, ...], str, dict[str, tuple[str, ...]]]:
    """The user, with the extra values of a key together, and in no order of the keys."""
    extra: dict[str, tuple[str, ...]] = {}
    for key, values in user.extra:
        if values:
            extra[key] = extra.get(key, ()) + values
    return user.name, user.groups, user.uid, extra


@pytest.mark.parametrize(
    ("user", "groups"),
    [
        pytest.param(User("u", ("", "g", AUTHENTICATED)), ["", "g"], id="authenticated"),
        pytest.param(ANONYMOUS, [], id="anonymous"),
        pytest.param(User("u", (UNAUTHENTICATED,)), [UNAUTHENTICATED], id="named-but-not-one"),
        pytest.param(User("u", VIRTUAL), list(VIRTUAL), id="both"),
        pytest.param(User(ANONYMOUS.name, VIRTUAL), [AUTHENTICATED], id="anonymous-and-both"),
        pytest.param(User(ACCOUNT, (AUTHENTICATED,)), [AUTHENTICATED], id="account-alone"),
        pytest.param(User(ACCOUNT, ("g", AUTHENTICATED)), ["g"], id="account"),
    ],
)
def test_groups_of_impersonation(user: User, groups: list[str]) -> None:
    """Groups that the server adds of its own accord are left out, and no others are added."""
    fields = (f"User: {user.name}", *(f"Group: {group}" for group in groups))
    own = len(lines("Impersonate-"))

    assert lines("Impersonate-", *fields)[own:] == impersonation_lines(user)


LINE = "a\r\nX-Remote-Group: system:masters"


@pytest.mark.parametrize(
    "text",
    [" ", " admin", "admin\t", LINE, "a\nb", "a\rb", "a\x00b", "a\x7f", "a\ud800"],
    ids=ascii,
)
@pytest.mark.parametrize("lines_of", [front_proxy_lines, impersonation_lines])
def test_refuses(lines_of: Callable[[User], bytes], text: str) -> None:
    for user in (
        User("", ()),
        User(text, ()),
        User("u", (text,)),
        User("u", (), text),
        User("u", (), "", (("k", (text,)),)),
        User("u", (), "", (("", ("v",)),)),
        User("u", (), "", (("a\udc80", ("v",)),)),
    ):
        with pytest.raises(AssertionRefusedError):
            lines_of(user)


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
    """A reader of the lines, with any parser, finds the same user, and no other field.

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
    named = [[g for g in each.groups if g not in VIRTUAL] for each in (user, other)]
    assert named[0] == named[1]
    assert plain(user)[2:] == plain(other)[2:]
    assert user.name == other.name
