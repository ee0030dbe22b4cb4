"""Known attacks by frames, each by its name; others are served meanwhile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from apfproxy.proxy.counters import Flood, GoAway
from tests.end_to_end.http2.frames import (
    GET,
    PADDED,
    POST,
    Kind,
    Setting,
    block,
    continuation,
    data,
    dependency,
    frame,
    goaway,
    headers,
    literal,
    ping,
    prefixed,
    priority,
    request,
    reset,
    settings,
    window_update,
)
from tests.end_to_end.http2.scenes import LARGE, NEVER, Server, cleartext

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.end_to_end.http2.frames import FrameClient

MOST_PARTS = 200
"""After so many, an attack must have been ended."""
MARKER = b"a marker"
LARGEST = (1 << 31) - 1


@dataclass(frozen=True)
class Attack:
    """Frames that are sent again and again."""

    name: str
    part: Callable[[int], bytes]
    ended_as: Flood | GoAway
    begin: bytes = b""
    is_paced: bool = True


STREAMS_A_PART = 50


def of_streams(unit: Callable[[int], bytes]) -> Callable[[int], bytes]:
    return lambda first: b"".join(unit(first + 2 * each) for each in range(STREAMS_A_PART))


def of_connection(unit: bytes, times: int = 100) -> Callable[[int], bytes]:
    return lambda _: unit * times


def begun(stream_id: int) -> bytes:
    return headers(stream_id, POST, ends=False)


def malformed(*fields: tuple[bytes, bytes]) -> Callable[[int], bytes]:
    return of_streams(lambda stream_id: headers(stream_id, GET + block(*fields)))


def reset_of_last(stream_id: int) -> bytes:
    earlier = stream_id - 2 * STREAMS_A_PART
    return reset(earlier) if earlier > 0 else b""


UNANSWERED = request(b"GET", NEVER)
SIZED = request(b"POST", b"/", (b"content-length", b"1"))
ENTERED = 0x40
BOMB = GET + literal(b"x", b"y" * 3900, ENTERED) + prefixed(62, 7, 0x80) * 200
"""A field of 4 KiB, and as many bytes as follow references to it: 800 KiB of fields."""
SLIVER = settings((Setting.INITIAL_WINDOW_SIZE, 1))

ATTACKS = (
    Attack(
        "rapid reset, CVE-2023-44487",
        of_streams(lambda stream_id: headers(stream_id, GET) + reset(stream_id)),
        Flood.RESETS,
    ),
    Attack(
        "rapid reset of requests that the server behind has got, CVE-2023-44487",
        of_streams(lambda stream_id: headers(stream_id, UNANSWERED) + reset_of_last(stream_id)),
        Flood.RESETS,
    ),
    Attack(
        "CONTINUATION flood, CVE-2024-27316",
        of_connection(continuation(1, block((b"x-more", b"y" * 100)), is_whole=False)),
        Flood.EMPTY_FRAMES,
        begin=headers(1, GET, is_whole=False),
        is_paced=False,
    ),
    Attack(
        "CONTINUATION frames of no length, CVE-2019-9518",
        of_connection(continuation(1, b"", is_whole=False)),
        Flood.EMPTY_FRAMES,
        begin=headers(1, GET, is_whole=False),
        is_paced=False,
    ),
    Attack(
        "DATA frames of no length, CVE-2019-9518",
        of_connection(data(1, ends=False)),
        Flood.EMPTY_FRAMES,
        begin=begun(1),
    ),
    Attack(
        "DATA frames of padding, CVE-2019-9518",
        of_connection(frame(Kind.DATA, PADDED, 1, b"\5" + bytes(5))),
        Flood.EMPTY_FRAMES,
        begin=begun(1),
    ),
    Attack("SETTINGS flood, CVE-2019-9515", of_connection(settings()), Flood.CONTROL),
    Attack("PING flood, CVE-2019-9512", of_connection(ping()), Flood.CONTROL),
    Attack(
        "PING flood of a client that does not read, CVE-2019-9512",
        of_connection(ping(), 10_000),
        Flood.CONTROL,
        is_paced=False,
    ),
    Attack(
        "resource loop: priorities that change, CVE-2019-9513",
        lambda first: b"".join(
            priority(1 + 2 * each, dependency(first + 200 + 2 * each)) for each in range(100)
        ),
        Flood.CONTROL,
    ),
    Attack("unknown frames", of_connection(frame(0xEE, 0, 1, b"?")), Flood.CONTROL),
    Attack("GOAWAY flood", of_connection(goaway()), Flood.CONTROL, begin=begun(1)),
    Attack(
        "resets of streams that are gone",
        of_connection(reset(1)),
        Flood.CONTROL,
        begin=headers(1, GET) + reset(1),
    ),
    Attack("WINDOW_UPDATE flood", of_connection(window_update(0, 1), 500), Flood.WINDOW_UPDATES),
    Attack(
        "data dribble: windows of a byte, CVE-2019-9511",
        of_connection(window_update(1, 1)),
        Flood.WINDOW_UPDATES,
        begin=SLIVER + headers(1, request(b"GET", LARGE)),
    ),
    Attack(
        "MadeYouReset by WINDOW_UPDATE of 0, CVE-2025-8671",
        of_streams(lambda stream_id: begun(stream_id) + window_update(stream_id, 0)),
        GoAway.PROTOCOL,
    ),
    Attack(
        "MadeYouReset by a window that is too large, CVE-2025-8671",
        of_streams(lambda stream_id: begun(stream_id) + window_update(stream_id, LARGEST)),
        Flood.RESETS,
    ),
    Attack(
        "MadeYouReset by HEADERS that do not end the request, CVE-2025-8671",
        of_streams(lambda stream_id: 2 * begun(stream_id)),
        Flood.RESETS,
    ),
    Attack(
        "MadeYouReset by a body that is too long, CVE-2025-8671",
        of_streams(
            lambda stream_id: headers(stream_id, SIZED, ends=False) + data(stream_id, b"ab")
        ),
        Flood.RESETS,
    ),
    Attack(
        "MadeYouReset by DATA behind the end, CVE-2025-8671",
        of_streams(lambda stream_id: headers(stream_id, GET) + data(stream_id, b"more")),
        GoAway.PROTOCOL,
    ),
    Attack(
        "MadeYouReset by HEADERS behind the end, CVE-2025-8671",
        of_streams(lambda stream_id: 2 * headers(stream_id, GET)),
        GoAway.PROTOCOL,
    ),
    Attack(
        "MadeYouReset by PRIORITY of a wrong length, CVE-2025-8671",
        of_streams(lambda stream_id: begun(stream_id) + priority(stream_id, b"four")),
        GoAway.PROTOCOL,
    ),
    Attack(
        "MadeYouReset by a stream that depends on itself, CVE-2025-8671",
        of_streams(lambda stream_id: begun(stream_id) + priority(stream_id, dependency(stream_id))),
        GoAway.PROTOCOL,
    ),
    Attack(
        "header leak: fields without a name, CVE-2019-9516", malformed((b"", b"")), Flood.RESETS
    ),
    Attack("names in capitals", malformed((b"X-Test", b"a")), Flood.RESETS),
    Attack("fields of a connection", malformed((b"connection", b"close")), Flood.RESETS),
    Attack("values with line ends", malformed((b"x", b"a\r\nx-remote-user: b")), Flood.RESETS),
    Attack("HPACK bomb", of_streams(lambda stream_id: headers(stream_id, BOMB)), Flood.RESETS),
)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with cleartext() as found:
        yield found


def endings(server: Server) -> dict[str, float]:
    counters = server.scene.process.cluster.counters.listener.http2
    return {
        label.value: number
        for counts in (counters.goaways, counters.floods)
        for label, number in counts.items()
    }


def has_ended(client: FrameClient, *, is_paced: bool) -> bool:
    if not is_paced:
        return client.has_ended()
    while (found := client.next_frame()) is not None:
        if found.kind == Kind.PING and found.payload == MARKER:
            return False
    return True


@pytest.mark.parametrize("attack", ATTACKS, ids=[each.name for each in ATTACKS])
def test_attack(server: Server, attack: Attack) -> None:
    """The connection is ended, for a reason that is counted; another one is served meanwhile."""
    before = endings(server)
    with server.connect() as client, server.connect() as bystander:
        client.begin()
        bystander.begin()
        client.send(attack.begin)
        for number in range(MOST_PARTS):
            client.send(attack.part(1 + 2 * STREAMS_A_PART * number))
            if attack.is_paced:
                client.send(ping(MARKER))
            bystander.send(headers(1 + 2 * number, GET))
            assert 200 == bystander.status(1 + 2 * number)
            if has_ended(client, is_paced=attack.is_paced):
                break
        else:
            raise AssertionError("it goes on")

    expected = {attack.ended_as: 1}
    if isinstance(attack.ended_as, Flood):
        expected[GoAway.FLOOD] = 1
    after = endings(server)
    assert expected == {
        each: after[each] - before[each] for each in after if after[each] - before[each]
    }
