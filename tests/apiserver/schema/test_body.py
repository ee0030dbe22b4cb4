"""Parsing the bodies of requests."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apfproxy.apiserver.schema import body
from apfproxy.apiserver.schema.body import DEEPEST, BodyError, Parsed, parse_json, parse_yaml

JSON_BYTES = st.lists(
    st.sampled_from([*(bytes([each]) for each in b'{}[],: "\\/untrf019.-eE\xff'), b"NaN", b"\\u"])
)


@given(JSON_BYTES)
@settings(max_examples=200)
def test_any_bytes_are_read_or_refused(parts: list[bytes]) -> None:
    data = b"".join(parts)
    for parse in (parse_json, parse_yaml):
        with suppress(BodyError):
            parse(data)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'{"c": [1, {"d": 1, "d": 2}]}', Parsed({"c": [1, {"d": 2}]}, ("c[1].d",))),
        (b'{"a": {"b": 1}, "a": {"c": 2}}', Parsed({"a": {"b": 1, "c": 2}}, ("a",))),
        (b'["\\ud800", "\xff"]', Parsed(["\ufffd", "\ufffd"])),
        (b"[" + b"{}," * 200 + b"{}]", Parsed([{}] * 201)),
    ],
)
def test_unusual_json(data: bytes, expected: Parsed) -> None:
    assert expected == parse_json(data)


def test_many_duplicates() -> None:
    """Merging a key that occurs often takes time in proportion to the input."""
    count = 20_000
    data = b"{" + b",".join(b'"a":{"%d":1}' % each for each in range(count)) + b"}"
    found = parse_json(data)
    assert (count, ("a",)) == (len(found.raw["a"]), found.duplicates)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"nul", "unexpected end of JSON input"),
        (b'{"a\xff":1\xff', "invalid character '\u00ff' after object key:value pair"),
        ("{é".encode(), "invalid character '\u00c3' looking for beginning of object key string"),
        (b"\x81", "invalid character '\\u0081' looking for beginning of value"),
        (b"'", "invalid character '\\'' looking for beginning of value"),
        (b'["}", {}, [1], 1 x', "invalid character 'x' after array element"),
        (b'{"a": 1 x', "invalid character 'x' after object key:value pair"),
        (b'"\x01"', "invalid character '\\x01' in string literal"),
        (b"[NaN]", "invalid character 'N' looking for beginning of value"),
        (b"[-Infinity]", "invalid character 'I' in numeric literal"),
        (b"[1e999]", "json: cannot unmarshal number 1e999 into Go value of type float64"),
        (b"[" + b"9" * 5000 + b"]", "json: cannot unmarshal number into Go value of type float64"),
        (b"[" * (DEEPEST + 2) + b"]" * (DEEPEST + 2), "exceeded max depth"),
        (b"[" * 100_000, "exceeded max depth"),
        (b'{"a": 1, "a": ' + b"[" * 900 + b"]" * 900 + b"}", "exceeded max depth"),
    ],
)
def test_bad_json(data: bytes, expected: str) -> None:
    with pytest.raises(BodyError) as raised:
        parse_json(data)
    assert expected == str(raised.value)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\xff", "not UTF-8: invalid start byte at byte 0"),
        (b"a: 1\nb: *x", "line 2: alias *x is not supported: write the value out"),
        (b"@", "found character that cannot start any token"),
        (b"x:\n  a: b: c", "line 2: mapping values are not allowed in this context"),
        (b"a:\n  b: [\n c: d", "line 1: did not find expected ',' or ']'"),
        (b"a: \x01", "unacceptable character #x0001: control characters are not allowed"),
        (b'{"a":' * 200 + b"1" + b"}" * 200, "line 1: nested too deeply"),
        (b'{"a":' * 5000 + b"1" + b"}" * 5000, "line 1: nested too deeply"),
    ],
)
def test_bad_yaml(data: bytes, expected: str) -> None:
    with pytest.raises(BodyError) as raised:
        parse_yaml(data)
    assert f"yaml: {expected}" == str(raised.value)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"- - - 1\n" * 4, "line 4: more than 10 values"),
        (b"[" + b"[]," * 10 + b"]", "line 1: more than 10 values"),
        (b"[" + b"1," * 9 + b"]", None),
        (b"- a:\n  b:\n-\n-\n", "line 3: more than 3 mappings and nulls"),
        (b"- {}\n- {}\n- {}\n- {}", "line 4: more than 3 mappings and nulls"),
        (b"- {a: 1}\n- {b: ''}\n- {}\n", None),
    ],
)
def test_too_much_yaml(monkeypatch: pytest.MonkeyPatch, data: bytes, expected: str | None) -> None:
    monkeypatch.setattr(body, "MOST_NODES", 10)
    monkeypatch.setattr(body, "MOST_OBJECTS", 3)
    if expected is None:
        parse_yaml(data)
        return
    with pytest.raises(BodyError, match=expected):
        parse_yaml(data)


DEVICE = """
  - name: gpu-%d
    attributes: {model: {string: LATEST}, healthy: {bool: true}}
    capacity:
      memory:
        value: 80Gi"""


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("data:\n  a: " + "QUJD" * 780_000, id="secret"),
        pytest.param("data:\n  a: |\n" + "    - {}, [], null,\n" * 150_000, id="text"),
        pytest.param(
            "spec:\n  devices:" + "".join(DEVICE % i for i in range(20_000)), id="devices"
        ),
    ],
)
def test_large_yaml(text: str) -> None:
    assert 2_500_000 < len(text) < 3 * 1024 * 1024
    assert parse_yaml(text.encode()).raw
