"""For whose sake others are asked who a client is."""

from __future__ import annotations

import pytest

from apfproxy.authn.credentials import TRUSTED_PEER, UNKNOWN_PEER, Peer
from apfproxy.proxy.identification import asker_of

HEAD = b"GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: "


@pytest.mark.parametrize(
    ("peer", "hops", "asker"),
    [
        pytest.param(UNKNOWN_PEER, b"", "10.0.0.1", id="client"),
        pytest.param(UNKNOWN_PEER, b"192.0.2.1, ", "10.0.0.1", id="client-that-names-another"),
        pytest.param(TRUSTED_PEER, b"", "10.0.0.1", id="front-proxy-that-names-none"),
        pytest.param(TRUSTED_PEER, b"192.0.2.1, ", "192.0.2.1", id="front-proxy"),
        pytest.param(TRUSTED_PEER, b"192.0.2.1, 192.0.2.2, ", "192.0.2.2", id="last-field"),
        pytest.param(TRUSTED_PEER, b"192.0.2.1,2001:db8::1, ", "2001:db8::1", id="last-of-field"),
        pytest.param(TRUSTED_PEER, b"192.0.2.1, unknown, ", "10.0.0.1", id="no-address"),
        pytest.param(TRUSTED_PEER, b"192.0.2.1,, ", "10.0.0.1", id="empty"),
        pytest.param(TRUSTED_PEER, b"\xff, ", "10.0.0.1", id="no-text"),
    ],
)
def test_asker(peer: Peer, hops: bytes, asker: str) -> None:
    """The client that is connected, or the one that a front proxy says it is connected to."""
    assert asker == asker_of(peer, "10.0.0.1", HEAD + hops)
