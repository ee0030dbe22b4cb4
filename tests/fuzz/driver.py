"""Seeds, ways to split inputs, and a data plane to play them, for all targets."""

from __future__ import annotations

import itertools
import random
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httptools

from tests.conformance import vectors
from tests.fuzz.messages import read_request
from tests.proxy.fakes import Bench, FakeTransport

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from apfproxy.settings import DownstreamSettings
    from tests.fuzz.messages import Message

STEP = re.compile(r"\{\{[^{}]*\}\}")
ALL_SINGLE_BYTES = 160
"""Longer inputs are not taken byte by byte: that costs a read for each."""
BEYOND_ASCII = re.compile(rb"[\x80-\xff]")
OK = b"HTTP/1.1 200 OK\r\nX-Number: %d\r\nContent-Length: 2\r\n\r\n"


def raw_messages(*, of_upstreams: bool = False) -> list[bytes]:
    """Bytes of hostile clients or upstreams; without pauses, repetitions once."""
    cases: list[dict[str, Any]] = vectors.load("hostile_http")
    key = "upstream_raw" if of_upstreams else "raw"
    texts = {STEP.sub("", str(case.get(key) or "")) for case in cases}
    return [text.encode("latin-1", "replace")[:2000] for text in sorted(texts) if text]


def splits(data: bytes, choice: int) -> list[list[bytes]]:
    """The same bytes in several partitions: whole first, then others that `choice` picks."""
    if len(data) < 2:
        return [[data]]
    cuts: Sequence[int] = range(1, len(data))
    if len(data) > ALL_SINGLE_BYTES or not choice & 1:
        picks = random.Random(choice)  # noqa: S311  the same for the same input
        cuts = sorted(picks.sample(cuts, min(len(cuts), 1 + choice % 6)))
    return [[data], [data[a:b] for a, b in itertools.pairwise([0, *cuts, len(data)])]]


class Stage:
    """One bench for many inputs; a new one now and then, and after whatever went wrong."""

    MAX_RUNS = 300

    def __init__(self, downstream: DownstreamSettings | None = None) -> None:
        self._downstream = downstream
        self._bench: Bench | None = None
        self._runs = 0

    def bench(self) -> Bench:
        if self._bench is None or self._runs >= self.MAX_RUNS:
            self.drop()
            self._bench = Bench(seats=100, downstream=self._downstream)
            self._bench.__enter__()
        self._runs += 1
        return self._bench

    def drop(self) -> None:
        if self._bench is not None:
            self._bench.__exit__(None, None, None)
        self._bench, self._runs = None, 0

    @contextmanager
    def dropped_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.drop()
            raise


def serve(bench: Bench, forwarded: list[Message]) -> None:
    """Be the upstream, until nothing more comes of it; each whole request is forwarded."""
    is_busy = True
    while is_busy:
        is_busy = False
        while bench.connecting:
            bench.connect()
        for upstream in list(bench.upstreams):
            if upstream.ended_by or not upstream.written:
                continue
            raw = bytes(upstream.written)
            request = read_request(raw)  # whatever it raises, the proxy has sent it
            if not request.is_whole:
                continue
            assert request.end == len(raw), ("more than one request", raw)
            check_by_llhttp(raw, request)
            upstream.take()
            is_busy = True
            body = b"" if request.method == b"HEAD" else b"ok"
            bench.send(upstream, OK % len(forwarded) + body)
            forwarded.append(request)
        bench.loop.run_ready()


def leave(bench: Bench, client: FakeTransport) -> None:
    bench.end(client)
    bench.end(client)
    bench.loop.run_ready()
    bench.assert_at_rest()
    for upstream in [each for each in bench.upstreams if each.ended_by]:
        bench.upstreams.remove(upstream)


class Read:
    """Keeps what llhttp finds in a message, of the last one its body."""

    def __init__(self) -> None:
        self.messages = 0
        self.target = self.body = b""

    def on_url(self, url: bytes) -> None:
        self.target += url

    def on_message_begin(self) -> None:
        self.body = b""

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.messages += 1


def check_by_llhttp(raw: bytes, request: Message) -> None:
    """The other reader finds the same; it knows few methods, and ASCII in targets."""
    assert raw.startswith(request.method + b" ")
    line, _, rest = raw[len(request.method) :].partition(b"\n")
    raw = b"POST" + BEYOND_ASCII.sub(b"x", line) + b"\n" + rest
    target = BEYOND_ASCII.sub(b"x", request.target)
    found = Read()
    parser = httptools.HttpRequestParser(found)
    try:
        parser.feed_data(raw)
    except httptools.HttpParserUpgrade:
        # From here on it reads nothing, not even the body: httptools tells llhttp to skip it.
        assert request.values(b"connection") == [b"Upgrade"], raw
        assert (1, target) == (found.messages, found.target), raw
        return
    assert (1, target, request.body) == (found.messages, found.target, found.body), raw
