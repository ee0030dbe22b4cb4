"""JSON Web Tokens (RFC 7519) of one issuer, as kube-apiserver accepts them, or of a shared secret.

A token is checked in this order, cheapest first:

1. it has at most 32 KiB, and three parts of base64url;
2. its claimed issuer is this one;
3. its header names an asymmetric algorithm, or of settings with a secret one of HMAC only, and no
   critical extension (`crit`).  Where it says its key is (`jku`, `jwk`, `x5u`, `x5c`) is never
   read;
4. a key of the issuer's set with its name and algorithm verifies it.  If no key has that name, the
   set is fetched again (`KeySource.can_refresh`), for which `check` says None.  The verdict is open
   while that fails, or is not due yet for a key that can be newer than the set;
5. audience, times, and the user: of service accounts as in kube-apiserver's own authenticator, of
   others by the claims that the settings name, as by its flags --oidc-...

Stricter than kube-apiserver: `sub` must agree with the account that a bound token names; names must
be valid; an empty user and control characters, which no header field can carry, are refused.  Yet a
token counts until it expires: the proxy cannot know whether account, pod, node and secret exist.

Every holder of a secret can sign with it.  So its tokens name no user or group that begins with
`system:`.

Sources: kubernetes/kubernetes, pkg/serviceaccount/{jwt,claims,legacy}.go; kubernetes/apiserver,
pkg/authentication/serviceaccount and plugin/pkg/authenticator/token/oidc; go-jose/go-jose,
jwt/validation.go; coreos/go-oidc, oidc/verify.go.
"""

from __future__ import annotations

import base64
import hmac
import re
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from jwt import PyJWS
from jwt.exceptions import PyJWTError

from apfproxy.authn.credentials import UNFIT, Verdict
from apfproxy.authn.impersonation import ACCOUNT_PREFIX, ACCOUNTS_GROUP
from apfproxy.authn.web_keys import (
    NOT_FETCHED,
    RSA_ALGORITHMS,
    SECRET_BYTES,
    FileKeys,
    RemoteKeys,
    parse_secrets,
)
from apfproxy.base.strict_json import StrictJsonError, read_object
from apfproxy.objects.names import check_dns_label, check_dns_subdomain
from apfproxy.request.attributes import ANONYMOUS, User
from apfproxy.settings import ANONYMOUS as AS_ANONYMOUS
from apfproxy.settings.contradictions import LEGACY_ISSUER

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.authn.web_keys import KeySource
    from apfproxy.settings import JwtSettings

# Real ones have 1 to 27 KiB: 200 groups, the most, with 100 characters each.
MAX_TOKEN_BYTES = 1 << 15
# Objects in the claims; real ones have a handful, and each takes the work of a hundred bytes.
MAX_OBJECTS = 100
MAX_LIFETIME_S = 600.0  # the longest that a verdict counts, and so a token of a withdrawn key
UNVERIFIED_LIFETIME_S = 10.0  # of a verdict that another fetch could change (`web_keys.REFETCH_S`)
ACCOUNT_LEEWAY_S = 60  # for all three times of a service account's token, as in go-jose
PERSON_LEEWAY_S = 300  # for nbf, as in go-oidc, and here for iat too; exp has none
LATEST_S = 1 << 63  # later timestamps are rejected

ALGORITHMS = RSA_ALGORITHMS | {"ES256", "ES384", "ES512", "EdDSA"}
COMPACT = re.compile(r"([A-Za-z0-9_-]++)\.([A-Za-z0-9_-]++)\.[A-Za-z0-9_-]++")

FOREVER = float("inf")
NO_TOKEN = Verdict(None, FOREVER, "no JSON Web Token")
OTHER_ISSUER = Verdict(None, FOREVER, "a JSON Web Token of another issuer")
BAD_HEADER = Verdict(
    None,
    FOREVER,
    "a JSON Web Token with a header that is not taken: HS256, HS384 and HS512 are for secretFile"
    " alone, RS, PS, ES and EdDSA for public keys",
)

SIGNATURES = PyJWS()
HASHES = {name: f"sha{name[2:]}" for name in SECRET_BYTES}

EXTRA_PREFIX = "authentication.kubernetes.io/"
LEGACY_PREFIX = "kubernetes.io/serviceaccount/"
OWN_PREFIX = "system:"
SPACED = ("scope", "scp")  # claims with texts that spaces divide (RFC 8693, 4.2)


class ClaimsError(ValueError):
    """The claims name no user.  Says which claim, and no value."""


class JsonWebTokens:
    """Authenticates the tokens of one issuer; `now_s` is Unix time."""

    def __init__(
        self, settings: JwtSettings, keys: KeySource, now_s: Callable[[], float] = time.time
    ) -> None:
        self._settings = settings
        self._keys = keys
        self._now_s = now_s
        self._is_legacy = settings.issuer == LEGACY_ISSUER
        self._unsigned = "not signed by a key of the issuer"
        self._algorithms = ALGORITHMS
        self._audiences = frozenset(settings.audiences or (settings.issuer,))
        if settings.secret_file is not None:
            least = ", ".join(f"{count} bytes for {name}" for name, count in SECRET_BYTES.items())
            self._unsigned = f"not signed by a secret of secretFile that is long enough ({least})"
            self._algorithms = frozenset(SECRET_BYTES)
            self._audiences = frozenset(settings.audiences)
        self._account_leeway_s = ACCOUNT_LEEWAY_S if settings.is_service_account_issuer else 0
        self._leeway_s = self._account_leeway_s or PERSON_LEEWAY_S

    @property
    def problem(self) -> str | None:
        """Why the issuer's keys cannot be fetched; None if they can, or were not needed yet."""
        problem = self._keys.problem
        if problem in {"", NOT_FETCHED}:
            return None
        return f"the keys of {self._settings.issuer}: {problem}"

    def check(self, token: str) -> Verdict | None:
        return self._verdict(token, can_wait=True)

    async def review(self, token: str, address: str) -> Verdict:  # noqa: ARG002  one fetch for all
        if (verdict := self._verdict(token, can_wait=True)) is None:
            await self._keys.refresh()
            verdict = self._verdict(token, can_wait=False)
        assert verdict is not None
        return verdict

    async def close(self) -> None:
        await self._keys.close()

    def _verdict(self, token: str, *, can_wait: bool) -> Verdict | None:
        if len(token) > MAX_TOKEN_BYTES or (match := COMPACT.fullmatch(token)) is None:
            return NO_TOKEN
        try:
            text = _decoded(match[2])
            if text.count(b"{") > MAX_OBJECTS:
                return NO_TOKEN
            claims = read_object(text)
            if self._settings.issuer and claims.get("iss") != self._settings.issuer:
                return OTHER_ISSUER
            header = read_object(_decoded(match[1]))
        except StrictJsonError:
            return NO_TOKEN
        algorithm, kid = header.get("alg"), header.get("kid")
        if (
            not isinstance(algorithm, str)
            or algorithm not in self._algorithms
            or not (kid is None or isinstance(kid, str))
            or "crit" in header
            or "b64" in header
        ):
            return BAD_HEADER
        keys = self._keys.current()
        kid = kid or None
        if not any(
            _is_signed(token, key.key, algorithm) for key in keys.candidates(kid, algorithm)
        ):
            is_named = keys.has_kid(kid)
            if can_wait and not is_named and self._keys.can_refresh():
                return None
            if is_named or not (problem := self._problem(claims, kid)):
                return Verdict(None, UNVERIFIED_LIFETIME_S, self._unsigned)
            verdict = self._verified(claims)  # open, unless the claims are bad
            if verdict.user is None:
                return Verdict(None, 0.0, verdict.problem)
            return Verdict(None, 0.0, f"not signed by a known key; {problem}", is_open=True)
        return self._verified(claims)

    def _problem(self, claims: dict[str, Any], kid: str | None) -> str:
        """Why the token's key may be missing here; "" if it cannot."""
        issued_s, now_s = claims.get("iat"), self._now_s()
        if (
            not self._keys.problem
            and kid is not None
            and isinstance(issued_s, int | float)
            and now_s - self._keys.age_s() < issued_s <= now_s
        ):
            return "it was issued after they were fetched"
        return self._keys.problem

    def _verified(self, claims: dict[str, Any]) -> Verdict:
        try:
            lifetime_s = self._lifetime_s(claims)
            if lifetime_s <= 0:
                return Verdict(None, min(-lifetime_s, MAX_LIFETIME_S), "not valid yet")
            self._check_audience(claims)
            is_account = self._settings.is_service_account_issuer
            user = (user_of_account if is_account else user_of_person)(self._settings, claims)
        except ClaimsError as error:
            return Verdict(None, FOREVER, str(error))
        return Verdict(user, min(lifetime_s, MAX_LIFETIME_S))

    def _lifetime_s(self, claims: dict[str, Any]) -> float:
        """How long the token is still valid, in seconds; minus the time until it is valid."""
        now_s = self._now_s()
        expires_s = _time_claim(claims, "exp")
        if expires_s is None and not self._is_legacy:
            raise ClaimsError("the claim exp is missing")
        expires_s = self._account_leeway_s + (FOREVER if expires_s is None else expires_s)
        if now_s >= expires_s:
            raise ClaimsError("expired")
        begins_s = max(_time_claim(claims, "nbf") or 0.0, _time_claim(claims, "iat") or 0.0)
        begins_s -= self._leeway_s
        return expires_s - now_s if now_s >= begins_s else now_s - begins_s

    def _check_audience(self, claims: dict[str, Any]) -> None:
        audiences = claims.get("aud")
        if not self._audiences:
            return
        if self._is_legacy and audiences in (None, "", []):
            return
        if isinstance(audiences, str):
            audiences = [audiences]
        if not isinstance(audiences, list) or not all(isinstance(one, str) for one in audiences):
            raise ClaimsError("the claim aud is missing or has something else than texts")
        if self._audiences.isdisjoint(audiences):
            raise ClaimsError("for other audiences")


def _decoded(part: str) -> bytes:
    """The bytes of a part; StrictJsonError if it is no base64url, or not spelled canonically."""
    try:
        data = base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except ValueError:
        data = b""
    if base64.urlsafe_b64encode(data).rstrip(b"=").decode() != part:
        raise StrictJsonError("not base64url")
    return data


def _is_signed(token: str, key: Any, algorithm: str) -> bool:  # noqa: ANN401 - PyJWT's types are as wide
    try:
        if isinstance(key, bytes):
            text, _, signature = token.rpartition(".")
            found = hmac.digest(key, text.encode(), HASHES[algorithm])
            return hmac.compare_digest(found, _decoded(signature))
        SIGNATURES.decode_complete(token, key, algorithms=[algorithm])
    except (PyJWTError, ValueError, TypeError):
        return False
    return True


def _time_claim(claims: dict[str, Any], name: str) -> float | None:
    if (value := claims.get(name)) is None:
        return None
    # The comparison refuses infinite numbers too, and is exact for integers of any size.
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < LATEST_S:
        raise ClaimsError(f"the claim {name} is no time")
    return float(value)


def keys_of(settings: JwtSettings) -> FileKeys | RemoteKeys:
    """The keys that the settings name; WebKeysError for a bad file or URL."""
    if settings.keys_file is not None:
        keys = FileKeys(settings.keys_file)
    elif settings.secret_file is not None:
        parse = partial(parse_secrets, is_base64=settings.secret_is_base64)
        keys = FileKeys(settings.secret_file, parse)
    else:
        return RemoteKeys(settings.issuer, settings.jwks_url, ca_file=settings.ca_file)
    keys.load()
    return keys


def _text_claim(claims: dict[str, Any], name: str) -> str:
    value = claims.get(name)
    if not isinstance(value, str) or not value or UNFIT.search(value):
        raise ClaimsError(f"the claim {name} is missing or no text")
    return value


def _optional_claim(claims: dict[str, Any], name: str) -> str:
    return "" if claims.get(name, "") in (None, "") else _text_claim(claims, name)


def user_of_person(settings: JwtSettings, claims: dict[str, Any]) -> User:
    """The user by the claims that the settings name, or ClaimsError.

    A number counts as its digits.  Groups are the texts of a list, or a text, of which spaces make
    several in `scope` and `scp`; without the claim there are none.
    """
    name = _claim(claims, settings.username_claim)
    if name in (None, "") and settings.unnamed == AS_ANONYMOUS:
        return ANONYMOUS
    if isinstance(name, int) and not isinstance(name, bool):
        name = str(name)
    if not isinstance(name, str) or not name or UNFIT.search(name):
        raise ClaimsError(
            f"the claim {settings.username_claim} is missing or no text; usernameClaim says which"
            " has the user"
        )
    if settings.username_claim == "email" and claims.get("email_verified", True) is not True:
        raise ClaimsError("the claim email_verified is not true")
    groups: list[str] = []
    if settings.groups_claim and (value := _claim(claims, settings.groups_claim)) is not None:
        is_spaced = settings.groups_claim.rpartition(".")[2] in SPACED
        if isinstance(value, str) and is_spaced:
            value = [each for each in value.split(" ") if each]
        groups = value if isinstance(value, list) else [value]  # type: ignore[list-item]  # seen next
        if not all(isinstance(group, str) and not UNFIT.search(group) for group in groups):
            raise ClaimsError(f"the claim {settings.groups_claim} has something else than texts")
    group_prefix = settings.groups_prefix or ""
    user = User(username_prefix(settings) + name, tuple(group_prefix + group for group in groups))
    if settings.secret_file and any(
        each.startswith(OWN_PREFIX) for each in (user.name, *user.groups)
    ):
        raise ClaimsError(
            f"a name or group begins with {OWN_PREFIX}; set usernamePrefix and groupsPrefix"
        )
    return user


def _claim(claims: dict[str, Any], name: str) -> object:
    """The claim of this name, or of objects in objects, as in `app_metadata.role`; None for none.

    An object is looked at once at most: each has its own part of the name.
    """
    if name in claims:
        return claims[name]
    for dot in re.finditer(r"\.", name):
        inner = claims.get(name[: dot.start()])
        if isinstance(inner, dict) and (found := _claim(inner, name[dot.end() :])) is not None:
            return found
    return None


def username_prefix(settings: JwtSettings) -> str:
    """The prefix, by default the issuer's URL, that keeps issuers' users apart."""
    if settings.username_prefix:
        return "" if settings.username_prefix == "-" else settings.username_prefix
    is_plain = settings.username_claim == "email" or not settings.issuer
    return "" if is_plain else f"{settings.issuer}#"


def user_of_account(settings: JwtSettings, claims: dict[str, Any]) -> User:
    """The service account that the claims name; ClaimsError if they name none or two."""
    if settings.issuer == LEGACY_ISSUER:
        namespace = _text_claim(claims, f"{LEGACY_PREFIX}namespace")
        name = _text_claim(claims, f"{LEGACY_PREFIX}service-account.name")
        uid = _text_claim(claims, f"{LEGACY_PREFIX}service-account.uid")
        _text_claim(claims, f"{LEGACY_PREFIX}secret.name")
        extra = []
    else:
        bound = _object_claim(claims, "kubernetes.io")
        account = _object_claim(bound, "serviceaccount")
        namespace = _text_claim(bound, "namespace")
        name, uid = _text_claim(account, "name"), _text_claim(account, "uid")
        extra = _bound_extra(claims, bound)
    if check_dns_label(namespace) or check_dns_subdomain(name):
        raise ClaimsError("no valid name of a service account")
    username = f"{ACCOUNT_PREFIX}{namespace}:{name}"
    if claims.get("sub") != username:
        raise ClaimsError("the claim sub is not the service account that the others name")
    return User(
        username,
        (ACCOUNTS_GROUP, f"{ACCOUNTS_GROUP}:{namespace}"),
        uid,
        tuple((EXTRA_PREFIX + key, (value,)) for key, value in extra),
    )


def _object_claim(claims: dict[str, Any], name: str) -> dict[str, Any]:
    value = claims.get(name)
    if not isinstance(value, dict):
        raise ClaimsError(f"the claim {name} is missing or no object")
    return value


def _bound_extra(claims: dict[str, Any], bound: dict[str, Any]) -> list[tuple[str, str]]:
    """The token's id, and the objects that it is bound to: keys without prefix, and values."""
    node_name, node_uid = _reference(bound, "node")
    pod_name, pod_uid = _reference(bound, "pod")
    jti = _optional_claim(claims, "jti")
    has_pod = pod_name and pod_uid
    extra = (
        ("credential-id", jti and f"JTI={jti}"),
        ("node-name", node_name),
        ("node-uid", node_name and node_uid),
        ("pod-name", has_pod and pod_name),
        ("pod-uid", has_pod and pod_uid),
    )
    return [(key, value) for key, value in extra if value]


def _reference(bound: dict[str, Any], kind: str) -> tuple[str, str]:
    if bound.get(kind) is None:
        return "", ""
    found = _object_claim(bound, kind)
    return _optional_claim(found, "name"), _optional_claim(found, "uid")
