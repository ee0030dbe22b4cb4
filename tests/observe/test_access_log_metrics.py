"""Metrics of the access log."""

from __future__ import annotations

from apfproxy.observe.access_log import AccessLog
from apfproxy.observe.access_log_metrics import access_log_families
from tests.virtual_clock import VirtualClock


def test_families() -> None:
    """Lines by what became of them, errors, and what waits."""
    log = AccessLog("log", 1, VirtualClock())
    log.write(b"a\n")
    log.write(b"b\n")
    log.write_errors = 3

    assert [
        ("apfproxy_access_log_lines_total", {"result": "written"}, 0),
        ("apfproxy_access_log_lines_total", {"result": "dropped"}, 1),
        ("apfproxy_access_log_errors_total", {}, 3),
        ("apfproxy_access_log_queued_lines", {}, 1),
    ] == [
        (sample.name, sample.labels, sample.value)
        for family in access_log_families(log)
        for sample in family.samples
    ]
