"""How a program that serves runs."""

from __future__ import annotations

import gc
import resource
import sys

import pytest

from apfproxy.app import running
from apfproxy.app.running import (
    GC_THRESHOLDS,
    SWITCH_S,
    descriptor_limit,
    raise_descriptor_limit,
    run_in_loop,
    spare_collector,
)


def test_descriptor_limit() -> None:
    """A process may open as many files as the system lets it."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(512, before[1]), before[1]))
    try:
        raise_descriptor_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (before[1], before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize(
    ("soft", "expected"), [(1024, 1024), (resource.RLIM_INFINITY, sys.maxsize)]
)
def test_descriptors(monkeypatch: pytest.MonkeyPatch, soft: int, expected: int) -> None:
    """The soft limit counts; without one there is no number that is too large."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, resource.RLIM_INFINITY))

    assert expected == descriptor_limit()


def test_spare_collector() -> None:
    """What exists is looked at no more."""
    before = gc.get_threshold()
    try:
        spare_collector()
        assert GC_THRESHOLDS == gc.get_threshold()
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)


def test_run_in_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads give the processor up sooner than Python has it; the result is the exit code."""
    monkeypatch.setattr(running, "raise_descriptor_limit", lambda: None)
    before = sys.getswitchinterval()
    sys.setswitchinterval(10 * SWITCH_S)

    async def main() -> int:
        return 7

    try:
        assert 7 == run_in_loop(main())
        assert SWITCH_S == pytest.approx(sys.getswitchinterval())
    finally:
        sys.setswitchinterval(before)
