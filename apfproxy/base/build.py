"""The build that this is, its hot path compiled to C or all of it Python, and the files in it."""

from __future__ import annotations

import importlib.util
import platform
from pathlib import Path

from apfproxy import __version__

COMPILED, INTERPRETED = "compiled", "interpreted"
HTTP2 = "apfproxy.proxy.http2.nghttp2"
"""Exists in a build that had libnghttp2's headers."""
_ONE_OF_THEM = "apfproxy.flowcontrol.queue_set"


def kind() -> str:
    """`COMPILED` or `INTERPRETED`, without importing anything."""
    spec = importlib.util.find_spec(_ONE_OF_THEM)
    assert spec is not None
    is_source = spec.origin is not None and spec.origin.endswith(".py")
    return INTERPRETED if is_source else COMPILED


def short_version() -> str:
    """The version, and what this build lacks: `0.1.0 without HTTP/2`."""
    return __version__ if importlib.util.find_spec(HTTP2) else f"{__version__} without HTTP/2"


def version(*more: str) -> str:
    """The version with the build, Python's and `more`: `0.1.0 (compiled, Python 3.11.7)`."""
    return f"{__version__} ({', '.join([kind(), f'Python {platform.python_version()}', *more])})"


INSTALLED = Path(__file__).parents[1] / "shipped"
CHECKOUT = Path(__file__).parents[2] / "config"
DIRECTORY = INSTALLED if INSTALLED.is_dir() else CHECKOUT


def shipped(path: str) -> Path:
    """The file or directory of a path within `config/`, such as `kubernetes/gateway`."""
    return DIRECTORY / path
