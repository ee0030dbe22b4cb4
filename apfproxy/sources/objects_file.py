"""A file of objects that other processes of this program read, such as workers.

It is replaced as a whole, so that nobody reads a part of it.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from apfproxy.objects.types import GROUP, FlowControlObject, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable


API_VERSION = f"{GROUP}/v1"
MODE = 0o600


def write_objects(path: str, objects: Iterable[FlowControlObject]) -> None:
    """Put objects, each with its uid, in the place of those of a file; OSError if that fails."""
    items = [
        {"apiVersion": API_VERSION, "kind": kind_of(each), **msgspec.to_builtins(each)}
        for each in objects
    ]
    data = msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": items})
    new = f"{path}.new"
    try:
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, MODE)
        with open(descriptor, "wb") as file:  # noqa: PTH123 - of a descriptor
            file.write(data)
        Path(new).replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            Path(new).unlink()
        raise
