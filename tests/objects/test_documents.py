"""Bytes to plain data, with lines."""

from __future__ import annotations

import itertools
import json
import math
import re

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.objects import documents
from apfproxy.objects.documents import (
    DEEPEST,
    LARGEST_INPUT_BYTES,
    LARGEST_LINED_BYTES,
    MOST_DOCUMENTS,
    MOST_PATHS,
    UNRENDERED,
    Document,
    FieldPaths,
    Mapping,
    UnreadableError,
    compose,
    split_documents,
    yaml_documents,
)


def contents(text: str) -> list[object]:
    found, problem = split_documents(text.encode())
    assert problem is None, problem
    return [document.content for document in found]


def yaml_contents(text: str) -> list[object]:
    return [content for content, _ in yaml_documents(text, 10)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("# nothing\n---\n---\n# more\n", []),
        ("a: 1\n---\nb: 2\n", [{"a": 1}, {"b": 2}]),
        ("{a: b, c: d}", [{"a": "b", "c": "d"}]),
        (' \n{"a": 1}\n{"a": 2} ', [{"a": 1}, {"a": 2}]),
        ('{"a": [1.5, null, "\\ud83d\\ude00"]}', [{"a": [1.5, None, "\U0001f600"]}]),
        ('{"\\ud800": ["\\udc00"]}', [{"\ufffd": ["\ufffd"]}]),
        ("\ufeffa: 1", [{"a": 1}]),
        ("1: a\ntrue: b\n1.5: c\noff: d\n", [{"1": "a", "true": "b", "1.5": "c", "false": "d"}]),
        ("'<<': {a: b}\n", [{"<<": {"a": "b"}}]),
        ("a: &x [1]\nb: *x\n", [{"a": [1], "b": [1]}]),
        (
            "a: &x {b: 1, c: 2}\nd: {<<: *x, c: 3}\n",
            [{"a": {"b": 1, "c": 2}, "d": {"b": 1, "c": 3}}],
        ),
    ],
)
def test_documents(text: str, expected: list[object]) -> None:
    assert expected == contents(text)


def test_lines() -> None:
    found, _ = split_documents(b"# c\n---\na:\n- b: 1\n- c: 2\n---\n\nd: 3\n")
    first = found[0].content

    assert [document.line for document in found] == [3, 8]
    assert isinstance(first, Mapping)
    items = first["a"]
    assert isinstance(items, list)
    assert [item.line for item in items] == [4, 5]
    assert [Document({"a": 1}, 2), Document({}, 4)] == split_documents(b'\n{"a":\n1}\n{}')[0]


@pytest.mark.parametrize(
    ("data", "message", "line"),
    [
        (b"a: 1\n---\na: b: c\n", "not YAML: mapping values are not allowed", 3),
        (b"a: [1\n", "not YAML: ", 2),
        (b"a: \x01", "not YAML: ", None),
        (b"a: \xff", "not UTF-8: invalid start byte at byte 3: save it as UTF-8", 1),
        (b"a: &x [1]\n---\nb: *x\n", "alias *x: there is no &x before it", 3),
        (b"a: 1\nb: &x [*x]\n", "alias *x is within what it stands for", 2),
        (b"<<: 1\n", "<< takes a mapping, or a list of them", 1),
        (b"a: 1\nb:\n  c: 2\n  c: 3\n", 'key "c" occurs twice in one mapping: keep one', 4),
        (b"1: a\n'1': b\n", 'key "1" occurs twice in one mapping: keep one', 2),
        (b"? [a]\n: b\n", "a key must be a plain value", 1),
        (b"~: b\n", "a key must be a plain value", 1),
        (b"a: !!python/object:os.system x\n", "tag tag:yaml.org,2002:python/object:os.system", 1),
        (b"\na: !!set {b}\n", "tag tag:yaml.org,2002:set is not supported: leave it out", 2),
        (b"[" * 1000, "nested too deeply", 1),
        (b'{"a": 1,, }', "not JSON: ", 1),
        (b'\n{"a": 1}\n{"a": ', "not JSON: ", 3),
        (b'{"a": {"b": 1, "b": 2}}', 'key "b" occurs twice in one object: keep one', 1),
        (b'{"a": ' * 100_000, "nested too deeply", 1),
        (b'{"a": ' * 101 + b"1" + b"}" * 101, f"nested more than {DEEPEST} deep", 1),
        (b'{"a": ' + b"9" * 5000 + b', "a": "\t"}', "a number is too long", 1),
        (b'{"a": NaN, "b": "\\ud800", "a": 1}', "not JSON: NaN", 1),
        (b"{}" * (MOST_DOCUMENTS + 1), "more than 10000 documents: split it", 1),
        (b"-\n---\n" * (MOST_DOCUMENTS + 1), "more than 10000 documents: split it", 20_001),
        (b" " * (LARGEST_INPUT_BYTES + 1), "too large: 3145729 bytes", None),
        ("a: 1\nb: caf\u00e9\n".encode("cp1252"), "not UTF-8: invalid continuation byte at", 2),
        ("a: 1".encode("utf-16") + b"x", "not UTF-16: truncated data at byte 10: save it as", 1),
        (b"a: 1\n{{- if .Values.apf }}\nb: 2\n", f"{{{{ is of {UNRENDERED}", 2),
        (b"a: 1\nb: {{ .Values.b }}\n", f"{{{{ is of {UNRENDERED}", 2),
        (b"a: '{{ x }}'\nc: 1\nb: [\n", "not YAML: ", 4),
        (b"a:\n\tb: 1\n", "not YAML: found character that cannot start any token: indent by sp", 2),
        (b"{{ toYaml .Values.all }}", f"{{{{ is of {UNRENDERED}", 1),
        (b"a: {% if x %}\n", f"{{% is of {UNRENDERED}", 1),
    ],
)
def test_unreadable(data: bytes, message: str, line: int | None) -> None:
    _, problem = split_documents(data)
    assert problem is not None
    assert message == str(problem)[: len(message)]
    assert line == problem.line


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"]
)
@pytest.mark.parametrize("text", ['{"a": "\u00e9"}', "a: \u00e9\r\n"])
def test_encodings(encoding: str, text: str) -> None:
    documents, problem = split_documents(text.encode(encoding))
    assert problem is None
    assert [{"a": "\u00e9"}] == [each.content for each in documents]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufeff"))
    .filter(lambda text: not re.match(r"[-+.0-9]|[yYnN]\Z", text)),  # Go reads more as numbers
    lambda inner: st.lists(inner) | st.dictionaries(st.text("ab:-#"), inner),
    max_leaves=6,
)  # fmt: skip


@given(st.dictionaries(st.text("abc", min_size=1), VALUES, min_size=1))
def test_what_is_written_is_read(content: dict[str, object]) -> None:
    assert [content] == contents(json.dumps(content))
    assert [content] == contents(yaml.safe_dump(content))


def test_nesting_limit_is_the_same_in_both_languages() -> None:
    for opening in ("[", '{"a":'):
        closing = "]" if opening == "[" else "}"
        text = opening * (DEEPEST - 1) + "1" + closing * (DEEPEST - 1)
        assert split_documents(f'{{"a": {text}}}'.encode())[1] is None
        assert split_documents(f'{{"a": {opening}{text}{closing}}}'.encode())[1] is not None


def test_lines_of_json() -> None:
    """JSON that is the same as YAML has the lines of its fields; its content never changes."""
    for text in (
        *('{"a": 1}{"a": 2}', '{"a": 1.0}', '{"a\\ud800": 1, "b": "\t"}'),
        *('{"a": "\\ud83d\\ude00"}', '{"a": "%s"}' % ("x" * LARGEST_LINED_BYTES)),
    ):
        found, _ = split_documents(text.encode())
        assert not any(isinstance(each.content, Mapping) for each in found)
    (document,), _ = split_documents(b'{"a": [1, true, null, "x"]}')
    assert isinstance(document.content, Mapping)


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
        ('"1"', "1"),
        ("!!str 1", "1"),
        ("|\n  1\n", "1\n"),
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
        ('"\\u00e4"', "ä"),
    ],
)
@pytest.mark.usefixtures("_parser")
def test_scalars(text: str, value: object) -> None:
    (found,) = yaml_contents(f"a: {text}")
    assert isinstance(found, Mapping)
    assert (value, type(value)) == (found["a"], type(found["a"]))


@pytest.mark.parametrize("text", ["a: 1\na: 2", "a: {b: 1}\na: 2", '{a: 1, "a": 2}'])
def test_repeated_keys(text: str) -> None:
    duplicates = FieldPaths()
    assert [({"a": 2}, 1)] == list(yaml_documents(text, 10, duplicates))
    assert ["a"] == list(duplicates)
    with pytest.raises(UnreadableError, match='key "a" occurs twice'):
        yaml_contents(text)


@pytest.mark.usefixtures("_parser")
def test_aliases() -> None:
    text = "a: &x {b: &y [1], c: 2}\nd: *y\ne: {c: 3, <<: [*x, {f: 4, c: 5}]}\n"
    whole = {"b": [1], "c": 2}

    assert [({"a": whole, "d": [1], "e": {**whole, "c": 3, "f": 4}}, 1)] == list(
        yaml_documents(text, 10, has_aliases=True)
    )
    with pytest.raises(UnreadableError, match="alias \\*y is not supported: write the value out"):
        yaml_contents(text)


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
    with pytest.raises(UnreadableError, match=message) as caught:
        list(yaml_documents(text, 10, has_aliases=True))
    assert line == caught.value.line


def test_mappings_and_nulls_are_bounded() -> None:
    assert [([{}, None], 1)] == list(yaml_documents("[{}, ~]", 10, most_objects=2))
    with pytest.raises(UnreadableError, match="more than 1 mappings and nulls"):
        list(yaml_documents("[{}, ~]", 10, most_objects=1))


def test_paths_are_bounded() -> None:
    paths = FieldPaths()
    for each in range(MOST_PATHS + 1):
        paths.add(("a", f"[{each}]"))

    assert [f"a[{each}]" for each in range(MOST_PATHS)] == list(paths)


def test_errors_of_the_parser_are_raised() -> None:
    with pytest.raises(yaml.YAMLError):
        yaml_contents("--- @")


def test_nodes() -> None:
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
    monkeypatch.setattr(documents, "LOADER", yaml.SafeLoader)
    assert [{"a": "\ufffd"}] == yaml_contents('a: "\\ud800"')
