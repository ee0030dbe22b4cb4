"""Tests of field ownership against recorded answers of Kubernetes."""

from __future__ import annotations

import copy
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest

from apfproxy.apiserver.core.pods import POD
from apfproxy.apiserver.errors import StatusError
from apfproxy.apiserver.flowcontrol import FLOW_SCHEMA, PRIORITY_LEVEL_CONFIGURATION
from apfproxy.apiserver.ownership.managed import Writer, apply, update_managed
from apfproxy.apiserver.policy import POD_DISRUPTION_BUDGET
from apfproxy.apiserver.resource import RESOURCE_SLICE
from tests.conformance.vectors import load

if TYPE_CHECKING:
    from apfproxy.apiserver.schema.types import Struct

TIME = "2026-01-01T00:00:00Z"
LEVEL = PRIORITY_LEVEL_CONFIGURATION.storage.schema
BUDGET = POD_DISRUPTION_BUDGET.storage.schema

SCHEMAS: dict[str, Struct] = {
    "flowcontrol.apiserver.k8s.io/v1 FlowSchema": FLOW_SCHEMA.storage.schema,
    "flowcontrol.apiserver.k8s.io/v1 PriorityLevelConfiguration": LEVEL,
    "policy/v1 PodDisruptionBudget": BUDGET,
    "resource.k8s.io/v1 ResourceSlice": RESOURCE_SLICE.versions[0].schema,
    "resource.k8s.io/v1beta1 ResourceSlice": RESOURCE_SLICE.versions[1].schema,
    "v1 Pod": POD.versions[0].schema,
}

OBJECT_PATH = re.compile(
    r"(?P<path>/.*/(?:flowschemas|prioritylevelconfigurations|resourceslices|pods"
    r"|poddisruptionbudgets)/[^/]+)(?:/(?P<subresource>status))?"
)

ADDED_BY_ADMISSION = ("tolerations", "priority", "preemptionPolicy")
"""Fields of a pod's spec without an owner: they are set after account has been taken."""


def entries(obj: dict[str, Any]) -> list[tuple[str, Any]]:
    found = obj["metadata"].get("managedFields", [])
    return sorted(
        (repr({**entry, "time": "", "fieldsV1": ""}), entry["fieldsV1"]) for entry in found
    )


def apply_condition(live: dict[str, Any], after: dict[str, Any], schema: Struct) -> dict[str, Any]:
    """The status as the server itself changes it between two requests."""
    conditions = after.get("status", {}).get("conditions", [])
    dangling = [one for one in conditions if one["type"] == "Dangling"]
    if not dangling or live["status"].get("conditions"):
        return live
    patch = {
        "apiVersion": live["apiVersion"],
        "kind": live["kind"],
        "metadata": {"name": live["metadata"]["name"]},
        "status": {"conditions": dangling},
    }
    manager = "api-priority-and-fairness-config-consumer-v1"
    writer = Writer(manager, schema, live["apiVersion"], TIME, "status", (("spec",),))
    return apply(writer, live, patch, force=True)


def replay() -> list[Any]:
    stored: dict[str, dict[str, Any]] = {}
    cases = []
    for step in load("api_exchanges"):
        after = step["expect"].get("body")
        url = urlsplit(step["path"])
        query = parse_qs(url.query)
        is_object = isinstance(after, dict) and "managedFields" in after.get("metadata", {})
        if not is_object or f"{after['apiVersion']} {after['kind']}" not in SCHEMAS:
            continue
        on_object = OBJECT_PATH.fullmatch(url.path)
        path = on_object["path"] if on_object else f"{url.path}/{after['metadata']['name']}"
        before = stored.get(path)
        is_creation = step["method"] == "POST" or "apply" in step.get("content_type", "")
        if is_creation or (on_object and before and step["method"] in {"PUT", "PATCH"}):
            subresource = (on_object and on_object["subresource"]) or ""
            cases.append(pytest.param(step, before, after, subresource, query, id=step["id"]))
        if "dryRun" not in query:
            stored[path] = after
    return cases


@pytest.mark.parametrize(("step", "before", "after", "subresource", "query"), replay())
def test_managed_fields_are_those_of_kubernetes(
    step: dict[str, Any],
    before: dict[str, Any] | None,
    after: dict[str, Any],
    subresource: str,
    query: dict[str, list[str]],
) -> None:
    schema = SCHEMAS[f"{after['apiVersion']} {after['kind']}"]
    live = apply_condition(before, after, schema) if before else None
    manager = query.get("fieldManager", ["unknown"])[0]
    reset = (("spec",),) if subresource else (("status",),)
    writer = Writer(manager, schema, after["apiVersion"], TIME, subresource, reset)
    if "apply" in step.get("content_type", ""):
        new = apply(writer, live, step["body"], force="force" in query)
    else:
        new = copy.deepcopy(after)
        del new["metadata"]["managedFields"]
        if live is None:
            for name in ADDED_BY_ADMISSION:
                new["spec"].pop(name, None)
        update_managed(writer, live, new)

    assert entries(after) == entries(new)


def test_an_eviction_takes_what_it_changes_in_the_budget() -> None:
    steps = {step["id"]: step["expect"].get("body") for step in load("api_exchanges")}
    after = steps["pdb-after-evict"]
    new = copy.deepcopy(after)
    del new["metadata"]["managedFields"]

    writer = Writer("kube-apiserver", BUDGET, "policy/v1", TIME, "status", (("spec",),))
    update_managed(writer, steps["pdb-status"], new)

    assert entries(after) == entries(new)


def test_a_recorded_conflict_is_told_in_the_same_words() -> None:
    steps = {step["id"]: step for step in load("api_exchanges")}
    live, refused = steps["ssa-create"]["expect"]["body"], steps["ssa-conflict"]
    version = live["apiVersion"]

    with pytest.raises(StatusError) as caught:
        apply(Writer("m2", FLOW_SCHEMA.storage.schema, version, TIME), live, refused["body"])

    assert refused["expect"]["body"] == caught.value.status()
