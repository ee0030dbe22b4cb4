"""Tests of conditions as annotations say them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.objects.additions import (
    LONGEST_HEADER_NAME,
    LONGEST_VALUE,
    MOST_VALUES,
    Condition,
    HeaderUse,
    matches,
    parse_header,
    parse_methods,
    use_of,
    values_meet,
)


def of(*values: str) -> Condition:
    """A condition on values of one header."""
    return Condition(None, "user-agent", frozenset(values))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("X-Priority: batch", ("x-priority", {"batch"})),
        ("X-Priority:batch,background", ("x-priority", {"batch", "background"})),
        ("  Accept : text/html ; q=1", ("accept", {"text/html ; q=1"})),
        ("X-Team: *", ("x-team", set())),
        ("X-Team: a, *", ("x-team", set())),
        ("User-Agent: a*, *b*", ("user-agent", {"a*", "*b*"})),
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
        (of("ab*"), of("abc", "d"), True),
        (of("abc"), of("ab*c"), True),
        (of("ab*"), of("bc"), False),
        (of("ab*"), of("a*"), True),
        (of("a*c"), of("*x*bc"), True),
        (of("a*c"), of("b*c"), False),
        (of("a*c"), of("a*d"), False),
    ],
)
def test_can_meet(one: Condition, other: Condition, *, expected: bool) -> None:
    """Two conditions exclude each other by different values of one header."""
    assert expected == one.can_meet(other)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (of("a*"), None, False),
        (of("a*"), Condition(), False),
        (of("a*"), Condition(is_broken=True), False),
        (Condition(is_broken=True), of("a"), False),
        (of("a*"), of("ab", "a*b*"), True),
        (of("a*"), of("ab", "*b"), False),
        (of("a*", "*b"), of("ab", "*b"), True),
        (of("a*b"), of("a*"), False),
        (of(), of("a*"), True),
        (of("a*"), of(), False),
        (of("a"), Condition(None, "other", frozenset("a")), False),
        (Condition(frozenset({"get", "head"})), Condition(frozenset({"get"})), True),
        (Condition(frozenset({"get"})), Condition(frozenset({"get", "head"})), False),
        (Condition(frozenset({"get"})), of("a"), False),
    ],
)
def test_holds(one: Condition, other: Condition | None, *, expected: bool) -> None:
    """A condition holds another if whatever meets that meets it as well."""
    assert expected == one.holds(other)


@pytest.mark.parametrize(
    ("pattern", "value", "expected"),
    [
        ("a", "a", True),
        ("a", "ab", False),
        ("a*", "a", True),
        ("a*", "abc", True),
        ("a*", "ba", False),
        ("*a", "ba", True),
        ("*a", "ab", False),
        ("*a*", "bab", True),
        ("*a*", "bb", False),
        ("a*a", "a", False),
        ("a*a", "aa", True),
        ("*a*b*c", "xaxbxc", True),
        ("*a*b*c", "xbxaxc", False),
        ("*a*a*", "a", False),
        ("*ab*c", "abbc", True),
        ("**", "", True),
    ],
)
def test_matches(pattern: str, value: str, *, expected: bool) -> None:
    """`*` stands for any characters, and all of the value counts."""
    assert expected == matches(pattern, value)


@given(st.text("ab*", max_size=6), st.text("ab*", max_size=6), st.text("ab", max_size=6))
def test_patterns_agree_with_expressions(one: str, other: str, value: str) -> None:
    """Regular expressions match the same; what holds or cannot meet another says so of values."""
    is_one, is_other = matches(one, value), matches(other, value)

    assert is_one == bool(re.fullmatch(".*".join(map(re.escape, one.split("*"))), value))
    if matches(one, other):
        assert is_one >= is_other
    if not values_meet(one, other):
        assert not (is_one and is_other)


@pytest.mark.parametrize(
    ("name", "use"),
    [
        ("x-priority", HeaderUse.FIT),
        ("x" * LONGEST_HEADER_NAME, HeaderUse.FIT),
        ("x" * (LONGEST_HEADER_NAME + 1), HeaderUse.MALFORMED),
        ("", HeaderUse.MALFORMED),
        ("x_priority", HeaderUse.MALFORMED),
        ("-x", HeaderUse.MALFORMED),
        ("cookie", HeaderUse.SECRET),
        ("upgrade", HeaderUse.CONNECTION),
        ("x-remote-user", HeaderUse.IDENTITY),
        ("x-remote-extra-team", HeaderUse.IDENTITY),
        ("x-remote-users", HeaderUse.FIT),
    ],
)
def test_use(name: str, use: HeaderUse) -> None:
    """What can be forwarded, shown, and told apart by is fit."""
    assert use is use_of(name)
