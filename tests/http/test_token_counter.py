"""Counting tokens in responses of the LLM APIs, cut anywhere."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.http.token_counter import KEPT_BYTES, UNKNOWN, TokenCounter, token_counter

EVENTS = b"Content-Type: text/event-stream; charset=utf-8"
LINES = b"content-type:application/x-ndjson"
JSON = b"Content-Type: application/json"


def data(*values: object) -> bytes:
    return b"".join(b"data: %b\n\n" % json.dumps(value).encode() for value in values)


def chunk(text: str) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": {"content": text}}], "usage": None}


CHAT = data(chunk("He"), chunk(' "prompt_tokens": 9 "usage" [DONE]\ndata: no'), chunk("!"))
DONE = b"data: [DONE]\n\n"
USAGE = {"prompt_tokens": 21, "completion_tokens": 300, "total_tokens": 321}
ANTHROPIC = (
    (
        b'event: message_start\r\ndata: {"type":"message_start","message":{"usage":'
        b'{"input_tokens":25,"output_tokens":1}}}\r\n\r\n: ping\r\n\r\n'
    )
    + b'event: content_block_delta\r\ndata: {"delta":{"text":"Hi"}}\r\n\r\n' * 3
    + b'event: message_delta\r\ndata: {"usage":{"output_tokens":15}}\r\n\r\n'
    + b'event: message_stop\r\ndata: {"type":"message_stop"}\r\n\r\n'
)
RESPONSES = data(
    {"type": "response.created", "response": {"max_output_tokens": 7, "usage": None}},
    {"type": "response.output_text.delta", "delta": "Hi"},
    {
        "response": {
            "usage": {
                "input_tokens": 37,
                "input_tokens_details": {"cached_tokens": 5},
                "output_tokens": 11,
                "output_tokens_details": {"reasoning_tokens": 4},
            }
        }
    },
)
OLLAMA = b'{"message":{"content":"a"},"done":false}\n' * 3 + (
    b'{"done":true,"prompt_eval_count":26,"prompt_eval_duration":34,"eval_count":290}\n'
)
WHOLE = json.dumps(
    {"choices": [{"message": {"content": '"completion_tokens": 1' * 9}}], "usage": USAGE}, indent=2
).encode()
SPACED = b'{"x": 1}' + b" " * 9000 + b'{"usage": {"output_tokens" :\n 5 , "input_tokens": 4\n}}'

CASES = [
    pytest.param(EVENTS, CHAT + DONE, (3, UNKNOWN, UNKNOWN), 3, id="openai-without-usage"),
    pytest.param(
        EVENTS,
        CHAT.replace(b"data: ", b"data:") + data({"choices": [], "usage": USAGE}) + DONE[:-2],
        (4, 21, 300),
        300,
        id="openai-with-usage",
    ),
    pytest.param(EVENTS, CHAT + b"data:[DONE]\n\n", (3, UNKNOWN, UNKNOWN), 3, id="done-unspaced"),
    pytest.param(EVENTS, CHAT[:-20], (3, UNKNOWN, UNKNOWN), 3, id="cut"),
    pytest.param(EVENTS, ANTHROPIC, (6, 25, 15), 15, id="anthropic"),
    pytest.param(EVENTS, ANTHROPIC[:300], (4, 25, 1), 4, id="anthropic-cut"),
    pytest.param(EVENTS, RESPONSES, (3, 37, 11), 11, id="openai-responses"),
    pytest.param(LINES, OLLAMA, (4, 26, 290), 290, id="ollama"),
    pytest.param(LINES, OLLAMA[:90], (2, UNKNOWN, UNKNOWN), 2, id="ollama-cut"),
    pytest.param(JSON, WHOLE, (0, 21, 300), 300, id="json"),
    pytest.param(JSON, SPACED, (0, 4, 5), 5, id="json-with-white-space"),
    pytest.param(JSON, b'{"data": []}\n', (0, UNKNOWN, UNKNOWN), UNKNOWN, id="no-completion"),
    pytest.param(JSON, b'{"eval_count": 1234567890123}', (0, UNKNOWN, UNKNOWN), UNKNOWN, id="huge"),
    pytest.param(EVENTS, b"", (0, UNKNOWN, UNKNOWN), 0, id="empty"),
]


def counter_of(*lines: bytes) -> TokenCounter:
    counter = token_counter(b"\r\n".join((b"HTTP/1.1 200 OK", *lines, b"")))
    assert counter is not None
    return counter


@pytest.mark.parametrize(("line", "body", "counts", "tokens"), CASES)
@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 64, 1000, 100_000])
def test_tokens_are_counted_wherever_the_body_is_cut(
    line: bytes, body: bytes, counts: tuple[int, int, int], tokens: int, size: int
) -> None:
    counter = counter_of(line)
    pieces = [memoryview(body)[at : at + size] for at in range(0, len(body), size)]
    events = sum(counter.feed((piece,)) for piece in pieces)

    assert counts == (counter.events, counter.prompt_tokens, counter.completion_tokens)
    assert events == counter.events
    assert tokens == counter.tokens
    assert (line is not JSON) == counter.is_stream


@given(st.lists(st.binary(max_size=40) | st.sampled_from([CHAT, DONE, ANTHROPIC, OLLAMA, WHOLE])))
def test_any_bytes_count_as_they_do_in_one_piece(pieces: list[bytes]) -> None:
    for line in EVENTS, LINES, JSON:
        whole, in_pieces = counter_of(line), counter_of(line)
        whole.feed(pieces)
        for piece in pieces:
            in_pieces.feed((piece,))

        assert repr(whole) == repr(in_pieces)


@pytest.mark.parametrize(
    "lines",
    [
        (b"Content-Type: text/plain",),
        (b"Content-Type: application/json-seq",),
        (b"Content-Length: 3",),
        (EVENTS, b"Content-Encoding: gzip"),
        (b"content-encoding:br", JSON),
    ],
)
def test_other_responses_have_no_counter(lines: tuple[bytes, ...]) -> None:
    assert token_counter(b"\r\n".join((b"HTTP/1.1 200 OK", *lines, b""))) is None


@pytest.mark.parametrize("coding", [b"identity", b""])
def test_a_coding_that_is_none_hinders_nothing(coding: bytes) -> None:
    assert counter_of(b"Content-Encoding: " + coding, JSON).tokens == UNKNOWN


@pytest.mark.parametrize(
    "unit",
    [
        b'"prompt_tokens"' + b" " * 8,
        b'"prompt_tokens": ',
        b'_tokens"',
        b"\ndata: [DONE]",
        b'"completion_tokens": 1,',
        b" ",
    ],
)
def test_counting_is_linear_and_keeps_little(unit: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte is looked at for events twice at most, however much of a usage there is."""
    looked_at: list[int] = []
    look_for_events = TokenCounter._events  # noqa: SLF001  where all the work is that could repeat

    def events(self: TokenCounter, window: bytes, start: int) -> int:
        looked_at.append(len(window) - start)
        return look_for_events(self, window, start)

    monkeypatch.setattr(TokenCounter, "_events", events)
    counter = counter_of(EVENTS)
    body = unit * 10_000
    for at in range(0, len(body), 65536):
        counter.feed((body[at : at + 65536],))
        assert len(counter._kept) == KEPT_BYTES  # noqa: SLF001  nothing else is kept

    assert sum(looked_at) <= 2 * len(body)
