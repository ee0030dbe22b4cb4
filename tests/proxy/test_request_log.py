"""The access log: which requests have a line, what it says, and what it says of the others."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.flowcontrol.controller import Classification, Controller
from apfproxy.http.request_fields import HTTP_1_1, RequestFields
from apfproxy.http.request_head import RequestHead
from apfproxy.proxy.request import HeaderBlock
from apfproxy.proxy.request_log import (
    CUT,
    MAX_FLOWS,
    MAX_GROUPS,
    MAX_PATH,
    MAX_TEXT,
    SECOND_NS,
    LogBudget,
    LogLines,
    Omission,
    RequestLog,
    quoted,
)
from apfproxy.proxy.request_record import Failure, RequestRecord
from apfproxy.request.attributes import User, parse_attributes
from apfproxy.settings import ERRORS, AccessLogSettings
from tests.support.clocks import VirtualClock
from tests.support.objects import bootstrap_objects

if TYPE_CHECKING:
    from collections.abc import Callable

Line = dict[str, Any]
S = 1_000_000_000
NOW_S = 1_800_000_000
"""2027-01-15T08:00:00Z."""
DAY = "2027-01-15T07:59:"
ANN = User("ann", ("dev",))
PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
PODS = b"/api/v1/pods"


def classes_of(*users: str, controller: Controller | None = None) -> list[Classification]:
    controller = controller or Controller(VirtualClock(), 600, 0)
    controller.commit(controller.digest(bootstrap_objects()))
    attributes = parse_attributes("GET", PODS)
    groups = ("system:authenticated",)
    return [controller.classify(User(name, groups), attributes) for name in users]


def record_of(
    target: bytes = b"/a",
    user: User | None = ANN,
    fields: bytes = b"",
    block: HeaderBlock | None = None,
    **members: Any,  # noqa: ANN401  members of the record by their names
) -> RequestRecord:
    if block is None:
        block = HeaderBlock(RequestFields(HTTP_1_1))
        block.fields.forward = fields
    head = RequestHead("GET", target, b"", b"", block.fields, 0, None)
    usual = {
        "classification": None,
        "client_address": "::1",
        "begun_ns": 0,
        "asked_ns": 9 * S,
        "sent_ns": 9 * S,
        "ended_ns": 10 * S,
        "seats": 1,
        "status": 200,
        "upstream_status": 200,
        "body_bytes": 9,
        "reason": "",
    }
    attributes = parse_attributes("GET", target)
    return RequestRecord(
        head=head, block=block, user=user, attributes=attributes, **{**usual, **members}
    )


def give_up(error: Exception) -> None:
    raise error


@pytest.fixture
def subject(monkeypatch: pytest.MonkeyPatch) -> LogLines:
    clock = VirtualClock()
    clock.run_until(10 * S)
    monkeypatch.setattr(time, "time_ns", lambda: NOW_S * S)
    return LogLines(clock, give_up, "")


def lines_of(subject: LogLines, *records: RequestRecord) -> list[Line]:
    return [json.loads(line) for line in subject.of_records(list(records)).splitlines()]


def line_of(subject: LogLines, **members: Any) -> Line:  # noqa: ANN401  as those of `record_of`
    (line,) = lines_of(subject, record_of(**members))
    return line


def test_whole_line(subject: LogLines) -> None:
    record = record_of(
        b"/apis/apps/v1/namespaces/a/deployments/b/scale?timeout=5s&x=s3cret",
        fields=f"User-Agent: k\r\ntraceparent: {PARENT}\r\nCookie: s3cret\r\n".encode(),
        classification=classes_of("ann")[0],
        sent_ns=9 * S + 1000,
        reason=Failure.UPSTREAM,
        why="no",
        audit_line=b"Audit-Id: a-1\r\n",
        endpoint="h:80",
        trace_id=0xAF92F3577B34DA6A3CE929D0E0E4736,
    )
    expected = (
        '{"time":"2027-01-15T07:59:59.000000Z","user":"ann","groups":["dev"],"userAgent":"k",'
        f'"traceparent":"{PARENT}","protocol":"HTTP/1.1","verb":"get","method":"GET",'
        '"path":"/apis/apps/v1/namespaces/a/deployments/b/scale","query":{"timeout":"5s"},'
        '"apiGroup":"apps","apiVersion":"v1","resource":"deployments","subresource":"scale",'
        '"namespace":"a","name":"b","flowSchema":"global-default",'
        '"priorityLevel":"global-default","flow":"ann","seats":1,"waitSeconds":0.000001,'
        '"executionSeconds":0.999999,"status":200,"upstreamStatus":200,"bytes":9,'
        '"upstream":"h:80","traceId":"0af92f3577b34da6a3ce929d0e0e4736","reason":"upstream",'
        '"why":"no","client":"::1","auditId":"a-1"}\n'
    )

    assert expected.encode() == subject.of_records([record])


def test_line_of_what_is_no_request(subject: LogLines) -> None:
    subject = LogLines(VirtualClock(), give_up, "blue")
    nothing = (None, None, None, None, None)
    record = RequestRecord(
        *nothing, "::1", 0, 1000, 0, 1000, 0, 431, 0, 12, Failure.MALFORMED, "long"
    )
    expected = (
        b'{"cluster":"blue","time":"2027-01-15T08:00:00.000001Z","user":null,"groups":null,'
        b'"userAgent":null,"protocol":null,"verb":null,"method":null,"path":null,'
        b'"flowSchema":null,"priorityLevel":null,"flow":null,"seats":0,"waitSeconds":0,'
        b'"executionSeconds":0.000000,"status":431,"upstreamStatus":null,"bytes":12,'
        b'"reason":"malformed","why":"long","client":"::1"}\n'
    )

    assert expected == subject.of_records([record])


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (b"/healthz", {"verb": "get", "path": "/healthz"}),
        (
            b"/api/v1/namespaces/a/pods/b/log",
            {"resource": "pods", "subresource": "log", "namespace": "a", "name": "b"},
        ),
        (b"/api/v1/pods?x=token", {"verb": "list", "resource": "pods", "apiVersion": "v1"}),
        (b"/apis/apps/v1/deployments?limit=7", {"apiGroup": "apps", "query": {"limit": "7"}}),
        (b"/a?limit=5&limit=6&continue=abc", {"query": {"limit": "5", "continue": True}}),
        (b"/a?token=x&access_token=x&command=rm", {"path": "/a"}),
        (b'/a"\\b', {"path": '/a"\\b'}),
        (b"http://api/a?limit=7", {"path": "/a", "query": {"limit": "7"}}),
        (b"/%2541/a%2fb", {"path": "/%41/a/b"}),
        (b"/a%22%0a%ff", {"path": '/a"\n\N{REPLACEMENT CHARACTER}'}),
        (b"/" + b"a" * 2000, {"path": "/" + "a" * (MAX_PATH - 4) + CUT}),
        (b"/api/v1/pods/" + b"a" * 300, {"name": "a" * (MAX_TEXT - 3) + CUT}),
    ],
)
def test_target_is_bounded_and_without_secrets(
    subject: LogLines, target: bytes, expected: Line
) -> None:
    line = line_of(subject, target=target)

    assert expected == {name: line[name] for name in expected}
    assert ("query" in expected) == ("query" in line)
    assert target.startswith(b"/api") == ("resource" in line)


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"status": 0, "upstream_status": 0}, {"status": None, "upstreamStatus": None}),
        ({"why": 'b "c"\n'}, {"why": 'b "c"\n'}),
        ({"endpoint": 'unix:/a"b'}, {"upstream": 'unix:/a"b'}),
        ({"seats": 7, "body_bytes": 12345}, {"seats": 7, "bytes": 12345, "waitSeconds": 0}),
        (
            {"prompt_tokens": 12, "completion_tokens": 0},
            {"promptTokens": 12, "completionTokens": 0},
        ),
        ({"completion_tokens": 345}, {"promptTokens": None, "completionTokens": 345}),
        ({"user": None}, {"user": None, "groups": None, "userAgent": None}),
        (
            {"begun_ns": 0, "asked_ns": 9 * S + 1999, "sent_ns": 9 * S + S // 2},
            {"time": f"{DAY}59.000001Z", "waitSeconds": 0.499998, "executionSeconds": 0.5},
        ),
        (
            {"begun_ns": 8 * S, "asked_ns": 9 * S, "sent_ns": 0},
            {"time": f"{DAY}58.000000Z", "waitSeconds": 1.0, "executionSeconds": 0.0},
        ),
        (
            {"fields": f'User-Agent: "x\x1b{"y" * 300}\r\nAudit-ID: "\r\n'.encode()},
            {"userAgent": '"x\x1b' + "y" * 250 + CUT, "auditId": '"'},
        ),
        (
            {"user": User("n" * 999, tuple(f"{n:02d}{'g' * 999}" for n in range(99)))},
            {
                "user": "n" * 253 + CUT,
                "groups": [f"{n:02d}{'g' * 251}{CUT}" for n in range(MAX_GROUPS)],
            },
        ),
    ],
    ids=range(11),
)
def test_members_are_escaped_and_cut(subject: LogLines, members: Line, expected: Line) -> None:
    line = line_of(subject, **members)

    assert expected == {name: line[name] for name in expected}
    rare = {"why", "upstream", "auditId", "traceId", "traceparent", "query"}
    rare |= {"promptTokens", "completionTokens"}
    assert rare & line.keys() == rare & expected.keys()


def test_text_is_kept_with_its_header_block(subject: LogLines) -> None:
    block = HeaderBlock(RequestFields(HTTP_1_1))
    bob, eve = User("bob", ()), User("eve", ("g" * MAX_TEXT,) * MAX_GROUPS)
    kept: list[User | None] = []
    names = []
    for user in (ANN, ANN, bob, eve):
        names.append(line_of(subject, user=user, block=block)["user"])
        assert block.logged is not None
        kept.append(block.logged[0])

    assert ["ann", "ann", "bob", "eve"] == names
    assert [ANN, ANN, bob, bob] == kept


def test_record_of_which_no_line_can_be_made() -> None:
    errors: list[Exception] = []
    subject = LogLines(VirtualClock(), errors.append, "")
    records = [record_of(status=status, upstream_status=status) for status in (200, 9999, 404)]

    assert [200, 404] == [line["status"] for line in lines_of(subject, *records)]
    assert [IndexError] == [type(error) for error in errors]


def test_flows_of_which_most_was_left_out(subject: LogLines) -> None:
    refused = {("ban", "s", "l", f'"{number}'): number for number in range(1, 20)}
    line = json.loads(
        subject.of_omissions(10 * S + 7000, {**refused, ("x", "", "", ""): 99}, {"": 3, "x": 1})
    )

    assert [f'"{number}' for number in range(19, 19 - MAX_FLOWS, -1)] == [
        flow["flow"] for flow in line["flows"]
    ]
    del line["flows"]
    assert line == {
        "time": "2027-01-15T08:00:00.000007Z",
        "leftOut": 293,
        "overBytes": 4,
        "reasons": {"": 3, "x": 100, "ban": 190},
    }


@given(st.text(st.characters(), max_size=600))
def test_any_text_is_json_in_ascii(text: str) -> None:
    found = json.loads(quoted(text))

    assert quoted(text).isascii()
    assert MAX_TEXT >= len(found)
    if len(text) <= MAX_TEXT:
        assert text.encode(errors="surrogatepass").decode(errors="replace") == found


class Recorder:
    def __init__(self, **settings: Any) -> None:  # noqa: ANN401  settings by their names
        self.clock = VirtualClock()
        self.chunks: list[tuple[bytes, int, int]] = []
        wanted = AccessLogSettings(**settings)
        self.budget = LogBudget(wanted)
        self.log = RequestLog(wanted, self.clock, self._write, self.budget, give_up)

    def _write(self, make: Callable[[], bytes], lines: int, kept_bytes: int) -> None:
        self.chunks.append((make(), lines, kept_bytes))

    @property
    def size(self) -> int:
        return sum(len(data) for data, _, _ in self.chunks)

    def lines(self) -> tuple[list[Line], list[Line]]:
        self.log.close()
        lines = [json.loads(line) for data, _, _ in self.chunks for line in data.splitlines()]
        return (
            [line for line in lines if "leftOut" not in line],
            [line for line in lines if "leftOut" in line],
        )

    def give(self, number: int = 1, **members: Any) -> None:  # noqa: ANN401  of `record_of`
        for _ in range(number):
            self.log.take(record_of(**members))

    def refuse(
        self, number: int = 1, found: Classification | None = None, reason: str = "ban"
    ) -> None:
        ended_ns = self.clock.now_ns()
        self.give(number, classification=found, sent_ns=0, ended_ns=ended_ns, reason=reason)

    def wait(self, by_ns: int) -> None:
        self.clock.run_until(self.clock.now_ns() + by_ns)


@pytest.mark.parametrize(
    ("settings", "share"),
    [({}, 1.0), ({"sampled_percent": 30}, 0.3), ({"requests": ERRORS}, 0.0)],
    ids=["all", "sampled", "errors"],
)
def test_share_of_requests_without_an_error_is_logged(
    settings: Line, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = iter(number / 10 for number in range(10))
    monkeypatch.setattr("random.random", lambda: next(drawn))
    recorder = Recorder(**settings)
    recorder.give(10)
    recorder.give(status=404)
    recorder.give(status=400)
    recorder.give(reason=Failure.CANCELLED)

    assert round(10 * share) + 3 == len(recorder.lines()[0])


def test_flood_of_refused_requests() -> None:
    recorder = Recorder(refused_per_second=10)
    (found,) = classes_of("eve")
    for _ in range(3):
        recorder.refuse(1000, found)
        recorder.give()
        recorder.wait(SECOND_NS)
    lines, says = recorder.lines()

    assert 3 * (10 + 1) == len(lines)
    flow = {"flowSchema": "global-default", "priorityLevel": "global-default", "flow": "eve"}
    flow |= {"reason": "ban", "leftOut": 990}  # type: ignore[dict-item]
    assert [{"leftOut": 990, "overBytes": 0, "reasons": {"ban": 990}, "flows": [flow]}] * 3 == [
        {key: value for key, value in line.items() if key != "time"} for line in says
    ]
    assert recorder.size < 3 * 12 * 1024
    assert 3 * 990 == recorder.budget.left_out[Omission.REFUSED]


@pytest.mark.parametrize("per_second", [3, 0, None], ids=["some", "none", "all"])
def test_refused_requests_of_each_second(per_second: int | None) -> None:
    recorder = Recorder(refused_per_second=per_second)
    for wait_ns in (0, 7 * SECOND_NS, SECOND_NS):
        recorder.wait(wait_ns)
        recorder.refuse(9)
    lines, says = recorder.lines()
    left_out = 27 - len(lines)

    assert (27 if per_second is None else 3 * per_second) == len(lines)
    assert left_out == sum(line["reasons"]["ban"] for line in says)
    assert all(not line["flows"] for line in says)
    assert left_out == recorder.budget.left_out[Omission.REFUSED]


def test_flows_and_reasons_are_told_apart() -> None:
    recorder = Recorder(refused_per_second=1)
    ann, bob = classes_of("ann", "bob")
    for found, reason in ((ann, "full"), (ann, "full"), (bob, "full"), (ann, "ban"), (None, "ban")):
        recorder.refuse(1, found, reason)
    lines, (said,) = recorder.lines()

    assert [("ann", "full"), ("bob", "full"), ("ann", "ban"), (None, "ban")] == [
        (line["flow"], line["reason"]) for line in lines
    ]
    assert [("ann", "full", 1)] == [
        (each["flow"], each["reason"], each["leftOut"]) for each in said["flows"]
    ]


@pytest.mark.parametrize("reason", ["", Failure.CANCELLED])
def test_no_more_bytes_than_settings_allow(reason: str) -> None:
    most, seconds, number = 8192, 5, 64
    recorder = Recorder(max_bytes_per_second=most)
    for _ in range(10 * seconds):
        recorder.give(number, reason=reason)
        recorder.wait(SECOND_NS // 10)
    lines, says = recorder.lines()
    together = max(len(data) for data, _, _ in recorder.chunks)
    left_out = sum(line["leftOut"] for line in says)

    assert recorder.size <= most * (seconds + 1) + together
    assert 10 * seconds * number == len(lines) + left_out
    assert all(line["leftOut"] == line["overBytes"] == line["reasons"][reason] for line in says)
    assert 0 < len(says) <= seconds + 1
    assert left_out == recorder.budget.left_out[Omission.BYTES]
