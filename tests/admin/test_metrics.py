"""The metrics page in both formats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.parser import text_string_to_metric_families as parse_text

from apfproxy.admin.families import MOST_SAMPLES
from apfproxy.admin.metrics import MetricsPage
from loadtest.objects import flow_schema, group_subject, priority_level
from tests.admin.scene import Scene

if TYPE_CHECKING:
    from apfproxy.objects.types import FlowControlObject

LEVELS = (flow_schema("everyone", "catch-all", group_subject("everyone")),)


def test_text() -> None:
    """The page is Prometheus' own text, with bounds as Kubernetes writes them."""
    metrics = Scene(LEVELS).metrics
    page = b"".join(metrics.slices())
    names = {family.name for family in parse_text(page.decode())}

    assert metrics.content_type.startswith("text/plain; version=0.0.4")
    assert b'le="1",' in page
    assert {
        "apiserver_flowcontrol_current_r",
        "apfproxy_build_info",
        "process_cpu_seconds",
    } <= names


def test_names_are_unique() -> None:
    """No family appears twice."""
    page = b"".join(Scene(LEVELS).metrics.slices())
    types = [line for line in page.splitlines() if line.startswith(b"# TYPE")]

    assert len(types) == len(set(types))


def test_slices_are_small() -> None:
    """However many levels and used FlowSchemas there are, each slice has a bounded part of them."""
    scene = Scene(many(schemas=300, levels=150))
    for number in range(300):
        scene.ask("ann", group=f"group-{number}")
    slices = list(scene.metrics.slices())
    samples = [sum(line[:1] != b"#" for line in each.splitlines()) for each in slices]
    page = b"".join(slices).decode()
    counts = {family.name: len(family.samples) for family in parse_text(page)}

    assert MOST_SAMPLES == max(samples)
    assert counts["apiserver_flowcontrol_work_estimated_seats"] == 300 * 11
    assert page.count("# TYPE") == len(counts)


def test_unused_schemas_have_no_series() -> None:
    """A FlowSchema that no request came to costs the page nothing; a used one shows as it is."""
    scene = Scene(many(schemas=1000, levels=1))
    scene.ticket("ann", group="group-7")
    page = b"".join(scene.metrics.slices()).decode()
    schemas = {
        sample.labels["flow_schema"]
        for family in parse_text(page)
        for sample in family.samples
        if "flow_schema" in sample.labels
    }

    assert {"schema-7"} == schemas


def many(*, schemas: int, levels: int) -> tuple[FlowControlObject, ...]:
    """So many FlowSchemas, of groups of their own, and levels."""
    return (
        *(priority_level(f"level-{number}") for number in range(levels)),
        *(
            flow_schema(
                f"schema-{number}", f"level-{number % levels}", group_subject(f"group-{number}")
            )
            for number in range(schemas)
        ),
    )


def test_clusters() -> None:
    """Each sample of several clusters says whose it is; no family appears twice."""
    scenes = {name: Scene(LEVELS) for name in "abc"}
    scenes["b"].ticket("ann")
    page = MetricsPage(
        lambda: {name: scene.parts for name, scene in scenes.items()}, is_full=lambda: False
    )
    text = b"".join(page.slices()).decode()
    names = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    own = [
        sample
        for family in parse_text(text)
        for sample in family.samples
        if not sample.name.startswith(("process_", "python_"))
    ]

    assert len(names) == len(set(names))
    assert {"a", "b", "c"} == {sample.labels["cluster"] for sample in own}
    assert ["b"] == [
        sample.labels["cluster"]
        for sample in own
        if sample.name == "apiserver_flowcontrol_dispatched_requests_total"
    ]
