"""FlowSchemas by a parameter of the query, on the wire."""

from __future__ import annotations

import pytest

from apfproxy.settings import HTTP_API, KUBERNETES_API
from tests.end_to_end.scene import OK, REJECTING, Setup, on_uvloop, over_both_protocols, running

BANNED = REJECTING.replace("nominalConcurrencyShares: 1000", "nominalConcurrencyShares: 0")
for kind, annotation in (("narrow", "ban: 'true'"), ("everybody", "match-query: 'CONDITION'")):
    name = f"name: {kind}, uid"
    BANNED = BANNED.replace(name, f"annotations: {{apfproxy.io/{annotation}}}, {name}")
"""A request that meets the condition is rejected with 403."""


@pytest.mark.parametrize(
    ("preset", "condition", "rejected", "served"),
    [
        (
            HTTP_API,
            "format=csv, xlsx*",
            (b"/r?format=csv", b"/r?a&f%6frmat=xlsx2", b"/r?format=a&format=csv"),
            (b"/r?format=json", b"/r"),
        ),
        (
            KUBERNETES_API,
            "limit=!, 0",
            (b"/api/v1/pods", b"/api/v1/pods?limit=0", b"/api/v1/pods?limit=5;x"),
            (b"/api/v1/pods?limit=5",),
        ),
    ],
)
@over_both_protocols
@on_uvloop
async def test_requests_that_differ_in_the_query_only(
    preset: str, condition: str, rejected: tuple[bytes, ...], served: tuple[bytes, ...]
) -> None:
    """Also on a connection that knows its requests, by their fields and as a whole."""
    setup = Setup(objects=BANNED.replace("CONDITION", condition), preset=preset)
    async with running(setup) as scene:
        scene.upstream.answer_with(lambda arrival: arrival.peer.send(OK))
        client = await scene.connect()
        for target in (*rejected, *served) * 2:
            for _ in range(3):
                await client.send(b"GET " + target + b" HTTP/1.1\r\nHost: a\r\n\r\n")
                assert (403 if target in rejected else 200) == (await client.read_answer()).status
