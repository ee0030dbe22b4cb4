"""Metrics of the admin listener's connections."""

from __future__ import annotations

from apfproxy.observe.admin_metrics import admin_families


class Connections:
    """Some connections."""

    ended = {"replaced": 2, "late": 0}  # noqa: RUF012 - never changed

    def __len__(self) -> int:
        """How many are open."""
        return 3


def test_families() -> None:
    """What is open, and what ended, by reason."""
    samples = [sample[:3] for family in admin_families(Connections()) for sample in family.samples]

    assert [
        ("apfproxy_admin_connections", {}, 3),
        ("apfproxy_admin_connections_ended_total", {"reason": "replaced"}, 2),
        ("apfproxy_admin_connections_ended_total", {"reason": "late"}, 0),
    ] == samples
