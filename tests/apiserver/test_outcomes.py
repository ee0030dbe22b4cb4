"""What writes make of objects."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import msgspec
import pytest

from apfproxy.apiserver.errors import StatusError
from apfproxy.apiserver.flowcontrol.kinds import FLOW_SCHEMA
from apfproxy.apiserver.outcomes import Replacement, Write, applied, prepare_creation, updated
from apfproxy.apiserver.store.entries import Entry

if TYPE_CHECKING:
    from apfproxy.objects.types import Object

V1 = FLOW_SCHEMA.storage
NOW = "2026-10-20T07:27:16Z"
WARNINGS: list[str] = []
WRITE = Write(FLOW_SCHEMA, V1, "tester", NOW, "", WARNINGS.extend)
PATCH: Object = {
    "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
    "kind": "FlowSchema",
    "metadata": {"name": "f", "labels": {"a": "b"}},
    "spec": {
        "priorityLevelConfiguration": {"name": "exempt"},
        "rules": [
            {
                "subjects": [{"kind": "User", "user": {"name": "u"}}],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            }
        ],
    },
}


def entry() -> Entry:
    """A FlowSchema that is there."""
    obj = {
        "metadata": {"name": "f", "uid": "u", "creationTimestamp": NOW, "resourceVersion": "7"},
        "spec": {"priorityLevelConfiguration": {"name": "exempt"}, "matchingPrecedence": 9},
        "status": {},
    }
    data = msgspec.json.encode(obj)
    return Entry(FLOW_SCHEMA.resource, "", "f", 7, "u", {}, {}, data)


def test_an_update_is_a_function() -> None:
    """Worked out twice from the same it comes to the same, and what it is made of stays."""

    def change(obj: Object) -> Object:
        obj["metadata"]["labels"] = {"a": "b"}
        return obj

    there = entry()
    before = there.data
    first, second = (updated(WRITE, there, change) for _ in range(2))

    assert first == second
    assert before == there.data
    assert first.is_change
    assert not first.is_gone
    assert {"a": "b"} == first.new["metadata"]["labels"]
    assert "labels" not in first.old["metadata"]


def test_no_change() -> None:
    """What an update leaves as it is is told from what it changes."""
    assert not updated(WRITE, entry(), lambda obj: obj).is_change


def test_an_applied_configuration_stays_as_it_is() -> None:
    """It can be applied again: to what has come to be meanwhile, say."""
    patch = copy.deepcopy(PATCH)
    created = applied(WRITE, None, ("", "f"), patch, force=False)
    replaced = applied(WRITE, entry(), ("", "f"), patch, force=False)

    assert isinstance(created, dict)
    assert isinstance(replaced, Replacement)
    assert PATCH == patch
    assert {"a": "b"} == created["metadata"]["labels"] == replaced.new["metadata"]["labels"]
    assert "matchingPrecedence" in replaced.new["spec"]


def test_fields_of_other_versions_are_nobodys() -> None:
    """Who owns fields of a version that the kind has not cannot be told."""
    entries: list[Object] = [
        {
            "manager": manager,
            "operation": "Update",
            "apiVersion": version,
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": {"f:labels": {"f:z": {}}}},
        }
        for manager, version in (("known", PATCH["apiVersion"]), ("strange", "v1"))
    ]
    obj = {**copy.deepcopy(PATCH), "status": {}}
    obj["metadata"] |= {"managedFields": entries, "deletionGracePeriodSeconds": 5}

    made = prepare_creation(WRITE, obj)["metadata"]

    assert ["known", "tester"] == [entry["manager"] for entry in made["managedFields"]]
    assert "deletionGracePeriodSeconds" not in made


def test_warnings_come_before_a_refusal() -> None:
    """A client hears of what was found until an object was refused."""
    owner = {"apiVersion": "v1", "kind": "Namespace", "name": "n", "uid": "u"}

    def change(obj: Object) -> Object:
        obj["metadata"] |= {"ownerReferences": [owner, owner], "labels": {"-": ""}}
        return obj

    with pytest.raises(StatusError):
        updated(WRITE, entry(), change)

    assert WARNINGS[-1].endswith("observed: u")
