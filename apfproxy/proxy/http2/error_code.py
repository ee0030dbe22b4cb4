"""Codes of RST_STREAM and GOAWAY; RFC 9113, section 7."""

from __future__ import annotations

from typing import Final

NO_ERROR: Final = 0
PROTOCOL_ERROR: Final = 1
INTERNAL_ERROR: Final = 2
REFUSED_STREAM: Final = 7
CANCEL: Final = 8
ENHANCE_YOUR_CALM: Final = 11
