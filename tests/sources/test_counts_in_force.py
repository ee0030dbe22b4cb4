"""The reader of object counts in force."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.base.health_checks import HealthRegistry
from apfproxy.flowcontrol.learned_costs import LearnedCosts
from apfproxy.settings import FlowControlSettings, Settings, UpstreamSettings
from apfproxy.sources.counts_in_force import CountsInForce
from apfproxy.sources.servers_behind import ServersBehind
from tests.virtual_clock import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pytest


def settings_for(url: str | None, interval_s: float = 30.0) -> Settings:
    """Settings of a process that reads this page."""
    return Settings(
        flow_control=FlowControlSettings(
            object_counts_from=url, object_counts_interval_s=interval_s
        )
    )


class Scene:
    """Counts of a process, with what is told of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
        self.told: list[Mapping[str, int]] = []
        clock = VirtualClock()
        costs = LearnedCosts(clock.now_ns)
        monkeypatch.setattr(
            LearnedCosts, "set_object_counts", lambda _costs, counts, _ns: self.told.append(counts)
        )
        self.health = HealthRegistry()
        self.counts = CountsInForce(
            settings, clock, costs, self.health, ServersBehind(UpstreamSettings, dict)
        )

    @property
    def checks(self) -> list[str]:
        """The health checks."""
        return [check.name for check in self.health if check.name != "ping"]


async def test_page_that_is_named_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read from then on, and what another one said is forgotten."""
    scene = Scene(monkeypatch, settings_for(None))
    counts = scene.counts
    before = counts.current, scene.checks
    counts.start()
    change = await counts.prepare(settings_for("http://127.0.0.1:9/a"))
    assert counts.current is None
    change.commit()
    assert counts.current is not None
    named = str(counts.current.url), scene.checks
    (await counts.prepare(settings_for(None))).commit()
    counts.close()

    assert before == (None, [])
    assert named == ("http://127.0.0.1:9/a", ["object-counts"])
    assert (counts.current, scene.checks) == (None, [])
    assert scene.told == [{}, {}]


async def test_another_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is known stays."""
    url = "http://127.0.0.1:9/a"
    scene = Scene(monkeypatch, settings_for(url))
    first = scene.counts.current
    (await scene.counts.prepare(settings_for(url))).commit()
    assert scene.counts.current is first
    (await scene.counts.prepare(settings_for(url, 1))).commit()
    scene.counts.close()

    assert scene.counts.current is not first
    assert scene.told == []
