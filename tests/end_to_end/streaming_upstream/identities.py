"""Who asks the upstream: a client with credentials of its own, or a proxy that says so."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import unquote

from apfproxy.request.attributes import ANONYMOUS, User, authenticated

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tests.end_to_end.streaming_upstream.http_requests import Request

EXTRA = "extra-"
CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"


@dataclass(frozen=True)
class ShownCertificate:
    """The certificate of a client, which a CA of the upstream signed.

    Attributes:
        subject: As `ssl` tells it.
        der: The bytes of it.
    """

    subject: tuple[tuple[tuple[str, str], ...], ...]
    der: bytes

    @property
    def user(self) -> User:
        """Whose it is, as kube-apiserver has it."""
        names: defaultdict[str, list[str]] = defaultdict(list)
        for part in self.subject:
            for name, value in part:
                names[name].append(value)
        groups = tuple(names["organizationName"])
        return User(names["commonName"][0], groups, extra=credential_id(self.der))


def credential_id(der: bytes) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """What kube-apiserver says beside the user of a certificate."""
    return ((CREDENTIAL_ID, (f"X509SHA256={hashlib.sha256(der).hexdigest()}",)),)


class ForbiddenError(Exception):
    """What somebody says who may not say it."""


@dataclass(frozen=True)
class Identities:
    """Whom the upstream knows.

    Attributes:
        tokens: Bearer token to its user, without the virtual groups.
        front_proxies: Common names of the certificates of proxies that name the user.
        impersonators: Users who may say that they are somebody else.
    """

    tokens: Mapping[str, User] = field(default_factory=dict, repr=False)
    front_proxies: tuple[str, ...] = ()
    impersonators: tuple[str, ...] = ()

    def user_of(self, request: Request, certificate: ShownCertificate | None) -> User:
        """Who asks.

        Args:
            request: What they ask.
            certificate: The client's, if it has one.

        Raises:
            ForbiddenError: They name somebody else, and are nobody who may.
            KeyError: Of a token that is nobody's.
        """
        user = certificate.user if certificate else None
        if user is not None and user.name in self.front_proxies:
            user = _named(request, "x-remote-")
        elif _named(request, "x-remote-") is not None:
            raise ForbiddenError("X-Remote-* of no front proxy")
        elif user is None and (token := _token(request)):
            user = self.tokens[token]
        user = authenticated(user) if user else ANONYMOUS
        impersonated = _named(request, "impersonate-")
        if impersonated is None:
            return user
        if user.name not in self.impersonators:
            raise ForbiddenError(f"{user.name} may not impersonate")
        return impersonated


def _token(request: Request) -> str:
    scheme, _, token = request.value("authorization").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _named(request: Request, prefix: str) -> User | None:
    """The user that header fields name; None if they name nobody."""
    if not any(name.startswith(prefix) for name, _ in request.fields):
        return None
    extra: defaultdict[str, list[str]] = defaultdict(list)
    for name, value in request.fields:
        if name.startswith(prefix + EXTRA):
            extra[unquote(name.removeprefix(prefix + EXTRA))].append(value)
    user = User(
        request.value(f"{prefix}user"),
        tuple(request.values(f"{prefix}group")),
        request.value(f"{prefix}uid"),
        tuple((key, tuple(values)) for key, values in sorted(extra.items())),
    )
    return authenticated(user)


def described(user: User) -> str:
    """A line about a user, the same however the upstream has learnt who it is."""
    extra = ";".join(f"{key}={','.join(values)}" for key, values in sorted(user.extra))
    return f"{user.name} [{_joined(user.groups)}] uid={user.uid} {extra}\n"


def _joined(groups: Iterable[str]) -> str:
    return ",".join(sorted(groups))
