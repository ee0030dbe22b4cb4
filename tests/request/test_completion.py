"""Bodies of completions: what counts of them, and that none of any bytes is an error."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.request.completion import LONGEST_MODEL, Completion, read_completion

MESSAGES = [{"role": "user", "content": "hello"}]


CHAT, RESPONSES, OLLAMA = "/v1/chat/completions", "/v1/responses", "/api/chat"


@pytest.mark.parametrize(
    ("path", "fields", "model", "most_output", "choices"),
    [
        (CHAT, {"model": "m", "max_tokens": 100, "n": 2}, "m", 100, 2),
        (CHAT, {"model": "m", "max_completion_tokens": 7}, "m", 7, 1),
        ("/v1/completions", {"model": "m", "max_tokens": 9, "n": 1000}, "m", 9, 128),
        ("/v1/messages", {"model": "m", "max_tokens": 9}, "m", 9, 1),
        (RESPONSES, {"max_output_tokens": 5.0, "model": None}, "", 5, 1),
        (OLLAMA, {"model": "m", "options": {"num_predict": 3, "seed": [1]}}, "m", 3, 1),
        (OLLAMA, {"options": {"num_predict": -1}}, "", 0, 1),
        (CHAT, {"max_tokens": 10**30, "n": 0, "options": None}, "", 0, 1),
        (CHAT, {"model": "m" * LONGEST_MODEL}, "m" * LONGEST_MODEL, 0, 1),
        (CHAT, {"model": "m" * (LONGEST_MODEL + 1)}, "", 0, 1),
        (CHAT, {"model": 5, "max_tokens": 100}, "", 100, 1),
    ],
)
def test_fields_of_all_apis(
    path: str, fields: dict[str, object], model: str, most_output: int, choices: int
) -> None:
    body = json.dumps({"messages": MESSAGES, **fields, "stream": True}).encode()
    found = read_completion(body, path)

    assert (model, most_output, choices) == (found.model, found.most_output, found.choices)
    assert -(-len(body) // 4) == found.prompt_tokens


@pytest.mark.parametrize(
    ("path", "fields", "most_output"),
    [
        (CHAT, {"max_completion_tokens": 1, "max_tokens": 9}, 9),
        (CHAT, {"max_output_tokens": 1, "options": {"num_predict": 1}}, 0),
        (RESPONSES, {"max_tokens": 1, "max_completion_tokens": 1, "n": 128}, 0),
        (OLLAMA, {"max_tokens": 1, "n": 128, "options": {"num_predict": 7}}, 7),
        (OLLAMA, {"max_tokens": 1, "n": 128, "options": [1]}, 0),
        (OLLAMA, {"max_tokens": 1}, 0),
    ],
)
def test_fields_of_other_apis_lessen_no_cost(
    path: str, fields: dict[str, object], most_output: int
) -> None:
    found = read_completion(json.dumps(fields).encode(), path)
    assert (most_output, 1) == (found.most_output, found.choices)


@pytest.mark.parametrize(
    "odd",
    ['"max_tokens": "1"', '"n": true', '"options": "x"', '"max_output_tokens": []', '"n": 1e400'],
)
def test_an_odd_field_hides_no_model(odd: str) -> None:
    """A server may ignore it."""
    for path in (CHAT, OLLAMA):
        found = read_completion(b'{"model": "m", %b}' % odd.encode(), path)
        assert ("m", 0, 1) == (found.model, found.most_output, found.choices)


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"[]", b'{"model": "\xff"}', b'{"model": "\\ud800"}', b'{"a": ' * 100_000,
        b"\x1f\x8b\x08",
    ],
)  # fmt: skip
def test_what_cannot_be_read_has_no_model(body: bytes) -> None:
    found = read_completion(bytearray(body), CHAT)
    assert ("", 0, 1) == (found.model, found.most_output, found.choices)
    assert -(-len(body) // 4) == found.prompt_tokens


@given(st.binary(max_size=64) | st.recursive(st.none() | st.text(), st.lists).map(repr))
def test_any_body_is_taken(body: bytes | str) -> None:
    read_completion(body.encode(errors="replace") if isinstance(body, str) else body, OLLAMA)


@pytest.mark.parametrize(
    ("counted", "expected"), [((-1, -1), 50), ((-1, 9), 34), ((3, 9), 12), ((3, -1), 50)]
)
def test_tokens_as_far_as_they_are_known(counted: tuple[int, int], expected: int) -> None:
    completion = Completion(100)
    completion.estimated = 50
    assert not completion.is_served
    completion.count(*counted)

    assert (expected, True) == (completion.tokens, completion.is_served)
