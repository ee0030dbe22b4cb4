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
UPGRADE = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13")
KEY = "Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg=="


@over_both_protocols
@on_uvloop
async def test_by_host_and_prefix(tmp_path: Path) -> None:
    """Requests go where their host and path say; a prefix is taken off, and Host is kept."""
    prefixed = {"name": "p", "pathPrefix": "/clusters/p"}
    async with gateway(tmp_path, A, {"name": "w", "hosts": ["*.a.test"]}, prefixed) as scene:
        assert (200, "a /x a.test") == await scene.asked("a.test", "/x")
        assert (200, "w /x y.z.a.test:80") == await scene.asked("y.z.a.test:80", "/x")
        assert (200, "a /clusters/p/x a.test") == await scene.asked("a.test", "/clusters/p/x")
        assert (200, "p /x?y=1 other") == await scene.asked("other", "/clusters/p/x?y=1")


@on_uvloop
async def test_a_prefix_in_an_absolute_target(tmp_path: Path) -> None:
    """It is taken off there, too."""
    async with gateway(tmp_path, A, {"name": "p", "pathPrefix": "/clusters/p"}) as scene:
        assert (200, "p http://other/ other") == await scene.asked(
            "other", "http://other/clusters/p"
        )


@over_both_protocols
@on_uvloop
async def test_unknown_clusters(tmp_path: Path) -> None:
    """They are told so in a Status, and counted; nobody is asked who they are."""
    async with gateway(tmp_path, A, {**B, "authentication": {"anonymous": False}}) as scene:
        code, text = await scene.asked("c.test", "/x")
        counters = scene.process.counters

        assert (404, 1, 0) == (code, counters.unrouted_requests, counters.malformed_requests)
        assert "Status" == json.loads(text)["kind"]
        assert 401 == (await scene.asked("b.test"))[0]
        for head in (b"GET / HTTP/1.1\r\n\r\n", get("a.test", "/", "Host: b.test"), get("a/b")):
            assert 400 == (await scene.ask(head)).status


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
    assert {("a", "ann"), ("a", "amy"), ("b", "bob"), ("b", None)} == {
        (line["cluster"], line["user"]) for line in lines
    }
    assert 8 == sum((line["cluster"], line["user"]) == ("b", None) for line in lines) + 4


@over_both_protocols
@on_uvloop
async def test_repeated_heads_of_another_host(tmp_path: Path) -> None:
    """A head that a connection knows as a whole is not taken for one of another host."""
    async with gateway(tmp_path, A, B) as scene:
        client = await scene.connect()
        found = [
            (await scene.ask(get(f"{name}.test"), client)).body
            for name in "aaabbbaababb"
            for _ in "12"
        ]

    assert [f"{name} / {name}.test".encode() for name in "aaabbbaababb" for _ in "12"] == found


@over_both_protocols
@on_uvloop
async def test_prefixes_on_one_connection(tmp_path: Path) -> None:
    """Where only the path differs it is looked at each time, whatever else is known."""
    clusters = [{"name": name, "pathPrefix": f"/{name}"} for name in "ab"]
    async with gateway(tmp_path, *clusters) as scene:
        client = await scene.connect()
        found = [
            (await scene.ask(get("h", f"/{name}/x"), client)).body.split()[:2]
            for name in "aaabbbaab"
        ]
        last = await scene.ask(get("h", "/c"), client)

    assert [[name.encode(), b"/x"] for name in "aaabbbaab"] == found
    assert 404 == last.status


@on_uvloop
async def test_upgrades_go_to_their_cluster(tmp_path: Path) -> None:
    """Also on a connection that was another cluster's before."""
    async with gateway(tmp_path, A, {**B, "pathPrefix": "/b"}) as scene:
        switched: list[bytes] = []

        async def switch(arrival: Arrival) -> None:
            switched.append(arrival.request.line)
            await arrival.peer.send(
                b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n"
                b"Upgrade: websocket\r\nSec-WebSocket-Accept: abc\r\n\r\nhello"
            )

        scene.upstreams["b"].answer_with(switch)
        client = await scene.connect()
        assert 200 == (await scene.ask(get("a.test"), client)).status
        target = "/b/api/v1/namespaces/n/pods/p/exec?command=x"
        await client.send(get("b.test", target, *UPGRADE, KEY))
        head = await client.read_until(b"hello")
        tunnels = [each.counters.tunnels_open for each in scene.process.clusters]

    assert b"101" == head.split(b" ")[1]
    assert [0, 1] == tunnels
    assert [b"GET /api/v1/namespaces/n/pods/p/exec?command=x HTTP/1.1"] == switched
