"""Spans of a running proxy, as a collector of OTLP over HTTP gets them."""

from __future__ import annotations

import contextlib
import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from apfproxy.admin.tracing import PATH
from apfproxy.settings import AudienceSettings, TracingSettings
from tests.end_to_end.scene import GET, NARROW, Setup, on_uvloop, over_both_protocols, running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


EVERYBODY = AudienceSettings(users=("*",))
ALWAYS = 1_000_000
TRACE_ID, PARENT_ID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
POD = (
    b"GET /api/v1/namespaces/a/pods/b?token=s3cret HTTP/1.1\r\nHost: api.test:8443\r\n"
    b"Authorization: Bearer s3cret\r\nTraceparent: 00-%b-%b-01\r\ntracestate: k=v\r\n\r\n"
) % (TRACE_ID.encode(), PARENT_ID.encode())


@dataclass
class Collector:
    """Holds what a collector has got."""

    url: str = ""
    status: int = 200
    paths: list[str] = field(default_factory=list)
    resources: list[dict[str, Any]] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)

    async def take(self, request: web.Request) -> web.Response:
        self.paths.append(request.path)
        sent = ExportTraceServiceRequest.FromString(await request.read())
        for each in sent.resource_spans:
            self.resources.append(values_of(each.resource.attributes))
            self.spans += [span for scope in each.scope_spans for span in scope.spans]
        return web.Response(status=self.status)

    def named(self, name: str) -> Span:
        (found,) = (span for span in self.spans if span.name == name)
        return found


def values_of(attributes: Any) -> dict[str, Any]:  # noqa: ANN401 - of protobuf
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}


@contextlib.asynccontextmanager
async def collecting() -> AsyncIterator[Collector]:
    collector = Collector()
    app = web.Application()
    app.router.add_post("/{path:.*}", collector.take)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    collector.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield collector
    finally:
        await runner.cleanup()


def traced(setup: Setup, url: str, **settings: Any) -> Setup:  # noqa: ANN401 - of tracing
    given = {"sampling_rate_per_million": ALWAYS, **settings}
    return dataclasses.replace(setup, tracing=TracingSettings(endpoint=url, **given))


@over_both_protocols
@on_uvloop
async def test_trace_that_goes_on() -> None:
    """From the client's span to the server's, with all that a span has of its own."""
    async with (
        collecting() as collector,
        running(
            traced(
                Setup(objects=NARROW),
                collector.url,
                sampling_rate_per_million=0,
                parents_from=EVERYBODY,
                service_name="gate",
            )
        ) as scene,
    ):
        request, _ = await scene.exchange(POD)
        port = scene.upstream.port
        await scene.exchange(GET)  # which no one traces
    own = collector.named("GET /api/v1/namespaces/{:namespace}/pods/{:name}")
    upstream = collector.named("upstream")

    assert {PATH} == set(collector.paths)
    assert "gate" == collector.resources[0]["service.name"]
    assert {TRACE_ID} == {span.trace_id.hex() for span in collector.spans}
    assert (PARENT_ID, own.span_id) == (own.parent_span_id.hex(), upstream.parent_span_id)
    assert (Span.SPAN_KIND_SERVER, Span.SPAN_KIND_CLIENT) == (own.kind, upstream.kind)
    assert own.start_time_unix_nano <= upstream.start_time_unix_nano
    assert upstream.end_time_unix_nano <= own.end_time_unix_nano
    assert ["k=v"] * 2 == [span.trace_state for span in (own, upstream)]
    assert ["request sent", "answer begun"] == [event.name for event in upstream.events]
    assert [f"00-{TRACE_ID}-{upstream.span_id.hex()}-01".encode()] == request.values(b"traceparent")
    assert [b"k=v"] == request.values(b"tracestate")
    attributes = values_of(own.attributes)
    assert {
        "http.response.status_code": 200,
        "server.address": "api.test",
        "apf.flow_schema": "everybody",
        "apf.priority_level": "narrow",
    }.items() <= attributes.items()
    assert port == values_of(upstream.attributes)["server.port"]
    assert "s3cret" not in repr(collector)
