"""Requests, each made of a target and a header block.

A client sends the same fields with every target.  So what they say is found out once and kept, by
their bytes, with the user that they authenticate: in a cache that all clients of a kind share once
they came twice, and at the connection, which knows its last few.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import partial
from sys import getsizeof
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from msgspec import structs
from mypy_extensions import mypyc_attr

from apfproxy.base.address import address_from
from apfproxy.flowcontrol.classifier import QUERY, raw_query
from apfproxy.flowcontrol.passage import RequestDigest
from apfproxy.flowcontrol.preset import PRESETS, Preset
from apfproxy.http.credential_fields import alias_of_address, name_of_secret
from apfproxy.http.grammar import HeadError
from apfproxy.http.own_responses import (
    class_lines,
    is_shown_as_text,
    plain_response,
    status_response,
)
from apfproxy.http.request_fields import FieldRules, is_among
from apfproxy.http.request_head import parse_head
from apfproxy.http.upgrade import UpgradeRules, honoured
from apfproxy.request.attributes import (
    ANONYMOUS,
    AttributesError,
    DeadlineError,
    RequestAttributes,
    parse_attributes,
    plain_attributes,
    request_timeout_ns,
)
from apfproxy.settings import IMPERSONATE, PASS_THROUGH, AuthenticationSettings, RequestSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apfproxy.authn.authenticator import Authentication, Authenticator
    from apfproxy.authn.credentials import Peer
    from apfproxy.flowcontrol.controller import Classification
    from apfproxy.flowcontrol.meters import KindCounts
    from apfproxy.flowcontrol.passage import FlowControl
    from apfproxy.flowcontrol.ticket import WorkEstimate
    from apfproxy.http.request_fields import RequestFields
    from apfproxy.http.request_head import RequestHead
    from apfproxy.request.attributes import User
    from apfproxy.request.rules import RequestRules
    from apfproxy.settings import Settings

MAX_BLOCKS = 16384
"""Header blocks per kind of client: enough for a large cluster's nodes."""
MAX_BLOCKS_OF_ONE = 1024
"""Bounds blocks of one certificate's or one address's clients: mostly of one program."""
MAX_KINDS = 4096
"""Kinds of clients whose header blocks are kept; beyond, all kinds start again."""

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

_LENGTH_NAME: Final = b"content-length: "
_LENGTH_NAME_END: Final = b"ength: "

BlockKey = tuple[bytes, bytes]
"""A block's bytes: what stands before the digits of Content-Length, and what behind them; b"" and
all of it if it has no length, or not one that is told apart from the rest."""


class HeaderBlock:
    """The fields of a client's heads, whatever length of a body they say, with the user.

    `logged` has a user, with the access log's text of it and these fields; None was not read yet.
    """

    __slots__ = ("_after", "_before", "audit_line", "authentication", "fields", "logged", "parent")

    def __init__(self, fields: RequestFields, key: BlockKey = (b"", b"")) -> None:
        self.fields = fields
        self._before, self._after = key
        self.authentication: Authentication | None = None
        self.logged: tuple[User, str] | None = None
        self.audit_line: bytes | None = None
        self.parent: str | None = None

    def match(self, data: bytes | bytearray, start: int) -> tuple[int, int]:
        """Where a head ends whose fields, from `start` on, are these, and its body's length.

        Both are 0 if they are others.
        """
        before, after = self._before, self._after
        if not before and data.startswith(after, start):
            return start + len(after), self.fields.body_bytes
        if not before or not data.startswith(before, start):
            return 0, 0
        start += len(before)
        end = data.find(b"\r\n", start)
        if end < 0 or not data.startswith(after, end):
            return 0, 0
        digits = data[start:end]
        return (end + len(after), int(digits)) if _is_length(digits) else (0, 0)


def key_of(section: bytes) -> tuple[BlockKey, int]:
    """The key of a head's fields, and the length that they say; 0 if it is not told apart."""
    # Searched for without regular expressions, which take ten times as long.
    end = section.find(_LENGTH_NAME_END)
    if end >= 0 and section.count(_LENGTH_NAME_END) == 1:
        start = end + len(_LENGTH_NAME_END)
        line = section[max(0, start - len(_LENGTH_NAME) - 1) : start].lower()
        if line == _LENGTH_NAME or line == b"\n" + _LENGTH_NAME:
            end = section.find(b"\r\n", start)
            digits = section[start:end]
            if _is_length(digits):
                return (section[:start], section[end:]), int(digits)
    return (b"", section), 0


def _is_length(digits: bytes | bytearray) -> bool:
    return digits.isdigit() and not digits.startswith(b"0") and len(digits) <= 18


MARK_BYTES = 112
"""The memory of a key's hash in a set that is as empty as it gets."""


class MemoryBudget:
    """The `max_bytes` of memory that some caches may take together; `taken` is what they take now.

    `on_forget` is called when values are forgotten, so that others forget them, too.
    """

    def __init__(self, max_bytes: int, on_forget: Callable[[], None] = lambda: None) -> None:
        self._max_bytes = max_bytes
        self.on_forget = on_forget
        self.caches: weakref.WeakSet[BoundedCache[Any, Any]] = weakref.WeakSet()
        self.taken = 0

    def take(self, size: int) -> None:
        """Take so many bytes; the older half of all that is kept goes until there is room."""
        self.taken += size
        while self.taken > self._max_bytes:
            taken = self.taken
            for each in list(self.caches):
                each.forget_older()
            self.on_forget()  # once for all of them: those others are many, too
            if self.taken == taken:
                return  # the last one alone is larger


@mypyc_attr(native_class=False)  # it is referred to weakly, and has a finalizer
class BoundedCache(Generic[Key, Value]):
    """Values of keys that came twice lately: a bounded number, in bounded room.

    What never comes again is not kept: it would push out what does, and new memory for every
    request would cost more than its parsing.  When there are more than `bound`, the older half
    goes; `size_of` says bytes.
    """

    __slots__ = ("__weakref__", "_bound", "_room", "_seen", "_size_of", "_sizes", "values")

    def __init__(
        self, bound: int, room: MemoryBudget, size_of: Callable[[Key, Value], int]
    ) -> None:
        self._bound = bound
        self._room = room
        self._size_of = size_of
        self._seen: set[int] = set()
        self._sizes: dict[Key, int] = {}
        self.values: dict[Key, Value] = {}
        room.caches.add(self)

    def __del__(self) -> None:
        self._room.taken -= sum(self._sizes.values()) + MARK_BYTES * len(self._seen)

    def offer(self, key: Key, value: Value) -> bool:
        """Keep the value if its key, known by its hash, came before; says whether it is kept."""
        mark = hash(key)
        room = self._room
        if mark in self._seen:
            self._seen.discard(mark)
            if len(self.values) >= self._bound:
                self._forget_half()
                room.on_forget()
            size = self._size_of(key, value)
            room.taken -= MARK_BYTES + self._sizes.get(key, 0)
            self._sizes[key] = size
            self.values[key] = value
            room.take(size)
            return True
        if len(self._seen) >= 2 * self._bound:
            self._forget_marks()
        self._seen.add(mark)
        room.take(MARK_BYTES)
        return False

    def forget_older(self) -> None:
        self._forget_half()
        self._forget_marks()

    def _forget_half(self) -> None:
        values, sizes = self.values, self._sizes
        for old in list(values)[: (len(values) + 1) // 2]:
            del values[old]
            self._room.taken -= sizes.pop(old)

    def _forget_marks(self) -> None:
        self._room.taken -= MARK_BYTES * len(self._seen)
        self._seen.clear()


class ClientKind:
    """Clients whose heads are read alike, with their header blocks; `room` is of all kinds."""

    __slots__ = ("blocks", "peer", "rules")

    def __init__(self, peer: Peer, rules: FieldRules, room: MemoryBudget, max_blocks: int) -> None:
        self.peer = peer
        self.rules = rules
        self.blocks: BoundedCache[BlockKey, HeaderBlock] = BoundedCache(
            max_blocks, room, size_of_block
        )


# How much memory a kept block takes: never more than this, also later, since the user and the lines
# of the access log come after.  What all requests share is not counted.

PLACE: Final = 224
"""In two dictionaries that are as empty as they get, with a key's tuple and a number."""
STRUCTURE: Final = 320
"""An object, with what the collector needs, and its options; a dictionary of few values."""
LATER: Final = 1024
"""The lines of the access log that are kept, and the authentication's object."""


def size_of_block(key: BlockKey, block: HeaderBlock) -> int:
    fields = block.fields
    credentials, offer = fields.credentials, fields.upgrade
    secrets = credentials.token, credentials.key, credentials.basic
    forward = b"" if fields.is_verbatim else fields.forward
    # Its user's lines are as long as the fields that they are made of, at most.
    size = PLACE + LATER + 2 * STRUCTURE + sum(map(len, key))
    size += _size_of((*key, fields.host, forward, *secrets, fields.address))
    for user in (
        credentials.claimed,
        credentials.impersonated,
        credentials.alias,
        credentials.source,
    ):
        if user is not None:
            size += STRUCTURE + _size_of((user.name, user.uid, user.groups, user.extra))
    if offer is not None:
        listed = offer.protocols, offer.keys, offer.versions, offer.subprotocols
        size += STRUCTURE + _size_of(listed)
    return size


def _size_of(value: object) -> int:
    inner = sum(map(_size_of, value)) if isinstance(value, tuple) else 0
    return getsizeof(value) + 8 + inner


_SAFE = frozenset(("GET", "HEAD", "OPTIONS"))
"""RFC 9110, section 9.2.1, of the methods that are forwarded.  Go's transport, by which
kube-apiserver forwards, sends no others again either: PUT and DELETE are idempotent only as long as
no one else writes, and may be commands, such as a restart."""
_COMMANDS = frozenset(("attach", "exec", "portforward"))
"""Subresources of which a GET does what no GET should."""


class Request(RequestDigest):
    """All that is known of a request before its body; the user is anonymous at first.

    `answer_timeout_ns` is the upstream's time to begin its response to a request that is whole.
    """

    __slots__ = ("answer_timeout_ns", "authenticated_until_ns", "block", "head", "user_lines")

    def __init__(
        self,
        head: RequestHead,
        block: HeaderBlock,
        attributes: RequestAttributes,
        timeout_ns: int,
        answer_timeout_ns: int,
        kind: KindCounts,
        fixed_estimate: WorkEstimate | None,
    ) -> None:
        super().__init__(ANONYMOUS, attributes, timeout_ns, kind, fixed_estimate)
        self.head = head
        self.block = block
        self.user_lines = b""
        self.answer_timeout_ns = answer_timeout_ns
        self.authenticated_until_ns = 0
        known = block.authentication
        if known is not None:
            self.take_authentication(known)

    def take_authentication(self, authentication: Authentication) -> None:
        self.block.authentication = authentication
        self.user = authentication.user
        self.authenticated_until_ns = authentication.valid_until_ns
        self.user_lines = authentication.lines
        self.classification = None

    @property
    def is_repeatable(self) -> bool:
        """Whether a second server may get it once a first one may have read it."""
        head, attributes = self.head, self.attributes
        return (
            head.method in _SAFE
            and not head.framing
            and head.upgrade is None
            and not head.fields.overrides_method
            and not (attributes.is_resource_request and attributes.subresource in _COMMANDS)
        )

    def class_lines(self, found: Classification) -> bytes:
        if not self.takes_seats:
            return b""
        return class_lines(found.flow_schema_uid, found.priority_level_uid)

    @property
    def audit_line(self) -> bytes:
        """The header line of the client's Audit-ID; b"" if there is none."""
        line = self.block.audit_line
        if line is None:
            audit_id = self.header("Audit-ID").encode()
            line = self.block.audit_line = b"Audit-Id: %b\r\n" % audit_id if audit_id else b""
        return line

    def own_response(self, code: int, message: str) -> Callable[..., bytes]:
        """A builder of a response of the proxy's own, in the words of the API."""
        attributes = self.attributes
        if attributes.is_plain:
            accept, of_llm = self.header("Accept"), self.is_completion
            return partial(plain_response, code, message, accept, is_completion=of_llm)
        is_text = is_shown_as_text(code, attributes)
        return partial(plain_response if is_text else status_response, code, message)

    def header(self, name: str) -> str:
        """The first value of a field that is forwarded; of a secret the hash; "" for none."""
        head = self.head
        if name == QUERY:
            return raw_query(head.target)
        pattern = rb"^%b:[ \t]*([^\r\n]*)" % name.encode()
        found = re.search(pattern, head.forwarded(), re.MULTILINE | re.IGNORECASE)
        if found is None:
            return ""
        if found[1] and name.lower() in head.fields.secret_names:
            return name_of_secret(found[1])
        return found[1].decode(errors="replace")


class ClientKinds:
    def __init__(
        self,
        settings: Settings,
        flow_control: FlowControl,
        authenticator: Authenticator,
        room: MemoryBudget,
    ) -> None:
        self._flow_control = flow_control
        self._authenticator = authenticator
        self._room = room
        self._kinds: dict[tuple[Peer, bool, bool, bool], ClientKind] = {}
        self._front_proxies = settings.downstream.identity_headers_from
        self._field_rules = field_rules(settings)
        self._default_timeout_ns = round(settings.request_timeout_s * 1e9)
        self._response_timeout_ns = round(settings.answer_timeout_s * 1e9)
        preset = preset_of(settings)
        self._is_plain = preset.is_plain
        self._rules = preset.rules
        upgrades = settings.upstream.upgrades
        self._upgrades = UpgradeRules(upgrades.allow, upgrades.deny)

    def request_of(self, head: RequestHead, block: HeaderBlock) -> Request:
        """Make a request of a head; HeadError if its target or upgrade is malformed."""
        attributes = read_target(head, self._rules, is_plain=self._is_plain)
        timeout_ns = self._default_timeout_ns
        if attributes.query:
            timeout_ns = _timeout_ns(attributes, timeout_ns)
        if head.upgrade is not None:
            offer = honoured(head.upgrade, head.method, attributes, self._upgrades)
            head = head.with_upgrade(offer)
        response_timeout_ns = self._response_timeout_ns
        if timeout_ns < response_timeout_ns and not attributes.long_running_by:
            response_timeout_ns = timeout_ns
        control = self._flow_control
        return Request(
            head,
            block,
            attributes,
            timeout_ns,
            response_timeout_ns,
            control.kinds.kinds[attributes.is_mutating],
            control.estimator.fixed(attributes),
        )

    def names_user(self, name: bytes) -> bool:
        return self._field_rules.credentials.names_user(name)

    def kind_of(
        self,
        address: str,
        certificate: bytes | None = None,
        chain: Sequence[bytes] = (),
        *,
        is_tls: bool = False,
        is_http2: bool = False,
    ) -> ClientKind:
        shared = self._field_rules
        parsed = address_from(address) if shared.proxies else None
        peer = self._authenticator.peer(certificate, chain)
        if is_among(parsed, self._front_proxies):
            peer = structs.replace(peer, is_front_proxy=True)
        if shared.credentials.unverified.is_by_address and peer.user is None:
            # A part of the kind: fields are kept with who sends them.
            peer = structs.replace(peer, alias=alias_of_address(address))
        is_believed = peer.is_front_proxy or is_among(parsed, shared.proxies)
        key = peer, is_tls, is_http2, is_believed
        kind = self._kinds.get(key)
        if kind is None:
            if len(self._kinds) >= MAX_KINDS:
                self._kinds.clear()
            rules = replace(
                shared,
                believes_claims=peer.is_front_proxy,
                believes_forwarding=is_believed,
                is_tls=is_tls,
                is_http2=is_http2,
            )
            is_one = peer.has_certificate or peer.alias is not None
            most = MAX_BLOCKS_OF_ONE if is_one else MAX_BLOCKS
            kind = self._kinds[key] = ClientKind(peer, rules, self._room, most)
        return kind

    def forget(self) -> None:
        self._kinds.clear()


def field_rules(settings: Settings) -> FieldRules:
    downstream, upstream = settings.downstream, settings.upstream
    return FieldRules(
        settings.authentication.credential_rules,
        downstream.max_header_fields,
        downstream.max_target_bytes,
        upstream.address.authority.encode(),
        (upstream.host_header or "").encode(),
        proxies=(*downstream.identity_headers_from, *downstream.trusted_proxies),
        forwards_credentials=upstream.identity == PASS_THROUGH,
        forwards_impersonation=upstream.identity != IMPERSONATE,
    )


def plain_rules(settings: Settings) -> FieldRules:
    """Make the rules for requests that are of no cluster."""
    most = settings.downstream
    rules = AuthenticationSettings().credential_rules
    return FieldRules(rules, most.max_header_fields, most.max_target_bytes)


def preset_of(settings: Settings) -> Preset:
    if settings.request == RequestSettings():
        return PRESETS[settings.preset]
    named = settings.request.long_running
    return PRESETS[settings.preset].with_rules(
        named.verbs, named.subresources, named.path_prefixes, settings.request.path_prefixes
    )


def read_target(
    head: RequestHead, rules: RequestRules, *, is_plain: bool = False
) -> RequestAttributes:
    try:
        if is_plain:
            return plain_attributes(head.method, head.target, rules)
        return parse_attributes(head.method, head.target, rules)
    except AttributesError as error:
        raise HeadError(400, f"malformed request target: {error}") from error


def _timeout_ns(attributes: RequestAttributes, default_ns: int) -> int:
    try:
        return request_timeout_ns(attributes, default_ns)
    except DeadlineError as error:
        raise HeadError(400, f"invalid timeout specified in the request URL: {error}") from error


def judged(raw: bytes, rules: FieldRules, settings: Settings) -> RequestHead:
    """Make a head as it would be forwarded; HeadError if it would be refused."""
    head, preset = parse_head(raw, rules), preset_of(settings)
    attributes = read_target(head, preset.rules, is_plain=preset.is_plain)
    _timeout_ns(attributes, 0)
    if head.upgrade is None:
        return head
    upgrades = settings.upstream.upgrades
    rules_there = UpgradeRules(upgrades.allow, upgrades.deny)
    return head.with_upgrade(honoured(head.upgrade, head.method, attributes, rules_there))
