"""Load tests, as far as no test of a fault or of slow clients runs them."""

from __future__ import annotations

import asyncio
import json
import random
import re
import subprocess
import sys
from collections import Counter
from contextlib import nullcontext
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, RequestReceived, StreamEnded
from hpack import Decoder, Encoder

from loadtest.cluster import Http2Fields, draw_request, users
from loadtest.cluster_driver import encode_requests, first_status
from loadtest.isolation import check_seats
from loadtest.peers import parse_arguments
from loadtest.processes import ROOT, LoadTestError
from loadtest.wrk import Measurement, Variety, drive
from tests.end_to_end.programs import installed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from loadtest.processes import Process

MODULES = sorted(path.stem for path in (ROOT / "loadtest").glob("*.py"))


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603  this interpreter
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_every_module_can_be_imported() -> None:
    """From the root of a checkout, with what the extra installs."""
    imports = "; ".join(f"import loadtest.{name}" for name in MODULES)
    done = python("-c", imports)

    assert (0, "") == (done.returncode, done.stderr)


@pytest.mark.parametrize("name", ["peers", "isolation"])
def test_wrong_arguments_get_one_line(name: str) -> None:
    """A program says in one line what is wrong with its command line."""
    done = python("-m", f"loadtest.{name}", "--nothing")

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
            await check_seats(port)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--interpreter=name"], "names no interpreter"),
        (["--json=missing/results.json"], "cannot be written"),
        (["--with=observe", "--proxies=haproxy"], "name it in --proxies"),
        (["--with=endpoint"], "unknown feature"),
        (["--protocol=h2", "--mix=cluster,varied"], "cluster only"),
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


def test_the_users_of_a_cluster_are_the_same_each_time() -> None:
    """Each has a token of its own."""
    tokens = [user.token for user in users()]

    assert tokens == [user.token for user in users()]
    assert len(tokens) == len(set(tokens))
    assert {900} == set(map(len, tokens))


@pytest.mark.e2e
def test_a_comparison_finds_ratios(tmp_path: Path) -> None:
    """HAProxy and a build that is named, here this one."""
    installed("nginx")
    installed("haproxy")
    file = tmp_path / "peers.json"
    arguments = (
        "--mix=cluster --proxies=haproxy --rounds=1 --seconds=1 --connections=8 --no-pin"
        f" --idle=0 --watches=0 --interpreter=named={ROOT} --json={file}"
    )
    done = python("-m", "loadtest.peers", *arguments.split())

    assert (0, "") == (done.returncode, done.stderr)
    medians = json.loads(file.read_text())["medians"]
    assert {"haproxy", "named"} == {
        each["proxy"] for each in medians if each["ratio_to_haproxy"] > 0
    }


def test_the_requests_of_a_client_can_be_sent_again_and_again() -> None:
    """The first of them needs nothing that an earlier one has put into the table."""
    dice = random.Random(1)  # noqa: S311 - no secret
    requests = [draw_request(dice) for _ in range(50)]
    encoded = encode_requests(Http2Fields(users()[0], "https"), requests, dice)
    decoder = Decoder()
    for request, sent in [*zip(requests, encoded, strict=True)] * 2:
        fields = dict(decoder.decode(sent.block, raw=True))

        assert request.line == fields[b":method"] + b" " + fields[b":path"]
        assert request.body_bytes == int(fields.get(b"content-length", 0)) == sent.body_bytes
        assert fields[b"authorization"] == b"Bearer " + users()[0].token.encode()


@pytest.mark.parametrize("status", [200, 201, 404, 429, 503])
@pytest.mark.parametrize("is_huffman", [False, True])
@pytest.mark.parametrize("table", [4096, 0, 100])
def test_a_status_is_read_from_whatever_form_it_has(
    status: int, table: int, *, is_huffman: bool
) -> None:
    """Indexed or not, and behind a change of the table's size."""
    encoder = Encoder()
    encoder.header_table_size = table
    block = encoder.encode([(":status", f"{status}"), ("server", "x")], huffman=is_huffman)

    assert status == first_status(block)


@pytest.mark.parametrize(
    ("arguments", "loads"),
    [
        (["--mix=cluster"], {"cluster": ("cluster", 256, 0)}),
        (["--protocol=h2"], {"cluster+h2": ("cluster", 32, 8)}),
        (
            ["--protocol=h1,h2", "--streams=100", "--mix=cluster"],
            {"cluster": ("cluster", 256, 0), "cluster+h2": ("cluster", 2, 100)},
        ),
        (["--protocol=h2", "--connections=7"], {"cluster+h2": ("cluster", 7, 8)}),
    ],
)
def test_each_protocol_has_a_load_of_its_own(
    arguments: list[str], loads: dict[str, tuple[str, int, int]]
) -> None:
    """By a name of its own, with as many requests in flight as over HTTP/1.1 by default."""
    assert loads == parse_arguments(arguments).loads


class Http2Server(asyncio.Protocol):
    """Responds to each request once it is whole; `heads` gets a list for each connection."""

    def __init__(
        self, status: int, heads: list[list[dict[bytes, bytes]]], bodies: Counter[int]
    ) -> None:
        self._state = H2Connection(H2Configuration(client_side=False, header_encoding=None))
        self._status = status
        self._heads: list[dict[bytes, bytes]] = []
        self._bodies = bodies
        self._sizes: Counter[int] = Counter()
        self._transport: asyncio.Transport
        heads.append(self._heads)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._state.initiate_connection()
        self._transport.write(self._state.data_to_send())

    def data_received(self, data: bytes) -> None:
        for event in self._state.receive_data(data):
            if isinstance(event, RequestReceived):
                self._heads.append(dict(event.headers))
            elif isinstance(event, DataReceived):
                assert event.stream_id is not None
                self._sizes[event.stream_id] += len(event.data or b"")
                self._state.acknowledge_received_data(len(event.data or b""), event.stream_id)
            elif isinstance(event, StreamEnded):
                assert event.stream_id is not None
                self._bodies[self._sizes.pop(event.stream_id, 0)] += 1
                self._state.send_headers(event.stream_id, [(":status", f"{self._status}")])
                self._state.send_data(event.stream_id, b"1" * 9000)
                self._state.send_data(event.stream_id, b"", end_stream=True)
        self._transport.write(self._state.data_to_send())


class Http1Server(asyncio.Protocol):
    """Responds with one text to each request; `heads` gets a list for each connection."""

    def __init__(self, text: bytes, heads: list[list[bytes]]) -> None:
        self._text = text
        self._heads: list[bytes] = []
        self._pending = b""
        self._transport: asyncio.Transport
        heads.append(self._heads)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._pending += data
        head, end, body = self._pending.partition(b"\r\n\r\n")
        length = re.search(rb"Content-Length: (\d+)", head)
        if not end or len(body) < (int(length[1]) if length else 0):
            return
        self._pending = b""
        self._heads.append(head)
        # In two writes, as a response comes in more than one piece.
        for piece in (self._text[:-5], self._text[-5:]):
            self._transport.write(piece)
        if not self._text:
            self._transport.close()


GOOD = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n12345"
RATES = pytest.mark.parametrize("rate", [pytest.param(0, id="full"), pytest.param(200, id="rate")])


@pytest.mark.e2e
@RATES
def test_clients_of_a_cluster(tmp_path: Path, rate: int) -> None:
    """Each connection has the heads of one user, with bodies where they are due."""
    seen: list[list[bytes]] = []

    measured = _driven(lambda: Http1Server(GOOD, seen), tmp_path, rate)

    assert measured.requests == sum(map(len, seen))
    assert rate in {0, measured.requests}
    users_of = [{re.findall(rb"Bearer \S+", head)[0] for head in heads} for heads in seen if heads]
    assert [1, 1] == [len(of) for of in users_of]
    assert {b"GET", b"PUT", b"PATCH"} == {head.split()[0] for heads in seen for head in heads}


@pytest.mark.e2e
@RATES
def test_clients_of_a_cluster_over_http2(tmp_path: Path, rate: int) -> None:
    """Each connection has the fields of one user, and bodies as long as they say."""
    heads: list[list[dict[bytes, bytes]]] = []
    bodies: Counter[int] = Counter()

    measured = _driven(lambda: Http2Server(200, heads, bodies), tmp_path, rate, streams=5)

    everything = [head for of in heads for head in of]
    assert measured.requests == len(everything) == bodies.total()
    assert rate in {0, measured.requests}
    assert [1, 1] == [len({head[b"authorization"] for head in of}) for of in heads if of]
    assert {b"GET", b"PUT", b"PATCH"} == {head[b":method"] for head in everything}
    assert bodies == Counter(int(head.get(b"content-length", 0)) for head in everything)


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("server", "streams", "message"),
    [
        (lambda: Http1Server(b"HTTP/1.1 429 Too Many Requests\r\n\r\n", []), 0, "429 Too Many"),
        (lambda: Http1Server(b"HTTP/1.1 200 OK\r\n\r\n", []), 0, "no Content-Length"),
        (lambda: Http1Server(b"", []), 0, "closed"),
        (lambda: Http2Server(429, [], Counter()), 5, "no success: 429"),
    ],
    ids=["status", "no-length", "closed", "h2-status"],
)
def test_a_response_that_is_no_success_ends_the_measurement(
    tmp_path: Path, server: Callable[[], asyncio.Protocol], streams: int, message: str
) -> None:
    with pytest.raises(LoadTestError, match=message):
        _driven(server, tmp_path, streams=streams)


def _driven(
    server: Callable[[], asyncio.Protocol], directory: Path, rate: int = 0, streams: int = 0
) -> Measurement:

    async def serve() -> Measurement:
        loop = asyncio.get_running_loop()
        listener = await loop.create_server(server, "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        proxy = cast("Process", SimpleNamespace(name="here", port=port, cpu_ns=lambda: 0))
        async with listener:
            return await asyncio.to_thread(
                drive,
                proxy,
                mix="cluster",
                variety=Variety(seed=3, rate=rate, streams=streams),
                seconds=1,
                connections=2,
                core=None,
                directory=directory,
            )

    return asyncio.run(serve())
