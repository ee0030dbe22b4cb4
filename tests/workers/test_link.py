"""The link between a parent and a worker."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket

import msgspec
import pytest

from apfproxy.base.signals import Hangup, Signals
from apfproxy.workers import link as module
from apfproxy.workers.link import (
    Alive,
    Ask,
    Drain,
    Ending,
    Leave,
    Link,
    LinkError,
    Message,
    Reply,
    Serving,
    State,
    Urgent,
)
from apfproxy.workers.worker import ParentLink
from tests.support.clocks import until
from tests.workers.scripts import sent_settings


async def echo(arguments: bytes) -> bytes:
    return arguments


async def broken(_: bytes) -> bytes:
    raise LinkError("is  broken\n")


async def failing(_: bytes) -> bytes:
    raise ZeroDivisionError


HANDLERS = {"echo": echo, "broken": broken, "failing": failing}


class Pair:
    def __init__(self) -> None:
        one, other = socket.socketpair()
        self.messages: list[Message] = []
        self.is_gone = asyncio.Event()
        self.parent = Link(one, self.messages.append, self.is_gone.set, {})
        self.worker = Link(other, self.messages.append, self.is_gone.set, HANDLERS)
        self.other = other

    def close(self) -> None:
        self.parent.close()
        self.worker.close()


async def test_messages() -> None:
    """They arrive in their order, however long, and in whatever pieces; unknown ones are none."""
    pair = Pair()
    sent: list[Message] = [Serving(), State(b"x" * 3_000_000), Urgent("a"), Alive()]
    for each in sent[:2]:
        pair.worker.send(each)
    was_sent = pair.worker.has_sent.is_set()
    await pair.worker.has_sent.wait()
    unknown = msgspec.msgpack.encode({"type": "Later", "a": 1}), b"\xc1", b""
    frames = [*unknown, *map(msgspec.msgpack.encode, sent[2:])]
    for byte in b"".join(len(each).to_bytes(4, "big") + each for each in frames):
        pair.other.send(bytes([byte]))
        await asyncio.sleep(0)
    await until(lambda: len(pair.messages) == len(sent))
    pair.close()

    assert not was_sent
    assert sent == pair.messages


async def test_questions() -> None:
    """Each has its own reply, or an error that says why."""
    pair = Pair()
    echoes = [pair.parent.ask("echo", b"%d" % number) for number in range(5)]
    replies = await asyncio.gather(*echoes)
    errors = []
    for question in ("broken", "later", "failing"):
        with pytest.raises(LinkError) as caught:
            await pair.parent.ask(question, b"")
        errors.append(str(caught.value))
    pair.close()

    assert [b"0", b"1", b"2", b"3", b"4"] == replies
    assert ["is broken", "knows no question 'later'", "ZeroDivisionError"] == errors


async def test_question_of_a_process_that_has_ended() -> None:
    """A swap that it asked for last does not bring back what was dropped at its end."""
    called: list[bytes] = []

    async def note(arguments: bytes) -> bytes:
        called.append(arguments)
        return b""

    ours, theirs = socket.socketpair()
    link, its = Link(ours, print, lambda: None, {"a": note}), Link(theirs, print, print, {})
    asking = asyncio.ensure_future(its.ask("a", b"1"))
    await asyncio.sleep(0)
    its.close()
    link.finish()
    with pytest.raises(LinkError, match="the other process is gone"):
        await asking
    await asyncio.sleep(0)

    assert [] == called


async def test_no_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that does not come in time, is too long, or whose process is gone, is an error."""
    monkeypatch.setattr(module, "MAX_REPLY_BYTES", 1000)
    pair = Pair()
    pair.parent.send(Reply(1, b"to no question"))
    with pytest.raises(LinkError, match="its answer exceeds 1000 bytes"):
        await pair.parent.ask("echo", b"x" * 1001)
    one, silent = socket.socketpair()
    link = Link(one, lambda _: None, lambda: None, {})
    with pytest.raises(LinkError, match=r"no answer within 0\.01 s"):
        await link.ask("echo", b"", 0.01)
    asking = asyncio.ensure_future(link.ask("echo", b""))
    await asyncio.sleep(0)
    silent.close()
    for _ in range(2):
        with pytest.raises(LinkError, match="the other process is gone"):
            await asking
        asking = asyncio.ensure_future(link.ask("echo", b""))
    with contextlib.suppress(LinkError):
        await asking
    link.close()
    pair.close()


async def test_bounds(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(module, "MAX_FRAME_BYTES", 1 << 20)
    one, deaf = socket.socketpair()
    link = Link(one, lambda _: None, lambda: None, {})
    for _ in range(100):
        link.send(State(b"x" * (1 << 16)))
    shown = repr(link)
    link.close()
    deaf.close()
    pair = Pair()
    pair.other.send((1 << 21).to_bytes(4, "big"))
    await pair.is_gone.wait()
    pair.close()

    assert int(shown.split()[2]) <= 1 << 20
    assert "a message over the link has 2097156 bytes" in caplog.text


class Parent:
    def __init__(self, signals: Signals) -> None:
        ours, theirs = socket.socketpair()
        self.messages: list[Message] = []
        self.is_gone = asyncio.Event()
        self.end = Link(ours, self.messages.append, self.is_gone.set, {})
        self.sent = sent_settings(theirs.detach())
        self.worker = ParentLink(self.sent, signals)


async def state_made() -> bytes:
    return b"state"


async def test_what_a_worker_says() -> None:
    with Signals() as signals:
        parent = Parent(signals)
        parent.worker.ready()
        parent.worker.alive()
        await parent.worker.last()
        parent.worker.show(state_made, {})
        parent.worker.alive()
        await asyncio.sleep(0)
        await parent.worker.last()
        parent.worker.stopping(1.0)
        await until(lambda: len(parent.messages) == 6)
        parent.worker.close()
        parent.worker.close()
        await parent.is_gone.wait()
        parent.end.send(Drain())
        parent.end.close()

    state = State(b"state")
    assert [Serving(), Alive(), Alive(), state, state, Ending()] == parent.messages


async def test_state_that_nobody_reads(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("apfproxy.workers.worker.LAST_WITHIN_S", 0.01)
    made: list[int] = []

    async def state() -> bytes:
        made.append(1)
        return b"x" * (1 << 22)

    with Signals() as signals:
        ours, theirs = socket.socketpair()
        worker = ParentLink(sent_settings(theirs.detach()), signals)
        worker.show(state, {})
        for _ in range(3):
            worker.alive()
            await asyncio.sleep(0)
        states = len(made)
        await worker.last()
        worker.close()
        ours.close()

    assert 1 == states
    assert "the parent does not read what was counted last" in caplog.text


@pytest.mark.parametrize("message", [Drain(), Leave()])
async def test_drain(caplog: pytest.LogCaptureFixture, message: Message) -> None:
    """To say it twice, to send a signal, too, and to say what no one knows, make no difference."""
    caplog.set_level("INFO")
    with Signals(Hangup.RELOAD) as signals:
        parent = Parent(signals)
        for each in (Ask(1, "what", b""), message, message, Urgent("nobody's")):
            parent.end.send(each)
        await signals.first.wait()
        os.kill(os.getpid(), signal.SIGTERM)  # as to a group of processes
        os.kill(os.getpid(), signal.SIGHUP)
        await until(lambda: "nothing is read again" in caplog.text)  # after the other one
        is_second = signals.second.is_set()
        is_relieved = parent.worker.is_relieved
        parent.worker.close()
        parent.end.close()

    assert not is_second
    assert (message == Leave()) == is_relieved


async def test_parent_that_is_gone(caplog: pytest.LogCaptureFixture) -> None:
    with Signals() as signals:
        parent = Parent(signals)
        parent.end.close()
        await signals.first.wait()
        parent.worker.alive()
        is_second = signals.second.is_set()

    assert not is_second
    assert "the parent process is gone" in caplog.text
