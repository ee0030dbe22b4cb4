"""Tests of `apfproxy.apiserver.selectors.labels`."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.apiserver.selectors.labels import (
    EVERYTHING,
    NOTHING,
    LabelSelector,
    Requirement,
    parse_label_selector,
    selector_of,
    selector_text,
    validate_label_selector,
)
from apfproxy.objects.field_errors import Reason
from apfproxy.objects.selectors import SelectorError, is_label_selector


def told(requirement: Requirement) -> str:
    """A condition as the text of a selector."""
    key, operator = requirement.key, requirement.operator
    if operator in {"in", "notin"}:
        return f"{key} {operator} ({','.join(requirement.values)})"
    return {"exists": key, "!": f"!{key}"}.get(operator, f"{key}{operator}{requirement.bound}")


@pytest.mark.parametrize(
    ("text", "requirements"),
    [
        ("", []),
        (" \t\r\n", []),
        ("a", ["a"]),
        ("!a", ["!a"]),
        ("a = b , c==d,e!=f", ["a in (b)", "c in (d)", "e notin (f)"]),
        ("a=,b==,c!=", ["a in ()", "b in ()", "c notin ()"]),
        ("b<2,a>1", ["a>1", "b<2"]),
        ("a in (c,b,b),d notin (e)", ["a in (b,c)", "d notin (e)"]),
        ("a in (),b in (,)", ["a in ()", "b in ()"]),
        ("a in (,d),b in (f,)", ["a in (,d)", "b in (,f)"]),
        ("a in (h,,i),b in (k,,,)", ["a in (,h,i)", "b in (,k)"]),
        ("in in (in,notin),notin", ["in in (in,notin)", "notin"]),
        ("example.com/a=b", ["example.com/a in (b)"]),
        ("a=" + 63 * "b", [f"a in ({63 * 'b'})"]),
        (253 * "a" + "/b=c", [253 * "a" + "/b in (c)"]),
        ("a=b\0", ["a in (b)"]),
        ("a= \0everything after is not seen", ["a in ()"]),
    ],
)
def test_parse_label_selector(text: str, requirements: list[str]) -> None:
    """What Kubernetes takes is taken, sorted by key."""
    assert requirements == [told(part) for part in parse_label_selector(text).requirements]


UNABLE = "unable to parse requirement: "


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (",", "found ',', expected: !, identifier, or 'end of string'"),
        ("a,", "found '', expected: identifier after ','"),
        ("a,,b", "found ',', expected: identifier after ','"),
        ("a b", f"{UNABLE}found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("=b", "found '=', expected: !, identifier, or 'end of string'"),
        ("!", f"{UNABLE}found '', expected: identifier"),
        ("!a=", "found '=', expected: ',' or 'end of string'"),
        ("!!a", f"{UNABLE}found '!', expected: identifier"),
        ("a=!b", f"{UNABLE}found '!', expected: identifier"),
        ("a===b", f"{UNABLE}found '=', expected: identifier"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("a>b", f"{UNABLE}values[0]: Invalid value: \"b\": for 'Gt', 'Lt' operators, the value"),
        ("a>-1", f'{UNABLE}values[0][a]: Invalid value: "-1": a valid label must be an empty'),
        ("a>-b", f'{UNABLE}[values[0]: Invalid value: "-b": for '),
        ("a>", f'{UNABLE}values[0]: Invalid value: "": for '),
        ("a>99999999999999999999", f"{UNABLE}values[0]: Invalid value: "),
        ("a in b", f"{UNABLE}found 'b' expected: '('"),
        ("a in (b", f"{UNABLE}found '', expected: ',' or ')'"),
        ("a in (b,", f"{UNABLE}found '', expected: ',', or identifier"),
        ("a in (b c)", f"{UNABLE}found 'c', expected: ',' or ')'"),
        ("a in (b=c)", f"{UNABLE}found '=', expected: ',' or ')'"),
        ("a in (=)", f"{UNABLE}found '=', expected: ',', ')' or identifier"),
        ("a in (,,)", f"{UNABLE}found ')', expected: ',', or identifier"),
        ("a in (b,,)", f"{UNABLE}found ')', expected: ',', or identifier"),
        ("a in (b))", "found ')', expected: ',' or 'end of string'"),
        ("a in", f"{UNABLE}found '' expected: '('"),
        ("a foo (b)", f"{UNABLE}found 'foo', expected: in, notin, =, ==, !=, gt, lt"),
        ("-a", f'{UNABLE}<nil>: Invalid value: "-a": name part must consist of'),
        ("a/b/c", f'{UNABLE}<nil>: Invalid value: "a/b/c": a valid label key must consist of'),
        ("/a", f'{UNABLE}<nil>: Invalid value: "/a": prefix part must be non-empty'),
        ("a/", f'{UNABLE}<nil>: Invalid value: "a/": name part must be non-empty; name part'),
        ("A.com/b", f'{UNABLE}<nil>: Invalid value: "A.com/b": prefix part a lowercase RFC 1123'),
        ("a=-b", f'{UNABLE}values[0][a]: Invalid value: "-b": a valid label must be an empty'),
        ("a=caf\u00e9", f"{UNABLE}values[0][a]: Invalid value: "),
        ("a=" + 64 * "b", f"{UNABLE}values[0][a]: Invalid value: "),
        (64 * "a", f"{UNABLE}<nil>: Invalid value: "),
        (254 * "a" + "/b", f"{UNABLE}<nil>: Invalid value: "),
        ("a\0b", f"{UNABLE}found 'b', expected: in, notin, =, ==, !=, gt, lt"),
    ],
)
def test_parse_label_selector_refuses(text: str, message: str) -> None:
    """What Kubernetes refuses is refused with its message."""
    with pytest.raises(SelectorError, match=f"^{re.escape(message)}"):
        parse_label_selector(text)


keys = st.sampled_from(["a", "b", "in", "notin", "example.com/c"])
values = st.sampled_from(["", "x", "y", "in", "5"])
requirements = st.one_of(
    st.builds(Requirement, keys, st.sampled_from(["exists", "!"])),
    st.builds(
        Requirement,
        keys,
        st.sampled_from(["in", "notin"]),
        st.sets(values, min_size=1).map(sorted).map(tuple),
    ),
    st.builds(
        Requirement, keys, st.sampled_from(["<", ">"]), st.just(()), st.integers(0, (1 << 63) - 1)
    ),
)


@given(st.lists(requirements, min_size=1))
def test_text(parts: list[Requirement]) -> None:
    """The text of a selector is read as the same selector."""
    selector = LabelSelector(tuple(sorted(parts, key=lambda part: part.key)))

    assert selector == parse_label_selector(",".join(map(told, parts)))


pieces = st.sampled_from(
    [
        *"ab1()=!,<> \t\0/-._A\u00e9",
        "in",
        "notin",
        "==",
        "!=",
        "a in (b,",
        "c.d/e",
        63 * "x",
        60 * "0",
        str((1 << 63) - 1),
        str(1 << 63),
    ]
)


@given(st.lists(pieces).map("".join))
def test_any_text(text: str) -> None:
    """Any text is a selector or refused, and whether it is one can be told without parsing it."""
    try:
        selector = parse_label_selector(text)
    except SelectorError:
        assert not is_label_selector(text)
        return
    assert is_label_selector(text)
    assert selector.is_everything == (not selector.requirements)


@given(requirements, st.dictionaries(keys, values))
def test_opposites(part: Requirement, labels: dict[str, str]) -> None:
    """Labels that meet `in` do not meet `notin`, and so on; numbers aside."""
    opposite = {"in": "notin", "notin": "in", "exists": "!", "!": "exists"}.get(part.operator)
    if opposite is not None:
        other = Requirement(part.key, opposite, part.values)

        assert part.matches(labels) != other.matches(labels)


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("app", True),
        ("!app", False),
        ("none", False),
        ("!none", True),
        ("app=web,n>4", True),
        ("app!=web", False),
        ("none!=web", True),
        ("none=", False),
        ("app in (a,web)", True),
        ("app notin (a,b)", True),
        ("n>5", False),
        ("n<6", True),
        ("n<5", False),
        ("app>5", False),
        ("none<5", False),
    ],
)
def test_matches(text: str, matches: bool) -> None:
    """All requirements have to be met."""
    assert matches == parse_label_selector(text).matches({"app": "web", "n": "5"})


def test_everything_and_nothing() -> None:
    """No condition at all selects everything, no selector at all nothing."""
    assert (True, False) == (EVERYTHING.is_everything, NOTHING.is_everything)
    assert (True, False) == (EVERYTHING.matches({}), NOTHING.matches({}))
    assert (NOTHING, EVERYTHING) == (selector_of(None), selector_of({}))


def test_selector_of() -> None:
    """All of labels and expressions have to match."""
    selector = selector_of(
        {
            "matchLabels": {"b": "x"},
            "matchExpressions": [
                {"key": "a", "operator": "In", "values": ["z", "y"]},
                {"key": "c", "operator": "NotIn", "values": ["y"]},
                {"key": "d", "operator": "Exists"},
                {"key": "e", "operator": "DoesNotExist", "values": None},
            ],
        }
    )

    assert "a in (y,z),b in (x),c notin (y),d,!e" == ",".join(map(told, selector.requirements))


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ({"key": "a", "operator": "Near"}, '"Near" is not a valid label selector operator'),
        ({"key": "a", "operator": "In", "values": []}, "In has 0 values"),
        ({"key": "a", "operator": "Exists", "values": ["b"]}, "Exists has 1 values"),
    ],
)
def test_selector_of_refuses(expression: dict[str, Any], message: str) -> None:
    """An expression that makes no sense is refused."""
    with pytest.raises(SelectorError, match=message):
        selector_of({"matchExpressions": [expression]})


@pytest.mark.parametrize(
    ("selector", "errors"),
    [
        pytest.param(None, [], id="none"),
        pytest.param({}, [], id="empty"),
        pytest.param({"matchLabels": {"a": "b"}}, [], id="labels"),
        pytest.param(
            {"matchLabels": {"-": "-"}}, [("s.matchLabels", Reason.INVALID)] * 2, id="bad-label"
        ),
        pytest.param(
            {"matchExpressions": [{"key": "a", "operator": "In"}]},
            [("s.matchExpressions[0].values", Reason.REQUIRED)],
            id="no-values",
        ),
        pytest.param(
            {
                "matchExpressions": [
                    {"key": "a", "operator": "NotIn", "values": ["b"]},
                    {"key": "a", "operator": "Exists", "values": ["b"]},
                    {"key": "a", "operator": "DoesNotExist"},
                ]
            },
            [("s.matchExpressions[1].values", Reason.FORBIDDEN)],
            id="values",
        ),
        pytest.param(
            {"matchExpressions": [{"key": "a", "operator": "Near", "values": ["x"]}]},
            [("s.matchExpressions[0].operator", Reason.INVALID)],
            id="operator",
        ),
        pytest.param(
            {"matchExpressions": [{"operator": "In", "values": ["b", "-"]}]},
            [
                ("s.matchExpressions[0].key", Reason.INVALID),
                ("s.matchExpressions[0].key", Reason.INVALID),
                ("s.matchExpressions[0].values[1]", Reason.INVALID),
            ],
            id="key-and-value",
        ),
    ],
)
def test_validate_label_selector(
    selector: dict[str, Any] | None, errors: list[tuple[str, Reason]]
) -> None:
    """Each wrong field is named."""
    found = validate_label_selector(selector, "s")

    assert errors == [(error.field, error.reason) for error in found]


@pytest.mark.parametrize(
    ("described", "expected"),
    [
        (None, ""),
        ({}, ""),
        ({"matchLabels": {"b": "2", "a": "1"}}, "a=1,b=2"),
        (
            {
                "matchLabels": {"a": "1"},
                "matchExpressions": [
                    {"key": "d", "operator": "NotIn", "values": ["y", "x"]},
                    {"key": "c", "operator": "DoesNotExist"},
                    {"key": "b", "operator": "Exists"},
                    {"key": "a", "operator": "In", "values": ["1"]},
                ],
            },
            "a=1,a in (1),b,!c,d notin (x,y)",
        ),
        ({"matchExpressions": [{"key": "a", "operator": "Maybe"}]}, ""),
    ],
)
def test_text_of_a_selector_object(described: dict[str, Any] | None, expected: str) -> None:
    """A selector object is written as kube-apiserver writes it; a wrong one is not."""
    assert expected == selector_text(described)
