"""Which library this build speaks HTTP/2 by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.proxy.http2 import available
from apfproxy.settings import Http2Settings

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_version() -> None:
    if available.BINDING is None:
        assert "without HTTP/2" == available.version()
        assert available.WHY_NOT
    else:
        assert f"HTTP/2 by nghttp2 {available.BINDING.VERSION}" == available.version()
        assert "" == available.WHY_NOT


def test_not_built() -> None:
    """Without the extension it says how to build it."""
    binding, why_not = available.load("apfproxy.proxy.http2.nghttp3")

    assert binding is None
    assert "HATCH_BUILD_HOOKS_ENABLE=1 pip install ." in why_not


def test_cannot_be_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "nghttp2_broken.py").write_text("raise ImportError('libnghttp2.so.14: no')")
    monkeypatch.syspath_prepend(tmp_path)

    assert (None, "libnghttp2 cannot be used: libnghttp2.so.14: no") == available.load(
        "nghttp2_broken"
    )


def test_not_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody may speak what is not there, or is off."""
    assert not available.is_offered(Http2Settings(is_enabled=False))
    monkeypatch.setattr(available, "BINDING", None)

    assert "without HTTP/2" == available.version()
    assert not available.is_offered(Http2Settings())
