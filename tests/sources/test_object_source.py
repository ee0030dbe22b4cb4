"""The source of a proxy's objects."""

from __future__ import annotations

import pytest

from apfproxy.settings import FlowControlSettings, KubernetesSettings
from apfproxy.sources.object_source import source_text


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param(FlowControlSettings(), "the built-in objects", id="none"),
        pytest.param(
            FlowControlSettings(objects=("a.yaml", "b/")),
            "a.yaml, b/, over the built-in objects",
            id="files",
        ),
        pytest.param(
            FlowControlSettings(objects=("a.yaml",), suggested_objects=False),
            "a.yaml",
            id="files-alone",
        ),
        pytest.param(FlowControlSettings(store="x.db"), "the store x.db", id="store"),
        pytest.param(
            FlowControlSettings(kubernetes=KubernetesSettings(is_enabled=True)),
            "a Kubernetes API",
            id="kubernetes",
        ),
    ],
)
def test_source(settings: FlowControlSettings, expected: str) -> None:
    """Where objects come from is said in a few words."""
    assert expected == source_text(settings)
