"""FlowSchemas that no request reaches, and those whose order depends only on their names."""

from __future__ import annotations

import itertools
from collections import defaultdict
from typing import TYPE_CHECKING

from apfproxy.lint.findings import SAME_PRECEDENCE, UNREACHABLE, Finding
from apfproxy.lint.request_sets import (
    AUTHENTICATED,
    UNAUTHENTICATED,
    Identity,
    Kind,
    Piece,
    RequestSet,
    can_meet,
    holders,
    pieces_of,
)
from apfproxy.objects.validation import FLOW_SCHEMAS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from apfproxy.objects.additions import Condition
    from apfproxy.objects.types import FlowSchema

MOST_LOOKED_AT = 500
"""Earlier pieces that are compared with one piece; a bound for the time that huge files take."""

MOST_PAIRS = 4_000_000
"""Pairs of pieces that are compared for equal precedences; some seconds."""

MOST_NAMED = 3
"""FlowSchemas that a message names."""

Earlier = dict[tuple[Identity, Kind], list[tuple[str, RequestSet, "Condition | None"]]]
"""FlowSchema, requests and condition of all pieces of one subject and one kind."""


def tried_in_order(flow_schemas: Iterable[FlowSchema]) -> list[FlowSchema]:
    """FlowSchemas as they are tried."""
    return sorted(
        flow_schemas, key=lambda each: (each.spec.matching_precedence, each.metadata.name)
    )


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
    """The names, the first few."""
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
