"""How the servers behind are as a whole, and which of them get requests."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from apfproxy.base.faults import Part
from apfproxy.settings import EjectionSettings
from apfproxy.upstream.endpoint import DRAINING
from apfproxy.upstream.health import STALE_LOOK_S
from tests.proxy.watched import NEVER, OFTEN, REFUSED, S, Scene, Server, settle

UNKNOWN, UP, FAILING, EJECTED = "unknown", "up", "failing", "ejected"


async def test_whole() -> None:
    """It is up while any endpoint is, and fails when none is."""
    scene = Scene(OFTEN, "a", "b")
    a, b = scene.servers
    a.status = b.status = 200
    watch = scene.watch
    assert (UNKNOWN, None, None, None) == (
        watch.state,
        watch.since_unix_s,
        watch.problem,
        watch.health(),
    )
    a.error = REFUSED
    await scene.look()
    assert ([FAILING, UP], UP, 1101.0) == (scene.states, watch.state, watch.since_unix_s)
    assert (None, "1 of 2 is out: http://a:1: connection refused") == (
        watch.health(),
        watch.out(),
    )
    b.status = 500
    await scene.look(5)
    await scene.look(5)
    problem = (
        "all 2 fail: http://a:1: connection refused;"
        " http://b:1: /readyz is answered by 500 Internal Server Error"
    )
    assert (FAILING, 1111.0, problem) == (watch.state, watch.since_unix_s, watch.problem)
    scene.now_ns += 3 * S
    assert f"{problem} (for 3 s)" == watch.health()
    b.status = 200
    await scene.look(5)

    assert (UP, None) == (watch.state, watch.problem)
    assert "<UpstreamHealth http://h:1: up>" == repr(watch)


async def test_many_that_fail() -> None:
    """A text names some and counts the others."""
    scene = Scene(OFTEN, *"abcdef")
    for server in scene.servers[1:]:
        server.error = REFUSED
    scene.servers[0].status = 200
    await scene.look()

    text = scene.watch.out() or ""
    assert text.startswith("5 of 6 are out: http://b:1: connection refused; http://c:1")
    assert text.endswith("; and 2 more")


async def test_one() -> None:
    """Of one there is nothing to say beside what is said of the whole."""
    scene = Scene(OFTEN)
    [server] = scene.servers
    server.error = REFUSED
    await scene.look()

    assert (None, "connection refused") == (scene.watch.out(), scene.watch.problem)


async def test_none() -> None:
    """Without an endpoint nothing can be served, once the start is through."""
    scene = Scene(OFTEN)
    scene.pool.change()
    assert UNKNOWN == scene.watch.state
    scene.watch.start()
    scene.watch.look()
    assert (FAILING, "no address of a server is known") == (scene.watch.state, scene.watch.problem)
    server = Server("a", scene.pool)
    server.status = 200
    scene.pool.change(server)
    await settle()
    scene.watch.stop()

    assert (UP, 1.0) == (scene.watch.state, server.ramp)


async def test_looks() -> None:
    """It says when nobody looks any more."""
    scene = Scene(OFTEN)
    scene.watch.start()
    await settle()
    assert scene.watch.health() is None
    scene.watch.stop()
    scene.watch.stop()

    assert scene.watch.health() is None
    assert STALE_LOOK_S > 1


async def test_checks_that_are_to_come_often() -> None:
    """Servers are looked at as often as they are checked; what they do is noted once a second."""
    often = replace(OFTEN, health_check=replace(OFTEN.health_check, interval_s=0.2))
    scene = Scene(often, "a", "b")
    a, _ = scene.servers
    a.status = 200
    assert 0.2 == scene.watch.rules.look_s
    for _ in range(10):
        a.serve(1)
        await scene.look(0.2)
    assert 10 == a.probes
    assert 5.0 == scene.watch.recent.answers_per_s["2xx"]
    scene.configure(NEVER)

    assert 1.0 == scene.watch.rules.look_s


async def test_error_in_a_look() -> None:
    """At one endpoint it leaves the others."""
    scene = Scene(OFTEN, "a", "b")
    a, b = scene.servers
    a.counters.answers[200] = cast("int", "a bug")
    b.status = 200
    await scene.look()

    assert (1, [UNKNOWN, UP]) == (scene.faults.totals[Part.UPSTREAM], scene.states)


async def test_idle_connections_of_one_that_fails() -> None:
    """They are closed, unless it is the only one, which is still asked."""
    scene = Scene(OFTEN, "a", "b")
    a, b = scene.servers
    a.error = REFUSED
    b.status = 200
    await scene.look()
    assert (scene.now_ns, 0) == (a.closed_ns, b.closed_ns)
    b.serve(0, 50)
    assert 0 == b.closed_ns
    alone = Scene(OFTEN)
    [server] = alone.servers
    server.error = REFUSED
    await alone.look()

    assert (FAILING, 0) == (alone.watch.state, server.closed_ns)


async def test_silence() -> None:
    """It lasts while requests wait and no endpoint answers anybody."""
    scene = Scene(NEVER, "a", "b")
    a, b = scene.servers
    a.awaiting, b.awaiting = 3, 4
    b.serve(1)
    await scene.look()
    assert (0, 0.0) == (scene.watch.awaiting, scene.watch.silent_s)
    assert 1.0 == scene.of(a).silent_s
    await scene.look(2)

    assert (7, 2.0) == (scene.watch.awaiting, scene.watch.silent_s)


async def test_recent_answers() -> None:
    """Those of all endpoints together."""
    scene = Scene(NEVER, "a", "b")
    a, b = scene.servers
    a.serve(3)
    b.serve(4)
    await scene.look()

    assert 7.0 == scene.watch.recent.answers_per_s["2xx"]
    assert 0 == scene.watch.counters.telling


@pytest.mark.parametrize(("count", "expected"), [(1, 0), (2, 1), (3, 1), (4, 2), (5, 2)])
async def test_at_most_half_are_out(count: int, expected: int) -> None:
    """Where more fail, it is hardly theirs."""
    scene = Scene(NEVER, *"abcde"[:count])
    for server in scene.servers:
        server.serve(0, 50)
    await settle()

    assert expected == scene.states.count(EJECTED)
    assert expected == sum(scene.of(each).ejections for each in scene.servers)


async def test_all_die_at_once() -> None:
    """Those that are spared the pause are checked at the next look, and once is enough."""
    scene = Scene(OFTEN, "a", "b", "c")
    for server in scene.servers:
        server.status = 200
    await scene.look()
    assert [UP] * 3 == scene.states
    for server in scene.servers:
        server.error = REFUSED
        server.serve(0, 50)
    assert [EJECTED, UP, UP] == scene.states
    await scene.look()

    assert [FAILING, FAILING] == scene.states[1:]


async def test_those_that_fail_checks_count_as_out() -> None:
    """So no further one is taken out for failing requests."""
    scene = Scene(OFTEN, "a", "b", "c")
    a, b, c = scene.servers
    a.error = REFUSED
    b.status = c.status = 200
    await scene.look()
    b.serve(0, 50)

    assert [FAILING, UP, UP] == scene.states


async def test_change_is_told_once() -> None:
    """Soon, however many endpoints change in one event."""
    scene = Scene(NEVER, *"abcde")
    await settle()
    before = scene.changes
    for server in scene.servers[:2]:
        server.serve(0, 5)
    assert before == scene.changes
    await settle()

    assert before + 1 == scene.changes


async def test_ejection_off() -> None:
    """With 0 failures none is taken out."""
    scene = Scene(replace(NEVER, ejection=EjectionSettings(failures=0)), "a", "b", "c")
    a, *_ = scene.servers
    a.serve(0, 50)
    assert a.is_well
    scene.configure(NEVER)
    a.serve(0, 1)

    assert EJECTED == str(a.state)


async def test_endpoints_that_join() -> None:
    """They start slowly, unless there were none before; those that leave are looked at no more."""
    scene = Scene(OFTEN, "a")
    [a] = scene.servers
    a.status = 200
    scene.watch.start()
    await settle()
    b, c = Server("b", scene.pool), Server("c", scene.pool)
    b.status = c.status = 200
    scene.pool.change(a, b)
    await settle()
    assert ([UP, UP], [1.0, 0.1]) == (scene.states, [a.ramp, b.ramp])
    assert (5, 5) == (a.max_failures_in_row, b.max_failures_in_row)
    assert not scene.watch.is_steady
    for _ in range(10):
        await scene.look()
    assert (1.0, True) == (b.ramp, scene.watch.is_steady)
    scene.pool.change(b)
    assert (DRAINING, 0) == (a.state, b.max_failures_in_row)
    a.serve(0, 50)
    assert DRAINING is a.state
    scene.pool.change(c)
    await settle()
    scene.watch.stop()

    assert (1.0, [UP]) == (c.ramp, scene.states)


async def test_starting_endpoint_that_joins_the_only_one() -> None:
    """What the other one answers, which nobody had to ask so far, shows that it is not ready."""
    scene = Scene(OFTEN, "a")
    [a] = scene.servers
    scene.watch.start()
    await settle()
    a.serve(1)
    await scene.look()
    b = Server("b", scene.pool)
    a.status, b.status = 200, 403
    scene.pool.change(a, b)
    await settle()
    scene.watch.stop()

    assert [UP, FAILING] == scene.states


async def test_start_at_once() -> None:
    """Where the settings want no slow start there is none, and one under way ends."""
    scene = Scene(replace(NEVER, slow_start_s=0.0), "a")
    [a] = scene.servers
    b, c = Server("b", scene.pool), Server("c", scene.pool)
    scene.pool.change(a, b)
    assert 1.0 == b.ramp
    scene.configure(NEVER)
    scene.pool.change(a, b, c)
    assert 0.1 == c.ramp
    scene.configure(replace(NEVER, slow_start_s=0.0))
    await scene.look()

    assert 1.0 == c.ramp


async def test_check_of_one_that_leaves() -> None:
    """It ends with it."""
    scene = Scene(OFTEN, "a", "b")
    a, b = scene.servers
    a.may_end.clear()
    a.status = b.status = 500
    scene.watch.start()
    await settle()
    scene.pool.change(b)
    a.may_end.set()
    await settle()
    scene.watch.stop()

    assert (DRAINING, 1) == (a.state, a.probes)


async def test_same_settings() -> None:
    """What does not concern the way to the servers leaves their states."""
    scene = Scene(OFTEN, "a", "b")
    a, b = scene.servers
    a.status, b.status = 500, 200
    await scene.look()
    scene.configure(replace(OFTEN, slow_start_s=3.0))
    assert [FAILING, UP] == scene.states
    scene.configure(replace(OFTEN, host_header="other.example"))
    assert [UNKNOWN, UNKNOWN] == scene.states
    await scene.look()

    assert [FAILING, UP] == scene.states
    assert b"\r\nHost: other.example\r\n" in a.asked[-1]
