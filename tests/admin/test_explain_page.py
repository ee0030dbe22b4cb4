"""`/debug/explain`, asked for over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec
import pytest
from aiohttp.test_utils import TestClient, TestServer

from apfproxy.admin.admin import build_admin_app
from apfproxy.admin.explain_page import (
    MAX_PARAMETERS,
    NOT_ENFORCED,
    PATH,
    USAGE,
    explain_route,
    explanation_json,
    header_in,
    parse_header,
    question,
)
from apfproxy.base.health_checks import HealthRegistry
from apfproxy.flowcontrol.explanation import Explanation, explain
from apfproxy.flowcontrol.learned_costs import LearnedCosts
from apfproxy.request.attributes import ANONYMOUS, User, parse_attributes
from loadtest.objects import flow_schema, group_subject
from tests.admin.scene import POD, WALL_OFFSET_NS, Scene

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from aiohttp.web import Application, Request

    Client = TestClient[Request, Application]

COSTS = LearnedCosts(lambda: 0)


def judge(method: str, _target: bytes) -> None:
    """Refuse one method."""
    if method == "TRACE":
        raise ValueError("the proxy would answer 405")


@pytest.fixture
def scene() -> Scene:
    """One request executes."""
    scene = Scene((flow_schema("everyone", "catch-all", group_subject("everyone")),))
    scene.ticket("ann")
    return scene


@pytest.fixture
async def client(scene: Scene) -> AsyncIterator[Client]:
    """Talks to the admin listener of the scene."""
    app = build_admin_app(
        scene.controller,
        scene.scrape,
        HealthRegistry(),
        lambda: WALL_OFFSET_NS,
        explain_page=explain_route(scene.controller, COSTS, judge),
    )
    async with TestClient(TestServer(app)) as client:
        yield client


async def test_says_how_to_ask(client: Client) -> None:
    """Without a question the page says what one looks like; the index has the page."""
    response = await client.get(PATH)

    assert (200, "text/plain", USAGE) == (
        response.status,
        response.content_type,
        await response.text(),
    )
    assert PATH in await (await client.get("/")).text()


async def test_answer(client: Client, scene: Scene) -> None:
    """The answer is the explanation of the request, with all groups that count."""
    target = quote(POD.decode(), safe="")
    response = await client.get(f"{PATH}?method=GET&target={target}&user=ann&group=everyone")
    found = msgspec.convert(await response.json(), Explanation)
    user = User("ann", ("everyone", "system:authenticated"))

    assert response.content_type == "application/json"
    assert explain(scene.controller, COSTS, user, parse_attributes("GET", POD)) == found
    assert ("everyone", "execute", 1) == (
        found.flow_schema,
        found.outcome.decision,
        found.priority_level.seats_in_use,
    )


async def test_observing(scene: Scene) -> None:
    """A proxy that only observes says that nothing comes of what it says."""
    app = build_admin_app(
        scene.controller,
        scene.scrape,
        HealthRegistry(),
        lambda: WALL_OFFSET_NS,
        explain_page=explain_route(scene.controller, COSTS, judge, lambda _: (NOT_ENFORCED,)),
    )
    async with TestClient(TestServer(app)) as client:
        found = await (await client.get(f"{PATH}?target=/")).json()

    assert found["notes"][-1] == NOT_ENFORCED


async def test_wrong_question(client: Client) -> None:
    """A question that makes no sense is answered with what would, and nothing of the inside."""
    response = await client.get(f"{PATH}?path=/")

    assert (400, "text/plain") == (response.status, response.content_type)
    assert await response.text() == (
        "expected the parameters method, target, user, group, header, not 'path'\n"
    )


@pytest.mark.parametrize(
    ("query", "user", "verb", "path"),
    [
        pytest.param("target=/a", ANONYMOUS, "get", "/a", id="anonymous"),
        pytest.param(
            "target=%2Fa%2520b&method=POST&user=a%FF",
            User("a\udcff", ("system:authenticated",)),
            "post",
            "/a b",
            id="bytes",
        ),
        pytest.param(
            "target=/a&user=system:serviceaccount:x:y",
            User(
                "system:serviceaccount:x:y",
                ("system:serviceaccounts", "system:serviceaccounts:x", "system:authenticated"),
            ),
            "get",
            "/a",
            id="service-account",
        ),
        pytest.param(
            "target=/a&user=header:al",
            User("header:al", ("system:unauthenticated",)),
            "get",
            "/a",
            id="unverified-name",
        ),
    ],
)
def test_question(query: str, user: User, verb: str, path: str) -> None:
    """The query says who asks for what; the user has the groups that Kubernetes adds."""
    found, attributes, headers = question(query, judge)

    assert (user, verb, path, ()) == (found, attributes.verb, attributes.path, headers)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        pytest.param("method=GET", "say what is asked for: target=/path", id="no-target"),
        pytest.param("target=/a&target=/b", "target is given twice; keep one", id="twice"),
        pytest.param("target=/a&method=G%20T", "expected a method such as GET", id="method"),
        pytest.param("target=/a&method=TRACE", "would answer 405", id="refused"),
        pytest.param("target=a", "malformed request target", id="target"),
        pytest.param("target=/a&group=g", "group needs user", id="group"),
        pytest.param("target=/a&header=x", "expected a header such as X-Team:red", id="header"),
        pytest.param("&".join(["a=b"] * 300), f"more than {MAX_PARAMETERS}", id="many"),
    ],
)
def test_refused_question(query: str, message: str) -> None:
    """What cannot be explained is refused in words."""
    with pytest.raises(ValueError, match=message):
        question(query, judge)


def test_headers() -> None:
    """Headers are found by their name in any case; the first of several counts."""
    headers = (parse_header("X-Team: red "), parse_header("x-team:blue"))

    assert ("red", "") == (header_in(headers, "x-team"), header_in(headers, "x-other"))


def test_text_that_is_no_unicode(scene: Scene) -> None:
    """JSON can carry names that came as bytes of any kind."""
    user = User("a\udcff", ())
    text = explanation_json(explain(scene.controller, COSTS, user, parse_attributes("GET", POD)))

    assert '"a\\udcff"' in text
