"""The documents, taken apart: headings, links, code and the commands in it."""

from __future__ import annotations

import functools
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)|^\[[^]]+\]: (\S+)", re.MULTILINE)
SEPARATORS = frozenset({"|", "||", "&&", ";", "&", "(", ")", ">", ">>", "2>"})


@dataclass(frozen=True)
class Page:
    """A document.

    Attributes:
        prose: The text without its fenced blocks.
        blocks: Language and text of each fenced block.
    """

    path: Path
    text: str
    prose: str
    blocks: tuple[tuple[str, str], ...]

    @property
    def name(self) -> str:
        """The path from the root."""
        return self.path.relative_to(ROOT).as_posix()

    @property
    def spans(self) -> list[str]:
        return SPAN.findall(self.prose)

    @property
    def links(self) -> list[str]:
        """The targets of links and pictures."""
        return [inline or reference for inline, reference in LINK.findall(self.prose)]

    @property
    def anchors(self) -> set[str]:
        headings = re.findall(r"^#+ (.+)$", self.prose, re.MULTILINE)
        return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}

    def commands(self) -> list[list[str]]:
        """The words of each simple command in blocks of shell, and of each span."""
        lines: list[str] = list(self.spans)
        for language, text in self.blocks:
            joined = text.replace("\\\n", " ").splitlines()
            if language == "console":
                lines += [line[2:] for line in joined if line.startswith("$ ")]
            elif language in ("sh", "ini"):
                lines += [re.sub(r"^\w+=(?=/)", "", line) for line in joined]
        return [command for line in lines for command in simple_commands(line)]


def simple_commands(line: str) -> list[list[str]]:
    """Split a line of shell at its operators; none if it is not shell, as some spans are not."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        words = list(lexer)
    except ValueError:
        return []
    commands: list[list[str]] = [[]]
    for word in words:
        if word in SEPARATORS:
            commands.append([])
        else:
            commands[-1].append(word)
    return [command for command in commands if command]


def read_page(path: Path) -> Page:
    """Read a document."""
    text = path.read_text()
    return Page(path=path, text=text, prose=FENCE.sub("", text), blocks=tuple(FENCE.findall(text)))


@functools.cache
def pages() -> tuple[Page, ...]:
    """All documents of the project."""
    paths = [*ROOT.glob("*.md")]
    for folder in ("docs", "config", "tests", "loadtest"):
        paths += (ROOT / folder).rglob("*.md")
    return tuple(read_page(path) for path in sorted(paths))


def page(name: str) -> Page:
    """The document with this path from the root."""
    return next(each for each in pages() if each.name == name)


def table(of: Page, header: str) -> list[list[str]]:
    """The rows of the table whose first line is `header`, as their cells."""
    rows = of.text[of.text.index(header) :].split("\n\n", 1)[0].splitlines()[2:]
    return [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", row.strip().strip("|"))] for row in rows
    ]
