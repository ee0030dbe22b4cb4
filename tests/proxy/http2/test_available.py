"""Whether this build speaks HTTP/2."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from apfproxy.proxy.http2 import available
from apfproxy.settings import Http2Settings

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("name", "why_not"),
    [
        ("nghttp2_absent", "HATCH_BUILD_HOOKS_ENABLE=1 pip install ."),
        ("nghttp2_broken", "libnghttp2 cannot be used: libnghttp2.so.14: no"),
    ],
)
def test_without_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, why_not: str
) -> None:
    (tmp_path / "nghttp2_broken.py").write_text("raise ImportError('libnghttp2.so.14: no')")
    monkeypatch.syspath_prepend(tmp_path)
    binding, said = available.load(name)

    assert binding is None
    assert why_not in said


@pytest.mark.parametrize("is_enabled", [False, True])
@pytest.mark.parametrize("is_built", [False, True])
def test_offered(monkeypatch: pytest.MonkeyPatch, *, is_enabled: bool, is_built: bool) -> None:
    monkeypatch.setattr(available, "BINDING", pytest if is_built else None)
    monkeypatch.setattr(pytest, "VERSION", "1.52.0", raising=False)

    assert (is_enabled and is_built) == available.is_offered(Http2Settings(is_enabled=is_enabled))
    assert ("HTTP/2 by nghttp2 1.52.0" if is_built else "without HTTP/2") == available.version()
