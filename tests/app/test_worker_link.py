"""The words between a parent and a worker."""

from __future__ import annotations

import asyncio
import os
import signal
import socket

import pytest

from apfproxy.app.worker_link import (
    ALIVE,
    CUT,
    DRAIN,
    ENDING,
    LEAVE,
    READING,
    SERVING,
    LinkEnd,
    ParentLink,
)
from apfproxy.base.signals import Hangup, Signals
from tests.end_to_end.scene import until


class Parent:
    """The parent's end, and a worker's."""

    def __init__(self, signals: Signals) -> None:
        ours, theirs = socket.socketpair()
        self.words: list[bytes] = []
        self.is_gone = asyncio.Event()
        self.end = LinkEnd(ours, self.words.append, self.is_gone.set)
        self.worker = ParentLink(theirs.detach(), signals)


async def test_what_a_worker_says() -> None:
    """Its parent hears it, and its end."""
    with Signals() as signals:
        parent = Parent(signals)
        parent.worker.reloading()
        parent.worker.ready()
        parent.worker.alive()
        parent.worker.stopping(1.0)
        await until(lambda: len(parent.words) == 4)
        parent.worker.close()
        parent.worker.close()
        await parent.is_gone.wait()
        parent.end.say(DRAIN)
        parent.end.close()

    assert [READING, SERVING, ALIVE, ENDING] == parent.words


@pytest.mark.parametrize("word", [DRAIN, LEAVE])
async def test_drain(caplog: pytest.LogCaptureFixture, word: bytes) -> None:
    """To say it twice, to send a signal, too, and to say what nobody knows, make no difference."""
    caplog.set_level("INFO")
    with Signals(Hangup.RELOAD) as signals:
        parent = Parent(signals)
        for each in (b"?", word, word, b"?"):
            parent.end.say(each)
        await signals.first.wait()
        os.kill(os.getpid(), signal.SIGTERM)  # as to a group of processes
        os.kill(os.getpid(), signal.SIGHUP)
        await until(lambda: "nothing is read again" in caplog.text)  # after the other one
        is_second = signals.second.is_set()
        is_relieved = parent.worker.is_relieved
        parent.worker.close()
        parent.end.close()

    assert not is_second
    assert (word == LEAVE) == is_relieved


async def test_cut() -> None:
    """It is like two signals."""
    with Signals() as signals:
        parent = Parent(signals)
        parent.end.say(CUT)
        await signals.second.wait()
        parent.worker.close()
        parent.end.close()

    assert signals.first.is_set()


async def test_parent_that_is_gone(caplog: pytest.LogCaptureFixture) -> None:
    """A worker drains then, and can still speak to nobody."""
    with Signals() as signals:
        parent = Parent(signals)
        parent.end.close()
        await signals.first.wait()
        parent.worker.alive()
        is_second = signals.second.is_set()

    assert not is_second
    assert "the parent process is gone" in caplog.text
