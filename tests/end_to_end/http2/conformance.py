"""What a case of conformance is: bytes that a client sends, and what the server has to say.

The numbers of cases are those of h2spec, a program that judges servers of HTTP/2; its sections are
RFC 7540's.  Each case names the section of RFC 9113, or of RFC 7541 for HPACK, beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.end_to_end.http2.frames import ACK, Code, FrameClient, Kind, ping

if TYPE_CHECKING:
    from tests.end_to_end.http2.frames import Frame

PING = b"a marker"
ASK = ping(PING)

Outcome = Callable[[FrameClient], None]
"""Reads until the server said something; raises AssertionError if it did not."""


@dataclass(frozen=True)
class Case:
    """Bytes and outcomes, in turn.

    Attributes:
        number: `part/section/number` of h2spec.
        rule: The section of RFC 9113; of RFC 7541 in cases of HPACK.
        what: What is sent, in words.
        steps: What the client sends, and what it waits for.
        begins: Whether the prefaces are exchanged first.
    """

    number: str
    rule: str
    what: str
    steps: tuple[bytes | Outcome, ...]
    begins: bool = True

    def run(self, client: FrameClient) -> None:
        """Take all steps.

        Raises:
            AssertionError: The server did not say what it has to.
        """
        if self.begins:
            client.begin()
        for step in self.steps:
            if isinstance(step, bytes):
                client.send(step)
            else:
                step(client)


def case(number: str, rule: str, what: str, *steps: bytes | Outcome, begins: bool = True) -> Case:
    """A case."""
    return Case(number, rule, what, steps, begins)


# What a server has to say.


def first_settings(client: FrameClient) -> None:
    """The first frame of the server is SETTINGS, and no acknowledgement."""
    found = client.next_frame()
    assert found is not None
    assert (Kind.SETTINGS, 0) == (found.kind, found.flags)


def acknowledged(client: FrameClient) -> None:
    """SETTINGS is acknowledged."""
    client.until(Kind.SETTINGS, flags=ACK)


def answered(client: FrameClient) -> None:
    """Stream 1 gets the head of an answer."""
    assert client.status(1) == 200


def ended(client: FrameClient) -> None:
    """Stream 1 gets an answer, to its end."""
    found = client.next_frame()
    while found is not None and not found.ends:
        found = client.next_frame()
    assert found is not None, client.told()
    assert found.stream_id == 1


def data_of(size: int) -> Outcome:
    """Stream 1 gets just so many bytes of its answer."""

    def meet(client: FrameClient) -> None:
        assert size == len(client.until(Kind.DATA, 1).payload), client.told()

    return meet


def pong(client: FrameClient) -> None:
    """PING is answered, with its content."""
    found = client.until(Kind.PING)
    assert (ACK, PING) == (found.flags, found.payload)


def pong_or_end(client: FrameClient) -> None:
    """The same, or the connection ends without an error: its client has said that it leaves."""
    while (found := client.next_frame()) is not None and found.kind != Kind.PING:
        assert found.kind != Kind.GOAWAY or found.code == Code.NO_ERROR, found


def closed(client: FrameClient) -> None:
    """The connection ends; no request was answered."""
    assert not [each for each in client.end() if each.kind == Kind.DATA]


def connection_error(*codes: Code) -> Outcome:
    """GOAWAY with one of some codes, then the end of the connection."""

    def meet(client: FrameClient) -> None:
        found = client.until(Kind.GOAWAY)
        assert found.code in codes, found
        client.end()

    return meet


def stream_error(*codes: Code, stream_id: int = 1) -> Outcome:
    """RST_STREAM with one of some codes; or GOAWAY, as RFC 9113, section 5.4.2, lets a server."""

    def is_told(found: Frame) -> bool:
        return found.kind == Kind.GOAWAY or (
            found.kind == Kind.RST_STREAM and found.stream_id == stream_id
        )

    def meet(client: FrameClient) -> None:
        found = client.next_frame()
        while found is not None and not is_told(found):
            found = client.next_frame()
        assert found is not None, client.told()
        assert found.code in codes, found

    return meet
