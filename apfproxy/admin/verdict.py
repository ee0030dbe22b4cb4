"""What is wrong, in words: rules over the state of the live page, a sentence for each that holds.

A rule reads the state alone, as JSON has it, so that the page and `apfproxy top` say the same.  The
sentences are in the order in which somebody who is called at night wants to read them: errors,
warnings, notes.  If there is neither an error nor a warning, the first one says that all is well.

An error costs clients their requests, or is a configuration that is not in force.  A warning may
become one.  A note is no reason to act.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apfproxy.admin.amounts import counted, duration_text, name_text, number_text
from apfproxy.admin.findings import ERROR, NOTE, OK, WARNING, Severity, cut, listed
from apfproxy.admin.fleet_findings import (
    claims_above_limit,
    members_silent,
    members_unlike,
    record_away,
    seats_here,
)
from apfproxy.admin.recent_refusals import FLOOD
from apfproxy.admin.server_findings import (
    LEAST_RATE,
    MANY_ERRORS,
    client_errors,
    endpoints_out,
    levels_failed,
    server_errors,
    server_failing,
    server_silent,
    server_slow,
    server_text,
    unbalanced,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from apfproxy.admin.findings import Finding

State = dict[str, Any]
"""As JSON has it; see `live_state`."""

LONG_WAIT_S = 1.0
"""A wait that people notice."""
LATE_S = 0.1
"""An event loop that is so late makes every request late."""
MANY_FEWER = 0.2
"""Part of the responses."""
MANY_KEPT = 0.1
"""Part of the seats."""

REASONS = {
    "queue-full": "queues full",
    "time-out": "waited too long",
    "concurrency-limit": "no seat free",
}
LIMITS = {
    "rate": "of flows over their request rate",
    "long-running": "of flows with too many long-running requests",
    "ban": "since the level rejects all",
}
"""Reasons that the objects ask for by annotations."""

WORKER = "worker"
"""The check of a worker that does not answer."""
CHECKS = {
    "configuration": "the objects: ",
    "settings": "the settings are not in force: ",
    "shutdown": "",
    WORKER: "",
}
"""Health checks that say it in another way than by their name."""
SAID_ELSEWHERE = frozenset({"enforcement", "servers", "upstream"})
OF_THE_FLEET = "fleet"
"""Said elsewhere where the state has the fleet."""
ALWAYS_ERRORS = frozenset({"configuration", "settings"})

CONNECTIONS = {
    "connections": (ERROR, "as many are open as may be"),
    "connections-of-address": (NOTE, "from addresses with as many as each may have"),
}
"""Reasons to refuse a connection; the others are an overload."""
OWN_ANSWERS = {
    "400": "malformed",
    "401": "without valid credentials",
    "403": "of users who may not",
}


def verdict(state: Mapping[str, Any], unix_s: float) -> list[dict[str, str]]:
    """The sentences with their severity, worst first; there is at least one.

    Args:
        state: Of the live page; what it lacks is not judged.
        unix_s: The time of the state.
    """
    found = [(*finding, rule) for rule in RULES for finding in rule(state, unix_s)]
    order = list(Severity)
    found.sort(key=lambda finding: order.index(finding[0]))
    sentences = [{"severity": severity.value, "text": text} for severity, text, _ in found]
    worse = sum(severity in {ERROR, WARNING} for severity, *_ in found)
    if _observes(state):
        severity = NOTE if worse or _rejecting(state) else OK
        errors = sum(severity is ERROR for severity, *_ in found)
        sentences.insert(errors, {"severity": severity.value, "text": would_be(state)})
    elif not worse:
        sentences.insert(0, {"severity": OK.value, "text": all_is_well(state)})
    elif found[0][2] in {rejections, waits} and (told := server_text(state)):
        sentences[0]["text"] += f"; {told}"  # often the reason
    return sentences


def rejections(state: Mapping[str, Any], _unix_s: float) -> Iterator[Finding]:
    """Levels that reject requests since they have no seats for them, the worst first."""
    found = []
    for level in state["levels"]:
        rates = {
            reason: rate for reason, rate in level["rejectedPerSecond"].items() if reason in REASONS
        }
        if rates:
            found.append((sum(rates.values()), max(rates, key=lambda reason: rates[reason]), level))
    found.sort(key=lambda each: -each[0])
    verb, severity = ("would reject", NOTE) if _observes(state) else ("rejects", ERROR)
    for rate, reason, level in found:
        waiting = f", {_waiting(state, level['waiting'])}" if level["waiting"] else ""
        holder = f": {held}" if (held := _holder(state, level)) else ""
        rejects = f"{name_text(level['name'])} {verb} {number_text(rate)}/s ({REASONS[reason]})"
        yield severity, rejects + waiting + holder


def limits_of_objects(state: Mapping[str, Any], _unix_s: float) -> Iterator[Finding]:
    """Levels that reject requests as annotations of objects say."""
    verb = "would reject" if _observes(state) else "rejects"
    for level in state["levels"]:
        for reason, rate in level["rejectedPerSecond"].items():
            if reason in LIMITS:
                name = name_text(level["name"])
                yield NOTE, f"{name} {verb} {number_text(rate)}/s {LIMITS[reason]}"


def waits(state: Mapping[str, Any], _unix_s: float) -> Iterator[Finding]:
    """Levels in which requests wait, but none are rejected; the longest wait first.

    A wait is worth a word if it is long, or if more wait than the level has seats.
    """
    levels = [
        level
        for level in state["levels"]
        if level["waiting"] and not REASONS.keys() & level["rejectedPerSecond"].keys()
    ]
    levels.sort(key=lambda level: -level["oldestWaitSeconds"])
    for level in levels:
        oldest_s = level["oldestWaitSeconds"]
        if oldest_s < LONG_WAIT_S and level["waiting"] <= level["current"]:
            continue
        text = f"{_waiting(state, level['waiting'])} in {name_text(level['name'])}"
        if oldest_s:
            text += f", for up to {duration_text(oldest_s)}"
        holder = f": {held}" if (held := _holder(state, level)) else ""
        yield (NOTE if _observes(state) else WARNING), text + holder


def kept_seats(state: Mapping[str, Any], _unix_s: float) -> Iterator[Finding]:
    """Seats that nobody uses while requests wait."""
    limited = [level for level in state["levels"] if level["type"] == "Limited"]
    seats = seats_here(state)
    used = sum(level["seatsInUse"] for level in limited)
    waiting = [level for level in limited if level["waiting"]]
    if not waiting or used >= seats:
        return
    text = (
        f"{number_text(used)} of {counted(seats, 'seat')} {'is' if seats == 1 else 'are'} in use"
        f" while {_waiting(state, sum(level['waiting'] for level in waiting))}: "
    )
    if all(level["current"] >= level["max"] for level in waiting):
        named = [f"{name_text(each['name'])} {number_text(each['max'])}" for each in waiting]
        yield NOTE, f"{text}more may not be borrowed ({listed(named)} at most)"
        return
    idle = {
        level["name"]: level["current"] - level["seatsInUse"]
        for level in limited
        if not level["waiting"] and level["current"] > level["seatsInUse"]
    }
    kept = min(seats - used, sum(idle.values()))
    if kept <= 0:
        return
    greatest = sorted(idle, key=lambda name: -idle[name])
    named = [name_text(name) for name in greatest]
    severity = WARNING if kept >= MANY_KEPT * seats and not _observes(state) else NOTE
    are = "is" if kept == 1 else "are"
    yield severity, f"{text}{number_text(kept)} {are} kept for idle levels ({listed(named)})"


def refusals(state: Mapping[str, Any], _unix_s: float) -> Iterator[Finding]:
    """The proxy itself refuses connections, or many requests, before flow control."""
    dispatched = sum(level["dispatchedPerSecond"] for level in state["levels"])
    for reason, rate in state["proxy"]["refusedPerSecond"].items():
        if reason in CONNECTIONS:
            severity, why = CONNECTIONS[reason]
            yield severity, f"the proxy refuses {number_text(rate)} connections/s: {why}"
        elif reason.startswith(FLOOD):
            frames = reason.removeprefix(FLOOD).replace("-", " ")
            ended = f"{number_text(rate)} HTTP/2 connections/s"
            yield WARNING, f"the proxy ends {ended} that flood it with {frames}"
        elif reason in OWN_ANSWERS and rate >= LEAST_RATE and rate >= MANY_ERRORS * dispatched:
            what = f"{number_text(rate)} requests/s {OWN_ANSWERS[reason]}"
            yield WARNING, f"the proxy itself refuses {what}, with {reason}"


def departures(state: Mapping[str, Any], _unix_s: float) -> Iterator[Finding]:
    """Levels whose clients leave before there is a seat for them."""
    for level in state["levels"]:
        left = level["leftPerSecond"]
        if left and left >= MANY_ERRORS * (left + level["dispatchedPerSecond"]):
            name = name_text(level["name"])
            text = f"{number_text(left)} clients/s leave while they wait in {name}"
            yield (NOTE if _observes(state) else WARNING), text


def problems(state: Mapping[str, Any], _unix_s: float) -> Iterator[Finding]:
    """Health checks that fail."""
    for each in state["problems"]:
        check = each["check"]
        if check in SAID_ELSEWHERE or (check == OF_THE_FLEET and state.get("fleet")):
            continue
        is_error = each["isBlocking"] or check in ALWAYS_ERRORS
        start = CHECKS.get(check, f"health check {check} fails: ")
        yield (ERROR if is_error else WARNING), start + cut(each["problem"])


def client_problems(state: Mapping[str, Any], _unix_s: float) -> Iterator[Finding]:
    """Clients are not told apart as they could be."""
    for text in state.get("clientProblems", ()):
        yield WARNING, text


def overload(state: Mapping[str, Any], _unix_s: float) -> Iterator[Finding]:
    """The proxy itself has too much to do."""
    proxy = state["proxy"]
    if "memory" in proxy["sheds"]:
        yield ERROR, "the proxy is short of memory: new connections are refused"
    late = duration_text(proxy["loopDelaySeconds"])
    if "loop-delay" in proxy["sheds"]:
        yield ERROR, f"the proxy is {late} late, it has too much to do: new connections are refused"
    elif proxy["loopDelaySeconds"] >= LATE_S:
        yield WARNING, f"the proxy itself is {late} late: it needs more processor time"


RULES: Sequence[Callable[[Mapping[str, Any], float], Iterator[Finding]]] = (
    server_failing,
    endpoints_out,
    rejections,
    claims_above_limit,
    record_away,
    members_silent,
    problems,
    overload,
    levels_failed,
    refusals,
    server_silent,
    waits,
    departures,
    client_problems,
    server_errors,
    client_errors,
    kept_seats,
    server_slow,
    unbalanced,
    members_unlike,
    limits_of_objects,
)
"""Of two sentences of one severity the one whose rule is first here comes first."""


def all_is_well(state: Mapping[str, Any]) -> str:
    """That nothing needs anybody, and how much is done."""
    rate = sum(level["dispatchedPerSecond"] for level in state["levels"])
    waiting = sum(level["waiting"] for level in state["levels"])
    parts = [f"{number_text(rate)} requests/s" if rate else "no requests just now"]
    parts.append(f"{_waiting(state, waiting)} a moment" if waiting else "nothing waits")
    parts += [told] if (told := server_text(state)) else []
    return f"all is well: {', '.join(parts)}"


def would_be(state: Mapping[str, Any]) -> str:
    """What enforcing would do: whom it would reject, what would wait, and what would go on."""
    rejecting = [f"{number_text(rate)}/s in {name_text(name)}" for rate, name in _rejecting(state)]
    rejected = listed(rejecting) if rejecting else "nothing"
    parts = [f"flow control only observes: enforcing would reject {rejected}"]
    crowded = [level for level in state["levels"] if level["waiting"]]
    waiting = sum(level["waiting"] for level in crowded)
    if waiting:
        wait = f"{counted(waiting, 'request')} would wait"
        # By Little's law; what waits in vain is not dispatched, so that it is not too short.
        if served := sum(level["dispatchedPerSecond"] for level in crowded):
            wait += f", {duration_text(waiting / served)} each"
        parts.append(wait)
    else:
        parts.append("nothing would wait")
    responses = sum((state.get("upstream") or {}).get("answersPerSecond", {}).values())
    dispatched = sum(level["dispatchedPerSecond"] for level in state["levels"])
    if responses >= LEAST_RATE and dispatched < (1 - MANY_FEWER) * responses:
        parts.append(
            f"{number_text(dispatched)} of {number_text(responses)} requests/s would go on, if each"
            " took as long as now"
        )
    return "; ".join(parts)


def _rejecting(state: Mapping[str, Any]) -> list[tuple[float, str]]:
    """Requests rejected a second, and the level; the most first."""
    rates = [(sum(each["rejectedPerSecond"].values()), each["name"]) for each in state["levels"]]
    return sorted((rate for rate in rates if rate[0]), key=lambda rate: -rate[0])


def _observes(state: Mapping[str, Any]) -> bool:
    return bool(state["enforcement"] == "observe")


def _waiting(state: Mapping[str, Any], requests: int) -> str:
    verb = "would wait" if _observes(state) else "waits" if requests == 1 else "wait"
    return f"{number_text(requests)} {verb}"


def _holder(state: Mapping[str, Any], level: Mapping[str, Any]) -> str:
    """Who wants most seats of the level; empty if nobody wants half of what all do."""
    holder, used = level["holder"], level["seatsInUse"]
    if holder is None or 2 * (holder["seats"] + holder["waitsFor"]) < used + level["waiting"]:
        return ""
    kind, name = holder["kind"], holder["flow"]
    if not name:
        kind, name = "FlowSchema", holder["flowSchema"]
    seats = max(level["current"], used)
    held = number_text(min(holder["seats"], seats))
    text = f"{kind} {name_text(name)} holds {held} of its {counted(seats, 'seat')}".lstrip()
    if not holder["waitsFor"]:
        return text
    waits = "would wait" if _observes(state) else "waits"
    return f"{text} and {waits} for {number_text(holder['waitsFor'])}"
