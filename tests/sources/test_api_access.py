"""The way to a Kubernetes API that settings name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from apfproxy.sources import kubeconfig
from apfproxy.sources.kubeconfig import ApiAccess, KubeconfigError, access_of

if TYPE_CHECKING:
    from pathlib import Path


def test_kubeconfig(tmp_path: Path) -> None:
    """A kubeconfig wins, by the context that is named."""
    path = tmp_path / "config"
    path.write_text(
        "{contexts: [{name: a, context: {cluster: a}}],"
        " clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}]}"
    )

    assert "http://127.0.0.1:1" == access_of(str(path), "a", "it", "x").server
    with pytest.raises(KubeconfigError):
        access_of(str(path), "b", "it", "x")


def test_no_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outside a pod the setting is named that is needed."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(KubeconfigError, match=r"say how to reach the API with fleet\.kubeconfig"):
        access_of(None, None, "it", "fleet.kubeconfig")


@pytest.mark.parametrize(
    ("access", "warning"),
    [
        pytest.param(
            ApiAccess(server="http://far.example"),
            "http://far.example: not https: whoever is on the way reads the credentials and decides"
            " who gets seats",
            id="plain",
        ),
        pytest.param(
            ApiAccess(server="https://far.example", is_unverified=True),
            "https://far.example: insecure-skip-tls-verify: whoever is on the way can read the"
            " credentials and decide who gets seats",
            id="unverified",
        ),
        pytest.param(ApiAccess(server="http://127.0.0.1:8001"), "", id="this-machine"),
        pytest.param(ApiAccess(server="https://far.example"), "", id="https"),
    ],
)
def test_warnings(
    access: ApiAccess,
    warning: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Whoever is on the way to the API is warned about."""
    monkeypatch.setattr(kubeconfig, "in_cluster", lambda _, **__: access)

    assert access == access_of(None, None, "who gets seats", "x")
    assert [warning] * bool(warning) == caplog.messages
