"""Lines of logs."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.flowcontrol.preset import HTTP
from apfproxy.flowcontrol.ticket import RejectReason
from apfproxy.request.attributes import AttributesError, User
from apfproxy.simulation import records as module
from apfproxy.simulation import wrapped_lines
from apfproxy.simulation.logs import QUEUE_WAIT, TooManyBrokenError, read_access_log, read_audit_log
from apfproxy.simulation.records import MAX_SHOWN_PROBLEMS, UNKNOWN_NS, Records, essence, kind_of
from apfproxy.simulation.wrapped_lines import DEEPEST, Format, WrappedLines

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
        "UserAgent": "curl/8",
        "User": user,
        "ImpersonatedUser": None,
        "RequestReceivedTime": EVENT["requestReceivedTimestamp"],
        "StageReceivedTime": EVENT["stageTimestamp"],
        "ResponseStatus": '{"code":200}',
    }
    records = read_audit_log([json.dumps([columns], indent=1).encode()], 1)

    assert (user != "{") == bool(len(records))
    assert [(("user-agent", "curl/8"),)] * len(records) == [each.headers for each in records.kinds]
    assert [250 * MS] * len(records) == [service_ns for _, _, service_ns in records.requests()]
    assert (len(records), records.broken) in ((1, 0), (0, 1))


def test_other_stages_are_skipped() -> None:
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
    line = changes if isinstance(changes, bytes) else lines_of(EVENT | changes)[0]
    records = read_audit_log([*lines_of(EVENT), line, *lines_of(EVENT)], 1)
    assert (2, 1) == (len(records), records.broken)
    assert 2 == records.problems[0][0]
    assert records.problems[0][1].startswith(message)


def test_too_many_broken_lines() -> None:
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


def test_user_agents() -> None:
    """They are the one header that logs have."""
    agent = {"userAgent": "curl/8"}
    audit = read_audit_log(lines_of(EVENT, EVENT | agent), 0)
    access = read_access_log(lines_of(LINE, LINE | agent), 0)
    for records in (audit, access):
        assert [(), (("user-agent", "curl/8"),)] == [each.headers for each in records.kinds]


@pytest.mark.parametrize(
    ("prompt", "completion", "expected"),
    [
        (None, 7, 7),
        (50, 14, 64),
        (3, 2000, 1984),
        (-5, None, 0),
        (None, None, 0),
        (0, 1 << 50, 98_566_144),
    ],
)
def test_tokens_of_completions(prompt: int | None, completion: int | None, expected: int) -> None:
    """They are rounded down, so that there are few kinds of requests."""
    changes = {"promptTokens": prompt, "completionTokens": completion, "method": "POST"}
    records = read_access_log(lines_of(LINE | changes, LINE | changes), 0)
    first, second = records.requests()
    assert expected == first[1].tokens
    assert first[1] is second[1]


@pytest.mark.parametrize("reason", [*map(str, RejectReason), "cancelled"])
def test_what_never_executed_has_no_service_time(reason: str) -> None:
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
    records = read_access_log(lines_of(LINE | changes), 0)
    assert (0, 1) == (len(records), records.skipped)


def test_lines_about_what_has_none() -> None:
    says = {"time": LINE["time"], "leftOut": 7, "overBytes": 0, "reasons": {"ban": 7}, "flows": []}
    records = read_access_log(lines_of(LINE, says, says), 0)
    assert (1, 2, 14) == (len(records), records.skipped, records.unlogged)


def test_broken_access_lines() -> None:
    records = read_access_log(lines_of(LINE | {"executionSeconds": -1.0}), 1)
    assert [(1, "executionSeconds is below 0, or too large")] == records.problems


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@given(lines=st.lists(st.binary()))
def test_any_bytes(lines: list[bytes]) -> None:
    for read in (read_audit_log, read_access_log):
        records = read(lines, len(lines))
        assert len(lines) >= len(records) + records.skipped + records.broken


@given(data=st.data())
def test_any_values(data: st.DataObject) -> None:
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
    if "waitSeconds" in changes:
        assert held == read_access_log(lines_of(LINE | changes), 0).held
    else:
        assert held == read_audit_log(lines_of(EVENT | changes), 0).held


USER = User("u", ())
PODS, NODES = "/api/v1/pods", "/api/v1/nodes"


def test_requests_come_in_the_order_of_their_arrival() -> None:
    records = Records()
    records.add(50, USER, "GET", PODS, 5)
    records.add(30, USER, "GET", PODS, 7)
    records.add(40, USER, "GET", PODS, 9, seats=2)
    found = list(records.requests())

    assert [(0, 7), (10, 9), (20, 5)] == [(at_ns, service_ns) for at_ns, _, service_ns in found]
    assert found[0][1] is found[2][1]
    assert [0, 2, 0] == [kind.seats for _, kind, _ in found]
    assert (3, 30, 20) == (len(records), records.start_ns, records.span_ns)


def test_unknown_service_times_are_guessed() -> None:
    """By what is alike; by all where nothing is; long-running requests say nothing."""
    records = Records()
    for target, service_ns in ((PODS, 10), (PODS, 20), (NODES, 90), (PODS + "?watch=1", 9999)):
        records.add(1, USER, "GET", target, service_ns)
    records.add(2, USER, "GET", PODS, UNKNOWN_NS)
    records.add(3, USER, "GET", "/version", UNKNOWN_NS)

    assert [15, 40] == [service_ns for _, _, service_ns in records.requests()][-2:]
    assert 2 == records.guessed


def test_kinds_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names tell kinds apart only where that may matter, and not without end."""
    monkeypatch.setattr(module, "MAX_RECENT", 3)
    monkeypatch.setattr(module, "MANY_KINDS", 4)
    records = Records()
    for number in range(6):
        records.add(number, USER, "GET", f"{PODS}/{number}", 5)
    assert (6, 1) == (len(records), len(records.kinds))
    for number in range(6):
        records.add(number, USER, "PUT", f"{NODES}/{number}", 5)

    assert (12, 5) == (len(records), len(records.kinds))


def test_broken_lines_are_counted() -> None:
    records = Records()
    for line in range(20):
        records.break_line(line, "wrong")
    with pytest.raises(AttributesError):
        records.add(1, USER, "GET", "api", 5)

    assert (20, MAX_SHOWN_PROBLEMS) == (records.broken, len(records.problems))
    assert (0, "wrong") == records.problems[0]
    assert 0 == len(records)


@pytest.mark.parametrize(
    ("method", "first", "second", "are_alike"),
    [
        ("GET", "pods/a", "pods/b", True),
        ("GET", "pods/a", "nodes/a", False),
        ("GET", "pods/a/status", "pods/a", False),
        ("PUT", "pods/a", "pods/b", False),
        ("GET", "pods?limit=5", "pods?limit=6", False),
        ("GET", "pods?continue=a&limit=5", "pods?continue=b&limit=5", True),
        ("GET", "pods?watch=1", "pods", False),
        ("GET", "pods?timeout=1s", "pods", False),
        ("GET", "pods?watch=1&fieldSelector=spec.nodeName%3Da", "pods?watch=1", False),
    ],
)
def test_essence(method: str, first: str, second: str, are_alike: bool) -> None:
    one, other = (
        essence(kind_of("c", USER, method, f"/api/v1/{target}"), with_names=True)
        for target in (first, second)
    )
    assert are_alike == (one == other)


def test_parameters_that_flow_schemas_ask_for_tell_kinds_apart() -> None:
    records = Records(HTTP, ["format"])
    for query in ("format=csv", "a=b&format=csv", "format=json", "a=b", ""):
        records.add(0, USER, "GET", f"/x?{query}", MS)

    assert ["format=csv", "format=json", "a=b"] == [each.query for each in records.kinds]


class Entry(msgspec.Struct):
    stage: int


def entry_of(value: dict[str, Any]) -> dict[str, Any] | None:
    return value if {"stage", "kind"} <= value.keys() else None


class Read:
    def __init__(self, text: str | bytes) -> None:
        self.found: list[int] = []
        self.problems: list[tuple[int, str]] = []
        wrapped = WrappedLines(
            Format(Entry, "stage", entry_of, lambda value: "other" in value), self.take, self.break_
        )
        data = text if isinstance(text, bytes) else text.encode()
        wrapped.read(data.splitlines(keepends=True))
        self.left_out, self.misfits = wrapped.left_out, wrapped.misfits
        self.foreign = wrapped.foreign

    def take(self, entry: Entry) -> None:
        if entry.stage < 0:
            raise ValueError("below 0")
        self.found.append(entry.stage)

    def break_(self, number: int, message: str) -> None:
        self.problems.append((number, message))


def entry(number: int) -> dict[str, Any]:
    """An entry as events are: with braces, quotes and lists of strings in it."""
    odd = 'a "quoted" {brace} [list] \\ and \u00e9'
    return {"kind": "Event", "stage": number, "ips": ["::1"], "user": {"odd": odd, "of": [{}]}}


EVENTS = [entry(number) for number in range(3)]
LINES = [json.dumps(each) for each in EVENTS]
WHOLE = "\n".join(LINES)


def each_in(wrap: str) -> str:
    """Lines with each entry in place of `LINE`, as text, or of `STRING`, as a string of JSON."""
    return "\n".join(
        wrap.replace("LINE", line).replace("STRING", json.dumps(line)) for line in LINES
    )


def cut(*templates: str) -> str:
    return "\n".join(
        template.replace("LINE", part)
        for line in LINES
        for template, part in zip(templates, (line[:9], line[9:40], line[40:]), strict=True)
    )


INSIGHTS = [[{"field": "@message", "value": line}] for line in LINES]
WRAPPED = {
    "lines": WHOLE,
    "byte-order-mark": f"\ufeff{WHOLE}\r\n\r\n",
    "list": json.dumps({"kind": "EventList", "items": EVENTS}),
    "long-list": json.dumps({"kind": "EventList", "items": EVENTS}, indent=2),
    "array": json.dumps(EVENTS),
    "long-array": json.dumps(EVENTS, indent=4),
    "array-of-lines": "[\n" + ",\n".join(LINES) + "\n]",
    "long": "\n".join(json.dumps(each, indent=2) for each in EVENTS),
    "without-line-ends": "".join(LINES),
    "docker": each_in('{"log":STRING,"stream":"stdout","time":"x"}'),
    "docker-in-parts": "\n".join(
        json.dumps({"log": part, "stream": "stdout"})
        for line in LINES
        for part in (line[:9], line[9:40], line[40:] + "\n")
    ),
    "cri": each_in("2024-06-05T12:00:00.1Z stdout F LINE"),
    "cri-in-parts": cut("2024Z stdout P LINE", "2024Z stdout P LINE", "2024Z stdout F LINE"),
    "aks": each_in('{"category":"kube-audit","properties":{"log":STRING}}'),
    "aks-records": json.dumps({"records": [{"properties": {"log": line}} for line in LINES]}),
    "cloudwatch": json.dumps({"events": [{"message": line} for line in LINES]}, indent=4),
    "cloudwatch-insights": json.dumps({"results": INSIGHTS}),
    "csv": "\n".join('"2024","' + line.replace('"', '""') + '"' for line in LINES),
    "tail": each_in("2024-06-05T12:00:00+00:00 kube-apiserver-audit LINE"),
    "host-name": each_in("ip-10-0-140-97.ec2.internal LINE"),
    "syslog": each_in("Jun  5 12:00:00 host kube-apiserver[1]: LINE"),
    "labels": each_in('2024 {app="audit", pod="x"} LINE'),
    "labels-alone": each_in('{app="audit", pod="x"} LINE'),
    "time-in-brackets": each_in("[2024-06-05T12:00:00Z] LINE"),
    "object": each_in('{"date":1.5,"message":LINE,"kubernetes":{"a":[1]}}'),
    "nested": each_in('{"message":{"log":STRING}}'),
    "string-in-a-string": "\n".join(
        [json.dumps({"message": json.dumps({"log": "x " + LINES[0]})}), *LINES[1:]]
    ),
    "lines-in-a-string": json.dumps({"body": "no entry\n" + WHOLE}),
    "array-in-a-string": json.dumps({"body": json.dumps(EVENTS)}),
    "elasticsearch": json.dumps({"hits": {"hits": [{"_source": a} for a in EVENTS]}}, indent=1),
}


@pytest.mark.parametrize("name", WRAPPED)
@pytest.mark.parametrize("small", [wrapped_lines.SMALL_BYTES, 0])
def test_wrappers(name: str, small: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wrapped_lines, "SMALL_BYTES", small)
    read = Read(WRAPPED[name])
    assert ([0, 1, 2], [], 0) == (read.found, read.problems, read.left_out)


GOOGLE = '{"protoPayload":{"methodName":"io.k8s.core.v1.pods.list"}}'


@pytest.mark.parametrize(
    "line",
    [
        "I0605 12:00:00.1 1 server.go:1] text",
        'I0605 12:00:00.1 1 server.go:1] {"a":1}',
        "Jun  5 12:00:00 host kubelet[7]: text",
        "<134>1 2024-06-05T12:00:00Z host kubelet 1 - - text",
        'Jun  5 12:00:00 host etcd[7]: {"level":"war',
        "[INFO] text [1]",
        "-- Journal begins at Mon 2024 --",
        "2024-06-05T12:00:00Z stderr F text",
        "2024-06-05T12:00:00Z stderr F",
        '{"log":"text\\n","stream":"stderr"}',
        '{"log":"{text","stream":"stderr"}\n{"log":"\\n"}',
        '{"category":"guard","properties":{"log":"text {"}}',
        '{"events":[]}',
        "[]",
        GOOGLE,
    ],
)
def test_left_out(line: str) -> None:
    read = Read(f"{LINES[0]}\n{line}\n{LINES[1]}")
    assert ([0, 1], []) == (read.found, read.problems)
    assert (1, line == GOOGLE) == (read.left_out, read.foreign)


def test_another_kind_of_log() -> None:
    read = Read(f'{LINES[0]}\n{{"other":1}}\n{{"log":{{"other":2}}}}\n[{{"other":3}}]\n')
    assert ([0], [], 3, 3) == (read.found, read.problems, read.left_out, read.misfits)


BROKEN = {
    "text": "JSON is malformed: invalid character",
    "7": "Expected `object`, got `int`",
    '{"a":1}': "Object missing required field `stage`",
    '[{"a":1}]': "Expected `object`, got `array`",
    LINES[0][:30]: "Input data was truncated",
    '{"kind":"Event",': "Input data was truncated",
    '{"ips":["a"],"x":[1,\n2': "Input data was truncated",
    '{"a":[}': "JSON is malformed",
    '{"a":' * (DEEPEST + 2): "Input data was truncated",
    '{"a":\ntrue, "b": tru}': "JSON is malformed",
    '{"stage":5} x': "there is text behind the end of a value",
    f"host {LINES[0][:70]}": "Input data was truncated",
    '{"stage":"x","kind":"Event"}': "Expected `int`, got `str`",
    '{"stage":-1}': "below 0",
    '{"items":[{"stage":-1,"kind":""}]}': "below 0",
}


@pytest.mark.parametrize("line", BROKEN)
def test_broken(line: str) -> None:
    read = Read(f"{LINES[0]}\n{line}\n{LINES[1]}")
    number = 3 if line.endswith("tru}") else 2
    assert [0] + [5] * ("5} x" in line) + [1] == read.found
    assert [number] == [each for each, _ in read.problems]
    assert BROKEN[line] in read.problems[0][1]


def test_ends_within_an_entry() -> None:
    assert [(1, "Input data was truncated")] == Read("[\n1,").problems
    assert [(1, "the log ends within an entry")] == Read(f"2024Z stdout P {LINES[0][:9]}").problems


def test_a_part_without_its_rest() -> None:
    """An entry whose end is lost does not take the next one with it."""
    half = json.dumps({"log": LINES[0][:30], "stream": "stdout"})
    read = Read(f"{half}\n" + each_in('{"log":STRING,"stream":"stdout"}'))
    assert [0, 1, 2] == read.found
    assert [(2, "the entry before has no end")] == read.problems


def test_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wrapped_lines, "MAX_BYTES", 1 << 10)
    items = json.dumps({"items": EVENTS * 100}, indent=1)
    large = json.dumps([{"kind": "", "stage": 7, "x": ["x" * 100] * 20}], indent=1)
    rest = json.dumps({"a": {"b": list(range(1000))}}, indent=1)
    parts = "\n".join(["2024Z stdout P " + "{" * 600] * 2)
    docker = "\n".join([json.dumps({"log": "{" * 600})] * 2)

    assert [0, 1, 2] * 100 == Read(items).found
    assert (1, "a value has more than 0 MiB") == Read(large).problems[0]
    assert (1, "a value has more than 0 MiB") == Read(rest).problems[0]
    assert 1 == Read(parts).left_out
    assert 1 == Read(docker).left_out


def test_nested_without_end() -> None:
    value: object = entry(1)
    for _ in range(DEEPEST + 1):
        value = {"log": value}
    assert [] == Read(json.dumps(value)).found
    assert [1] == Read(json.dumps(value["log"])).found  # type: ignore[index]  # an object


@given(st.lists(st.sampled_from([b"{", b"}", b"[", b"]", b'"', b":", b",", b"\n", b"1", b"\\"])))
def test_any_bytes_in_lines(parts: list[bytes]) -> None:
    read = Read(b"".join(parts) + b"\n\n" + LINES[0].encode())
    assert read.found in ([0], [])
