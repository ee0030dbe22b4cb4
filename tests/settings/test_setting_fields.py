"""What records of settings have in common."""

from __future__ import annotations

from apfproxy.settings import (
    UNSAID,
    Address,
    EndpointSettings,
    UpstreamSettings,
    UpstreamTlsSettings,
    with_values,
)

ONE, TWO = Address(host="a", port=1), Address(host="b", port=2, is_tls=True)
ENDPOINTS = (EndpointSettings(url=ONE, weight=3), EndpointSettings(url=TWO))


def test_alternatives() -> None:
    """One that is given takes the place of another; its default does not."""
    tls = UpstreamTlsSettings(ca_file="ca")
    upstream = UpstreamSettings(url=ONE, tls=tls)
    both = UpstreamSettings(url=ONE, dns=TWO, tls=tls)

    assert UpstreamSettings(dns=TWO, tls=tls) == with_values(upstream, {"dns": TWO})
    assert UpstreamSettings(endpoints=ENDPOINTS, tls=tls) == with_values(
        both, {"endpoints": ENDPOINTS}
    )
    assert upstream == with_values(upstream, {"dns": UNSAID, "endpoints": ()})
    assert both == with_values(upstream, {"url": ONE, "dns": TWO})
    assert UpstreamSettings(url=ONE) == with_values(upstream, {"tls": UpstreamTlsSettings()})
