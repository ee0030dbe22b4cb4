"""Metric families as a table, and the page that is made of it, in slices.

The page is in the text format of Prometheus whatever a scraper accepts, as kube-apiserver's is:
OpenMetrics would write the bounds of buckets otherwise (`le="1.0"`), and a query for the bounds of
one would not find the other.
"""

from __future__ import annotations

import platform
from itertools import accumulate, islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

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
    Owners = Callable[[Any, bool], Labelled]
    Numbers = Callable[[Any], Labelled]


PREFIX: Final = "apfproxy_"
MOST_SAMPLES: Final = 500
"""Samples of one slice: making and encoding them takes 2 ms."""
NONE: Final[Labels] = {}

ENCODE, CONTENT_TYPE = choose_encoder("")
"""The library's, for who accepts nothing else."""


def itself(state: Any, _counts: bool) -> Labelled:  # noqa: ANN401 - of any table
    return [(NONE, state)]


class Family(NamedTuple):
    """A family of metrics; an empty histogram that `skips_empty` has no series.

    Attributes:
        unit: How many of the state's units are one of the metric's.
        owners: What its series are of, with their labels; if it counts, of what ended, too.
        is_always: Whether its help is on a page that has nothing that its series could be of.
    """

    name: str
    help: str
    numbers: Numbers
    bounds: tuple[str, ...]
    unit: float
    owners: Owners
    is_always: bool
    skips_empty: bool

    @property
    def kind(self) -> str:
        if self.bounds:
            return "histogram"
        return {"total": "counter", "info": "info"}.get(self.name.rpartition("_")[2], "gauge")

    def _owners(self, state: Any) -> Labelled:  # noqa: ANN401 - of any table
        return self.owners(state, self.kind in {"counter", "histogram"})

    def samples(self, states: Mapping[str, Any]) -> Iterator[Sample]:
        """All series of states by the names of workers, "" for one without a name."""
        for worker, state in states.items():
            of_worker = {"worker": worker} if worker else NONE
            for labels, owner in self._owners(state):
                for own, value in self.numbers(owner):
                    every = {**of_worker, **labels, **own}
                    if not self.bounds:
                        yield Sample(self.name, every, value)
                    elif value.counts or not self.skips_empty:
                        yield from self._buckets(every, value)

    def _buckets(self, labels: Labels, times: Times) -> Iterator[Sample]:
        totals = list(accumulate(times.counts or [0] * len(self.bounds)))
        for bound, total in zip(self.bounds, totals, strict=True):
            yield Sample(f"{self.name}_bucket", {**labels, "le": bound}, total)
        yield Sample(f"{self.name}_count", labels, totals[-1])
        yield Sample(f"{self.name}_sum", labels, times.sum / self.unit)

    def metric(self, samples: Iterable[Sample] = ()) -> Metric:
        kind = self.kind
        name = self.name.removesuffix({"counter": "_total", "info": "_info"}.get(kind, ""))
        metric = Metric(name, self.help, kind)
        metric.samples = list(samples)
        return metric

    def slices(self, states: Mapping[str, Any]) -> Iterator[bytes]:
        head = encoded(self.metric())
        samples = self.samples(states)
        some = list(islice(samples, MOST_SAMPLES))
        if some or self.is_always or any(list(self._owners(each)) for each in states.values()):
            yield head
        while some:
            yield encoded(self.metric(some)).removeprefix(head)
            some = list(islice(samples, MOST_SAMPLES))


class Collected(Collector):
    def __init__(self, metrics: Callable[[], Iterable[Metric]]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics()


def encoded(metric: Metric) -> bytes:
    text: bytes = ENCODE(Collected(lambda: [metric]))
    return text


def page(table: Sequence[Family], states: Mapping[str, Any]) -> Iterator[bytes]:
    for family in table:
        yield from family.slices(states)


# Rows: a name, where its numbers are, of a histogram the bounds of its buckets but the last, which
# has none, and its unit; the help text.


def of(
    owners: Owners,
    prefix: str,
    *rows: tuple[Any, ...],
    is_always: bool = True,
    skips_empty: bool = False,
) -> list[Family]:
    found = []
    for name, where, *scale, text in rows:
        bounds, unit = scale or ((), 1)
        # `1` is how Kubernetes writes `1.0`.
        texts = [each.removesuffix(".0") for each in map(floatToGoString, bounds)]
        bounds = (*texts, "+Inf") if texts else ()
        numbers = one(attrgetter(where)) if isinstance(where, str) else where
        found.append(
            Family(prefix + name, text, numbers, bounds, unit, owners, is_always, skips_empty)
        )
    return found


def one(read: Callable[[Any], Any]) -> Numbers:
    """A number or a histogram without labels of its own; none where it is not known."""
    return lambda owner: [] if (number := read(owner)) is None else [(NONE, number)]


def by(
    label: str, path: str, change: Callable[[Any], Mapping[Any, float]] = dict[Any, float]
) -> Numbers:
    """A number for each key of a dictionary; the key is the value of a label."""

    def found(owner: Any) -> Labelled:  # noqa: ANN401 - of any table
        numbers = attrgetter(path)(owner) if path else owner
        return [({label: str(key)}, number) for key, number in change(numbers).items()]

    return found


def cases(label: str, **paths: str) -> Numbers:
    reads = [({label: value}, attrgetter(path)) for value, path in paths.items()]
    return lambda owner: [(labels, read(owner)) for labels, read in reads]


def one_of(label: str, path: str, values: Iterable[str]) -> Numbers:
    """A 1 for the value that a label has now, and a 0 for each of the others."""
    read = attrgetter(path)
    return lambda owner: [({label: each}, read(owner) == each) for each in values]


def each(owners: Owners, path: str, *, only: str = "", **labels: str) -> Owners:
    def found(state: Any, counts: bool) -> Labelled:  # noqa: ANN401 - of any table
        for outer, owner in owners(state, counts):
            records = getattr(owner, path)
            for record in records if isinstance(records, list) else [records]:
                if record is not None and (not only or getattr(record, only)):
                    own = {label: getattr(record, name) for label, name in labels.items()}
                    yield {**outer, **own}, record

    return found


BUILD: Final = {
    "version": apfproxy.__version__,
    "build": build.kind(),
    "python_version": platform.python_version(),
}

# fmt: off
PROCESS: Final = of(itself, "",
    ("apfproxy_build_info", lambda _: [(BUILD, 1)], "What runs"),
    ("process_virtual_memory_bytes", "used.virtual_bytes", "Virtual memory size in bytes."),
    ("process_resident_memory_bytes", "used.resident_bytes", "Resident memory size in bytes."),
    ("process_start_time_seconds", "used.started_s",
     "Start time of the process since unix epoch in seconds."),
    ("process_open_fds", "used.open_files", "Number of open file descriptors."),
    ("process_max_fds", "used.max_files", "Maximum number of open file descriptors."),
    ("process_cpu_seconds_total", "used.cpu_s", "Total user and system CPU time spent in seconds."),
)
# fmt: on
