"""Words: documents, docstrings, comments and messages are plain sentences."""

from __future__ import annotations

import io
import re
import tokenize
from typing import TYPE_CHECKING

from tests.docs.pages import ROOT, pages

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDERS = ("apfproxy", "tests", "loadtest")
FRAGMENT = re.compile(
    r'^ *r?"""(?:What|Of|Those|Who|Whoever|That|As above|Likewise)\b.*', re.MULTILINE
)
REFUSED = re.compile(r"\b(?:nobody|anew|whoever|so far as|the like)\b", re.IGNORECASE)


def sources() -> Iterator[tuple[str, str]]:
    """Find the name and the text of each module."""
    for folder in FOLDERS:
        for file in (ROOT / folder).rglob("*.py"):
            yield file.relative_to(ROOT).as_posix(), file.read_text()


def prose(name: str, source: str) -> Iterator[str]:
    """Find comments, docstrings and, of the program, messages."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        is_text = name.startswith("apfproxy/") or token.string.lstrip("r").startswith('"""')
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and is_text):
            yield token.string


def test_documents() -> None:
    found = {each.name: REFUSED.findall(each.text) for each in pages()}

    assert {} == {name: words for name, words in found.items() if words}


def test_docstrings_are_sentences() -> None:
    assert [] == [(name, text) for name, source in sources() for text in FRAGMENT.findall(source)]


def test_words_of_sources() -> None:
    named = [each for each in sources() if REFUSED.search(each[1])]
    told = ((name, text) for name, source in named for text in prose(name, source))

    assert [] == [(name, text) for name, text in told if REFUSED.search(text)]
