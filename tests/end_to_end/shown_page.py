"""The live page, open in a browser, over a proxy with requests under way."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from apfproxy.settings import Address
from tests.end_to_end.scene import GET, NARROW, TRUSTED, Scene, Setup, running
from tests.support.browser import Tab

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from selenium.webdriver import Chrome

    from tests.end_to_end.peer import Peer

QUEUES, HAND_SIZE = 128, 6
SETUP = Setup(
    objects=NARROW.replace(
        "{queues: 1, handSize: 1, queueLengthLimit: 2}",
        f"{{queues: {QUEUES}, handSize: {HAND_SIZE}, queueLengthLimit: 50}}",
    ),
    seats=4,
    admin=Address(host="127.0.0.1", port=0),
)
LIVE = "document.getElementById('connection').dataset.state === 'live'"
ROW = "document.querySelector('tr[data-level=narrow]')"
SEATS = f"Number({ROW}.querySelector('td:nth-child(3) b').textContent)"
WAITING = f"Number({ROW}.querySelector('td:nth-child(4) b').textContent)"
FULL = f"Number(/scaleX\\(([0-9.]+)/.exec({ROW}.querySelector('.used').style.transform)[1])"
VERDICT = "document.getElementById('verdict-text').textContent"
SEVERITY = "document.getElementById('verdict').dataset.severity"
NO_EVENTS = """
window.handlers = {};
window.EventSource = class {
  addEventListener(name, handler) { handlers[name] = handler; }
  close() {}
};
"""


@contextlib.asynccontextmanager
async def shown(
    browser: Chrome, *, width: int = 1280, theme: str = "light", allowed: str = "\n"
) -> AsyncIterator[tuple[Scene, Tab]]:
    """A proxy, and its page open and live; at the end the page is left, and has no errors.

    But for those that are allowed: with such a text in them.
    """
    tab = Tab(browser)
    async with running(SETUP) as scene:
        await tab.open(f"http://127.0.0.1:{scene.process.admin_port}/", width=width, theme=theme)
        await tab.until(f"{LIVE} && {ROW} !== null")
        yield scene, tab
        errors = [each for each in await tab.errors() if allowed not in each]
        await tab.open("about:blank")
    assert [] == errors


async def ask_as(scene: Scene, user: str, requests: int) -> list[Peer]:
    request = GET.replace(b"\r\n\r\n", f"\r\nX-Remote-User: {user}\r\n\r\n".encode())
    return [await scene.ask(request, source=TRUSTED) for _ in range(requests)]
