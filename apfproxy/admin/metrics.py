"""Metric families as a table, and the page that is made of it.

A row is a family: its name, where its numbers are, and its help text; rows are grouped by what
their series are of.  The page is in the text format of Prometheus whatever a scraper accepts, as
kube-apiserver's is: OpenMetrics would write the bounds of buckets otherwise (`le="1.0"`), and a
query for the bounds of one would not find the other.  It may have millions of samples, so it is
made in slices.
"""

from __future__ import annotations

import platform
from itertools import accumulate, islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample
from prometheus_client.utils import floatToGoString

import apfproxy
from apfproxy.base import build

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from apfproxy.admin.state import Times

    Labels = dict[str, str]
    Labelled = Iterable[tuple[Labels, Any]]
    Owners = Callable[[Any], Labelled]
    Numbers = Callable[[Any], Labelled]
    Where = str | Numbers
    """The path of an attribute, or what makes numbers, or histograms, with their labels."""

PREFIX: Final = "apfproxy_"
MOST_SAMPLES: Final = 500
"""Of one slice: making and encoding them takes 2 ms."""
NONE: Final[Labels] = {}

ENCODE, CONTENT_TYPE = choose_encoder("")
"""The library's, for who accepts nothing else."""


class Family(NamedTuple):
    """A family of metrics.

    Attributes:
        numbers: Of each of what its series are of, with the labels of its own.
        bounds: Of the buckets of a histogram, in the metric's unit.
        unit: How many of the state's units are one of the metric's.
        owners: What its series are of, with their labels.
        is_always: Whether its help is on a page that has nothing that its series could be of.
    """

    name: str
    help: str
    kind: str
    numbers: Numbers
    bounds: tuple[str, ...] = ()
    unit: float = 1
    owners: Owners = lambda state: [(NONE, state)]
    is_always: bool = True

    def samples(self, states: Mapping[str, Any]) -> Iterator[Sample]:
        """All series of states by the names of workers, "" for one without a name."""
        for worker, state in states.items():
            of_worker = {"worker": worker} if worker else NONE
            for labels, owner in self.owners(state):
                for own, value in self.numbers(owner):
                    every = {**of_worker, **labels, **own}
                    if self.kind == "histogram":
                        yield from self._buckets(every, value)
                    else:
                        yield Sample(self.name, every, value)

    def has_owners(self, state: Any) -> bool:  # noqa: ANN401 - of any table
        """Whether there is anything that its series could be of."""
        return any(True for _ in self.owners(state))

    def _buckets(self, labels: Labels, times: Times) -> Iterator[Sample]:
        totals = list(accumulate(times.counts or [0] * len(self.bounds)))
        for bound, total in zip(self.bounds, totals, strict=True):
            yield Sample(f"{self.name}_bucket", {**labels, "le": bound}, total)
        yield Sample(f"{self.name}_count", labels, totals[-1])
        yield Sample(f"{self.name}_sum", labels, times.sum / self.unit)

    def slices(self, states: Mapping[str, Any]) -> Iterator[bytes]:
        """Its text, bit by bit."""
        suffix = {"counter": "_total", "info": "_info"}.get(self.kind, "")
        name = self.name.removesuffix(suffix)
        head = encoded(Metric(name, self.help, self.kind))
        samples = self.samples(states)
        some = list(islice(samples, MOST_SAMPLES))
        if some or self.is_always or any(map(self.has_owners, states.values())):
            yield head
        while some:
            metric = Metric(name, self.help, self.kind)
            metric.samples = some
            yield encoded(metric).removeprefix(head)
            some = list(islice(samples, MOST_SAMPLES))


class _Collected(Collector):
    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterator[Metric]:
        yield self._metric


def encoded(metric: Metric) -> bytes:
    """A family, or a part of it, by itself."""
    text: bytes = ENCODE(_Collected(metric))
    return text


def page(table: Sequence[Family], states: Mapping[str, Any]) -> Iterator[bytes]:
    """The page of states by the names of workers, "" for one whose series have no such label.

    Each slice takes about 2 ms to make; between them the event loop does other things.
    """
    for family in table:
        yield from family.slices(states)


class ScrapedPage:
    """A page for scrapers.

    Args:
        table: Its families.
        states: Makes what they show, by the names of workers; at the end it is whole.
    """

    content_type: ClassVar[str] = CONTENT_TYPE

    def __init__(
        self, table: Sequence[Family], states: Callable[[], Iterable[Mapping[str, Any]]]
    ) -> None:
        self._table = table
        self._states = states

    def slices(self) -> Iterator[bytes]:
        """Respond to one scrape; an empty slice is a chance for others to run."""
        found: Mapping[str, Any] = {}
        for found in self._states():  # noqa: B007 - the last one is whole
            yield b""
        yield from page(self._table, found)


# Rows.


def of(owners: Owners, prefix: str, *families: Family, is_always: bool = True) -> list[Family]:
    """Families of the same owners, with a prefix of their names."""
    return [
        each._replace(name=prefix + each.name, owners=owners, is_always=is_always)
        for each in families
    ]


def gauge(name: str, where: Where, text: str) -> Family:
    """A family of numbers that are of now."""
    return Family(name, text, "gauge", _numbers(where))


def counter(name: str, where: Where, text: str) -> Family:
    """A family of numbers that only go up; its name ends in `_total`."""
    return Family(name, text, "counter", _numbers(where))


def info(name: str, where: Numbers, text: str) -> Family:
    """A family of ones whose labels say something; its name ends in `_info`."""
    return Family(name, text, "info", where)


def histogram(name: str, where: Numbers, bounds: Iterable[float], unit: float, text: str) -> Family:
    """A family of `Times`, with the bounds of their buckets but the last, which has none."""
    # The library does not annotate this function; `1` is how Kubernetes writes `1.0`.
    texts = [str(floatToGoString(each)).removesuffix(".0") for each in bounds]  # type: ignore[no-untyped-call]
    return Family(name, text, "histogram", where, (*texts, "+Inf"), unit)


def _numbers(where: Where) -> Numbers:
    return one(attrgetter(where)) if isinstance(where, str) else where


def one(read: Callable[[Any], float | None]) -> Numbers:
    """A number without labels of its own; none where it is not known."""
    return lambda owner: [] if (number := read(owner)) is None else [(NONE, number)]


def by(label: str, where: str | Callable[[Any], Mapping[Any, float]]) -> Numbers:
    """A number for each key of a dictionary; the key is the value of a label."""
    read = attrgetter(where) if isinstance(where, str) else where
    return lambda owner: [({label: str(key)}, number) for key, number in read(owner).items()]


def by_name(label: str, *names: str) -> Numbers:
    """Some attributes; the name of each is the value of a label."""
    return lambda owner: [({label: name}, getattr(owner, name)) for name in names]


def parts(names: Mapping[str, Labels], *, only_used: bool = False) -> Numbers:
    """Histograms by their paths, with the labels of each; maybe without empty ones."""
    reads = [(attrgetter(name), labels) for name, labels in names.items()]
    return lambda owner: [
        (labels, times) for read, labels in reads if (times := read(owner)).counts or not only_used
    ]


def used(name: str) -> Numbers:
    """A histogram without labels of its own, unless it is empty."""
    return parts({name: NONE}, only_used=True)


BUILD: Final = {
    "version": apfproxy.__version__,
    "build": build.kind(),
    "python_version": platform.python_version(),
}

# A family in two lines: its name and where its numbers are, and its help text.
# fmt: off
PROCESS: Final = (
    info("apfproxy_build_info", lambda _: [(BUILD, 1)],
        "What runs"),
    gauge("process_virtual_memory_bytes", "used.virtual_bytes",
        "Virtual memory size in bytes."),
    gauge("process_resident_memory_bytes", "used.resident_bytes",
        "Resident memory size in bytes."),
    gauge("process_start_time_seconds", "used.started_s",
        "Start time of the process since unix epoch in seconds."),
    gauge("process_open_fds", "used.open_files",
        "Number of open file descriptors."),
    gauge("process_max_fds", "used.max_files",
        "Maximum number of open file descriptors."),
    counter("process_cpu_seconds_total", "used.cpu_s",
        "Total user and system CPU time spent in seconds."),
)
# fmt: on
