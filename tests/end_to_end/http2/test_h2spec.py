"""Frames by the book and against it: the cases of h2spec, by their numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.end_to_end.http2 import cases_accepted, cases_of_connections, cases_refused
from tests.end_to_end.http2.frames import GET, headers
from tests.end_to_end.http2.scenes import Server, cleartext, secure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.end_to_end.http2.conformance import Case

CASES = {
    each.number: each
    for each in (*cases_accepted.CASES, *cases_refused.CASES, *cases_of_connections.CASES)
}


@pytest.fixture(scope="module", params=["cleartext", "tls"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A proxy that speaks HTTP/2."""
    if request.param == "tls":
        with secure(tmp_path_factory.mktemp("tls")) as found:
            yield found
    else:
        with cleartext() as found:
            yield found


def test_all_cases_are_there() -> None:
    """None has the number of another, and none was left out."""
    assert 147 == len(CASES)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_case(server: Server, case: Case) -> None:
    """The proxy says what RFC 9113 asks for, and goes on for others."""
    with server.connect() as client:
        case.run(client)

    with server.connect() as client:
        client.begin()
        client.send(headers(1, GET))
        assert 200 == client.status(1)
