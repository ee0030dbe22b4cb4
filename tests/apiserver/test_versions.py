"""Tests of what `/version` answers."""

from __future__ import annotations

import platform
import sys
from typing import TYPE_CHECKING

from apfproxy import __version__
from apfproxy.apiserver.versions import version_document

if TYPE_CHECKING:
    import pytest


def test_version_document() -> None:
    """The version is a semantic one: that of Kubernetes, with ours behind it."""
    document = version_document()

    assert ("1", "36") == (document["major"], document["minor"])
    assert f"v1.36.0+apfproxy-{__version__}" == document["gitVersion"]


def test_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    """The platform is named as Go names it."""
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")

    assert "linux/amd64" == version_document()["platform"]
