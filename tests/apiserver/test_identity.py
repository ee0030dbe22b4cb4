"""Tests of `apfproxy.apiserver.identity`."""

from __future__ import annotations

import pytest

from apfproxy.apiserver.errors import StatusError
from apfproxy.apiserver.flowcontrol.kinds import FLOW_SCHEMA
from apfproxy.apiserver.identity import (
    check_identity,
    check_no_uid,
    check_preconditions,
    check_uid,
    check_unchanged,
    is_version,
    place,
)
from apfproxy.apiserver.policy.kinds import POD_DISRUPTION_BUDGET
from apfproxy.apiserver.store.entries import Entry

ENTRY = Entry("flowschemas", "", "f", 7, "u-1", {}, {}, b"{}")


@pytest.mark.parametrize(
    ("own", "requested", "expected"),
    [
        pytest.param({}, "n", {"namespace": "n"}, id="default"),
        pytest.param({"namespace": "n"}, "n", {"namespace": "n"}, id="same"),
        pytest.param({"namespace": "n"}, "", {}, id="kind-without"),
    ],
)
def test_place(own: dict[str, str], requested: str, expected: dict[str, str]) -> None:
    """An object gets the namespace of the request."""
    place(own, requested)

    assert expected == own


def test_place_elsewhere() -> None:
    """An object that names another namespace is refused."""
    with pytest.raises(StatusError, match="does not match the namespace sent on the request"):
        place({"namespace": "m"}, "n")


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        pytest.param({}, "name must be provided", id="no-name"),
        pytest.param({"name": "g"}, r"\(g\) does not match the name on the URL \(f\)", id="name"),
        pytest.param(
            {"name": "f", "namespace": "m"}, "namespace of the provided object", id="namespace"
        ),
    ],
)
def test_check_identity(metadata: dict[str, str], message: str) -> None:
    """Name and namespace are those of the path."""
    with pytest.raises(StatusError, match=message) as error:
        check_identity({"metadata": metadata}, "n", "f")

    assert 400 == error.value.code


def test_same_identity() -> None:
    """An object of the name is right, with or without its namespace."""
    check_identity({"metadata": {"name": "f"}}, "n", "f")
    check_identity({"metadata": {"name": "f", "namespace": "n"}}, "n", "f")


def test_no_uid() -> None:
    """Nobody creates an object of a uid that he knows before."""
    check_no_uid(FLOW_SCHEMA, "f", {})
    with pytest.raises(StatusError, match="uid mismatch") as error:
        check_no_uid(FLOW_SCHEMA, "f", {"metadata": {"uid": "u"}})

    assert (409, "Conflict") == (error.value.code, error.value.reason)


def test_uid() -> None:
    """Another object of the name is not meant; the message names the key of the store."""
    check_uid(FLOW_SCHEMA, ENTRY, "")
    check_uid(FLOW_SCHEMA, ENTRY, "u-1")
    with pytest.raises(StatusError, match="StorageError: invalid object, Code: 4, Key: /") as error:
        check_uid(FLOW_SCHEMA, ENTRY, "u-2")

    assert (409, "Conflict") == (error.value.code, error.value.reason)


@pytest.mark.parametrize("version", ["", "0", "7"])
def test_unchanged(version: str) -> None:
    """The version that is stored, or any."""
    check_unchanged(FLOW_SCHEMA, ENTRY, {"resourceVersion": version})


@pytest.mark.parametrize(
    ("version", "code"), [pytest.param("6", 409, id="old"), pytest.param("x", 500, id="no-number")]
)
def test_changed(version: str, code: int) -> None:
    """Another version than the stored one, or none that can be."""
    with pytest.raises(StatusError) as error:
        check_unchanged(FLOW_SCHEMA, ENTRY, {"resourceVersion": version})

    assert code == error.value.code


def test_unconditional() -> None:
    """Budgets are replaced only by who says what he has seen."""
    with pytest.raises(StatusError, match="must be specified for an update") as error:
        check_unchanged(POD_DISRUPTION_BUDGET, ENTRY, {})

    details = error.value.details
    assert 422 == error.value.code
    assert details is not None
    assert "poddisruptionbudgets" == details["kind"]
    assert ["metadata.resourceVersion"] == [cause["field"] for cause in details["causes"]]


@pytest.mark.parametrize(
    ("text", "expected"), [("", False), ("0", False), ("x", False), ("-1", False), ("7", True)]
)
def test_is_version(text: str, expected: bool) -> None:
    """Positive numbers are versions."""
    assert expected == is_version(text)


@pytest.mark.parametrize(
    ("uid", "version"),
    [
        pytest.param("u-2", None, id="uid"),
        pytest.param("", None, id="no-uid"),
        pytest.param(None, "6", id="version"),
    ],
)
def test_preconditions(uid: str | None, version: str | None) -> None:
    """A deletion of another object, or another state, is refused."""
    check_preconditions(FLOW_SCHEMA, ENTRY, None, None)
    check_preconditions(FLOW_SCHEMA, ENTRY, "u-1", "7")
    with pytest.raises(StatusError, match="precondition") as error:
        check_preconditions(FLOW_SCHEMA, ENTRY, uid, version)

    assert (409, "FlowSchema") == (error.value.code, (error.value.details or {})["kind"])
