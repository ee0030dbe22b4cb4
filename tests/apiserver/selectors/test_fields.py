"""Tests of `apfproxy.apiserver.selectors.fields`."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.apiserver.selectors.fields import (
    EVERYTHING,
    FieldRequirement,
    FieldSelector,
    check_fields,
    parse_field_selector,
)
from apfproxy.objects.selectors import SelectorError, is_field_selector, required_value


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
def test_required(selector: str, value: str | None) -> None:
    """The value of the first term on the field counts."""
    assert value == required_value(selector, "metadata.name")


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        pytest.param("a", "invalid selector: 'a'; can't understand 'a'", id="no-operator"),
        pytest.param(
            "metadata.name=a,b",
            "invalid selector: 'metadata.name=a,b'; can't understand 'b'",
            id="unescaped-comma",
        ),
        pytest.param(
            "a=b=c",
            "invalid field selector: unescaped character in value: 61",
            id="unescaped-equals-sign",
        ),
        pytest.param(
            r"a=x\b", r"invalid field selector: invalid escape sequence: \b", id="unknown-escape"
        ),
        pytest.param(
            "a=b\\", "invalid field selector: invalid escape sequence: \\", id="lone-backslash"
        ),
    ],
)
def test_parse_field_selector_refuses(selector: str, message: str) -> None:
    """A selector that Kubernetes cannot parse is refused with its message."""
    with pytest.raises(SelectorError, match=f"^{re.escape(message)}$"):
        parse_field_selector(selector)


@given(st.text() | st.text(alphabet="a\\,="))
def test_escapes(value: str) -> None:
    """Any value can be asked for, if it is escaped."""
    escaped = re.sub(r"([\\,=])", r"\\\1", value)

    assert value == required_value(f"a={escaped}", "a")


@given(st.text(alphabet="ab\\,=!."))
def test_any_text(text: str) -> None:
    """Any text is a selector or refused, and what it says can be told without parsing it."""
    try:
        selector = parse_field_selector(text)
    except SelectorError:
        assert not is_field_selector(text)
        return
    assert is_field_selector(text)
    demands = [part for part in selector.requirements if part.field == "a" and not part.is_negated]
    assert required_value(text, "a") == (demands[0].value if demands else None)


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ("a=1", True),
        ("a=1,b!=2", True),
        ("a=2", False),
        ("a=1,a!=1", False),
        ("c=", True),
        ("c!=", False),
        ("", True),
    ],
)
def test_matches(selector: str, matches: bool) -> None:
    """All terms have to match; an absent field is empty."""
    assert matches == parse_field_selector(selector).matches({"a": "1", "b": "1"})


def test_is_everything() -> None:
    """Only a selector without a term selects everything."""
    some = FieldSelector((FieldRequirement("a", "b"),))

    assert (True, False) == (EVERYTHING.is_everything, some.is_everything)


@pytest.mark.parametrize(
    ("selector", "selectable", "is_namespaced"),
    [
        ("metadata.name=a", (), False),
        ("metadata.namespace=a", (), False),
        ("metadata.namespace=a", ("status.phase",), True),
        ("status.phase=a,metadata.name=b", ("status.phase",), False),
    ],
)
def test_check_fields(selector: str, selectable: tuple[str, ...], is_namespaced: bool) -> None:
    """Fields that a kind has may be named."""
    check_fields(parse_field_selector(selector), selectable, is_namespaced=is_namespaced)


@pytest.mark.parametrize(
    ("selector", "selectable", "kind", "message"),
    [
        (
            "spec.foo=a",
            (),
            "",
            '"spec.foo" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
        ("spec.foo=a", ("spec.a",), "", "field label not supported: spec.foo"),
        (
            "metadata.namespace=a",
            ("spec.a",),
            "a/v1, Kind=B",
            "field label not supported for a/v1, Kind=B: metadata.namespace",
        ),
    ],
)
def test_check_fields_refuses(
    selector: str, selectable: tuple[str, ...], kind: str, message: str
) -> None:
    """Others are refused, in the words of the kind."""
    with pytest.raises(SelectorError, match=f"^{re.escape(message)}$"):
        check_fields(parse_field_selector(selector), selectable, is_namespaced=False, kind=kind)
