"""Tests of `apfproxy.apiserver.rendering`."""

from __future__ import annotations

from apfproxy.apiserver.rendering import as_yaml, indented


def test_indented() -> None:
    """JSON for people has two blanks a level, and ends its last line."""
    assert b'{\n  "a": [\n    1\n  ]\n}\n' == indented(b'{"a":[1]}')


def test_yaml() -> None:
    """YAML is in block style, its keys in order."""
    assert b"a: x\nb:\n- 1\n" == as_yaml(b'{"b":[1],"a":"x"}')
