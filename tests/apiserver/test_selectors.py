"""Selectors by labels and by fields, in texts and in objects."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.apiserver.selectors import (
    LabelSelector,
    Requirement,
    parse_field_selector,
    parse_label_selector,
    selector_text,
    validate_label_selector,
)
from apfproxy.objects.selectors import (
    SelectorError,
    is_field_selector,
    is_label_selector,
    required_value,
)

MOST = str((1 << 63) - 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("!a=", "found '=', expected: ',' or 'end of string'"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("a in (b))", "found ')', expected: ',' or 'end of string'"),
        ("!", "!found '', expected: identifier"),
        ("!!a", "!found '!', expected: identifier"),
        ("a>", '!values[0]: Invalid value: "": for '),
        ("a in (b,", "!found '', expected: ',', or identifier"),
        ("a in (=)", "!found '=', expected: ',', ')' or identifier"),
        ("a in (,,)", "!found ')', expected: ',', or identifier"),
        ("a in (b,,)", "!found ')', expected: ',', or identifier"),
    ],
)
def test_wrong_label_selectors(text: str, message: str) -> None:
    message = re.sub("^!", "unable to parse requirement: ", message)
    with pytest.raises(SelectorError, match=f"^{re.escape(message)}"):
        parse_label_selector(text)


keys = st.sampled_from(["a", "b", "in", "notin", "example.com/c"])
values = st.sampled_from(["", "x", "y", "in", "5"])
some_values = st.sets(values, min_size=1).map(sorted).map(tuple)
requirements = st.one_of(
    st.builds(Requirement, keys, st.sampled_from(["exists", "!"])),
    st.builds(Requirement, keys, st.sampled_from(["in", "notin"]), some_values),
    st.builds(
        Requirement, keys, st.sampled_from(["<", ">"]), st.just(()), st.integers(0, (1 << 63) - 1)
    ),
)


@given(st.lists(requirements, min_size=1))
def test_text_is_read_as_the_same_selector(parts: list[Requirement]) -> None:
    selector = LabelSelector(tuple(sorted(parts, key=lambda part: part.key)))
    assert selector == parse_label_selector(",".join(map(str, parts)))


PIECES = ["in", "notin", "==", "!=", "a in (b,", "c.d/e", 63 * "x", 60 * "0", MOST, str(1 << 63)]


@given(st.lists(st.sampled_from([*"ab1()=!,<> \t\0/-._A\u00e9", *PIECES])).map("".join))
def test_any_label_selector(text: str) -> None:
    try:
        selector = parse_label_selector(text)
    except SelectorError:
        assert not is_label_selector(text)
        return
    assert is_label_selector(text)
    assert selector.is_everything == (not selector.requirements)


MATCHING = ["", "app", "!none", "app=web,n>4", "none!=web", "app in (a,web)", "app notin (a,b)"]
OTHERS = ["!app", "none", "app!=web", "none=", "n>5", "n<5", "app>5", "none<5", "app=web,n=4"]


@pytest.mark.parametrize("text", [*MATCHING, "n<6", *OTHERS])
def test_labels_that_match(text: str) -> None:
    found = parse_label_selector(text).matches({"app": "web", "n": "5"})
    assert found is (text not in OTHERS)


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, **({"values": [*values]} if values else {})}


@pytest.mark.parametrize(
    ("expressions", "text", "causes"),
    [
        ([expression("a", "Near", "b")], "", [".operator Invalid value"]),
        ([expression("a", "In")], "", [".values Required value"]),
        ([expression("a", "Exists", "b")], "", [".values Forbidden"]),
    ],
)
def test_expressions(expressions: list[object], text: str, causes: list[str]) -> None:
    selector = {"matchLabels": {"z": "1"}, "matchExpressions": expressions}
    assert text == selector_text(selector)
    found = validate_label_selector(selector, "s")
    assert [f"s.matchExpressions[0]{each}" for each in causes] == [
        f"{error.field} {error.message.partition(':')[0]}" for error in found
    ]


@given(st.text() | st.text(alphabet="a\\,="))
def test_any_value_can_be_asked_for(value: str) -> None:
    escaped = re.sub(r"([\\,=])", r"\\\1", value)
    assert value == required_value(f"a={escaped}", "a")


@given(st.text(alphabet="ab\\,=!."))
def test_any_field_selector(text: str) -> None:
    """Any text is a selector or refused, and what it says can be told without parsing it."""
    try:
        selector = parse_field_selector(text)
    except SelectorError:
        assert not is_field_selector(text)
        return
    assert is_field_selector(text)
    demands = [value for field, value, no in selector.requirements if field == "a" and not no]
    assert required_value(text, "a") == (demands[0] if demands else None)
