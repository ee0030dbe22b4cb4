"""Metrics of what a process has beside requests."""

from __future__ import annotations

import pytest

from apfproxy.admin.access_log import AccessLog
from apfproxy.admin.process_metrics import (
    access_log_families,
    admin_families,
    certificate_families,
    fault_families,
    health_families,
    token_families,
    trace_families,
    upstream_families,
)
from apfproxy.base.faults import Faults, Part
from apfproxy.base.health_checks import READYZ, HealthRegistry
from apfproxy.base.tls_files import Lifetime
from tests.virtual_clock import VirtualClock


def test_access_log() -> None:
    """Lines by what became of them, errors, and what waits."""
    log = AccessLog("log", 1, VirtualClock())
    log.write(lambda: b"a\n", 1)
    log.write(lambda: b"b\n", 1)
    log.write_errors = 3

    assert [
        ("apfproxy_access_log_left_out_total", {"cause": "refused"}, 4),
        ("apfproxy_access_log_lines_total", {"result": "written"}, 0),
        ("apfproxy_access_log_lines_total", {"result": "dropped"}, 1),
        ("apfproxy_access_log_errors_total", {}, 3),
        ("apfproxy_access_log_queued_lines", {}, 1),
    ] == [
        (sample.name, sample.labels, sample.value)
        for family in access_log_families(log, {"refused": 4})
        for sample in family.samples
    ]


class Connections:
    """Some connections."""

    ended = {"replaced": 2, "late": 0}  # noqa: RUF012 - never changed

    def __len__(self) -> int:
        """How many are open."""
        return 3


def test_admin_connections() -> None:
    """What is open, and what ended, by reason."""
    samples = [
        sample[:3]
        for family in admin_families(Connections(), {"no-credentials": 4})
        for sample in family.samples
    ]

    assert [
        ("apfproxy_admin_refused_requests_total", {"reason": "no-credentials"}, 4),
        ("apfproxy_admin_connections", {}, 3),
        ("apfproxy_admin_connections_ended_total", {"reason": "replaced"}, 2),
        ("apfproxy_admin_connections_ended_total", {"reason": "late"}, 0),
    ] == samples


def test_every_part_has_a_series() -> None:
    """Also those without an error, so that the first one is an increase."""
    faults = Faults()
    faults.totals[Part.SWEEP] = 3
    (family,) = fault_families(faults)

    assert "apfproxy_internal_errors" == family.name
    assert {part: 3.0 if part is Part.SWEEP else 0.0 for part in Part} == {
        sample.labels["part"]: sample.value for sample in family.samples
    }


def test_health() -> None:
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


class Traces:
    """Traces on their way to a collector."""

    exported, failed, dropped, queued = 5, 4, 3, 2


def test_traces() -> None:
    """What became of them, and how many wait."""
    assert [
        ("apfproxy_traces_total", {"result": "exported"}, 5),
        ("apfproxy_traces_total", {"result": "failed"}, 4),
        ("apfproxy_traces_total", {"result": "dropped"}, 3),
        ("apfproxy_traces_queued", {}, 2),
    ] == [
        (sample.name, sample.labels, sample.value)
        for family in trace_families(Traces())
        for sample in family.samples
    ]


class Certificates:
    """Those of one file, which expire in an hour."""

    file = ("upstream.tls.caFile", "ca.crt")

    def next_unix_s(self, now_unix_s: float) -> float:
        """Say when."""
        return now_unix_s + 3600


def test_certificates() -> None:
    """Each file with its setting; none where there is no TLS."""
    samples = [
        sample[:3]
        for family in certificate_families([Certificates()], 1000)
        for sample in family.samples
    ]

    assert [
        (
            "apfproxy_certificate_expiry_timestamp_seconds",
            {"setting": "upstream.tls.caFile", "file": "ca.crt"},
            4600,
        )
    ] == samples


def test_tokens() -> None:
    """When each was issued, and when it expires."""
    tokens = [("upstream.tokenFile", "token", Lifetime(1000.0, 4600.0))]
    labels = {"setting": "upstream.tokenFile", "file": "token"}

    assert [
        ("apfproxy_token_expiry_timestamp_seconds", labels, 4600),
        ("apfproxy_token_issued_timestamp_seconds", labels, 1000),
    ] == [sample[:3] for family in token_families(tokens) for sample in family.samples]


class Upstream:
    """A server."""

    def __init__(self, state: str) -> None:
        self.state = state


@pytest.mark.parametrize(
    ("state", "expected"), [("up", [1.0]), ("failing", [0.0]), ("unknown", [])]
)
def test_upstream(state: str, expected: list[float]) -> None:
    """It is up or not, once that is known."""
    assert expected == [
        sample.value for family in upstream_families(Upstream(state)) for sample in family.samples
    ]
