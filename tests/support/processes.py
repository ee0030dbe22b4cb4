"""A proxy process in this one, and a server behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web
from aiohttp.test_utils import TestServer

from apfproxy.settings import (
    Address,
    DownstreamSettings,
    FlowControlSettings,
    HealthCheckSettings,
    OverloadSettings,
    Settings,
    UpstreamSettings,
)

if TYPE_CHECKING:
    import aiohttp

ANY_PORT = Address(host="127.0.0.1", port=0)


def settings_for(upstream_port: int, flow_control: FlowControlSettings | None = None) -> Settings:
    return Settings(
        downstream=DownstreamSettings(
            listen=ANY_PORT, overload=OverloadSettings(loop_delay_s=None)
        ),
        upstream=UpstreamSettings(
            url=Address(host="127.0.0.1", port=upstream_port),
            health_check=HealthCheckSettings(interval_s=None),
        ),
        flow_control=flow_control or FlowControlSettings(),
        admin=ANY_PORT,
    )


def upstream() -> TestServer:
    """A server that answers each request with its target, and has a metrics page."""

    async def answer(request: web.Request) -> web.Response:
        if request.path == "/metrics":
            return web.Response(text='apiserver_storage_objects{resource="pods"} 3\n')
        return web.Response(text=request.path_qs)

    application = web.Application()
    application.router.add_get("/{path:.*}", answer)
    return TestServer(application)


async def page(session: aiohttp.ClientSession, port: int | None, path: str) -> tuple[int, str]:
    async with session.get(f"http://127.0.0.1:{port}{path}") as response:
        return response.status, await response.text()
