"""JSON Web Tokens, good and bad."""

from __future__ import annotations

import asyncio
import base64
import functools
import json
from typing import TYPE_CHECKING, Any

import jwt
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import structs

from apfproxy.authn.credentials import Verdict
from apfproxy.authn.json_web_tokens import (
    BAD_HEADER,
    MAX_LIFETIME_S,
    MAX_OBJECTS,
    MAX_TOKEN_BYTES,
    OTHER_ISSUER,
    UNVERIFIED_LIFETIME_S,
    JsonWebTokens,
    keys_of,
)
from apfproxy.authn.web_keys import (
    FileKeys,
    KeySet,
    KeySource,
    RemoteKeys,
    WebKeysError,
    kubernetes_kid,
    parse_keys,
    parse_secrets,
)
from apfproxy.request.attributes import ANONYMOUS, User
from apfproxy.settings import JwtSettings
from apfproxy.settings.contradictions import LEGACY_ISSUER
from tests.authn.scripted_api import ADDRESS
from tests.authn.test_token_users import ACCOUNT, LEGACY
from tests.support.credentials import (
    jwks,
    part,
    private_key,
    public_jwk,
    public_pem,
    signed,
    signed_parts,
)

if TYPE_CHECKING:
    from pathlib import Path

ISSUER = "https://issuer.example"
NOW_S = 1_800_000_000
FOREVER = float("inf")
NO_TIMES: tuple[Any, ...] = ("1", True, [1], {}, -1, 10**400, 1 << 63)
SETTINGS = JwtSettings(issuer=ISSUER, audiences=("kubernetes", "apfproxy"))
PEOPLE = JwtSettings(
    issuer=ISSUER, audiences=("kubernetes",), groups_claim="groups", username_claim="email"
)
ACCOUNTS = JwtSettings(issuer=ISSUER, is_service_account_issuer=True)
LEGACY_ACCOUNTS = JwtSettings(
    issuer=LEGACY_ISSUER, is_service_account_issuer=True, keys_file="sa.pub"
)
CLAIMS = {"iss": ISSUER, "aud": "kubernetes", "sub": "jane", "exp": NOW_S + 60}
ACCOUNT_CLAIMS = {**ACCOUNT, "iss": ISSUER, "aud": [ISSUER], "exp": NOW_S + 60}
JANE = User(f"{ISSUER}#jane", ())

RSA_KEY = private_key("RS256")
NAMED_KEYS: dict[str, Any] = {
    "RS": RSA_KEY,
    **{name: private_key(name) for name in ("ES256", "ES384", "ES512", "EdDSA")},
}
PUBLISHED = jwks(*(public_jwk(key, kid=name) for name, key in NAMED_KEYS.items()))


@functools.cache
def parsed(data: bytes) -> KeySet:
    return parse_keys(data, "known") if data else KeySet()


class Keys(KeySource):
    def __init__(self, known: bytes = b"", later: bytes = b"") -> None:
        super().__init__()
        self._known, self._later = known, later
        self.refreshed = 0

    def current(self) -> KeySet:
        return parsed(self._known)

    def age_s(self) -> float:
        return 5.0

    def can_refresh(self) -> bool:
        return bool(self._later)

    async def refresh(self) -> None:
        self.refreshed += 1
        self._known, self._later = self._later, b""

    async def close(self) -> None:
        self._later = b""


def tokens(
    settings: JwtSettings = SETTINGS, keys: Keys | None = None, now_s: float = NOW_S
) -> JsonWebTokens:
    return JsonWebTokens(settings, keys or Keys(PUBLISHED), lambda: now_s)


@pytest.mark.parametrize("is_named", [True, False])
@pytest.mark.parametrize(
    "algorithm",
    "RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 EdDSA".split(),  # noqa: SIM905
)
async def test_algorithms(algorithm: str, is_named: bool) -> None:
    kid = "RS" if algorithm[:2] in {"RS", "PS"} else algorithm
    token = signed(CLAIMS, NAMED_KEYS[kid], algorithm, kid=kid if is_named else None)

    assert Verdict(JANE, 60) == tokens().check(token) == await tokens().review(token, ADDRESS)


GOOD = signed(CLAIMS)
HEADER, PAYLOAD, SIGNATURE = GOOD.split(".")


@pytest.mark.parametrize(
    "token",
    [
        pytest.param("opaque-token", id="opaque"),
        pytest.param(f"{HEADER}.{PAYLOAD}", id="two-parts"),
        pytest.param(f"{HEADER}.AB.{SIGNATURE}", id="bits-left-over"),
        pytest.param(f"{HEADER}.\ud800.{SIGNATURE}", id="half-a-character"),
        pytest.param(signed([CLAIMS]), id="payload-list"),
        pytest.param(signed(b"\xff"), id="payload-not-utf-8"),
        pytest.param(signed(b'{"iss":' + b"[" * 6000), id="payload-deep"),
        pytest.param(signed(json.dumps(CLAIMS).encode()[:-1] + b',"sub":"x"}'), id="claim-twice"),
        pytest.param(signed(json.dumps(CLAIMS)[:-1].encode() + b',"x":NaN}'), id="nan"),
        pytest.param(signed_parts(b"hello", CLAIMS), id="header-text"),
        pytest.param(signed_parts(b'{"alg":"ES256","alg":"ES256"}', CLAIMS), id="header-twice"),
        pytest.param(signed({**CLAIMS, "x": "y" * MAX_TOKEN_BYTES}), id="huge"),
        pytest.param(signed({**CLAIMS, "x": [{}] * MAX_OBJECTS}), id="many-objects"),
        pytest.param("." * 5_000_000, id="huge-dots"),
    ],
)
async def test_no_token(token: str) -> None:
    """A text that is no token in compact form names no user for ever, and needs no key."""
    keys = Keys(later=PUBLISHED)
    verdict = tokens(keys=keys).check(token)

    assert Verdict(None, FOREVER, "no JSON Web Token") == verdict
    assert verdict == await tokens(keys=keys).review(token, ADDRESS)
    assert 0 == keys.refreshed


@pytest.mark.parametrize(
    "issuer", [None, "", f"{ISSUER}/", ISSUER.upper(), [ISSUER], {ISSUER: 1}, LEGACY_ISSUER]
)
async def test_another_issuer(issuer: object) -> None:
    keys = Keys(later=PUBLISHED)
    verdict = await tokens(keys=keys).review(signed({**CLAIMS, "iss": issuer}), ADDRESS)

    assert Verdict(None, FOREVER, "a JSON Web Token of another issuer") == verdict
    assert 0 == keys.refreshed


@pytest.mark.parametrize(
    "header",
    [
        pytest.param({}, id="no-algorithm"),
        *(
            pytest.param({"alg": name}, id=f"algorithm-{name}")
            for name in ("none", "None", "NONE", "", "HS256", "HS384", "HS512", "ES256K", "es256")
        ),
        *(
            pytest.param({"alg": value}, id=f"algorithm-{value!r}")
            for value in (None, 7, ["ES256"], {"ES256": 1}, True)
        ),
        pytest.param({"alg": "ES256", "kid": 7}, id="name-number"),
        pytest.param({"alg": "ES256", "kid": ["ES256"]}, id="name-list"),
        pytest.param({"alg": "ES256", "crit": ["exp"]}, id="critical"),
        pytest.param({"alg": "ES256", "crit": []}, id="nothing-critical"),
        pytest.param({"alg": "ES256", "crit": ["b64"], "b64": False}, id="payload-as-it-is"),
    ],
)
async def test_header_not_taken(header: object) -> None:
    """Nothing but asymmetric algorithms, and nothing that must be understood, is taken."""
    keys = Keys(later=PUBLISHED)
    verdict = await tokens(keys=keys).review(signed_parts(header, CLAIMS), ADDRESS)

    assert BAD_HEADER == verdict
    assert 0 == keys.refreshed


ATTACKER = private_key(number=666)


@pytest.mark.parametrize(
    "token",
    [
        pytest.param(signed(CLAIMS, ATTACKER, kid="ES256"), id="of-another-key-by-name"),
        pytest.param(signed(CLAIMS, kid="ES384"), id="names-a-key-of-another-algorithm"),
        pytest.param(signed(CLAIMS, kid="other"), id="names-an-unknown-key"),
        pytest.param(signed(CLAIMS, kid="../../dev/null"), id="name-is-a-path"),
        pytest.param(signed(CLAIMS, kid="\ud800\x00"), id="name-is-no-character"),
        pytest.param(
            signed(CLAIMS, ATTACKER, jwk=public_jwk(ATTACKER, kid="a"), kid="a"), id="brings-a-key"
        ),
        pytest.param(signed(CLAIMS, ATTACKER, jku="http://127.0.0.1:1/"), id="says-where"),
        pytest.param(signed(CLAIMS, ATTACKER, x5c=["AAAA"]), id="brings-a-certificate"),
        pytest.param(
            signed_parts({"alg": "RS512"}, CLAIMS, RSA_KEY, "RS256"), id="claims-another-hash"
        ),
        pytest.param(
            signed_parts({"alg": "RS256"}, CLAIMS, RSA_KEY, "PS256"), id="claims-another-padding"
        ),
        pytest.param(
            f"{HEADER}.{part({**CLAIMS, 'sub': 'root'})}.{SIGNATURE}", id="claims-changed"
        ),
    ],
)
def test_not_signed(token: str) -> None:
    expected = Verdict(None, UNVERIFIED_LIFETIME_S, "not signed by a key of the issuer")

    assert expected == tokens().check(token)


PLACES = st.integers(0, len(GOOD))


@given(
    st.tuples(PLACES, PLACES | st.just(0), st.text("AB._=- \n", max_size=2)).map(
        lambda edit: GOOD[: edit[0]] + edit[2] + GOOD[edit[0] + edit[1] :]
    )
)
@example(f"{GOOD}\n")
@example(f"{HEADER}.{PAYLOAD}=.{SIGNATURE}")
@example(f"{HEADER}.{PAYLOAD}.")
def test_any_edit(token: str) -> None:
    """A good token with any change is no user's."""
    if token != GOOD:
        assert verdict_of(token).user is None


def verdict_of(token: str, settings: JwtSettings = SETTINGS, now_s: float = NOW_S) -> Verdict:
    verdict = tokens(settings, now_s=now_s).check(token)
    assert verdict is not None
    return verdict


@pytest.mark.parametrize(
    ("changes", "lifetime_s"),
    [
        pytest.param({"exp": NOW_S + 0.5}, 0.5, id="fraction"),
        pytest.param({"exp": NOW_S + 600}, 600, id="as-long-as-any-verdict"),
        pytest.param({"exp": 1 << 62}, MAX_LIFETIME_S, id="much-longer"),
        pytest.param({"nbf": NOW_S + 300}, 60, id="nbf-within-leeway"),
        pytest.param({"iat": NOW_S + 300}, 60, id="iat-within-leeway"),
        pytest.param({"nbf": None, "iat": None}, 60, id="null"),
        pytest.param({"aud": ["x", "apfproxy"]}, 60, id="audiences"),
    ],
)
def test_times_and_audiences(changes: dict[str, Any], lifetime_s: float) -> None:
    assert Verdict(JANE, lifetime_s) == verdict_of(signed({**CLAIMS, **changes}))


@pytest.mark.parametrize(
    ("changes", "lifetime_s", "problem"),
    [
        pytest.param({"exp": NOW_S}, FOREVER, "expired", id="expires-now"),
        pytest.param({"exp": None}, FOREVER, "exp is missing", id="no-exp"),
        pytest.param({"nbf": NOW_S + 301}, 1, "not valid yet", id="not-yet"),
        pytest.param({"iat": NOW_S + 301}, 1, "not valid yet", id="issued-in-the-future"),
        pytest.param({"nbf": NOW_S * 2}, MAX_LIFETIME_S, "not valid yet", id="in-decades"),
        pytest.param({"aud": None}, FOREVER, "aud is missing", id="no-audience"),
        pytest.param({"aud": "kubernetes "}, FOREVER, "for other", id="audience-and-space"),
        pytest.param({"aud": ISSUER}, FOREVER, "for other audiences", id="issuer"),
        pytest.param({"aud": {"kubernetes": 1}}, FOREVER, "aud is", id="audience-object"),
        pytest.param({"aud": ["kubernetes", 7]}, FOREVER, "aud is", id="audience-number"),
        *(
            pytest.param({name: value}, FOREVER, f"{name} is no time", id=f"{name}-{value!r}")
            for name in ("exp", "nbf", "iat")
            for value in NO_TIMES
        ),
    ],
)
def test_nobody(changes: dict[str, Any], lifetime_s: float, problem: str) -> None:
    """A signed token names no user before, after, or outside what it is for."""
    verdict = verdict_of(signed({**CLAIMS, **changes}))

    assert (None, lifetime_s) == (verdict.user, verdict.lifetime_s)
    assert problem in verdict.problem


@pytest.mark.parametrize(
    ("changes", "lifetime_s"),
    [
        pytest.param({}, 120, id="leeway"),
        pytest.param({"exp": NOW_S - 59}, 1, id="expired-within-leeway"),
        pytest.param({"nbf": NOW_S + 60}, 120, id="not-yet-within-leeway"),
        pytest.param({"exp": NOW_S - 60}, "expired", id="expired"),
        pytest.param({"exp": None}, "exp is missing", id="no-exp"),
        pytest.param({"nbf": NOW_S + 61}, "not valid yet", id="not-yet"),
        pytest.param({"iat": NOW_S + 61}, "not valid yet", id="issued-in-the-future"),
        pytest.param({"aud": "vault"}, "for other audiences", id="other-audience"),
        pytest.param({"aud": None}, "aud is missing", id="no-audience"),
        pytest.param({"sub": "jane"}, "sub is not the service account", id="other-sub"),
    ],
)
def test_account(changes: dict[str, Any], lifetime_s: float | str) -> None:
    """A token of a service account is for the issuer, and has a minute's leeway."""
    verdict = verdict_of(signed({**ACCOUNT_CLAIMS, **changes}), ACCOUNTS)

    if isinstance(lifetime_s, str):
        assert verdict.user is None
        assert lifetime_s in verdict.problem
    else:
        assert ("system:serviceaccount:ns:build.bot", lifetime_s) == (
            verdict.user and verdict.user.name,
            verdict.lifetime_s,
        )


@pytest.mark.parametrize(
    ("changes", "lifetime_s"),
    [
        pytest.param({}, MAX_LIFETIME_S, id="as-they-are"),
        pytest.param({"aud": []}, MAX_LIFETIME_S, id="empty-audiences"),
        pytest.param({"exp": NOW_S + 1}, 61, id="expiring"),
        pytest.param({"exp": NOW_S - 60}, None, id="expired"),
        pytest.param({"aud": "vault"}, None, id="other-audience"),
    ],
)
def test_legacy_account(changes: dict[str, Any], lifetime_s: float | None) -> None:
    verdict = verdict_of(signed({**LEGACY, "iss": LEGACY_ISSUER, **changes}), LEGACY_ACCOUNTS)

    assert lifetime_s == (verdict.lifetime_s if verdict.user else None)


@pytest.mark.parametrize("kid", [None, "ES256"])
async def test_keys_that_have_to_come(kid: str | None) -> None:
    """While its key is not there but may come, a token takes time."""
    keys = Keys(later=PUBLISHED)
    known = tokens(keys=keys)
    token = signed(CLAIMS, kid=kid)

    assert known.check(token) is None
    assert Verdict(JANE, 60) == await known.review(token, ADDRESS)
    assert Verdict(JANE, 60) == known.check(token)
    assert 1 == keys.refreshed


async def test_rotated_keys() -> None:
    """A key of a new name comes with the set; one of a known name is not fetched again."""
    new = private_key(number=1)
    keys = Keys(PUBLISHED, jwks(public_jwk(new, kid="new")))
    known = tokens(keys=keys)
    forged = known.check(signed(CLAIMS, new, kid="ES256"))

    assert Verdict(None, UNVERIFIED_LIFETIME_S, "not signed by a key of the issuer") == forged
    assert Verdict(JANE, 60) == await known.review(signed(CLAIMS, new, kid="new"), ADDRESS)
    old = known.check(signed(CLAIMS, kid="ES256"))
    assert old is not None
    assert old.user is None


FORGED = signed(CLAIMS, private_key(number=1), kid="ES256")


@pytest.mark.parametrize(
    ("published", "token", "is_open", "problem"),
    [
        pytest.param(b"", GOOD, True, "not signed by a known key; status 503", id="open"),
        pytest.param(b"", signed({**CLAIMS, "exp": NOW_S - 1}), False, "expired", id="expired"),
        pytest.param(PUBLISHED, FORGED, False, "not signed by a key of the issuer", id="forged"),
    ],
)
async def test_keys_that_do_not_come(
    published: bytes, token: str, is_open: bool, problem: str
) -> None:
    """The verdict is open, unless no further key could make the token good."""
    keys = Keys(published)
    keys.problem = "status 503"
    verdict = await tokens(keys=keys).review(token, ADDRESS)

    assert (None, problem, is_open) == (verdict.user, verdict.problem, verdict.is_open)


@pytest.mark.parametrize(
    ("claims", "kid", "is_open"),
    [
        pytest.param({"iat": NOW_S - 4}, "new", True, id="issued-since"),
        pytest.param({"iat": NOW_S - 6}, "new", False, id="issued-before"),
        pytest.param({"iat": NOW_S + 1}, "new", False, id="issued-in-the-future"),
        pytest.param({}, "new", False, id="issued-at-no-time"),
        pytest.param({"iat": "now"}, "new", False, id="no-time"),
        pytest.param({"iat": NOW_S - 4, "exp": NOW_S}, "new", False, id="expired"),
        pytest.param({"iat": NOW_S - 4}, None, False, id="without-a-name"),
        pytest.param({"iat": NOW_S - 4}, "ES256", False, id="known-name"),
    ],
)
def test_key_newer_than_the_set(claims: dict[str, Any], kid: str | None, is_open: bool) -> None:
    """While the set may not be fetched again yet, a token that is newer may have a newer key."""
    token = signed({**CLAIMS, **claims}, private_key(number=1), kid=kid)
    verdict = tokens().check(token)

    assert verdict is not None
    assert (None, is_open) == (verdict.user, verdict.is_open)


def test_keys_of_settings(tmp_path: Path) -> None:
    path = tmp_path / "sa.pub"
    path.write_bytes(public_pem(private_key()))
    keys = keys_of(JwtSettings(issuer="x", audiences=("a",), keys_file=str(path)))

    assert isinstance(keys, FileKeys)
    assert isinstance(keys_of(SETTINGS), RemoteKeys)
    with pytest.raises(WebKeysError, match="No such file"):
        keys_of(JwtSettings(issuer="x", audiences=("a",), keys_file=str(tmp_path / "none")))


SECRET, OLD_SECRET, SHORT = "s" * 64, "o" * 64, "h" * 32
SHARED = JwtSettings(secret_file="jwt-secret", username_claim="role")  # noqa: S106  a file
CLAIMED = {"role": "todo", "exp": NOW_S + 60, "aud": "any", "iss": "any"}


def shared(
    token: str, secrets: str = f"{SECRET}\n{OLD_SECRET}\n{SHORT}\n", **settings: object
) -> Verdict:
    """The verdict of an entry with secrets."""
    keys = Keys()
    keys.current = lambda: parse_secrets(secrets.encode(), "jwt-secret")  # type: ignore[method-assign]
    found = structs.replace(SHARED, **settings)
    verdict = JsonWebTokens(found, keys, lambda: NOW_S).check(token)
    assert verdict is not None
    return verdict


def encoded(claims: dict[str, Any], secret: Any, algorithm: str = "HS256", **header: str) -> str:  # noqa: ANN401  keys, too
    """A token as a program makes it that signs with the library."""
    return jwt.encode(claims, secret, algorithm, headers=header or None)


@pytest.mark.parametrize("kid", [{}, {"kid": "any"}])
@pytest.mark.parametrize("secret", [SECRET, OLD_SECRET])
@pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512"])
def test_secrets_of_both_sides(algorithm: str, secret: str, kid: dict[str, str]) -> None:
    token = encoded(CLAIMED, secret, algorithm, **kid)

    assert Verdict(User("todo", ()), 60) == shared(token)
    assert Verdict(User("any#todo", ()), 60) == shared(token, issuer="any", audiences=("any", "b"))
    assert OTHER_ISSUER == shared(token, issuer="another")
    assert "for other audiences" == shared(token, audiences=("another",)).problem
    for changed in (token[:-2] + "AA", token.replace(".", ".e", 1), f"{token}="):
        assert shared(changed).user is None


def test_token_of_rfc_7515(tmp_path: Path) -> None:
    """The example of its appendix A.1; the secret is as a JWKS has it."""
    path = tmp_path / "secret"
    path.write_text(
        "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow\n"
    )
    text = (
        "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9"
        ".eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0"
        "cnVlfQ.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
    )
    settings = JwtSettings(secret_file=str(path), secret_is_base64=True, username_claim="iss")
    known = JsonWebTokens(settings, keys_of(settings), lambda: 1_300_819_379)

    assert Verdict(User("joe", ()), 1) == known.check(text)


LONGER = "32 bytes for HS256, 48 bytes for HS384, 64 bytes for HS512"


@pytest.mark.parametrize(
    ("token", "problem"),
    [
        pytest.param(encoded(CLAIMED, "x" * 64), LONGER, id="another-secret"),
        pytest.param(signed_parts({"alg": "HS512"}, CLAIMED, SHORT, "HS512"), LONGER, id="short"),
        pytest.param(signed_parts({"alg": "HS256"}, CLAIMED, b"", "HS256"), LONGER, id="empty"),
        pytest.param(signed_parts({"alg": "HS384"}, CLAIMED, SECRET, "HS256"), LONGER, id="mixed"),
        pytest.param(signed(CLAIMED), BAD_HEADER.problem, id="of-a-key"),
        pytest.param(signed(CLAIMED, RSA_KEY, "RS256"), BAD_HEADER.problem, id="of-an-rsa-key"),
        *(
            pytest.param(f"{part({'alg': name})}.{part(CLAIMED)}.e30", BAD_HEADER.problem, id=name)
            for name in ("none", "hs256", "HS1", "sha256")
        ),
        pytest.param(encoded({**CLAIMED, "exp": NOW_S}, SECRET), "expired", id="expired"),
        pytest.param(encoded({"role": "todo"}, SECRET), "the claim exp is missing", id="for-ever"),
        pytest.param(encoded({**CLAIMED, "nbf": NOW_S + 301}, SECRET), "not valid yet", id="nbf"),
        pytest.param(
            encoded({"exp": NOW_S + 60}, SECRET),
            "the claim role is missing or no text",
            id="nobody",
        ),
    ],
)
def test_not_of_a_secret(token: str, problem: str) -> None:
    verdict = shared(token, unnamed="refuse")

    assert verdict.user is None
    assert problem in verdict.problem
    assert shared(token, unnamed="anonymous").user == (ANONYMOUS if "role" in problem else None)


@pytest.mark.parametrize("key", NAMED_KEYS)
def test_public_key_is_no_secret(key: str) -> None:
    """A token that is signed with the bytes of a public key, in any form, is no user's."""
    public = NAMED_KEYS[key].public_key()
    forms = [public_pem(NAMED_KEYS[key]), kubernetes_kid(public).encode()]
    for form in (*forms, forms[0].strip()):
        token = signed_parts({"alg": "HS256", "kid": key}, CLAIMS, form, "HS256")
        assert BAD_HEADER == tokens().check(token)


BASE64 = st.binary(max_size=60).map(
    lambda data: base64.urlsafe_b64encode(data).decode().rstrip("=")
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["namespace", "serviceaccount", "pod", "node", "name", "uid"]), inner
        )
    ),
    max_leaves=6,
)


async def is_verdict(settings: JwtSettings, token: str) -> bool:
    """Whether there is a verdict, and the same one at once and on review."""
    known = JsonWebTokens(settings, Keys(later=PUBLISHED), lambda: NOW_S)
    assert isinstance(known.check(token), Verdict | None)
    verdict = await known.review(token, ADDRESS)
    assert isinstance(verdict, Verdict)
    assert verdict.user is None or verdict.user.name.encode()
    return verdict == known.check(token)


@given(
    token=st.text(max_size=60)
    | st.tuples(BASE64, BASE64, BASE64).map(".".join)
    | st.text("eyJh.=-_", max_size=40)
)
def test_any_text(token: str) -> None:
    assert asyncio.run(is_verdict(SETTINGS, token))


@given(
    header=st.dictionaries(st.sampled_from(["alg", "kid", "crit", "typ", "jwk", "b64"]), JSON),
    claims=st.dictionaries(
        st.sampled_from(
            (*CLAIMS, "nbf", "iat", "jti", "email", "email_verified", "groups", "kubernetes.io")
        ),
        JSON,
    ),
    settings=st.sampled_from([SETTINGS, PEOPLE, ACCOUNTS, SHARED]),
)
def test_any_claims(header: dict[str, Any], claims: dict[str, Any], settings: JwtSettings) -> None:
    async def check() -> None:
        for one in ({**ACCOUNT_CLAIMS, **claims}, claims):
            for other in ({"alg": "ES256", **header}, header, {"alg": "ES256"}):
                assert await is_verdict(settings, signed_parts(other, one))

    asyncio.run(check())
