"""The configuration as a whole, and each kind of finding by the least that raises it."""

from __future__ import annotations

from apfproxy.api.flowcontrol.bootstrap import bootstrap_objects
from apfproxy.lint.linter import lint


def test_built_in_configuration_is_clean() -> None:
    """Nobody is told to change what Kubernetes suggests."""
    assert lint(bootstrap_objects()) == []
