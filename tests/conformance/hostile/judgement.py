"""Judges the outcome of a case."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.conformance.hostile.play import STATUS
from tests.conformance.hostile.script import expanded

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conformance.hostile.play import Outcome
    from tests.conformance.hostile.script import Case

IDENTITY = re.compile(
    rb"^x[-_]remote[-_](user|group|uid|extra[-_][^:]*)[ \t]*:", re.IGNORECASE | re.MULTILINE
)


def complaint(case: Case, outcome: Outcome, *, may_assert: bool = False) -> str | None:
    """The fault of an outcome, or None."""
    wanted = {case["expect"], *case.get("alt_expect", ())}
    may_see = case.get("upstream_must_see")
    may_go_on = "next-request-fully-reprocessed" in wanted
    for request in outcome.requests:
        if not may_assert and IDENTITY.search(request.head):
            return "an identity that the client made up reached the upstream"
        if b"canary" in request.line and (may_see or 0) < 2 and not may_go_on:
            return "a smuggled request reached the upstream"
    if may_see is not None and len(outcome.requests) > may_see and not may_go_on:
        return f"the upstream got {len(outcome.requests)} requests instead of {may_see}"
    if "EVIL" in case.get("upstream_raw", "") and b"EVIL" in outcome.received:
        first = bytes(outcome.received).partition(b"EVIL")[0]
        if len(STATUS.findall(first)) > 1:
            return "a response without a request reached the client"
    if any(IS_MET[want](case, outcome) for want in wanted):
        return None
    return f"want one of {sorted(wanted)}"


def is_refused(case: Case, outcome: Outcome) -> bool:
    # Which 4xx a case prefers is a matter of taste; a 5xx must be one that it names.
    accepted = case.get("accept_status", (501, 505))
    return (400 <= outcome.code < 500 or outcome.code in accepted) and not outcome.requests


def is_refused_and_closed(case: Case, outcome: Outcome) -> bool:
    return is_refused(case, outcome) and outcome.is_closed


def is_forwarded(_: Case, outcome: Outcome) -> bool:
    return bool(outcome.requests) and 0 < outcome.code < 500


def is_forwarded_verbatim(case: Case, outcome: Outcome) -> bool:
    words = expanded(case["raw"]).partition("\r\n")[0].encode("latin-1").split(b" ")
    if not is_forwarded(case, outcome) or len(words) < 2:
        return False
    return words[1] == outcome.requests[0].line.split(b" ")[1]


def is_answered_locally(_: Case, outcome: Outcome) -> bool:
    return outcome.code > 0 and not outcome.requests


def is_truncated(_: Case, outcome: Outcome) -> bool:
    ends_well = outcome.received.endswith(b"\r\n0\r\n\r\n")
    return bool(outcome.requests) and outcome.is_closed and not ends_well


def is_aborted(_: Case, outcome: Outcome) -> bool:
    if outcome.has_left:
        return outcome.is_upstream_left or not outcome.requests
    return outcome.is_closed and (outcome.code == 0 or outcome.code >= 400)


def is_timed_out(_: Case, outcome: Outcome) -> bool:
    return outcome.is_closed and outcome.code in (0, 408)


IS_MET: dict[str, Callable[[Case, Outcome], bool]] = {
    "abort-upstream": is_aborted,
    "close-without-response": is_timed_out,
    "forward-classified-as-real-user": is_forwarded,
    "forward-normalised": is_forwarded,
    "forward-normalised-then-close": is_forwarded,
    "forward-verbatim-target": is_forwarded_verbatim,
    "next-request-fully-reprocessed": is_forwarded,
    "reject-401": is_refused,
    "reject-403": is_refused,
    "reject-4xx-and-close": is_refused_and_closed,
    "relay-error-and-close": lambda _, outcome: outcome.code > 0,
    "respond-500": is_answered_locally,
    "respond-502": lambda _, outcome: outcome.code in (502, 504),
    "respond-locally": is_answered_locally,
    "strip-and-forward": is_forwarded,
    "timeout-408-and-close": is_timed_out,
    "truncate-and-close": is_truncated,
    "tunnel": lambda _, outcome: outcome.codes[:1] == [101],
}
