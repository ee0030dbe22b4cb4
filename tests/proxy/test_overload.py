"""When the proxy has too much to do itself."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

import pytest

from apfproxy.proxy import overload as overload_module
from apfproxy.proxy.client_limits import ClientLimits
from apfproxy.proxy.counters import ListenerCounters, Refusal
from apfproxy.proxy.overload import SWEEPS_PER_TRIM, Overload, resident_bytes
from apfproxy.settings import LimitSettings, OverloadSettings

if TYPE_CHECKING:
    from pathlib import Path

MS = 1_000_000
MIB = 1 << 20


class Watched:
    """An overload detector, with memory as a test says."""

    def __init__(self, **settings: float | None) -> None:
        self.counters = ListenerCounters()
        self.limits = ClientLimits(LimitSettings(), self.counters)
        self.used_mib = 10
        self.looks = self.trims = 0
        self.free_mib = 0
        self.overload = Overload(
            OverloadSettings(**settings),  # type: ignore[arg-type]  # by name
            self.limits,
            self.counters,
            self._memory,
            self._give_back,
        )

    def _memory(self) -> int:
        self.looks += 1
        return self.used_mib * MIB

    def _give_back(self) -> None:
        self.trims += 1
        self.used_mib -= self.free_mib
        self.free_mib = 0

    def after(self, *late_ms: int) -> Refusal | None:
        for each in late_ms:
            self.overload.on_sweep(each * MS)
        return self.limits.shed

    def with_memory(self, used_mib: int) -> Refusal | None:
        self.used_mib = used_mib
        return self.after(*[0] * SWEEPS_PER_TRIM)


@pytest.mark.parametrize(
    ("late_ms", "sheds"),
    [
        pytest.param((0, 499), False, id="in-time"),
        pytest.param((0, 5000, 499), False, id="late-once"),
        pytest.param((500, 0, 500), False, id="late-now-and-then"),
        pytest.param((0, 500, 500), True, id="late"),
        pytest.param((500, 500, 0), True, id="just-been-late"),
        pytest.param((500, 500, 0, 0), False, id="recovered"),
        pytest.param((500, 500, 0, 300), True, id="late-again-before-that"),
        pytest.param((300, 300, 300), False, id="a-bit-late-all-the-time"),
        pytest.param((500, 500, 300, 300), True, id="still-a-bit-late"),
    ],
)
def test_loop_that_stays_late(late_ms: tuple[int, ...], *, sheds: bool) -> None:
    """It sheds until it has been in time for a while, where the settings say so."""
    watched, told = Watched(loop_delay_s=0.5), Watched(loop_delay_s=None)

    assert sheds is (Refusal.LOOP_DELAY is watched.after(*late_ms))
    assert sheds is watched.counters.overloads[Refusal.LOOP_DELAY]
    assert None is told.after(*late_ms, 0, 0, 0, 0, 800, 0)
    assert 400 * MS == told.counters.loop_delay_ns > 0 == told.looks


def test_sheds_from_the_limit_of_memory_on_until_there_is_room() -> None:
    watched = Watched(memory_bytes=160 * MIB)
    found = [watched.with_memory(used) for used in (159, 160, 150, 149, 159)]

    assert [None, Refusal.MEMORY, Refusal.MEMORY, None, None] == found
    assert not watched.overload.is_memory_short


def test_free_memory_goes_back_to_the_system_before_it_counts() -> None:
    """It does so once a second at most."""
    watched = Watched(memory_bytes=160 * MIB)
    watched.free_mib = 20

    assert None is watched.with_memory(170)
    assert (150, 1) == (watched.used_mib, watched.trims)
    watched.used_mib = watched.free_mib = 170
    assert None is watched.after(0)
    assert 2 == watched.trims
    watched.used_mib, watched.free_mib = 170, 30
    assert Refusal.MEMORY is watched.after(0)
    assert None is watched.after(*[0] * SWEEPS_PER_TRIM)
    assert 3 == watched.trims


def test_sheds_while_either_lasts_and_the_settings_say_so() -> None:
    watched = Watched(memory_bytes=160 * MIB, loop_delay_s=0.5)
    assert Refusal.MEMORY is watched.with_memory(200)
    assert Refusal.LOOP_DELAY is watched.after(600, 600)
    assert Refusal.MEMORY is watched.after(0, 0)
    watched.after(600, 600)
    watched.overload.configure(OverloadSettings(loop_delay_s=None, memory_bytes=210 * MIB))
    assert Refusal.MEMORY is watched.limits.shed
    assert None is watched.with_memory(190)

    watched.with_memory(220)
    watched.overload.configure(OverloadSettings(loop_delay_s=None, memory_bytes=None))
    assert None is watched.limits.shed


def test_logs_once_an_episode(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    watched = Watched(memory_bytes=160 * MIB, loop_delay_s=0.5)
    watched.after(700, 800, 900, 0, 0, 0, 0)
    for used in (200, 210, 10, 11):
        watched.with_memory(used)

    assert [
        "the event loop is 0.7 s late: new connections are shed",
        "the event loop is in time again: connections are taken",
        (
            "200 MiB of memory are in use, of at most 160: new connections and requests are"
            " refused, idle connections closed"
        ),
        "10 MiB of memory are in use: connections and requests are taken again",
    ] == caplog.messages


@pytest.mark.parametrize("has_statm", [True, False])
def test_resident_bytes_are_the_highest_where_the_system_does_not_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_statm: bool
) -> None:
    statm = tmp_path / "statm"
    if has_statm:
        statm.write_bytes(b"900 300 200 1 0 100 0\n")
    monkeypatch.setattr(overload_module, "STATM", statm)
    found = resident_bytes()

    assert has_statm is (300 * os.sysconf("SC_PAGESIZE") == found)
    assert found > 0
