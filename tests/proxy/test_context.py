"""One cluster as requests meet it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from apfproxy.settings import OBSERVE
from tests.end_to_end.scene import GET as WHOLE_GET
from tests.end_to_end.scene import Setup, on_uvloop, running
from tests.proxy.fakes import GET, OK, status

if TYPE_CHECKING:
    from tests.proxy.fakes import Bench


def test_takes_what_exists_once_from_the_listener(bench: Bench) -> None:
    """Clusters of one listener have its clock, loop and bounds."""
    context, listener = bench.context, bench.listener
    assert (listener.clock, listener.loop) == (context.clock, context.loop)
    assert (listener.audit_lines, listener.held_bytes) == (context.audit_lines, context.held_bytes)


def test_other_settings_count_from_the_next_request_on(bench: Bench) -> None:
    """A connection that is known finds out anew what its requests are judged by."""
    client = bench.ask(GET)
    bench.send(bench.upstreams[0], OK)
    client.take()
    limits = replace(bench.settings.downstream, max_header_fields=1)
    bench.context.configure(replace(bench.settings, downstream=limits))
    bench.send(client, GET.replace(b"\r\n\r\n", b"\r\nA: b\r\n\r\n"))

    assert b"431" == status(client.take())


@on_uvloop
async def test_what_is_only_observed_from_now_on() -> None:
    """Other settings put another flow control in force; requests under way keep theirs."""
    async with running(Setup(seats=1)) as scene:
        cluster = scene.process.cluster
        await scene.ask(WHOLE_GET)
        arrival = await scene.upstream.next_request()
        before = cluster.served.flow_control
        settings = replace(
            cluster.settings,
            flow_control=replace(cluster.settings.flow_control, enforcement=OBSERVE),
        )
        identities = cluster.identities
        cluster.served.configure(settings, identities.authenticator, identities.client_tls)
        after = cluster.served.flow_control
        await arrival.peer.send(b"HTTP/1.1 204 No Content\r\n\r\n")

    assert (False, True) == (before.is_observing, after.is_observing)
