"""Any bytes of a client, however they are cut: properties of the whole data plane."""

from __future__ import annotations

import itertools

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.proxy.fakes import CHUNKED_POST, GET, LIST, OK, POST, Bench, FakeTransport

REQUESTS = [
    GET,
    LIST,
    b"\r\n" + GET,
    GET.replace(b"GET", b"HEAD"),
    GET.replace(b"1.1\r\n", b"1.0\r\nConnection: keep-alive\r\n"),
    b"GET / HTTP/1.0\r\n\r\n",
    b"GET /refusing HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
    POST + b"\r\nbody",
    POST + b"Expect: 100-continue\r\n\r\nbody",
    CHUNKED_POST + b"\r\n3;x=y\r\nabc\r\n1\r\nd\r\n0\r\nA: b\r\n\r\n",
    CHUNKED_POST + b"\r\n0\r\n\r\n",
    b"GET http://h/a HTTP/1.1\r\nHost: h\r\n\r\n",
    b"GET /x HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n",
    b"GET /%zz HTTP/1.1\r\nHost: h\r\n\r\n",
    POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    CHUNKED_POST + b"\r\nnonsense",
]
WELL_FORMED = [*REQUESTS[:8], *REQUESTS[9:13]]
"""Without one whose 100 Continue depends on how much of the body came at once."""

streams = st.one_of(
    st.lists(st.sampled_from(REQUESTS), max_size=4).map(b"".join),
    st.builds(
        lambda first, place, noise, second: first[:place] + noise + first[place:] + second,
        st.sampled_from(REQUESTS),
        st.integers(0, 90),
        st.binary(max_size=3),
        st.sampled_from(REQUESTS),
    ),
    st.binary(max_size=40),
)
cut_places = st.lists(st.integers(0, 300), max_size=8)


def pieces_of(stream: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    return [stream[start:end] for start, end in itertools.pairwise(places)]


def unchunked(data: bytes) -> bytes:
    result = b""
    while b"Transfer-Encoding: chunked\r\n" in data:
        head, end, data = data.partition(b"\r\n\r\n")
        result += head + end
        if b"Transfer-Encoding: chunked" not in head:
            continue
        while data and not data.startswith(b"0\r\n"):
            size, _, data = data.partition(b"\r\n")
            result += data[: int(size, 16)]
            data = data[int(size, 16) + 2 :]
    return result + data


DATED = OK.replace(b"Content", b"Date: now\r\nContent")
"""So that answers are the same in another second."""


class Upstream:
    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._seen: dict[FakeTransport, int] = {}
        self.got = b""

    def answer_all(self) -> None:
        while True:
            while self._bench.connecting:
                self._bench.connect()
            busy = [o for o in self._bench.upstreams if o.written and not o.ended_by]
            if not any(self._answer(upstream) for upstream in busy):
                return

    def _answer(self, upstream: FakeTransport) -> bool:
        data = bytes(upstream.written)
        head, end, body = data.partition(b"\r\n\r\n")
        assert end, "a head is written in one piece"
        if b"Transfer-Encoding: chunked" in head:
            if not (body.startswith(b"0\r\n") or b"\r\n0\r\n" in body) or (
                not body.endswith(b"\r\n\r\n")
            ):
                return False
        elif b"Content-Length: 4" in head and len(body) < 4:
            return False
        self.got += upstream.take()
        self._bench.send(upstream, DATED if not head.startswith(b"HEAD") else DATED[:-2])
        return True


def played(stream: bytes, cuts: list[int], rounds: int = 1) -> tuple[bytes, bytes, bool]:
    with Bench() as bench:
        for _ in range(rounds):
            client = bench.client()
            upstream = Upstream(bench)
            for piece in pieces_of(stream, cuts):
                bench.send(client, piece)
                upstream.answer_all()
            result = (unchunked(upstream.got), client.take(), client.has_eof)
            bench.end(client)
            bench.assert_at_rest()
            assert {} == bench.context.listener.connections
            assert 0 == bench.counters.listener.connections_open
        return result


@given(stream=streams, cuts=cut_places)
@settings(max_examples=100)
def test_any_bytes_give_answers_or_an_end(stream: bytes, cuts: list[int]) -> None:
    _, answered, has_ended = played(stream, cuts)

    finals = [part[:3] for part in answered.split(b"HTTP/1.1 ")[1:] if part[:3] != b"100"]
    assert {b"200", b"400", b"405", b"408", b"414", b"417", b"429", b"431", b"501"} >= set(finals)
    if finals and finals[-1] == b"400":
        assert has_ended


@given(requests=st.lists(st.sampled_from(WELL_FORMED), max_size=5), cuts=cut_places)
@example(requests=WELL_FORMED[:5], cuts=list(range(300)))
@settings(max_examples=60)
def test_cuts_change_nothing(requests: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(requests)

    expected = played(stream, [])
    assert expected == played(stream, cuts)
    # The same heads again, which are known by then.
    assert expected == played(stream, cuts, 3)
