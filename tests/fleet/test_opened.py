"""The store that settings name."""

from __future__ import annotations

import sys

import pytest

from apfproxy.base.errors import OperatorError
from apfproxy.fleet.opened import described, open_store
from apfproxy.settings import FleetSettings


def test_parent() -> None:
    """Only workers have the record of their parent, over their link."""
    with pytest.raises(OperatorError, match="only workers have the store of their parent"):
        open_store(FleetSettings(store="parent:link"), "a")

    assert "the parent process" == described(FleetSettings(store="parent:link"))


def test_no_secrets() -> None:
    """What is shown has neither user nor password."""
    shown = described(FleetSettings(store="rediss://u:secret@a.example/3"))

    assert "rediss://a.example:6379/3" == shown


def test_wrong() -> None:
    """A URL that nobody checked is the operator's error, without the password in it."""
    with pytest.raises(OperatorError, match=r"^fleet\.store ") as error:
        open_store(FleetSettings(store="http://u:secret@a"), "a")
    assert "secret" not in str(error.value)


def test_without_redis_py(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where redis-py is not installed the operator is told what to install."""
    for name in [each for each in sys.modules if each.startswith("apfproxy.fleet.redis")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "redis.asyncio", None)
    with pytest.raises(OperatorError, match=r"redis\.asyncio is not installed: pip install 'apfp"):
        open_store(FleetSettings(store="redis://a"), "a")


def test_kubernetes_outside_a_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a kubeconfig it takes a pod."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(OperatorError, match=r"fleet\.kubeconfig"):
        open_store(FleetSettings(store="kubernetes:a/b"), "a")
