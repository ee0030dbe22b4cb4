"""Verdicts in words: eleven rules over the state of the live page that name a cause.

A rule reads the state as JSON has it, so that the page and `apfproxy top` say the same.  An error
costs clients their requests, or is a configuration that is not in force.  A warning may become one.
A note is no reason to act.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from apfproxy.admin.amounts import (
    ERROR,
    NOTE,
    OK,
    WARNING,
    Severity,
    counted,
    cut,
    duration_text,
    listed,
    name_text,
    number_text,
)
from apfproxy.admin.history import FLOOD
from apfproxy.admin.live_state import WORKER
from apfproxy.admin.state import OUT
from apfproxy.fleet.ledger import LeaseState
from apfproxy.flowcontrol.limit_finder import DISTRESSED
from apfproxy.flowcontrol.limit_view import LimitView
from apfproxy.objects.go_text import rfc3339

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from apfproxy.admin.amounts import Finding

    Json = Mapping[str, Any]
    """As JSON has it; see `live_state`."""

SETTING = "flowControl.autoLimit"
LONG_WAIT_S = 1.0
"""A wait that people notice."""
LATE_S = 0.1
MANY_FEWER = 0.2
MANY_KEPT = 0.1

REASONS = {
    "queue-full": "queues full",
    "time-out": "waited too long",
    "concurrency-limit": "no seat free",
}
CHECKS = {
    "configuration": "the objects: ",
    "settings": "the settings are not in force: ",
    "shutdown": "",
    WORKER: "",
}
SAID_ELSEWHERE = frozenset({"enforcement", "servers", "upstream"})
OF_THE_FLEET = "fleet"
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
SERVERS = ("the server behind", "fails", "its"), ("the servers behind", "fail", "their")
SILENT_S = 5.0
"""A server that answers no one for so long, while some wait, may hang."""
FEW_ERRORS = 0.01
MANY_ERRORS = 0.1
"""Parts of the answers of the servers behind."""
MOST = 0.5
LEAST_RATE = 1.0
"""Requests a second below which a part of them says little."""
RECENT_S = 300


def verdict(state: Json, unix_s: float) -> list[dict[str, str]]:
    """The sentences about a state of the live page, worst first; there is at least one."""
    found = [(*finding, rule) for rule in RULES for finding in rule(state, unix_s)]
    order = list(Severity)
    found.sort(key=lambda finding: order.index(finding[0]))
    sentences = [{"severity": severity.value, "text": text} for severity, text, _ in found]
    worse = sum(severity in {ERROR, WARNING} for severity, *_ in found)
    if _observes(state):
        severity = NOTE if worse or _rejecting(state) else OK
        errors = sum(severity is ERROR for severity, *_ in found)
        sentences.insert(errors, {"severity": severity.value, "text": would_be(state)})
    elif not worse and (not found or found[0][2] is not limited):
        sentences.insert(0, {"severity": OK.value, "text": all_is_well(state)})
    elif found[0][2] in {rejections, waits}:
        told = [text for text in (at_most(state), server_text(state)) if text]
        sentences[0]["text"] = "; ".join([sentences[0]["text"], *told])  # often the reason
    return sentences


def servers_out(state: Json, unix_s: float) -> Iterator[Finding]:
    """The server behind fails, or some of several get no requests."""
    upstream = state["upstream"]
    count: int = upstream["endpointCount"]
    rate = upstream["failuresPerSecond"]
    cost = f"; {number_text(rate)} requests/s fail" if rate else ""
    if count <= 1:
        if upstream["state"] == "failing":
            text = f"the server behind, {upstream['address']}, has been failing"
            problem = cut(upstream["problem"] or "it gives no answers")
            yield ERROR, f"{text}{_since(upstream, unix_s)}: {problem}{cost}"
        elif not count:
            yield ERROR, "no endpoint is known, so no request can be forwarded"
        return
    out: int = count - upstream["healthyCount"]
    if not out:
        return
    why = listed(
        [
            f"{each['url']} ({each['state']}{_since(each, unix_s)}"
            f"{': ' if each['problem'] else ''}{cut(each['problem'] or '')})"
            for each in upstream["endpoints"]
            if each["state"] in OUT
        ]
    )
    if seats := upstream["seatsPerEndpoint"]:
        now, full = number_text(max(1, count - out) * seats), number_text(count * seats)
        why += f"; the limit is {now} seats instead of {full}"
    if out == count:
        text = f"all {number_text(count)} servers behind are out, so each still gets requests"
        yield ERROR, f"{text}: {why}{cost}"
    else:
        some, verb = f"{number_text(out)} of {number_text(count)}", "is" if out == 1 else "are"
        yield WARNING, f"{some} servers behind {verb} out: {why}"


def rejections(state: Json, _unix_s: float) -> Iterator[Finding]:
    found = []
    for level in state["levels"]:
        rates = {why: rate for why, rate in level["rejectedPerSecond"].items() if why in REASONS}
        if rates:
            found.append((sum(rates.values()), max(rates, key=lambda why: rates[why]), level))
    found.sort(key=lambda each: -each[0])
    verb, severity = ("would reject", NOTE) if _observes(state) else ("rejects", ERROR)
    for rate, reason, level in found:
        waiting = f", {_waiting(state, level['waiting'])}" if level["waiting"] else ""
        rejects = f"{name_text(level['name'])} {verb} {number_text(rate)}/s ({REASONS[reason]})"
        yield severity, rejects + waiting + _left(level) + _holder(state, level)


def limited(state: Json, _unix_s: float) -> Iterator[Finding]:
    """Clients that a ban or another limit of a FlowSchema rejects, the most requests first."""
    found = [
        (rate, reason, schema)
        for schema in state["flowSchemas"]
        for reason, rate in schema["rejectedBy"].items()
        if reason not in REASONS
    ]
    for rate, reason, schema in sorted(found, key=lambda each: -each[0]):
        name, kind, flow = schema["name"], "user", schema["user"]
        flows = [each for each in state["topFlows"] if each["flowSchema"] == name and not flow]
        for most in sorted(flows, key=lambda each: each["rejected"])[-1:]:
            kind, flow = most["kind"], most["flow"]
        who = f"{kind}{' ' * bool(kind)}{name_text(flow)}" if flow else "a client"
        how = "would be " if _observes(state) else "is "
        how += "banned" if reason == "ban" else f"limited ({reason})"
        until = "" if schema["untilS"] is None else f", until {rfc3339(schema['untilS'])}"
        text = f"{who} {how}: {number_text(rate)} requests/s are rejected{until}"
        yield NOTE, f"{text} (FlowSchema {name_text(name)})"


def waits(state: Json, _unix_s: float) -> Iterator[Finding]:
    """Levels in which requests wait long, or more than it has seats; the longest wait first."""
    for level in sorted(state["levels"], key=lambda level: -level["oldestWaitSeconds"]):
        oldest_s = level["oldestWaitSeconds"]
        if not level["waiting"] or REASONS.keys() & level["rejectedPerSecond"].keys():
            continue
        if oldest_s < LONG_WAIT_S and level["waiting"] <= level["current"]:
            continue
        text = f"{_waiting(state, level['waiting'])} in {name_text(level['name'])}"
        lasting = f", for up to {duration_text(oldest_s)}" if oldest_s else ""
        lasting += _left(level)
        yield (NOTE if _observes(state) else WARNING), text + lasting + _holder(state, level)


def kept_seats(state: Json, _unix_s: float) -> Iterator[Finding]:
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
        name_text(level["name"]): level["current"] - level["seatsInUse"]
        for level in limited
        if not level["waiting"] and level["current"] > level["seatsInUse"]
    }
    kept = min(seats - used, sum(idle.values()))
    if kept > 0:
        greatest = listed(sorted(idle, key=lambda name: -idle[name]))
        severity = WARNING if kept >= MANY_KEPT * seats and not _observes(state) else NOTE
        are = "is" if kept == 1 else "are"
        yield severity, f"{text}{number_text(kept)} {are} kept for idle levels ({greatest})"


def refusals(state: Json, _unix_s: float) -> Iterator[Finding]:
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


def problems(state: Json, _unix_s: float) -> Iterator[Finding]:
    """Health checks that fail, and clients that are not told apart as they could be."""
    for each in state["problems"]:
        check = each["check"]
        if check in SAID_ELSEWHERE or (check == OF_THE_FLEET and state["fleet"]):
            continue
        is_error = each["isBlocking"] or check in ALWAYS_ERRORS
        start = CHECKS.get(check, f"health check {check} fails: ")
        yield (ERROR if is_error else WARNING), start + cut(each["problem"])
    for text in state["clientProblems"]:
        yield WARNING, text


def overload(state: Json, _unix_s: float) -> Iterator[Finding]:
    proxy = state["proxy"]
    if "memory" in proxy["sheds"]:
        yield ERROR, "the proxy is short of memory: new connections are refused"
    late = duration_text(proxy["loopDelaySeconds"])
    if "loop-delay" in proxy["sheds"]:
        yield ERROR, f"the proxy is {late} late, it has too much to do: new connections are refused"
    elif proxy["loopDelaySeconds"] >= LATE_S:
        yield WARNING, f"the proxy itself is {late} late: it needs more processor time"


def server_errors(state: Json, unix_s: float) -> Iterator[Finding]:
    upstream = state["upstream"]
    if upstream["state"] == "failing":
        return
    answered, errors = rates(upstream)
    bad, lost = upstream["answersPerSecond"].get("5xx", 0.0), upstream["failuresPerSecond"]
    total = answered + lost
    if not errors or errors < FEW_ERRORS * total:
        return
    parts = [f"{number_text(bad)}/s are answers 5xx"] if bad else []
    parts += [f"{number_text(lost)}/s get no answer"] if lost else []
    server, fail, their = SERVERS[is_several(upstream)]
    text = f"{server} {fail} {number_text(100 * errors / total)} % of {their} requests"
    where = ""
    if is_several(upstream):
        worst = max(upstream["endpoints"], key=lambda each: rates(each)[1])
        where = f", most of them at {worst['url']}" if rates(worst)[1] > MOST * errors else ""
    severity = ERROR if errors >= MANY_ERRORS * total else WARNING
    yield severity, f"{text}: {', '.join(parts)}{where}{_cut_limit(state, unix_s)}"


def server_silent(state: Json, _unix_s: float) -> Iterator[Finding]:
    upstream = state["upstream"]
    if upstream["state"] != "failing" and upstream["silentSeconds"] >= SILENT_S:
        lasting, awaiting = duration_text(upstream["silentSeconds"]), upstream["awaiting"]
        several = is_several(upstream)
        have = "servers behind have" if several else "server behind has"
        wait = f"{counted(awaiting, 'request')} wait{'s' * (awaiting == 1)}"
        severity, them = NOTE if awaiting == 1 else WARNING, "them" if several else "it"
        yield severity, f"the {have} answered nothing for {lasting}: {wait} for {them}"


def fleet_away(state: Json, _unix_s: float) -> Iterator[Finding]:
    """The record cannot be written, or nothing is heard of members, or of some lately."""
    fleet = state["fleet"]
    if not fleet:
        return
    of_workers = fleet["isOfWorkers"]
    if fleet["state"] != LeaseState.HELD or fleet["problem"]:
        record = "the workers' record" if of_workers else "the fleet's record"
        lasting = "" if fleet["age"] is None else f" for {duration_text(fleet['age'])}"
        seats = f"{number_text(fleet['inForce'])} of {counted(fleet['limit'], 'seat')}"
        why = cut(fleet["problem"]) or f"the proxy uses {seats}"
        yield WARNING, f"{record} has not been written{lasting}: {why}"
        return
    silent = [each for each in fleet["members"] if each["isSilent"]]
    if silent:
        names = [f"{name_text(each['name'])} for {duration_text(each['age'])}" for each in silent]
        seats = counted(sum(each["claim"] for each in silent), "seat")
        end = "its lease ends" if len(silent) == 1 else "their leases end"
        yield WARNING, f"nothing is heard of {listed(names)}: {seats} may be idle until {end}"
    if fleet["lostAge"] is not None and fleet["lostAge"] <= RECENT_S:
        ago = f"{duration_text(fleet['lostAge'])} ago"
        one = "worker" if of_workers else "member of the fleet"
        why = "it was killed, hangs or lost the store"
        yield NOTE, f"the lease of a {one} ended {ago}: {why}; the others share its seats"


RULES: Sequence[Callable[[Json, float], Iterator[Finding]]] = (
    servers_out,
    rejections,
    limited,
    fleet_away,
    problems,
    overload,
    refusals,
    server_silent,
    waits,
    server_errors,
    kept_seats,
)
"""Among sentences of one severity the one whose rule is first here comes first."""


def all_is_well(state: Json) -> str:
    rate = sum(level["dispatchedPerSecond"] for level in state["levels"])
    waiting = sum(level["waiting"] for level in state["levels"])
    parts = [
        f"{number_text(rate)} requests/s" if rate else "no requests just now",
        f"{_waiting(state, waiting)} a moment" if waiting else "nothing waits",
        server_text(state),
    ]
    return f"all is well: {', '.join(filter(None, parts))}"


def would_be(state: Json) -> str:
    """Say what enforcing would do: whom it would reject, what would wait, and what would go on."""
    rejecting = [f"{number_text(rate)}/s in {name_text(name)}" for rate, name in _rejecting(state)]
    rejected = listed(rejecting) if rejecting else "nothing"
    parts = [f"flow control only observes: enforcing would reject {rejected}"]
    crowded = [level for level in state["levels"] if level["waiting"]]
    waiting = sum(level["waiting"] for level in crowded)
    wait = f"{counted(waiting, 'request')} would wait" if waiting else "nothing would wait"
    # By Little's law; what waits in vain is not dispatched, so that it is not too short.
    if served := sum(level["dispatchedPerSecond"] for level in crowded):
        wait += f", {duration_text(waiting / served)} each"
    parts.append(wait)
    responses = rates(state["upstream"])[0]
    dispatched = sum(level["dispatchedPerSecond"] for level in state["levels"])
    if responses >= LEAST_RATE and dispatched < (1 - MANY_FEWER) * responses:
        parts.append(
            f"{number_text(dispatched)} of {number_text(responses)} requests/s would go on, if each"
            " took as long as now"
        )
    if found := state["foundLimit"]:
        parts.append(chosen_text(msgspec.convert(found, LimitView)))
    return "; ".join(parts)


def at_most(state: Json) -> str:
    """Say that the limit would be greater if it might."""
    found = state["foundLimit"]
    if not found or found["limit"] < found["max"]:
        return ""
    return f"the limit may not exceed {number_text(found['max'])} seats ({SETTING}.max)"


def limit_text(view: LimitView, unix_s: float) -> str:
    """Say which limit was found, or would have been, since when and why."""
    last = view.decisions[-1] if view.decisions else None
    if view.is_observing:
        return chosen_text(view)
    seats = counted(view.limit, "seat")
    if not view.is_leading:
        return f"the limit is found by another proxy that shares it: {seats} now"
    if last is None:
        first = min(max(view.initial, view.min), view.max)
        by = f"{SETTING}.initial" if view.limit == first else "as before other settings"
        return f"the limit is {seats}, where the search begins ({by})"
    known = view.found is not None and view.found != view.limit
    knee = f" ({number_text(view.found or 0)} best so far)" if known else ""
    ago = duration_text(max(0.0, unix_s - last.time))
    return f"the limit finds itself: {seats}{knee}, {view.state}; set {ago} ago: {last.reason}"


def chosen_text(view: LimitView) -> str:
    """Say which limit would have been chosen where flow control only observes."""
    begins = f"the settings begin with {number_text(view.initial)} ({SETTING}.initial)"
    seen = [round(each.concurrency) for each in view.curve]
    if view.chosen is None:
        why = "none was in use"
        if seen:
            why = f"up to {seen[-1]} seats were in use, none known as too many"
        return f"no limit can be chosen yet: {why}; {begins}"
    is_known = seen and seen[0] <= view.chosen <= seen[-1]  # else these were forgotten
    of = f", of the {seen[0]} to {seen[-1]} that were in use" if is_known else ""
    return f"{counted(view.chosen, 'seat')} would have been chosen{of}; {begins}"


def _cut_limit(state: Json, unix_s: float) -> str:
    """Return what the limit was set to lately for the server's distress."""
    decisions = (state["foundLimit"] or {"decisions": ()})["decisions"]
    cuts = [each for each in decisions if each["kind"] == DISTRESSED.kind]
    if not cuts or (ago_s := max(0.0, unix_s - cuts[-1]["time"])) > RECENT_S:
        return ""
    seats, ago = counted(cuts[-1]["limit"], "seat"), duration_text(ago_s)
    return f"; the limit went down to {seats} for it {ago} ago"


def _rejecting(state: Json) -> list[tuple[float, str]]:
    rates = [(sum(each["rejectedPerSecond"].values()), each["name"]) for each in state["levels"]]
    return sorted((rate for rate in rates if rate[0]), key=lambda rate: -rate[0])


def _observes(state: Json) -> bool:
    return bool(state["enforcement"] == "observe")


def _waiting(state: Json, requests: int) -> str:
    verb = "would wait" if _observes(state) else "waits" if requests == 1 else "wait"
    return f"{number_text(requests)} {verb}"


def _left(level: Json) -> str:
    rate = level["leftPerSecond"]
    return f", {number_text(rate)}/s left before they had seats" if rate else ""


def _since(part: Json, unix_s: float) -> str:
    since = part["since"]
    return "" if since is None else f" for {duration_text(max(0.0, unix_s - since))}"


def _holder(state: Json, level: Json) -> str:
    """Return who wants most seats of the level; empty if no one wants half of what all do."""
    holder, used = level["holder"], level["seatsInUse"]
    if holder is None or 2 * (holder["seats"] + holder["waitsFor"]) < used + level["waiting"]:
        return ""
    kind, name = holder["kind"], holder["flow"]
    if not name:
        kind, name = "FlowSchema", holder["flowSchema"]
    seats = max(level["current"], used)
    who = f": {kind}{' ' * bool(kind)}{name_text(name)}"
    held = f"{number_text(min(holder['seats'], seats))} of the level's {counted(seats, 'seat')}"
    if not holder["waitsFor"]:
        return f"{who} holds {held}"
    waits = "would wait" if _observes(state) else "waits"
    waits = f"{waits} for {number_text(holder['waitsFor'])}"
    if not seats:
        return f"{who} {waits}, and the level has no seat now"
    return f"{who} holds {held} and {waits}"


def server_text(state: Json) -> str:
    upstream = state["upstream"]
    if upstream["state"] == "failing":
        return ""
    errors, p99 = rates(upstream)[1], upstream["p99"]
    parts = [] if p99 is None else [f"p99 {duration_text(p99)}"]
    parts += [f"{number_text(errors)} errors/s"] if errors else []
    return f"upstream {', '.join(parts)}" if parts else ""


def rates(server: Json) -> tuple[float, float]:
    """Answers a second of one server or of all, and errors: answers 5xx and requests without."""
    answers = server["answersPerSecond"]
    return sum(answers.values()), answers.get("5xx", 0.0) + server["failuresPerSecond"]


def is_several(upstream: Json) -> bool:
    return bool(upstream["endpointCount"] > 1)


def seats_here(state: Json) -> int:
    """Seats that the requests of this proxy may have in all."""
    fleet = state["fleet"]
    return int(fleet["inForce"] if fleet else state["serverConcurrencyLimit"])


def fleet_findings(fleet: Json) -> list[Finding]:
    return list(fleet_away({"fleet": fleet}, 0.0))
