"""Tests of apfproxy.flowcontrol.flow_control."""

from __future__ import annotations

from apfproxy.flowcontrol.ticket import RejectReason
from tests.flowcontrol.test_passage import GET, Bench


def test_a_class_is_kept_as_long_as_its_configuration() -> None:
    """A digest is classified once by each configuration."""
    bench = Bench()
    digest = bench.arrive(GET).passage.digest
    first = bench.control.classify(digest)
    assert first is bench.control.classify(digest)
    bench.controller.commit(bench.controller.digest([]))

    assert "catch-all" == bench.control.classify(digest).level.name != first.level.name


def test_drops_put_the_next_attempt_off() -> None:
    """Clients are told to stay away for longer while many are rejected."""
    bench = Bench()
    level = bench.controller.levels["level"]
    for _ in range(3):
        for _ in range(20):
            refusal = bench.control.refusal(level, RejectReason.QUEUE_FULL)
        bench.wait(1)

    assert (RejectReason.QUEUE_FULL, "", 2) == (
        refusal.reason,
        refusal.message,
        refusal.retry_after_s,
    )


def test_the_same_but_observed() -> None:
    """What passes it then shares all but that; what was there before is as it was."""
    bench = Bench()
    errors: list[Exception] = []
    observed = bench.control.replace(errors.append)
    again = observed.replace(None)

    assert (False, True, False) == (
        bench.control.is_observing,
        observed.is_observing,
        again.is_observing,
    )
    assert bench.controller is observed.controller is again.controller
    assert bench.control.top_flows is observed.top_flows
