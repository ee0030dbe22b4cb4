"""Tests of `apfproxy.request.selectors`."""

from __future__ import annotations

import pytest

from apfproxy.request.selectors import (
    SelectorError,
    check_label_selector,
    parse_int64,
    required_value,
)


@pytest.mark.parametrize(
    ("selector", "value"),
    [
        pytest.param("", None, id="empty"),
        pytest.param("metadata.name=a", "a", id="equals"),
        pytest.param("metadata.name==a", "a", id="double-equals"),
        pytest.param("metadata.name=", "", id="no-value"),
        pytest.param("metadata.name!=a", None, id="not-equals"),
        pytest.param("spec.x=b,,metadata.name=a,", "a", id="among-others"),
        pytest.param("metadata.name=b,metadata.name=a", "a", id="sorted"),
        pytest.param("metadata.name=a,metadata.name==b", "b", id="sorted-with-operators"),
        pytest.param(r"metadata.name=a\,b\=c\\", r"a,b=c" + "\\", id="escapes"),
        pytest.param("=a", None, id="no-field"),
    ],
)
def test_required_value(selector: str, value: str | None) -> None:
    """The value of the first term on the field counts."""
    assert value == required_value(selector, "metadata.name")


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        pytest.param("a", "no operator", id="no-operator"),
        pytest.param("metadata.name=a,b", "no operator", id="unescaped-comma"),
        pytest.param("a=b=c", "invalid value", id="unescaped-equals-sign"),
        pytest.param(r"a=\b", "invalid value", id="unknown-escape"),
        pytest.param("a=b\\", "invalid value", id="lone-backslash"),
    ],
)
def test_required_value_refuses(selector: str, message: str) -> None:
    """A selector that Kubernetes cannot parse is refused, whichever field is asked for."""
    with pytest.raises(SelectorError, match=message):
        required_value(selector, "metadata.name")


@pytest.mark.parametrize(
    "selector",
    [
        "",
        " \t\r\n",
        "a",
        "!a",
        "a=b",
        "a = b , c==d,e!=f",
        "a=,b==,c!=",
        "a>1,b<2",
        "a in (b,c),d notin (e)",
        "a in (),b in (,),c in (,d),e in (f,),g in (h,,i),j in (k,,,)",
        "in in (in,notin),notin",
        "example.com/a=b",
        "a=" + 63 * "b",
        253 * "a" + "/b=c",
        "a=b\0",
        "a= \0everything after is not seen",
    ],
)
def test_label_selector(selector: str) -> None:
    """What Kubernetes takes is taken."""
    check_label_selector(selector)


@pytest.mark.parametrize(
    "selector",
    [
        ",",
        "a,",
        "a,,b",
        "a b",
        "=b",
        "!",
        "!a=",
        "!!a",
        "a=!b",
        "a===b",
        "a=b c",
        "a>b",
        "a>-1",
        "a>",
        "a>99999999999999999999",
        "a in b",
        "a in (b",
        "a in (b c)",
        "a in (b=c)",
        "a in (,,)",
        "a in (b,,)",
        "a in (b))",
        "a in",
        "a foo (b)",
        "-a",
        "a/b/c",
        "/a",
        "a/",
        "A.com/b",
        "a=-b",
        "a=caf\u00e9",
        "a=" + 64 * "b",
        64 * "a",
        254 * "a" + "/b",
        "a\0b",
    ],
)
def test_label_selector_refuses(selector: str) -> None:
    """What Kubernetes refuses is refused."""
    with pytest.raises(SelectorError, match=r"label selector|not an integer"):
        check_label_selector(selector)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("+7", 7),
        ("-007", -7),
        ("9223372036854775807", (1 << 63) - 1),
        ("-9223372036854775808", -(1 << 63)),
        (10_000 * "0" + "1", 1),
    ],
)
def test_parse_int64(text: str, value: int) -> None:
    """Decimal integers of 64 bits are parsed."""
    assert value == parse_int64(text)


@pytest.mark.parametrize(
    "text",
    ["", "+", " 1", "1_0", "0x1", "1.0", "\u0661", "9223372036854775808", 10_000 * "1"],
)
def test_parse_int64_refuses(text: str) -> None:
    """All else is refused."""
    with pytest.raises(SelectorError, match="not an integer of 64 bits"):
        parse_int64(text)
