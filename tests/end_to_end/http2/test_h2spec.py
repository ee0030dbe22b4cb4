"""Frames by the book and against it: the cases of h2spec, by their numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.end_to_end.http2.cases import CASES, Outcome
from tests.end_to_end.http2.frames import GET, PREFACE, Kind, headers, settings
from tests.end_to_end.http2.scenes import Server, secure

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with secure(tmp_path_factory.mktemp("tls")) as found:
        yield found


@pytest.mark.parametrize("steps", CASES.values(), ids=CASES.keys())
def test_case(server: Server, steps: tuple[bytes | Outcome, ...]) -> None:
    """The proxy says what RFC 9113 asks for, and goes on for others."""
    with server.connect() as client:
        client.begin()
        for step in steps:
            if isinstance(step, bytes):
                client.send(step)
            else:
                step(client)

    with server.connect() as client:
        client.begin()
        client.send(headers(1, GET))
        assert 200 == client.status(1)


def test_preface(server: Server) -> None:
    """generic/1/1: The server's first frame is SETTINGS, and no acknowledgement."""
    with server.connect() as client:
        client.send(PREFACE + settings())
        found = client.next_frame()

    assert found is not None
    assert (Kind.SETTINGS, 0) == (found.kind, found.flags)


def test_no_preface(server: Server) -> None:
    """http2/3.5/2: The connection ends, and no request got a response."""
    with server.connect() as client:
        client.send(b"INVALID CONNECTION PREFACE\r\n\r\n")

        assert [] == [each for each in client.end() if each.kind == Kind.DATA]
