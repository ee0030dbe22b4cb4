"""Clients of an API that is not Kubernetes: each way to tell them apart keeps one from another."""

from __future__ import annotations

import ipaddress
import json
from typing import TYPE_CHECKING

import aiohttp
import pytest

from apfproxy.settings import (
    AccessLogSettings,
    ApiKeySettings,
    AuthenticationSettings,
    UnverifiedSettings,
)
from tests.end_to_end.programs import nginx
from tests.end_to_end.scene import NARROW, OK, Setup, on_uvloop, running
from tests.support.clocks import until
from tests.support.credentials import basic, sha256

if TYPE_CHECKING:
    from pathlib import Path

FAIR = NARROW.replace(
    "queues: 1, handSize: 1, queueLengthLimit: 2", "queues: 64, handSize: 1, queueLengthLimit: 99"
)
GREEDY, MODEST = "127.0.0.3", "127.0.0.4"
WAITING = 8
BALANCER = """
location / {
    proxy_pass http://127.0.0.1:PORT;
    proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
    proxy_http_version 1.1;
    proxy_set_header Connection "";
}
"""


def request(target: str, line: str) -> bytes:
    """A request with a field."""
    return f"GET {target} HTTP/1.1\r\nHost: a\r\n{line}\r\n\r\n".encode()


def keys_file(directory: Path, **users: str) -> str:
    """The path of a file with users by their keys."""
    file = directory / "keys.csv"
    file.write_text("".join(f"{sha256(key)},{user},,\n" for key, user in users.items()))
    return str(file)


@pytest.mark.parametrize(
    ("unverified", "has_keys", "greedy", "modest"),
    [
        pytest.param(
            UnverifiedSettings(headers=("X-Client-Id",)),
            False,
            "X-Client-Id: greedy",
            "X-Client-Id: modest",
            id="header",
        ),
        pytest.param(UnverifiedSettings(is_by_address=True), False, "A: b", "A: b", id="address"),
        pytest.param(
            UnverifiedSettings(is_by_basic=True),
            False,
            f"Authorization: Basic {basic(b'greedy:a')}",
            f"Authorization: Basic {basic(b'modest:a')}",
            id="basic",
        ),
        pytest.param(
            UnverifiedSettings(secret_headers=("Authorization",)),
            False,
            "Authorization: Bearer greedy",
            "Authorization: Bearer modest",
            id="secret",
        ),
        pytest.param(
            UnverifiedSettings(), True, "X-API-Key: k-greedy", "X-API-Key: k-modest", id="key"
        ),
        pytest.param(UnverifiedSettings(), False, "A: b", "A: b", id="nothing"),
    ],
)
@on_uvloop
async def test_isolation(
    tmp_path: Path, unverified: UnverifiedSettings, has_keys: bool, greedy: str, modest: str
) -> None:
    """A modest client is next but one, though many requests of another wait; not so unnamed."""
    keys = keys_file(tmp_path, **{"k-greedy": "greedy", "k-modest": "modest"})
    setup = Setup(
        objects=FAIR,
        seats=1,
        authentication=AuthenticationSettings(
            api_keys=ApiKeySettings(file=keys if has_keys else None), unverified=unverified
        ),
    )
    async with running(setup) as scene:
        queue_set = scene.level().queue_set

        async def until_waiting(number: int) -> None:
            await until(lambda: number == queue_set.requests_waiting)

        for number in range(1 + WAITING):
            await scene.ask(request("/greedy", greedy), source=GREEDY)
            await until_waiting(number)
        await scene.ask(request("/modest", modest), source=MODEST)
        await until_waiting(1 + WAITING)
        order = []
        for _ in range(2 + WAITING):
            arrival = await scene.upstream.next_request()
            order.append(b"/modest" in arrival.request.line)
            await arrival.peer.send(b"HTTP/1.1 204 No Content\r\n\r\n")
        await until(lambda: queue_set.requests_executing == 0)

    is_nameless = unverified == UnverifiedSettings() and not has_keys
    assert (1 + WAITING if is_nameless else 2) >= order.index(True)
    assert is_nameless == (order.index(True) == 1 + WAITING)


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
                (GREEDY, port, "192.0.2.1"),
                (MODEST, port, "192.0.2.1, 127.0.0.1"),
                (MODEST, scene.process.port, "192.0.2.2"),
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
    assert [(f"address:{each}", each) for each in (GREEDY, MODEST, MODEST)] == [
        (each["flow"], each["client"]) for each in records
    ]


@on_uvloop
async def test_keys_that_are_withdrawn(tmp_path: Path) -> None:
    """A client whose key leaves the file gets 401, also on the connection that it has."""
    file = keys_file(tmp_path, good="alice")
    setup = Setup(authentication=AuthenticationSettings(api_keys=ApiKeySettings(file=file)))
    ask = request("/x", "X-API-Key: good")
    async with running(setup) as scene:
        client = await scene.connect()
        for _ in range(3):
            await client.send(ask)
            arrival = await scene.upstream.next_request()
            await arrival.peer.send(b"HTTP/1.1 204 No Content\r\n\r\n")
            assert 204 == (await client.read_answer()).status
        keys_file(tmp_path, another="bob")
        await scene.process.read_again()
        await client.send(ask)
        refused = await client.read_answer()

        assert 401 == refused.status
        assert [b'ApiKey realm="apfproxy", header="X-API-Key"'] == (
            refused.values(b"www-authenticate")
        )
