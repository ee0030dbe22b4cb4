"""The live page in a browser, over a proxy with requests under way."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from selenium.webdriver.common.keys import Keys

from apfproxy.admin.live_feed import LiveFeed
from apfproxy.flowcontrol.dealer import Dealer
from apfproxy.flowcontrol.limit_finder import Load
from apfproxy.settings import AUTO_SEATS, HTTP_API, OBSERVE, Address, EndpointAddress
from tests.end_to_end.gateway import WHOLE, gateway
from tests.end_to_end.scene import (
    GET,
    NARROW,
    TRUSTED,
    Scene,
    Setup,
    objects_of,
    on_uvloop,
    running,
)
from tests.support.browser import Tab
from tests.support.clocks import until

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
HAND = "document.getElementById('hand-text').textContent"
FOCUSED = "document.activeElement"
OUTCOME = "document.getElementById('outcome').textContent"
OVERFLOWING = """
[...document.querySelectorAll('td.number b, td.number small, .levels th .name')]
  .filter((node) => node.scrollWidth > node.clientWidth).map((node) => node.textContent)
""".strip()
PUT_BACK = """
import('/page/history.js').then(({ History }) => {
  const history = new History();
  const second = (time) => ({ times: [time], levels: { a: { waiting: [time] } } });
  for (const time of [5000, 5001, 100, 101]) history.add(second(time));
  window.seconds = [history.times, history.levels.get('a').waiting];
})
""".strip()
GROUPS = "document.querySelector('[name=groups]').placeholder"
FOCUS_USER = "document.querySelector('[name=user]').select()"
PATH = "document.querySelector('[name=path]').value = '/api/v1/namespaces/default/pods'"
SAID = """
['heat-cell', 'flows-none', 'events-none', 'verdict-text']
  .map((id) => document.getElementById(id).textContent)
""".strip()
FIRST_STATE = """
fetch('debug/live').then((got) => got.text()).then((data) => handlers.state({ data }))
""".strip()


@contextlib.asynccontextmanager
async def shown(
    browser: Chrome,
    *,
    width: int = 1280,
    theme: str = "light",
    allowed: str = "\n",
    setup: Setup = SETUP,
) -> AsyncIterator[tuple[Scene, Tab]]:
    """A proxy, and its page open and live; at the end the page is left, and has no errors.

    But for those that are allowed: with such a text in them.
    """
    tab = Tab(browser)
    async with running(setup) as scene:
        await tab.open(f"http://127.0.0.1:{scene.process.admin_port}/", width=width, theme=theme)
        await tab.until(f"{LIVE} && {ROW} !== null")
        yield scene, tab
        errors = [each for each in await tab.errors() if allowed not in each]
        await tab.open("about:blank")
    assert [] == errors


async def ask_as(scene: Scene, user: str, requests: int) -> list[Peer]:
    request = GET.replace(b"\r\n\r\n", f"\r\nX-Remote-User: {user}\r\n\r\n".encode())
    return [await scene.ask(request, source=TRUSTED) for _ in range(requests)]


def hand_of(scene: Scene, user: str) -> str:
    hash_ = scene.process.cluster.controller.flow_hash("everybody", user)
    return ", ".join(map(str, Dealer(QUEUES, HAND_SIZE).deal(hash_)))


async def be_served(scene: Scene, user: str) -> None:
    (client,) = await ask_as(scene, user, 1)
    arrival = await scene.upstream.next_request()
    await arrival.peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    await client.read_answer()


async def explain(tab: Tab, user: str) -> str:
    """Fill in the form by keyboard; the outcome."""
    await tab.run(PATH)
    await tab.run(FOCUS_USER)
    await tab.press(user, Keys.ENTER)
    outcome: str = await tab.until(OUTCOME)
    return outcome


@on_uvloop
async def test_requests_that_come_and_go(browser: Chrome) -> None:
    """Bars, verdict, levels in need, FlowSchemas and requests follow."""
    rows = "[...document.querySelectorAll('#level-rows tr')]"
    names = f"{rows}.filter((row) => !row.hidden).map((row) => row.dataset.level)"
    fold = "document.getElementById('idle-levels')"
    schemas = "[...document.querySelectorAll('#schema-rows tr')]"
    matched = f"{schemas}[1].querySelector('td:nth-child(4) b').textContent"
    requests = "document.getElementById('requests-text').textContent"
    cells = (
        "(selector) => (row) => [...row.querySelectorAll(selector)].map((node) => node.textContent)"
    )
    well = "All is well: no requests just now, nothing waits"
    async with shown(browser) as (scene, tab):
        # A machine that is busy makes the proxy late, which the first line says at any time.
        await tab.until(f"{SEVERITY} === 'ok' && {VERDICT}.startsWith('{well}')")
        assert [0, 0, 0] == await tab.run(f"[{SEATS}, {WAITING}, {FULL}]")
        assert [True, ["narrow", "catch-all", "exempt"]] == await tab.run(
            f"[{fold}.hidden, {names}]"
        )
        await ask_as(scene, "<i>ann</i>", 12)
        await tab.until(f"{SEATS} === 4 && {WAITING} === 8")
        severity, verdict = await tab.until(
            f"{VERDICT}.startsWith('8 wait') && [{SEVERITY}, {VERDICT}]"
        )
        assert "warning" == severity
        assert verdict.startswith("8 wait in narrow")
        assert 'user "<i>ann</i>" holds 4 of the level\'s 4 seats' in verdict
        assert 0.5 < await tab.run(FULL)
        heat = "document.getElementById('heat-cell').textContent"
        assert f"{QUEUES} queues, " in await tab.run(heat)

        await tab.until(f"!{fold}.hidden")
        shows = f"[{fold}.textContent, {names}]"
        assert ["Show 2 idle levels", ["narrow"]] == await tab.run(shows)
        await tab.run(f"{fold}.focus()")
        await tab.press(Keys.ENTER)
        await tab.until(f"{fold}.getAttribute('aria-expanded') === 'true'")
        unfolded = ["Hide idle levels", ["narrow", "catch-all", "exempt"]]
        assert unfolded == await tab.run(shows)
        assert await tab.run("document.querySelector('tr[data-level=exempt] .bar').hidden")

        await tab.until(f"{schemas}.length === 3 && {matched} !== '0'")
        found = await tab.run(f"{schemas}.map(({cells})('.name, .uid'))")
        assert ["everybody", "UID 00000000-0000-0000-0000-00000000bbbb", "narrow"] == found[1]
        assert ["exempt", "everybody", "catch-all"] == [name for name, _, _ in found]

        await tab.run(f"{ROW}.querySelector('button.name').focus()")
        await tab.press(Keys.ENTER)
        assert "8 wait, 4 execute" == await tab.until(
            f"{requests}.includes('4 execute') && {requests}"
        )
        users = "[...document.querySelectorAll('#request-rows .name:not(.mono)')]"
        shown_users = await tab.run(f"{users}.map((node) => node.textContent)")
        assert {"<i>ann</i>"} == set(shown_users)
        assert "narrow" == await tab.run("document.getElementById('queue-level').value")

        scene.close_clients()
        await tab.until(f"{SEATS} === 0 && {WAITING} === 0 && {FULL} === 0")
        await tab.until(f"{SEVERITY} === 'ok'")
        await tab.until(f"{requests} === 'Nothing waits or executes in this level.'")


@on_uvloop
async def test_explain_and_hand(browser: Chrome) -> None:
    """The form, by keyboard alone, says what would happen and shows the flow's hand."""
    async with shown(browser) as (scene, tab):
        await ask_as(scene, "<i>ann</i>", 5)
        await tab.until(f"{WAITING} === 1")
        await tab.run("window.before = document.getElementById('heat').toDataURL()")
        outcome = await explain(tab, "<i>ann</i>")
        assert outcome.startswith("Waits in queue ")
        assert "everybody" in await tab.run("document.getElementById('explanation').textContent")
        hand = await tab.until(f"{HAND}.includes('is dealt') && {HAND}")
        expected = hand_of(scene, "<i>ann</i>")
        assert f"<i>ann</i> is dealt the queues {expected} of level narrow." == hand
        await tab.until("document.getElementById('heat').toDataURL() !== window.before")


@on_uvloop
async def test_what_would_be(browser: Chrome) -> None:
    """Where flow control only observes the page says what would be."""
    heads = "[...document.querySelectorAll('.levels thead th')].map((each) => each.textContent)"
    tab = Tab(browser)
    async with running(replace(SETUP, enforcement=OBSERVE)) as scene:
        await tab.open(f"http://127.0.0.1:{scene.process.admin_port}/")
        await tab.until(f"{LIVE} && {ROW} !== null")
        found = await tab.run(heads)
        is_said = await tab.run("!document.getElementById('enforcement').hidden")
        await tab.open("about:blank")

    assert ["Would wait", "Would serve/s", "Would reject/s"] == found[3:]
    assert is_said


@on_uvloop
async def test_top_flows(browser: Chrome) -> None:
    """Flows are listed, and seen at first sight; a button shows the hand of one.

    What would hide or turn round the text beside it is shown; of a cut name there is no hand.
    """
    places = (
        "['verdict', 'seats-title', 'configuration-title', 'levels-title', 'flows-title']"
        ".map((id) => document.getElementById(id))"
        f".concat([{ROW}, document.querySelector('#flow-rows tr')])"
        ".map((node) => node.getBoundingClientRect().bottom)"
    )
    button = (
        "[...document.querySelectorAll('#flow-rows tr')]"
        ".find((row) => row.textContent.includes('ob<')).querySelector('button')"
    )
    async with shown(browser, width=1400) as (scene, tab):
        for user in ("b <i>ob</i>", "ann\u202e\u200b", "a" * 300):
            await be_served(scene, user)
        await tab.until("document.querySelectorAll('#flow-rows tr').length === 3")
        bottoms = await tab.run(places)
        rows = await tab.run(
            "Object.fromEntries([...document.querySelectorAll('#flow-rows tr')].map((row) =>"
            " [row.querySelector('.name').textContent, row.querySelector('button').disabled]))"
        )
        await tab.run(f"{button}.focus()")
        await tab.press(Keys.ENTER)
        hand = await tab.until(f"{HAND}.includes('is dealt') && {HAND}")
        await tab.run("document.getElementById('hand-clear').focus()")
        await tab.press(Keys.SPACE)
        cleared = await tab.until(f"!{HAND}.includes('is dealt') && {HAND}")
        expected = hand_of(scene, "b <i>ob</i>")
        await tab.run(f"{button}.nextSibling.click()")
        command = await tab.run(
            f"{button}.closest('tr').querySelector('code:not([hidden])').innerText"
        )
        stoppable = await tab.run(
            "[...document.querySelectorAll('#flow-rows button + button:not([hidden])')].length"
        )

    assert max(bottoms) < 900
    assert 1 == stoppable
    assert command.startswith("apfproxy ban --for 10m 'b <i>ob</i>' # put what it prints where ")
    assert {"b <i>ob</i>": False, "ann\\u202e\\u200b": False, "a" * 256: True} == rows
    assert expected in hand
    assert cleared.startswith("Choose a flow")


@on_uvloop
async def test_other_objects_and_servers(browser: Chrome) -> None:
    """A hand is dealt again when the level has other queues, or is gone; long names leave room."""
    lines = "[...document.querySelectorAll('#endpoint-rows th')].map((each) => each.textContent)"
    heat = "document.getElementById('heat-cell').textContent"
    # The page may ask for the requests of a level of which it does not know yet that it is gone.
    allowed = "debug/live/requests?priorityLevel=narrow"
    async with shown(browser, width=400, allowed=allowed) as (scene, tab):
        await explain(tab, "ann")
        await tab.until(f"{HAND}.includes('is dealt')")
        scene.configure(objects_of(NARROW))
        one = await tab.until(f"{HAND}.includes('queues 0 of') && {HAND}")
        long = NARROW.replace("name: narrow", f"name: {'l' * 253}")
        scene.configure(objects_of(long.replace("queues: 1,", "queues: 5000,")))
        none = await tab.until(f"!{HAND}.includes('is dealt') && {HAND}")
        await tab.until(f"{heat}.startsWith('5,000')")
        await tab.until(
            "[...document.querySelectorAll('.chips button')].some((each) => each.title.length > 99)"
        )
        text = await tab.run(heat)
        assert await tab.run("document.getElementById('endpoints').hidden")
        addresses = [Address(host="127.0.0.1", port=port) for port in (scene.upstream.port, 9)]
        pool = scene.process.cluster.served.pool
        pool.set_endpoints([EndpointAddress(address=each) for each in addresses])
        await tab.until(f"{lines}.length === 2")
        servers = await tab.run(lines)
        width = await tab.run("document.documentElement.scrollWidth")
        beyond = await tab.run(
            "[...document.querySelectorAll('button, select, canvas, .name')]"
            ".filter((each) => each.getBoundingClientRect().right > innerWidth)"
            ".map((each) => each.outerHTML.slice(0, 100))"
        )

    assert "ann is dealt the queues 0 of level narrow." == one
    assert "There is no level narrow any more." == none
    assert "5,000 queues, 0 of the first 4,096 with something waiting, 0 requests in all" == text
    assert ([each.url for each in addresses], 400, []) == (servers, width, beyond)


@on_uvloop
async def test_form_range_and_numbers(browser: Chrome) -> None:
    """A user has groups unless some are typed; plots show the chosen time, also of a late clock.

    Durations and rates have as many digits as people read.
    """
    chosen = "document.getElementById('range').selectedOptions[0].textContent"
    plot = "document.querySelector('#plot-served canvas')"
    async with shown(browser) as (_scene, tab):
        groups = [await tab.run(GROUPS)]
        for user in ("ann", "system:anonymous", "bob"):
            await tab.run(FOCUS_USER)
            await tab.press(user)
            groups.append(await tab.run(GROUPS))
        await tab.run("document.querySelector('[name=groups]').select()")
        await tab.press("system:masters")
        outcome = await explain(tab, "carol")
        groups.append(await tab.run("document.querySelector('[name=groups]').value"))

        ranges = [await tab.run(chosen)]
        await tab.until(plot)
        await tab.run(f"window.before = {plot}")
        await tab.run("document.getElementById('range').focus()")
        await tab.press("15")
        await tab.until(f"{plot} !== null && {plot} !== window.before")
        ranges.append(await tab.run(chosen))

        await tab.run(PUT_BACK)
        put_back = await tab.until("window.seconds")
        await tab.run(
            "import('/page/numbers.js').then(({ duration, rate }) => { window.said = ["
            "[0.0004, 0.045, 0.9994, 0.9996, 2.54, 59.4, 200, 7500, 100000]"
            ".map(duration).join(', '), "
            "[0, 0.034, 0.5, 2.54, 9.96, 1234.4].map(rate).join(', ')]; })"
        )
        durations, rates = await tab.until("window.said")

    known, unknown = "system:authenticated", "system:unauthenticated"
    assert [unknown, known, unknown, known, "system:masters"] == groups
    assert outcome
    assert ["5 minutes", "15 minutes"] == ranges
    assert [[98, 99, 100, 101], [5000, 5001, 100, 101]] == put_back
    assert "0.4 ms, 45 ms, 999 ms, 1 s, 2.5 s, 59 s, 3 min 20 s, 2 h 5 min, 1 d 3 h" == durations
    assert "0, 0.03, 0.5, 2.5, 10, 1,234" == rates


@on_uvloop
async def test_until_the_first_state(browser: Chrome) -> None:
    """A page that has heard nothing claims nothing; screen readers are told changes."""
    tab = Tab(browser)
    shows = [
        ("ok", "all is well"),
        ("warning", "8 wait"),
        ("warning", "9 wait"),
        ("ok", "all well"),
    ]
    async with running(SETUP) as scene, tab.prepared(NO_EVENTS):
        await tab.open(f"http://127.0.0.1:{scene.process.admin_port}/")
        await tab.until("handlers.state && document.querySelector('#plot-served canvas')")
        before = await tab.run(SAID)
        told = [
            await tab.run(
                f"import('/page/verdict.js').then(({{ showVerdict }}) => {{"
                f" showVerdict([{{ severity: '{severity}', text: '{text}' }}]);"
                " return document.getElementById('verdict-said').textContent; })"
            )
            for severity, text in shows
        ]
        await tab.run(FIRST_STATE)
        await tab.until(f"{ROW} !== null")
        after = await tab.run(SAID)
        await tab.open("about:blank")

    assert ["Connecting …"] * 4 == before
    assert ["All is well", "Warning: 8 wait", "Warning: 8 wait", "All well"] == told
    assert [] == [text for text in after if "Connecting" in text]
    assert after[1].startswith("No flow has been seen yet; ")


@on_uvloop
async def test_problems(browser: Chrome) -> None:
    """The first line names an upstream that is gone, and a change that is refused."""
    state = "document.getElementById('server-state')"
    async with shown(browser) as (scene, tab):
        await be_served(scene, "ann")
        await tab.until(f"{state}.dataset.state === 'up'")
        assert await tab.run("document.getElementById('refused').hidden")
        scene.process.health.report("configuration", "not in force: a.yaml:3: <b>spec</b>")
        await tab.until("!document.getElementById('refused').hidden")
        card = await tab.run("document.getElementById('configuration-problem').textContent")
        await tab.until(f"{SEVERITY} === 'error'")
        refused = await tab.run(VERDICT)
        scene.process.health.report("configuration", None)
        await tab.until("document.getElementById('refused').hidden")

        await scene.upstream.stop()
        for _ in range(5):
            (client,) = await ask_as(scene, "ann", 1)
            await client.read_answer()
        await tab.until(f"{state}.dataset.state === 'failing' && {SEVERITY} === 'error'")
        gone = await tab.run(VERDICT)
        problem = await tab.run("document.getElementById('server-problem').textContent")
        failed = f"{ROW}.querySelector('td:nth-child(5) small').textContent"
        await tab.until(f"{failed}.endsWith('/s failed')")

    assert "not in force: a.yaml:3: <b>spec</b>" == card
    assert "The objects: not in force: a.yaml:3: <b>spec</b>" == refused
    address = f"http://127.0.0.1:{scene.upstream.port}"
    assert gone.startswith(f"The server behind, {address}, has been failing for ")
    assert "connection refused" in gone
    assert problem.startswith("connection refused (since ")


@on_uvloop
async def test_connection_lost(browser: Chrome) -> None:
    """A page that is closed listens no more; when the proxy ends the page says so."""
    tab = Tab(browser)
    async with running(SETUP) as scene:
        await tab.open(f"http://127.0.0.1:{scene.process.admin_port}/")
        await tab.until(LIVE)
        feeds = [each for each in gc.get_objects() if type(each) is LiveFeed]
        assert any(not each.is_empty for each in feeds)
        await tab.open("about:blank")
        await until(lambda: all(each.is_empty for each in feeds))
        await tab.open(f"http://127.0.0.1:{scene.process.admin_port}/")
        await tab.until(LIVE)
    state = await tab.until(
        "document.getElementById('connection').dataset.state !== 'live'"
        " && document.getElementById('connection').dataset.state"
    )
    await tab.run(PATH)
    await tab.run("document.getElementById('explain').requestSubmit()")
    outcome = await tab.until(OUTCOME)
    await tab.open("about:blank")

    assert state in {"lost", "connecting"}
    assert "The proxy cannot be reached." == outcome


@on_uvloop
async def test_keyboard(browser: Chrome) -> None:
    """All that can be done is reached by Tab, shows that it has the focus, and has a name."""
    visited = []
    async with shown(browser) as (_scene, tab):
        await tab.run("document.body.focus(), window.visited = new Set()")
        while True:
            await tab.press(Keys.TAB)
            # By the element: a level and its plots may have one name.
            is_known = await tab.run(
                f"window.visited.has({FOCUSED}) || !window.visited.add({FOCUSED})"
            )
            found = await tab.run(
                f"[{FOCUSED}.id || {FOCUSED}.name || {FOCUSED}.textContent,"
                f" getComputedStyle({FOCUSED}).outlineStyle,"
                f" Boolean({FOCUSED}.getAttribute('aria-label') || {FOCUSED}.textContent.trim()"
                f" || {FOCUSED}.labels?.length)]"
            )
            if is_known or found[0] == "state as JSON":
                break
            visited.append(found)
        await tab.run("document.getElementById('heat').focus()")
        await tab.press(Keys.HOME, Keys.ARROW_RIGHT)
        looked = await tab.until("document.getElementById('heat-said').textContent")
        await tab.run("document.getElementById('pause').focus()")
        await tab.press(Keys.SPACE)
        paused = await tab.until("document.getElementById('connection-text').textContent")
        stale = await tab.until(f"{SEVERITY} === 'unknown' && {VERDICT}")
        await tab.press(Keys.SPACE)
        await tab.until(LIVE)
    names = [name for name, _, _ in visited]

    wanted = {
        "pause",
        "own-scale",
        "range",
        "queue-level",
        "heat",
        "method",
        "path",
        "user",
        "groups",
    }
    assert set() == wanted - set(names)
    assert [] == [name for name, outline, _ in visited if outline == "none"]
    assert [] == [name for name, _, has_name in visited if not has_name]
    assert "Queue 1: 0 waiting, 0 seats in use" == looked
    assert "paused" == paused
    assert stale.startswith("Paused: all below is of ")


@pytest.mark.parametrize(("width", "theme"), [(400, "light"), (1400, "dark")])
def test_appearance(browser: Chrome, tmp_path: Path, width: int, theme: str) -> None:
    """Nothing is wider than the screen; screenshots are kept where APFPROXY_SCREENSHOTS says."""
    folder = Path(os.environ.get("APFPROXY_SCREENSHOTS", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"live-{theme}-{width}.png"

    @on_uvloop
    async def look() -> None:
        async with shown(browser, width=width, theme=theme) as (scene, tab):
            for number, user in enumerate(("ann", "bob", "carol", "dave")):
                await ask_as(scene, user, 2 + 3 * number)
            await until(lambda: scene.level().queue_set.requests_waiting == 22)
            await tab.until(f"{WAITING} === 22 && document.querySelector('.chips button')")
            await tab.run("document.querySelector('[name=user]').value = 'ann'")
            await tab.run(PATH)
            await tab.run("document.getElementById('explain').requestSubmit()")
            await tab.until(f"{HAND}.includes('is dealt')")
            size = "document.documentElement.scrollWidth"
            scroll_width = await tab.run(size)
            overflowing = await tab.run(OVERFLOWING)
            height = await tab.run("document.documentElement.scrollHeight")
            await tab.appear(width=width, theme=theme, height=height)
            await tab.until("true")
            await tab.screenshot(path)
            ground = await tab.run("getComputedStyle(document.body).backgroundColor")
            assert width == scroll_width
            assert [] == overflowing
            assert ("dark" == theme) == (ground == "rgb(15, 19, 24)")

    look()
    assert b"\x89PNG" == path.read_bytes()[:4]


COUNTED = replace(
    SETUP,
    preset=HTTP_API,
    objects=NARROW.replace("{name: narrow, uid", "{name: narrow, annotations: {COST}, uid").replace(
        "COST", '"apfproxy.io/cost": tokens'
    ),
)
ASK = (
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nX-Api-Key: team-a\r\n"
    b"Content-Length: 18\r\n\r\n"
    b'{"max_tokens": 90}'
)
TOKENS = "[...document.querySelectorAll('#token-rows td')].map((cell) => cell.innerText)"
USAGE = b'data: {"usage": {"prompt_tokens": 21, "completion_tokens": 70}}\n\n'


@pytest.mark.parametrize(("width", "theme"), [(400, "light"), (1400, "dark")])
def test_tokens(browser: Chrome, tmp_path: Path, width: int, theme: str) -> None:
    """Streams, tokens and their times show by level and flow, and only where they are counted."""
    path = Path(os.environ.get("APFPROXY_SCREENSHOTS", tmp_path)) / f"tokens-{theme}-{width}.png"
    is_hidden = "document.getElementById('tokens').hidden"
    plot = "document.querySelector('#plot-tokens canvas')"
    flow = "document.querySelector('#flow-rows tr')?.innerText"

    @on_uvloop
    async def look() -> None:
        async with shown(browser, width=width, theme=theme, setup=COUNTED) as (scene, tab):
            was_hidden = await tab.run(is_hidden)
            holds = [await scene.take_seat(ASK) for _ in range(2)]
            for hold in holds:
                await hold.arrival.peer.send(
                    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
                )
            for _ in range(10):
                for hold in holds:
                    await hold.arrival.peer.send(b"data: {}\n\n")
                await asyncio.sleep(0.05)
            await tab.until(f"!{is_hidden} && {plot} !== null")
            await holds[0].arrival.peer.send(USAGE)
            holds[0].arrival.peer.close()
            await tab.until(f"{TOKENS}[0].includes('1 ended') && {flow}.includes('80')")
            cells = await tab.run(TOKENS)
            sizes = await tab.run("[document.documentElement.scrollWidth, " + OVERFLOWING + "]")
            height = await tab.run("document.documentElement.scrollHeight")
            await tab.appear(width=width, theme=theme, height=height)
            await tab.until("true")
            await tab.screenshot(path)
            assert was_hidden
            assert [width, []] == sizes
            assert ["1", "1 ended"] == cells[0].split("\n")
            assert "80 in all" == cells[1].split("\n")[1]
            assert "21 in all" == cells[2].split("\n")[1]
            assert "p99 " in cells[3]
            assert "p99 " in cells[5]

    look()
    assert b"\x89PNG" == path.read_bytes()[:4]


@on_uvloop
async def test_limit_that_is_found(browser: Chrome) -> None:
    """The page says the limit, draws the curve and the limit over time, and lists decisions."""
    text = "document.getElementById('limit-text').textContent"
    messages = "[...document.querySelectorAll('#limit-decisions .message')]"
    plots = "document.querySelectorAll('#limit canvas').length"
    async with shown(browser, setup=replace(SETUP, seats=AUTO_SEATS)) as (scene, tab):
        await tab.until(f"{text} === '100 seats, searching for a better one' && {plots} === 2")
        assert scene.process.cluster.found_limit is not None
        finder = scene.process.cluster.found_limit.finder
        end_s = asyncio.get_running_loop().time()
        for look in range(300):  # a server that does no more from 20 seats on
            count, taken_s = 5.0 * min(finder.limit, 20), 0.1 * finder.limit
            load = Load(0.1, finder.limit, True, {("get", "pods", 3): (count, taken_s)})
            finder.look(end_s - 30 + 0.1 * look, load)
        await tab.until(f"{text}.startsWith('{finder.limit} seats, ')")
        listed = await tab.run(f"{messages}.map((each) => each.textContent)")
        (note,) = scene.process.cluster.explanation("target=/api/v1/pods").notes

    assert note.startswith(f"the limit finds itself: {finder.limit} seats")
    assert [each.reason for each in reversed(finder.decisions)] == listed


@on_uvloop
async def test_several_clusters(browser: Chrome, tmp_path: Path) -> None:
    """The overview has a line for each cluster, which leads to the cluster's own page."""
    good = [{"name": name, "hosts": [f"{name}.test"]} for name in "ab"]
    bad = {"name": "bad", "hosts": ["bad.test"], "upstream": {"url": "ftp://x"}}
    whole = WHOLE.replace("admin: null", 'admin: "127.0.0.1:0"')
    names = "[...document.querySelectorAll('#cluster-rows a')].map((each) => each.textContent)"
    tab = Tab(browser)
    async with gateway(tmp_path, *good, bad, whole=whole) as scene:
        await tab.open(f"http://127.0.0.1:{scene.process.admin_port}/", width=400)
        await tab.until(f"{names}.length === 3")
        found = await tab.run(names)
        width = await tab.run("document.documentElement.scrollWidth")
        await tab.run("document.querySelector('#cluster-rows a[href*=\"/a/\"]').click()")
        await tab.until(f"document.getElementById('cluster').textContent === 'a' && {LIVE}")
        errors = await tab.errors()
        await tab.open("about:blank")

    assert (["bad", "a", "b"], 400, []) == (found, width, errors)
