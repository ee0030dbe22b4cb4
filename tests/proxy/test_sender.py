"""Field sections, told apart from the length of the body, and by what a connection is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from apfproxy.proxy import client_kinds as client_kinds_module
from apfproxy.proxy.downstream import MAX_REPEATED_BYTES
from apfproxy.proxy.request_fields import NO_BODY, SIZED, RequestFields
from apfproxy.proxy.sender import Sender, is_of_any_length, key_of
from tests.proxy.fakes import GET, OK, POST, Bench, FakeTransport, connection_of, status

if TYPE_CHECKING:
    from apfproxy.proxy.request import Request

LINE = b"PUT / HTTP/1.1\r\n"


@pytest.mark.parametrize(
    ("section", "key", "body_bytes"),
    [
        pytest.param(
            b"Host: h\r\nContent-Length: 12\r\nA: b\r\n\r\n",
            (b"Host: h\r\nContent-Length: ", b"\r\nA: b\r\n\r\n"),
            12,
            id="one",
        ),
        pytest.param(
            b"content-length: 7\r\n\r\n", (b"content-length: ", b"\r\n\r\n"), 7, id="first"
        ),
        pytest.param(
            b"Content-Length: 0\r\n\r\n", (b"", b"Content-Length: 0\r\n\r\n"), 0, id="zero"
        ),
        pytest.param(b"Host: h\r\n\r\n", (b"", b"Host: h\r\n\r\n"), 0, id="none"),
        pytest.param(
            b"A-Content-Length: 7\r\n\r\n", (b"", b"A-Content-Length: 7\r\n\r\n"), 0, id="another"
        ),
        pytest.param(
            b"Content-Length: 7\r\nContent-Length: 7\r\n\r\n",
            (b"", b"Content-Length: 7\r\nContent-Length: 7\r\n\r\n"),
            0,
            id="two",
        ),
    ],
)
def test_key(section: bytes, key: tuple[bytes, bytes], body_bytes: int) -> None:
    """The digits of one length, well written, are no part of the key."""
    assert (key, body_bytes) == key_of(section)


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        pytest.param(b"Content-Length: 7\r\nA: b\r\n\r\n", 7, id="the-same"),
        pytest.param(b"Content-Length: 123456\r\nA: b\r\n\r\n", 123456, id="longer"),
        pytest.param(b"Content-Length: " + b"9" * 18 + b"\r\nA: b\r\n\r\n", 10**18 - 1, id="long"),
        pytest.param(b"Content-Length: " + b"9" * 19 + b"\r\nA: b\r\n\r\n", -1, id="too-long"),
        pytest.param(b"Content-Length: 0\r\nA: b\r\n\r\n", -1, id="none"),
        pytest.param(b"Content-Length: 07\r\nA: b\r\n\r\n", -1, id="leading-zero"),
        pytest.param(b"Content-Length: \r\nA: b\r\n\r\n", -1, id="empty"),
        pytest.param(b"Content-Length: 7", -1, id="without-an-end"),
        pytest.param(b"Content-Length: +7\r\nA: b\r\n\r\n", -1, id="sign"),
        pytest.param(b"Content-Length: 7\r\nC: d\r\nA: b\r\n\r\n", -1, id="another-line"),
        pytest.param(b"Content-Length: 7\r\n\r\n", -1, id="without-a-line"),
        pytest.param(b"content-length: 7\r\nA: b\r\n\r\n", -1, id="another-spelling"),
    ],
)
def test_body_bytes(section: bytes, expected: int) -> None:
    """A head has the section if it differs in the digits alone."""
    fields = RequestFields(is_http_10=False, framing=SIZED, body_bytes=5, has_one_length=True)
    sender = Sender(fields, key_of(b"Content-Length: 5\r\nA: b\r\n\r\n")[0])

    assert is_of_any_length(fields)
    head = LINE + section
    end = len(head) if expected >= 0 else 0
    for data in (head, head + LINE, bytearray(head)):
        assert (end, max(0, expected)) == sender.match(data, len(LINE))
    assert "<Sender of 26 bytes>" == repr(sender)


def test_section_without_a_length() -> None:
    """It is the same bytes, or another one."""
    fields = RequestFields(is_http_10=False, framing=NO_BODY)
    sender = Sender(fields, key_of(b"A: b\r\n\r\n")[0])

    assert not is_of_any_length(fields)
    assert (len(LINE) + 8, 0) == sender.match(LINE + b"A: b\r\n\r\nbody", len(LINE))
    assert (0, 0) == sender.match(LINE + b"A: c\r\n\r\n", len(LINE))
    assert (0, 0) == sender.match(LINE + b"C: d\r\nA: b\r\n\r\n", len(LINE))
    assert (0, 0) == sender.match(LINE + b"A: b\r\n", len(LINE))


def ask(bench: Bench, client: FakeTransport, head: bytes, times: int) -> list[Request]:
    """Have a head answered so many times; the requests it became."""
    found = []
    for _ in range(times):
        bench.send(client, head)
        exchange = connection_of(client).exchange
        assert exchange is not None
        found.append(exchange.request)
        bench.send(bench.origins[0], OK)
        assert b"200" == status(client.take())
    return found


@pytest.mark.parametrize(
    ("head", "different"),
    [
        pytest.param(GET, 2, id="short"),
        pytest.param(GET[:-2] + b"A: %b\r\n\r\n" % (b"a" * MAX_REPEATED_BYTES), 5, id="long"),
        pytest.param(POST + b"\r\nbody", 5, id="body"),
        pytest.param(POST.replace(b"4", b"0") + b"\r\n", 2, id="empty-body"),
    ],
)
def test_a_repeated_head_is_not_parsed(bench: Bench, head: bytes, different: int) -> None:
    """From the third time on a short head without a body is the same request again."""
    client = bench.client()

    assert different == len(set(map(id, ask(bench, client, head, 5))))
    bench.end(client)
    bench.assert_at_rest()


def test_what_a_connection_is_known_by_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks is authenticated again, and connections hold no more than the cache."""
    monkeypatch.setattr(client_kinds_module, "MAX_KEPT_FIELDS", 2)
    with Bench() as bench:
        client = bench.client()
        for forget in (bench.context.forget_identities, connection_of(client).forget_senders):
            before = ask(bench, client, GET, 3)
            forget()
            assert before[-1] is not ask(bench, client, GET, 1)[0]
        assert 1 == len(connection_of(client)._known)  # noqa: SLF001  nothing else tells
        other = bench.client()
        for number in range(2):
            head = GET[:-2] + b"A: %d\r\n\r\n" % number
            ask(bench, other, head, 2)

        assert [] == connection_of(client)._known  # noqa: SLF001
        bench.end(client)
        bench.end(other)
