"""The files of the live page and of the overview, beside this module.

The pages insert everything about users, FlowSchemas and errors as text, never as markup, and their
policy allows only these files to be loaded or run.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from aiohttp import web

from apfproxy.admin.responses import page_response

PAGE = Path(__file__).with_name("page")

CONTENT_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""Of the files that are served; others, such as licences, are not."""

SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
        " object-src 'none'"
    ),
    "Referrer-Policy": "no-referrer",
}


async def page_file(request: web.Request, path: str) -> web.Response:
    """Answer with one of the files."""
    found = page_files().get(path)
    if found is None:
        raise web.HTTPNotFound
    body, content_type, tag = found
    headers = {**SECURITY_HEADERS, "ETag": f'"{tag}"', "Cache-Control": "no-cache"}
    if any(each.value in {tag, "*"} for each in request.if_none_match or ()):
        return web.Response(status=304, headers=headers)
    response = await page_response(request, body, content_type)
    response.headers.update(headers)
    return response


@cache
def page_files() -> dict[str, tuple[bytes, str, str]]:
    """Bytes, content type and tag of each file, by its path from there."""
    files = {}
    for path in sorted(PAGE.rglob("*")):
        content_type = CONTENT_TYPES.get(path.suffix)
        if content_type is not None:
            body = path.read_bytes()
            tag = hashlib.sha256(body).hexdigest()[:16]
            files[path.relative_to(PAGE).as_posix()] = body, content_type, tag
    return files
