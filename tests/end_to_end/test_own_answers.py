"""Responses of the proxy's own as clients see them."""

from __future__ import annotations

import asyncio
import socket
import time
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

import pytest

from apfproxy.settings import AuthenticationSettings
from tests.end_to_end.kubectl import Kubectl, find_kubectl, minor_version
from tests.end_to_end.scene import GET, TRUSTED, Setup, on_uvloop, over_both_protocols, running

if TYPE_CHECKING:
    from pathlib import Path

    from tests.end_to_end.upstream import Arrival

GROUPS = 200
"""As many as identity providers put into one token."""
BROKEN_OFF = "the upstream did not answer: the connection was closed early"


def request(target: str, *lines: str, method: str = "GET") -> bytes:
    return "\r\n".join((f"{method} {target} HTTP/1.1", "Host: a.test", *lines, "", "")).encode()


def test_kubectl_prints_the_cause(tmp_path: Path) -> None:
    """Whether it reads a `Status`, or the body as it came, as of all that is no resource."""
    program = find_kubectl()

    async def broken_off(arrival: Arrival) -> None:
        arrival.peer.close()

    @on_uvloop
    async def run() -> None:
        async with running() as scene:
            scene.upstream.answer_with(broken_off)
            minor, url = minor_version(program, tmp_path), f"http://127.0.0.1:{scene.process.port}"
            kubectl = Kubectl(program, minor, url, tmp_path, tmp_path)
            for command in (
                ["get", "pods"],
                ["version"],
                ["get", "--raw", "/api/v1/namespaces/a/pods"],
                ["get", "--raw", "/api/v1/namespaces/a/services/b/proxy/"],
                ["get", "--raw", "/healthz"],
            ):
                errors = await asyncio.to_thread(kubectl.fail, *command)
                assert BROKEN_OFF in errors.splitlines()[-1]
                assert "unknown" not in errors

    run()


@pytest.mark.parametrize(
    ("target", "content_type"),
    [
        pytest.param("/api/v1/namespaces/a/pods", b"application/json", id="resource"),
        pytest.param("/apis", b"text/plain; charset=utf-8", id="no-resource"),
    ],
)
@over_both_protocols
@on_uvloop
async def test_nothing_was_sent(target: str, content_type: bytes) -> None:
    """Then the client may send it again: Kubernetes' do, if `Retry-After` says so."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        async with running(upstream_port=unused.getsockname()[1]) as scene:
            client = await scene.ask(request(target, method="POST"))
            answer = await client.read_answer()

    assert (502, b"1") == (answer.status, answer.value(b"retry-after"))
    assert content_type == answer.value(b"content-type")
    assert b"Connection refused" in answer.body


@pytest.mark.parametrize(
    ("names", "source"),
    [
        pytest.param(("X-Remote-User", "X-Remote-Group"), TRUSTED, id="front-proxy"),
        pytest.param(("Impersonate-User", "Impersonate-Group"), "127.0.0.1", id="impersonated"),
    ],
)
@over_both_protocols
@on_uvloop
async def test_a_user_of_many_groups(names: tuple[str, str], source: str) -> None:
    """Each has a field of its own, beside two dozen others that clients and proxies send."""
    user, group = names
    lines = [f"{group}: CN=group-{i},OU=groups,DC=example,DC=org" for i in range(GROUPS)]
    others = [f"X-Field-{i}: a" for i in range(24)]
    async with running() as scene:
        got, answer = await scene.exchange(
            request("/x", f"{user}: jane", *lines, *others), source=source
        )

    assert 200 == answer.status
    assert GROUPS == len(got.values(group.lower().encode()))


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        pytest.param(
            [f"X-Field-{i}: a" for i in range(300)],
            b"more than 256 header fields (downstream.maxHeaderFields)",
            id="fields",
        ),
        pytest.param(
            ["X-Field: " + "a" * 50_000] * 2,
            b"longer than 65536 bytes (downstream.maxHeadBytes)",
            id="bytes",
        ),
    ],
)
@over_both_protocols
@on_uvloop
async def test_431_names_the_setting(lines: list[str], said: bytes) -> None:
    """And says how much it is."""
    async with running() as scene:
        answer = await (await scene.ask(request("/x", *lines))).read_answer()

    assert (431, True) == (answer.status, said in answer.body)


@over_both_protocols
@on_uvloop
async def test_401_says_how() -> None:
    """RFC 9110, section 15.5.2, wants one challenge at least; each response is dated."""
    before = int(time.time())
    setup = Setup(authentication=AuthenticationSettings(anonymous=False))
    async with running(setup) as scene:
        answer = await (await scene.ask(GET)).read_answer()

    assert 401 == answer.status
    assert b'Bearer realm="apfproxy"' == answer.value(b"www-authenticate")
    date = parsedate_to_datetime((answer.value(b"date") or b"").decode()).timestamp()
    assert before <= date <= time.time()
