"""The live page in a browser, over a proxy with requests under way."""

from __future__ import annotations

import gc
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from selenium.webdriver.common.keys import Keys

from apfproxy.admin.live_feed import LiveFeed
from apfproxy.flowcontrol.dealer import Dealer
from apfproxy.settings import OBSERVE, Address, EndpointAddress
from tests.end_to_end.gateway import WHOLE, gateway
from tests.end_to_end.scene import NARROW, Scene, objects_of, on_uvloop, running
from tests.end_to_end.shown_page import (
    FULL,
    HAND_SIZE,
    LIVE,
    NO_EVENTS,
    QUEUES,
    ROW,
    SEATS,
    SETUP,
    SEVERITY,
    VERDICT,
    WAITING,
    ask_as,
    shown,
)
from tests.support.browser import Tab
from tests.support.clocks import until

if TYPE_CHECKING:
    from selenium.webdriver import Chrome


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


def hand_of(scene: Scene, user: str) -> list[int]:
    """The queues that the user's requests may use."""
    hash_ = scene.process.cluster.controller.flow_hash("everybody", user)
    return list(Dealer(QUEUES, HAND_SIZE).deal(hash_))


@on_uvloop
async def test_bars_move(browser: Chrome) -> None:
    """Seats in use and what waits are shown as they come and go."""
    async with shown(browser) as (scene, tab):
        idle = await tab.run(f"[{SEATS}, {WAITING}, {FULL}]")
        await ask_as(scene, "ann", 7)
        await tab.until(f"{SEATS} === 4 && {WAITING} === 3")
        busy = await tab.run(FULL)
        in_heat = await tab.run("document.getElementById('heat-cell').textContent")
        scene.close_clients()
        await tab.until(f"{SEATS} === 0 && {WAITING} === 0")
        again = await tab.run(FULL)

    assert [0, 0, 0] == idle
    assert 0.5 < busy
    assert f"{QUEUES} queues, " in in_heat
    assert 0 == again


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
async def test_levels_in_need_first(browser: Chrome) -> None:
    """A level that waits is first; idle ones are folded, until somebody asks for them."""
    rows = "[...document.querySelectorAll('#level-rows tr')]"
    names = f"{rows}.filter((row) => !row.hidden).map((row) => row.dataset.level)"
    async with shown(browser) as (scene, tab):
        fold = "document.getElementById('idle-levels')"
        idle = await tab.run(f"[{fold}.hidden, {names}]")
        await ask_as(scene, "ann", 9)
        await tab.until(f"!{fold}.hidden")
        folded = await tab.run(f"[{fold}.textContent, {names}]")
        await tab.run(f"{fold}.focus()")
        await tab.press(Keys.ENTER)
        await tab.until(f"{fold}.getAttribute('aria-expanded') === 'true'")
        unfolded = await tab.run(f"[{fold}.textContent, {names}]")
        exempt = await tab.run("document.querySelector('tr[data-level=exempt] .bar').hidden")

    assert [True, ["narrow", "catch-all", "exempt"]] == idle
    assert ["Show 2 idle levels", ["narrow"]] == folded
    assert ["Hide idle levels", ["narrow", "catch-all", "exempt"]] == unfolded
    assert exempt


@on_uvloop
async def test_requests_of_a_level(browser: Chrome) -> None:
    """The name of a level leads to what waits and executes there."""
    text = "document.getElementById('requests-text').textContent"
    async with shown(browser) as (scene, tab):
        await ask_as(scene, "<i>ann</i>", 7)
        await tab.until(f"{WAITING} === 3")
        await tab.run(f"{ROW}.querySelector('button.name').focus()")
        await tab.press(Keys.ENTER)
        told = await tab.until(f"{text}.includes('4 execute') && {text}")
        users = await tab.run(
            "[...document.querySelectorAll('#request-rows .name:not(.mono)')]"
            ".map((node) => node.textContent)"
        )
        level = await tab.run("document.getElementById('queue-level').value")
        scene.close_clients()
        await tab.until(f"{text} === 'Nothing waits or executes in this level.'")

    assert "3 wait, 4 execute" == told
    assert ["<i>ann</i>"] * 7 == users
    assert "narrow" == level


@on_uvloop
async def test_flow_schemas(browser: Chrome) -> None:
    """FlowSchemas are listed in order, with what matches them."""
    rows = "[...document.querySelectorAll('#schema-rows tr')]"
    async with shown(browser) as (scene, tab):
        await ask_as(scene, "ann", 3)
        matched = f"{rows}[1].querySelector('td:nth-child(4) b').textContent"
        await tab.until(f"{rows}.length === 3 && {matched} !== '0'")
        found = await tab.run(
            f"{rows}.map((row) => [...row.querySelectorAll('.name, .uid')]"
            ".map((node) => node.textContent))"
        )

    assert ["everybody", "UID 00000000-0000-0000-0000-00000000bbbb", "narrow"] == found[1]
    assert ["exempt", "everybody", "catch-all"] == [name for name, _, _ in found]


@on_uvloop
async def test_time_range(browser: Chrome) -> None:
    """The plots show as much as is chosen."""
    labels = "document.getElementById('range').selectedOptions[0].textContent"
    async with shown(browser) as (_scene, tab):
        usual = await tab.run(labels)
        plot = "document.querySelector('#plot-served canvas')"
        await tab.until(plot)
        await tab.run(f"window.before = {plot}")
        await tab.run("document.getElementById('range').focus()")
        await tab.press("15")
        await tab.until(f"{plot} !== null && {plot} !== window.before")
        chosen = await tab.run(labels)

    assert ("5 minutes", "15 minutes") == (usual, chosen)


@on_uvloop
async def test_above_the_fold(browser: Chrome) -> None:
    """What is wrong, who waits and who takes most are seen at first sight."""
    places = (
        "['verdict', 'seats-title', 'configuration-title', 'levels-title', 'flows-title']"
        ".map((id) => document.getElementById(id))"
        f".concat([{ROW}, document.querySelector('#flow-rows tr')])"
        ".map((node) => node.getBoundingClientRect().bottom)"
    )
    async with shown(browser, width=1400) as (scene, tab):
        (client,) = await ask_as(scene, "ann", 1)
        arrival = await scene.upstream.next_request()
        await arrival.peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        await client.read_answer()
        await tab.until("document.querySelector('#flow-rows tr') !== null")
        bottoms = await tab.run(places)

    assert max(bottoms) < 900


@on_uvloop
async def test_explain_and_hand(browser: Chrome) -> None:
    """The form, by keyboard alone, says what would happen and shows the flow's hand."""
    async with shown(browser) as (scene, tab):
        await ask_as(scene, "ann", 5)
        await tab.until(f"{WAITING} === 1")
        await tab.run("window.before = document.getElementById('heat').toDataURL()")
        await tab.run(PATH)
        await tab.run(FOCUS_USER)
        await tab.press("ann", Keys.ENTER)
        outcome = await tab.until(OUTCOME)
        facts = await tab.run("document.getElementById('explanation').textContent")
        hand = await tab.until(f"{HAND}.includes('is dealt') && {HAND}")
        await tab.until("document.getElementById('heat').toDataURL() !== window.before")
        expected = hand_of(scene, "ann")

    assert outcome.startswith("Waits in queue ")
    assert "everybody" in facts
    assert f"ann is dealt the queues {', '.join(map(str, expected))} of level narrow." == hand


@on_uvloop
async def test_until_the_first_state(browser: Chrome) -> None:
    """A page that has heard nothing claims nothing."""
    tab = Tab(browser)
    async with running(SETUP) as scene, tab.prepared(NO_EVENTS):
        await tab.open(f"http://127.0.0.1:{scene.process.admin_port}/")
        await tab.until("handlers.state && document.querySelector('#plot-served canvas')")
        before = await tab.run(SAID)
        await tab.run(FIRST_STATE)
        await tab.until(f"{ROW} !== null")
        after = await tab.run(SAID)
        await tab.open("about:blank")

    assert ["Connecting …"] * 4 == before
    assert [] == [text for text in after if "Connecting" in text]
    assert after[1].startswith("No flow has been seen yet; ")


@on_uvloop
async def test_groups_follow_the_user(browser: Chrome) -> None:
    """Who is named is authenticated, unless groups are typed."""
    async with shown(browser) as (_scene, tab):
        found = [await tab.run(GROUPS)]
        for user in ("ann", "system:anonymous", "bob"):
            await tab.run(FOCUS_USER)
            await tab.press(user)
            found.append(await tab.run(GROUPS))
        await tab.run("document.querySelector('[name=groups]').select()")
        await tab.press("system:masters")
        await tab.run(PATH)
        await tab.run(FOCUS_USER)
        await tab.press("carol", Keys.ENTER)
        outcome = await tab.until(OUTCOME)
        found.append(await tab.run("document.querySelector('[name=groups]').value"))

    known, unknown = "system:authenticated", "system:unauthenticated"
    assert [unknown, known, unknown, known, "system:masters"] == found
    assert outcome


@on_uvloop
async def test_hand_of_a_top_flow(browser: Chrome) -> None:
    """A flow that took seats is listed; its button shows its hand, and another hides it."""
    async with shown(browser) as (scene, tab):
        (client,) = await ask_as(scene, "b <i>ob</i>", 1)
        arrival = await scene.upstream.next_request()
        await arrival.peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        await client.read_answer()
        await tab.until("document.querySelector('#flow-rows button') !== null")
        name = await tab.run("document.querySelector('#flow-rows .name').textContent")
        await tab.run("document.querySelector('#flow-rows button').focus()")
        await tab.press(Keys.ENTER)
        hand = await tab.until(f"{HAND}.includes('is dealt') && {HAND}")
        await tab.run("document.getElementById('hand-clear').focus()")
        await tab.press(Keys.SPACE)
        cleared = await tab.until(f"!{HAND}.includes('is dealt') && {HAND}")
        expected = hand_of(scene, "b <i>ob</i>")

    assert "b <i>ob</i>" == name
    assert ", ".join(map(str, expected)) in hand
    assert cleared.startswith("Choose a flow")


@on_uvloop
async def test_hand_of_other_queues(browser: Chrome) -> None:
    """A hand that is shown is dealt again when the level has other queues, or is gone."""
    # The page may ask for the requests of a level of which it does not know yet that it is gone.
    async with shown(browser, allowed="debug/live/requests?priorityLevel=narrow") as (scene, tab):
        await tab.run(PATH)
        await tab.run(FOCUS_USER)
        await tab.press("ann", Keys.ENTER)
        await tab.until(f"{HAND}.includes('is dealt')")
        scene.configure(objects_of(NARROW))
        one = await tab.until(f"{HAND}.includes('queues 0 of') && {HAND}")
        scene.configure(objects_of(NARROW.replace("name: narrow", "name: other")))
        none = await tab.until(f"!{HAND}.includes('is dealt') && {HAND}")

    assert "ann is dealt the queues 0 of level narrow." == one
    assert "There is no level narrow any more." == none


@on_uvloop
async def test_hostile_names(browser: Chrome) -> None:
    """What would hide or turn round the text beside it is shown; of a cut name there is no hand."""
    turning = "ann\u202e\u200b"
    async with shown(browser) as (scene, tab):
        for user in (turning, "a" * 300):
            (client,) = await ask_as(scene, user, 1)
            arrival = await scene.upstream.next_request()
            await arrival.peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            await client.read_answer()
        await tab.until("document.querySelectorAll('#flow-rows tr').length === 2")
        rows = await tab.run(
            "Object.fromEntries([...document.querySelectorAll('#flow-rows tr')].map((row) =>"
            " [row.querySelector('.name').title, row.querySelector('button').disabled]))"
        )
        await tab.run("document.querySelector('#flow-rows button:enabled').click()")
        hand = await tab.until(f"{HAND}.includes('is dealt') && {HAND}")

    assert {"ann\\u202e\\u200b": False, "a" * 256: True} == rows
    assert hand.startswith("ann\\u202e\\u200b is dealt the queues ")


@on_uvloop
async def test_long_names_of_many_queues(browser: Chrome) -> None:
    """The longest name of a level leaves room for all else; of very many queues all are counted."""
    async with shown(browser, width=400) as (scene, tab):
        long = NARROW.replace("name: narrow", f"name: {'l' * 253}")
        scene.configure(objects_of(long.replace("queues: 1,", "queues: 5000,")))
        await tab.until("document.getElementById('heat-cell').textContent.startsWith('5,000')")
        await tab.until(
            "[...document.querySelectorAll('.chips button')].some((each) => each.title.length > 99)"
        )
        text = await tab.run("document.getElementById('heat-cell').textContent")
        beyond = await tab.run(
            "[...document.querySelectorAll('button, select, canvas, .name')]"
            ".filter((each) => each.getBoundingClientRect().right > innerWidth)"
            ".map((each) => each.outerHTML.slice(0, 100))"
        )

    assert "5,000 queues, 0 of the first 4,096 with something waiting, 0 requests in all" == text
    assert [] == beyond


@on_uvloop
async def test_a_clock_that_is_put_back(browser: Chrome) -> None:
    """What was before follows the clock, so that a plot's times go on growing."""
    async with shown(browser) as (_scene, tab):
        await tab.run(PUT_BACK)
        times, values = await tab.until("window.seconds")

    assert [98, 99, 100, 101] == times
    assert [5000, 5001, 100, 101] == values


@on_uvloop
async def test_numbers(browser: Chrome) -> None:
    """Durations and rates are in as many digits as people read."""
    async with shown(browser) as (_scene, tab):
        await tab.run(
            "import('/page/numbers.js').then(({ duration, rate }) => { window.said = ["
            "[0.0004, 0.045, 0.9994, 0.9996, 2.54, 59.4, 200, 7500, 100000]"
            ".map(duration).join(', '), "
            "[0, 0.034, 0.5, 2.54, 9.96, 1234.4].map(rate).join(', ')]; })"
        )
        durations, rates = await tab.until("window.said")

    assert "0.4 ms, 45 ms, 999 ms, 1 s, 2.5 s, 59 s, 3 min 20 s, 2 h 5 min, 1 d 3 h" == durations
    assert "0, 0.03, 0.5, 2.5, 10, 1,234" == rates


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


@on_uvloop
async def test_connection_lost(browser: Chrome) -> None:
    """When the proxy ends the page says so."""
    tab = Tab(browser)
    async with running(SETUP) as scene:
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


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 800, 1280, 1400])
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


@on_uvloop
async def test_a_page_that_is_left(browser: Chrome) -> None:
    """Who closes the page listens no more."""
    async with shown(browser) as (scene, tab):
        feeds = [each for each in gc.get_objects() if isinstance(each, LiveFeed)]
        is_heard = any(not each.is_empty for each in feeds)
        await tab.open("about:blank")
        await until(lambda: all(each.is_empty for each in feeds))
        await tab.open(f"http://127.0.0.1:{scene.process.admin_port}/")
        await tab.until(LIVE)

    assert is_heard


@on_uvloop
async def test_several_servers(browser: Chrome) -> None:
    """Where there are several servers behind, each has a line; with one there is no table."""
    lines = "[...document.querySelectorAll('#endpoint-rows th')].map((each) => each.textContent)"
    async with shown(browser, width=400) as (scene, tab):
        assert await tab.run("document.getElementById('endpoints').hidden")
        addresses = [Address(host="127.0.0.1", port=port) for port in (scene.upstream.port, 9)]
        pool = scene.process.cluster.served.pool
        pool.set_endpoints([EndpointAddress(address=each) for each in addresses])
        await tab.until(f"{lines}.length === 2")
        found = await tab.run(lines)
        width = await tab.run("document.documentElement.scrollWidth")

    assert [each.url for each in addresses] == found
    assert width == 400


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
