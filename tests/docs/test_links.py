"""Links lead somewhere, paths and tests exist, promises name tests, and no page is too long."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import pytest

from tests.docs.pages import ROOT, Page, page, pages, read_page

MAX_LINES = 400
MAX_README_LINES = 160
PATH = re.compile(r"(?:apfproxy|config|docs|loadtest|tests|\.ci)/[\w./-]*\w/?(?:::\w+)?|::\w+")
"""A path of the repository, with a test of it; `::test` is in the file that was named before."""
CONFORMANCE = ROOT / "tests" / "conformance"
DEFINED = re.compile(r"(?m)^(?:async )?def (test_\w+)\(")
PROMISES = ("docs/behaviour.md", "docs/differences.md", "docs/hostile-input.md")
TEST = re.compile(r"`(?:(tests/[\w/]+\.py)(?:::)?)?(test_\w+)?`|\b([A-Z]{2}-\d\d)\b")
"""The test of a row: a file, a test in it, a test by its name alone, or a case of hostile input."""
MODULE = re.compile(r"[\w/]+\.py")

each_page = pytest.mark.parametrize("document", pages(), ids=[each.name for each in pages()])


@each_page
def test_links(document: Page) -> None:
    """Each link leads to a file, and to a heading of it; those to other sites are well-formed."""
    broken = []
    for link in document.links:
        parts = urlsplit(link)
        if parts.scheme:
            assert parts.scheme == "https"
            assert parts.netloc
            continue
        target = (document.path.parent / parts.path) if parts.path else document.path
        if not target.exists() or (
            parts.fragment and parts.fragment not in read_page(target).anchors
        ):
            broken.append(link)

    assert [] == broken


@each_page
def test_paths(document: Page) -> None:
    """Each path of the repository that is named exists or is shown, and each test is there."""
    missing = []
    path = ""
    for span in document.spans:
        if MODULE.fullmatch(span):
            folders = (ROOT, ROOT / "apfproxy", CONFORMANCE, document.path.parent)
            is_shown = f"`{span}`:\n\n```python\n" in document.text
            if not is_shown and not any((folder / span).exists() for folder in folders):
                missing.append(span)
        elif PATH.fullmatch(span):
            named, _, test = span.partition("::")
            path = named or path
            file = ROOT / path
            if not file.exists() or (test and f"def {test}(" not in file.read_text()):
                missing.append(span)

    assert [] == missing


@each_page
def test_lengths(document: Page) -> None:
    """A page is read in one go; the README in half of that."""
    most = MAX_README_LINES if document.name == "README.md" else MAX_LINES

    assert most >= document.text.count("\n")


def test_index() -> None:
    """Each page is in the index, and nothing else of the folder."""
    index = page("docs/README.md")
    listed = {link for link in index.links if "/" not in link}

    assert listed == {each.name for each in (ROOT / "docs").glob("*.md")} - {"README.md"}


@pytest.mark.parametrize("name", PROMISES)
def test_every_row_names_tests_that_exist(name: str) -> None:
    sources = {file: file.read_text() for file in (ROOT / "tests").rglob("*.py")}
    tests = {test for text in sources.values() for test in DEFINED.findall(text)}
    cases = (CONFORMANCE / "vectors" / "hostile_http.jsonl").read_text()
    lines = page(name).text.splitlines()
    rows = [
        line
        for line, following in zip(lines, [*lines[1:], ""], strict=True)
        if line.startswith("|") and not following.startswith("|--") and line.strip("|- ")
    ]
    wrong = []
    for row in rows:
        last = re.split(r"(?<!\\)\|", row.strip().strip("|"))[-1]
        named = TEST.findall(last)
        if not named or TEST.sub("", last).strip(" ,()"):
            wrong.append(row)
        for path, test, case in named:
            found = set(DEFINED.findall(sources.get(ROOT / path, ""))) if path else tests
            if (
                (path and not found)
                or (test and test not in found)
                or (case and f'"{case}"' not in cases)
            ):
                wrong.append(f"{path} {test} {case}: {row}")

    assert rows
    assert [] == wrong
