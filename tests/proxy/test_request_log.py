"""Which requests have a line in the access log, and what it says of those that have none."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.flowcontrol.controller import Controller
from apfproxy.proxy.request_log import (
    EXPECTED_BYTES,
    FLUSH_PERIOD_NS,
    MAX_KEYS,
    MAX_RECORDS,
    SECOND_NS,
    LogBudget,
    Omission,
    RequestLog,
)
from apfproxy.proxy.request_record import Failure
from apfproxy.settings import ERRORS, AccessLogSettings
from tests.proxy.test_log_lines import classes_of, give_up, record_of
from tests.support.clocks import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.flowcontrol.controller import Classification

Line = dict[str, Any]


class Recorder:
    """A request log over a virtual clock, and what it hands on; lines are made at once."""

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
        """Those of requests, and those that say what is left out; all that there are by the end."""
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
    recorder.log.configure(AccessLogSettings())
    recorder.give()

    assert round(10 * share) + 4 == len(recorder.lines()[0])


def test_flood_of_refused_requests() -> None:
    """However many there are, some lines a second are of them, and one says how many are not."""
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


def test_failed_requests_are_all_logged() -> None:
    """What was sent on has cost more than its line, and is what is looked for in the log."""
    recorder = Recorder(refused_per_second=1)
    recorder.give(50, reason=Failure.UPSTREAM)

    assert 50 == len(recorder.lines()[0])


@pytest.mark.parametrize("per_second", [3, 0, None], ids=["some", "none", "all"])
def test_refused_requests_of_each_second(per_second: int | None) -> None:
    """A second begins with the first one that is refused after the second before."""
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
    """A flow that is refused all the time takes no lines from another one."""
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


def test_flows_without_end_share_the_lines_of_their_reason() -> None:
    recorder = Recorder(refused_per_second=1)
    number = 3 * MAX_KEYS
    found = classes_of(*map(str, range(number)), controller=Controller(VirtualClock(), 600, 0))
    for each in found:
        recorder.refuse(2, each)
    counts = dict(recorder.log._refused)  # noqa: SLF001  it is bounded
    lines, (said,) = recorder.lines()

    assert MAX_KEYS + 1 == len(lines)
    assert 2 * number - len(lines) == said["leftOut"]
    assert number - MAX_KEYS < counts["ban", "", "", ""]
    assert MAX_KEYS + 1 >= len(counts)


@pytest.mark.parametrize("reason", ["", Failure.CANCELLED])
def test_no_more_bytes_than_settings_allow(reason: str) -> None:
    """In any number of seconds, but for those of one second, and of lines made together."""
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

    assert [MAX_RECORDS, 2, 1] == [lines for _, lines, _ in recorder.chunks]
    assert 2 * FLUSH_PERIOD_NS == recorder.clock.now_ns()


def test_bytes_that_are_kept_are_those_of_heads() -> None:
    recorder = Recorder()
    record = record_of()
    assert record.head is not None
    record.head.size = 700
    for _ in range(2):
        recorder.log.take(record)
        recorder.log.take(record)
        recorder.log.flush()

    assert [1400, 1400] == [kept_bytes for _, _, kept_bytes in recorder.chunks]


def test_bytes_come_back_with_time() -> None:
    """The bytes of a second may be spent at once, and what exceeds them is paid for."""
    budget = LogBudget(AccessLogSettings(max_bytes_per_second=4096))
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


def test_looks_that_are_shorter_than_a_byte_takes_lose_nothing() -> None:
    budget = LogBudget(AccessLogSettings(max_bytes_per_second=4096))
    budget.refill(SECOND_NS)
    budget.spend(4096)
    looks = (budget.refill(SECOND_NS + number * 1000) for number in range(1, 1000))

    assert SECOND_NS // 4096 // 1000 + 1 == 1 + list(looks).index(True)


def test_budget_that_changes_is_full() -> None:
    """One that stays is as it was; without one all is written."""
    budget = LogBudget(AccessLogSettings(max_bytes_per_second=4096))
    budget.spend(5000)
    budget.configure(AccessLogSettings(max_bytes_per_second=4096))
    assert not budget.refill(0)
    budget.configure(AccessLogSettings(max_bytes_per_second=8192))
    assert budget.refill(0)
    budget.configure(AccessLogSettings(max_bytes_per_second=None))
    budget.spend(1 << 40)
    assert budget.refill(0)
