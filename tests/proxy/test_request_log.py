"""The access log's lines: what is in them, what never is, and which are made at all."""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.authn.authenticator import Authentication
from apfproxy.flowcontrol.controller import Controller
from apfproxy.flowcontrol.meters import KindMeter
from apfproxy.http.header_block import HeaderBlock
from apfproxy.http.request_fields import RequestFields
from apfproxy.http.request_head import RequestHead
from apfproxy.objects.bootstrap import bootstrap_objects
from apfproxy.proxy import request_log
from apfproxy.proxy.log_omissions import MAX_FLOWS, SECOND_NS
from apfproxy.proxy.request import Request
from apfproxy.proxy.request_log import (
    CUT,
    FLUSH_PERIOD_NS,
    MAX_GROUPS,
    MAX_PATH,
    MAX_RECORDS,
    MAX_TEXT,
    PARAMETERS,
    Failure,
    RequestLog,
    query_text,
    quoted,
    text_of_server,
    text_of_target,
    text_of_trace,
    text_of_user,
)
from apfproxy.proxy.traces import audit_line
from apfproxy.request.attributes import parse_attributes
from apfproxy.request.target import KNOWN_PARAMETERS
from apfproxy.request.user import User
from apfproxy.settings import ERRORS, AccessLogSettings
from tests.virtual_clock import VirtualClock

if TYPE_CHECKING:
    from apfproxy.flowcontrol.controller import Classification

Line = dict[str, Any]
NOW_S = 1_800_000_000
"""2027-01-15T08:00:00Z."""


class Recorder:
    """A request log over a virtual clock, and what it hands on."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401  settings by their names
        self.clock = VirtualClock()
        self.chunks: list[tuple[bytes, int]] = []
        self.log = RequestLog(
            AccessLogSettings(**settings),
            self.clock,
            lambda data, lines: self.chunks.append((data, lines)),
        )

    @property
    def lines(self) -> list[Line]:
        """All lines so far."""
        return [json.loads(line) for data, _ in self.chunks for line in data.splitlines()]


def request_of(
    target: bytes = b"/a", user: User | None = None, fields: RequestFields | None = None
) -> Request:
    """A request of a user, "ann" unless another one is named."""
    block = HeaderBlock(fields or RequestFields(is_http_10=False))
    head = RequestHead("GET", target, b"", b"", block, 0, None)
    kind = KindMeter(0).kinds[False]
    result = Request(head, parse_attributes("GET", target), 1, 1, kind, None)
    result.take_authentication(Authentication(user or User("ann", ("dev",)), b"", 1))
    return result


def give(recorder: Recorder, status: int = 200, reason: str = "", number: int = 1) -> None:
    """Let requests end."""
    for _ in range(number):
        head = request_of()
        recorder.log.take(head, None, "::1", 0, 1, 2, 3, 1, status, status, 9, reason)


@pytest.fixture
def noon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wall clock shows one time."""
    monkeypatch.setattr(time, "time_ns", lambda: NOW_S * 10**9)


@pytest.mark.usefixtures("noon")
def test_times() -> None:
    """A line has the time of the arrival, to the microsecond, and how long each part took."""
    recorder = Recorder()
    recorder.clock.run_until(10_000_000_000)
    head = request_of()
    for begun_ns, asked_ns, sent_ns in (
        (0, 9_000_001_999, 9_500_000_000),
        (8_000_000_000, 9_000_000_000, 0),
        (0, 9_900_000_000, 9_900_000_000),
    ):
        recorder.log.take(head, None, "::1", begun_ns, asked_ns, sent_ns, 10**10, 1, 0, 0, 0, "")
    recorder.log.flush()

    assert [
        ("2027-01-15T07:59:59.000001Z", 0.499998, 0.5),
        ("2027-01-15T07:59:58.000000Z", 1.0, 0.0),
        ("2027-01-15T07:59:59.900000Z", 0.0, 0.1),
    ] == [(line["time"], line["waitSeconds"], line["executionSeconds"]) for line in recorder.lines]


@pytest.mark.usefixtures("noon")
def test_what_is_no_request() -> None:
    """Of what cannot be read only the answer is known; it comes after what ended before."""
    recorder = Recorder()
    give(recorder)
    recorder.log.on_refused("::1", 431, 12, Failure.MALFORMED, "the head is too long")
    _, line = recorder.lines

    assert {
        "time": "2027-01-15T08:00:00.000000Z",
        **dict.fromkeys(("user", "groups", "userAgent", "protocol")),
        **dict.fromkeys(("verb", "method", "path")),
        **dict.fromkeys(("flowSchema", "priorityLevel", "flow", "upstreamStatus")),
        "seats": 0,
        "waitSeconds": 0.0,
        "executionSeconds": 0.0,
        "status": 431,
        "bytes": 12,
        "reason": "malformed",
        "why": "the head is too long",
        "client": "::1",
    } == line


@pytest.mark.parametrize(
    ("settings", "share"),
    [({}, 1.0), ({"sampled_percent": 30}, 0.3), ({"requests": ERRORS}, 0.0)],
    ids=["all", "sampled", "errors"],
)
def test_sampling(settings: Line, share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of requests without an error a share is logged, and all others."""
    drawn = iter(number / 10 for number in range(10))
    monkeypatch.setattr("random.random", lambda: next(drawn))
    recorder = Recorder(**settings)
    give(recorder, number=10)
    give(recorder, status=404)
    give(recorder, status=200, reason=Failure.CANCELLED)
    recorder.log.flush()

    assert round(10 * share) + 2 == len(recorder.lines)


def refuse(recorder: Recorder, number: int, found: Classification | None = None) -> None:
    """Let requests end that were never sent."""
    now_ns = recorder.clock.now_ns()
    for _ in range(number):
        recorder.log.take(
            request_of(), found, "::1", 0, now_ns, 0, now_ns, 1, 403, 0, 9, "ban", why="banned"
        )


@pytest.mark.usefixtures("noon")
def test_flood_of_refused_requests() -> None:
    """However many there are, some lines a second are of them, and one says how many are not."""
    recorder = Recorder(refused_per_second=10)
    controller = Controller(recorder.clock, 600, 0)
    controller.commit(controller.digest(bootstrap_objects()))
    attributes = parse_attributes("GET", b"/api/v1/pods")
    found = controller.classify(User("eve", ("system:authenticated",)), attributes)
    for _ in range(3):
        refuse(recorder, 1000, found)
        give(recorder)
        recorder.clock.run_until(recorder.clock.now_ns() + SECOND_NS)
    lines = recorder.lines
    says = [line for line in lines if "leftOut" in line]

    assert 3 * (10 + 1) == len(lines) - len(says)
    flow = {
        "flowSchema": "global-default",
        "priorityLevel": "global-default",
        "flow": "eve",
        "reason": "ban",
        "leftOut": 990,
    }
    assert [{"leftOut": 990, "overBytes": 0, "reasons": {"ban": 990}, "flows": [flow]}] * 3 == [
        {key: value for key, value in line.items() if key != "time"} for line in says
    ]
    assert sum(len(data) for data, _ in recorder.chunks) < 3 * 12 * 1024


def test_failed_requests_are_all_logged() -> None:
    """What was sent on has cost more than its line, and is what is looked for in the log."""
    recorder = Recorder(refused_per_second=1)
    give(recorder, status=502, reason=Failure.UPSTREAM, number=50)
    recorder.log.close()

    assert [Failure.UPSTREAM] * 50 == [line["reason"] for line in recorder.lines]


def test_what_is_no_request_is_sampled_too() -> None:
    """Nobody knows whose it is, so all of a reason count together; the end says what is left."""
    recorder = Recorder(refused_per_second=2)
    for number in range(9):
        recorder.log.on_refused(f"192.0.2.{number}", 400, 3, Failure.MALFORMED, "not HTTP")
    recorder.log.close()
    *lines, last = recorder.lines

    assert [f"192.0.2.{number}" for number in range(2)] == [line["client"] for line in lines]
    assert (7, {"malformed": 7}, []) == (last["leftOut"], last["reasons"], last["flows"])


@pytest.mark.parametrize("reason", ["", Failure.CANCELLED])
def test_no_more_bytes_than_settings_allow(reason: str) -> None:
    """In any number of seconds, but for those of one second, and of lines made together."""
    most, seconds, number = 8192, 5, 64
    recorder = Recorder(max_bytes_per_second=most)
    for _ in range(10 * seconds):
        give(recorder, reason=reason, number=number)
        recorder.clock.run_until(recorder.clock.now_ns() + SECOND_NS // 10)
    recorder.log.close()
    lines = [line for line in recorder.lines if "leftOut" not in line]
    says = [line for line in recorder.lines if "leftOut" in line]
    together = max(len(data) for data, _ in recorder.chunks)

    assert sum(len(data) for data, _ in recorder.chunks) <= most * (seconds + 1) + together
    assert 10 * seconds * number == len(lines) + sum(line["leftOut"] for line in says)
    assert all(line["leftOut"] == line["overBytes"] == line["reasons"][reason] for line in says)
    assert 0 < len(says) <= seconds + 1


def test_no_bytes_for_what_is_no_request() -> None:
    """It is counted, as all else is."""
    recorder = Recorder(max_bytes_per_second=4096)
    give(recorder, number=MAX_RECORDS)
    recorder.log.on_refused("::1", 400, 3, Failure.MALFORMED, "not HTTP")
    recorder.log.close()

    assert (1, {"malformed": 1}) == (
        recorder.lines[-1]["overBytes"],
        recorder.lines[-1]["reasons"],
    )


def test_flows_of_which_most_was_left_out() -> None:
    """Those are named, whatever their number; their names are escaped."""
    refused = {("ban", "s", "l", f'"{number}'): number for number in range(1, 20)}
    line = json.loads("{" + request_log.left_out_text({**refused, ("x", "", "", ""): 99}, {}))

    assert [f'"{number}' for number in range(19, 19 - MAX_FLOWS, -1)] == [
        flow["flow"] for flow in line["flows"]
    ]
    assert {"ban": 190, "x": 99} == line["reasons"]


def test_other_requests() -> None:
    """Settings that change count for requests that end from then on."""
    recorder = Recorder(requests=ERRORS)
    give(recorder)
    recorder.log.configure(AccessLogSettings())
    give(recorder)
    recorder.log.flush()

    assert 1 == len(recorder.lines)


def test_lines_are_made_many_at_a_time() -> None:
    """At a number, or after a time; the end hands on the rest."""
    recorder = Recorder()
    give(recorder, number=MAX_RECORDS)
    recorder.clock.run()
    give(recorder, number=2)
    recorder.clock.run()
    give(recorder)
    recorder.log.close()
    recorder.log.close()

    assert [MAX_RECORDS, 2, 1] == [lines for _, lines in recorder.chunks]
    assert 2 * FLUSH_PERIOD_NS == recorder.clock.now_ns()


def test_text_is_kept_with_its_sender() -> None:
    """Requests with the same fields share it while they are of one user, unless it is long."""
    recorder = Recorder()
    ann, bob = User("ann", ()), User("bob", ())
    head = request_of(user=ann)
    block = head.head.block
    for user in (ann, ann, bob, User("eve", ("g" * MAX_TEXT,) * MAX_GROUPS)):
        head.user = user
        recorder.log.take(head, None, "::1", 0, 1, 2, 3, 1, 200, 200, 0, "")
        recorder.log.flush()
        if user is ann:
            kept = block.logged
            assert kept is not None
            assert kept[0] is ann

    assert ["ann", "ann", "bob", "eve"] == [line["user"] for line in recorder.lines]
    assert block.logged is not None
    assert block.logged[0] is bob


def test_text_is_kept_with_the_class(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one generation of the configuration, and of so many classes."""
    monkeypatch.setattr(request_log, "MAX_KEPT_CLASSES", 2)
    recorder = Recorder()

    controller = Controller(VirtualClock(), 600, 0)

    def classes() -> list[Classification]:
        controller.commit(controller.digest(bootstrap_objects()))
        users = [User(name, ("system:authenticated",)) for name in "abc"]
        return [controller.classify(user, request_of().attributes) for user in users]

    def kept_after(*found: Classification) -> list[str]:
        for each in found:
            recorder.log.take(request_of(), each, "::1", 0, 1, 2, 3, 1, 200, 200, 0, "")
        recorder.log.flush()
        kept: Any = recorder.log._classes  # noqa: SLF001  what is bounded
        return [each.flow.distinguisher for each in kept]

    old, new = classes(), classes()

    assert ["a", "b"] == kept_after(old[0], old[1], old[0])
    assert ["c"] == kept_after(old[2])
    assert ["a"] == kept_after(new[0])
    assert ["a", "b", "a", "c", "a"] == [line["flow"] for line in recorder.lines]
    assert {("global-default", "global-default", 1)} == {
        (line["flowSchema"], line["priorityLevel"], line["seats"]) for line in recorder.lines
    }


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
        (b'/a"\\b', {"path": '/a"\\b'}),
        (b"http://api/a?limit=7", {"path": "/a", "query": {"limit": "7"}}),
        (b"/%2541/a%2fb", {"path": "/%41/a/b"}),
        (b"/a%22%0a%ff", {"path": '/a"\n\N{REPLACEMENT CHARACTER}'}),
        (b"/" + b"a" * 2000, {"path": "/" + "a" * (MAX_PATH - 4) + CUT}),
        (b"/api/v1/pods/" + b"a" * 300, {"name": "a" * (MAX_TEXT - 3) + CUT}),
    ],
)
def test_what_is_asked_for(target: bytes, expected: Line) -> None:
    """Whatever the target holds, it is JSON, and bounded."""
    head = request_of(target)
    found = json.loads(f"{{{text_of_target('GET', target, head.attributes)[1:]}}}")

    assert expected == {name: found[name] for name in expected}
    assert ("query" in expected) == ("query" in found)
    assert target.startswith(b"/api") == ("resource" in found)


def test_who_asks_is_bounded() -> None:
    """So many groups, and names of such a length."""
    user = User("n" * 999, tuple(f"{number}{'g' * 999}" for number in range(99)))
    found = json.loads(f"{{{text_of_user(user)}}}")

    assert MAX_TEXT == len(found["user"])
    assert [MAX_TEXT] * MAX_GROUPS == [len(group) for group in found["groups"]]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"token": ("x",), "access_token": ("x",), "command": ("rm",)}, {}),
        ({"continue": ("abc",), "limit": ("5", "6")}, {"limit": "5", "continue": True}),
        ({"continue": (), "watch": ()}, {}),
    ],
    ids=["secrets", "known", "empty"],
)
def test_query(query: dict[str, tuple[str, ...]], expected: Line) -> None:
    """Only what Kubernetes' API gives a meaning, and that a page is continued, not from where."""
    text = query_text(query)

    assert expected == (json.loads(f"{{{text[1:]}}}")["query"] if text else {})


@given(st.text(st.characters(), max_size=600))
def test_any_text_is_json(text: str) -> None:
    """Any text is bounded, in ASCII, and comes back but for what is no Unicode."""
    found = json.loads(quoted(text))

    assert quoted(text).isascii()
    assert MAX_TEXT >= len(found)
    if len(text) <= MAX_TEXT:
        assert text.encode(errors="surrogatepass").decode(errors="replace") == found


def test_every_failure_has_a_plain_name() -> None:
    """They stand in a line as they are."""
    assert [] == [each for each in Failure if not re.fullmatch("[a-z-]+", each)]


def test_parameters_are_known() -> None:
    """What a line says of a query is among what is known of queries."""
    assert {name for name, _ in PARAMETERS} | {"continue"} <= set(KNOWN_PARAMETERS)


async def test_a_request_of_which_no_line_can_be_made(caplog: pytest.LogCaptureFixture) -> None:
    """The lines of those that ended at the same time are there; it is told of once."""
    recorder = Recorder()
    give(recorder)
    recorder.log.take(request_of(), None, "::1", 0, 1, 2, 3, 1, 9999, 9999, 9, "")
    give(recorder, 404)
    recorder.log.flush()

    assert [200, 404] == [line["status"] for line in recorder.lines]
    assert 1 == caplog.text.count("a request is not in the access log")


def test_client_s_fields() -> None:
    """What the client says by which it is found is in its lines, escaped and cut."""
    recorder = Recorder()
    fields = RequestFields(is_http_10=False)
    parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    fields.forward = (
        f'Host: a\r\nUser-Agent: "x\x1b{"y" * MAX_TEXT}\r\nAudit-ID: "\r\ntraceparent: {parent}\r\n'
    ).encode()
    for user in (User("ann", ()), User("bob", ())):
        head = request_of(user=user, fields=fields)
        for _ in range(2):
            recorder.log.take(head, None, "::1", 0, 1, 2, 3, 1, 200, 200, 0, "")
    recorder.log.flush()

    assert 4 == len(recorder.lines)
    for line in recorder.lines:
        assert line["userAgent"].startswith('"x\x1by')
        assert (MAX_TEXT, '"', parent) == (
            len(line["userAgent"]),
            line["auditId"],
            line["traceparent"],
        )


def test_no_fields_of_the_client() -> None:
    """A client that says nothing has no name of a program, and nothing to be found by."""
    recorder = Recorder()
    give(recorder)
    recorder.log.flush()
    (line,) = recorder.lines

    assert None is line["userAgent"]
    assert not {"auditId", "traceparent", "why"} & line.keys()


def test_audit_id_and_why() -> None:
    """What the proxy gave the request, and says of it, is in its line."""
    recorder = Recorder()
    head = request_of()
    why, line = 'b "c"\n', audit_line("a-1")
    recorder.log.take(head, None, "::1", 0, 1, 2, 3, 1, 200, 200, 0, "", line, why)
    recorder.log.flush()
    (made,) = recorder.lines

    assert ("a-1", why) == (made["auditId"], made["why"])
    assert "upstream" not in made


def test_server() -> None:
    """Where there are several servers, the line says which had the request."""
    recorder = Recorder()
    text = text_of_server('unix:/a"b')
    recorder.log.take(request_of(), None, "::1", 0, 1, 2, 3, 1, 200, 200, 0, "", b"", "", text)
    recorder.log.flush()
    (made,) = recorder.lines

    assert ('unix:/a"b', "") == (made["upstream"], made["reason"])


def test_trace() -> None:
    """The ID of a sampled trace stands in hexadecimal digits, as in a traceparent."""
    recorder = Recorder()
    text = text_of_trace(0xAF92F3577B34DA6A3CE929D0E0E4736)
    recorder.log.take(request_of(), None, "::1", 0, 1, 2, 3, 1, 200, 200, 0, "", b"", "", text)
    recorder.log.flush()
    (made,) = recorder.lines

    assert "0af92f3577b34da6a3ce929d0e0e4736" == made["traceId"]
