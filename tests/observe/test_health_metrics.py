"""Metrics of the health checks."""

from __future__ import annotations

from apfproxy.observe.health import READYZ, HealthRegistry
from apfproxy.observe.health_metrics import health_families


def test_family() -> None:
    """Each check is well or not at the moment of the scrape, on whatever page it is."""
    problems: list[str | None] = ["the API cannot be followed", None]
    health = HealthRegistry()
    health.add("kubernetes", pages=(READYZ,), is_blocking=False, look=lambda: problems[0])
    health.add("store")
    health.report("store", "the disk is full")

    def values() -> list[tuple[str, dict[str, str], float]]:
        (family,) = health_families(health)
        return [(sample.name, sample.labels, sample.value) for sample in family.samples]

    failing = values()
    problems.reverse()
    health.report("store", None)

    assert [
        ("apfproxy_healthcheck", {"name": "ping"}, 1),
        ("apfproxy_healthcheck", {"name": "kubernetes"}, 0),
        ("apfproxy_healthcheck", {"name": "store"}, 0),
    ] == failing
    assert [1, 1, 1] == [value for _, _, value in values()]
