"""Which requests have a line in the access log, and what it says of those that have none."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.flowcontrol.controller import Controller
from apfproxy.objects.decode import bootstrap_objects
from apfproxy.proxy.request_log import (
    EXPECTED_BYTES,
    FLUSH_PERIOD_NS,
    MAX_KEYS,
    MAX_RECORDS,
    SECOND_NS,
    LogBudget,
    Omission,
    Omissions,
    RequestLog,
)
from apfproxy.proxy.request_record import Failure
from apfproxy.request.attributes import User, parse_attributes
from apfproxy.settings import ERRORS, AccessLogSettings
from tests.proxy.test_log_lines import PODS, classes_of, give_up, record_of
from tests.virtual_clock import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.flowcontrol.controller import Classification

Line = dict[str, Any]
REASON = "queue-full"


class Recorder:
    """A request log over a virtual clock, and what it hands on; lines are made at once."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401  settings by their names
        self.clock = VirtualClock()
        self.chunks: list[tuple[bytes, int]] = []
        self.kept_bytes: list[int] = []
        wanted = AccessLogSettings(**settings)
        self.budget = LogBudget(wanted)
        self.log = RequestLog(wanted, self.clock, self._write, self.budget, give_up)

    def _write(self, make: Callable[[], bytes], lines: int, kept_bytes: int) -> None:
        self.chunks.append((make(), lines))
        self.kept_bytes.append(kept_bytes)

    @property
    def lines(self) -> list[Line]:
        return [json.loads(line) for data, _ in self.chunks for line in data.splitlines()]

    def give(self, number: int = 1, **members: Any) -> None:  # noqa: ANN401  of `record_of`
        for _ in range(number):
            self.log.take(record_of(**members))

    def refuse(self, number: int, found: Classification | None = None) -> None:
        now_ns = self.clock.now_ns()
        self.give(
            number, classification=found, sent_ns=0, ended_ns=now_ns, status=403, reason="ban"
        )


@pytest.mark.parametrize(
    ("settings", "share"),
    [({}, 1.0), ({"sampled_percent": 30}, 0.3), ({"requests": ERRORS}, 0.0)],
    ids=["all", "sampled", "errors"],
)
def test_sampling(settings: Line, share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of requests without an error a share is logged, and all others; settings may change."""
    drawn = iter(number / 10 for number in range(10))
    monkeypatch.setattr("random.random", lambda: next(drawn))
    recorder = Recorder(**settings)
    recorder.give(10)
    recorder.give(status=404)
    recorder.give(reason=Failure.CANCELLED)
    recorder.log.configure(AccessLogSettings())
    recorder.give()
    recorder.log.flush()

    assert round(10 * share) + 3 == len(recorder.lines)


def test_flood_of_refused_requests() -> None:
    """However many there are, some lines a second are of them, and one says how many are not."""
    recorder = Recorder(refused_per_second=10)
    (found,) = classes_of("eve")
    for _ in range(3):
        recorder.refuse(1000, found)
        recorder.give()
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
    recorder.give(50, status=502, reason=Failure.UPSTREAM)
    recorder.log.close()

    assert [Failure.UPSTREAM] * 50 == [line["reason"] for line in recorder.lines]


def test_refused_requests_of_nobody_known() -> None:
    """All of a reason count together; the end says what is left out."""
    recorder = Recorder(refused_per_second=2)
    recorder.refuse(9)
    recorder.log.close()
    first, second, last = recorder.lines

    assert ("ban", "ban") == (first["reason"], second["reason"])
    assert (7, {"ban": 7}, []) == (last["leftOut"], last["reasons"], last["flows"])


@pytest.mark.parametrize("reason", ["", Failure.CANCELLED])
def test_no_more_bytes_than_settings_allow(reason: str) -> None:
    """In any number of seconds, but for those of one second, and of lines made together."""
    most, seconds, number = 8192, 5, 64
    recorder = Recorder(max_bytes_per_second=most)
    for _ in range(10 * seconds):
        recorder.give(number, reason=reason)
        recorder.clock.run_until(recorder.clock.now_ns() + SECOND_NS // 10)
    recorder.log.close()
    lines = [line for line in recorder.lines if "leftOut" not in line]
    says = [line for line in recorder.lines if "leftOut" in line]
    together = max(len(data) for data, _ in recorder.chunks)

    assert sum(len(data) for data, _ in recorder.chunks) <= most * (seconds + 1) + together
    assert 10 * seconds * number == len(lines) + sum(line["leftOut"] for line in says)
    assert all(line["leftOut"] == line["overBytes"] == line["reasons"][reason] for line in says)
    assert 0 < len(says) <= seconds + 1


def test_lines_that_are_not_made_yet_count_already() -> None:
    """A disk that stalls is not given more than it may get once it goes on."""
    waiting = []
    settings = AccessLogSettings(max_bytes_per_second=10 * EXPECTED_BYTES)
    log = RequestLog(
        settings,
        VirtualClock(),
        lambda _make, lines, _bytes: waiting.append(lines),
        LogBudget(settings),
        give_up,
    )
    for _ in range(20):
        log.take(record_of())
        log.flush()

    assert 10 == sum(waiting)


def test_lines_are_made_many_at_a_time() -> None:
    """At a number, or after a time; the end hands on the rest."""
    recorder = Recorder()
    recorder.give(MAX_RECORDS)
    recorder.clock.run()
    recorder.give(2)
    recorder.clock.run()
    recorder.give()
    recorder.log.close()
    recorder.log.close()

    assert [MAX_RECORDS, 2, 1] == [lines for _, lines in recorder.chunks]
    assert 2 * FLUSH_PERIOD_NS == recorder.clock.now_ns()


def test_bytes_that_are_kept() -> None:
    recorder = Recorder()
    record = record_of()
    assert record.head is not None
    record.head.size = 700
    for _ in range(2):
        recorder.log.take(record)
        recorder.log.take(record)
        recorder.log.flush()

    assert [1400, 1400] == recorder.kept_bytes


# What is left out.


def omissions(**settings: Any) -> tuple[Omissions, LogBudget]:  # noqa: ANN401  by their names
    log = AccessLogSettings(**settings)
    budget = LogBudget(log)
    return Omissions(log, budget), budget


@pytest.mark.parametrize(
    ("per_second", "logged"),
    [(3, [3, 3, 3]), (0, [0, 0, 0]), (None, [9, 9, 9])],
    ids=["some", "none", "all"],
)
def test_refused_requests_of_each_second(per_second: int | None, logged: list[int]) -> None:
    """A second begins with the first one that is refused after the second before."""
    tested, budget = omissions(refused_per_second=per_second)
    times_ns = (5, 5 + SECOND_NS, 9 * SECOND_NS)
    found = [sum(tested.count_refused(None, REASON, at_ns) for _ in range(9)) for at_ns in times_ns]
    refused, over_bytes = tested.take()

    left_out = 27 - sum(logged)
    assert logged == found
    assert left_out == sum(refused.values()) == budget.left_out[Omission.REFUSED]
    assert ({}, ({}, {})) == (over_bytes, tested.take())


def test_flows_and_reasons_are_told_apart() -> None:
    """A flow that is refused all the time takes no lines from another one."""
    tested, _ = omissions(refused_per_second=1)
    ann, bob = classes_of("ann", "bob")
    kinds = [(ann, REASON), (ann, REASON), (bob, REASON), (ann, "ban"), (None, "ban")]
    found = [tested.count_refused(where, why, 0) for where, why in kinds]

    assert [True, False, True, True, True] == found
    assert {(REASON, "global-default", "global-default", "ann"): 1} == tested.refused


def test_flows_without_end() -> None:
    """Those for which there is no room share the lines of their reason."""
    tested, _ = omissions(refused_per_second=1)
    controller = Controller(VirtualClock(), 600, 0)
    controller.commit(controller.digest(bootstrap_objects()))
    attributes = parse_attributes("GET", PODS)
    number, logged = 3 * MAX_KEYS, 0
    for name in range(number):
        user = User(str(name), ("system:authenticated",))
        found = controller.classify(user, attributes)
        logged += sum(tested.count_refused(found, REASON, 0) for _ in range(2))

    assert MAX_KEYS + 1 == logged
    assert 2 * number - logged == sum(tested.refused.values())
    assert number - MAX_KEYS < tested.refused[REASON, "", "", ""]
    assert MAX_KEYS + 1 >= len(tested.refused)


def test_bytes_come_back_with_time() -> None:
    """The bytes of a second may be spent at once, and what exceeds them is paid for."""
    _, budget = omissions(max_bytes_per_second=4096)
    start_ns = 10**15
    assert budget.refill(start_ns)
    budget.spend(4096)
    budget.correct(2 * 4096)

    has_left = [budget.refill(start_ns + tenth * SECOND_NS // 10) for tenth in range(1, 22)]
    assert [False] * 20 + [True] == has_left
    budget.spend(410)
    assert not budget.refill(start_ns + 21 * SECOND_NS // 10)
    assert budget.refill(start_ns + 100 * SECOND_NS)
    budget.spend(4096)
    assert not budget.refill(start_ns + 100 * SECOND_NS)
    budget.correct(-1)
    assert budget.refill(start_ns + 100 * SECOND_NS)


def test_pieces_of_bytes_are_not_lost() -> None:
    """Looks that are shorter than a byte takes come to the same."""
    _, budget = omissions(max_bytes_per_second=4096)
    budget.refill(SECOND_NS)
    budget.spend(4096)
    looks = (budget.refill(SECOND_NS + number * 1000) for number in range(1, 1000))

    assert SECOND_NS // 4096 // 1000 + 1 == 1 + list(looks).index(True)


def test_other_budgets() -> None:
    """A budget that changes is full; one that stays is as it was; without one all is written."""
    _, budget = omissions(max_bytes_per_second=4096)
    budget.spend(5000)
    budget.configure(AccessLogSettings(max_bytes_per_second=4096))
    assert not budget.refill(0)
    budget.configure(AccessLogSettings(max_bytes_per_second=8192))
    assert budget.refill(0)
    budget.configure(AccessLogSettings(max_bytes_per_second=None))
    budget.spend(1 << 40)
    assert budget.refill(0)


def test_requests_without_bytes() -> None:
    tested, budget = omissions()
    for reason in ("", "", REASON):
        tested.count_over_bytes(reason)

    assert {"": 2, REASON: 1} == tested.over_bytes
    assert 3 == budget.left_out[Omission.BYTES]
