"""What is said of HTTP/2: whether clients may speak it, and why not."""

from __future__ import annotations

import logging

import pytest

from apfproxy.app import listener_tls
from apfproxy.settings import DownstreamSettings, DownstreamTlsSettings, Http2Settings

TLS = DownstreamTlsSettings(certificate_file="a.crt", key_file="a.key")
OFF = Http2Settings(is_enabled=False)
CLEARTEXT = Http2Settings(is_cleartext=True)
USELESS = Http2Settings(is_enabled=False, is_cleartext=True)
LARGE = 65537
LONG_FIELDS = (
    "downstream.maxHeadBytes: over HTTP/2 one field has 64 KiB at most, and a longer one gets 431;"
    " where clients send such fields, set downstream.http2.enabled to false"
)
NOT_BUILT = "this build has no HTTP/2; install it"


@pytest.mark.parametrize(
    ("downstream", "why_not", "spoken", "level", "said"),
    [
        pytest.param(DownstreamSettings(), "", "", 0, "", id="plain"),
        pytest.param(
            DownstreamSettings(http2=CLEARTEXT),
            "",
            ", with HTTP/2 by prior knowledge",
            0,
            "",
            id="cleartext",
        ),
        pytest.param(DownstreamSettings(tls=TLS), "", " with TLS and HTTP/2", 0, "", id="tls"),
        pytest.param(DownstreamSettings(tls=TLS, http2=OFF), "", " with TLS", 0, "", id="off"),
        pytest.param(
            DownstreamSettings(proxy_protocol=True),
            "",
            ", behind the PROXY protocol",
            0,
            "",
            id="behind",
        ),
        pytest.param(
            DownstreamSettings(tls=TLS, http2=OFF, proxy_protocol=True),
            "",
            " with TLS, behind the PROXY protocol",
            0,
            "",
            id="tls-behind",
        ),
        pytest.param(
            DownstreamSettings(tls=TLS, http2=CLEARTEXT),
            "",
            " with TLS and HTTP/2",
            logging.WARNING,
            "downstream.http2.cleartext has no effect: downstream.tls is on; clients speak HTTP/2"
            " over TLS without it",
            id="cleartext-and-tls",
        ),
        pytest.param(
            DownstreamSettings(tls=TLS, http2=USELESS),
            "",
            " with TLS",
            logging.WARNING,
            "downstream.http2.cleartext has no effect: downstream.http2.enabled is false",
            id="useless",
        ),
        pytest.param(
            DownstreamSettings(tls=TLS, max_head_bytes=LARGE),
            "",
            " with TLS and HTTP/2",
            logging.WARNING,
            LONG_FIELDS,
            id="long-fields",
        ),
        pytest.param(
            DownstreamSettings(http2=CLEARTEXT, max_head_bytes=LARGE),
            "",
            ", with HTTP/2 by prior knowledge",
            logging.WARNING,
            LONG_FIELDS,
            id="long-fields-cleartext",
        ),
        pytest.param(
            DownstreamSettings(tls=TLS, http2=OFF, max_head_bytes=LARGE),
            "",
            " with TLS",
            0,
            "",
            id="long-fields-off",
        ),
        pytest.param(
            DownstreamSettings(max_head_bytes=LARGE), "", "", 0, "", id="long-fields-plain"
        ),
        pytest.param(DownstreamSettings(), NOT_BUILT, "", 0, "", id="not-built-plain"),
        pytest.param(
            DownstreamSettings(tls=TLS),
            NOT_BUILT,
            " with TLS",
            logging.WARNING,
            f"clients are offered HTTP/1.1 only: {NOT_BUILT}",
            id="not-built-tls",
        ),
        pytest.param(
            DownstreamSettings(tls=TLS, http2=OFF), NOT_BUILT, " with TLS", 0, "", id="not-wanted"
        ),
        pytest.param(
            DownstreamSettings(http2=CLEARTEXT),
            NOT_BUILT,
            "",
            logging.WARNING,
            f"downstream.http2.cleartext has no effect: {NOT_BUILT}",
            id="not-built-cleartext",
        ),
    ],
)
def test_what_is_said(
    downstream: DownstreamSettings,
    why_not: str,
    spoken: str,
    level: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A line says why clients cannot speak it, where they might expect it."""
    monkeypatch.setattr(listener_tls, "WHY_NOT", why_not)
    caplog.set_level(logging.INFO)
    listener_tls.say_why_not(downstream)

    assert spoken == listener_tls.spoken(downstream)
    assert [(level, said)] * bool(said) == [
        (record.levelno, record.getMessage()) for record in caplog.records
    ]
    assert ("" if said.startswith("clients") else said) == listener_tls.warning(downstream)
