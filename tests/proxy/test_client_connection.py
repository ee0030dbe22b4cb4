"""A client's connection as exchange and server see it."""

from __future__ import annotations

from tests.proxy.fakes import GET, Bench, connection_of


def test_idle_connections_can_be_hastened(bench: Bench) -> None:
    """What has begun, if only with a byte, goes on; nothing is put off."""
    clients = [bench.client(), bench.ask(b"G"), bench.ask(GET)]
    for client in clients:
        connection_of(client).close_when_idle(bench.clock.now_ns() + 1_000_000_000)
        connection_of(client).close_when_idle(bench.clock.now_ns() + 9_000_000_000)
    bench.wait(2)

    assert ["close", "", ""] == [client.ended_by for client in clients]
    assert 2 == bench.counters.listener.connections_open
    assert 3 == bench.counters.listener.connections_accepted
    bench.end(clients[2])
    bench.assert_at_rest()


def test_nothing_is_sent_after_the_end(bench: Bench) -> None:
    """Once it is closed, all that may still be asked of it does nothing."""
    client = bench.ask(GET)
    connection = connection_of(client)
    exchange = connection.exchange
    assert exchange is not None
    connection.abort()
    connection.send(b"x")
    connection.pause_reading()
    connection.resume_reading()
    connection.abort_after_write()
    connection.close_when_idle(0)

    assert b"" == client.take()
    assert "abort" == client.ended_by
    connection.on_exchange_end(exchange, bench.clock.now_ns())
    exchange.on_client_left()
    bench.loop.run_ready()
    bench.assert_at_rest()
