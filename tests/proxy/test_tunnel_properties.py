"""Whatever the order in which both sides of a tunnel send, stop and go on, no byte is changed."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.proxy.fakes import Bench
from tests.proxy.test_tunnel import AGREED, EXEC

PIECES = st.binary(min_size=1, max_size=40) | st.sampled_from([
    b"GET / HTTP/1.1\r\nHost: h\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n", b"0\r\n\r\n", b"x" * 70_000,
])  # fmt: skip
STEPS = st.lists(
    st.tuples(st.booleans(), PIECES | st.sampled_from(["pause", "resume"])), max_size=20
)
"""A side (true for the client), and what it does: it sends, or stops taking, or takes again."""


@settings(max_examples=60)
@given(
    steps=STEPS,
    early=st.tuples(st.binary(max_size=9), st.binary(max_size=9)),
    cuts=st.lists(st.integers(1, len(AGREED)), max_size=3),
)
def test_bytes_are_untouched(
    steps: list[tuple[bool, bytes | str]], early: tuple[bytes, bytes], cuts: list[int]
) -> None:
    """Both sides get what the other one sent, with what came along with the heads first."""
    with Bench() as bench:
        client = bench.ask(EXEC)
        bench.connect()
        upstream = bench.upstreams[-1]
        upstream.take()
        sent = {True: early[0], False: early[1]}
        # What the client sends before it knows the answer belongs to the tunnel, too.
        if early[0]:
            bench.send(client, early[0])
        answer = AGREED + early[1]
        ends = sorted({0, *cuts, len(answer)})
        for start, end in itertools.pairwise(ends):
            bench.send(upstream, answer[start:end])
        assert client.written.startswith(b"HTTP/1.1 101 ")
        head, _, _ = bytes(client.written).partition(b"\r\n\r\n")
        paused: dict[bool, bool] = {True: False, False: False}
        for is_client, step in steps:
            side = client if is_client else upstream
            if isinstance(step, bytes):
                sent[is_client] += step
                bench.send(side, step)
            elif paused[is_client] != (step == "pause"):
                paused[is_client] = step == "pause"
                (
                    side.protocol.pause_writing
                    if paused[is_client]
                    else side.protocol.resume_writing
                )()
                bench.loop.run_ready()
        for is_client, side in ((True, client), (False, upstream)):
            if paused[is_client]:
                side.protocol.resume_writing()
        bench.loop.run_ready()

        assert sent[True] == bytes(upstream.written)
        assert head + b"\r\n\r\n" + sent[False] == bytes(client.written)
        bench.end(client)
        bench.end(upstream)
        bench.assert_at_rest()
