"""Lines of logs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.flowcontrol.queue_set import RejectReason
from apfproxy.request.attributes import User
from apfproxy.simulation.logs import QUEUE_WAIT, TooManyBrokenError, read_access_log, read_audit_log

MS = 1_000_000
EVENT: dict[str, Any] = {
    "kind": "Event",
    "apiVersion": "audit.k8s.io/v1",
    "stage": "ResponseComplete",
    "requestURI": "/api/v1/namespaces/a/pods?limit=5",
    "verb": "list",
    "user": {"username": "u", "groups": ["g"], "extra": {"a": ["b"]}},
    "objectRef": {"resource": "pods"},
    "responseStatus": {"metadata": {}, "code": 200},
    "requestReceivedTimestamp": "2026-01-02T03:04:05.000100Z",
    "stageTimestamp": "2026-01-02T03:04:05.250100Z",
}
LINE: dict[str, Any] = {
    "time": "2026-01-02T03:04:05.000100Z",
    "user": "u",
    "groups": ["g"],
    "verb": "list",
    "method": "GET",
    "path": "/api/v1/namespaces/a b/pods",
    "query": {"limit": "5", "continue": True},
    "seats": 3,
    "waitSeconds": 1.5,
    "executionSeconds": 0.25,
    "status": 200,
    "upstreamStatus": 200,
    "bytes": 17,
    "upstream": "10.0.0.1:6443",
    "reason": "",
    "client": "127.0.0.1",
}


def lines_of(*entries: dict[str, Any]) -> list[bytes]:
    return [json.dumps(entry).encode() + b"\n" for entry in entries]


REFUSED = {"status": "Failure", "reason": "TooManyRequests", "code": 429}


@pytest.mark.parametrize(
    ("changes", "user", "service_ns"),
    [
        ({}, User("u", ("g",)), 250 * MS),
        ({"user": {"username": "u"}}, User("u", ("system:authenticated",)), 250 * MS),
        ({"impersonatedUser": {"username": "v", "groups": ["h"]}}, User("v", ("h",)), 250 * MS),
        ({"annotations": {QUEUE_WAIT: "50ms", "a": "b"}}, User("u", ("g",)), 200 * MS),
        ({"annotations": {QUEUE_WAIT: "2s"}}, User("u", ("g",)), 0),
        ({"responseStatus": None}, User("u", ("g",)), 250 * MS),
        ({"stage": "Panic"}, User("u", ("g",)), 250 * MS),
        ({"responseStatus": REFUSED}, User("u", ("g",)), 250 * MS),
    ],
)
def test_audit_events(changes: dict[str, Any], user: User, service_ns: int) -> None:
    """An event says who asked for what, and how long that took."""
    records = read_audit_log(lines_of(EVENT | changes), 0)
    ((at_ns, kind, its_service_ns),) = records.requests()

    assert (0, service_ns) == (at_ns, its_service_ns)
    assert (user, "list", 0) == (kind.user, kind.attributes.verb, kind.seats)
    assert 1_767_323_045_000_100_000 == records.start_ns


@pytest.mark.parametrize("user", [EVENT["user"], json.dumps(EVENT["user"]), "{"])
def test_audit_columns(user: object) -> None:
    """Tables of Azure Monitor have an event in columns, objects in them perhaps as text."""
    columns = {
        "TenantId": "x",
        "Stage": "ResponseComplete",
        "RequestUri": EVENT["requestURI"],
        "Verb": "list",
        "User": user,
        "ImpersonatedUser": None,
        "RequestReceivedTime": EVENT["requestReceivedTimestamp"],
        "StageReceivedTime": EVENT["stageTimestamp"],
        "ResponseStatus": '{"code":200}',
    }
    records = read_audit_log([json.dumps([columns], indent=1).encode()], 1)

    assert (user != "{") == bool(len(records))
    assert [250 * MS] * len(records) == [service_ns for _, _, service_ns in records.requests()]
    assert (len(records), records.broken) in ((1, 0), (0, 1))


def test_other_stages_are_skipped() -> None:
    """They are of the same requests; empty lines are nothing."""
    records = read_audit_log(
        [*lines_of(EVENT | {"stage": "RequestReceived"}), b"\n", *lines_of(EVENT)], 0
    )

    assert (1, 1, 0) == (len(records), records.skipped, records.broken)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "Pod"}, "no audit event"),
        ({"stage": "x"}, "no audit event"),
        ({"verb": ""}, "verb is missing"),
        ({"requestURI": ""}, "requestURI is missing"),
        ({"requestURI": "x"}, ""),
        ({"user": {}}, "user.username is missing"),
        ({"stageTimestamp": ""}, "stageTimestamp is missing"),
        ({"stageTimestamp": "x"}, "stageTimestamp: 'x' is no"),
        ({"stageTimestamp": "2026-01-02T03:04:04Z"}, "stageTimestamp is before"),
        (
            {"stageTimestamp": "2999-01-02T03:04:04Z"},
            "stageTimestamp: '2999-01-02T03:04:04Z' lies outside years",
        ),
        ({"annotations": {QUEUE_WAIT: "-2562047h"}}, f"{QUEUE_WAIT} is below 0"),
        (b"{", "Input data was truncated"),
        (b"{}", "Object missing required field `stage`"),
        (b'{"x":' * 100_000, "maximum recursion depth exceeded"),
    ],
)
def test_broken_events(changes: dict[str, Any] | bytes, message: str) -> None:
    """A broken line is counted with its number, and the others count."""
    line = changes if isinstance(changes, bytes) else lines_of(EVENT | changes)[0]
    records = read_audit_log([*lines_of(EVENT), line, *lines_of(EVENT)], 1)

    assert (2, 1) == (len(records), records.broken)
    assert 2 == records.problems[0][0]
    assert records.problems[0][1].startswith(message)


def test_too_many_broken_lines() -> None:
    """Such a file is another one than it was said to be."""
    with pytest.raises(TooManyBrokenError) as error:
        read_audit_log([b"a"] * 5, 4)

    assert str(error.value).splitlines() == [
        "more than 4 lines are broken: is this the right file?",
        "line 1: JSON is malformed: invalid character (byte 0)",
        "line 2: JSON is malformed: invalid character (byte 0)",
        "line 3: JSON is malformed: invalid character (byte 0)",
    ]


@pytest.mark.parametrize(
    ("changes", "verb", "seats", "service_ns"),
    [
        ({}, "list", 3, 250 * MS),
        ({"query": None, "groups": None}, "list", 3, 250 * MS),
        ({"method": "POST", "verb": "create"}, "create", 0, 250 * MS),
        ({"reason": "cancelled", "flowSchema": "a"}, "list", 3, 250 * MS),
        ({"reason": "queue-full", "executionSeconds": 0}, "list", 3, 0),
        ({"userAgent": None, "auditId": "x", "why": "waited"}, "list", 3, 250 * MS),
    ],
)
def test_access_lines(changes: dict[str, Any], verb: str, seats: int, service_ns: int) -> None:
    records = read_access_log(lines_of(LINE | changes), 0)
    ((_, kind, its_service_ns),) = records.requests()
    attributes = kind.attributes

    assert (verb, seats, "a b") == (attributes.verb, kind.seats, attributes.namespace)
    assert service_ns == its_service_ns


@pytest.mark.parametrize("reason", [*map(str, RejectReason), "cancelled"])
def test_what_never_executed_has_no_service_time(reason: str) -> None:
    """It takes as long as others alike."""
    never = LINE | {"reason": reason, "executionSeconds": 0}
    records = read_access_log(lines_of(LINE, never), 0)

    assert 1 == records.guessed
    assert [250 * MS] * 2 == [service_ns for _, _, service_ns in records.requests()]


@pytest.mark.parametrize(
    "changes",
    [
        {"user": None, "groups": None},
        {"method": None, "path": None},
        {"flowSchema": None, "reason": "malformed"},
    ],
)
def test_lines_about_no_request_are_skipped(changes: dict[str, Any]) -> None:
    """Such as what was refused before it came to flow control."""
    records = read_access_log(lines_of(LINE | changes), 0)

    assert (0, 1) == (len(records), records.skipped)


def test_lines_about_what_has_none() -> None:
    """What the log has left out is counted, and nothing to replay."""
    says = {"time": LINE["time"], "leftOut": 7, "overBytes": 0, "reasons": {"ban": 7}, "flows": []}
    records = read_access_log(lines_of(LINE, says, says), 0)

    assert (1, 2, 14) == (len(records), records.skipped, records.unlogged)


def test_broken_access_lines() -> None:
    """No time runs backwards."""
    records = read_access_log(lines_of(LINE | {"executionSeconds": -1.0}), 1)

    assert [(1, "executionSeconds is below 0, or too large")] == records.problems


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@given(lines=st.lists(st.binary()))
def test_any_bytes(lines: list[bytes]) -> None:
    """Any lines are requests, or nothing, or broken."""
    for read in (read_audit_log, read_access_log):
        records = read(lines, len(lines))

        assert len(lines) >= len(records) + records.skipped + records.broken


@given(data=st.data())
def test_any_values(data: st.DataObject) -> None:
    """Whatever a field has for a value, the line is replayed, left out or reported."""
    for read, entry in ((read_audit_log, EVENT), (read_access_log, LINE)):
        name = data.draw(st.sampled_from(sorted(entry)))
        records = read(lines_of(entry | {name: data.draw(JSON)}), 1)
        list(records.requests())

        assert 1 == len(records) + records.skipped + records.broken


@pytest.mark.parametrize(
    ("changes", "held"),
    [
        ({"waitSeconds": 0}, 0),
        ({"waitSeconds": 0.001}, 1),
        ({"waitSeconds": 0, "executionSeconds": 0, "reason": "queue-full"}, 1),
        ({"waitSeconds": 0, "reason": "queue-full"}, 0),
        ({"stage": "Panic"}, 0),
        ({"annotations": {QUEUE_WAIT: "0s"}}, 0),
        ({"annotations": {QUEUE_WAIT: "5ms"}}, 1),
        ({"responseStatus": {"code": 429}}, 1),
    ],
)
def test_held(changes: dict[str, Any], held: int) -> None:
    """Requests that waited or were rejected would have come at other times."""
    if "waitSeconds" in changes:
        assert held == read_access_log(lines_of(LINE | changes), 0).held
    else:
        assert held == read_audit_log(lines_of(EVENT | changes), 0).held
