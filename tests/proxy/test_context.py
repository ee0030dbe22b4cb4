"""One cluster as requests meet it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from apfproxy.settings import OBSERVE, LimitSettings
from tests.proxy.fakes import GET, OK, status

if TYPE_CHECKING:
    from tests.proxy.fakes import Bench


def test_other_settings_count_from_the_next_request_on(bench: Bench) -> None:
    client = bench.ask(GET)
    bench.send(bench.upstreams[0], OK)
    client.take()
    limits = replace(
        bench.settings.downstream,
        max_header_fields=1,
        limits=LimitSettings(slow_readers_per_level=7),
    )
    bench.context.configure(replace(bench.settings, downstream=limits))
    bench.send(client, GET.replace(b"\r\n\r\n", b"\r\nA: b\r\n\r\n"))

    assert b"431" == status(client.take())
    assert 7 == bench.context.slow_readers.per_level


def test_requests_under_way_keep_their_flow_control(bench: Bench) -> None:
    client, settings = bench.ask(GET), bench.settings
    before = bench.context.flow_control
    observed = replace(settings.flow_control, enforcement=OBSERVE)
    bench.context.configure(replace(settings, flow_control=observed))
    after = bench.context.flow_control
    bench.send(bench.upstreams[0], OK)

    assert b"200" == status(client.take())
    assert [False, True, True] == [
        before.is_observing,
        after.is_observing,
        bench.counters.is_observing,
    ]
