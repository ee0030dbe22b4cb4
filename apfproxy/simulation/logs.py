"""Lines of logs as requests: Kubernetes' audit log, and the proxy's own access log.

Of the audit log only a request's last stage, `ResponseComplete` or `Panic`, is one; it took from
`requestReceivedTimestamp` to `stageTimestamp`, less its wait in the server's queues if annotated.
In the access log it took `executionSeconds`, and the seats that LISTs and WATCHes had
are kept, and the tokens of completions.

A request that never executed (rejected, or given up in its queue) is replayed with the mean time of
what is alike.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import msgspec

from apfproxy.flowcontrol.passage import LIST_VERBS, MOST_LIST_SEATS
from apfproxy.flowcontrol.preset import KUBERNETES
from apfproxy.objects.go_text import parse_time
from apfproxy.request.attributes import METHOD_OF_VERB, User, authenticated, parse_duration_ns
from apfproxy.request.completion import MOST_TOKENS
from apfproxy.simulation.records import UNKNOWN_NS, Records
from apfproxy.simulation.wrapped_lines import Entry, Format, WrappedLines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from apfproxy.flowcontrol.preset import Preset

QUEUE_WAIT = "apiserver.latency.k8s.io/apf-queue-wait"
LAST_STAGES = frozenset({"ResponseComplete", "Panic"})
STAGES = LAST_STAGES | {"RequestReceived", "ResponseStarted"}
COLUMNS = {
    "Stage": "stage",
    "RequestUri": "requestURI",
    "Verb": "verb",
    "UserAgent": "userAgent",
    "User": "user",
    "ImpersonatedUser": "impersonatedUser",
    "RequestReceivedTime": "requestReceivedTimestamp",
    "StageReceivedTime": "stageTimestamp",
    "ResponseStatus": "responseStatus",
    "Annotations": "annotations",
}
"""Members of events by the columns of Azure Monitor's tables AKSAudit and AKSAuditAdmin."""
TOO_MANY_REQUESTS = 429
LATEST_S = 7_258_118_400
"""The year 2200; nanoseconds since 1970 have to fit into 64 bits."""

MOST_EXAMPLES = 3


class TooManyBrokenError(ValueError):
    """So many lines are broken that this is not the log that was expected."""


class AuditUser(msgspec.Struct):
    username: str = ""
    groups: list[str] = []


class AuditStatus(msgspec.Struct):
    """How it ended; flow control gives no `reason` for its 429, as others do for theirs."""

    code: int = 0
    reason: str = ""


class AuditEvent(msgspec.Struct, rename="camel"):
    stage: str
    kind: str = "Event"
    request_uri: str = msgspec.field(default="", name="requestURI")
    verb: str = ""
    user: AuditUser = msgspec.field(default_factory=AuditUser)
    impersonated_user: AuditUser | None = None
    user_agent: str | None = None
    request_received_timestamp: str = ""
    stage_timestamp: str = ""
    response_status: AuditStatus | None = None
    annotations: dict[str, str] = {}


class AccessLine(msgspec.Struct, rename="camel"):
    time: str
    user: str | None
    groups: list[str] | None
    method: str | None
    path: str | None
    verb: str | None
    execution_seconds: float
    seats: int
    reason: str
    wait_seconds: float = 0.0
    query: dict[str, str | bool] | None = None
    flow_schema: str | None = ""
    left_out: int = 0
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    user_agent: str | None = None


NO_REQUEST: dict[str, Any] = {
    **dict.fromkeys(("user", "groups", "method", "path", "verb")),
    "executionSeconds": 0,
    "seats": 0,
    "reason": "",
}
"""Members of an `AccessLine` that a line about requests left out lacks."""


def read_audit_log(
    lines: Iterable[bytes], max_broken: int, preset: Preset = KUBERNETES, asked: Iterable[str] = ()
) -> Records:
    """Read an audit log, in whatever wraps it; TooManyBrokenError if too many lines are broken."""
    wanted = Format(AuditEvent, "stage", _event_of, lambda value: bool(_access_line_of(value)))
    return _read(lines, max_broken, Records(preset, asked), wanted, _take_event)


def read_access_log(
    lines: Iterable[bytes], max_broken: int, preset: Preset = KUBERNETES, asked: Iterable[str] = ()
) -> Records:
    """Read an access log; TooManyBrokenError if too many lines are broken."""
    marker = "executionSeconds"
    wanted = Format(AccessLine, marker, _access_line_of, lambda value: bool(_event_of(value)))
    return _read(lines, max_broken, Records(preset, asked), wanted, _take_line)


def _read(
    lines: Iterable[bytes],
    max_broken: int,
    records: Records,
    wanted: Format[Entry],
    take: Callable[[Entry, Records], None],
) -> Records:
    def refuse(number: int, message: str) -> None:
        records.break_line(number, message)
        if records.broken > max_broken:
            examples = records.problems[:MOST_EXAMPLES]
            shown = "\n".join(f"line {number}: {message}" for number, message in examples)
            are = "line is" if max_broken == 1 else "lines are"
            raise TooManyBrokenError(
                f"more than {max_broken} {are} broken: is this the right file?\n{shown}"
            )

    wrapped = WrappedLines(wanted, lambda entry: take(entry, records), refuse)
    wrapped.read(lines)
    records.left_out, records.foreign = wrapped.left_out, wrapped.foreign
    records.misfits = wrapped.misfits
    return records


def _access_line_of(value: dict[str, Any]) -> dict[str, Any] | None:
    """The line of the access log that an object stands for; None if it is none."""
    if {"leftOut", "time"} <= value.keys():
        return {**NO_REQUEST, **value}
    return value if {"executionSeconds", "time"} <= value.keys() else None


def _event_of(value: dict[str, Any]) -> dict[str, Any] | None:
    """The audit event that an object stands for; None if it is none."""
    if "stage" in value and (value.get("kind") == "Event" or "auditID" in value):
        return value
    if {"Stage", "RequestUri"} <= value.keys():
        return {name: _in_column(value[key]) for key, name in COLUMNS.items() if value.get(key)}
    return None


def _in_column(value: object) -> object:
    if isinstance(value, str) and value.startswith("{"):
        with suppress(msgspec.DecodeError, RecursionError):
            return msgspec.json.decode(value)
    return value


def _take_event(event: AuditEvent, records: Records) -> None:
    if event.kind != "Event" or event.stage not in STAGES:
        raise ValueError("no audit event: kind has to be Event, stage ResponseComplete")
    if event.stage not in LAST_STAGES:
        records.skipped += 1
        records.early += 1
        return
    for name, value in {
        "requestURI": event.request_uri,
        "verb": event.verb,
        "user.username": event.user.username,
        "requestReceivedTimestamp": event.request_received_timestamp,
        "stageTimestamp": event.stage_timestamp,
    }.items():
        if not value:
            raise ValueError(f"{name} is missing")
    received_ns = _time_ns("requestReceivedTimestamp", event.request_received_timestamp)
    took_ns = _time_ns("stageTimestamp", event.stage_timestamp) - received_ns
    if took_ns < 0:
        raise ValueError("stageTimestamp is before requestReceivedTimestamp")
    waited_ns = parse_duration_ns(event.annotations.get(QUEUE_WAIT, "0s"))
    if waited_ns < 0:
        raise ValueError(f"{QUEUE_WAIT} is below 0")
    took_ns = max(0, took_ns - waited_ns)
    status = event.response_status
    if status is not None and status.code == TOO_MANY_REQUESTS and not status.reason:
        took_ns = UNKNOWN_NS
    asker = event.impersonated_user or event.user
    user = User(asker.username, tuple(asker.groups))
    method = METHOD_OF_VERB.get(event.verb) or event.verb.upper()
    # One that names no groups has those of every user.
    user = user if user.groups else authenticated(user)
    records.add(received_ns, user, method, event.request_uri, took_ns, agent=event.user_agent)
    records.held += waited_ns > 0 or took_ns == UNKNOWN_NS


def _take_line(line: AccessLine, records: Records) -> None:
    records.unlogged += max(line.left_out, 0)
    user, method, path = line.user, line.method, line.path
    if user is None or not method or not path or line.flow_schema is None:
        records.skipped += 1
        return
    if not 0 <= line.execution_seconds <= LATEST_S:
        raise ValueError("executionSeconds is below 0, or too large")
    target = quote(path, safe="/:@!$&'()*+,;=-._~")
    if line.query:
        target += "?" + urlencode(
            {name: "true" if value is True else value for name, value in line.query.items()}
        )
    service_ns = round(line.execution_seconds * 1e9)
    if line.reason and not service_ns:
        service_ns = UNKNOWN_NS
    records.add(
        _time_ns("time", line.time),
        # The log has 16 groups at most, of which that of the authenticated is the last.
        authenticated(User(user, tuple(line.groups or ()))),
        method,
        target,
        service_ns,
        min(max(line.seats, 0), MOST_LIST_SEATS) if line.verb in LIST_VERBS else 0,
        min(max((line.prompt_tokens or 0) + (line.completion_tokens or 0), 0), MOST_TOKENS),
        line.user_agent,
    )
    records.held += line.wait_seconds > 0 or service_ns == UNKNOWN_NS


def _time_ns(name: str, text: str) -> int:
    try:
        seconds = parse_time(text)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    if not 0 <= seconds <= LATEST_S:
        raise ValueError(f"{name}: {text!r} lies outside years 1970 to 2200")
    return round(seconds * 1e6) * 1000
