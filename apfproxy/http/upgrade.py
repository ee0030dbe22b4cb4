"""Upgrades: a request and its response agree that a connection becomes a tunnel.

Honoured are `websocket` (RFC 6455) and `SPDY/3.1`, and only where an API has them:

1. Of Kubernetes' own groups for exec, attach, portforward, proxy, log and WATCH of resources, the
   last two over WebSocket only.
2. For any resource of any other group: kube-apiserver passes an upgrade on to an aggregated server,
   whatever it is for.
3. Before an API that is not Kubernetes `websocket`, on any path.
4. Where `upstream.upgrades.allow` says so, and nowhere where `upstream.upgrades.deny` does.

Anywhere else, and of any other protocol such as h2c, the Upgrade field means nothing, as RFC 9110,
section 7.8, allows: the request is forwarded as a normal one, without it.  A response 101 is
believed only if it names one protocol that was offered.
"""

from __future__ import annotations

import binascii
import hashlib
import re
from base64 import b64encode, urlsafe_b64decode
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from apfproxy.http.credential_fields import BEARER_CHALLENGE
from apfproxy.http.grammar import HeadError, elements
from apfproxy.http.response_head import ResponseError
from apfproxy.request.rules import is_plain_path

if TYPE_CHECKING:
    from collections.abc import Iterable

    from apfproxy.request.attributes import RequestAttributes

WEBSOCKET = b"websocket"
SPDY = b"SPDY/3.1"
PROTOCOLS = {WEBSOCKET: WEBSOCKET, SPDY.lower(): SPDY}
"""The protocols that are served, by their names in small letters."""
SPDY_METHODS = frozenset({"GET", "POST"})
"""With which Kubernetes' clients ask for SPDY; the response to HEAD ends with its head."""
WEBSOCKET_ONLY = frozenset({"log"})
UPGRADED = WEBSOCKET_ONLY | {"attach", "exec", "portforward", "proxy"}
"""Subresources that Kubernetes' own groups have for it."""
UPGRADED_VERBS = frozenset({"proxy", "watch"})
_K8S_GROUPS = (
    "admissionregistration apiextensions apiregistration authentication authorization certificates"
    " coordination discovery events flowcontrol.apiserver internal.apiserver networking node"
    " rbac.authorization resource scheduling storage storagemigration"
)
OWN_GROUPS = frozenset(
    (
        *("", "apps", "autoscaling", "batch", "extensions", "policy"),
        *(f"{name}.k8s.io" for name in _K8S_GROUPS.split()),
    )
)
"""Groups that kube-apiserver serves itself; it has no upgrades for any others of their paths."""
BEARER_PREFIX = b"base64url.bearer.authorization.k8s.io."

UPGRADE_LINES = b"Connection: upgrade\r\nUpgrade: websocket\r\n"  # of a response 426

_ACCEPT_SUFFIX = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_CONTENT_LENGTH = b"content-length:"
"""RFC 9110, section 8.6: there is none in a 1xx, and no length to what follows it."""
_KEY = re.compile(rb"[A-Za-z0-9+/]{22}==")
_VERSION = b"13"
_BASE64_URL = re.compile(rb"[A-Za-z0-9_-]*")


@dataclass(frozen=True, slots=True)
class Offer:
    """The protocols that a client offers to switch to, as it spells them: at least one served.

    One of the subprotocols may be a bearer token.
    """

    protocols: tuple[bytes, ...]
    keys: tuple[bytes, ...] = field(default=(), repr=False)
    versions: tuple[bytes, ...] = ()
    subprotocols: tuple[bytes, ...] = field(default=(), repr=False)

    @property
    def is_websocket(self) -> bool:
        return any(protocol.lower() == WEBSOCKET for protocol in self.protocols)

    @property
    def lines(self) -> bytes:
        return b"Connection: Upgrade\r\nUpgrade: %b\r\n" % b", ".join(self.protocols)


def offered(
    upgrades: Iterable[bytes], fields: Iterable[tuple[bytes, bytes]], nominated: Iterable[bytes]
) -> Offer | None:
    """The offer of a request, or None if it has nothing that is served anywhere.

    Fields that are `nominated`, by their names in small letters, are not forwarded.
    """
    protocols = tuple(item for item in elements(upgrades) if item.lower() in PROTOCOLS)
    if not protocols:
        return None
    values: dict[bytes, list[bytes]] = {}
    for name, value in fields:
        lower = name.lower()
        if lower.startswith(b"sec-websocket-") and lower not in nominated:
            values.setdefault(lower, []).append(value)
    return Offer(
        protocols,
        tuple(values.get(b"sec-websocket-key", ())),
        tuple(values.get(b"sec-websocket-version", ())),
        tuple(elements(values.get(b"sec-websocket-protocol", ()))),
    )


class UpgradeRules:
    """Where settings have upgrades, and where not, by patterns of paths.

    In those a segment `*` is any one, or all that follow if it is the last.
    """

    __slots__ = ("_allowed", "_denied")

    def __init__(self, allowed: Iterable[str] = (), denied: Iterable[str] = ()) -> None:
        self._allowed = _any_of(allowed)
        self._denied = _any_of(denied)

    def allows(self, path: str) -> bool:
        """Whether upgrades of a path are served, though no API is known to have them."""
        allowed = self._allowed
        return allowed is not None and is_plain_path(path) and allowed.fullmatch(path) is not None

    def denies(self, path: str) -> bool:
        """Whether none are: also where a server might take the path for one that is denied."""
        denied = self._denied
        if denied is None:
            return False
        if not is_plain_path(path) or denied.fullmatch(path) is not None:
            return True
        # Many servers merge slashes, and leave the last one out.
        merged = "/" + "/".join(filter(None, path.split("/")))
        return denied.fullmatch(merged) is not None


def _any_of(patterns: Iterable[str]) -> re.Pattern[str] | None:
    found = []
    for each in patterns:
        head, last = each[:-1], each[-1:]
        text = re.escape(head).replace(r"\*", "[^/]+")
        found.append(text + (".*" if last == "*" else re.escape(last)))
    return re.compile("|".join(found), re.DOTALL) if found else None


NO_RULES = UpgradeRules()


def honoured(
    offer: Offer, method: str, attributes: RequestAttributes, rules: UpgradeRules = NO_RULES
) -> Offer | None:
    """The part of an offer that goes on to the upstream, or None if the request is a normal one.

    HeadError: it would be a WebSocket handshake, but is malformed.
    """
    if not _is_upgraded(attributes, rules):
        return None
    if (
        attributes.is_plain
        or (
            attributes.api_group in OWN_GROUPS  # Kubernetes has no SPDY for these
            and (attributes.verb == "watch" or attributes.subresource in WEBSOCKET_ONLY)
        )
        or method not in SPDY_METHODS
    ):
        kept = tuple(item for item in offer.protocols if item.lower() == WEBSOCKET)
        if not kept:
            return None
        offer = replace(offer, protocols=kept)
    if offer.is_websocket:
        _check_handshake(offer, method)
    return offer


def _is_upgraded(attributes: RequestAttributes, rules: UpgradeRules) -> bool:
    """Whether such requests may be upgraded at all.

    Patterns are of whole paths, and of what an API below a prefix has for its own.
    """
    prefix = attributes.path_prefix if attributes.is_resource_request else ""
    paths = (attributes.path, attributes.path[len(prefix) :])
    if any(map(rules.denies, paths)):
        return False
    if attributes.is_plain or any(map(rules.allows, paths)):
        return True
    return attributes.is_resource_request and (
        attributes.subresource in UPGRADED
        or attributes.verb in UPGRADED_VERBS
        or attributes.api_group not in OWN_GROUPS
    )


def _check_handshake(offer: Offer, method: str) -> None:
    if method != "GET":
        raise HeadError(400, "a WebSocket handshake must be a GET")
    if len(offer.versions) == 1 and offer.versions[0] != _VERSION:
        raise HeadError(
            426,
            "the only version of WebSocket that is served is 13",
            UPGRADE_LINES + b"Sec-WebSocket-Version: 13\r\n",
        )
    if len(offer.versions) != 1:
        raise HeadError(400, "a WebSocket handshake must have one Sec-WebSocket-Version")
    if len(offer.keys) != 1 or not _KEY.fullmatch(offer.keys[0]):
        raise HeadError(
            400, "a WebSocket handshake must have one Sec-WebSocket-Key of 16 bytes in base64"
        )


# The response.


def _values_in(head: bytes) -> dict[bytes, list[bytes]]:
    values: dict[bytes, list[bytes]] = {}
    for line in head.split(b"\r\n")[1:-2]:
        name, _, value = line.partition(b":")
        values.setdefault(name.lower(), []).append(value)
    return values


def switched(head: bytes, offer: Offer | None) -> bytes:
    """The protocol that a response 101 names; ResponseError if it was not asked for."""
    if offer is None:
        raise ResponseError("an unexpected answer 101")
    values = _values_in(head)
    options = elements(values.get(b"connection", ()))
    if not head.startswith(b"HTTP/1.1 ") or b"upgrade" not in {item.lower() for item in options}:
        raise ResponseError("an answer 101 that does not upgrade the connection")
    named = elements(values.get(b"upgrade", ()))
    wanted = {item.lower() for item in offer.protocols}
    if len(named) != 1 or named[0].lower() not in wanted:
        raise ResponseError("an answer 101 for a protocol that was not asked for")
    if named[0].lower() == WEBSOCKET:
        subprotocols = elements(values.get(b"sec-websocket-protocol", ()))
        if len(subprotocols) > 1 or not set(subprotocols) <= set(offer.subprotocols):
            raise ResponseError("an answer 101 for a WebSocket subprotocol that was not asked for")
    return named[0]


def switch_lines(lines: bytes, protocol: bytes) -> bytes:
    kept = _without(lines, _CONTENT_LENGTH)
    return b"%bConnection: Upgrade\r\nUpgrade: %b\r\n" % (kept, protocol)


def connect_lines(lines: bytes) -> bytes:
    return _without(lines, (_CONTENT_LENGTH, b"sec-websocket-accept:"))


def _without(lines: bytes, starts: bytes | tuple[bytes, ...]) -> bytes:
    kept = lines.splitlines(keepends=True)
    return b"".join([line for line in kept if not line.lower().startswith(starts)])


def check_declined(status: int, *, is_connect: bool) -> None:
    """Judge a final response to an upgrade; ResponseError if the client must not get it.

    With CONNECT it takes any success for a tunnel.
    """
    if 300 <= status < 400:
        # The client would follow it with the upgrade and its credentials to a place that the
        # upstream chose; kube-apiserver relays none since CVE-2018-1002102.
        raise ResponseError(f"a redirect ({status}) in answer to an upgrade")
    if is_connect and status < 300:
        raise ResponseError(f"an answer {status} in place of a WebSocket")


def check_accept(head: bytes, offer: Offer) -> None:
    """Refuse a response 101 to another handshake than the proxy made; RFC 6455, section 4.1."""
    digest = hashlib.sha1(offer.keys[0] + _ACCEPT_SUFFIX, usedforsecurity=False).digest()
    values = _values_in(head).get(b"sec-websocket-accept", [])
    if [value.strip(b" \t") for value in values] != [b64encode(digest)]:
        raise ResponseError("an answer 101 whose Sec-WebSocket-Accept is not that of the key")


# The bearer token of clients that can set no Authorization field, such as browsers.


def bearer_token(subprotocols: Iterable[bytes]) -> bytes:
    """The token among the subprotocols that a WebSocket client offers; b"" if there is none.

    As kube-apiserver has it, `base64url.bearer.authorization.k8s.io.` and the token in unpadded
    base64url: once at most, and beside another subprotocol, which the server can choose.  Raises
    HeadError if it is otherwise; the request is not authenticated.
    """
    listed = list(subprotocols)
    tokens = [item for item in listed if item.startswith(BEARER_PREFIX)]
    if not tokens:
        return b""
    if len(tokens) > 1:
        raise _unauthorized("more than one subprotocol is a bearer token")
    if len(listed) == 1:
        raise _unauthorized("a bearer token needs another subprotocol beside it")
    encoded = tokens[0][len(BEARER_PREFIX) :]
    try:
        if not _BASE64_URL.fullmatch(encoded):
            raise _unauthorized("the bearer token of the subprotocol is not unpadded base64url")
        token = urlsafe_b64decode(encoded + b"=" * (-len(encoded) % 4))
        token.decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise _unauthorized("the bearer token of the subprotocol is malformed") from error
    return token


def _unauthorized(message: str) -> HeadError:
    return HeadError(401, message, BEARER_CHALLENGE)


def without_bearer(subprotocols: Iterable[bytes]) -> list[bytes]:
    return [item for item in subprotocols if not item.startswith(BEARER_PREFIX)]
