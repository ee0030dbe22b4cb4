"""Whether this build speaks HTTP/2, and by which library."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from apfproxy.base import build

if TYPE_CHECKING:
    from types import ModuleType

    from apfproxy.settings import Http2Settings


def load(name: str) -> tuple[ModuleType | None, str]:
    """The binding of this name; or None, and why it cannot be had, with what to do."""
    try:
        return importlib.import_module(name), ""
    except ModuleNotFoundError:
        return None, (
            "this build has no HTTP/2; with gcc, python3-dev and libnghttp2-dev,"
            " HATCH_BUILD_HOOKS_ENABLE=1 pip install . makes one that has (docs/installing.md)"
        )
    except ImportError as error:
        return None, f"libnghttp2 cannot be used: {error}"


BINDING, WHY_NOT = load(build.HTTP2)


def is_offered(settings: Http2Settings) -> bool:
    return settings.is_enabled and BINDING is not None


def version() -> str:
    """`HTTP/2 by nghttp2 1.52.0`, or `without HTTP/2`."""
    return "without HTTP/2" if BINDING is None else f"HTTP/2 by nghttp2 {BINDING.VERSION}"
