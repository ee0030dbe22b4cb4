"""Metrics of the access log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.observe.families import NO_LABELS, counter, gauge
from apfproxy.observe.proxy_metrics import PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.core import Metric

    from apfproxy.observe.access_log import AccessLog


def access_log_families(access_log: AccessLog) -> Iterator[Metric]:
    """All families of the access log, as of now."""
    yield counter(
        f"{PREFIX}access_log_lines_total",
        "Lines of the access log, by whether they are in the file or were dropped on their way",
        [({"result": "written"}, access_log.written), ({"result": "dropped"}, access_log.dropped)],
    )
    yield counter(
        f"{PREFIX}access_log_errors_total",
        "Writes and openings of the access log that failed",
        [(NO_LABELS, access_log.write_errors)],
    )
    yield gauge(
        f"{PREFIX}access_log_queued_lines",
        "Lines of the access log that wait to be written",
        [(NO_LABELS, access_log.queued)],
    )
