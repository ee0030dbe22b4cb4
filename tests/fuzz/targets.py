"""What is fuzzed: modules with `run_one`, which raises if anything is wrong, and `seeds`."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Callable

CORPUS = Path(__file__).parent / "corpus"
NAMES = ("request_stream", "answer_stream", "chunked_body", "attributes", "frame_stream")


class Target(Protocol):
    """A module with a target."""

    run_one: Callable[[bytes], None]
    seeds: Callable[[], list[bytes]]


def target_named(name: str) -> Target:
    """The module with the target of that name; atheris has it imported under its eyes."""
    return cast("Target", importlib.import_module(f"tests.fuzz.{name}"))
