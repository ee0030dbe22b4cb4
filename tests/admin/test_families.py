"""Metric families from plain integers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.registry import Collector

from apfproxy.admin.families import (
    MOST_SAMPLES,
    NO_LABELS,
    HistogramFamily,
    bound_texts,
    counter,
    counter_parts,
    gauge,
    gauge_parts,
    info,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


def text_of(metric: object) -> str:
    """The family as Prometheus' text."""

    class Single(Collector):
        def collect(self) -> list[object]:  # type: ignore[override]  # any family will do
            return [metric]

    registry = CollectorRegistry()
    registry.register(Single())
    return generate_latest(registry).decode()


def test_gauge() -> None:
    """A gauge has a sample for each of its labels."""
    expected = '# HELP g Some gauge\n# TYPE g gauge\ng{a="1"} 2.0\ng{a="2"} 0.5\n'

    assert expected == text_of(gauge("g", "Some gauge", [({"a": "1"}, 2), ({"a": "2"}, 0.5)]))


def test_counter() -> None:
    """A counter keeps its suffix."""
    expected = "# HELP c_total Some counter\n# TYPE c_total counter\nc_total 3.0\n"

    assert expected == text_of(counter("c_total", "Some counter", [(NO_LABELS, 3)]))


def test_info() -> None:
    """An info is a gauge of 1 whose labels are the message."""
    expected = '# HELP b_info Some info\n# TYPE b_info gauge\nb_info{version="1"} 1.0\n'

    assert expected == text_of(info("b_info", "Some info", {"version": "1"}))


def test_histogram() -> None:
    """Buckets become cumulative, and the last is the count."""
    family = HistogramFamily("h", "Some histogram", ("1", "2"))
    family.add({"a": "x"}, [3, 0, 4], 12.5)
    expected = (
        "# HELP h Some histogram\n# TYPE h histogram\n"
        'h_bucket{a="x",le="1"} 3.0\nh_bucket{a="x",le="2"} 3.0\nh_bucket{a="x",le="+Inf"} 7.0\n'
        'h_count{a="x"} 7.0\nh_sum{a="x"} 12.5\n'
    )

    assert expected == text_of(family.metric)


def test_bound_texts() -> None:
    """Whole bounds are written as Kubernetes does, without the decimal that OpenMetrics wants."""
    bounds = (0, 0.005, 1, 1.5, 10000)

    assert bound_texts(bounds) == ("0", "0.005", "1", "1.5", "10000")


def test_parts() -> None:
    """A large family comes in parts of one name, each read when it is made."""
    read = []

    def values() -> Iterator[tuple[dict[str, str], float]]:
        for number in range(2 * MOST_SAMPLES + 1):
            read.append(number)
            yield {"a": str(number)}, number

    parts = counter_parts("c_total", "x", values())
    first = next(parts)
    read_first = len(read)
    others = list(parts)
    samples = [sample for part in (first, *others) for sample in part.samples]

    assert MOST_SAMPLES == read_first
    assert [MOST_SAMPLES, 1] == [len(part.samples) for part in others]
    assert {"c"} == {part.name for part in (first, *others)}
    assert list(range(2 * MOST_SAMPLES + 1)) == [sample.value for sample in samples]


def test_parts_of_nothing() -> None:
    """A family without samples is there all the same."""
    (part,) = gauge_parts("g", "x", ())

    assert "# HELP g x\n# TYPE g gauge\n" == text_of(part)
