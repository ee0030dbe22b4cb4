"""Reads the reference vectors, which README.md beside this file describes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

DIRECTORY = Path(__file__).parent / "vectors"


def load(name: str) -> list[Any]:
    with (DIRECTORY / f"{name}.jsonl").open("rb") as lines:
        return [json.loads(line) for line in lines]


def text(name: str) -> str:
    return (DIRECTORY / name).read_text()
