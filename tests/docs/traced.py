"""Which functions of the package run while something happens."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

from tests.docs.pages import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

PACKAGE = f"{ROOT / 'apfproxy'}/"


@contextlib.contextmanager
def traced(calls: dict[str, list[str]], when: str) -> Iterator[None]:
    """Enter `file: function` under `when`, in the order of the first calls in this thread."""
    found: dict[str, None] = {}

    def on_event(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE):
            found.setdefault(f"{code.co_filename.removeprefix(PACKAGE)}: {code.co_qualname}")

    before = sys.getprofile()
    sys.setprofile(on_event)
    try:
        yield
    finally:
        sys.setprofile(before)
        calls[when] = list(found)
