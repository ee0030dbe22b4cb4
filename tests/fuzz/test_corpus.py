"""The inputs that fuzzing has kept, once more: no finding comes back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.fuzz import answer_stream, frame_stream, request_stream
from tests.fuzz.run import CORPUS, NAMES, target_named

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _stages() -> Iterator[None]:
    yield
    request_stream.STAGE.drop()
    answer_stream.STAGE.drop()
    frame_stream.STAGE.drop()


@pytest.mark.parametrize("name", NAMES)
def test_kept_inputs(name: str) -> None:
    if name == "frame_stream":
        pytest.importorskip("apfproxy.proxy.http2.nghttp2")
    target = target_named(name)
    inputs = [path.read_bytes() for path in sorted((CORPUS / name).iterdir())]
    assert inputs != []

    for data in [*inputs, *target.seeds()]:
        target.run_one(data)


def test_corpora_are_small() -> None:
    sizes = [path.stat().st_size for path in CORPUS.rglob("*") if path.is_file()]

    assert sum(sizes) <= 500_000
