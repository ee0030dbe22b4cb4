"""What the log and `apfproxy check` say of HTTP/2: whether clients may speak it, and how."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from apfproxy.proxy.http2.available import WHY_NOT

if TYPE_CHECKING:
    from apfproxy.settings import DownstreamSettings

LONGEST_FIELD: Final = 65536
"""In bytes; libnghttp2 takes no longer one, whatever `maxHeadBytes` says."""

logger = logging.getLogger(__name__)


def spoken(downstream: DownstreamSettings) -> str:
    """What clients may speak beside plain HTTP/1.1, as the log's first line has it."""
    has_tls = downstream.tls.certificate_file is not None
    behind = ", behind the PROXY protocol" if downstream.proxy_protocol else ""
    if not downstream.http2.is_enabled or WHY_NOT:
        return (" with TLS" if has_tls else "") + behind
    if has_tls:
        return " with TLS and HTTP/2" + behind
    return (", with HTTP/2 by prior knowledge" if downstream.http2.is_cleartext else "") + behind


def warning(downstream: DownstreamSettings) -> str:
    """Why what the settings ask for has no effect; "" if it has, or if they ask for nothing."""
    http2 = downstream.http2
    if not http2.is_cleartext:
        return _field_warning(downstream)
    if not http2.is_enabled:
        return "downstream.http2.cleartext has no effect: downstream.http2.enabled is false"
    if WHY_NOT:
        return f"downstream.http2.cleartext has no effect: {WHY_NOT}"
    if downstream.tls.certificate_file is not None:
        return (
            "downstream.http2.cleartext has no effect: downstream.tls is on; clients speak HTTP/2"
            " over TLS without it"
        )
    return _field_warning(downstream)


def _field_warning(downstream: DownstreamSettings) -> str:
    """Say that `maxHeadBytes` lets one long field in over HTTP/1.1 only."""
    http2 = downstream.http2
    is_spoken = downstream.tls.certificate_file is not None or http2.is_cleartext
    if WHY_NOT or not (is_spoken and http2.is_enabled):
        return ""
    if downstream.max_head_bytes <= LONGEST_FIELD:
        return ""
    return (
        "downstream.maxHeadBytes: over HTTP/2 one field has 64 KiB at most, and a longer one gets"
        " 431; where clients send such fields, set downstream.http2.enabled to false"
    )


def say_why_not(downstream: DownstreamSettings) -> None:
    """Log why clients cannot speak HTTP/2, where they might expect it."""
    if text := warning(downstream):
        logger.warning("%s", text)
    elif WHY_NOT and downstream.http2.is_enabled and downstream.tls.certificate_file is not None:
        logger.warning("clients are offered HTTP/1.1 only: %s", WHY_NOT)
