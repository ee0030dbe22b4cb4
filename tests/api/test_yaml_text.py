"""Tests of reading YAML."""

from __future__ import annotations

import math

import pytest
import yaml

from apfproxy.api import yaml_text
from apfproxy.api.yaml_text import Mapping, UnreadableError, yaml_documents


def contents(text: str) -> list[object]:
    """The documents of a text."""
    return [content for content, _ in yaml_documents(text, 10)]


@pytest.fixture(params=["libyaml", "python"])
def _parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both parsers of YAML, of which an installation may lack the first."""
    if request.param == "python":
        monkeypatch.setattr(yaml_text, "LOADER", yaml.SafeLoader)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("~", None),
        ("yes", True),
        ("Off", False),
        ("'yes'", "yes"),
        ('"1"', "1"),
        ("!!str 1", "1"),
        ("! 1", "1"),
        ("|\n  1\n", "1\n"),
        ("0", 0),
        ("-12", -12),
        ("+1_000", 1000),
        ("017", 15),
        ("-0o17", -15),
        ("0x1F", 31),
        ("-0b101", -5),
        ("0x", "0x"),
        ("1.5", 1.5),
        (".5", 0.5),
        ("500.0", 500),
        ("1e+3", 1000),
        ("1e3", "1e3"),
        ("1e+300", 1e300),
        ("1e+999", math.inf),
        ("089", 89),
        ("9" * 61, "9" * 61),
        ("1:30", "1:30"),
        ("2024-01-01", "2024-01-01"),
        ("1.2.3", "1.2.3"),
        (".", "."),
        ("=", "="),
        ('"\\u00e4"', "ä"),
    ],
)
@pytest.mark.usefixtures("_parser")
def test_scalars(text: str, value: object) -> None:
    """Plain scalars have the types that Kubernetes' tools give them."""
    (found,) = contents(f"a: {text}")

    assert [("a", value)] == list(found.items()) if isinstance(found, Mapping) else None
    assert isinstance(found, Mapping)
    assert type(value) is type(found["a"])


@pytest.mark.usefixtures("_parser")
def test_documents() -> None:
    """Documents come in order, with the lines where they begin; empty ones are null."""
    text = "# nothing\n---\n---\na: &x 1\n---\n1: a\ntrue: b\n1.5: c\noff: d\n"
    keys = {"1": "a", "true": "b", "1.5": "c", "false": "d"}

    assert [(None, 3), ({"a": 1}, 4), (keys, 6)] == list(yaml_documents(text, 10))


@pytest.mark.parametrize("text", ["a: 1\na: 2", "a: {b: 1}\na: 2", '{a: 1, "a": 2}'])
def test_repeated_keys(text: str) -> None:
    """They are refused, or the last value counts and their paths are told."""
    duplicates: list[str] = []

    assert [({"a": 2}, 1)] == list(yaml_documents(text, 10, duplicates))
    assert ["a"] == duplicates
    with pytest.raises(UnreadableError, match='key "a" occurs twice'):
        contents(text)


def test_lone_surrogates(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parser in Python lets them pass: they are replaced."""
    monkeypatch.setattr(yaml_text, "LOADER", yaml.SafeLoader)

    assert [{"a": "\ufffd"}] == contents('a: "\\ud800"')
