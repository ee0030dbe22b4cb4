"""The inputs that fuzzing has kept, once more, and messages that hypothesis cuts and mixes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz import answer_stream, frame_stream, request_stream
from tests.fuzz.driver import splits
from tests.fuzz.run import CORPUS, NAMES, target_named
from tests.proxy.fakes import CHUNKED_OK, CHUNKED_POST, GET, LIST, OK, POST

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@pytest.fixture(autouse=True)
def _stages() -> Iterator[None]:
    yield
    request_stream.STAGE.drop()
    answer_stream.STAGE.drop()
    frame_stream.STAGE.drop()


@pytest.mark.parametrize("name", NAMES)
def test_kept_inputs(name: str) -> None:
    if name == "frame_stream":
        pytest.importorskip("apfproxy.proxy.http2.nghttp2")
    target = target_named(name)
    inputs = [path.read_bytes() for path in sorted((CORPUS / name).iterdir())]
    assert inputs != []
    assert sum(map(len, inputs)) <= 100_000

    for data in [*inputs, *target.seeds()]:
        target.run_one(data)


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


GOOD = [*REQUESTS[:5], *REQUESTS[7:13]]
"""Well-formed ones that do not end their connection."""
RESPONSES = [
    OK,
    CHUNKED_OK + b"2\r\nab\r\n1;x\r\nc\r\n0\r\n\r\n",
    CHUNKED_OK + b"2\r\nab\r\n0\r\nA: b\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n" + OK,
    b"HTTP/1.1 204 No Content\r\n\r\n",
    b"HTTP/1.0 200 OK\r\n\r\nbody",
    b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nConnection: close\r\n\r\nbody",
    b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
    CHUNKED_OK + b"1\r\nabc\r\n",
]


def streams_of(messages: Sequence[bytes]) -> st.SearchStrategy[bytes]:
    """Some messages, or one that is broken with another one behind it."""
    return st.one_of(
        st.lists(st.sampled_from(messages), max_size=4).map(b"".join),
        st.builds(
            lambda first, place, noise, second: first[:place] + noise + first[place:] + second,
            st.sampled_from(messages),
            st.integers(0, 90),
            st.binary(max_size=3),
            st.sampled_from(messages),
        ),
        st.binary(max_size=40),
    )


@given(choice=st.integers(0, 255), stream=streams_of(REQUESTS))
@settings(max_examples=100)
def test_requests(choice: int, stream: bytes) -> None:
    request_stream.run_one(bytes((choice,)) + stream)


@given(choice=st.integers(0, 255), requests=st.lists(st.sampled_from(GOOD), max_size=4))
@settings(max_examples=100)
def test_good_requests(choice: int, requests: list[bytes]) -> None:
    """Each is served, however it is cut."""
    for pieces in splits(b"".join(requests), choice):
        play = request_stream.Play(pieces, is_trusted=False)
        assert len(requests) == len(play.forwarded)


@given(choice=st.integers(0, 255), stream=streams_of(RESPONSES))
@settings(max_examples=100)
def test_responses(choice: int, stream: bytes) -> None:
    answer_stream.run_one(bytes((choice,)) + stream)


RECORDS = st.lists(
    st.builds(
        lambda head, rest: bytes((*head, len(rest))) + rest,
        st.tuples(*(st.integers(0, most) for most in (11, 63, 15, 7))),
        st.binary(max_size=9),
    ),
    max_size=8,
)
"""Frames, as `frame_stream.framed` reads them."""


@given(choice=st.integers(0, 127), records=RECORDS)
@settings(max_examples=100)
def test_frames(choice: int, records: list[bytes]) -> None:
    pytest.importorskip("apfproxy.proxy.http2.nghttp2")
    frame_stream.run_one(bytes((choice,)) + b"".join(records))
