"""Metric families built straight from plain integers.

prometheus_client's `add_metric` copies labels and converts buckets for each sample; these functions
build its `Sample` tuples directly, which makes a scrape a third cheaper.

A large family comes in parts: consecutive metrics of the same name, each with some of its samples.
So a page of any size is made in slices of bounded time.
"""

from __future__ import annotations

import platform
from itertools import accumulate, islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from prometheus_client.core import Metric
from prometheus_client.samples import Sample
from prometheus_client.utils import floatToGoString

import apfproxy
from apfproxy.base import build

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

Labels = dict[str, str]
NO_LABELS: Labels = {}
NS_PER_S = 1_000_000_000

Series = dict[tuple[str, str], str]
"""Names of metrics and the attributes that hold their values, as `operator.attrgetter` takes them,
to the help texts."""

MOST_SAMPLES = 500
"""Of one part of a family: making and encoding them takes 2 ms."""


def gauge(name: str, help_text: str, values: Iterable[tuple[Labels, float]]) -> Metric:
    """A gauge with one sample for each pair of labels and value."""
    metric = Metric(name, help_text, "gauge")
    metric.samples = [Sample(name, labels, value) for labels, value in values]
    return metric


def counter(name: str, help_text: str, values: Iterable[tuple[Labels, float]]) -> Metric:
    """A counter; `name` ends in `_total`."""
    metric = Metric(name.removesuffix("_total"), help_text, "counter")
    metric.samples = [Sample(name, labels, value) for labels, value in values]
    return metric


def info(name: str, help_text: str, labels: Mapping[str, str]) -> Metric:
    """A constant 1 whose labels are the message; `name` ends in `_info`."""
    metric = Metric(name.removesuffix("_info"), help_text, "info")
    metric.samples = [Sample(name, dict(labels), 1)]
    return metric


def readings(prefix: str, series: Series) -> Iterator[tuple[str, str, Callable[[Any], Any]]]:
    """Name, help text and value, of whatever has the attributes, of each metric."""
    for (name, attribute), help_text in series.items():
        yield prefix + name, help_text, attrgetter(attribute)


def plain(prefix: str, gauges: Series, counters: Series, owner: object) -> Iterator[Metric]:
    """Families of one sample without labels, whose value an attribute of the owner is."""
    for family_of, series in ((gauge, gauges), (counter, counters)):
        for name, help_text, value in readings(prefix, series):
            yield family_of(name, help_text, [(NO_LABELS, value(owner))])


def by_label(label: str, values: Mapping[Any, float]) -> list[tuple[Labels, float]]:
    """The values of a family with one label."""
    return [({label: str(key)}, value) for key, value in values.items()]


def build_info() -> Metric:
    """The version of the program and of Python, and whether it is compiled."""
    labels = {
        "version": apfproxy.__version__,
        "build": build.kind(),
        "python_version": platform.python_version(),
    }
    return info("apfproxy_build_info", "What runs", labels)


def in_parts(name: str, help_text: str, type_: str, samples: Iterable[Sample]) -> Iterator[Metric]:
    """A family in parts, of samples read as far as each needs them; without any, one part."""
    left = iter(samples)
    some = list(islice(left, MOST_SAMPLES))
    while True:
        part = Metric(name, help_text, type_)
        part.samples = some
        yield part
        some = list(islice(left, MOST_SAMPLES))
        if not some:
            return


def gauge_parts(
    name: str, help_text: str, values: Iterable[tuple[Labels, float]]
) -> Iterator[Metric]:
    """Like `gauge`, for as many samples as there may be."""
    return in_parts(name, help_text, "gauge", (Sample(name, *value) for value in values))


def counter_parts(
    name: str, help_text: str, values: Iterable[tuple[Labels, float]]
) -> Iterator[Metric]:
    """Like `counter`, for as many samples as there may be."""
    samples = (Sample(name, *value) for value in values)
    return in_parts(name.removesuffix("_total"), help_text, "counter", samples)


class HistogramFamily:
    """A histogram under construction, one series at a time.

    `bounds` are the `le` texts of all buckets but the last, which is `+Inf`.
    """

    __slots__ = ("_bounds", "_bucket", "_count", "_sum", "metric")

    def __init__(self, name: str, help_text: str, bounds: Sequence[str]) -> None:
        self.metric = Metric(name, help_text, "histogram")
        self._bounds = (*bounds, "+Inf")
        self._bucket = name + "_bucket"
        self._count = name + "_count"
        self._sum = name + "_sum"

    def add(self, labels: Labels, counts: Iterable[int], sum_: float) -> None:
        """Add a series; see `series`."""
        self.metric.samples += self.series(labels, counts, sum_)

    def parts(self, series: Iterable[tuple[Labels, Iterable[int], float]]) -> Iterator[Metric]:
        """The family of these series in parts, as `in_parts` makes them."""
        samples = (sample for each in series for sample in self.series(*each))
        return in_parts(self.metric.name, self.metric.documentation, "histogram", samples)

    def series(self, labels: Labels, counts: Iterable[int], sum_: float) -> list[Sample]:
        """The samples of a series, all of one moment.

        Its labels lack `le`; its counts, that of `+Inf` included, are not cumulative.
        """
        totals = list(accumulate(counts))
        samples = [
            Sample(self._bucket, {**labels, "le": bound}, total)
            for bound, total in zip(self._bounds, totals, strict=True)
        ]
        samples += (Sample(self._count, labels, totals[-1]), Sample(self._sum, labels, sum_))
        return samples


def bound_texts(bounds: Iterable[float]) -> tuple[str, ...]:
    """How upper bounds are written: `1`, as Kubernetes does."""
    # The library does not annotate this function.
    texts = (str(floatToGoString(bound)) for bound in bounds)  # type: ignore[no-untyped-call]
    return tuple(text.removesuffix(".0") for text in texts)
