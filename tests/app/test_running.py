"""How a program that serves runs."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import resource
import subprocess
import sys
import threading
import weakref

import pytest

from apfproxy.app import running
from apfproxy.app.running import (
    MOST_THREADS,
    SWITCH_S,
    DaemonThreads,
    raise_descriptor_limit,
    run_in_loop,
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


def test_run_in_loop(monkeypatch: pytest.MonkeyPatch) -> None:
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


async def test_threads() -> None:
    """Works of threads give their results and errors; threads are used again, and are few.

    A thread counts as idle a moment after its result is there.
    """
    loop = asyncio.get_running_loop()
    threads = DaemonThreads()
    loop.set_default_executor(threads)
    names = {await asyncio.to_thread(lambda: threading.current_thread().name) for _ in range(9)}
    together = threading.Barrier(MOST_THREADS)
    met = await asyncio.gather(*(asyncio.to_thread(together.wait) for _ in range(MOST_THREADS)))
    with pytest.raises(ZeroDivisionError):
        await asyncio.to_thread(lambda: 1 // 0)
    cancelled = loop.run_in_executor(None, together.wait)
    threads.shutdown()
    together.abort()
    with pytest.raises(threading.BrokenBarrierError):
        await cancelled

    assert len(names) <= 2
    assert list(range(MOST_THREADS)) == sorted(met)


async def test_threads_keep_nothing_of_what_failed() -> None:
    threads = DaemonThreads()
    asyncio.get_running_loop().set_default_executor(threads)
    body = set("body")
    kept = weakref.ref(body)

    def fail(_body: object) -> float:
        return 1 / 0

    gc.disable()
    try:
        with contextlib.suppress(ZeroDivisionError):
            await asyncio.to_thread(fail, body)
        threads.shutdown()
        del body
        await asyncio.sleep(0)  # the loop forgets its call
        assert kept() is None
    finally:
        gc.enable()


HANGING = """
import asyncio, os, sys, threading
from apfproxy.app.running import run_in_loop

reading, _ = os.pipe()
started = threading.Event()

def read():
    started.set()
    os.read(reading, 1)

async def main():
    hanging = asyncio.create_task(asyncio.to_thread(read))
    await asyncio.to_thread(started.wait)
    hanging.cancel()
    if sys.argv[1:]:
        raise SystemExit(sys.argv[1])
    return 7

sys.exit(run_in_loop(main()))
"""


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        pytest.param([], 7, "1 thread still in", id="drained"),
        pytest.param(["why"], 1, "why", id="failed"),
    ],
)
def test_a_thread_that_hangs(arguments: list[str], code: int, said: str) -> None:
    ended = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", HANGING, *arguments],
        capture_output=True,
        text=True,
        timeout=15,
        check=False,
    )

    assert code == ended.returncode
    assert said in ended.stderr
