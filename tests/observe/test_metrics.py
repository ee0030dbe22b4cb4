"""The metrics page in both formats."""

from __future__ import annotations

import asyncio

from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_openmetrics,
)
from prometheus_client.parser import text_string_to_metric_families as parse_text

from tests.objects import flow_schema, group_subject
from tests.observe.scene import Scene

OPENMETRICS = "application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.4"
LEVELS = (flow_schema("everyone", "catch-all", group_subject("everyone")),)


async def test_text() -> None:
    """Without a wish the page is Prometheus' own text, with bounds as Kubernetes writes them."""
    page, content_type = await Scene(LEVELS).metrics.render("")
    names = {family.name for family in parse_text(page.decode())}

    assert content_type.startswith("text/plain; version=0.0.4")
    assert b'le="1",' in page
    assert {
        "apiserver_flowcontrol_current_r",
        "apfproxy_build_info",
        "process_cpu_seconds",
    } <= names


async def test_openmetrics() -> None:
    """OpenMetrics is valid, which demands canonical bounds."""
    scene = Scene(LEVELS)
    scene.ticket("ann")
    page, content_type = await scene.metrics.render(OPENMETRICS)
    # The library does not annotate this function.
    families = parse_openmetrics(page.decode())  # type: ignore[no-untyped-call]
    names = {family.name for family in families}

    assert content_type.startswith("application/openmetrics-text; version=1.0.0")
    assert page.endswith(b"# EOF\n")
    assert {
        "apiserver_flowcontrol_dispatched_requests",
        "apfproxy_build",
        "process_cpu_seconds",
    } <= names


async def test_names_are_unique() -> None:
    """No family appears twice, in either format."""
    for accept in ("", OPENMETRICS):
        page, _ = await Scene(LEVELS).metrics.render(accept)
        types = [line for line in page.splitlines() if line.startswith(b"# TYPE")]

        assert len(types) == len(set(types))


async def test_other_work_goes_on() -> None:
    """The event loop gets its turn between families."""
    page = asyncio.ensure_future(Scene(LEVELS).metrics.render(""))
    turns = 0
    while not page.done():
        await asyncio.sleep(0)
        turns += 1
    families = page.result()[0].count(b"# TYPE")

    assert turns >= families > 30
