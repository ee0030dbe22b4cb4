"""Answers of the pages of several workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from aiohttp import web

from apfproxy.admin.responses import page_response
from apfproxy.admin.worker_answers import names_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from apfproxy.admin.worker_answers import Answer, Asked, WorkerAdmin

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

MISSING: Final = "X-Apfproxy-Missing-Workers"
JSON: Final = "application/json; charset=utf-8"
TEXT: Final = "text/plain; charset=utf-8"


def understood(page: Handler) -> Handler:
    """The page; an error of the workers' where what they say has not the form that it had.

    So it may be where they are of another version than this process, which started them.
    """

    async def answer(request: web.Request) -> web.StreamResponse:
        try:
            return await page(request)
        except (LookupError, TypeError, ValueError) as error:
            text = (
                f"what the workers say is of another version than their parent ({error!r}):"
                " restart the parent, or ask one of them with ?worker=N\n"
            )
            return web.Response(text=text, status=502)

    return answer


def said(response: web.Response, silent: Sequence[Asked]) -> web.Response:
    """The answer, with the workers that it lacks."""
    if silent:
        response.headers[MISSING] = ", ".join(str(each.worker.index) for each in silent)
    return response


def first_page(asked: Sequence[Asked]) -> Answer | None:
    """The first answer that is the page."""
    return next((each.page for each in asked if each.page is not None), None)


async def as_it_is(request: web.Request, answer: Answer) -> web.Response:
    """The answer of a worker, for the client."""
    content_type = answer.content_type or TEXT
    if answer.is_ok:
        return await page_response(request, answer.body, content_type)
    headers = {"Content-Type": content_type}
    return web.Response(body=answer.body, status=answer.status, headers=headers)


def unknown(name: str, workers: Sequence[WorkerAdmin]) -> web.Response:
    """That there is no worker of that name."""
    names = ", ".join(names_of(workers)) or "none"
    text = f"worker: there is none named {name!r}; there are {names}\n"
    return web.Response(text=text, status=404)


def nobody(silent: Sequence[Asked]) -> web.Response:
    """That no worker answers, and why."""
    lines = [f"worker {each.worker.index}: {each.problem}\n" for each in silent]
    text = "no worker answers\n" + "".join(lines)
    return web.Response(text=text, status=503, headers={"Retry-After": "1"})
