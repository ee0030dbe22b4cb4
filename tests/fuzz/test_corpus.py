"""The inputs that fuzzing has kept, once more: no finding comes back."""

from __future__ import annotations

import pytest

from tests.fuzz.targets import CORPUS, NAMES, target_named


@pytest.mark.parametrize("name", NAMES)
def test_kept_inputs(name: str) -> None:
    """Whatever coverage found worth keeping, and what hostile peers send, still fails nothing."""
    target = target_named(name)
    inputs = [path.read_bytes() for path in sorted((CORPUS / name).iterdir())]
    assert inputs != []

    for data in [*inputs, *target.seeds()]:
        target.run_one(data)


def test_corpora_are_small() -> None:
    """They are files of this repository."""
    sizes = [path.stat().st_size for path in CORPUS.rglob("*") if path.is_file()]

    assert sum(sizes) <= 500_000
