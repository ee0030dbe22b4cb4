"""Bodies of completions: what counts of them, and that none of any bytes is an error."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.request.completion import LONGEST_MODEL, Completion, read_completion

MESSAGES = [{"role": "user", "content": "hello"}]


@pytest.mark.parametrize(
    ("fields", "model", "most_output", "choices"),
    [
        ({"model": "m", "max_tokens": 100, "n": 2}, "m", 100, 2),
        ({"model": "m", "max_completion_tokens": 7, "max_tokens": 9}, "m", 7, 1),
        ({"max_output_tokens": 5.0, "model": None}, "", 5, 1),
        ({"model": "m", "options": {"num_predict": 3, "seed": [1]}}, "m", 3, 1),
        ({"options": {"num_predict": -1}, "n": 1000}, "", 0, 128),
        ({"max_tokens": 10**30, "n": 0, "options": None}, "", 0, 1),
        ({"model": "m" * LONGEST_MODEL}, "m" * LONGEST_MODEL, 0, 1),
        ({"model": "m" * (LONGEST_MODEL + 1)}, "", 0, 1),
        ({"model": 5, "max_tokens": 100}, "", 0, 1),
        ({"model": "m", "max_tokens": "100"}, "", 0, 1),
    ],
)
def test_fields_of_all_apis(
    fields: dict[str, object], model: str, most_output: int, choices: int
) -> None:
    body = json.dumps({"messages": MESSAGES, **fields, "stream": True}).encode()
    found = read_completion(body)

    assert (model, most_output, choices) == (found.model, found.most_output, found.choices)
    assert -(-len(body) // 4) == found.prompt_tokens


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"model": "\xff"}', b'{"a": ' * 100_000, b"\x1f\x8b\x08"]
)
def test_what_cannot_be_read_has_no_model(body: bytes) -> None:
    found = read_completion(bytearray(body))
    assert ("", 0, 1) == (found.model, found.most_output, found.choices)
    assert -(-len(body) // 4) == found.prompt_tokens


@given(st.binary(max_size=64) | st.recursive(st.none() | st.text(), st.lists).map(repr))
def test_any_body_is_taken(body: bytes | str) -> None:
    read_completion(body.encode(errors="replace") if isinstance(body, str) else body)


@pytest.mark.parametrize(
    ("counted", "expected"), [((-1, -1), 50), ((-1, 9), 34), ((3, 9), 12), ((3, -1), 50)]
)
def test_tokens_as_far_as_they_are_known(counted: tuple[int, int], expected: int) -> None:
    completion = Completion(100)
    completion.estimated = 50
    assert not completion.is_served
    completion.count(*counted)

    assert (expected, True) == (completion.tokens, completion.is_served)
