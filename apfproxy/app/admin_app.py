"""All pages of the admin listener, in one application of aiohttp."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from apfproxy.app.object_source import source_text
from apfproxy.app.raw_request import request_of_line
from apfproxy.app.settings_checks import verifies_users
from apfproxy.app.web_runner import WebRunner
from apfproxy.flowcontrol.level_summary import summarize_levels
from apfproxy.flowcontrol.preset import PRESETS
from apfproxy.observe.admin import build_admin_app
from apfproxy.observe.endpoint_state import endpoint_views
from apfproxy.observe.explain_page import NOT_ENFORCED, explain_route
from apfproxy.observe.live_state import LiveInputs
from apfproxy.observe.upstream_state import upstream_state
from apfproxy.settings import OBSERVE

if TYPE_CHECKING:
    from apfproxy.app.admin_listener import AdminParts
    from apfproxy.app.places import Places
    from apfproxy.flowcontrol.level_summary import LevelsSummary
    from apfproxy.observe.live_history import LiveHistory
    from apfproxy.observe.metrics import MetricsPage

SHUTDOWN_S = 1.0
"""For a scrape that is under way; the listener closes last, when there is nothing more to see."""


def admin_runner(
    parts: AdminParts, metrics: MetricsPage, history: LiveHistory, places: Places
) -> WebRunner:
    """Put the pages together."""

    def enforcement() -> str:
        return parts.settings().flow_control.enforcement

    def summary() -> LevelsSummary:
        settings = parts.settings()
        return summarize_levels(
            parts.cluster.controller,
            knows_users=verifies_users(settings),
            is_plain=PRESETS[settings.preset].is_plain,
        )

    explain_page = explain_route(
        parts.cluster.controller,
        parts.cluster.costs,
        lambda method, target: request_of_line(method, target, parts.settings()),
        lambda: (NOT_ENFORCED,) if enforcement() == OBSERVE else (),
        lambda: PRESETS[parts.settings().preset],
    )
    app = build_admin_app(
        parts.cluster.controller,
        metrics,
        parts.health,
        lambda: time.time_ns() - parts.clock.now_ns(),
        parts.api_routes,
        LiveInputs(
            enforcement=enforcement,
            events=parts.events,
            top_flows=parts.flows,
            history=history,
            health=parts.health,
            counters=parts.cluster.counters,
            started_s=parts.started_s,
            source=lambda: source_text(parts.settings().flow_control),
            upstream=lambda: upstream_state(
                parts.cluster.upstream,
                parts.cluster.served.pool,
                parts.settings().flow_control.per_endpoint,
            ),
        ),
        parts.top_flows,
        explain_page,
        summary,
        lambda: endpoint_views(parts.cluster.upstream, parts.cluster.served.pool),
    )
    return WebRunner(app, places, shutdown_s=SHUTDOWN_S)
