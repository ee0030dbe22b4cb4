"""The metrics page: all families of a process, in the text format of Prometheus.

It is so whatever a scraper accepts, as kube-apiserver's page is: OpenMetrics would write the bounds
of buckets otherwise (`le="1.0"`), and a query for the bounds of one would not find the other.

The parts of the process count with plain integers; only a scrape turns them into metrics.  A page
may have millions of samples: it is made in slices, and never held as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from apfproxy.admin.endpoint_metrics import EndpointMetrics
from apfproxy.admin.flowcontrol_metrics import FlowControlMetrics
from apfproxy.admin.proxy_metrics import ProxyMetrics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from apfproxy.admin.config_status import ConfigStatus
    from apfproxy.admin.endpoint_state import EndpointView
    from apfproxy.admin.proxy_metrics import PoolState
    from apfproxy.base.clock import Clock
    from apfproxy.flowcontrol.controller import Controller
    from apfproxy.flowcontrol.meters import KindMeter
    from apfproxy.proxy.counters import ProxyCounters

    Families = Callable[[], Iterable[Metric]]

ENCODE, CONTENT_TYPE = choose_encoder("")
"""The library's, for who accepts nothing else."""


class Collected(Collector):
    """Families of several sources as one collector."""

    def __init__(self, *sources: Families) -> None:
        self._sources = sources

    def collect(self) -> Iterator[Metric]:
        """All families, as of now."""
        for families in self._sources:
            yield from families()


class ScrapedPage:
    """Answers scrapes with all that a collector has, and with what is known of the process."""

    content_type: ClassVar[str] = CONTENT_TYPE

    def __init__(self, collector: Collector) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(collector)
        ProcessCollector(registry=self._registry)

    def slices(self) -> Iterator[bytes]:
        """Answer one scrape: the page in slices.

        Each slice takes about 2 ms to make; between them the event loop does other things.
        """
        name = ""
        for metric in self._registry.collect():
            text = encoded(metric)
            if metric.name == name:  # a further part of the family before
                empty = Metric(metric.name, metric.documentation, metric.type)
                text = text.removeprefix(encoded(empty))
            name = metric.name
            yield text


def encoded(metric: Metric) -> bytes:
    """A family by itself."""
    text: bytes = ENCODE(Collected(lambda: (metric,)))
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterParts:
    """What the page has of a cluster.

    Attributes:
        endpoints: Gives its servers.
        others: Make further families; all clusters have the same ones.
    """

    clock: Clock
    controller: Controller
    kind_meter: KindMeter
    counters: ProxyCounters
    pool: PoolState
    config_status: ConfigStatus
    endpoints: Callable[[], Sequence[EndpointView]] = tuple
    others: Sequence[Families] = ()

    def collect(self, is_full: Callable[[], bool], *, is_only: bool) -> Iterator[Metric]:
        """All families, as of now."""
        yield from FlowControlMetrics(
            self.clock,
            self.controller,
            self.kind_meter,
            is_full=is_full,
        ).collect()
        yield from ProxyMetrics(
            self.counters,
            self.pool,
            self.config_status,
            self.controller,
            is_only=is_only,
        ).collect()
        yield from EndpointMetrics(self.endpoints, is_full).collect()
        for families in self.others:
            yield from families()


class MetricsPage(ScrapedPage):
    """The proxy's page.

    Args:
        clusters: Asked at each scrape: the clusters by name; one named "" has no label.
        others: Make the families that are not of a cluster.
        is_full: Asked at each scrape for whether to have series of what was never used.
    """

    def __init__(
        self,
        clusters: Callable[[], Mapping[str, ClusterParts]],
        others: Sequence[Families] = (),
        *,
        is_full: Callable[[], bool],
    ) -> None:
        def of_clusters() -> Iterator[Metric]:
            return by_cluster({
                name: parts.collect(is_full, is_only=not name)
                for name, parts in clusters().items()
            })  # fmt: skip

        super().__init__(Collected(of_clusters, *others))


def by_cluster(clusters: Mapping[str, Iterator[Metric]]) -> Iterator[Metric]:
    """The families of several clusters, each with the samples of all, a part after the other.

    Every cluster has the same families in the same order.
    """
    heads = {name: head for name, parts in clusters.items() if (head := next(parts, None))}
    while heads:
        family = next(iter(heads.values())).name
        for name, parts in clusters.items():
            part = heads.pop(name, None)
            while part is not None and part.name == family:
                yield labelled(part, name) if name else part
                part = next(parts, None)
            if part is not None:
                heads[name] = part


def labelled(part: Metric, cluster: str) -> Metric:
    """A part of a family with the cluster as one more label of each sample."""
    label = {"cluster": cluster}
    part.samples = [each._replace(labels=label | each.labels) for each in part.samples]
    return part
