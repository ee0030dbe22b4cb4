"""Tests of ConfigMaps and Secrets; `tests/conformance` has Kubernetes' answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from apfproxy.apiserver.core.configuration import CONFIG_MAP, SECRET, SERVICE_ACCOUNT
from apfproxy.apiserver.schema.reading import canonical, read

if TYPE_CHECKING:
    from apfproxy.apiserver.kind import Kind
    from apfproxy.objects.types import Object

METADATA = {"name": "x", "namespace": "n", "resourceVersion": "1"}


def made(kind: Kind, **parts: object) -> Object:
    """An object of a kind, completed."""
    obj = read(kind.storage.schema, {"metadata": dict(METADATA), **parts}).obj
    kind.storage.set_defaults(obj)
    return canonical(kind.storage.schema, obj)


def test_secrets_are_completed() -> None:
    """What is sent as text becomes data, which wins; the type is Opaque unless given."""
    secret = made(SECRET, stringData={"a": "x"}, data={"a": "eQ==", "b": "eg=="})

    assert {"a": "eA==", "b": "eg=="} == secret["data"]
    assert "stringData" not in secret
    assert "Opaque" == secret["type"]
    assert {"type": "Opaque"} == SECRET.selectable(secret)
    assert "t" == made(SECRET, type="t")["type"]


@pytest.mark.parametrize(
    ("kind", "old", "new", "fields"),
    [
        (CONFIG_MAP, {"data": {"a": "b"}}, {"data": {"a": "c"}}, []),
        (CONFIG_MAP, {"immutable": True}, {"immutable": True}, []),
        (CONFIG_MAP, {"immutable": True}, {"data": {"a": "c"}}, ["immutable", "data"]),
        (
            CONFIG_MAP,
            {"immutable": True},
            {"immutable": True, "binaryData": {"a": "eA=="}},
            ["binaryData"],
        ),
        (SECRET, {"type": "a"}, {"type": "b"}, ["type"]),
        (SECRET, {"immutable": True}, {"immutable": True, "data": {"a": "eA=="}}, ["data"]),
    ],
)
def test_what_cannot_change(kind: Kind, old: Object, new: Object, fields: list[str]) -> None:
    """The type of a secret never changes, nor what is immutable."""
    errors = kind.rules.validate_update(made(kind, **new), made(kind, **old))

    assert fields == [error.field for error in errors]


def test_rows() -> None:
    """A row has the number of entries, of all sorts."""
    both = made(CONFIG_MAP, data={"a": "b", "c": "d"}, binaryData={"e": "eA=="})

    assert ("x", 3) == CONFIG_MAP.cells(both, 0)[:2]
    assert ("x", "Opaque", 0) == SECRET.cells(made(SECRET), 0)[:3]
    assert ("x", "<unknown>") == SERVICE_ACCOUNT.cells(made(SERVICE_ACCOUNT), 0)
