"""`/debug/objects`: the objects of the configuration with the UIDs that answers name them by."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from aiohttp import web

from apfproxy.admin.responses import header, page_response, wants_json
from apfproxy.admin.table import table_text
from apfproxy.flowcontrol.level_summary import named_objects, with_uid

if TYPE_CHECKING:
    from apfproxy.flowcontrol.controller import Controller

PATH = "/debug/objects"
OBJECTS_INDEX = {
    PATH: "FlowSchemas and priority levels with their UIDs; ?uid= for that of an answer"
}
COLUMNS = ("Kind", "Name", "UID", "What")


def objects_route(controller: Controller) -> web.RouteDef:
    """The page with its path."""

    async def objects(request: web.Request) -> web.Response:
        found = list(named_objects(controller))
        if "uid" in request.query:
            found = with_uid(found, request.query["uid"])
        if wants_json(header(request, "Accept")):
            body, content_type = msgspec.json.encode(found), "application/json; charset=utf-8"
        else:
            rows = [(each.kind, each.name, each.uid, each.what) for each in found]
            body, content_type = table_text(COLUMNS, rows).encode(), "text/plain; charset=utf-8"
        return await page_response(request, body, content_type)

    return web.get(PATH, objects)
