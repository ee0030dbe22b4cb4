"""Typed objects, and the condition of a FlowSchema."""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING
from uuid import UUID

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from apfproxy.objects.field_errors import (
    LONGEST_VALUE,
    FieldError,
    Reason,
    forbidden,
    invalid,
    not_supported,
    required,
    shown,
    too_long,
)
from apfproxy.objects.go_text import (
    EARLIEST_S,
    LATEST_S,
    as_json,
    parse_int64,
    parse_time,
    quoted,
    rfc3339,
)
from apfproxy.objects.names import (
    check_dns_label,
    check_dns_subdomain,
    check_label_value,
    check_qualified_name,
    well_formed,
)
from apfproxy.objects.types import (
    FlowSchema,
    Object,
    ObjectMeta,
    PriorityLevelConfiguration,
    due_condition,
    stable_uid,
)
from apfproxy.objects.validation import validate_metadata

if TYPE_CHECKING:
    from collections.abc import Callable


def test_stable_uid() -> None:
    a = FlowSchema(metadata=ObjectMeta(name="a"))
    made = stable_uid(a)

    assert "u-1" == stable_uid(FlowSchema(metadata=ObjectMeta(name="a", uid="u-1")))
    assert made == str(UUID(made))
    assert made == stable_uid(FlowSchema(metadata=ObjectMeta(name="a", annotations={"x": "y"})))
    assert made != stable_uid(FlowSchema(metadata=ObjectMeta(name="b")))
    assert made != stable_uid(PriorityLevelConfiguration(metadata=a.metadata))


BEFORE, NOW = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


def condition(status: str, *, time: str = BEFORE, level: str = "mine") -> Object:
    told = "and it exists" if status == "False" else "but there is no such object"
    return {
        "type": "Dangling",
        "status": status,
        "reason": "Found" if status == "False" else "NotFound",
        "message": "This FlowSchema references the PriorityLevelConfiguration object named"
        f' "{level}" {told}',
        "lastTransitionTime": time,
    }


FOUND, LOST = condition("False"), condition("True")
NOW_FOUND, NOW_LOST = condition("False", time=NOW), condition("True", time=NOW)


@pytest.mark.parametrize(
    ("status", "levels", "expected"),
    [
        (None, {"mine"}, NOW_FOUND),
        ({}, set(), NOW_LOST),
        ({"conditions": [FOUND]}, {"mine"}, None),
        ({"conditions": [LOST]}, set(), None),
        ({"conditions": [LOST]}, {"mine"}, NOW_FOUND),
        ({"conditions": [FOUND]}, set(), NOW_LOST),
        ({"conditions": [condition("True", level="other")]}, set(), LOST),  # missing as long
        ({"conditions": [{"type": "Other", "status": "True"}]}, set(), NOW_LOST),
    ],
)
def test_due_condition(status: Object | None, levels: set[str], expected: Object | None) -> None:
    """A condition is due where it is missing or wrong, and its time is that of its status."""
    schema: Object = {"spec": {"priorityLevelConfiguration": {"name": "mine"}}}
    if status is not None:
        schema["status"] = status
    assert expected == due_condition(schema, levels, NOW)


def check_prefix(value: str) -> list[FieldError]:
    return validate_metadata({"generateName": value, "name": "a"}, is_namespaced=False)


@pytest.mark.parametrize(
    ("check", "mistakes", "values"),
    [
        (check_dns_subdomain, 0, ["a", "a-b.c1", "a" * 253]),
        (
            check_dns_subdomain,
            1,
            ["", ".a", "a..b", "a.", "-a", "a-", "a_b", "a\n", "ä", "a" * 254],
        ),
        (check_dns_subdomain, 2, ["A" * 254]),
        (check_dns_label, 0, ["a", "a" * 63]),
        (check_dns_label, 1, ["a" * 64, "", "a.b", "a-"]),
        (check_dns_label, 2, ["A" * 64]),
        # A prefix may end in a dash, and is then judged without its last two characters.
        (check_prefix, 0, ["a", "a-", "a.-", "A-", "a--"]),
        (check_prefix, 1, ["-", "a.", "AA-"]),
        (check_qualified_name, 0, ["a", "A_b.c-D", "example.com/a", "a" * 63]),
        (check_qualified_name, 1, ["a" * 64, "/a", "Example.com/a", "a/b/c", "/a/", "a b"]),
        (check_qualified_name, 2, ["_" * 64, "", "a/"]),
        (check_qualified_name, 3, ["/"]),
        (check_label_value, 0, ["", "A.b_c-d"]),
        (check_label_value, 1, ["a" * 64, "a "]),
        (check_label_value, 2, ["-" * 64]),
    ],
)
def test_mistakes(check: Callable[[str], list[object]], mistakes: int, values: list[str]) -> None:
    assert dict.fromkeys(values, mistakes) == {value: len(check(value)) for value in values}


def test_dots_are_named() -> None:
    assert check_dns_label("a.b") == ["must not contain dots"]


def test_well_formed() -> None:
    assert well_formed("a\ud800b\U0001f600\udc00") == "a\ufffdb\U0001f600\ufffd"
    assert well_formed("aäß") == "aäß"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (required("a"), "a: Required value"),
        (required("a.b", "must be"), "a.b: Required value: must be"),
        (invalid("a[0]", ["*", "b"], "no"), 'a[0]: Invalid value: ["*","b"]: no'),
        (invalid("a", -1, "no"), "a: Invalid value: -1: no"),
        (forbidden("a", "no"), "a: Forbidden: no"),
        (
            not_supported("a", "c", ("y", "x")),
            'a: Unsupported value: "c": supported values: "x", "y"',
        ),
        (FieldError("a", Reason.TOO_LONG, "may be 3", "xyzzy"), "a: Too long: may be 3"),
        (FieldError("a", Reason.DUPLICATE, value="x"), 'a: Duplicate value: "x"'),
        (too_long("a", 1), "a: Too long: may not be more than 1 byte"),
        (FieldError("", Reason.INVALID, "no", "x\ny"), 'Invalid value: "x\\ny": no'),
    ],
)
def test_text(error: FieldError, text: str) -> None:
    assert text == str(error)


def test_long_values_are_cut() -> None:
    assert len(shown("x" * 100_000)) == LONGEST_VALUE
    assert len(shown("x" * 10_000)) > 10_000
    assert shown("x" * 100_000).endswith("x...")


def test_quoted() -> None:
    quotes = {
        "a b": "a b",
        '"\\': '\\"\\\\',
        "\n\t\x07": "\\n\\t\\a",
        "\x00\x7f": "\\x00\\x7f",
        "é<&>": "é<&>",
        "\u2028\uffff\U000e0001": "\\u2028\\uffff\\U000e0001",
    }

    assert {text: f'"{inside}"' for text, inside in quotes.items()} == {
        text: quoted(text) for text in quotes
    }
    assert '{"a":"\\u003c\\u0026\\u003e\\u2028é"}' == as_json({"a": "<&>\u2028é"})


@given(st.integers(-(1 << 63), (1 << 63) - 1), st.integers(0, 50), st.sampled_from(["", "+"]))
@example(-(1 << 63), 10_000, "")
@example((1 << 63) - 1, 0, "+")
def test_parse_int64(value: int, zeros: int, plus: str) -> None:
    sign = "-" if value < 0 else plus
    assert value == parse_int64(f"{sign}{zeros * '0'}{abs(value)}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *(
            (text, f'strconv.ParseInt: parsing "{text}": invalid syntax')
            for text in ["", "+", " 1", "1_0", "0x1", "1.0", "\u0661"]
        ),
        (
            "9223372036854775808",
            'strconv.ParseInt: parsing "9223372036854775808": value out of range',
        ),
        (10_000 * "1", f'strconv.ParseInt: parsing "{40 * "1"}": value out of range'),
    ],
)
def test_parse_int64_refuses(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        parse_int64(text)


@given(st.integers(EARLIEST_S, LATEST_S))
@settings(max_examples=200)
def test_texts_are_those_of_the_calendar(seconds: int) -> None:
    expected = (dt.datetime(1970, 1, 1) + dt.timedelta(seconds=seconds)).isoformat()  # noqa: DTZ001
    assert f"{expected}Z" == rfc3339(seconds)
    assert seconds == parse_time(rfc3339(seconds))


def test_fractions_are_cut_off() -> None:
    assert "1970-01-01T00:00:01Z" == rfc3339(1.999)
    assert "1969-12-31T23:59:59Z" == rfc3339(-0.5)


def test_other_zones_and_fractions_are_read() -> None:
    assert 1.25 == parse_time("1970-01-01T00:00:01.25Z")
    assert 0 == parse_time("1970-01-01T01:00:00+01:00") == parse_time("1969-12-31T22:30:00-01:30")


@pytest.mark.parametrize(
    "text",
    [
        *("", "2006-01-02", "2006-01-02 15:04:05Z", "2006-01-02T15:04:05", "2006-13-02T15:04:05Z"),
        *("2006-00-02T15:04:05Z", "2006-01-32T15:04:05Z", "2006-02-00T15:04:05Z"),
        *("2006-01-02T24:04:05Z", "2006-01-02T15:60:05Z", "2006-01-02T15:04:60Z"),
        *("2006-01-02T15:04:05+25:00", "2006-01-02T15:04:05+01:61", "0000-01-01T00:00:00Z"),
        *("0001-01-01T00:00:00+01:00", "1900-02-29T00:00:00Z"),
    ],
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no time|out of range|outside"):
        parse_time(text)
