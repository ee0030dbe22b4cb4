"""The live page's files, state and events, asked for over HTTP."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from apfproxy.admin import live_feed, live_page
from apfproxy.admin.admin import build_admin_app
from apfproxy.admin.live_history import LiveHistory
from apfproxy.admin.live_state import LiveInputs
from apfproxy.admin.responses import PAGE, wants_page
from apfproxy.base.health_checks import HealthRegistry
from apfproxy.objects.types import QueuingConfiguration
from loadtest.objects import flow_schema, group_subject, priority_level
from tests.admin.scene import WALL_OFFSET_NS, Scene

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from aiohttp import ClientResponse
    from aiohttp.web import Application, Request

    Client = TestClient[Request, Application]

BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
FLOW = {
    "flowSchema": "all",
    "priorityLevel": "wide",
    "flow": "ann",
    "seatSeconds": 1.0,
    "waitSeconds": 0.0,
    "rejected": 0,
}


class Flows:
    """Top flows that count how often they are asked for."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self) -> list[Mapping[str, Any]]:
        """One flow."""
        self.asked += 1
        return [FLOW]


@pytest.fixture
def scene() -> Scene:
    """A level with queues, and one that rejects."""
    queuing = QueuingConfiguration(queues=64, hand_size=6, queue_length_limit=10)
    return Scene(
        (
            priority_level("wide", queuing=queuing),
            priority_level("hard"),
            priority_level(
                "one", queuing=QueuingConfiguration(queues=1, hand_size=1, queue_length_limit=1)
            ),
            flow_schema("all", "wide", group_subject("everyone")),
        )
    )


@pytest.fixture
def flows() -> Flows:
    """The top flows of the page."""
    return Flows()


@pytest.fixture
async def client(scene: Scene, flows: Flows) -> AsyncIterator[Client]:
    """Talks to the admin listener of the scene."""
    app = build_admin_app(
        scene.controller,
        scene.scrape,
        HealthRegistry(),
        lambda: WALL_OFFSET_NS,
        live_inputs=LiveInputs(top_flows=flows),
    )
    async with TestClient(TestServer(app)) as client:
        yield client


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        pytest.param(BROWSER["Accept"], True, id="browser"),
        pytest.param("*/*", False, id="curl"),
        pytest.param("", False, id="none"),
        pytest.param("application/json", False, id="json"),
        pytest.param("text/html;q=0", False, id="refused"),
    ],
)
def test_wants_page(accept: str, expected: bool) -> None:
    """Only who names HTML gets it."""
    assert expected == wants_page(accept)


async def test_page(client: Client) -> None:
    """A browser gets the page, which may load and run its own files alone."""
    response = await client.get("/", headers=BROWSER)
    policy = response.headers["Content-Security-Policy"]

    assert (200, "text/html") == (response.status, response.content_type)
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    assert "Accept" in response.headers["Vary"]
    assert "nosniff" == response.headers["X-Content-Type-Options"]


class Addresses(HTMLParser):
    """Finds what a page loads, and what its policy would not let run."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.inline: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Look at one element."""
        for name, value in attrs:
            if (tag, name) in {("script", "src"), ("link", "href")}:
                self.addresses.append(value or "")
            if name == "style" or name.startswith("on"):
                self.inline.append(f"{tag} {name}")
        if tag == "style" or (tag == "script" and not dict(attrs).get("src")):
            self.inline.append(tag)


async def test_files_of_the_page(client: Client) -> None:
    """All that the page names is served from here, and nothing in it is inline."""
    found = Addresses()
    found.feed(await (await client.get("/", headers=BROWSER)).text())
    modules = {
        f"page/{name}"
        for path in PAGE.glob("*.js")
        for name in re.findall(r'(?:from |import\()"\./([^"]+)"', path.read_text())
    }
    statuses = {
        address: (await client.get(f"/{address}")).status
        for address in {*found.addresses, *modules}
    }

    assert [] == found.inline
    assert "page/main.js" in statuses
    assert "page/vendor/uPlot.esm.js" in statuses
    assert {200} == set(statuses.values())


def test_tables_have_names() -> None:
    """Who hears the page is told what each table shows."""
    page = (PAGE / "index.html").read_text()
    tables = re.findall(r"<table[^>]*>", page)
    names = [re.search(r'aria-labelledby="([^"]+)"', table) for table in tables]

    expected = [
        f"{part}-title" for part in ("endpoints", "fleet", "levels", "flows", "queues", "schemas")
    ]

    assert expected == [name and name[1] for name in names]
    assert all(f'id="{name[1]}"' in page for name in names if name)


def test_markup_is_never_made_of_text() -> None:
    """No script of the page has a way to turn text into markup."""
    ways = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|Function\(")
    found = {path.name: ways.findall(path.read_text()) for path in PAGE.glob("*.js")}

    assert {name: [] for name in found} == found
    assert "main.js" in found


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("nothing.js", id="unknown"),
        pytest.param("vendor/LICENSE.uPlot", id="licence"),
        pytest.param("..%2Flive_page.py", id="above"),
        pytest.param("%2Fetc%2Fpasswd", id="absolute"),
    ],
)
async def test_other_files(client: Client, path: str) -> None:
    """Nothing but the page's files is there."""
    response = await client.get(f"/page/{path}")

    assert 404 == response.status


async def test_unchanged_file(client: Client) -> None:
    """A browser that has a file already gets it no more."""
    first = await client.get("/page/main.js")
    again = await client.get("/page/main.js", headers={"If-None-Match": first.headers["ETag"]})
    other = await client.get("/page/main.js", headers={"If-None-Match": '"0"'})

    assert [200, 304, 200] == [first.status, again.status, other.status]
    assert b"" == await again.read()
    assert "no-cache" == again.headers["Cache-Control"]


async def test_state(client: Client) -> None:
    """The state can be had once."""
    state = await (await client.get("/debug/live")).json()

    assert ["catch-all", "exempt", "hard", "one", "wide"] == [
        each["name"] for each in state["levels"]
    ]
    assert [{**FLOW, "kind": "user", "isWhole": True}] == state["topFlows"]
    assert ["ok"] == [each["severity"] for each in state["verdict"]]
    assert {"time", "serverConcurrencyLimit", "seatFairFrac", "enforcement"} < state.keys()


async def test_top_flows_are_made_seldom(
    client: Client, flows: Flows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are made anew when they are old, not for each state."""
    monkeypatch.setattr(live_page, "RECENT_NS", 1 << 62)
    for _ in range(3):
        await client.get("/debug/live")
    seldom = flows.asked
    monkeypatch.setattr(live_page, "RECENT_NS", 0)
    await client.get("/debug/live")

    assert (1, 2) == (seldom, flows.asked)


@pytest.mark.parametrize(
    ("level", "flow", "size"),
    [
        pytest.param("wide", "ann", 6, id="queues"),
        pytest.param("one", "ann", 1, id="one-queue"),
        pytest.param("hard", "ann", 0, id="rejects"),
        pytest.param("exempt", "", 0, id="exempt"),
    ],
)
async def test_hand(client: Client, level: str, flow: str, size: int) -> None:
    """A hand has as many queues as the level deals."""
    query = {"priorityLevel": level, "flowSchema": "all", "flow": flow}
    answer = await (await client.get("/debug/live/hand", params=query)).json()

    assert (level, size) == (answer["priorityLevel"], len(set(answer["hand"])))


async def test_hand_is_that_of_requests(client: Client, scene: Scene) -> None:
    """A request of the flow is in a queue of the hand that is shown."""
    ticket = scene.ticket("ann")
    query = {"priorityLevel": "wide", "flowSchema": "all", "flow": "ann"}
    answer = await (await client.get("/debug/live/hand", params=query)).json()

    assert list(ticket.flow.hand) == answer["hand"]


async def test_requests(client: Client, scene: Scene) -> None:
    """What executes in a level is told."""
    scene.ask("ann")
    query = {"priorityLevel": "wide"}
    answer = await (await client.get("/debug/live/requests", params=query)).json()

    assert ["ann"] == [each["user"] for each in answer["executing"]]


@pytest.mark.parametrize("page", ["hand", "requests"])
async def test_no_level(client: Client, page: str) -> None:
    """A level that is not there is told so, whatever its name."""
    response = await client.get(f"/debug/live/{page}", params={"priorityLevel": "<b>\n"})
    text = "priorityLevel: there is no priority level '<b>\\n'; /debug/live lists them\n"

    assert (404, "text/plain", text) == (
        response.status,
        response.content_type,
        await response.text(),
    )


async def next_event(response: ClientResponse) -> tuple[str, Any]:
    """The name and the data of the next event."""
    while (name := await response.content.readline()).startswith((b"retry", b"\n")):
        pass
    line = await response.content.readline()
    return name.decode().removeprefix("event: ").strip(), json.loads(line.removeprefix(b"data: "))


async def test_events(client: Client, scene: Scene) -> None:
    """Who listens gets the history, the state, and the state again when it has changed."""
    async with client.get("/events") as response:
        history = await next_event(response)
        first = await next_event(response)
        scene.ticket("ann")
        second = await next_event(response)

    def seats(event: tuple[str, Any]) -> tuple[str, int]:
        name, state = event
        return name, sum(level["seatsInUse"] for level in state["levels"])

    assert "text/event-stream" == response.content_type
    assert ("history", {"times": [], "levels": {}}) == history
    assert [("state", 0), ("state", 1)] == [seats(first), seats(second)]


async def test_too_many_listen(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """One listener too many is told to come back."""
    monkeypatch.setattr(live_feed, "MAX_LISTENERS", 1)
    async with client.get("/events") as first:
        await next_event(first)
        second = await client.get("/events")

    assert (503, "10") == (second.status, second.headers["Retry-After"])


async def test_shutdown_ends_the_events(scene: Scene) -> None:
    """Who listens when the application ends gets the end of the answer."""
    app = build_admin_app(scene.controller, scene.scrape, HealthRegistry(), lambda: WALL_OFFSET_NS)
    async with TestClient(TestServer(app)) as client, client.get("/events") as response:
        await next_event(response)
        await app.shutdown()
        await response.content.read()
        late = await client.get("/events")

    assert response.content.at_eof()
    assert 503 == late.status


async def test_samples_are_taken(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as the application runs the history grows, and listeners get it."""
    monkeypatch.setattr(live_page, "SAMPLE_S", 0.001)
    app = build_admin_app(scene.controller, scene.scrape, HealthRegistry(), lambda: WALL_OFFSET_NS)
    async with TestClient(TestServer(app)) as client, client.get("/events") as response:
        names = [await next_event(response) for _ in range(3)]

    assert "seconds" in [name for name, _ in names]


async def test_an_error_does_not_end_the_samples(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A second of which no sample can be taken is left out; the next one is there."""
    monkeypatch.setattr(live_page, "SAMPLE_S", 0.001)
    sample, calls = LiveHistory.sample, []

    def fail_once(history: LiveHistory, now_ns: int, unix_s: float) -> None:
        calls.append(1)
        if len(calls) == 1:
            raise ValueError("a bug")
        sample(history, now_ns, unix_s)

    monkeypatch.setattr(LiveHistory, "sample", fail_once)
    app = build_admin_app(scene.controller, scene.scrape, HealthRegistry(), lambda: WALL_OFFSET_NS)
    async with TestClient(TestServer(app)) as client, client.get("/events") as response:
        names = [await next_event(response) for _ in range(3)]

    assert "seconds" in [name for name, _ in names]
    assert 1 == caplog.text.count("ValueError: a bug")
