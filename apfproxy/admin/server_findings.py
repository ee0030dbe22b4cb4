"""What is wrong with the servers behind, in words; see `verdict`."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

from apfproxy.admin.amounts import duration_text, name_text, number_text
from apfproxy.admin.endpoint_state import DRAINING, OUT
from apfproxy.admin.findings import ERROR, NOTE, WARNING, cut, listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from apfproxy.admin.findings import Finding

    Json = Mapping[str, Any]

SLOW_S = 1.0
"""A server that takes so long over one in a hundred requests is slow, whatever it does."""
SLOWER = 5
"""Times as slow as the others is one that is slow by itself."""
SILENT_S = 5.0
"""A server that answers nobody for so long, while some wait, may hang."""
FEW_ERRORS = 0.01
MANY_ERRORS = 0.1
"""Parts of the answers of the servers behind."""
NEARLY_ALL = 0.9
MOST = 0.5
LEAST_RATE = 1.0
"""Requests a second below which a part of them says little."""
OVER_SHARE = 1.5
"""Times its share of the requests under way is what an endpoint should not have,"""
LEAST_OVER = 20
"""unless it is by fewer requests than so many."""


def server_failing(state: Json, unix_s: float) -> Iterator[Finding]:
    """Nothing can be served."""
    upstream = state.get("upstream")
    if not upstream or upstream["state"] != "failing" or is_several(upstream):
        return
    since = upstream["since"]
    lasting = "" if since is None else f" for {duration_text(max(0.0, unix_s - since))}"
    problem = upstream["problem"] or "it gives no answers"
    text = f"the server behind, {upstream['address']}, has been failing{lasting}: "
    yield ERROR, text + cut(problem) + failing_requests(upstream)


def endpoints_out(state: Json, unix_s: float) -> Iterator[Finding]:
    """Of several servers behind some get no requests, or all should get none."""
    upstream = state.get("upstream") or {}
    count: int = upstream.get("endpointCount", 1)
    if not count:
        yield ERROR, "no endpoint is known, so no request can be forwarded"
    if not is_several(upstream):
        return
    out: int = count - upstream["healthyCount"]
    if not out:
        return
    why = [out_text(each, unix_s) for each in upstream["endpoints"] if each["state"] in OUT]
    limit = ""
    if seats := upstream["seatsPerEndpoint"]:
        now, full = number_text(max(1, count - out) * seats), number_text(count * seats)
        limit = f"; the limit is {now} seats instead of {full}"
    if out == count:
        text = f"all {number_text(count)} servers behind are out, so each still gets requests: "
        yield ERROR, text + listed(why) + limit + failing_requests(upstream)
        return
    some, verb = f"{number_text(out)} of {number_text(count)}", "is" if out == 1 else "are"
    yield WARNING, f"{some} servers behind {verb} out: {listed(why)}{limit}"


def out_text(endpoint: Json, unix_s: float) -> str:
    """An endpoint that gets no requests, and why."""
    since = endpoint["since"]
    lasting = "" if since is None else f" for {duration_text(max(0.0, unix_s - since))}"
    problem = f": {cut(endpoint['problem'])}" if endpoint["problem"] else ""
    return f"{endpoint['url']} ({endpoint['state']}{lasting}{problem})"


def server_errors(state: Json, _unix_s: float) -> Iterator[Finding]:
    """The servers behind answer, but not as they should."""
    upstream = state.get("upstream")
    if not upstream or upstream["state"] == "failing":
        return
    answered, errors = rates(upstream)
    bad, lost = upstream["answersPerSecond"].get("5xx", 0.0), upstream["failuresPerSecond"]
    total = answered + lost
    if not errors or errors < FEW_ERRORS * total:
        return
    parts = [f"{number_text(bad)}/s are answers 5xx"] if bad else []
    parts += [f"{number_text(lost)}/s get no answer"] if lost else []
    part = number_text(100 * errors / total)
    what = f"the server behind fails {part} % of its requests"
    where = ""
    if is_several(upstream):
        what = f"the servers behind fail {part} % of their requests"
        by_url = {each["url"]: rates(each)[1] for each in upstream["endpoints"]}
        worst = max(by_url, key=lambda url: by_url[url])
        where = f", most of them at {worst}" if by_url[worst] > MOST * errors else ""
    severity = ERROR if errors >= MANY_ERRORS * total else WARNING
    yield severity, f"{what}: {', '.join(parts)}{where}"


def levels_failed(state: Json, _unix_s: float) -> Iterator[Finding]:
    """Levels whose requests the servers fail, while they serve those of others."""
    upstream = state.get("upstream") or {}
    if upstream.get("state") == "failing":
        return
    dispatched = sum(level["dispatchedPerSecond"] for level in state["levels"])
    failed = sum(level["failedPerSecond"] for level in state["levels"])
    if failed >= MOST * dispatched:
        return  # not a matter of some levels
    fails = "the servers behind fail" if is_several(upstream) else "the server behind fails"
    for level in state["levels"]:
        rate = level["failedPerSecond"]
        if rate and rate >= MOST * level["dispatchedPerSecond"]:
            part = min(100.0, 100 * rate / max(rate, level["dispatchedPerSecond"]))
            of = f"{number_text(part)} % of the requests of {name_text(level['name'])}"
            yield ERROR, f"{fails} {of}, {number_text(rate)}/s"


def client_errors(state: Json, _unix_s: float) -> Iterator[Finding]:
    """The servers behind refuse what they are asked: they may be others, or not be ready."""
    upstream = state.get("upstream")
    if not upstream or upstream["state"] == "failing":
        return
    answered, refused = rates(upstream)[0], upstream["answersPerSecond"].get("4xx", 0.0)
    if refused >= LEAST_RATE and refused >= NEARLY_ALL * answered:
        part = number_text(100 * refused / answered)
        of = "servers" if is_several(upstream) else "server"
        yield (
            WARNING,
            f"{part} % of the answers of the {of} behind are 4xx, {number_text(refused)}/s",
        )


def server_silent(state: Json, _unix_s: float) -> Iterator[Finding]:
    """The servers behind accept requests, and answer none of them."""
    upstream = state.get("upstream") or {}
    if upstream.get("state") != "failing" and upstream.get("silentSeconds", 0.0) >= SILENT_S:
        lasting, awaiting = duration_text(upstream["silentSeconds"]), upstream["awaiting"]
        several = is_several(upstream)
        have = "the servers behind have" if several else "the server behind has"
        waits = "1 request waits" if awaiting == 1 else f"{number_text(awaiting)} requests wait"
        severity = NOTE if awaiting == 1 else WARNING
        them = "them" if several else "it"
        yield severity, f"{have} answered nothing for {lasting}: {waits} for {them}"


def server_slow(state: Json, _unix_s: float) -> Iterator[Finding]:
    """The servers behind take long, all of them or one."""
    upstream = state.get("upstream") or {}
    if one := slow_endpoint(upstream):
        url, slowest, others = one
        late = f"it answers 1 of 100 requests after {duration_text(slowest)} or more"
        yield WARNING, f"{url} is slow: {late}, other endpoints after {duration_text(others)}"
        return
    p50, p99 = upstream.get("p50"), upstream.get("p99")
    if p99 is not None and p99 >= SLOW_S:
        half = "" if p50 is None else f", half within {duration_text(p50)}"
        is_slow, answer = "the server behind is slow", "it answers"
        if is_several(upstream):
            is_slow, answer = "the servers behind are slow", "they answer"
        late = f"{answer} 1 of 100 requests after {duration_text(p99)} or more"
        yield NOTE, f"{is_slow}: {late}{half}"


def slow_endpoint(upstream: Json) -> tuple[str, float, float] | None:
    """The one of several that is slow by itself, its p99 and that of the others, in seconds."""
    if not is_several(upstream):
        return None
    found = sorted(
        (each["p99"], each["url"])
        for each in upstream["endpoints"]
        if each["p99"] is not None and each["state"] not in OUT
    )
    if len(found) < 2:  # noqa: PLR2004 - nothing to compare it with
        return None
    (p99, url), others = found[-1], median(p99 for p99, _ in found[:-1])
    return (url, p99, others) if p99 >= max(SLOW_S, SLOWER * others) else None


def unbalanced(state: Json, _unix_s: float) -> Iterator[Finding]:
    """One of several servers has many more of the requests under way than its share."""
    upstream = state.get("upstream") or {}
    if not is_several(upstream):
        return
    drawn = [each for each in upstream["endpoints"] if each["state"] not in {*OUT, DRAINING}]
    total = sum(each["inFlight"] for each in drawn)
    over = {each["url"]: each["inFlight"] - each["share"] * total for each in drawn}
    for each in sorted(drawn, key=lambda each: -over[each["url"]])[:1]:
        fair = each["share"] * total
        if each["inFlight"] >= OVER_SHARE * fair and over[each["url"]] >= LEAST_OVER:
            times = f", {number_text(each['inFlight'] / fair)} times its share" if fair else ""
            has = f"{each['url']} has {number_text(each['inFlight'])} of {number_text(total)}"
            yield NOTE, f"{has} requests under way{times}; upstream.rebalance brings watches back"


def server_text(state: Json) -> str:
    """How the servers behind do; empty if that is not known."""
    upstream = state.get("upstream")
    if not upstream or upstream["state"] == "failing":
        return ""
    errors = rates(upstream)[1]
    p99 = upstream["p99"]
    latency = "" if p99 is None else f"upstream p99 {duration_text(p99)}"
    if errors:
        told = f"{number_text(errors)} errors/s"
        return f"{latency}, {told}" if latency else f"upstream {told}"
    return latency


def rates(server: Json) -> tuple[float, float]:
    """Answers a second of one server or of all, and errors: answers 5xx and requests without."""
    answers = server["answersPerSecond"]
    return sum(answers.values()), answers.get("5xx", 0.0) + server["failuresPerSecond"]


def failing_requests(upstream: Json) -> str:
    """What it costs that nothing can be served; empty if nobody asks."""
    rate = upstream["failuresPerSecond"]
    return f"; {number_text(rate)} requests/s fail" if rate else ""


def is_several(upstream: Json) -> bool:
    """Whether there is more than one server behind."""
    return bool(upstream.get("endpointCount", 1) > 1)
