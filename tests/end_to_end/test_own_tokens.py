"""A proxy's own tokens, which expire."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.conformance.replaying import running
from tests.end_to_end.served import ask, command
from tests.support.credentials import unsigned

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e

ADMIN = r"admin on 127\.0\.0\.1:(\d+)"
EXPIRY = "apfproxy_token_expiry_timestamp_seconds"
HOUR_S = 3600
YEAR_S = 365 * 24 * HOUR_S


def expiries(admin_port: int) -> dict[str, float]:
    """When the tokens expire, by the settings that name them."""
    _, page = ask(admin_port, "/metrics")
    lines = [line.rpartition(" ") for line in page.splitlines() if line.startswith(f"{EXPIRY}{{")]
    return {labels.partition('setting="')[2].partition('"')[0]: float(s) for labels, _, s in lines}


def test_expiry_is_seen(tmp_path: Path) -> None:
    """The metrics and /readyz say when a token expires that the starters name; a new one counts."""
    now = int(time.time())
    token = tmp_path / "token"
    token.write_bytes(unsigned({"iat": now - YEAR_S, "exp": now + HOUR_S}))
    with running("apiserver", "--listen", "127.0.0.1:0") as port:
        kubeconfig = {
            "current-context": "a",
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
            "clusters": [{"name": "a", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
            "users": [{"name": "a", "user": {"tokenFile": "token"}}],
        }
        settings = {
            "downstream": {"listen": "127.0.0.1:0"},
            "admin": "127.0.0.1:0",
            "upstream": {"url": f"http://127.0.0.1:{port}", "tokenFile": "token"},
            "flowControl": {"kubernetes": {"enabled": True, "kubeconfig": "kubeconfig"}},
        }
        for name, content in (("kubeconfig", kubeconfig), ("apfproxy.yaml", settings)):
            (tmp_path / name).write_text(yaml.safe_dump(content))
        with command("serve", "--settings", str(tmp_path / "apfproxy.yaml")) as served:
            served.line(r"upstream.tokenFile: .*: the token expires at ")
            admin_port = int(served.line(ADMIN)[1])
            before = expiries(admin_port)
            _, health = ask(admin_port, "/readyz?verbose")
            token.write_bytes(unsigned({"iat": now, "exp": now + YEAR_S}))
            served.line("changed, and loaded again: .*token")
            after = expiries(admin_port)
            _, health_after = ask(admin_port, "/readyz?verbose")

    assert {
        "upstream.tokenFile": now + HOUR_S,
        "flowControl.kubernetes.kubeconfig": now + HOUR_S,
    } == before
    assert "the token expires at" in health
    assert now + YEAR_S == after["upstream.tokenFile"]
    assert "the token expires at" not in health_after
