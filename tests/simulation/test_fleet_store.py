"""The store of a simulated fleet."""

from __future__ import annotations

from apfproxy.fleet.record import VERSION, Record
from apfproxy.simulation.fleet_store import Seen, SimulatedStore
from apfproxy.simulation.virtual_clock import VirtualClock

RECORD = Record(version=VERSION, born="a", writes=1, members={})


def test_swap() -> None:
    """A record is written by who has seen the last one, and others see what there is."""
    store = SimulatedStore(VirtualClock(), 10)
    nothing = store.read()

    assert Seen(None, 0) == nothing
    assert store.swap(RECORD, nothing.version, 0, is_urgent=False) is None
    assert Seen(RECORD, 1) == store.swap(RECORD, nothing.version, 1, is_urgent=False)
    assert (1, 1) == (store.reads, store.writes)
    store.forget()
    assert Seen(None, 2) == store.read()
    assert "<SimulatedStore: 1 writes>" == repr(store)


def test_urgent() -> None:
    """The others are told of what is urgent, unless they are cut off."""
    clock = VirtualClock()
    store = SimulatedStore(clock, 10)
    told: list[tuple[int, int]] = []

    def listener(replica: int) -> None:
        store.listen(replica, lambda _: told.append((replica, clock.time_ns)))

    for replica in range(4):
        listener(replica)
    store.cut_off.add(2)
    store.swap(RECORD, 0, 1, is_urgent=True)
    store.swap(RECORD, 1, 1, is_urgent=False)
    clock.run()

    assert [(0, 5), (3, 5)] == told
    assert [True, True, False] == [store.is_reached_by(each) for each in range(3)]
    store.is_away = True
    assert not store.is_reached_by(0)
