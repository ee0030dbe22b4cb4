"""Load tests, as far as no test of a fault or of slow clients runs them."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from contextlib import nullcontext, suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from loadtest.cluster import draw_heads, users
from loadtest.isolation import SCENARIOS, check_seats
from loadtest.peers import parse_arguments
from loadtest.processes import ROOT, LoadTestError
from loadtest.wrk import Measurement, Variety, drive
from tests.end_to_end.programs import installed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from loadtest.processes import Process

    Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

MODULES = sorted(path.stem for path in (ROOT / "loadtest").glob("*.py"))


def test_every_module_can_be_imported() -> None:
    """From the root of a checkout, with what the extra installs."""
    imports = "; ".join(f"import loadtest.{name}" for name in MODULES)
    done = subprocess.run(  # noqa: S603  this interpreter
        [sys.executable, "-c", imports], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert (0, "") == (done.returncode, done.stderr)


@pytest.mark.parametrize("name", ["peers", "isolation"])
def test_wrong_arguments_get_one_line(name: str) -> None:
    """A program says in one line what is wrong with its command line."""
    done = subprocess.run(  # noqa: S603  this interpreter
        [sys.executable, "-m", f"loadtest.{name}", "--nothing"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (2, 1) == (done.returncode, done.stderr.count("\n"))


@pytest.mark.parametrize("nominal", [20, 19])
async def test_seats_are_those_of_all_workers(nominal: int) -> None:
    """Their nominal limit has to be that of the objects, whatever they have at the moment."""
    levels = [{"name": "shared", "nominal": nominal, "current": 19}]
    page = f"HTTP/1.0 200 OK\r\n\r\n{json.dumps({'levels': levels})}".encode()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(page)
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        expected = nullcontext() if nominal == 20 else pytest.raises(LoadTestError, match="19")
        with expected:
            await check_seats(SCENARIOS["one-level"], port)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--interpreter=name"], "names no interpreter"),
        (["--json=missing/results.json"], "cannot be written"),
        (["--with=endpoints", "--proxies=haproxy"], "name it in --proxies"),
        (["--with=endpoint"], "unknown feature"),
    ],
)
def test_a_comparison_begins_with_nothing_that_fails_at_its_end(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        parse_arguments(arguments)

    assert message in capsys.readouterr().err


def test_the_clients_of_a_cluster_are_drawn_from_seeds() -> None:
    """The same seed gives the same heads; each has the token of one of the users."""
    heads = draw_heads(1000, seed=1)
    tokens = {user.token for user in users()}

    assert heads == draw_heads(1000, seed=1) != draw_heads(1000, seed=2)
    assert {900} == {len(token) for token in tokens}
    assert tokens >= {
        re.search(rb"Authorization: Bearer (\S+)", head)[1].decode()  # type: ignore[index]
        for head in heads
    }


@pytest.mark.e2e
def test_a_comparison_finds_ratios(tmp_path: Path) -> None:
    """HAProxy and two builds, here the same twice, with a ratio for each of these."""
    installed("nginx")
    installed("haproxy")
    file = tmp_path / "peers.json"
    done = subprocess.run(  # noqa: S603  this interpreter
        [
            *(
                sys.executable,
                "-m",
                "loadtest.peers",
                "--mix=cluster",
                "--proxies=haproxy,apfproxy",
            ),
            *(
                "--rounds=1",
                "--seconds=1",
                "--connections=8",
                "--no-pin",
                "--idle=0",
                "--watches=0",
            ),
            *(f"--interpreter=again={ROOT}", f"--json={file}"),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (0, "") == (done.returncode, done.stderr)
    medians = json.loads(file.read_text())["medians"]
    assert {"haproxy", "apfproxy", "again"} == {
        each["proxy"] for each in medians if each["ratio_to_haproxy"] > 0
    }


@pytest.mark.e2e
@pytest.mark.parametrize("rate", [pytest.param(0, id="full"), pytest.param(200, id="rate")])
def test_the_clients_of_a_cluster_send_their_requests(tmp_path: Path, rate: int) -> None:
    """Each connection has the heads of one user, with bodies where they are due."""
    seen: list[list[bytes]] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(heads := [])
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                heads.append(head := await reader.readuntil(b"\r\n\r\n"))
                length = re.search(rb"Content-Length: (\d+)", head)
                await reader.readexactly(int(length[1]) if length else 0)
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")
                await writer.drain()
                writer.write(b"12345")
        writer.close()

    measured = _driven(answer, tmp_path, rate)

    assert measured.requests == sum(map(len, seen))
    assert rate in {0, measured.requests}
    users_of = [{re.findall(rb"Bearer \S+", head)[0] for head in heads} for heads in seen if heads]
    assert [1, 1] == [len(of) for of in users_of]
    lines = {head.partition(b" HTTP")[0] for heads in seen for head in heads}
    assert {b"GET", b"PUT", b"PATCH"} == {line.partition(b" ")[0] for line in lines}


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n", "429 Too Many"),
        (b"HTTP/1.1 200 OK\r\n\r\n", "no Content-Length"),
        (b"", "closed"),
    ],
)
def test_an_answer_that_is_no_success_ends_the_measurement(
    tmp_path: Path, text: bytes, message: str
) -> None:

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(text)
            await writer.drain()
        writer.close()

    with pytest.raises(LoadTestError, match=message):
        _driven(answer, tmp_path)


def _driven(answer: Answer, directory: Path, rate: int = 0) -> Measurement:

    async def serve() -> Measurement:
        server = await asyncio.start_server(answer, "127.0.0.1", 0, limit=1 << 16)
        port = server.sockets[0].getsockname()[1]
        proxy = cast("Process", SimpleNamespace(name="here", port=port, cpu_ns=lambda: 0))
        async with server:
            return await asyncio.to_thread(
                drive,
                proxy,
                mix="cluster",
                variety=Variety(seed=3, rate=rate),
                seconds=1,
                connections=2,
                core=None,
                directory=directory,
            )

    return asyncio.run(serve())
