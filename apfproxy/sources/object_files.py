"""Objects from files, and the built-in ones that they replace.

1. A path is a file, or a directory, of which the files `*.yaml`, `*.yml` and `*.json` count that
   are not hidden; directories in it do not.  Objects of other APIs and what is no object are left
   out, and so is what tools keep beside objects.
2. Objects add to the built-in ones and replace those of the same kind and name.
3. Of all files together no two objects may have one kind and name.
"""

from __future__ import annotations

import errno
import hashlib
import re
import stat
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from apfproxy.base.files import read_file
from apfproxy.flowcontrol.preset import KUBERNETES
from apfproxy.objects.decode import Candidate, LeftOut, Problem, decode_documents, mandatory_objects
from apfproxy.objects.documents import LARGEST_INPUT_BYTES
from apfproxy.objects.types import MODELS, FlowControlObject, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from apfproxy.flowcontrol.preset import Preset

SUFFIXES = (".yaml", ".yml", ".json")
# Kustomize and Helm: left out unless they have objects of flow control.
OF_TOOLS = re.compile(r"(kustomization|Kustomization|Chart|values([-._].*)?)\.(yaml|yml|json)")


@dataclass(frozen=True, slots=True)
class FileContents:
    """The contents of files by name, in the order of reading, and what could not be read."""

    files: tuple[tuple[str, bytes], ...]
    problems: tuple[Problem, ...]
    # Names of files that are there because a directory has them.
    found: frozenset[str] = frozenset()

    def fingerprint(self) -> bytes:
        """Changes whenever anything here does."""
        problems = [str(problem) for problem in self.problems]
        return hashlib.sha256(repr((self.files, problems)).encode()).digest()


@dataclass(frozen=True, slots=True)
class ObjectsRead:
    """The objects of some files; `problems` are those of the others, and of files.

    Attributes:
        written: Kind and name of an object to its file, and its place and fields there.
        left_out: What is there that is no object of flow control.
    """

    objects: tuple[FlowControlObject, ...]
    problems: tuple[Problem, ...]
    written: dict[tuple[str, str], tuple[str, Candidate]]
    left_out: tuple[LeftOut, ...] = ()


def read_files(paths: Sequence[str], *, streams: bool = False) -> FileContents:
    """Read all files of the paths; blocks on the file system.  For `streams` see `read_file`."""
    files: dict[str, bytes] = {}
    problems = []
    found: set[str] = set()
    for path in paths:
        try:
            names = file_names(path)
        except OSError as error:
            problems.append(Problem(path or "''", (cannot_read(error),)))
            continue
        if names != [path]:
            found.update(names)
        for name in names:
            if name in files:
                continue
            try:
                files[name] = read_file(name, LARGEST_INPUT_BYTES, streams=streams)
            except OSError as error:
                problems.append(Problem(name, (cannot_read(error),)))
    return FileContents(tuple(files.items()), tuple(problems), frozenset(found.difference(paths)))


def file_names(path: str) -> list[str]:
    """The files that a path stands for, sorted."""
    if not path:  # The current directory to pathlib, to its user a variable that is not set.
        raise FileNotFoundError(errno.ENOENT, "the path is empty")
    if not stat.S_ISDIR(Path(path).stat().st_mode):
        return [path]
    return sorted(
        str(entry)
        for entry in Path(path).iterdir()
        if entry.suffix in SUFFIXES and not entry.name.startswith(".") and not entry.is_dir()
    )


def cannot_read(error: OSError) -> str:
    return f"cannot be read: {error.strerror or error}"


def decode_files(contents: FileContents) -> ObjectsRead:
    """Decode all files; any bytes give objects and problems."""
    objects: list[FlowControlObject] = []
    problems = list(contents.problems)
    written: dict[tuple[str, str], tuple[str, Candidate]] = {}
    left_out: list[LeftOut] = []
    for name, data in contents.files:
        decoded = decode_documents(data, name, is_found=name in contents.found)
        is_ours = decoded.objects or any(each.kind in MODELS for each in decoded.problems)
        if OF_TOOLS.fullmatch(Path(name).name) and not is_ours:
            left_out.append(LeftOut(name, "left out, as it is a file of kustomize or Helm"))
            continue
        problems += decoded.problems
        left_out += decoded.left_out
        for object_ in decoded.objects:
            kind, object_name = kind_of(object_), object_.metadata.name
            candidate = decoded.written[kind, object_name]
            other, _ = written.setdefault((kind, object_name), (name, candidate))
            if other == name:
                objects.append(object_)
                continue
            message = f"also defined in {other}: remove one"
            problems.append(Problem(name, (message,), candidate.line, kind, object_name))
    return ObjectsRead(tuple(objects), tuple(problems), written, tuple(left_out))


def in_force_at(objects: Iterable[FlowControlObject], unix_s: float) -> list[FlowControlObject]:
    """The objects without those that have ended by a time, of their annotation `until`."""
    return [
        each for each in objects if (until_s := each.additions.until_s) is None or until_s > unix_s
    ]


def effective_objects(
    given: Iterable[FlowControlObject], *, with_suggested: bool, preset: Preset = KUBERNETES
) -> tuple[FlowControlObject, ...]:
    """The built-in objects with the given ones that are in force now in their place, and beside."""
    built_in = preset.objects() if with_suggested else mandatory_objects()
    objects = {(kind_of(object_), object_.metadata.name): object_ for object_ in built_in}
    current = in_force_at(given, time.time())
    objects.update({(kind_of(object_), object_.metadata.name): object_ for object_ in current})
    return tuple(objects.values())
