"""Heads of answers."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from apfproxy.http import response_head
from apfproxy.http.response_head import (
    CHUNKED,
    MAX_KNOWN_LINE_BYTES,
    NO_BODY,
    SIZED,
    UNTIL_CLOSE,
    ResponseError,
    ResponseHead,
    check_start,
    parse_response_head,
)

if TYPE_CHECKING:
    from collections.abc import Callable

ATTRIBUTES = ("status", "lines", "length", "keep_alive", "framing", "has_audit_id", "has_date")


@pytest.fixture(autouse=True)
def forget() -> Callable[[], None]:
    kept = ("_known_lines", "_known_names", "_known_status_lines", "_patterns", "_seen")

    def forget() -> None:
        for name in kept:
            getattr(response_head, name).clear()

    forget()
    return forget


def all_of(head: ResponseHead) -> list[object]:
    return [getattr(head, name) for name in ATTRIBUTES]


def parse(head: bytes, *, answers_head: bool = False) -> ResponseHead:
    cold, warm = (parse_response_head(head, answers_head=answers_head) for _ in range(2))
    assert all_of(cold) == all_of(warm)
    return cold


FIVE = b"1.1 200 OK\r\nContent-Length: 5"
OLD_FIVE = b"1.0 200 OK\r\nContent-Length: 5"
LONGEST = b"1.1 200 OK\r\nContent-Length: 999999999999999999"
CODED = b"1.1 200 OK\r\nTransfer-Encoding: Chunked"


@pytest.mark.parametrize(
    ("head", "answers_head", "framing", "length", "keep_alive"),
    [
        (FIVE, False, SIZED, 5, True),
        (b"1.1 200 OK\r\ncontent-LENGTH:005 ", False, SIZED, 5, True),
        (b"1.1 200 OK\r\nContent-Length: 0", False, NO_BODY, 0, True),
        (LONGEST, False, SIZED, 10**18 - 1, True),
        (CODED, False, CHUNKED, -1, True),
        (b"1.1 200 OK", False, UNTIL_CLOSE, -1, False),
        (b"1.0 200 OK", False, UNTIL_CLOSE, -1, False),
        (FIVE, True, NO_BODY, 5, True),
        (CODED, True, NO_BODY, -1, True),
        (b"1.1 204 No Content", False, NO_BODY, -1, True),
        (b"1.1 304 Not Modified\r\nContent-Length: 5", False, NO_BODY, 5, True),
        (b"1.1 100 Continue", False, NO_BODY, -1, True),
        (FIVE + b"\r\nConnection: close", False, SIZED, 5, False),
        (FIVE + b"\r\nConnection: a, Close", False, SIZED, 5, False),
        (FIVE + b"\r\nConnection: keep-alive", False, SIZED, 5, True),
        (OLD_FIVE, False, SIZED, 5, False),
        (OLD_FIVE + b"\r\nConnection: keep-alive", False, SIZED, 5, True),
        (OLD_FIVE + b"\r\nConnection: Keep-Alive, x", False, SIZED, 5, True),
        (OLD_FIVE + b"\r\nConnection: x", False, SIZED, 5, False),
    ],
)
def test_frames(
    head: bytes, answers_head: bool, framing: int, length: int, keep_alive: bool
) -> None:
    found = parse(b"HTTP/" + head + b"\r\n\r\n", answers_head=answers_head)

    assert (framing, length, keep_alive) == (found.framing, found.length, found.keep_alive)


OK_LINE = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    ("head", "lines"),
    [
        (OK_LINE + b"A: b\r\na:c", OK_LINE + b"A: b\r\na:c\r\n"),
        (b"HTTP/1.0 404 Not Found\r\nA: b", b"HTTP/1.1 404 Not Found\r\nA: b\r\n"),
        (b"HTTP/1.1 200\r\nA: b", b"HTTP/1.1 200\r\nA: b\r\n"),
        (b"HTTP/1.1 204 No\r\ncontent-LENGTH: 5\r\nA: b", b"HTTP/1.1 204 No\r\nA: b\r\n"),
        (b"HTTP/1.1 103 H\r\nA: b\r\nContent-Length:5", b"HTTP/1.1 103 H\r\nA: b\r\n"),
        (b"HTTP/1.1 200 \xe9\t!", b"HTTP/1.1 200 \xe9\t!\r\n"),
        (OK_LINE + b"Connection: x-a,, X-B\r\nX-A: 1\r\nx-b: 2\r\nX-C: 3", OK_LINE + b"X-C: 3\r\n"),
        (
            OK_LINE + b"Connection: a\r\nB: 1\r\nConnection: b\r\nA: 1\r\nC: 1",
            OK_LINE + b"C: 1\r\n",
        ),
        *(
            (OK_LINE + option + b"\r\nContent-Length: 1", OK_LINE + b"Content-Length: 1\r\n")
            for option in (b"Connection: content-length", b"Connection: close,", b"Connection:")
        ),
        (
            OK_LINE + b"Keep-Alive: 5\r\nProxy-Authenticate: x\r\nProxy-Connection: x\r\n"
            b"TE: x\r\nUpgrade: x\r\nX-Kubernetes-PF-FlowSchema-UID: x\r\n"
            b"x-kubernetes-pf-prioritylevel-uid: x\r\nTransfer-Encoding: chunked\r\nZ: 1",
            OK_LINE + b"Z: 1\r\n",
        ),
    ],
)
def test_passes_lines_on(head: bytes, lines: bytes) -> None:
    assert lines == parse(head + b"\r\n\r\n").lines


START, CODING = "HTTP/1.1 200 OK\r\n", "Transfer-Encoding: "
NO_PROTOCOL, NO_STATUS_LINE = "it begins with {}, not with HTTP/1.1", "{} is no status line"
NO_NUMBER, NO_LF = (
    "Content-Length is {}, not one decimal number",
    "the line {} ends in LF, not in CR LF",
)


@pytest.mark.parametrize(
    ("head", "problem"),
    [
        ("", NO_STATUS_LINE.format('""')),
        ("220", NO_PROTOCOL.format(r'"220\x0d\x0a\x0d\x0a"')),
        ("HTTP/2 200 OK", NO_PROTOCOL.format('"HTTP/2 "')),
        ("http/1.1 200 OK", NO_PROTOCOL.format('"http/1."')),
        ("HTTP/1.1", NO_STATUS_LINE.format('"HTTP/1.1"')),
        ("HTTP/1.1 20 " + "x" * 99, NO_STATUS_LINE.format(f'"HTTP/1.1 20 {"x" * 28}..."')),
        *(
            (f"HTTP/1.1 {rest}", NO_STATUS_LINE.format(f'"HTTP/1.1 {rest}"'))
            for rest in ("2000 OK", "099 OK", " 200 OK")
        ),
        ("HTTP/1.1 200 O\x07", NO_STATUS_LINE.format(r'"HTTP/1.1 200 O\x07"')),
        ("HTTP/1.1 200 O\rK", NO_STATUS_LINE.format(r'"HTTP/1.1 200 O\x0dK"')),
        ("HTTP/1.1 200 O\nK", NO_LF.format('"HTTP/1.1 200 O"')),
        (START + "Date", "header line 1 has no colon"),
        *(
            (f"{START}{name}: b", f'header line 1 has the name "{name}", which is no token')
            for name in ("X Y", "A ", "")
        ),
        (START + " A: b", "header line 1 begins with white space, as if it continued another one"),
        (
            START + "A: b\r\n c",
            "header line 2 begins with white space, as if it continued another one",
        ),
        (START + "A: \0b", 'the value of "A" has the byte 0x00'),
        (START + "Date: a\rB: c", 'the value of "Date" has the byte 0x0d'),
        (START + "Date: a\nB: c", NO_LF.format('"Date"')),
        (START + "Date\r\nB: c\nD: e", NO_LF.format('"B"')),
        *(
            (f"{START}Content-Length: {length}", NO_NUMBER.format(f'"{length}"'))
            for length in ("", "+1", "5, 5", "1000000000000000000")
        ),
        (
            START + "Content-Length: 5\r\nContent-Length: 5",
            "it has two Content-Length fields, 5 and 5",
        ),
        (
            f"{START}Content-Length: 5\r\n{CODING}chunked",
            "it has both Content-Length and Transfer-Encoding",
        ),
        *(
            (f"{START}{CODING}{coding}", f'Transfer-Encoding is "{coding}", not chunked alone')
            for coding in ("gzip", "", "gzip, chunked")
        ),
        (f"{START}{CODING}chunked\r\n{CODING}chunked", "it has 2 Transfer-Encoding fields"),
        (f"HTTP/1.0 200 OK\r\n{CODING}chunked", "it has a Transfer-Encoding in HTTP/1.0"),
    ],
)
def test_refuses_what_is_malformed_and_says_why_without_a_value(head: str, problem: str) -> None:
    for _ in range(2):
        with pytest.raises(ResponseError) as refused:
            parse_response_head(head.encode() + b"\r\n\r\n", answers_head=False)

        assert f"malformed answer: {problem}" == str(refused.value)


@pytest.mark.parametrize(
    ("start", "problem"),
    [
        (b"HTTP/1.1 200 OK\nDate", 'the line "HTTP/1.1 200 OK" ends in LF, not in CR LF'),
        (b"HTTP/1.1 200 OK\r\nA: secret\n", 'the line "A" ends in LF, not in CR LF'),
        (b"HTTP/1.1 200 OK\r\nA: b\r\nC: d\nE: f\r\n", 'the line "C" ends in LF, not in CR LF'),
        (b"220 ready", 'it begins with "220 rea", not with HTTP/1.1'),
        (b"\x15\x03\x01\0\2\2\x46", "the server speaks TLS: its URL begins with https"),
        (
            b"\0\0\x0c\4\0\0\0\0\0\0\3\0\0\0\x64",
            "the server speaks HTTP/2 only, as one of gRPC does; it has to speak HTTP/1.1",
        ),
    ],
)
def test_what_becomes_no_head(start: bytes, problem: str) -> None:
    for steps in ([(start, 0)], bit_by_bit(start)):
        with pytest.raises(ResponseError) as refused:
            check(steps)
        assert f"malformed answer: {problem}" == str(refused.value)


def test_start_that_may_become_a_head() -> None:
    check(bit_by_bit(b"HTTP/1.1 200 OK\r\nA: b\r"))


def bit_by_bit(start: bytes) -> list[tuple[bytes, int]]:
    return [(start[:end], max(0, end - 4)) for end in range(1, len(start) + 1)]


def check(steps: list[tuple[bytes, int]]) -> None:
    for begun, searched in steps:
        check_start(begun, searched)


def test_known_lines_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response_head, "MAX_KNOWN_LINES", 4)
    lines, names, status_lines = (
        getattr(response_head, f"_known_{name}") for name in ("lines", "names", "status_lines")
    )
    long = b"x" * MAX_KNOWN_LINE_BYTES
    for i in range(20):
        parse(b"HTTP/1.1 %d OK\r\nA: %d\r\nB%d: %b\r\n\r\n" % (200 + i, i, i, long))
        parse(b"HTTP/1.1 200 OK\r\n%b: a\r\n\r\n" % long)
        parse(b"HTTP/1.1 200 %b\r\n\r\n" % long)

        assert max(len(lines), len(names), len(status_lines)) <= 4
    assert lines
    assert long not in names


def test_what_differs_in_every_answer_is_not_known() -> None:
    for i in range(3):
        parse(b"HTTP/1.1 200 OK\r\nDate: a\r\ncontent-length: %d\r\nAUDIT-ID: %d\r\n\r\n" % (i, i))

    assert [b"Date: a"] == list(response_head._known_lines)  # noqa: SLF001  nothing else tells


@pytest.mark.parametrize(
    ("lines", "has_audit_id", "has_date"),
    [
        (b"AUDIT-ID: a\r\nDATE:now", True, True),
        (b"X: audit-id: b\r\nY: Date: now", False, False),
        (b"Connection: audit-id\r\nAudit-Id: a", False, False),
        (b"Connection: date\r\nDate: now", False, False),
    ],
)
def test_audit_id_and_date(lines: bytes, has_audit_id: bool, has_date: bool) -> None:
    found = parse(b"HTTP/1.1 200 audit-id: a, date: a\r\n" + lines + b"\r\n\r\n")

    assert (has_audit_id, has_date) == (found.has_audit_id, found.has_date)


def outcome(head: bytes) -> list[object] | None:
    try:
        found = parse_response_head(head, answers_head=False)
    except ResponseError:
        return None
    return all_of(found)


LENGTHS = ("0", "7", "07", "9" * 18, "9" * 19, "", "-1", " 1", "1 ", "x")
AUDITS = ("a-1", "B2", "", " ", "a b", "a\t", "\x00", "\x80", "a,b", "\r")
ODD = (*((length, "f") for length in LENGTHS), *(("8", audit) for audit in AUDITS))
LENGTH, AUDIT = "Content-Length: {length}", "Audit-Id: {audit}"


@pytest.mark.parametrize("status", ["1.1 200 OK", "1.0 200 OK", "1.1 100", "1.1 204", "1.1 304"])
@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([LENGTH], id="length"),
        pytest.param([AUDIT], id="audit"),
        pytest.param(["A: b", LENGTH, "Date: a", AUDIT, "C: d"], id="both"),
        pytest.param([AUDIT, "Keep-Alive: timeout=5", LENGTH], id="audit-first"),
        pytest.param(["Connection: close", AUDIT, LENGTH], id="close"),
        pytest.param(["Connection: audit-id", LENGTH, AUDIT], id="nominated"),
        pytest.param([LENGTH, "Transfer-Encoding: chunked"], id="chunked"),
        pytest.param([LENGTH, "content-length: 7"], id="two-lengths"),
        pytest.param([AUDIT, "audit-id: x", LENGTH], id="two-audits"),
        pytest.param(["A: Content-Length: 1", LENGTH, "TE: a"], id="within-a-value"),
    ],
)
def test_patterns_make_no_difference(
    forget: Callable[[], None], status: str, lines: list[str]
) -> None:
    text = "\r\n".join((f"HTTP/{status}", *lines, "", ""))
    heads = [
        text.format(length=length, audit=audit).encode("latin-1")
        for length, audit in [*itertools.product(("5", "6"), ("c", "d-e")), *ODD]
    ]
    alone = []
    for head in heads:
        forget()
        alone.append(outcome(head))
    forget()

    for _ in range(3):
        assert alone == [outcome(head) for head in heads]


def test_known_patterns_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response_head, "MAX_PATTERNS", 4)
    kept = response_head._patterns  # noqa: SLF001  what is bounded
    for i in range(20):
        for _ in range(1 + i % 2):
            parse(b"HTTP/1.1 200 OK\r\nA: %d\r\nContent-Length: 1\r\n\r\n" % i)
            parse(b"HTTP/1.1 200 OK\r\nA: %b\r\nContent-Length: 1\r\n\r\n" % (b"a" * 1024))
        assert 4 >= len(kept)
        assert 16 >= len(response_head._seen)  # noqa: SLF001  as above
    assert 0 < len(kept)
