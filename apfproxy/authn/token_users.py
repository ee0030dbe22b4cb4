"""The user of a JSON Web Token, by its verified claims.

Tokens of service accounts are read as by kube-apiserver's own authenticator, others by the claims
that the settings name, as by its flags --oidc-...  Stricter than kube-apiserver: `sub` must agree
with the account that a bound token names; names must be valid; an empty user is refused, and so are
control characters, which no header field can carry.

kube-apiserver also checks whether account, pod, node and secret still exist.  The proxy cannot: a
token counts here until it expires.

Source: kubernetes/kubernetes, pkg/serviceaccount/claims.go and legacy.go; kubernetes/apiserver,
pkg/authentication/serviceaccount and plugin/pkg/authenticator/token/oidc.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from apfproxy.objects.names import check_dns_label, check_dns_subdomain
from apfproxy.request.user import User

if TYPE_CHECKING:
    from apfproxy.settings import JwtSettings

LEGACY_ISSUER = "kubernetes/serviceaccount"
"""Of tokens in secrets, which never expire and name no audience."""

ACCOUNT_PREFIX = "system:serviceaccount:"
ACCOUNTS_GROUP = "system:serviceaccounts"
EXTRA_PREFIX = "authentication.kubernetes.io/"
LEGACY_PREFIX = "kubernetes.io/serviceaccount/"

UNFIT = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")
"""Control characters, and surrogates, which JSON can have but UTF-8 cannot."""


class ClaimsError(ValueError):
    """The claims name no user.  Says which claim, and no value."""


def text_claim(claims: dict[str, Any], name: str) -> str:
    """The text of a claim, which must be there."""
    value = claims.get(name)
    if not isinstance(value, str) or not value or UNFIT.search(value):
        raise ClaimsError(f"the claim {name} is missing or no text")
    return value


def optional_claim(claims: dict[str, Any], name: str) -> str:
    """The text of a claim; "" if it is missing."""
    return "" if claims.get(name, "") in (None, "") else text_claim(claims, name)


def user_of_person(settings: JwtSettings, claims: dict[str, Any]) -> User:
    """The user by the claims that the settings name.  Raises ClaimsError without one."""
    name = text_claim(claims, settings.username_claim)
    if settings.username_claim == "email" and claims.get("email_verified", True) is not True:
        raise ClaimsError("the claim email_verified is not true")
    groups: list[str] = []
    if settings.groups_claim and (value := claims.get(settings.groups_claim)) is not None:
        groups = value if isinstance(value, list) else [value]
        if not all(isinstance(group, str) and not UNFIT.search(group) for group in groups):
            raise ClaimsError(f"the claim {settings.groups_claim} has something else than texts")
    group_prefix = settings.groups_prefix or ""
    return User(username_prefix(settings) + name, tuple(group_prefix + group for group in groups))


def username_prefix(settings: JwtSettings) -> str:
    """The prefix of user names, which keeps issuers' users apart: by default the issuer's URL."""
    if settings.username_prefix == "-":
        return ""
    if settings.username_prefix:
        return settings.username_prefix
    return "" if settings.username_claim == "email" else f"{settings.issuer}#"


def user_of_account(settings: JwtSettings, claims: dict[str, Any]) -> User:
    """The service account that the claims name.  Raises ClaimsError if they name none or two."""
    if settings.issuer == LEGACY_ISSUER:
        namespace = text_claim(claims, f"{LEGACY_PREFIX}namespace")
        name = text_claim(claims, f"{LEGACY_PREFIX}service-account.name")
        uid = text_claim(claims, f"{LEGACY_PREFIX}service-account.uid")
        text_claim(claims, f"{LEGACY_PREFIX}secret.name")
        extra = []
    else:
        bound = object_claim(claims, "kubernetes.io")
        account = object_claim(bound, "serviceaccount")
        namespace = text_claim(bound, "namespace")
        name, uid = text_claim(account, "name"), text_claim(account, "uid")
        extra = bound_extra(claims, bound)
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


def object_claim(claims: dict[str, Any], name: str) -> dict[str, Any]:
    """The object of a claim, which must be there."""
    value = claims.get(name)
    if not isinstance(value, dict):
        raise ClaimsError(f"the claim {name} is missing or no object")
    return value


def bound_extra(claims: dict[str, Any], bound: dict[str, Any]) -> list[tuple[str, str]]:
    """The token's id, and the objects that it is bound to: keys without prefix, and values."""
    extra = []
    if jti := optional_claim(claims, "jti"):
        extra.append(("credential-id", f"JTI={jti}"))
    node_name, node_uid = reference(bound, "node")
    if node_name:
        extra.append(("node-name", node_name))
        if node_uid:
            extra.append(("node-uid", node_uid))
    pod_name, pod_uid = reference(bound, "pod")
    if pod_name and pod_uid:
        extra += [("pod-name", pod_name), ("pod-uid", pod_uid)]
    return extra


def reference(bound: dict[str, Any], kind: str) -> tuple[str, str]:
    """Name and uid of an object that a token is bound to; "" for what is missing."""
    if bound.get(kind) is None:
        return "", ""
    found = object_claim(bound, kind)
    return optional_claim(found, "name"), optional_claim(found, "uid")
