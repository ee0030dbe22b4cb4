"""Several clusters behind one proxy: nothing of one is anything of another's."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.end_to_end.gateway import WHOLE, gateway, get
from tests.end_to_end.scene import on_uvloop, over_both_protocols

if TYPE_CHECKING:
    from pathlib import Path

    from tests.end_to_end.upstream import Arrival

A, B = {"name": "a", "hosts": ["a.test"]}, {"name": "b", "hosts": ["b.test"]}
SWITCHED = (
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Accept: abc\r\n\r\nhello"
)


@over_both_protocols
@on_uvloop
async def test_by_host_and_prefix(tmp_path: Path) -> None:
    """A prefix is taken off, Host is kept; a head that is known is not taken for another's."""
    prefixed = {"name": "p", "pathPrefix": "/clusters/p"}
    wild = {"name": "w", "hosts": ["*.a.test"], "authentication": {"anonymous": False}}
    async with gateway(tmp_path, A, B, wild, prefixed) as scene:
        assert (200, "p /x?y=1 other") == await scene.asked("other", "/clusters/p/x?y=1")
        assert 401 == (await scene.asked("y.z.a.test:80", "/x"))[0]
        code, text = await scene.asked("c.test", "/x")
        assert (404, "Status", 1) == (
            code,
            json.loads(text)["kind"],
            scene.process.counters.unrouted_requests,
        )
        client = await scene.connect()
        for each in "aaapppabbbaappbaab" * 2:
            host, target = ("h", "/clusters/p/x") if each == "p" else (f"{each}.test", "/x")
            answer = await scene.ask(get(host, target), client)
            assert f"{each} /x {host}".encode() == answer.body
        assert 404 == (await scene.ask(get("h", "/c"), client)).status


@pytest.mark.parametrize("is_pipelined", [False, True], ids=["in-turn", "pipelined"])
@over_both_protocols
@on_uvloop
async def test_no_identity_goes_to_another_cluster(tmp_path: Path, is_pipelined: bool) -> None:
    """Each request of a connection is authenticated by the rules of its own cluster.

    Also where the same fields have come on the connection before, as often as it takes to be known.
    """
    tokens = {}
    for name, users in (("a", "both,ann,1\nof-a,amy,1"), ("b", "both,bob,1")):
        (tmp_path / name).write_text(users)
        tokens[name] = {"authentication": {"anonymous": False, "tokenFile": str(tmp_path / name)}}
    whole = f"{WHOLE}\naccessLog: {{path: {tmp_path / 'log'}}}"
    heads = [
        get(host, "/x", f"Authorization: Bearer {token}")
        for _ in range(4)
        for token in ("both", "of-a")
        for host in ("a.test", "b.test", "a.test")
    ]
    async with gateway(tmp_path, {**A, **tokens["a"]}, {**B, **tokens["b"]}, whole=whole) as scene:
        client = await scene.connect()
        if is_pipelined:
            await client.send(b"".join(heads))
            answers = [await client.read_answer() for _ in heads]
        else:
            answers = [await scene.ask(head, client) for head in heads]
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]

    assert [200, 200, 200, 200, 401, 200] * 4 == [answer.status for answer in answers]
    names = [("a", "ann"), ("b", "bob"), ("a", "ann"), ("a", "amy"), ("b", None), ("a", "amy")]
    found = [(line["cluster"], line["user"] or None) for line in lines]
    assert sorted(map(str, names * 4)) == sorted(map(str, found))


@on_uvloop
async def test_upgrades_go_to_their_cluster(tmp_path: Path) -> None:
    upgrade = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13")
    target = "/api/v1/namespaces/n/pods/p/exec?command=x"
    switched: list[bytes] = []

    async def switch(arrival: Arrival) -> None:
        switched.append(arrival.request.line)
        await arrival.peer.send(SWITCHED)

    async with gateway(tmp_path, A, {**B, "pathPrefix": "/b"}) as scene:
        scene.upstreams["b"].answer_with(switch)
        client = await scene.connect()
        assert 200 == (await scene.ask(get("a.test"), client)).status
        key = "Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg=="
        await client.send(get("b.test", f"/b{target}", *upgrade, key))
        head = await client.read_until(b"hello")
        tunnels = [each.counters.tunnels_open for each in scene.process.clusters]

    assert (b"101", [0, 1]) == (head.split(b" ")[1], tunnels)
    assert [b"GET %b HTTP/1.1" % target.encode()] == switched
