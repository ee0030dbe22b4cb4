"""Clients of an API that is not Kubernetes, behind a balancer that names them."""

from __future__ import annotations

import ipaddress
import json
from typing import TYPE_CHECKING

import aiohttp

from apfproxy.settings import AccessLogSettings, AuthenticationSettings, UnverifiedSettings
from tests.end_to_end.programs import nginx
from tests.end_to_end.scene import OK, Setup, on_uvloop, running

if TYPE_CHECKING:
    from pathlib import Path

ONE, OTHER = "127.0.0.3", "127.0.0.4"
BALANCER = """
location / {
    proxy_pass http://127.0.0.1:PORT;
    proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
    proxy_http_version 1.1;
    proxy_set_header Connection "";
}
"""


@on_uvloop
async def test_behind_a_balancer(tmp_path: Path) -> None:
    """A balancer names its clients, who cannot name others through it; nor can they past it."""
    log = tmp_path / "access.log"
    setup = Setup(
        access_log=AccessLogSettings(path=str(log)),
        authentication=AuthenticationSettings(unverified=UnverifiedSettings(is_by_address=True)),
    ).with_downstream(trusted_proxies=(ipaddress.ip_network("127.0.0.1"),))

    async with running(setup) as scene:
        scene.upstream.answer_with(lambda arrival: arrival.peer.send(OK))
        with nginx(tmp_path, BALANCER.replace("PORT", str(scene.process.port))) as port:
            for source, to, forged in (
                (ONE, port, "192.0.2.1"),
                (OTHER, port, "192.0.2.1, 127.0.0.1"),
                (OTHER, scene.process.port, "192.0.2.2"),
            ):
                connector = aiohttp.TCPConnector(local_addr=(source, 0))
                async with (
                    aiohttp.ClientSession(connector=connector) as session,
                    session.get(
                        f"http://127.0.0.1:{to}/x", headers={"X-Forwarded-For": forged}
                    ) as got,
                ):
                    assert "ok" == await got.text()

    records = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(f"address:{each}", each) for each in (ONE, OTHER, OTHER)] == [
        (each["flow"], each["client"]) for each in records
    ]
