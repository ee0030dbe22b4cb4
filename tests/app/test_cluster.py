"""One cluster of a process."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from msgspec.structs import replace

from apfproxy.settings import (
    UNSAID,
    Address,
    EndpointSettings,
    FlowControlSettings,
)
from apfproxy.upstream.counters import UpstreamFailure
from tests.end_to_end.scene import Setup, on_uvloop, running
from tests.support.clocks import until

if TYPE_CHECKING:
    import pytest


@on_uvloop
async def test_seats_of_the_servers_that_are_well(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "apfproxy.app.cluster")
    async with running(Setup()) as scene:
        cluster, pool = scene.process.cluster, scene.process.cluster.served.pool
        cluster.name = "blue"
        settings = replace(
            cluster.settings,
            flow_control=FlowControlSettings(per_endpoint=100),
            upstream=replace(
                cluster.settings.upstream,
                url=UNSAID,
                endpoints=tuple(
                    EndpointSettings(url=Address(host="127.0.0.1", port=port)) for port in (7, 8, 9)
                ),
            ),
        )
        (await cluster.prepare(settings)).commit()
        assert 300 == cluster.controller.server_concurrency_limit
        for endpoint in pool.endpoints:
            for _ in range(5):
                endpoint.fail(UpstreamFailure.BROKEN_ANSWER, "reset")
        await until(lambda: cluster.controller.server_concurrency_limit == 200)
        for watch in cluster.upstream.watches.values():
            watch.fail((None, "a test"), 0)
        await until(lambda: cluster.controller.server_concurrency_limit == 100)
        events = [each.message for each in scene.process.configuration_events]

    texts = ["blue: 300 seats, since 3 of 3 servers are well"]
    texts += ["blue: 200 seats, since 2 of 3 servers are well"]
    texts += ["blue: 100 seats, as for one server, since none is well"]
    said = [each.getMessage() for each in caplog.records if each.name == "apfproxy.app.cluster"]
    assert texts == events[-3:] == said
