"""Tests of conditions as annotations say them."""

from __future__ import annotations

import pytest

from apfproxy.api.flowcontrol.conditions import (
    LONGEST_VALUE,
    MOST_VALUES,
    Condition,
    describe_condition,
    parse_header,
    parse_methods,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("X-Priority: batch", ("x-priority", {"batch"})),
        ("X-Priority:batch,background", ("x-priority", {"batch", "background"})),
        ("  Accept : text/html ; q=1", ("accept", {"text/html ; q=1"})),
        ("X-Team: *", ("x-team", set())),
        ("X-Team: a, *", ("x-team", {"a", "*"})),
        (f"X-Team: {'a' * LONGEST_VALUE}", ("x-team", {"a" * LONGEST_VALUE})),
    ],
)
def test_header(text: str, expected: tuple[str, set[str]]) -> None:
    """A name without regard to case, and values that have one."""
    name, values = parse_header(text)

    assert expected == (name, set(values))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "letters, digits and hyphens"),
        ("X_Priority: batch", "letters, digits and hyphens"),
        ("X-Priority", "write NAME: VALUE"),
        ("X-Priority:", "write NAME: VALUE"),
        ("X-Priority: a,,b", "write NAME: VALUE"),
        ("X-Priority: \u00e4", "write NAME: VALUE"),
        ("X-Priority: a\r\nX-B: c", "write NAME: VALUE"),
        (f"X-Priority: {'a' * (LONGEST_VALUE + 1)}", "write NAME: VALUE"),
        (f"X-Priority: {', '.join(['a'] * (MOST_VALUES + 1))}", "write NAME: VALUE"),
        ("Authorization: Basic abc", "must not hold secrets"),
        ("Connection: close", "about a connection"),
        ("X-Remote-Group: a", "as subjects"),
    ],
)
def test_bad_header(text: str, why: str) -> None:
    """The error says what to write."""
    with pytest.raises(ValueError, match=why):
        parse_header(text)


def test_methods() -> None:
    """Any methods, in small letters as verbs are."""
    assert {"get", "head"} == parse_methods("GET, HEAD")
    assert {"m-search", "view_1"} == parse_methods("M-SEARCH, VIEW_1")


@pytest.mark.parametrize("text", ["", "get", "GET,", "GET HEAD", "G" * 65, ",".join(["A"] * 33)])
def test_bad_methods(text: str) -> None:
    """Methods are written as in requests."""
    with pytest.raises(ValueError, match="capital letters"):
        parse_methods(text)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (Condition(), Condition(), True),
        (Condition(is_broken=True), Condition(), False),
        (Condition(), Condition(is_broken=True), False),
        (Condition(header="a"), Condition(header="a", values=frozenset("x")), True),
        (Condition(None, "a", frozenset("y")), Condition(None, "a", frozenset("x")), False),
        (Condition(None, "a", frozenset("xy")), Condition(None, "a", frozenset("x")), True),
        (Condition(None, "a", frozenset("y")), Condition(None, "b", frozenset("x")), True),
    ],
)
def test_can_meet(one: Condition, other: Condition, *, expected: bool) -> None:
    """Two conditions exclude each other by different values of one header."""
    assert expected == one.can_meet(other)


@pytest.mark.parametrize(
    ("condition", "sentences"),
    [
        (Condition(), []),
        (
            Condition(is_broken=True),
            ["It matches no request, because a condition cannot be read."],
        ),
        (
            Condition(frozenset({"get", "head"}), "x-team"),
            [
                "Of requests for other URLs it matches only GET, HEAD (apfproxy.io/match-methods).",
                "It matches only requests with the header x-team (apfproxy.io/match-header).",
            ],
        ),
        (
            Condition(None, "x-team", frozenset({"b", "a"})),
            ["It matches only requests with the header x-team, a or b (apfproxy.io/match-header)."],
        ),
    ],
)
def test_describe(condition: Condition, sentences: list[str]) -> None:
    """A sentence for each part."""
    assert sentences == list(describe_condition(condition))
