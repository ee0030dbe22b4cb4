"""The admin listener's pages where there are several clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from aiohttp.test_utils import TestClient, TestServer

from apfproxy.admin.admin import build_clusters_app, cluster_routes
from apfproxy.admin.live_page import LivePage
from apfproxy.admin.live_state import LiveInputs
from apfproxy.admin.overview import Overview, Place
from apfproxy.admin.several_clusters import COLUMNS, MAX_KEPT, Pages, SeveralClusters
from apfproxy.base.health_checks import HealthRegistry
from tests.admin.scene import WALL_OFFSET_NS, Scene
from tests.admin.servers import StillUpstream
from tests.admin.test_overview import Still

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from aiohttp.web import Application, Request

    Client = TestClient[Request, Application]

BROWSER = {"Accept": "text/html"}
JSON = {"Accept": "application/json"}


class World:
    """Clusters, and the pages made of them so far."""

    def __init__(self) -> None:
        self.places = [
            Place("shop", "shop.example", Still(StillUpstream("up")), ""),
            Place("bad", "bad.example", None, "s.yaml:3: odd"),
        ]
        self.made: list[Still] = []
        overview = Overview(lambda: self.places, lambda: 0)
        self.clusters = SeveralClusters(lambda: self.places, self.pages, overview, first_s=0.0)

    def pages(self, serving: Still) -> Pages:
        """Make them."""
        self.made.append(serving)
        live = LivePage(serving.controller, LiveInputs(cluster="shop"))
        _, routes = cluster_routes(
            serving.controller, lambda: WALL_OFFSET_NS, None, None, None, None
        )
        return Pages(live, {each.path: each.handler for each in (*routes, *live.routes())})


@pytest.fixture
def world() -> World:
    """Two clusters, of which one serves."""
    return World()


@pytest.fixture
async def client(world: World) -> AsyncIterator[Client]:
    """Asks the admin listener."""
    app = build_clusters_app(world.clusters, Scene(()).scrape, HealthRegistry())
    async with TestClient(TestServer(app)) as asking:
        yield asking


async def test_overview(client: Client) -> None:
    """It is a page, text, or JSON, which the live state is without a name."""
    page = await (await client.get("/", headers=BROWSER)).text()
    index = await (await client.get("/")).text()
    lines = (await (await client.get("/debug/clusters")).text()).splitlines()
    state = await (await client.get("/debug/live", headers=JSON)).json()

    assert "clusters.js" in page
    assert "/debug/clusters" in index
    assert [", ".join(COLUMNS), "bad, refused, 0/0,", "shop, up, 1/1,"] == [
        " ".join(line.split()[: 12 if place == 0 else 3]) for place, line in enumerate(lines)
    ]
    assert ["bad", "shop"] == [each["name"] for each in state["clusters"]]
    assert (await client.get("/page/clusters.js")).status == 200


@pytest.mark.parametrize(
    "path", ["/clusters/shop/debug/limits", "/debug/limits?cluster=shop"], ids=["path", "query"]
)
async def test_pages_of_a_cluster(client: Client, world: World, path: str) -> None:
    """They are those of a proxy with one, made once."""
    found = await (await client.get(path)).json()
    await client.get(path)

    assert 4 == found["serverConcurrencyLimit"]
    assert 1 == len(world.made)


async def test_page_of_a_cluster(client: Client) -> None:
    """The live page has its files beside it, and says whose it is."""
    page = await (await client.get("/clusters/shop/", headers=BROWSER)).text()
    state = await (await client.get("/clusters/shop/debug/live")).json()

    assert "main.js" in page
    assert "shop" == state["cluster"]
    assert (await client.get("/clusters/shop/page/main.js")).status == 200


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/debug/limits", 400, "cluster: name one for /debug/limits (?cluster=NAME,"),
        (
            "/debug/limits?cluster=shpo",
            404,
            "named 'shpo'; did you mean shop?  there are shop, bad",
        ),
        ("/clusters/x/debug/limits", 404, "named 'x'; there are shop, bad"),
        ("/clusters/bad/", 503, "cluster: bad cannot be used: s.yaml:3: odd"),
        ("/clusters/shop/nothing", 404, "a cluster has these pages:"),
    ],
)
async def test_wrong(client: Client, path: str, status: int, text: str) -> None:
    """What is wrong is said, with what would be right."""
    response = await client.get(path)

    assert status == response.status
    assert text in await response.text()


@pytest.mark.parametrize(
    ("path", "where"),
    [
        ("/clusters/shop", "/clusters/shop/"),
        ("/?cluster=shop", "clusters/shop/"),
        ("/clusters/shop/readyz?verbose", "/readyz?verbose"),
    ],
)
async def test_elsewhere(client: Client, path: str, where: str) -> None:
    """Some pages are elsewhere."""
    response = await client.get(path, allow_redirects=False)

    assert (302, where) == (response.status, response.headers["Location"])


async def test_clusters_that_go(client: Client, world: World) -> None:
    """The pages of a cluster that is gone, or made anew, are made anew."""
    await client.get("/clusters/shop/debug/limits")
    world.places[0] = Place("shop", "", Still(StillUpstream("up")), "")
    world.clusters.sample()
    await client.get("/clusters/shop/debug/limits")

    assert 2 == len(world.made)


async def test_bound(client: Client, world: World) -> None:
    """Only so many clusters have a history at once; those looked at last keep theirs."""
    world.places += [
        Place(f"c{number}", "", Still(StillUpstream("up")), "") for number in range(MAX_KEPT)
    ]
    for place in [*world.places[2:], world.places[0]]:
        assert (await client.get(f"/clusters/{place.name}/debug/limits")).status == 200
    world.made.clear()
    for name in ("shop", "c5", "c0"):
        await client.get(f"/clusters/{name}/debug/limits")
    world.clusters.sample()

    assert [world.places[2].serving] == world.made
