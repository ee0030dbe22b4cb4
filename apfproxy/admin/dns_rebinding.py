"""Protects the admin listener from web pages that use DNS rebinding.

A page may let its own host name resolve to 127.0.0.1 once it is loaded ("DNS rebinding"): a browser
on this machine, or behind a tunnel to it, then takes the listener for the page's server, and lets
the page read it.  Such requests have that name as their `Host`.  So over loopback `Host` has to be
an address, or a name that cannot be public: localhost, one without a dot, or that of this machine.
Clients from elsewhere may use any name.  `write_guard` protects writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web

from apfproxy.admin.own_names import may_read
from apfproxy.admin.responses import header

if TYPE_CHECKING:
    from aiohttp.typedefs import Handler

READING = frozenset({"GET", "HEAD"})
REFUSAL = (
    "over loopback this listener accepts as Host an IP address, localhost or the name of its"
    " machine, not {host!r}, which a web page could use; a proxy before the listener must set"
    " Host\n"
)


@web.middleware
async def own_names_only(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse reads over loopback with a name that a web page may have."""
    host = header(request, "Host")
    if request.method in READING and not may_read(request.get_extra_info("sockname"), host):
        return web.Response(text=REFUSAL.format(host=host), status=403)
    return await handler(request)
