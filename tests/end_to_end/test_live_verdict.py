"""The first line of the live page in a browser: what is wrong, in words."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.end_to_end.scene import on_uvloop, running
from tests.end_to_end.shown_page import NO_EVENTS, ROW, SETUP, SEVERITY, VERDICT, ask_as, shown
from tests.support.browser import Tab

if TYPE_CHECKING:
    from selenium.webdriver import Chrome


@on_uvloop
async def test_verdict(browser: Chrome) -> None:
    """The first line says in words what is wrong, and when all is well again."""
    well = "All is well: no requests just now, nothing waits"
    async with shown(browser) as (scene, tab):
        # A machine that is busy makes the proxy late, which the first line says at any time.
        await tab.until(f"{SEVERITY} === 'ok' && {VERDICT}.startsWith('{well}')")
        await ask_as(scene, "ann", 12)
        wrong = await tab.until(f"{VERDICT}.startsWith('8 wait') && [{SEVERITY}, {VERDICT}]")
        scene.close_clients()
        await tab.until(f"{SEVERITY} === 'ok'")

    assert "warning" == wrong[0]
    assert wrong[1].startswith("8 wait in narrow")
    assert "user ann holds 4 of the level's 4 seats" in wrong[1]


@on_uvloop
async def test_verdict_aloud(browser: Chrome) -> None:
    """Screen readers are told the first line when it gets better or worse, not each second."""
    tab = Tab(browser)
    shows = [
        ("ok", "all is well"),
        ("warning", "8 wait"),
        ("warning", "9 wait"),
        ("ok", "all is well"),
    ]
    async with running(SETUP) as scene, tab.prepared(NO_EVENTS):
        await tab.open(f"http://127.0.0.1:{scene.process.admin_port}/")
        await tab.until("handlers.state")
        found = [
            await tab.run(
                f"import('/page/verdict.js').then(({{ showVerdict }}) => {{"
                f" showVerdict([{{ severity: '{severity}', text: '{text}' }}]);"
                " return document.getElementById('verdict-said').textContent; })"
            )
            for severity, text in shows
        ]
        await tab.open("about:blank")

    assert ["All is well", "Warning: 8 wait", "Warning: 8 wait", "All is well"] == found


@on_uvloop
async def test_server_behind(browser: Chrome) -> None:
    """When the server behind is gone, that is the first line, and its failures are not served."""
    state = "document.getElementById('server-state')"
    async with shown(browser) as (scene, tab):
        (client,) = await ask_as(scene, "ann", 1)
        arrival = await scene.upstream.next_request()
        await arrival.peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        await client.read_answer()
        await tab.until(f"{state}.dataset.state === 'up'")
        await scene.upstream.stop()
        for _ in range(5):
            (client,) = await ask_as(scene, "ann", 1)
            await client.read_answer()
        await tab.until(f"{state}.dataset.state === 'failing' && {SEVERITY} === 'error'")
        verdict = await tab.run(VERDICT)
        problem = await tab.run("document.getElementById('server-problem').textContent")
        failed = f"{ROW}.querySelector('td:nth-child(5) small').textContent"
        await tab.until(f"{failed}.endsWith('/s failed')")

    address = f"http://127.0.0.1:{scene.upstream.port}"
    assert verdict.startswith(f"The server behind, {address}, has been failing for ")
    assert "connection refused" in verdict
    assert problem.startswith("connection refused (since ")


@on_uvloop
async def test_a_change_that_is_refused(browser: Chrome) -> None:
    """It is red in the header and on its card, and the first line says it."""
    async with shown(browser) as (scene, tab):
        before = await tab.run("document.getElementById('refused').hidden")
        scene.process.health.report("configuration", "not in force: a.yaml:3: <b>spec</b>")
        await tab.until("!document.getElementById('refused').hidden")
        card = await tab.run("document.getElementById('configuration-problem').textContent")
        await tab.until(f"{SEVERITY} === 'error'")
        verdict = await tab.run(VERDICT)
        scene.process.health.report("configuration", None)
        await tab.until("document.getElementById('refused').hidden")

    assert before
    assert "not in force: a.yaml:3: <b>spec</b>" == card
    assert "The objects: not in force: a.yaml:3: <b>spec</b>" == verdict


TELL = """
fetch('debug/live').then((got) => got.json()).then((state) => {
  const member = { isAlike: true, isSilent: false, limit: 8, used: 0, demand: 0, age: 0 };
  state.fleet = {
    name: 'f', store: 'redis', state: 'held', problem: '', limit: 8, claims: 8, used: 0, age: 0,
    inForce: 4, memberCount: 2, lostAge: null,
    members: [
      { ...member, name: 'a', isSelf: true, claim: 4 },
      { ...member, name: 'b', isSelf: false, claim: 2 },
    ],
  };
  state.topFlows = [{
    flowSchema: 'everybody', priorityLevel: 'narrow', flow: 'key:370aed697dc503ae', kind: 'header',
    isWhole: true, seatSeconds: 1234.5, waitSeconds: 56.7, rejected: 0,
  }];
  const level = { waiting: 28, executing: 4, cancelled: 616, leftPerSecond: 5, condition: 'waits' };
  Object.assign(state.levels.find((each) => each.name === 'narrow'), level);
  state.seatFairFrac = 0.125;
  handlers.open();
  handlers.state({ data: JSON.stringify(state) });
})
""".strip()
SHOWN = """
(() => {
  const text = (id) => document.getElementById(id).textContent;
  const style = (selector) => getComputedStyle(document.querySelector(selector));
  const name = document.createRange();
  name.selectNodeContents(document.querySelector('#flow-rows .name'));
  return {
    requests: text('requests-text'),
    left: text('fact-left'),
    rejected: ROW.querySelector('td:nth-child(6)').textContent,
    given: text('fact-fair'),
    linesOfName: name.getClientRects().length,
    isClaimBorrowed: style('.fleet-table .bar .claim').backgroundColor
      === style('.legend .borrowed').backgroundColor,
    legend: document.querySelector('#fleet .legend').textContent.replace(/\\s+/g, ' ').trim(),
    width: document.documentElement.scrollWidth,
  };
})()
""".strip().replace("ROW", ROW)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1400])
def test_told(browser: Chrome, tmp_path: Path, width: int, theme: str) -> None:
    """A state with all that may be misread, and the level's requests out of sight."""
    folder = Path(os.environ.get("APFPROXY_SCREENSHOTS", tmp_path))

    @on_uvloop
    async def look() -> None:
        tab = Tab(browser)
        async with running(SETUP) as scene, tab.prepared(NO_EVENTS):
            await tab.open(
                f"http://127.0.0.1:{scene.process.admin_port}/", width=width, theme=theme
            )
            await tab.appear(width=width, theme=theme, height=300)
            await tab.until("handlers.state && innerHeight === 300")
            await tab.run(TELL)
            await tab.until(f"{ROW} !== null && document.querySelector('#flow-rows .name')")
            found = await tab.run(SHOWN)
            height = await tab.run("document.documentElement.scrollHeight")
            await tab.appear(width=width, theme=theme, height=height)
            await tab.until("true")
            await tab.screenshot(folder / f"told-{theme}-{width}.png")
            await tab.open("about:blank")

        assert {
            "requests": "28 wait, 4 execute",
            "left": "5/s",
            "rejected": "0616 left",
            "given": "12.5 % given",
            "linesOfName": 1,
            "isClaimBorrowed": False,
            "legend": "in use claim, to the scale of the largest",
            "width": width,
        } == found

    look()
