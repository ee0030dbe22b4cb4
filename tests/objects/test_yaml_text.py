"""Tests of reading YAML."""

from __future__ import annotations

import itertools
import math

import pytest
import yaml

from apfproxy.objects import documents
from apfproxy.objects.documents import (
    Mapping,
    UnreadableError,
    compose,
    yaml_documents,
)


def contents(text: str) -> list[object]:
    """The documents of a text."""
    return [content for content, _ in yaml_documents(text, 10)]


@pytest.fixture(params=["libyaml", "python"])
def _parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both parsers of YAML, of which an installation may lack the first."""
    if request.param == "python":
        monkeypatch.setattr(documents, "LOADER", yaml.SafeLoader)


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


@pytest.mark.parametrize("text", ["a: 1\na: 2", "a: {b: 1}\na: 2", '{a: 1, "a": 2}'])
def test_repeated_keys(text: str) -> None:
    """They are refused, or the last value counts and their paths are told."""
    duplicates: list[str] = []

    assert [({"a": 2}, 1)] == list(yaml_documents(text, 10, duplicates))
    assert ["a"] == duplicates
    with pytest.raises(UnreadableError, match='key "a" occurs twice'):
        contents(text)


@pytest.mark.usefixtures("_parser")
def test_aliases() -> None:
    """They stand for what an anchor of their document names; a mapping takes in others."""
    text = "a: &x {b: &y [1], c: 2}\nd: *y\ne: {c: 3, <<: [*x, {f: 4, c: 5}]}\n"
    whole = {"b": [1], "c": 2}

    assert [({"a": whole, "d": [1], "e": {**whole, "c": 3, "f": 4}}, 1)] == list(
        yaml_documents(text, 10, has_aliases=True)
    )
    with pytest.raises(UnreadableError, match="alias \\*y is not supported: write the value out"):
        contents(text)


BOMB = "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"{anchor}: &{anchor} [{', '.join([f'*{before}'] * 10)}]\n"
    for before, anchor in itertools.pairwise("abcdefghij")
)
"""Ten lines that have 10 000 000 000 values."""


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        pytest.param(BOMB, 6, "more than 1000000 values, with aliases written out", id="bomb"),
        pytest.param("a: &a [[[[[1]]]]]\nb: [[[[[*a]]]]]\n", 2, "nested too deeply", id="deep"),
        pytest.param("[[[[[[[[[[[", 1, "nested too deeply", id="deeper"),
        pytest.param("a: 1\nb: &b {c: *b}\n", 2, "alias \\*b is within what it st", id="circle"),
        pytest.param("a: &a 1\n---\nb: *a\n", 3, "there is no &a before it", id="other-document"),
        pytest.param("a: 1\n<<: [{}, 1]\n", 2, "<< takes a mapping, or a list", id="merged-text"),
    ],
)
@pytest.mark.usefixtures("_parser")
def test_what_grows(text: str, line: int, message: str) -> None:
    """What has too many values with its aliases written out, or too deep ones, is refused."""
    with pytest.raises(UnreadableError, match=message) as caught:
        list(yaml_documents(text, 10, has_aliases=True))

    assert line == caught.value.line


def test_nodes() -> None:
    """The nodes of a text keep keys that stand twice; what is no YAML has its line."""
    node = compose(b"a: &a [1]\na: *a\n", 8, 3)

    assert isinstance(node, yaml.MappingNode)
    assert ["a", "a"] == [key.value for key, _ in node.value]
    assert compose(b"", 1, 1) is None
    for data, most, problem in (
        (b"a: &a [1]\na: *a\n", 6, "more than 6 values"),
        (b"a: b: c", 9, "not YAML: mapping values are not allowed here"),
        (b"\xff", 9, "not YAML: unacceptable character #x00ff"),
    ):
        with pytest.raises(UnreadableError, match=problem):
            compose(data, most, 3)


def test_lone_surrogates(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parser in Python lets them pass: they are replaced."""
    monkeypatch.setattr(documents, "LOADER", yaml.SafeLoader)

    assert [{"a": "\ufffd"}] == contents('a: "\\ud800"')
