"""The metrics page: all families of a process, in the format that the scraper wants.

The parts of the process count with plain integers; nothing but a scrape turns them into metrics.
A page may have millions of samples: it is made in slices, and nobody holds all of it at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from apfproxy.observe.flowcontrol_metrics import FlowControlMetrics
from apfproxy.observe.proxy_metrics import ProxyMetrics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from apfproxy.clock import Clock
    from apfproxy.flowcontrol.controller import Controller
    from apfproxy.flowcontrol.kind_meter import KindMeter
    from apfproxy.observe.config_status import ConfigStatus
    from apfproxy.observe.proxy_metrics import PoolState
    from apfproxy.proxy.counters import ProxyCounters

    Families = Callable[[], Iterable[Metric]]
    Encoder = Callable[[Collector], bytes]

OPENMETRICS = "application/openmetrics-text"
END = b"# EOF\n"
"""The last line of a page in OpenMetrics."""


class MetricsCollector(Collector):
    """All of the process's own families, for a `CollectorRegistry`."""

    def __init__(
        self,
        flow_control: FlowControlMetrics,
        proxy: ProxyMetrics,
        others: Sequence[Families],
    ) -> None:
        self._flow_control = flow_control
        self._proxy = proxy
        self._others = others

    def collect(self) -> Iterator[Metric]:
        """All families, as of now."""
        yield from self._flow_control.collect()
        yield from self._proxy.collect()
        for families in self._others:
            yield from families()


class OneFamily(Collector):
    """A family by itself, in the form that an encoder takes."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> tuple[Metric]:
        """The family."""
        return (self._metric,)


class ScrapedPage:
    """Answers scrapes.

    The two formats have a registry each: Prometheus' own text has bucket bounds as kube-apiserver
    writes them (`le="1"`), OpenMetrics demands them to be canonical (`le="1.0"`).

    Args:
        collector_for: Makes what collects all families, for canonical bucket bounds or not.
    """

    def __init__(self, collector_for: Callable[[bool], Collector]) -> None:
        self._registries = {}
        for is_canonical in (False, True):
            registry = CollectorRegistry()
            registry.register(collector_for(is_canonical))
            ProcessCollector(registry=registry)
            self._registries[is_canonical] = registry

    def slices(self, accept: str) -> tuple[str, Iterator[bytes]]:
        """Answer one scrape.

        Args:
            accept: The scraper's Accept header; empty if it has none.

        Returns:
            The content type, and the page in slices, each of which takes about 2 ms to make.
            What is between them in time is for the event loop to do other things.
        """
        encoder, content_type = choose_encoder(accept)
        return content_type, self._slices(
            encoder, is_openmetrics=content_type.startswith(OPENMETRICS)
        )

    def _slices(self, encoder: Encoder, *, is_openmetrics: bool) -> Iterator[bytes]:
        name = ""
        for metric in self._registries[is_openmetrics].collect():
            text = encoder(OneFamily(metric)).removesuffix(END)
            if metric.name == name:  # a further part of the family before
                empty = Metric(metric.name, metric.documentation, metric.type)
                text = text.removeprefix(encoder(OneFamily(empty)).removesuffix(END))
            name = metric.name
            yield text
        if is_openmetrics:
            yield END


class MetricsPage(ScrapedPage):
    """The proxy's page.

    Args:
        clock: The one that `controller` and `kind_meter` go by.
        controller, kind_meter, counters, pool, config_status: What is read at each scrape.
        others: Make further families, the same in both formats, at each scrape.
    """

    def __init__(
        self,
        clock: Clock,
        controller: Controller,
        kind_meter: KindMeter,
        counters: ProxyCounters,
        pool: PoolState,
        config_status: ConfigStatus,
        others: Sequence[Families] = (),
    ) -> None:
        def collector_for(is_canonical: bool) -> MetricsCollector:
            return MetricsCollector(
                FlowControlMetrics(clock, controller, kind_meter, is_canonical=is_canonical),
                ProxyMetrics(counters, pool, config_status, controller, is_canonical=is_canonical),
                others,
            )

        super().__init__(collector_for)
