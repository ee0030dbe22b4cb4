"""The user of a token by its claims."""

from __future__ import annotations

import re
from typing import Any

import pytest

from apfproxy.authn.json_web_tokens import (
    ClaimsError,
    user_of_account,
    user_of_person,
    username_prefix,
)
from apfproxy.request.attributes import User
from apfproxy.settings import JwtSettings
from apfproxy.settings.contradictions import LEGACY_ISSUER

ISSUER = "https://issuer.example"
EXTRA = "authentication.kubernetes.io/"

ACCOUNT: dict[str, Any] = {
    "sub": "system:serviceaccount:ns:build.bot",
    "kubernetes.io": {"namespace": "ns", "serviceaccount": {"name": "build.bot", "uid": "u1"}},
}
LEGACY: dict[str, Any] = {
    "sub": "system:serviceaccount:ns:default",
    "kubernetes.io/serviceaccount/namespace": "ns",
    "kubernetes.io/serviceaccount/service-account.name": "default",
    "kubernetes.io/serviceaccount/service-account.uid": "u1",
    "kubernetes.io/serviceaccount/secret.name": "default-token-x",
}
EMAIL = {"username_claim": "email"}
GROUPS = ("system:serviceaccounts", "system:serviceaccounts:ns")


def person(claims: dict[str, Any], **settings: Any) -> User:  # noqa: ANN401 - settings of all types
    return user_of_person(JwtSettings(issuer=ISSUER, **settings), claims)


def account(claims: dict[str, Any], issuer: str = ISSUER) -> User:
    return user_of_account(JwtSettings(issuer=issuer, is_service_account_issuer=True), claims)


def bound(**members: object) -> dict[str, Any]:
    return {**ACCOUNT, "kubernetes.io": {**ACCOUNT["kubernetes.io"], **members}}


@pytest.mark.parametrize(
    ("settings", "prefix"),
    [
        pytest.param({}, f"{ISSUER}#", id="default"),
        pytest.param({"username_claim": "email"}, "", id="email"),
        pytest.param({"username_prefix": ""}, f"{ISSUER}#", id="empty-is-default"),
        pytest.param({"username_prefix": "-"}, "", id="none"),
        pytest.param({"username_prefix": "oidc:"}, "oidc:", id="given"),
        pytest.param({"username_claim": "email", "username_prefix": "o:"}, "o:", id="for-email"),
    ],
)
def test_username_prefix(settings: dict[str, str], prefix: str) -> None:
    assert prefix == username_prefix(JwtSettings(issuer=ISSUER, **settings))  # type: ignore[arg-type]  # texts all


@pytest.mark.parametrize(
    ("roles", "prefix", "groups"),
    [
        pytest.param(["a", "b"], "g:", ("g:a", "g:b"), id="groups"),
        pytest.param("a,b", None, ("a,b",), id="one-group"),
        pytest.param("a", "-", ("-a",), id="hyphen-is-a-prefix"),
        pytest.param(["", "a"], None, ("", "a"), id="empty-group"),
        pytest.param("", "p:", ("p:",), id="empty-group-with-prefix"),
        pytest.param([], None, (), id="no-groups"),
        pytest.param(None, None, (), id="null"),
    ],
)
def test_groups_of_a_person(roles: object, prefix: str | None, groups: tuple[str, ...]) -> None:
    claims = {"sub": "j", "roles": roles, "groups": ["x"]}

    assert groups == person(claims, groups_claim="roles", groups_prefix=prefix).groups
    assert () == person(claims).groups


NESTED = {
    "app_metadata": {"role": "admin", "roles": ["a", "b"], "x.y": {"z": "deep"}, "team": {"id": 7}},
    "https://app.example/claims": {"user": "jo"},
    "dotted.name": "whole",
    "dotted": {"name": "inner"},
    "scope": "read  write ",
    "scp": "",
    "realm.scope": ["read write"],
    "text": "read write",
}


@pytest.mark.parametrize(
    ("name", "user", "groups"),
    [
        ("app_metadata.role", "admin", ("admin",)),
        ("app_metadata.roles", None, ("a", "b")),
        ("app_metadata.x.y.z", "deep", ("deep",)),
        ("app_metadata.team.id", "7", None),
        ("https://app.example/claims.user", "jo", ("jo",)),
        ("dotted.name", "whole", ("whole",)),
        ("app_metadata.role.x", None, ()),
        ("app_metadata.", None, ()),
        ("app_metadata.team", None, None),
        ("scope", "read  write ", ("read", "write")),
        ("scp", None, ()),
        ("realm.scope", None, ("read write",)),
        ("text", "read write", ("read write",)),
    ],
)
def test_claims_in_objects_and_of_texts(
    name: str, user: str | None, groups: tuple[str, ...] | None
) -> None:
    """A name that is there as a whole counts before objects; None where the claim names none."""
    claims = {"sub": "j", **NESTED}
    if user is None:
        with pytest.raises(ClaimsError, match=re.escape(f"the claim {name} is missing or no text")):
            person(claims, username_claim=name)
        assert User("system:anonymous", ("system:unauthenticated",)) == person(
            {}, username_claim=name, unnamed="anonymous"
        )
    else:
        assert f"{ISSUER}#{user}" == person(claims, username_claim=name, unnamed="anonymous").name
    if groups is None:
        with pytest.raises(ClaimsError, match="something else than texts"):
            person(claims, groups_claim=name)
    else:
        assert groups == person(claims, groups_claim=name).groups


@pytest.mark.parametrize("is_prefixed", [False, True])
def test_secret_names_no_user_of_kubernetes(is_prefixed: bool) -> None:
    """Claims of a shared secret make no user exempt; without an issuer users have no prefix."""
    prefixes = {"username_prefix": "u:", "groups_prefix": "g:"} if is_prefixed else {}
    settings = JwtSettings(secret_file="s", groups_claim="role", **prefixes)  # type: ignore[arg-type]  # noqa: S106  texts all, and a file
    expected = User("u:jo", ("g:dev",)) if is_prefixed else User("jo", ("dev",))
    assert expected == user_of_person(settings, {"sub": "jo", "role": "dev"})
    for claims in ({"sub": "jo", "role": "system:masters"}, {"sub": "system:admin"}):
        if is_prefixed:
            assert user_of_person(settings, claims)
        else:
            with pytest.raises(ClaimsError, match="begins with system:"):
                user_of_person(settings, claims)


@pytest.mark.parametrize("claims", [{}, {"email_verified": True}])
def test_email_of_a_person(claims: dict[str, Any]) -> None:
    assert User("j@x", ()) == person({"email": "j@x", **claims}, username_claim="email")
    assert User(f"{ISSUER}#j", ()) == person({"sub": "j", "email_verified": False})


@pytest.mark.parametrize(
    ("claims", "settings", "problem"),
    [
        pytest.param({"sub": ""}, {}, "sub is missing", id="empty"),
        pytest.param({"sub": ["j"]}, {}, "or no text", id="list"),
        pytest.param({"sub": ["j"]}, {"unnamed": "anonymous"}, "or no text", id="list-is-there"),
        pytest.param({"sub": True}, {}, "or no text", id="truth"),
        pytest.param({"sub": "secret\r\nX-Remote-Group: a"}, {}, "or no text", id="lines"),
        pytest.param({"sub": "secret\ud800"}, {}, "or no text", id="half-a-character"),
        *(
            ({"email": "secret", "email_verified": value}, EMAIL, "email_verified is not true")
            for value in (False, None, "true", 1)
        ),
        *(
            ({"sub": "secret", "roles": groups}, {"groups_claim": "roles"}, "roles has something")
            for groups in (7, {"secret": 1}, ["secret", 7], ["secret\nb"])
        ),
    ],
)
def test_nobody(claims: dict[str, Any], settings: dict[str, Any], problem: str) -> None:
    """Claims that name no user say which of them does not, and not what it says."""
    with pytest.raises(ClaimsError, match=problem) as error:
        person(claims, **settings)

    assert "secret" not in str(error.value)


CAPITAL = {"name": "A", "uid": "u"}
POD, NODE = {"name": "p", "uid": "u"}, {"name": "n", "uid": "v"}
OF_NODE = {"node-name": "n", "node-uid": "v"}
OF_POD = {"pod-name": "p", "pod-uid": "u"}


@pytest.mark.parametrize(
    ("claims", "extra"),
    [
        pytest.param(ACCOUNT, {}, id="unbound"),
        pytest.param({**ACCOUNT, "jti": "7"}, {"credential-id": "JTI=7"}, id="jti"),
        pytest.param(bound(pod=POD), OF_POD, id="pod"),
        pytest.param(bound(pod={"name": "p"}), {}, id="pod-without-uid"),
        pytest.param(bound(node=NODE), OF_NODE, id="node"),
        pytest.param(bound(node={"name": "n"}), {"node-name": "n"}, id="node-without-uid"),
        pytest.param(bound(node={"uid": "u"}), {}, id="node-without-name"),
        pytest.param(
            {**bound(pod=POD, node=NODE), "jti": "7"},
            {"credential-id": "JTI=7", **OF_NODE, **OF_POD},
            id="pod-on-node",
        ),
    ],
)
def test_account(claims: dict[str, Any], extra: dict[str, str]) -> None:
    expected = tuple((EXTRA + key, (value,)) for key, value in extra.items())

    assert User("system:serviceaccount:ns:build.bot", GROUPS, "u1", expected) == account(claims)


def test_legacy_account() -> None:
    assert User("system:serviceaccount:ns:default", GROUPS, "u1") == account(LEGACY, LEGACY_ISSUER)


@pytest.mark.parametrize(
    ("claims", "issuer", "problem"),
    [
        pytest.param({}, ISSUER, "kubernetes.io is missing", id="nothing"),
        pytest.param(bound(namespace=None), ISSUER, "namespace is missing", id="no-namespace"),
        pytest.param(bound(serviceaccount={"name": "a"}), ISSUER, "uid is missing", id="no-uid"),
        pytest.param(bound(serviceaccount={"uid": "a"}), ISSUER, "name is missing", id="no-name"),
        pytest.param(bound(namespace="other"), ISSUER, "claim sub is not", id="other-namespace"),
        pytest.param({**ACCOUNT, "sub": "jane"}, ISSUER, "claim sub is not", id="other-sub"),
        pytest.param(bound(namespace="ns:x"), ISSUER, "no valid name", id="colon"),
        pytest.param(bound(serviceaccount=CAPITAL), ISSUER, "no valid name", id="capital"),
        pytest.param(bound(pod="p"), ISSUER, "pod is missing or no object", id="pod-no-object"),
        pytest.param(bound(node={"name": ["n"]}), ISSUER, "name is missing or no", id="node-list"),
        pytest.param({**ACCOUNT, "jti": "a\nb"}, ISSUER, "jti is missing or no", id="jti-lines"),
        pytest.param(ACCOUNT, LEGACY_ISSUER, "namespace is missing", id="bound-of-legacy-issuer"),
        *(
            pytest.param({**LEGACY, name: ""}, LEGACY_ISSUER, "is missing", id=name)
            for name in LEGACY
            if name != "sub"
        ),
    ],
)
def test_no_account(claims: dict[str, Any], issuer: str, problem: str) -> None:
    """Claims that do not agree, or name no possible account, name no user."""
    with pytest.raises(ClaimsError, match=problem):
        account(claims, issuer)
