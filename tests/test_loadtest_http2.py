"""Load tests over HTTP/2: their clients write what others read, and no bad answer counts."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, RequestReceived, StreamEnded
from hpack import Decoder, Encoder

from loadtest.cluster import Http2Fields, draw_request, users
from loadtest.cluster_driver import encode_requests, first_status
from loadtest.peers import parse_arguments
from loadtest.processes import LoadTestError
from loadtest.wrk import Measurement, Variety, drive

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from loadtest.processes import Process


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
        (
            ["--protocol=h2", "--connections=7,9"],
            {"cluster-7+h2": ("cluster", 7, 8), "cluster-9+h2": ("cluster", 9, 8)},
        ),
    ],
)
def test_each_protocol_has_a_load_of_its_own(
    arguments: list[str], loads: dict[str, tuple[str, int, int]]
) -> None:
    """By a name of its own, with as many requests in flight as over HTTP/1.1 by default."""
    assert loads == parse_arguments(arguments).loads


def test_other_mixes_have_no_protocol_to_choose(capsys: pytest.CaptureFixture[str]) -> None:
    """Said before anything is measured."""
    with pytest.raises(SystemExit):
        parse_arguments(["--protocol=h2", "--mix=cluster,varied"])

    assert "cluster only" in capsys.readouterr().err


class Server(asyncio.Protocol):
    """A server of HTTP/2 that answers each request once it is whole.

    Args:
        status: Of each answer.
        heads: Gets the fields of each request, a list for each connection.
        bodies: Gets the sizes of bodies.
    """

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
        """Send the settings."""
        self._transport = cast("asyncio.Transport", transport)
        self._state.initiate_connection()
        self._transport.write(self._state.data_to_send())

    def data_received(self, data: bytes) -> None:
        """Answer what has come."""
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


@pytest.mark.e2e
@pytest.mark.parametrize("rate", [pytest.param(0, id="full"), pytest.param(200, id="rate")])
def test_the_clients_of_a_cluster_send_their_requests(tmp_path: Path, rate: int) -> None:
    """Each connection has the fields of one user, and bodies as long as they say."""
    heads: list[list[dict[bytes, bytes]]] = []
    bodies: Counter[int] = Counter()

    measured = _driven(lambda: Server(200, heads, bodies), tmp_path, rate)

    everything = [head for of in heads for head in of]
    assert measured.requests == len(everything) == bodies.total()
    assert rate in {0, measured.requests}
    assert [1, 1] == [len({head[b"authorization"] for head in of}) for of in heads if of]
    assert {b"GET", b"PUT", b"PATCH"} == {head[b":method"] for head in everything}
    assert bodies == Counter(int(head.get(b"content-length", 0)) for head in everything)


@pytest.mark.e2e
def test_an_answer_that_is_no_success_ends_the_measurement(tmp_path: Path) -> None:
    with pytest.raises(LoadTestError, match="no success: 429"):
        _driven(lambda: Server(429, [], Counter()), tmp_path)


def _driven(server: Callable[[], asyncio.Protocol], directory: Path, rate: int = 0) -> Measurement:

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
                variety=Variety(seed=3, rate=rate, streams=5),
                seconds=1,
                connections=2,
                core=None,
                directory=directory,
            )

    return asyncio.run(serve())
