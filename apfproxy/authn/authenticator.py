"""Authenticates requests by the peer's certificate, the request's fields and other servers.

The order is Kubernetes': front proxies, client certificates, bearer tokens, and at last anonymous
requests, if they are allowed; API keys come before bearer tokens, and Basic in their place.  The
first that knows the user decides.  A bad credential does not matter beside a good one; alone it is
refused, never taken for an anonymous request.

The upstream learns the user from header lines: X-Remote-* of a front proxy, or impersonation.
Values that a header field would change are refused; what a field's name cannot carry of the keys of
extra values is percent-encoded.  An empty group is a field without a value, as of client-go.

Sources: kubernetes/kubernetes, `pkg/kubeapiserver/authenticator/config.go`; kubernetes/client-go,
`transport/round_trippers.go`.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from apfproxy.authn.credentials import UNKNOWN_PEER, Verdict
from apfproxy.authn.impersonation import ACCOUNT_PREFIX, Impersonations, effective
from apfproxy.authn.unverified_names import RENEWAL_NS
from apfproxy.base.records import Record
from apfproxy.http.credential_fields import BEARER_CHALLENGE
from apfproxy.request.attributes import (
    ANONYMOUS,
    AUTHENTICATED_GROUP,
    UNAUTHENTICATED_GROUP,
    User,
    authenticated,
)
from apfproxy.settings import FRONT_PROXY, IMPERSONATE, PASS_THROUGH, ImpersonationSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from apfproxy.authn.certificates import ClientCertificates
    from apfproxy.authn.credentials import Peer, TokenAuthenticator
    from apfproxy.authn.secret_files import ApiKeys, BasicKeys
    from apfproxy.authn.unverified_names import NamesOfAddresses
    from apfproxy.base.clock import Clock
    from apfproxy.http.credential_fields import Credentials

FOREVER_NS: Final = 1 << 62  # later than any clock of nanoseconds gets
UNAUTHORIZED = "Unauthorized"
NOT_KNOWN_WHO = "the token cannot be verified now; try again later"
NOT_KNOWN_WHETHER = "whether the user may impersonate cannot be verified now; try again later"


class Authentication(Record, frozen=True):
    """The user that flow control classifies, and header lines that name one to the upstream.

    After `valid_until_ns`, on the process's clock, the request is authenticated again.
    """

    user: User
    lines: bytes
    valid_until_ns: int

    def __repr__(self) -> str:
        return f"<Authentication of {self.user}>"  # without lines, which may hold a token


@dataclass(frozen=True, slots=True)
class Refusal:
    code: int  # 401 or 403; 503 if another server did not answer, so that the client tries again
    message: str
    problem: str  # for the log, without any credential; one of few texts, as each is a line of it


@dataclass(slots=True)
class AuthenticationCounters:
    """Authentications by outcome; cached ones are not counted."""

    anonymous: int = 0
    unverified: int = 0  # anonymous, but told apart
    crowded: int = 0  # anonymous, and told apart by the address alone: it shows too many names
    authenticated: int = 0
    refused: int = 0
    unavailable: int = 0  # another server did not answer


@dataclass(frozen=True, slots=True)
class Rules:
    allows_anonymous: bool = True
    judges_certificates: bool = False  # else one of a client is a bad credential
    assertion: str = PASS_THROUGH  # `upstream.identity`: how the upstream learns the user
    challenges: bytes = BEARER_CHALLENGE  # header lines of a 401 response, each with its CRLF
    names: NamesOfAddresses | None = None  # bounds the names that are not verified


DEFAULT_RULES = Rules()
NO_IMPERSONATION: Final = Impersonations(ImpersonationSettings(), None)


@mypyc_attr(allow_interpreted_subclasses=True)
class Authenticator:
    """Authenticates requests; `now_s` is Unix time.

    Args:
        tokens: Authenticators of bearer tokens, in the order in which they are asked.
        impersonations: The users who may impersonate; None for none.
        own_token: The proxy's own bearer token, with which it impersonates.
        keys: Authenticates API keys in their own field.
    """

    def __init__(
        self,
        clock: Clock,
        rules: Rules = DEFAULT_RULES,
        tokens: Sequence[TokenAuthenticator] = (),
        impersonations: Impersonations | None = None,
        own_token: Callable[[], bytes] = bytes,
        now_s: Callable[[], float] = time.time,
        *,
        keys: ApiKeys | None = None,
        passwords: BasicKeys | None = None,
    ) -> None:
        self._rules = rules
        self._tokens = tuple(tokens)
        self._impersonations = impersonations or NO_IMPERSONATION
        self._own_token = own_token
        self._clock = clock
        self._now_s = now_s
        self._keys = keys
        self._passwords = () if passwords is None else (passwords,)
        self.certificates: ClientCertificates | None = None  # judges clients', if any counts
        self.challenges = rules.challenges
        self.counters = AuthenticationCounters()

    def peer(self, certificate: bytes | None, chain: Sequence[bytes]) -> Peer:
        if certificate is None or self.certificates is None:
            return UNKNOWN_PEER
        return self.certificates.judge(certificate, chain)

    def authenticate(self, peer: Peer, credentials: Credentials) -> Authentication | Refusal | None:
        """The user; None where `authenticate_later` has to ask other servers."""
        verdict = self._known_without_token(peer, credentials) or self._check_secret(credentials)
        if verdict is None:
            return None
        found = self._resolved(peer, verdict)
        if isinstance(found, Refusal):
            return found
        may_impersonate: bool | None = False
        if credentials.impersonated is not None:
            may_impersonate = self._impersonations.check(found, credentials.impersonated)
            if may_impersonate is None:
                return None
        return self._identity(found, peer, verdict, credentials, may_impersonate=may_impersonate)

    async def authenticate_later(
        self, peer: Peer, credentials: Credentials, address: str
    ) -> Authentication | Refusal:
        """The user; other servers are shared fairly among the clients' addresses."""
        verdict = self._known_without_token(peer, credentials)
        verdict = verdict or await self._review_secret(credentials, address)
        found = self._resolved(peer, verdict)
        if isinstance(found, Refusal):
            return found
        may_impersonate: bool | None = False
        if (wanted := credentials.impersonated) is not None:
            may_impersonate = await self._impersonations.review(found, wanted, address)
        return self._identity(found, peer, verdict, credentials, may_impersonate=may_impersonate)

    def _known_without_token(self, peer: Peer, credentials: Credentials) -> Verdict | None:
        """The verdict by peer, identity fields and API key; None if a token or Basic decides."""
        lifetime_s = peer.valid_until_s - self._now_s()
        problem = peer.problem
        if lifetime_s <= 0:
            problem = problem or "the client's certificate has expired"
        elif peer.is_front_proxy and credentials.claimed is not None:
            return Verdict(credentials.claimed, lifetime_s)
        elif peer.user is not None:
            return Verdict(peer.user, lifetime_s)
        elif peer.is_front_proxy and peer.has_certificate and self._rules.judges_certificates:
            problem = "a front proxy names no user, and its certificate is no user's"
        if credentials.key and self._keys is not None:
            verdict = self._keys.check(credentials.key)
            if verdict.user is not None and verdict.user is not ANONYMOUS:
                return verdict
            problem = problem or verdict.problem
        if self._asked(credentials)[1]:
            return None
        if problem:
            return Verdict(None, 0.0, problem)
        return Verdict(ANONYMOUS, lifetime_s)

    def _asked(self, credentials: Credentials) -> tuple[str, Sequence[TokenAuthenticator]]:
        if credentials.token and self._tokens:
            return credentials.token, self._tokens
        if credentials.basic:
            return credentials.basic, self._passwords
        return "", ()

    def _check_secret(self, credentials: Credentials) -> Verdict | None:
        others: list[Verdict] = []
        token, authenticators = self._asked(credentials)
        for authenticator in authenticators:
            verdict = authenticator.check(token)
            if verdict is None or verdict.user is not None:
                return verdict
            others.append(verdict)
        return _unknown(others)

    async def _review_secret(self, credentials: Credentials, address: str) -> Verdict:
        others: list[Verdict] = []
        token, authenticators = self._asked(credentials)
        for authenticator in authenticators:
            verdict = authenticator.check(token) or await authenticator.review(token, address)
            if verdict.user is not None:
                return verdict
            others.append(verdict)
        return _unknown(others)

    def _resolved(self, peer: Peer, verdict: Verdict) -> User | Refusal:
        user = verdict.user
        if verdict.is_open:
            return self._refused(503, NOT_KNOWN_WHO, verdict.problem)
        if user is None:
            return self._refused(401, UNAUTHORIZED, verdict.problem or peer.problem)
        if user is ANONYMOUS and not self._rules.allows_anonymous:
            return self._refused(401, UNAUTHORIZED, "no credentials")
        return authenticated(user)

    def _identity(
        self,
        user: User,
        peer: Peer,
        verdict: Verdict,
        credentials: Credentials,
        *,
        may_impersonate: bool | None,
    ) -> Authentication | Refusal:
        wanted = credentials.impersonated
        classified = user
        lifetime_s = verdict.lifetime_s
        if wanted is not None:
            lifetime_s = min(lifetime_s, self._impersonations.lifetime_s(user, wanted))
            if may_impersonate:
                classified = effective(wanted)
        rules = self._rules
        try:
            if rules.assertion == IMPERSONATE:
                if wanted is not None and not may_impersonate:
                    # Passed on, the proxy's own rights would decide.
                    return self._forbidden(user, wanted, is_open=may_impersonate is None)
                impersonation = impersonation_lines(classified)
                lines = b"Authorization: Bearer %b\r\n%b" % (self._own_token(), impersonation)
            elif rules.assertion == FRONT_PROXY:
                lines = front_proxy_lines(user)
            elif credentials.claimed is not None and verdict.user is credentials.claimed:
                lines = front_proxy_lines(credentials.claimed)
            else:
                lines = b""
        except AssertionRefusedError as error:
            return self._refused(401, UNAUTHORIZED, str(error))
        # Only now: the upstream and reviews of impersonation know nothing of such names.
        source = credentials.source or peer.alias
        alias = credentials.alias or source
        if classified is ANONYMOUS and alias is not None:
            has_place = True
            if rules.names is not None and alias is not source:
                lifetime_s = min(lifetime_s, RENEWAL_NS / 1e9)
                address = "" if source is None else source.name
                has_place = rules.names.admit(alias.name, address)
            if has_place:
                classified = alias
                self.counters.unverified += 1
            else:
                classified = source or ANONYMOUS
                self.counters.crowded += 1
        elif user.is_anonymous:
            self.counters.anonymous += 1
        else:
            self.counters.authenticated += 1
        valid_until_ns = FOREVER_NS
        if lifetime_s != float("inf"):
            valid_until_ns = min(FOREVER_NS, self._clock.now_ns() + round(lifetime_s * 1e9))
        return Authentication(classified, lines, valid_until_ns)

    def _forbidden(self, user: User, wanted: User, *, is_open: bool) -> Refusal:
        if is_open:
            return self._refused(503, NOT_KNOWN_WHETHER, "no answer to a SubjectAccessReview")
        message = self._impersonations.forbidden_message(user, wanted)
        return self._refused(403, message, "the user may not impersonate")

    def _refused(self, code: int, message: str, problem: str) -> Refusal:
        if code == 503:  # noqa: PLR2004 - its own name
            self.counters.unavailable += 1
        else:
            self.counters.refused += 1
        return Refusal(code, message, problem)


def _unknown(others: list[Verdict]) -> Verdict:
    """The verdict if no authenticator knows the token: open if it is open to any of them."""
    problem = "; ".join(each.problem for each in others if each.problem)
    return Verdict(None, 0.0, problem, is_open=any(each.is_open for each in others))


_VALUE = re.compile(r"[^\x00-\x20\x7f](?:[^\x00-\x08\x0a-\x1f\x7f]*[^\x00-\x20\x7f])?")
_NOT_IN_NAMES = re.compile(rb"[^!#$&'*+\-.^_`|~0-9a-z]")


class AssertionRefusedError(ValueError):
    pass


def front_proxy_lines(user: User) -> bytes:
    """X-Remote-* lines; AssertionRefusedError if no field can carry the user."""
    return _lines(b"X-Remote-", user, user.groups)


def impersonation_lines(user: User) -> bytes:
    """Impersonate-* lines; AssertionRefusedError if no field can carry the user."""
    return _lines(b"Impersonate-", user, _named_groups(user))


def _named_groups(user: User) -> tuple[str, ...]:
    """The groups without the virtual one that the server adds: naming it takes a permission."""
    added = UNAUTHENTICATED_GROUP if user.is_anonymous else AUTHENTICATED_GROUP
    named = tuple(group for group in user.groups if group != added)
    if not user.is_anonymous and UNAUTHENTICATED_GROUP in named:
        return user.groups  # with that one it adds none
    if not named and user.name.startswith(ACCOUNT_PREFIX):
        return user.groups  # without any it adds those of service accounts
    return named


def _lines(prefix: bytes, user: User, groups: tuple[str, ...]) -> bytes:
    lines = [b"%bUser: %b\r\n" % (prefix, _value(user.name))]
    if user.uid:
        lines.append(b"%bUid: %b\r\n" % (prefix, _value(user.uid)))
    lines += [b"%bGroup: %b\r\n" % (prefix, _value(group) if group else b"") for group in groups]
    for key, values in user.extra:
        if not key:
            raise AssertionRefusedError("a key of the user's extra values is empty")
        name = b"%bExtra-%b" % (prefix, _NOT_IN_NAMES.sub(_escaped, _encoded(key)))
        lines += [b"%b: %b\r\n" % (name, _value(value) if value else b"") for value in values]
    return b"".join(lines)


def _value(text: str) -> bytes:
    if text.isascii() and text.isprintable() and text.strip(" ") is text and text:
        return text.encode()  # most; a third of the time
    if _VALUE.fullmatch(text) is None:
        raise AssertionRefusedError("a name or value of the user cannot be in a header field")
    return _encoded(text)


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise AssertionRefusedError("a name or value of the user is not Unicode") from error


def _escaped(match: re.Match[bytes]) -> bytes:
    return b"%%%02X" % match[0][0]
