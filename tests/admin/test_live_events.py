"""Events of a live page as one client gets them, or does not take them."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import ClientPayloadError
from aiohttp.test_utils import TestClient, TestServer
from aiohttp.web import Application, StreamResponse

from apfproxy.admin import live_events
from apfproxy.admin.live_page import LivePage
from apfproxy.admin.live_state import LiveInputs
from tests.admin.scene import Scene


@pytest.fixture
def scene() -> Scene:
    """Nothing happens."""
    return Scene(())


async def test_a_listener_that_goes(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that ends while it is written to is forgotten, whoever notices first."""
    page = LivePage(scene.controller, LiveInputs())

    async def fail(*_args: object) -> None:
        raise ConnectionResetError

    monkeypatch.setattr(live_events, "write", fail)
    app = Application()
    page.add_to(app)
    async with TestClient(TestServer(app)) as client, client.get("/events") as response:
        await response.content.read()

    assert response.content.at_eof()
    assert "<LiveFeed: 0 listeners>" == repr(page.feed)


async def test_a_listener_that_takes_nothing(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who takes nothing for long is cut: its place is wanted by others."""

    async def stall(*_args: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(live_events, "STALLED_S", 0.0)
    monkeypatch.setattr(StreamResponse, "write", stall)
    page = LivePage(scene.controller, LiveInputs())
    app = Application()
    page.add_to(app)
    async with TestClient(TestServer(app)) as client, client.get("/events") as response:
        with pytest.raises(ClientPayloadError):
            await response.content.read()

    assert "<LiveFeed: 0 listeners>" == repr(page.feed)
