"""One cluster as requests meet it."""

from __future__ import annotations

from dataclasses import replace

from apfproxy.settings import OBSERVE
from tests.end_to_end.scene import GET, Setup, on_uvloop, running


@on_uvloop
async def test_what_is_only_observed_from_now_on() -> None:
    """Other settings put another flow control in force; requests under way keep theirs."""
    async with running(Setup(seats=1)) as scene:
        cluster = scene.process.cluster
        await scene.ask(GET)
        arrival = await scene.upstream.next_request()
        before = cluster.served.context.flow_control
        settings = replace(
            cluster.settings,
            flow_control=replace(cluster.settings.flow_control, enforcement=OBSERVE),
        )
        identities = cluster.identities
        cluster.served.configure(settings, identities.authenticator, identities.client_tls)
        after = cluster.served.context.flow_control
        await arrival.peer.send(b"HTTP/1.1 204 No Content\r\n\r\n")

    assert (False, True) == (before.is_observing, after.is_observing)
