"""Metrics pages of several workers as one page."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse_text

from apfproxy.admin.merged_metrics import (
    counts_of,
    labelled_slices,
    merged_slices,
    number_text,
    page_of,
)
from loadtest.objects import flow_schema, group_subject
from tests.admin.scene import Scene

LEVELS = (flow_schema("everyone", "catch-all", group_subject("everyone")),)

FIRST = b"""\
# HELP served_total Requests
# TYPE served_total counter
served_total{code="200",path="a b"} 3.0
served_total{code="500",path="a b"} 0.0
# HELP apfproxy_upstream_up Whether it is up
# TYPE apfproxy_upstream_up gauge
apfproxy_upstream_up 1.0
# HELP apfproxy_loop_delay_seconds How late
# TYPE apfproxy_loop_delay_seconds gauge
apfproxy_loop_delay_seconds 0.5
# HELP apfproxy_build_info What runs
# TYPE apfproxy_build_info gauge
apfproxy_build_info{version="1"} 1.0
"""
SECOND = b"""\
# HELP served_total Requests
# TYPE served_total counter
served_total{code="200",path="a b"} 4.5
served_total{code="404",path="a b"} 1.0
# HELP apfproxy_upstream_up Whether it is up
# TYPE apfproxy_upstream_up gauge
apfproxy_upstream_up 0.0
# HELP apfproxy_loop_delay_seconds How late
# TYPE apfproxy_loop_delay_seconds gauge
apfproxy_loop_delay_seconds 0.25
# HELP apfproxy_build_info What runs
# TYPE apfproxy_build_info gauge
apfproxy_build_info{version="1"} 1.0
# HELP further Of a newer version
# TYPE further gauge
further 1.0
"""


def merged(*pages: bytes) -> bytes:
    """The pages as one."""
    return b"".join(merged_slices(list(map(page_of, pages))))


def test_merged() -> None:
    """Counters add up, gauges become one by their rules, and nothing that only one has is lost."""
    assert (
        merged(FIRST, SECOND).decode()
        == """\
# HELP served_total Requests
# TYPE served_total counter
served_total{code="200",path="a b"} 7.5
served_total{code="500",path="a b"} 0.0
served_total{code="404",path="a b"} 1.0
# HELP apfproxy_upstream_up Whether it is up
# TYPE apfproxy_upstream_up gauge
apfproxy_upstream_up 0.0
# HELP apfproxy_loop_delay_seconds How late
# TYPE apfproxy_loop_delay_seconds gauge
apfproxy_loop_delay_seconds 0.5
# HELP apfproxy_build_info What runs
# TYPE apfproxy_build_info gauge
apfproxy_build_info{version="1"} 1.0
# HELP further Of a newer version
# TYPE further gauge
further 1.0
"""
    )


def test_one_page_stays_as_it_is() -> None:
    """A page alone is not changed, and none at all is an empty page."""
    assert merged(FIRST) == FIRST
    assert merged() == b""


def test_labelled() -> None:
    """Each sample may say instead of which worker it is, families still being one each."""
    pages = {"0": page_of(FIRST), "1": page_of(SECOND)}
    text = b"".join(labelled_slices(pages)).decode()
    lines = text.splitlines()

    assert 'served_total{worker="0",code="200",path="a b"} 3.0' in lines
    assert 'served_total{worker="1",code="200",path="a b"} 4.5' in lines
    assert 'apfproxy_upstream_up{worker="1"} 0.0' in lines
    assert lines.count("# TYPE served_total counter") == 1


def scrape(scene: Scene) -> bytes:
    """A page as a worker has it."""
    return b"".join(scene.metrics.slices())


def test_real_pages() -> None:
    """They are valid when merged, in either way, and add up."""
    scenes = [Scene(LEVELS), Scene(LEVELS)]
    for scene in scenes:
        scene.ticket("ann")
    pages = [page_of(scrape(scene)) for scene in scenes]
    one = b"".join(merged_slices(pages)).decode()
    labelled = b"".join(labelled_slices({"0": pages[0], "1": pages[1]})).decode()
    families = {each.name: each for each in parse_text(one)}
    list(parse_text(labelled))
    dispatched = families["apiserver_flowcontrol_dispatched_requests"].samples

    assert sum(sample.value for sample in dispatched) == 2


def test_text() -> None:
    """Buckets of histograms stay together and add up."""
    scenes = [Scene(LEVELS), Scene(LEVELS)]
    scenes[1].ticket("ann")
    text = merged(*(scrape(scene) for scene in scenes)).decode()
    once = scrape(scenes[1]).decode()
    names = [family.name for family in parse_text(text)]

    def buckets(page: str) -> list[tuple[dict[str, str], float]]:
        name = "apiserver_flowcontrol_request_wait_duration_seconds"
        family = next(each for each in parse_text(page) if each.name == name)
        return [(each.labels, each.value) for each in family.samples]

    assert len(names) == len(set(names))
    assert buckets(once) == buckets(text)


def test_counts_of() -> None:
    """What only goes up is told from what is as it is now."""
    assert list(counts_of(page_of(FIRST))) == ["served_total"]


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(b"<html>", id="something-else"),
        pytest.param(b"# HELP a b\na 1\n", id="no-type"),
    ],
)
def test_no_page(page: bytes) -> None:
    """What is no page of metrics is refused as a whole."""
    with pytest.raises(ValueError, match="metric"):
        page_of(page)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param(3.0, b"3.0", id="whole"),
        pytest.param(float("inf"), b"+Inf", id="infinite"),
        pytest.param(float("-inf"), b"-Inf", id="negative"),
        pytest.param(float("nan"), b"NaN", id="no-number"),
    ],
)
def test_number_text(value: float, text: bytes) -> None:
    """Numbers are written as both formats have them."""
    assert text == number_text(value)


def test_large_families_give_others_a_turn() -> None:
    """No slice takes long, however many series a family has."""
    lines = b"".join(b'many_total{a="%d"} 1.0\n' % number for number in range(1600))
    page = page_of(b"# HELP many_total Many\n# TYPE many_total counter\n" + lines)
    slices = list(merged_slices([page, page]))

    assert max(each.count(b"\n") for each in slices) <= 502
    assert sum(not each for each in slices) >= 4
