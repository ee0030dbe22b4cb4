"""Answers, on their way to the client."""

from __future__ import annotations

import pytest

from tests.proxy.fakes import (
    CHUNKED_OK,
    GET,
    OK,
    Bench,
    body,
    status,
)

SIZED_HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n"


@pytest.mark.parametrize("is_bytewise", [False, True], ids=["whole", "byte-by-byte"])
@pytest.mark.parametrize(
    ("request_", "answer", "contents", "is_kept"),
    [
        pytest.param(GET, SIZED_HEAD + b"body", b"body", True, id="sized"),
        pytest.param(GET, SIZED_HEAD + b"body, more", b"body", False, id="longer-than-it-says"),
        pytest.param(
            GET, CHUNKED_OK + b"4\r\nbody\r\n0\r\n\r\n", b"chunked body", True, id="chunked"
        ),
        pytest.param(
            GET,
            CHUNKED_OK + b"4\r\nbody\r\n0\r\nA: b\r\n\r\n",
            b"chunked body A: b",
            True,
            id="trailers",
        ),
        pytest.param(
            GET,
            CHUNKED_OK + b"4\r\nbody\r\n0\r\n\r\n!",
            b"chunked body",
            False,
            id="chunks-and-more",
        ),
        pytest.param(GET, CHUNKED_OK + b"0\r\n\r\n", b"chunked ", True, id="no-chunks"),
        pytest.param(GET, b"HTTP/1.1 204 No\r\n\r\n", b"", True, id="204"),
        pytest.param(GET, b"HTTP/1.1 304 N\r\nContent-Length: 4\r\n\r\n", b"", True, id="304"),
        pytest.param(GET, b"HTTP/1.1 304 N\r\n\r\nbody", b"", False, id="304-with-a-body"),
        pytest.param(GET.replace(b"GET", b"HEAD"), SIZED_HEAD, b"", True, id="head"),
        pytest.param(GET.replace(b"GET", b"HEAD"), CHUNKED_OK, b"", True, id="head-chunked"),
        pytest.param(
            GET, SIZED_HEAD.replace(b"1.1 ", b"1.0 ") + b"body", b"body", False, id="upstream-1.0"
        ),
        pytest.param(
            GET,
            b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\nbody",
            b"body",
            False,
            id="upstream-closes",
        ),
        pytest.param(
            GET,
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nA: b\r\n\r\n"
            + (SIZED_HEAD + b"body"),
            b"100 103 body",
            True,
            id="interim-answers",
        ),
    ],
)
def test_answers(
    bench: Bench, request_: bytes, answer: bytes, contents: bytes, is_kept: bool, is_bytewise: bool
) -> None:
    client = bench.ask(request_)
    for piece in [answer[i : i + 1] for i in range(len(answer))] if is_bytewise else [answer]:
        bench.send(bench.upstreams[0], piece)
    got = b""
    taken = client.take()
    while taken.startswith(b"HTTP/1.1 1"):
        got += status(taken) + b" "
        taken = body(taken)
    assert b"Connection" not in taken
    if b"Transfer-Encoding: chunked\r\n" in taken:
        rest = body(taken)
        got += b"chunked "
        while not rest.startswith(b"0"):
            size, _, rest = rest.partition(b"\r\n")
            got += rest[: int(size, 16)]
            rest = rest[int(size, 16) + 2 :]
        assert rest.endswith(b"\r\n\r\n")
        got += b" A: b" if rest == b"0\r\nA: b\r\n\r\n" else b""
    else:
        got += body(taken)

    assert contents == got
    assert is_kept == (bench.pool.idle_count == 1)
    assert is_kept == (not bench.upstreams[0].ended_by)
    assert "" == client.ended_by
    bench.assert_at_rest()


def test_answer_that_turns_out_longer_than_it_says(bench: Bench) -> None:
    client = bench.ask(GET)
    for piece in (SIZED_HEAD + b"bo", b"dy, more"):
        bench.send(bench.upstreams[0], piece)

    assert b"body" == body(client.take())
    assert "abort" == bench.upstreams[0].ended_by
    bench.assert_at_rest()


def test_answer_until_close_becomes_chunked(bench: Bench) -> None:
    client = bench.ask(GET)
    bench.send(bench.upstreams[0], b"HTTP/1.1 200 OK\r\n\r\n")
    bench.send(bench.upstreams[0], b"body")
    bench.end(bench.upstreams[0])
    answer = client.take()

    assert b"\r\nTransfer-Encoding: chunked\r\n" in answer
    assert b"4\r\nbody\r\n0\r\n\r\n" == body(answer)
    assert "" == client.ended_by
    bench.assert_at_rest()


@pytest.mark.parametrize("is_bytewise", [False, True], ids=["whole", "byte-by-byte"])
def test_chunked_answer_to_http_10(bench: Bench, is_bytewise: bool) -> None:
    client = bench.ask(GET.replace(b"1.1\r\n", b"1.0\r\nConnection: keep-alive\r\n"))
    answer = CHUNKED_OK + b"4\r\nbody\r\n0\r\nA: b\r\n\r\n"
    for piece in [answer[i : i + 1] for i in range(len(answer))] if is_bytewise else [answer]:
        bench.send(bench.upstreams[0], piece)
    taken = client.take()

    assert b"\r\nConnection: close\r\n" in taken
    assert b"Transfer-Encoding" not in taken
    assert b"body" == body(taken)
    assert client.has_eof
    bench.assert_at_rest()


@pytest.mark.parametrize(
    ("request_", "line"),
    [
        pytest.param(GET.replace(b"1.1", b"1.0"), b"Connection: close\r\n\r\n", id="1.0"),
        pytest.param(
            GET.replace(b"1.1\r\n", b"1.0\r\nConnection: keep-alive\r\n"),
            b"Connection: keep-alive\r\n\r\n",
            id="1.0-keep-alive",
        ),
        pytest.param(
            GET.replace(b"1.1\r\n", b"1.1\r\nConnection: close\r\n"),
            b"Connection: close\r\n\r\n",
            id="close",
        ),
    ],
)
def test_connection_is_kept_as_the_client_says(bench: Bench, request_: bytes, line: bytes) -> None:
    client = bench.ask(request_)
    bench.send(bench.upstreams[0], b"HTTP/1.1 100 Continue\r\n\r\n" + OK)
    answer = client.take()

    assert line in answer
    assert (b" 100 " in answer) == (b" HTTP/1.1" in request_)
    assert client.has_eof == (b"close" in line)
    assert 1 == bench.pool.idle_count
    bench.assert_at_rest()
    other = bench.ask(request_)
    bench.end(bench.upstreams[0], ConnectionResetError())
    bench.connect()
    bench.send(bench.upstreams[1], b"nonsense\r\n\r\n")
    answer = other.take()
    assert b"502" == status(answer)
    assert line in answer


def test_slow_client_keeps_no_connection_paused(bench: Bench) -> None:
    client = bench.ask(GET)
    client.protocol.pause_writing()
    bench.send(bench.upstreams[0], CHUNKED_OK + b"1\r\na\r\n0\r\nA: b\r\n\r\n")
    assert bench.upstreams[0].reads
    client.protocol.resume_writing()
    other = bench.ask(GET)
    bench.send(bench.upstreams[0], OK)

    assert b"200" == status(other.take())
    bench.assert_at_rest()
