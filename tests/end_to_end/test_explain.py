"""What a running proxy explains of requests, and what it does with them."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import aiohttp
import msgspec
from msgspec import structs

from apfproxy.admin.explain_page import PATH
from apfproxy.app.process import ProxyProcess
from apfproxy.flowcontrol.classifier import Classifier
from apfproxy.flowcontrol.controller import Checked
from apfproxy.flowcontrol.explanation import Explanation
from apfproxy.objects.types import FlowSchema
from apfproxy.request.attributes import METHOD_OF_VERB, parse_attributes
from loadtest.objects import priority_level
from tests.conformance import vectors
from tests.end_to_end.peer import Peer
from tests.end_to_end.scene import NARROW, OK, objects_of, on_uvloop
from tests.end_to_end.upstream import Upstream
from tests.support.clocks import until
from tests.support.objects import without_nulls
from tests.support.processes import settings_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apfproxy.flowcontrol.queue_set import QueueSet

FIELDS = ("is_resource_request", "verb", "api_group", "namespace", "resource", "subresource")
LEAST_EXPRESSIBLE = 600
"""Of the reference's 720 requests: some have attributes that no target leads to."""


def request_line(request: dict[str, Any]) -> tuple[str, str] | None:
    """A method and target that lead to the attributes of the reference, if any do."""
    verb = request["verb"]
    if request["is_resource_request"]:
        group, namespace, subresource = (
            request["api_group"],
            request["namespace"],
            request["subresource"],
        )
        target = f"/apis/{group}/v1" if group else "/api/v1"
        target += f"/namespaces/{namespace}" if namespace else ""
        target += f"/{request['resource']}"
        if subresource or verb in {"get", "update", "patch", "delete"}:
            target += "/n"
        target += f"/{subresource}" if subresource else ""
        target += "?watch=1" if verb == "watch" else ""
        method = METHOD_OF_VERB.get(verb, "")
    else:
        target, method = request["path"], verb.upper()
    attributes = parse_attributes(method, target.encode())
    found = {field: getattr(attributes, field) for field in FIELDS}
    is_same = found == {field: request[field] for field in FIELDS}
    return (method, target) if is_same else None


def configure(process: ProxyProcess, flow_schemas: Sequence[FlowSchema]) -> None:
    """Put FlowSchemas in force, those too that validation would skip, with their levels."""
    names = {schema.spec.priority_level_configuration.name for schema in flow_schemas}
    levels = [priority_level(name) for name in names - {"exempt", "catch-all"}]
    controller = process.cluster.controller
    digest = controller.digest(levels)
    checked = {("FlowSchema", schema.metadata.name): Checked(schema) for schema in flow_schemas}
    controller.commit(
        dataclasses.replace(
            digest,
            checked={**digest.checked, **checked},
            flow_schemas={schema.metadata.name: schema for schema in flow_schemas},
            classifier=Classifier(flow_schemas),
        )
    )


async def explained(
    session: aiohttp.ClientSession,
    process: ProxyProcess,
    line: tuple[str, str],
    user: str,
    groups: Sequence[str],
) -> Explanation:
    """What the proxy explains."""
    named = [("method", line[0]), ("target", line[1]), ("user", user)]
    query = urlencode([*named, *(("group", group) for group in groups)], quote_via=quote)
    async with session.get(f"http://127.0.0.1:{process.admin_port}{PATH}?{query}") as response:
        return msgspec.convert(await response.json(), Explanation)


@on_uvloop
async def test_agrees_with_the_reference() -> None:
    """A running proxy explains each request by the FlowSchema that Kubernetes gives it."""
    process = ProxyProcess(settings_for(1))
    await process.start()
    asked = 0
    try:
        async with aiohttp.ClientSession() as session:
            for case in vectors.load("classification"):
                configure(
                    process, msgspec.convert(without_nulls(case["flow_schemas"]), list[FlowSchema])
                )
                for request in case["requests"]:
                    line = request_line(request)
                    # Everybody who is known is in one more group, as in Kubernetes.
                    if line is None or "system:authenticated" not in request["groups"]:
                        continue
                    asked += 1
                    found = await explained(
                        session, process, line, request["user"], request["groups"]
                    )

                    assert request["flow_schema"] == found.flow_schema
                    assert request["flow_schema"] == next(
                        part.name for part in found.flow_schemas if part.matches
                    )
    finally:
        await process.stop()
    assert asked > LEAST_EXPRESSIBLE


def has_more_waiting(queue_set: QueueSet, before: int) -> bool:
    """Whether more requests wait than before."""
    return queue_set.requests_waiting > before


@on_uvloop
async def test_explains_what_it_does() -> None:
    """Each request goes the way that was explained just before it came."""
    upstream = Upstream()
    upstream.start()
    settings = settings_for(upstream.port)
    process = ProxyProcess(
        structs.replace(
            settings,
            flow_control=structs.replace(
                settings.flow_control, server_concurrency_limit=1, hash_seed=1
            ),
        )
    )
    await process.start()
    controller = process.cluster.controller
    controller.commit(controller.digest(objects_of(NARROW)))
    queue_set = controller.levels["narrow"].queue_set
    line = ("GET", "/healthz")
    request = b"GET /healthz HTTP/1.1\r\nHost: a.test\r\n\r\n"
    clients: list[Peer] = []
    said = []
    seen = []
    try:
        async with aiohttp.ClientSession() as session:
            for _ in range(4):
                found = await explained(session, process, line, "system:anonymous", ())
                said.append((found.outcome.decision, found.outcome.ahead))
                client = await Peer.connect(process.port)
                clients.append(client)
                before = queue_set.requests_waiting
                await client.send(request)
                if found.outcome.decision == "execute":
                    arrival = await upstream.next_request()
                    seen.append(("execute", 0))
                elif found.outcome.decision == "wait":
                    await until(partial(has_more_waiting, queue_set, before))
                    seen.append(("wait", before))
                else:
                    answer = await client.read_answer()
                    seen.append(("reject" if answer.status == 429 else "other", before))
            await arrival.peer.send(OK)
            await clients[0].read_answer()
            for client in clients[1:3]:
                await (await upstream.next_request()).peer.send(OK)
                await client.read_answer()
    finally:
        for client in clients:
            client.close()
        await process.stop()
        await upstream.stop()

    assert [("execute", 0), ("wait", 0), ("wait", 1), ("reject", 2)] == said == seen
