"""Keys from a terminal."""

from __future__ import annotations

import asyncio
import errno
import os
import pty
import termios
from typing import TYPE_CHECKING
from unittest.mock import patch

from apfproxy.cli.key_reader import key_reader

if TYPE_CHECKING:
    import pytest


async def test_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each key arrives at once and unechoed; arrows do not; the terminal is then as it was."""
    terminal, descriptor = pty.openpty()
    before = termios.tcgetattr(descriptor)
    keys: list[str] = []
    is_read = asyncio.Event()
    read = os.read

    def reading(*arguments: int) -> bytes:
        is_read.set()
        return read(*arguments)

    monkeypatch.setattr(os, "read", reading)
    with key_reader(descriptor, asyncio.get_running_loop(), keys.append):
        during = termios.tcgetattr(descriptor)
        for data in (b"\x1b[A", "qü".encode()):
            os.write(terminal, data)
            await is_read.wait()
            is_read.clear()
    after = termios.tcgetattr(descriptor)
    os.close(terminal)
    os.close(descriptor)

    assert keys == ["q", "ü"]
    assert not during[3] & (termios.ECHO | termios.ICANON)
    assert during[3] & termios.ISIG
    assert after == before


async def test_a_terminal_that_goes() -> None:
    """Where the terminal is gone there are no more keys, and nothing is left to be restored."""
    terminal, descriptor = pty.openpty()
    keys: list[str] = []
    removed = asyncio.Event()
    loop = asyncio.get_running_loop()
    remove_reader = loop.remove_reader

    def removing(descriptor: int) -> bool:
        removed.set()
        return remove_reader(descriptor)

    gone = OSError(errno.EIO, "gone")
    with (
        patch.object(loop, "remove_reader", removing),
        patch.object(os, "read", side_effect=gone),
        key_reader(descriptor, loop, keys.append),
    ):
        os.close(terminal)
        await removed.wait()
    os.close(descriptor)

    assert keys == []


async def test_no_terminal() -> None:
    """Where there is no terminal, there are no keys."""
    reading, writing = os.pipe()
    keys: list[str] = []
    with key_reader(reading, asyncio.get_running_loop(), keys.append):
        os.write(writing, b"q")
        await asyncio.sleep(0)
    os.close(reading)
    os.close(writing)

    assert keys == []
