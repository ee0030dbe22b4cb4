"""Answers of the pages of several workers."""

from __future__ import annotations

from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from apfproxy.admin.worker_answers import Answer, Asked, WorkerAdmin
from apfproxy.admin.worker_responses import (
    MISSING,
    as_it_is,
    first_page,
    nobody,
    said,
    understood,
)

FIRST, SECOND = (WorkerAdmin(index, "path", "serving", index) for index in (1, 2))
PAGE = Answer(200, "text/plain", b"page")


def test_said() -> None:
    """An answer names the workers that it lacks, if any."""
    whole, part = said(web.Response(), []), said(web.Response(), [Asked(FIRST), Asked(SECOND)])

    assert MISSING not in whole.headers
    assert part.headers[MISSING] == "1, 2"


def test_first_page() -> None:
    """An error of the first worker is not preferred to the page of the second."""
    refused = Asked(FIRST, Answer(404, "", b""))

    assert first_page([refused, Asked(SECOND, PAGE)]) == PAGE
    assert first_page([refused]) is None


async def test_as_it_is() -> None:
    """A worker's answer keeps its status and its type."""
    request = make_mocked_request("GET", "/")
    page = await as_it_is(request, PAGE)
    refused = await as_it_is(request, Answer(400, "", b"no"))

    assert (page.status, page.content_type, page.body) == (200, "text/plain", b"page")
    assert (refused.status, refused.content_type, refused.body) == (400, "text/plain", b"no")


async def test_of_another_version() -> None:
    """It is said why a page cannot be made of what workers say."""

    async def page(_request: web.Request) -> web.StreamResponse:
        raise KeyError("levels")

    response = await understood(page)(make_mocked_request("GET", "/"))

    assert isinstance(response, web.Response)
    assert response.status == 502
    assert "another version than their parent (KeyError('levels'))" in str(response.text)


def test_nobody() -> None:
    """It is said of each why it does not answer."""
    response = nobody([Asked(FIRST, problem="away")])

    assert response.status == 503
    assert response.text == "no worker answers\nworker 1: away\n"
