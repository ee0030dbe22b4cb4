"""The metrics page: all families of a process, in the format that the scraper wants.

The parts of the process count with plain integers; only a scrape turns them into metrics.  A page
may have millions of samples: it is made in slices, and never held as a whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from apfproxy.observe.endpoint_metrics import EndpointMetrics
from apfproxy.observe.flowcontrol_metrics import FlowControlMetrics
from apfproxy.observe.proxy_metrics import ProxyMetrics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from apfproxy.clock import Clock
    from apfproxy.flowcontrol.controller import Controller
    from apfproxy.flowcontrol.kind_meter import KindMeter
    from apfproxy.observe.config_status import ConfigStatus
    from apfproxy.observe.endpoint_state import EndpointView
    from apfproxy.observe.proxy_metrics import PoolState
    from apfproxy.proxy.counters import ProxyCounters

    Families = Callable[[], Iterable[Metric]]
    Encoder = Callable[[Collector], bytes]

OPENMETRICS = "application/openmetrics-text"
END = b"# EOF\n"
"""The last line of a page in OpenMetrics."""


class Collected(Collector):
    """Families of several sources as one collector."""

    def __init__(self, *sources: Families) -> None:
        self._sources = sources

    def collect(self) -> Iterator[Metric]:
        """All families, as of now."""
        for families in self._sources:
            yield from families()


class ScrapedPage:
    """Answers scrapes; `collector_for` makes what collects all, for canonical bounds or not.

    The two formats have a registry each: Prometheus' own text has bucket bounds as kube-apiserver
    writes them (`le="1"`), OpenMetrics demands them to be canonical (`le="1.0"`).
    """

    def __init__(self, collector_for: Callable[[bool], Collector]) -> None:
        self._registries = {}
        for is_canonical in (False, True):
            registry = CollectorRegistry()
            registry.register(collector_for(is_canonical))
            ProcessCollector(registry=registry)
            self._registries[is_canonical] = registry

    def slices(self, accept: str) -> tuple[str, Iterator[bytes]]:
        """Answer one scrape, by its Accept header: the content type, and the page in slices.

        Each slice takes about 2 ms to make; between them the event loop does other things.
        """
        encoder, content_type = choose_encoder(accept)
        return content_type, self._slices(
            encoder, is_openmetrics=content_type.startswith(OPENMETRICS)
        )

    def _slices(self, encoder: Encoder, *, is_openmetrics: bool) -> Iterator[bytes]:
        name = ""
        for metric in self._registries[is_openmetrics].collect():
            text = encoded(encoder, metric)
            if metric.name == name:  # a further part of the family before
                empty = Metric(metric.name, metric.documentation, metric.type)
                text = text.removeprefix(encoded(encoder, empty))
            name = metric.name
            yield text
        if is_openmetrics:
            yield END


def encoded(encoder: Encoder, metric: Metric) -> bytes:
    """A family by itself, without the end of a page."""
    return encoder(Collected(lambda: (metric,))).removesuffix(END)


class MetricsPage(ScrapedPage):
    """The proxy's page.

    `others` make further families, the same in both formats; `is_full` is asked at each scrape for
    whether to have series of what was never used, and `endpoints` for the servers behind.
    """

    def __init__(  # noqa: PLR0913  what the page shows
        self,
        clock: Clock,
        controller: Controller,
        kind_meter: KindMeter,
        counters: ProxyCounters,
        pool: PoolState,
        config_status: ConfigStatus,
        others: Sequence[Families] = (),
        *,
        is_full: Callable[[], bool],
        endpoints: Callable[[], Sequence[EndpointView]] = tuple,
    ) -> None:
        def collector_for(is_canonical: bool) -> Collector:
            flow_control = FlowControlMetrics(
                clock, controller, kind_meter, is_canonical=is_canonical, is_full=is_full
            )
            proxy = ProxyMetrics(
                counters, pool, config_status, controller, is_canonical=is_canonical
            )
            each_server = EndpointMetrics(endpoints, is_full, is_canonical=is_canonical)
            return Collected(flow_control.collect, proxy.collect, each_server.collect, *others)

        super().__init__(collector_for)
