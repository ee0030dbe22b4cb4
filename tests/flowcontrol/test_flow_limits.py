"""Limits of flows: bans, rates, long-running requests."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from apfproxy.flowcontrol import flow_limits
from apfproxy.flowcontrol.flow_limits import FlowLimits, Refusal, RequestRate, count_rejection
from apfproxy.flowcontrol.meters import FlowSchemaCounters, SeatDemand
from apfproxy.flowcontrol.queue_set import QueueSet, QueueSetConfig, QueueSetKind
from apfproxy.flowcontrol.ticket import RejectReason
from apfproxy.objects.additions import NO_FLOW_SCHEMA_ADDITIONS, FlowSchemaAdditions
from apfproxy.request.completion import Completion
from tests.support.clocks import VirtualClock

MS = 1_000_000
S = 1_000_000_000


def limits_of(added: FlowSchemaAdditions, *, is_ban: bool = False) -> FlowLimits:
    limits = FlowLimits("s")
    limits.configure(added, "a", is_ban=is_ban)
    return limits


class PlainBucket:
    def __init__(self, rate: int, burst: int) -> None:
        self.rate = rate
        self.burst = burst
        self.tokens_ns = burst * S  # a token is 1e9 of these, so that all is exact
        self.at_ns = 0

    def take(self, now_ns: int) -> bool:
        dripped = (now_ns - self.at_ns) * self.rate
        self.tokens_ns = min(self.burst * S, self.tokens_ns + dripped)
        self.at_ns = now_ns
        if self.tokens_ns < S:
            return False
        self.tokens_ns -= S
        return True


@given(
    st.sampled_from([1, 2, 5, 20, 1000]),
    st.integers(1, 10),
    st.lists(st.integers(0, 3 * S), max_size=60),
)
def test_a_flow_has_a_token_bucket(rate: int, burst: int, gaps: list[int]) -> None:
    requests = RequestRate(rate, burst)
    bucket = PlainBucket(rate, burst)
    now_ns = 0
    for gap in gaps:
        now_ns += gap
        assert bucket.take(now_ns) == (requests.take("f", now_ns) == 0)


def test_a_flow_is_told_when_there_will_be_a_token() -> None:
    rate = RequestRate(2, 3)
    assert [0, 0, 0, 500 * MS, 500 * MS] == [rate.take("f", 0) for _ in range(5)]
    assert 1 == rate.take("f", 500 * MS - 1)
    assert [0, 500 * MS] == [rate.take("f", 500 * MS) for _ in range(2)]
    assert 0 == rate.take("other", 500 * MS)


def test_buckets_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flows beyond share one bucket, until those that came first have full ones again."""
    monkeypatch.setattr(flow_limits, "MAX_FLOWS", 2)
    rate = RequestRate(1, 1)
    assert [0, 0, 0, S] == [rate.take(flow, 0) for flow in "abcd"]
    assert S // 2 == rate.take("e", S // 2)
    assert [0, 0, 0, S] == [rate.take(flow, 2 * S) for flow in "efgh"]
    assert [0, 0] == [rate.take("a", 4 * S), rate.take("b", 4 * S)]
    assert 0 == rate.take("c", 4 * S)
    assert S == rate.take("d", 4 * S)


def test_buckets_of_long_names_are_small() -> None:
    rate = RequestRate(1, 1)
    names = [f"{letter * 16_000}{end}" for letter in "ab" for end in "ab"]
    assert [0] * 4 == [rate.take(name, 0) for name in names]
    assert [False] * 4 == [rate.has_token(name, 0) for name in names]
    assert sum(map(len, rate._full_ns)) < 100  # noqa: SLF001  there is no other way to see it


@example(0.25, 1, [("a", 0), ("b", 0), ("c", 3 * S), ("d", 2 * S)])
@given(
    st.sampled_from([0.25, 1, 3]),
    st.integers(1, 3),
    st.lists(
        st.tuples(st.sampled_from("abcdef"), st.sampled_from([0, 0, S // 4, S, 3 * S])), max_size=40
    ),
)
def test_what_is_foreseen_comes(rate: float, burst: int, asked: list[tuple[str, int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flow_limits, "MAX_FLOWS", 2)
        requests = RequestRate(rate, burst)
        now_ns = 0
        for flow, gap in asked:
            now_ns += gap
            foreseen = requests.has_token(flow, now_ns)
            assert foreseen == requests.has_token(flow, now_ns)
            assert foreseen == (requests.take(flow, now_ns) == 0)


def refused(
    limits: FlowLimits,
    *,
    is_long_running: bool = False,
    flow: str = "f",
    completion: Completion | None = None,
    now_s: int = 0,
) -> str:
    found = limits.refusal(flow, now_s * S, is_long_running=is_long_running, completion=completion)
    return "" if found is None else found.reason


BAN = "priority level 'a', where FlowSchema 's' leads, rejects all requests (apfproxy.io/ban)"
LONG = (
    "the flow has 2 long-running requests under way, and FlowSchema 's' allows 2"
    " (apfproxy.io/long-running-limit); end one of them"
)
MANY = (
    "the flow has 1 request under way, and FlowSchema 's' allows 1"
    " (apfproxy.io/flow-requests-limit); try again later"
)
OFTEN = (
    "the flow makes more than 0.3 requests a second, the most that FlowSchema 's' allows"
    " (apfproxy.io/request-rate); try again later"
)


def test_refusals() -> None:
    ban = limits_of(NO_FLOW_SCHEMA_ADDITIONS, is_ban=True)
    assert Refusal(RejectReason.BAN, BAN) == ban.refusal("f", 0, is_long_running=True)
    assert "" == refused(limits_of(NO_FLOW_SCHEMA_ADDITIONS), is_long_running=True)

    few = limits_of(FlowSchemaAdditions(long_running_limit=2))
    assert ["", ""] == [refused(few, is_long_running=True) for _ in range(2)]
    assert Refusal(RejectReason.LONG_RUNNING, LONG) == few.refusal("f", 0, is_long_running=True)
    assert ["", ""] == [refused(few), refused(few, is_long_running=True, flow="other")]

    narrow = limits_of(FlowSchemaAdditions(flow_requests_limit=1, request_rate=1, request_burst=9))
    assert ["", ""] == [refused(narrow), refused(narrow, is_long_running=True)]
    assert Refusal(RejectReason.FLOW_REQUESTS, MANY, 1) == narrow.refusal(
        "f", 0, is_long_running=False
    )
    assert ["", ""] == [refused(narrow, flow="other"), refused(narrow, is_long_running=True)]

    slow = limits_of(FlowSchemaAdditions(request_rate=0.3, request_burst=1))
    assert "" == refused(slow)
    assert Refusal(RejectReason.RATE, OFTEN, 4) == slow.refusal("f", 0, is_long_running=False)
    assert "" == refused(slow, flow="other")


TOO_MANY_TOKENS = (
    "the flow has had more than 60 tokens a minute, the most that FlowSchema 's' allows"
    " (apfproxy.io/token-rate); try again later"
)


def completing(limits: FlowLimits, estimated: int, now_s: int = 0, flow: str = "f") -> Completion:
    """A completion that goes on."""
    completion = Completion(0)
    completion.estimated = estimated
    asked = flow, now_s * S
    assert limits.refusal(*asked, is_long_running=False, completion=completion) is None
    return completion


def test_a_flow_that_owes_tokens_has_to_wait() -> None:
    """The estimate counts at once, and what it had in its place at the end."""
    limits = limits_of(FlowSchemaAdditions(token_rate=60, token_burst=100))
    first = completing(limits, 80)
    second = completing(limits, 50)
    asked = partial(limits.refusal, "f", is_long_running=False)
    assert asked(0) is None, "it is no completion"
    assert Refusal(RejectReason.TOKEN_RATE, TOO_MANY_TOKENS, 30) == asked(0, completion=first)
    assert RejectReason.TOKEN_RATE == limits.foreseen_reason(
        "f", 0, is_long_running=False, is_completion=True
    )
    assert limits.foreseen_reason("f", 0, is_long_running=False) is None
    completing(limits, 1000, flow="other")

    first.count(5, 115)  # 40 more
    limits.settle("f", 0, first)
    refusal = asked(0, completion=first)
    assert refusal is not None
    assert 70 == refusal.retry_after_s
    limits.settle("f", 0, second)  # without a response it had none
    third = completing(limits, 1, 20)
    third.count(-1, -1)
    limits.settle("f", 20 * S, third)  # the estimate is all that is known
    assert asked(20 * S, completion=first) is not None
    completing(limits, 1, 21)


def test_tokens_given_back_fill_no_bucket_beyond_its_burst() -> None:
    limits = limits_of(FlowSchemaAdditions(token_rate=60, token_burst=10))
    spared = completing(limits, 50)
    limits.settle("f", 100 * S, spared)
    completing(limits, 11, 100)
    assert "" != refused(limits, completion=spared, now_s=100)


def test_a_request_that_owes_tokens_counts_for_no_other_rate() -> None:
    limits = limits_of(
        FlowSchemaAdditions(token_rate=60, token_burst=1, request_rate=1, request_burst=2)
    )
    known = completing(limits, 9)
    for _ in range(3):
        assert RejectReason.TOKEN_RATE == refused(limits, completion=known)
    assert ["", RejectReason.RATE] == [refused(limits), refused(limits)]
    limits.settle("f", 0, Completion(8))  # it has taken none


def test_flows_beyond_those_kept_share_a_debt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow_limits, "MAX_FLOWS", 1)
    limits = limits_of(FlowSchemaAdditions(token_rate=60, token_burst=1))
    completing(limits, 9)
    second = completing(limits, 9, flow="second")
    assert RejectReason.TOKEN_RATE == refused(limits, completion=second, flow="third")
    limits.settle("second", 0, second)
    completing(limits, 1, flow="third")


def test_places_come_back() -> None:
    limits = limits_of(FlowSchemaAdditions(long_running_limit=2, request_rate=1, request_burst=2))
    assert ["", "", RejectReason.LONG_RUNNING] == [
        refused(limits, is_long_running=True) for _ in range(3)
    ]
    limits.long_running.release("f")
    # Without a token there is no place taken, either.
    assert RejectReason.RATE == refused(limits, is_long_running=True)
    assert {"f": 1} == limits.long_running.counts
    limits.long_running.release("f")

    assert not limits.is_in_use


def test_reconfiguration() -> None:
    added = FlowSchemaAdditions(request_rate=1, request_burst=1)
    limits = limits_of(added)
    assert "" == refused(limits)
    limits.configure(added, "b", is_ban=False)
    assert "" != refused(limits)
    limits.configure(FlowSchemaAdditions(request_rate=2, request_burst=1), "b", is_ban=False)
    assert "" == refused(limits)
    limits.configure(NO_FLOW_SCHEMA_ADDITIONS, "b", is_ban=False)

    assert limits.rate is None


def test_reconfiguration_of_tokens() -> None:
    added = FlowSchemaAdditions(token_rate=60, token_burst=1)
    limits = limits_of(added)
    known = completing(limits, 9)
    limits.configure(added, "b", is_ban=False)
    assert "" != refused(limits, completion=known)
    limits.configure(FlowSchemaAdditions(token_rate=60, token_burst=2), "b", is_ban=False)
    assert "" == refused(limits, completion=known)
    limits.configure(NO_FLOW_SCHEMA_ADDITIONS, "b", is_ban=False)
    limits.settle("f", 0, known)

    assert limits.token_rate is None


def test_bytes_are_owed() -> None:
    """At any rate, to the nanosecond; another rate begins with a full bucket."""
    for rate in (1000, 3_000_000_000):
        limits = limits_of(added := FlowSchemaAdditions(bytes_per_second=rate))
        bucket = limits.byte_rate
        assert bucket is not None
        bucket.correct("f", 0, rate * 3)
        assert [2 * S, 0] == [bucket.missing_ns(flow, 0) for flow in "fg"]
        limits.configure(added, "b", is_ban=False)
        assert limits.byte_rate is bucket
        limits.configure(FlowSchemaAdditions(bytes_per_second=rate + 1), "b", is_ban=False)
        assert limits.byte_rate is not None
        assert limits.byte_rate.has_token("f", 0)
        assert "" == refused(limits)
        limits.configure(NO_FLOW_SCHEMA_ADDITIONS, "b", is_ban=False)
        assert limits.byte_rate is None


def test_rejections_are_counted() -> None:
    queue_set = QueueSet("a", VirtualClock(), QueueSetConfig(QueueSetKind.REJECT), 1, SeatDemand(0))
    counters = FlowSchemaCounters("a", "s")
    for reason in (
        RejectReason.BAN, RejectReason.RATE, RejectReason.LONG_RUNNING, RejectReason.TOKEN_RATE,
        RejectReason.FLOW_REQUESTS,
    ):  # fmt: skip
        count_rejection(queue_set, counters, reason)

    assert (1, 1, 1, 1, 1) == (
        counters.rejected_ban, counters.rejected_rate, counters.rejected_long_running,
        counters.rejected_token_rate, counters.rejected_flow_requests,
    )  # fmt: skip
    assert (5, 5) == (queue_set.rejected_total, counters.wait_rejected_ns.counts[0])
