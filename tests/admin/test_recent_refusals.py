"""What the proxy itself refused lately."""

from __future__ import annotations

from apfproxy.admin.recent_refusals import RecentRefusals
from apfproxy.proxy.counters import Flood, ProxyCounters, Refusal

S = 1_000_000_000


def test_rates() -> None:
    """Refusals since the first look that is kept, by reason."""
    counters = ProxyCounters()
    counters.count_own(401)
    refusals = RecentRefusals(counters, 0)
    for code in (401, 401, 400, 429, 502, 200):
        counters.count_own(code)
    counters.listener.connections_refused[Refusal.CONNECTIONS] += 3
    counters.listener.http2.floods[Flood.RESETS] += 1
    refusals.look(2 * S)

    expected = {"connections": 1.5, "flood-of-resets": 0.5, "401": 1.0, "400": 0.5}
    assert expected == refusals.per_s()
    assert f"<RecentRefusals: {expected}>" == repr(refusals)


def test_what_is_long_ago() -> None:
    """Only the last looks count."""
    counters = ProxyCounters()
    refusals = RecentRefusals(counters, 0)
    counters.count_own(401)
    for second in range(1, 7):
        refusals.look(second * S)

    assert {} == refusals.per_s()


def test_one_look() -> None:
    """One look, or no data plane, tells nothing."""
    assert {} == RecentRefusals(ProxyCounters(), 0).per_s()
    assert {} == RecentRefusals(None, 0).per_s()
