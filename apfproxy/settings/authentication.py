"""Settings of who clients are."""

from __future__ import annotations

from dataclasses import dataclass, field

from apfproxy.settings.setting_fields import bounded, header_names, path_setting

EVERYBODY = "*"
"""As a user's name: any user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AudienceSettings:
    """Users and groups, any of whom is meant."""

    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontProxySettings:
    """Authenticating proxies in front of this one, which name the user in header fields."""

    ca_file: str | None = path_setting()
    allowed_names: tuple[str, ...] = ()
    username_headers: tuple[str, ...] = header_names("X-Remote-User")
    uid_headers: tuple[str, ...] = header_names("X-Remote-Uid")
    group_headers: tuple[str, ...] = header_names("X-Remote-Group")
    extra_header_prefixes: tuple[str, ...] = header_names("X-Remote-Extra-")


@dataclass(frozen=True, slots=True, kw_only=True)
class JwtSettings:
    """One issuer of JSON Web Tokens."""

    issuer: str = ""
    audiences: tuple[str, ...] = ()
    keys_file: str | None = path_setting()
    jwks_url: str | None = field(default=None, metadata={"form": "url"})
    ca_file: str | None = path_setting()
    username_claim: str = "sub"
    username_prefix: str | None = None
    groups_claim: str | None = None
    groups_prefix: str | None = None
    is_service_account_issuer: bool = field(default=False, metadata={"key": "serviceAccounts"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewSettings:
    """Questions to the upstream's API: TokenReviews or SubjectAccessReviews."""

    is_enabled: bool = field(default=False, metadata={"key": "enabled"})
    cache_s: float = bounded(10.0, 0)
    grace_s: float = bounded(110.0, 0)
    max_cached: int = bounded(8192, 1)
    max_concurrent: int = bounded(16, 1)
    timeout_s: float = bounded(10.0, 0.001)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImpersonationSettings:
    """Whose `Impersonate-*` fields decide how a request is classified."""

    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    access_review: ReviewSettings = field(default_factory=ReviewSettings)


REFUSE, ANONYMOUS = "refuse", "anonymous"
"""What becomes of a request with a key that the proxy does not know: 401, or as without the key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKeySettings:
    """Keys that the proxy knows by their SHA-256, and where requests have them."""

    file: str | None = path_setting()
    header: str | None = field(default="X-API-Key", metadata={"form": "header"})
    is_bearer: bool = field(default=False, metadata={"key": "bearer"})
    is_basic: bool = field(default=False, metadata={"key": "basic"})
    unknown: str = field(default=REFUSE, metadata={"choices": (REFUSE, ANONYMOUS)})


@dataclass(frozen=True, slots=True, kw_only=True)
class UnverifiedSettings:
    """What tells anonymous clients apart, though nobody has verified it; the first that is there.

    In the order of these fields: the user name of Basic, the hash of a secret, a field's value, the
    address.  None is left to the preset, and for the last one no limit without it.
    """

    is_by_basic: bool = field(default=False, metadata={"key": "basic"})
    secret_headers: tuple[str, ...] | None = field(default=None, metadata={"form": "header"})
    headers: tuple[str, ...] = header_names()
    is_by_address: bool | None = field(default=None, metadata={"key": "address"})
    names_per_address: int | None = bounded(None, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthenticationSettings:
    """Authentication of clients; without any of this all are anonymous."""

    client_ca_file: str | None = path_setting()
    front_proxy: FrontProxySettings = field(default_factory=FrontProxySettings)
    token_file: str | None = path_setting()
    jwt: tuple[JwtSettings, ...] = ()
    token_review: ReviewSettings = field(default_factory=ReviewSettings)
    api_keys: ApiKeySettings = field(default_factory=ApiKeySettings)
    anonymous: bool = True
    unverified: UnverifiedSettings = field(default_factory=UnverifiedSettings)
    impersonation: ImpersonationSettings = field(default_factory=ImpersonationSettings)
