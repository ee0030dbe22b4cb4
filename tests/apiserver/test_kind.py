"""What kinds have if nothing else is said."""

from __future__ import annotations

import copy

import pytest

from apfproxy.apiserver.kind import Kind, Version
from apfproxy.apiserver.schema.types import Struct

OBJ = {"metadata": {"name": "a"}}


def kind(group: str = "") -> Kind:
    """A kind without any rules of its own."""
    versions = (Version("v1", Struct("T", ())), Version("v1beta1", Struct("T", ())))
    return Kind(group, "Thing", versions)


@pytest.mark.parametrize(
    ("group", "resource", "api_version"),
    [("", "things", "v1beta1"), ("g.io", "things.g.io", "g.io/v1beta1")],
)
def test_names(group: str, resource: str, api_version: str) -> None:
    """The core group has no name."""
    found = kind(group)

    assert (resource, api_version) == (found.resource, found.api_version("v1beta1"))
    assert f"<Kind Thing.{group}>" == repr(found)


def test_versions() -> None:
    """The first version is the one that is stored."""
    found = kind()

    assert found.versions[0] is found.storage
    assert found.versions[1] is found.version("v1beta1")
    assert found.version("v2") is None


def test_version_changes_nothing() -> None:
    """Without functions of its own a version has no defaults, and the form that is stored."""
    version, obj = kind().storage, copy.deepcopy(OBJ)
    version.set_defaults(obj)

    assert OBJ == obj
    assert version.to_storage(obj) is obj
    assert version.from_storage(obj) is obj


def test_rules_allow_everything() -> None:
    """Without rules nothing is changed, refused, warned of or waited for."""
    rules, new, old = kind().rules, copy.deepcopy(OBJ), copy.deepcopy(OBJ)
    rules.stamp(new, "2026-01-01T00:00:00Z")
    rules.prepare_create(new)
    rules.prepare_update(new, old)
    rules.prepare_status(new, old)
    rules.mark_deleted(new)

    assert (OBJ, OBJ) == (new, old)
    assert [] == rules.validate(new)
    assert [] == rules.validate_update(new, old)
    assert [] == rules.validate_status(new, old)
    assert [] == rules.warnings(new, old)
    assert ("", "") == (rules.admit_create(new), rules.objection(new))
    assert 0 == rules.grace_s(new, 30)
    assert ({}, ()) == (kind().selectable(new), kind().row_conditions(new))


@pytest.mark.parametrize(("finalizers", "is_held"), [([], False), (["a/b"], True)])
def test_finalizers_hold(finalizers: list[str], is_held: bool) -> None:
    """An object stays as long as something has to be done before it goes."""
    assert is_held == kind().rules.is_held({"metadata": {"finalizers": finalizers}})
