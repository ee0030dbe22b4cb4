"""Where the settings of a file stand."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING

import yaml

from apfproxy.base.files import read_file
from apfproxy.objects.documents import UnreadableError, compose
from apfproxy.settings.file import (
    CLUSTERS,
    DEEPEST,
    MAX_FILE_BYTES,
    MOST_VALUES,
    cluster_paths,
)

if TYPE_CHECKING:
    from pathlib import Path

SETTING = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:\.[A-Za-z][A-Za-z0-9]*|\[[a-z0-9-]+\])*")
"""A path such as `authentication.jwt[0].issuer` or `clusters[a].watch`, or a word."""


class SettingsLines:
    """Where the settings of a file stand, to say it with what is found out about them later.

    The file has been read once without a problem; one that has changed since has no lines.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines: dict[str, int] = {}
        """By path; those of sections and of items of lists, `a.b[0]`, are among them."""
        self._named: dict[str, str] = {}
        """Holds what paths of files are written as, to the setting."""
        with contextlib.suppress(OSError, UnreadableError):
            self._note(compose(read_file(path, MAX_FILE_BYTES), MOST_VALUES, DEEPEST), "")

    def _note(self, node: yaml.Node | None, prefix: str) -> None:
        if isinstance(node, yaml.MappingNode):
            for key_node, value_node in node.value:
                child = f"{prefix}.{key_node.value}".removeprefix(".")
                self._lines[child] = key_node.start_mark.line + 1
                self._note(value_node, child)
        elif isinstance(node, yaml.SequenceNode):
            items = ((f"{prefix}[{index}]", item) for index, item in enumerate(node.value))
            for path, item in cluster_paths(node) if prefix == CLUSTERS else items:
                self._lines[path] = item.start_mark.line + 1
                self._note(item, path)
        elif isinstance(node, yaml.ScalarNode) and node.value:
            self._named[str(self._path.parent / node.value)] = prefix

    def of_this_file(self, problem: str) -> str:
        """The problem with its line if it is of this file for sure, otherwise as it is.

        A setting that stands here is what it begins with, names the file that is wrong, or is
        named in full; anything else may be of a flag.
        """
        if self._is_placed(problem):
            return problem
        for named in SETTING.finditer(problem):
            item = named[0].rpartition(".")[0]  # of a list, which lacks the setting
            path = item if item.endswith("]") and named[0] not in self._lines else named[0]
            # A word within the text is a setting only with its section.
            if path in self._lines and ("." in named[0] or named.start() == 0):
                return f"{self._path}:{self._lines[path]}: {problem}"
        if self._line_of(problem.partition(": ")[0].partition(" ")[0]) is None:
            words = [word.removesuffix(":") for word in problem.split()]
            setting = next((self._named[word] for word in words if word in self._named), None)
            if setting is not None:
                return f"{self._path}:{self._lines[setting]}: {setting}: {problem}"
        return problem

    def located(self, problem: str) -> str:
        """The problem with the file, its line and its setting, as far as they can be told."""
        if self._is_placed(problem):
            return problem
        begins = SETTING.match(problem)
        if begins is not None and begins[0].startswith(f"{CLUSTERS}["):
            return f"{self._path}:{self._line_of(begins[0])}: {problem}"
        if (named := self.of_this_file(problem)) != problem:
            return named
        is_named = begins is not None and "." in begins[0]
        for path in SETTING.findall(problem):
            # Behind a setting, a word such as `request` is a word.
            if is_named and "." not in path:
                continue
            line = self._line_of(path)
            if line is not None:
                return f"{self._path}:{line}: {problem}"
        return f"{self._path}: {problem}"

    def _is_placed(self, problem: str) -> bool:
        """Whether the problem says where it is, in this file or in one that is named here."""
        if problem.startswith(f"{self._path}:"):
            return True
        own = re.match(r"(.+?):[0-9]+: ", problem)
        return own is not None and any(own[1].startswith(name) for name in self._named)

    def _line_of(self, path: str) -> int | None:
        """The line of a setting, or else of the section that it would be in."""
        while path and path not in self._lines:
            path = path.rpartition(".")[0]
        return self._lines.get(path)
