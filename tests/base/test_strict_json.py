"""JSON from strangers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.base.strict_json import StrictJsonError, read_object


def test_object() -> None:
    """An object is read as it is."""
    assert {"a": [1, 2.5, None, {"b": "ä"}]} == read_object('{"a":[1,2.5,null,{"b":"ä"}]}'.encode())


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        pytest.param(b"", "not JSON", id="nothing"),
        pytest.param(b"[]", "not an object", id="list"),
        pytest.param(b'{"secret":1,"secret":2}', "a name twice", id="twice"),
        pytest.param(b'{"a":{"b":1,"\\u0062":2}}', "a name twice", id="twice-inside-escaped"),
        pytest.param(b'{"a":NaN}', "a number that JSON", id="nan"),
        pytest.param(b'{"a":-Infinity}', "a number that JSON", id="infinity"),
        pytest.param(b'{"a":"secret\xff"}', "not UTF-8", id="not-utf-8"),
        pytest.param(b'{"a":"secret"', "not JSON", id="cut"),
        pytest.param(b'{"a":"secret"} x', "not JSON", id="trailing"),
        pytest.param(b'{"a":' + b"9" * 5000 + b"}", "not JSON", id="huge-number"),
        pytest.param(b'{"a":' + b"[" * 200_000, "nested too deep", id="deep"),
    ],
)
def test_bad(data: bytes, problem: str) -> None:
    """What has no meaning, or two, is refused without a word of it."""
    with pytest.raises(StrictJsonError, match=problem) as error:
        read_object(data)

    assert "secret" not in str(error.value)
    assert error.value.__cause__ is None


@given(data=st.binary(max_size=100) | st.text('{}[]",:a1\\u', max_size=40).map(str.encode))
def test_any_bytes(data: bytes) -> None:
    """Any bytes are an object or an error of ours."""
    try:
        value = read_object(data)
    except StrictJsonError:
        return
    assert isinstance(value, dict)
