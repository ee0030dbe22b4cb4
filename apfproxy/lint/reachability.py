"""FlowSchemas that no request reaches, and those whose order depends only on their names.

Users are in `system:authenticated` or `system:unauthenticated`; service accounts in
`system:serviceaccounts` and their namespace's group.  (Groups of impersonators are left out.)

Whether earlier pieces hold a piece (a subject with a rule) is asked of each smallest part, of one
verb, group, resource and scope, or verb and URL, so that several can together; a wildcard is a part
that only one holds.  Yes is certain; no may mean that the search ended early.

Source: kubernetes/apiserver pkg/authentication/group/authenticated_group_adder.go and
pkg/endpoints/filters/impersonation.go.
"""

from __future__ import annotations

import enum
import itertools
import math
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from apfproxy.flowcontrol.classifier import ALL, ROOT, SERVICE_ACCOUNT_PREFIX, Subjects, below
from apfproxy.lint.findings import SAME_PRECEDENCE, UNREACHABLE, Finding
from apfproxy.objects.validation import FLOW_SCHEMAS
from apfproxy.request.attributes import (
    ANONYMOUS_NAME,
    AUTHENTICATED_GROUP,
    UNAUTHENTICATED_GROUP,
    UNVERIFIED_PREFIXES,
)
from apfproxy.request.rules import is_plain_path

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from apfproxy.objects.additions import Condition
    from apfproxy.objects.types import FlowSchema, NonResourcePolicyRule, ResourcePolicyRule

ACCOUNTS_GROUP = "system:serviceaccounts"

MOST_PARTS = 4096
"""Parts of one piece that are looked at; lists multiply quickly."""

MOST_PIECES = 1000
"""Pieces of one FlowSchema: a bound for memory."""


class Who(enum.Enum):
    ALL = "all"
    USER = "user"
    GROUP = "group"
    USER_PREFIX = "user prefix"


class Identity(NamedTuple):
    """A set of users: all, one by name, the members of a group, or a namespace's accounts."""

    who: Who
    name: str = ""


ALL_USERS = Identity(Who.ALL)
AUTHENTICATED = Identity(Who.GROUP, AUTHENTICATED_GROUP)
UNAUTHENTICATED = Identity(Who.GROUP, UNAUTHENTICATED_GROUP)


def identities(subjects: Subjects) -> list[Identity]:
    """The sets of users that the subjects of a rule match, in a fixed order."""
    if subjects.is_all:
        return [ALL_USERS]
    return [
        *(Identity(Who.USER, name) for name in sorted(subjects.users)),
        *(Identity(Who.GROUP, name) for name in sorted(subjects.groups)),
        *(Identity(Who.USER_PREFIX, prefix) for prefix in sorted(set(subjects.user_prefixes))),
    ]


def holders(identity: Identity) -> list[Identity]:
    """The sets that hold this one as a whole, itself among them."""
    found = [identity, ALL_USERS]
    name = identity.name
    is_user = identity.who is Who.USER
    if namespace := _account_namespace(identity):
        found.append(Identity(Who.GROUP, f"{ACCOUNTS_GROUP}:{namespace}"))
        if is_user:
            found.append(Identity(Who.USER_PREFIX, f"{SERVICE_ACCOUNT_PREFIX}{namespace}:"))
    is_group = identity.who is Who.GROUP
    if namespace or (is_group and name.startswith(f"{ACCOUNTS_GROUP}:")):
        found.append(Identity(Who.GROUP, ACCOUNTS_GROUP))
    if is_user and (name == ANONYMOUS_NAME or name.startswith(UNVERIFIED_PREFIXES)):
        found.append(UNAUTHENTICATED)
    elif identity not in {ALL_USERS, UNAUTHENTICATED}:
        found.append(AUTHENTICATED)
    return found


def _account_namespace(identity: Identity) -> str:
    if identity.who not in {Who.USER, Who.USER_PREFIX}:
        return ""
    if not identity.name.startswith(SERVICE_ACCOUNT_PREFIX):
        return ""
    namespace, colon, _ = identity.name.removeprefix(SERVICE_ACCOUNT_PREFIX).partition(":")
    return namespace if colon else ""


def can_meet(one: Identity, other: Identity) -> bool:
    """Whether a user can be in both sets: a user has one name, and any groups."""
    if one.who is other.who and one.who in {Who.USER, Who.USER_PREFIX}:
        return one.name == other.name
    for user, prefix in ((one, other), (other, one)):
        if (user.who, prefix.who) == (Who.USER, Who.USER_PREFIX):
            return user.name.startswith(prefix.name)
    return {one, other} != {AUTHENTICATED, UNAUTHENTICATED}


class Kind(enum.Enum):
    """A sort of requests; no request is of two."""

    CLUSTER = "for resources, without a namespace"
    NAMESPACED = "for resources in a namespace"
    URL = "for other URLs"


class RequestSet(NamedTuple):
    """The requests of one kind that a rule matches, from any user.

    The fields are the rule's lists: verbs, groups, resources, and namespaces if in one; or verbs
    and URLs.
    """

    kind: Kind
    fields: tuple[frozenset[str], ...]

    def parts(self) -> list[RequestSet] | None:
        if math.prod(len(field) for field in self.fields) > MOST_PARTS:
            return None
        return [
            RequestSet(self.kind, tuple(frozenset((value,)) for value in values))
            for values in itertools.product(*self.fields)
        ]

    def holds(self, other: RequestSet) -> bool:
        if self.kind is not Kind.URL:
            return all(map(_holds_values, self.fields, other.fields))
        (verbs, urls), (other_verbs, other_urls) = self.fields, other.fields
        return _holds_values(verbs, other_verbs) and all(
            any(url_holds(url, each) for url in urls) for each in other_urls
        )

    def can_meet(self, other: RequestSet) -> bool:
        if self.kind is not other.kind:
            return False
        if self.kind is not Kind.URL:
            return all(map(_values_meet, self.fields, other.fields))
        (verbs, urls), (other_verbs, other_urls) = self.fields, other.fields
        return _values_meet(verbs, other_verbs) and any(
            urls_meet(url, other_url) for url in urls for other_url in other_urls
        )


class Piece(NamedTuple):
    """One subject of a rule with one of its resource or non-resource rules."""

    identity: Identity
    requests: RequestSet


def resource_requests(rule: ResourcePolicyRule) -> Iterator[RequestSet]:
    fields = frozenset(rule.verbs), frozenset(rule.api_groups), frozenset(rule.resources)
    if rule.cluster_scope:
        yield RequestSet(Kind.CLUSTER, fields)
    if rule.namespaces:
        yield RequestSet(Kind.NAMESPACED, (*fields, frozenset(rule.namespaces)))


def url_requests(rule: NonResourcePolicyRule) -> RequestSet:
    return RequestSet(Kind.URL, (frozenset(rule.verbs), frozenset(rule.non_resource_urls)))


def pieces_of(flow_schema: FlowSchema) -> list[Piece]:
    """The pieces of all rules of a FlowSchema; none if they are too many."""
    pieces: list[Piece] = []
    for rule in flow_schema.spec.rules:
        sets = [
            *itertools.chain.from_iterable(map(resource_requests, rule.resource_rules)),
            *map(url_requests, rule.non_resource_rules),
        ]
        who = identities(Subjects(rule.subjects))
        if len(pieces) + len(who) * len(sets) > MOST_PIECES:
            return []
        pieces += [Piece(identity, requests) for identity in who for requests in sets]
    return pieces


def _holds_values(values: frozenset[str], others: frozenset[str]) -> bool:
    return ALL in values or others <= values


def _values_meet(values: frozenset[str], others: frozenset[str]) -> bool:
    return ALL in values or ALL in others or not values.isdisjoint(others)


def url_holds(url: str, other: str) -> bool:
    """Whether a URL of a rule matches every path that the other one matches.

    One that is not plain is matched by `*`, by `/` and by the URL that is the same only.
    """
    if url in {ALL, other}:
        return True
    if other == ALL:
        return False
    start = below(url)
    if start == ROOT:
        return True
    return other.startswith(start) and is_plain_path(other)


def urls_meet(url: str, other: str) -> bool:
    if ALL in {url, other} or url == other:
        return True
    start, other_start = below(url), below(other)
    return start.startswith(other_start) or other_start.startswith(start)


MOST_LOOKED_AT = 500
"""Earlier pieces that are compared with one piece: a bound for the time of huge files."""

MOST_PAIRS = 4_000_000
"""Pairs of pieces that are compared for equal precedences; some seconds."""

MOST_NAMED = 3

Earlier = dict[tuple[Identity, Kind], list[tuple[str, RequestSet, "Condition | None"]]]
"""FlowSchema, requests and condition of all pieces of one subject and one kind."""


def unreachable(flow_schemas: Sequence[FlowSchema]) -> Iterator[Finding]:
    """FlowSchemas, in the order in which they are tried, all of whose requests others match before.

    The mandatory ones are as they are: what `catch-all` is there for is that nothing reaches it.
    """
    earlier: Earlier = defaultdict(list)
    for flow_schema in flow_schemas:
        name, pieces = flow_schema.metadata.name, pieces_of(flow_schema)
        condition = flow_schema.additions.condition
        if name not in FLOW_SCHEMAS and (by := _shadows(pieces, condition, earlier)):
            message = f"all that it can match is matched before by {named(by)}"
            yield Finding(UNREACHABLE, "FlowSchema", name, "spec.matchingPrecedence", message)
        for piece in pieces:
            earlier[piece.identity, piece.requests.kind].append((name, piece.requests, condition))


def _shadows(pieces: Sequence[Piece], condition: Condition | None, earlier: Earlier) -> set[str]:
    names: set[str] = set()
    for piece in pieces:
        found = _shadows_of(piece, condition, earlier)
        if not found:
            return set()
        names |= found
    return names


def _shadows_of(piece: Piece, condition: Condition | None, earlier: Earlier) -> set[str]:
    """Names of the FlowSchemas that together match all of a piece; empty if they do not."""

    def pieces_by(identity: Identity) -> list[tuple[str, RequestSet]]:
        """The earlier pieces of a set of users that let through no request with the condition."""
        return [
            (name, requests)
            for name, requests, asked in earlier.get((identity, piece.requests.kind), ())
            if asked is None or asked.holds(condition)
        ]

    direct = [each for holder in holders(piece.identity) for each in pieces_by(holder)]
    # Every user is in one of these sets: what holds the piece for each of them, holds it.
    shares = [direct + pieces_by(share) for share in (AUTHENTICATED, UNAUTHENTICATED)]
    if max(map(len, shares)) > MOST_LOOKED_AT:
        return set()
    names: set[str] = set()
    divided = []
    for share in shares:
        whole = next((name for name, held in share if held.holds(piece.requests)), None)
        if whole is None:
            divided.append(share)
        else:
            names.add(whole)
    parts = piece.requests.parts() if divided else []
    if parts is None:
        return set()
    for share, part in itertools.product(divided, parts):
        found = next((name for name, held in share if held.holds(part)), None)
        if found is None:
            return set()
        names.add(found)
    return names


def named(names: Collection[str]) -> str:
    listed = sorted(names)
    rest = len(listed) - MOST_NAMED
    return ", ".join(listed[:MOST_NAMED]) + (f" and {rest} more" if rest > 0 else "")


def same_precedence(flow_schemas: Sequence[FlowSchema]) -> Iterator[Finding]:
    """Pairs of reached FlowSchemas with one precedence that can match the same request."""
    before: dict[int, list[tuple[FlowSchema, list[Piece]]]] = defaultdict(list)
    compared = 0
    for flow_schema in flow_schemas:
        name, precedence = flow_schema.metadata.name, flow_schema.spec.matching_precedence
        pieces = pieces_of(flow_schema)
        compared += sum(len(pieces) * len(theirs) for _, theirs in before[precedence])
        if compared > MOST_PAIRS:
            return
        others = [
            other.metadata.name
            for other, theirs in before[precedence]
            if _conditions_meet(flow_schema, other) and _can_overlap(pieces, theirs)
        ]
        if others:
            message = (
                f"{precedence} is also that of {named(others)}, which can match the same"
                " requests and gets them, because its name sorts first"
            )
            yield Finding(SAME_PRECEDENCE, "FlowSchema", name, "spec.matchingPrecedence", message)
        before[precedence].append((flow_schema, pieces))


def _conditions_meet(one: FlowSchema, other: FlowSchema) -> bool:
    own, others = one.additions.condition, other.additions.condition
    return own is None or others is None or own.can_meet(others)


def _can_overlap(pieces: Sequence[Piece], others: Sequence[Piece]) -> bool:
    return any(
        can_meet(one.identity, other.identity) and one.requests.can_meet(other.requests)
        for one in pieces
        for other in others
    )
