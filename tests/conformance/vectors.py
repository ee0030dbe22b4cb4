"""Reads the reference vectors: what Kubernetes 1.36 does, measured.

`APFPROXY_VECTORS` names another directory to read them from; the project's own copy is the default.
"""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

OWN_COPY = Path(__file__).parent / "vectors"


def directory() -> Path:
    """The directory that holds the vectors."""
    return Path(os.environ.get("APFPROXY_VECTORS") or OWN_COPY)


def load(name: str) -> Any:  # noqa: ANN401  each file has a shape of its own
    """The content of `name`.json, or of `name`.json.gz where only that exists."""
    plain = directory() / f"{name}.json"
    if plain.exists():
        return json.loads(plain.read_bytes())
    return json.loads(gzip.decompress(plain.with_suffix(".json.gz").read_bytes()))


def text(name: str) -> str:
    """The content of a text file, such as `dumps/dump_queues.txt`."""
    return (directory() / name).read_text()
