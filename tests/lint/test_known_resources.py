"""The resources of Kubernetes."""

from __future__ import annotations

import pytest

from apfproxy.lint.known_resources import KNOWN_GROUPS, KnownResource, groups_of


@pytest.mark.parametrize(
    ("group", "name", "expected"),
    [
        pytest.param("", "secrets", KnownResource(True, frozenset()), id="plain"),
        pytest.param(
            "", "nodes", KnownResource(False, frozenset({"proxy", "status"})), id="of-the-cluster"
        ),
        pytest.param(
            "", "namespaces", KnownResource(None, frozenset({"finalize", "status"})), id="both"
        ),
        pytest.param(
            "apps",
            "deployments",
            KnownResource(True, frozenset({"scale", "status"})),
            id="of-a-group",
        ),
    ],
)
def test_known(group: str, name: str, expected: KnownResource) -> None:
    """Scope and subresources of a resource are known."""
    assert expected == KNOWN_GROUPS[group][name]


def test_groups_of() -> None:
    """A name may be that of resources of several groups."""
    assert groups_of("events") == ["", "events.k8s.io"]


def test_no_empty_names() -> None:
    """The lists are written as they are read."""
    named = [
        (name, subresource)
        for resources in KNOWN_GROUPS.values()
        for name, resource in resources.items()
        for subresource in ("x", *resource.subresources)
    ]

    assert [] == [each for each in named if not (each[0].isalpha() and each[1].isalpha())]
