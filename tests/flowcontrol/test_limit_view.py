"""A finder's limit as it is shown, beside a server that does no more from 20 seats on."""

from __future__ import annotations

from apfproxy.flowcontrol.limit_finder import FinderSettings, LimitFinder, Load
from apfproxy.flowcontrol.limit_view import DecisionView, LimitView, limit_view

SETTINGS = FinderSettings(least=2, most=200, initial=100, target=0.97)
LOAD_CLASS = ("get", "pods", 3)
CAPACITY = 20
LATENCY_S = 0.02
LOOK_S = 0.1
UNIX_S = 1_000_000.0


def loaded(finder: LimitFinder, seconds: int) -> LimitView:
    """Have requests wait for so long; what is shown then."""
    now_s = 0.0
    for look in range(1, seconds * 10 + 1):
        now_s = look * LOOK_S
        count = min(finder.limit, CAPACITY) / LATENCY_S * LOOK_S
        taken_s = finder.limit * LOOK_S
        finder.look(now_s, Load(LOOK_S, finder.limit, True, {LOAD_CLASS: (count, taken_s)}))
    return limit_view(finder, now_s, UNIX_S + now_s)


def test_without_load() -> None:
    view = limit_view(LimitFinder(SETTINGS), 5.0, UNIX_S, is_leading=False)

    assert (100, "searching", None, None) == (view.limit, view.state, view.found, view.knee)
    assert (2, 200, 100, 0.97) == (view.min, view.max, view.initial, view.target)
    assert ((), (), {0}) == (view.curve, view.decisions, set(view.decided.values()))
    assert not view.is_leading


def test_limit_that_was_found() -> None:
    view = loaded(LimitFinder(SETTINGS), 30)
    concurrencies = [each.concurrency for each in view.curve]

    assert view.found is not None
    assert CAPACITY <= view.found <= 1.15 * CAPACITY
    assert view.found == view.knee
    assert sorted(concurrencies) == concurrencies
    assert max(each.goodput for each in view.curve) == 1.0
    assert {each.concurrency: each.goodput for each in view.curve}[view.knee] >= 0.97
    assert max(each.age for each in view.curve) <= 30


def test_decisions_say_why_the_limit_is_as_it_is() -> None:
    """Probes that are over are counted, but make no room for themselves."""
    view = loaded(LimitFinder(SETTINGS), 60)
    *_, last = [each for each in view.decisions if each.kind != "probe"]

    assert "fewer" == view.decisions[0].kind
    assert ("found", view.found) == (last.kind, last.limit)
    assert UNIX_S < last.time < UNIX_S + 10
    assert view.decided["probe"] > 5
    assert view.decided["found"] == 1
    assert len(view.decisions) - 1 <= sum(1 for each in view.decisions if each.kind != "probe")


def test_limit_that_would_be_chosen() -> None:
    """The limit that is known now comes first, then the last that was, and nothing before that."""
    decision = DecisionView(UNIX_S, 84, "observed", "")

    assert LimitView(100).chosen is None
    assert 84 == LimitView(84, decisions=(decision,)).chosen
    assert 80 == LimitView(84, found=80, decisions=(decision,)).chosen
