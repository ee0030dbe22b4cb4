"""Tests of the rules of namespaces."""

from __future__ import annotations

from typing import Any

import pytest

from apfproxy.apiserver.core import namespaces
from apfproxy.apiserver.core.namespaces import NAMESPACE

Spec = dict[str, Any]


def namespace(name: str = "a", *finalizers: str, phase: str = "Active", **metadata: object) -> Spec:
    """A namespace as the store has it."""
    return {
        "metadata": {"name": name, "resourceVersion": "1", **metadata},
        "spec": {"finalizers": list(finalizers)} if finalizers else {},
        "status": {"phase": phase},
    }


def test_creation() -> None:
    """A new namespace is active and held until what is in it is removed."""
    obj = namespace(phase="Terminating")
    namespaces.prepare_create(obj)

    assert {"finalizers": ["kubernetes"]} == obj["spec"]
    assert {"phase": "Active"} == obj["status"]
    assert {"kubernetes.io/metadata.name": "a"} == obj["metadata"]["labels"]


def test_creation_with_finalizers() -> None:
    """A client's own finalizers stay; without a name there is no label yet."""
    obj = namespace("", "a.b/c")
    namespaces.prepare_create(obj)
    assert ["a.b/c", "kubernetes"] == obj["spec"]["finalizers"]
    assert "labels" not in obj["metadata"]

    namespaces.prepare_create(obj)
    assert ["a.b/c", "kubernetes"] == obj["spec"]["finalizers"]


def test_updates_keep_what_they_are_not_for() -> None:
    """An update keeps finalizers and status, the subresources keep the rest."""
    new, old = namespace("a", "x.y/z", phase="Terminating"), namespace("a", "kubernetes")
    namespaces.prepare_update(new, old)
    assert old == new

    new = namespace("a", "x.y/z")
    namespaces.prepare_update(new, namespace())
    assert {} == new["spec"]

    new = namespace("a", "x.y/z", phase="Terminating")
    NAMESPACE.rules.prepare_status(new, old)
    assert namespace("a", "kubernetes", phase="Terminating") == new

    new = namespace(phase="Terminating")
    namespaces.prepare_finalize(new, old)
    assert namespace() == new


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (namespace(), False),
        (namespace("a", "kubernetes"), True),
        (namespace(finalizers=["a.b/c"]), True),
    ],
)
def test_holding(obj: Spec, expected: bool) -> None:
    """Finalizers of both kinds hold a namespace."""
    assert expected == namespaces.is_held(obj)


def test_deletion() -> None:
    """A deleted namespace is terminating; some may not be deleted."""
    obj = namespace()
    namespaces.mark_deleted(obj)

    assert "Terminating" == obj["status"]["phase"]
    assert "" == namespaces.objection(obj)
    assert "this namespace may not be deleted" == namespaces.objection(namespace("default"))


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (namespace(), []),
        (namespace("a.b"), ["metadata.name"]),
        (namespace("a", "kubernetes", "a.b/c"), []),
        (namespace("a", "b"), ["spec.finalizers"]),
        (namespace("a", "b c"), ["spec.finalizers"] * 2),
    ],
)
def test_validation(obj: Spec, expected: list[str]) -> None:
    """A name is a label, and finalizers are known or have a domain."""
    assert expected == [error.field for error in namespaces.validate(obj)]


def test_validation_of_updates() -> None:
    """An update is judged as a creation, and by what it replaces."""
    errors = namespaces.validate_update(namespace("a", "b", uid="2"), namespace("a", uid="1"))

    assert ["spec.finalizers", "metadata.uid"] == [error.field for error in errors]


@pytest.mark.parametrize(
    ("phase", "metadata", "expected"),
    [
        ("Active", {}, []),
        ("Terminating", {}, ["status.Phase"]),
        ("Terminating", {"deletionTimestamp": "2026-01-01T00:00:00Z"}, []),
        ("Active", {"deletionTimestamp": "2026-01-01T00:00:00Z"}, ["status.Phase"]),
    ],
)
def test_validation_of_status(phase: str, metadata: Spec, expected: list[str]) -> None:
    """The phase says whether the namespace is deleted."""
    new, old = namespace("a", phase=phase, **metadata), namespace(**metadata)

    assert expected == [error.field for error in namespaces.validate_status(new, old)]


def test_row() -> None:
    """A row has name, status and age."""
    obj = namespace(creationTimestamp="1970-01-01T00:00:00Z")

    assert ("a", "Active", "60s") == tuple(NAMESPACE.cells(obj, 60))
    assert {"status.phase": "Active"} == NAMESPACE.selectable(obj)


def test_defaults() -> None:
    """A namespace has a phase, and its name as a label whatever the client says."""
    obj: dict[str, Any] = {
        "metadata": {"name": "a", "labels": {"kubernetes.io/metadata.name": "b"}},
        "status": {},
    }
    namespaces.set_defaults(obj)
    assert {"kubernetes.io/metadata.name": "a"} == obj["metadata"]["labels"]
    assert {"phase": "Active"} == obj["status"]

    obj = {"metadata": {"generateName": "a-"}, "status": {"phase": "Terminating"}}
    namespaces.set_defaults(obj)
    assert {"generateName": "a-"} == obj["metadata"]
    assert {"phase": "Terminating"} == obj["status"]
