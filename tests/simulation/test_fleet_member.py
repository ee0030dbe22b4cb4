"""A replica's membership; `test_fleet_simulation` has what comes of it."""

from __future__ import annotations

import pytest

from apfproxy.fleet.pace import MOST_CONFLICTS
from apfproxy.fleet.standing import Standing
from apfproxy.flowcontrol.controller import Controller
from apfproxy.simulation.fleet_events import FleetPlan
from apfproxy.simulation.fleet_member import SimulatedMember
from apfproxy.simulation.fleet_store import SimulatedStore
from apfproxy.simulation.virtual_clock import VirtualClock
from tests.simulation.scene import objects

MS = 1_000_000
S = 1_000_000_000


class Scene:
    """Members of one fleet, which nobody asks for anything."""

    def __init__(self, count: int, latency_ns: int = 2 * MS) -> None:
        self.clock = VirtualClock()
        self.store = SimulatedStore(self.clock, latency_ns)
        self.controllers = []
        self.members = []
        plan = FleetPlan(replicas=count, latency_ns=latency_ns)
        for number in range(count):
            controller = Controller(self.clock, 12, 0, is_prompt=True)
            controller.commit(controller.digest(objects()))
            self.controllers.append(controller)
            self.members.append(
                SimulatedMember(
                    number, 0, controller, self.store, self.clock, 12, plan, lambda: None
                )
            )

    def run(self, until_ns: int) -> None:
        """Let time go on."""
        self.clock.arm(until_ns, lambda _: self.clock.stop(), None)
        self.clock.run()


def test_joining() -> None:
    """Without seats until it has written, and with some from then on."""
    scene = Scene(2)
    for member in scene.members:
        member.join()

    assert [0, 0] == [each.server_concurrency_limit for each in scene.controllers]
    scene.run(12 * S)
    assert [Standing.HOLDING] * 2 == [each.ledger.standing for each in scene.members]
    assert 12 == sum(each.server_concurrency_limit for each in scene.controllers)


@pytest.mark.parametrize("is_leaving", [True, False])
def test_ending(is_leaving: bool) -> None:
    """Who leaves gives its seats back at once; whoever does not holds them until its lease ends."""
    scene = Scene(2)
    first, second = scene.members
    for member in scene.members:
        member.join()
    scene.run(12 * S)
    second.end(is_leaving=is_leaving)
    second.end(is_leaving=is_leaving)
    second.on_short("", 0)
    scene.run(14 * S)

    assert (12 if is_leaving else 6) == first.ledger.claim
    scene.run(20 * S)
    assert 12 == first.ledger.claim
    assert (0 if is_leaving else 1) == first.ledger.lost


@pytest.mark.parametrize("after_ms", [0, 1.5, 2.5, 3.5, 5])
def test_ending_amid_a_look(after_ms: float) -> None:
    """Whatever was under way then has no effect any more."""
    scene = Scene(1)
    (member,) = scene.members
    member.join()
    scene.clock.arm(round(after_ms * MS), lambda _: member.end(is_leaving=False), None)
    scene.run(S)

    assert (after_ms == 5) == (member.ledger.standing is Standing.HOLDING)


def test_ending_after_a_lost_swap() -> None:
    """Who ends before it hears that another one wrote first does not look again."""
    scene = Scene(2)
    first, second = scene.members
    first.join()
    scene.run(2500 * MS)
    second.join()

    def interfere(_: None) -> None:
        if first.conflicts:
            first.end(is_leaving=False)
            return
        seen = scene.store.read()
        if second.refreshes and seen.record:  # which has the first one look, though it is not due
            scene.store.swap(seen.record, seen.version, 9, is_urgent=False)
        scene.clock.arm(scene.clock.time_ns + MS // 10, interfere, None)

    interfere(None)
    scene.run(2600 * MS)
    reads, refreshes = scene.store.reads, first.refreshes
    scene.run(2700 * MS)

    assert (1, reads, refreshes) == (first.conflicts, scene.store.reads, first.refreshes)


@pytest.mark.parametrize("after_ms", [0, 2])
def test_a_store_that_is_not_reached(after_ms: int) -> None:
    """That is found out when the time of a look is up, on the way there and at the swap."""
    scene = Scene(1)
    (member,) = scene.members
    member.join()
    scene.clock.arm(after_ms * MS, lambda _: scene.store.cut_off.add(0), None)
    scene.run(S - MS)
    assert Standing.JOINING is member.ledger.standing
    scene.run(S + 100 * MS)

    assert (Standing.ALONE, 1) == (member.ledger.standing, member.failures)


def test_conflicts() -> None:
    """Somebody else writes first again and again, until the next look."""
    scene = Scene(1)
    (member,) = scene.members
    member.join()

    def interfere(_: None) -> None:
        scene.store.forget()
        if scene.clock.time_ns < S // 2:
            scene.clock.arm(scene.clock.time_ns + MS, interfere, None)

    interfere(None)
    scene.run(S - MS)
    assert (MOST_CONFLICTS, 1, 0) == (member.conflicts, member.failures, member.refreshes)
    scene.run(S + 100 * MS)
    assert Standing.HOLDING is member.ledger.standing


def test_ending_before_what_was_to_come() -> None:
    """Looks that were to come, and one that waits for the store, are not taken any more."""
    scene = Scene(3)
    for member in scene.members:
        member.join()
    scene.run(2 * S + 500 * MS)
    first, second, third = scene.members
    first.on_short("", 0)
    second.on_short("level", 1)
    scene.store.is_away = True
    scene.run(3 * S + 500 * MS)
    reads = scene.store.reads
    scene.store.is_away = False
    swapped = scene.store.swap
    record, version = scene.store.read()
    assert record is not None
    swapped(record, version, 9, is_urgent=True)
    scene.clock.arm(scene.clock.time_ns + MS, lambda _: third.end(is_leaving=False), None)
    first.on_short("", 0)
    first.end(is_leaving=False)
    second.end(is_leaving=False)
    scene.run(5 * S)

    assert [0, 0, 0] == [each.failures for each in scene.members]
    assert reads + 4 == scene.store.reads


def test_far_store() -> None:
    """Members that cannot all write within their lease take their turns, and longer leases."""
    scene = Scene(20, 200 * MS)
    for member in scene.members:
        member.join()
    scene.run(60 * S)
    for member in scene.members:
        member.note()
    lapsed_ns = [each.stood_ns[Standing.LAPSED] for each in scene.members]
    failures = [each.failures for each in scene.members]
    writes = scene.store.writes
    scene.run(120 * S)
    for member in scene.members:
        member.note()

    assert lapsed_ns == [each.stood_ns[Standing.LAPSED] for each in scene.members]
    assert failures == [each.failures for each in scene.members]
    assert {20.0} == {each.ledger.lease_s for each in scene.members}
    assert [Standing.HOLDING] * 20 == [each.ledger.standing for each in scene.members]
    # Each writes once in a turn and a half, so that a round trip is left for what is news.
    assert 0 < scene.store.writes - writes <= 60 * 5
