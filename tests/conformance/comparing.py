"""Finds the first difference of two responses to one request."""

from __future__ import annotations

import http.client
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.conformance.steps import Answer

VOLATILE = frozenset(
    {
        "continue",
        "creationTimestamp",
        "deletionTimestamp",
        "lastProbeTime",
        "lastTransitionTime",
        "resourceVersion",
        "startTime",
        "time",
        "timeAdded",
        "uid",
    }
)
REPLACEMENTS = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "<time>"),
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "<uid>"),
    (re.compile(r"current: \d+"), "current: <version>"),
    (re.compile(r"in record \(\d+\)"), "in record (<version>)"),
    (
        re.compile(r"ResourceVersion in object meta: \d+"),
        "ResourceVersion in object meta: <version>",
    ),
    (re.compile(r'(resourceVersion\\*":\\*")\d+'), r"\1<version>"),
    (re.compile(r"\b(generated-|BAD_|x{58})[a-z0-9]{5}\b"), r"\1<suffix>"),
)
DISCOVERY = frozenset(
    {"APIVersions", "APIGroupList", "APIGroup", "APIResourceList", "APIGroupDiscoveryList"}
)
DISCOVERED = frozenset({"groups", "versions", "resources", "subresources", "items"})
SERVED = frozenset(
    {
        "", "flowcontrol.apiserver.k8s.io", "policy", "resource.k8s.io", "v1", "v1beta1",
        "namespaces", "namespaces/finalize", "namespaces/status", "finalize", "status",
        "pods", "pods/status", "pods/eviction", "eviction",
        "flowschemas", "flowschemas/status",
        "prioritylevelconfigurations", "prioritylevelconfigurations/status",
        "poddisruptionbudgets", "poddisruptionbudgets/status", "resourceslices",
    }
)  # fmt: skip
"""Names in discovery that both servers have."""
BUILD = frozenset(
    {
        "gitVersion", "gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler",
        "serverAddressByClientCIDRs",
    }
)  # fmt: skip
"""Members that each server has of its own."""
AGE = re.compile(r"<invalid>|\d+[smhdy]\d*[smhd]?")


def difference(real: Answer, ours: Answer, *, with_owners: bool) -> tuple[str, str]:
    """Where the answers differ first; the owners of fields (`managedFields`) only on request.

    Returns:
        What it is that differs, `status`, `reason`, `causes`, `body`, `warnings`, `type` or `text`,
        in order of weight, and how; "" for both if they do not.
    """
    if real.status != ours.status:
        told = [
            each.body.get("message", "") if isinstance(each.body, dict) else ""
            for each in (ours, real)
        ]
        return "status", f"{ours.status} {told[0]!r}, want {real.status} {told[1]!r}"
    one, other = (
        normal(served(each.body) if is_discovery(each.body) else each.body) for each in (real, ours)
    )
    if not with_owners:
        one, other = without_owners(one), without_owners(other)
    is_failure = real.status >= http.client.BAD_REQUEST
    if is_failure and isinstance(one, dict) and isinstance(other, dict):
        if one.get("reason") != other.get("reason"):
            return "reason", f"{other.get('reason')!r}, want {one.get('reason')!r}"
        if found := first_difference(causes(one), causes(other)):
            return "causes", f"{found}; want {one.get('message')!r}"
    elif found := first_difference(one, other):
        return "body", found
    if found := first_difference(normal(real.warnings), normal(ours.warnings)):
        return "warnings", found
    if real.content_type != ours.content_type:
        return "type", f"{ours.content_type!r}, want {real.content_type!r}"
    if is_failure and (found := first_difference(one, other)):
        return "text", found
    return "", ""


def served(document: Any) -> Any:  # noqa: ANN401 - JSON
    """A document of discovery without what only one of the servers has."""
    if isinstance(document, list):
        return [served(each) for each in document if name_of(each) in SERVED]
    if not isinstance(document, dict):
        return document
    return {
        name: served(each) if isinstance(each, list) and name in DISCOVERED else each
        for name, each in ((key, nested(value)) for key, value in document.items())
        if name not in BUILD
    }


def nested(value: Any) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, list):
        return [served(each) if isinstance(each, dict) else each for each in value]
    return value


def name_of(item: Any) -> str:  # noqa: ANN401 - JSON
    if not isinstance(item, dict):
        return str(item)
    names = [item.get(key) for key in ("name", "version", "resource", "subresource")]
    name: str = next((each for each in names if each), item.get("metadata", {}).get("name", ""))
    return name


def is_discovery(body: Any) -> bool:  # noqa: ANN401 - JSON
    return isinstance(body, dict) and (body.get("kind") in DISCOVERY or "gitVersion" in body)


def causes(status: dict[str, Any]) -> list[list[str]]:
    found = (status.get("details") or {}).get("causes") or []
    return [[cause.get("field", ""), cause.get("reason", "")] for cause in found]


def normal(value: Any, name: str = "") -> Any:  # noqa: ANN401 - JSON
    """The value without what differs in every run."""
    if isinstance(value, dict):
        if value.get("kind") == "Table":
            value = without_ages(value)
        return {
            key: f"<{key}>" if key in VOLATILE and is_text(each) else normal(each, key)
            for key, each in value.items()
        }
    if isinstance(value, list):
        items = [normal(each) for each in value]
        if name == "managedFields":
            # Entries are sorted by times, which may be equal.
            items.sort(key=repr)
        return items
    if isinstance(value, str):
        for pattern, replacement in REPLACEMENTS:
            value = pattern.sub(replacement, value)
    return value


def without_owners(value: Any) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, dict):
        return {key: without_owners(each) for key, each in value.items() if key != "managedFields"}
    if isinstance(value, list):
        return [without_owners(each) for each in value]
    return value


def is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def without_ages(table: dict[str, Any]) -> dict[str, Any]:
    rows = [
        {
            **row,
            "cells": [
                "<age>" if isinstance(cell, str) and AGE.fullmatch(cell) else cell
                for cell in row.get("cells", [])
            ],
        }
        for row in table.get("rows") or []
    ]
    columns = [
        {**column, "description": "<description>"}
        for column in table.get("columnDefinitions") or []
    ]
    return {**table, "rows": rows, "columnDefinitions": columns}


def first_difference(want: Any, got: Any, path: str = "") -> str:  # noqa: ANN401 - JSON
    """Where two values differ first, and how; "" if they do not."""
    if isinstance(want, dict) and isinstance(got, dict):
        for name in sorted(want.keys() | got.keys()):
            if name not in got:
                return f"{path}.{name} is missing, want {want[name]!r}"
            if name not in want:
                return f"{path}.{name} is unexpected: {got[name]!r}"
            if found := first_difference(want[name], got[name], f"{path}.{name}"):
                return found
        return ""
    if isinstance(want, list) and isinstance(got, list):
        if len(want) != len(got):
            return f"{path} has {len(got)} items, want {len(want)}: {got!r}, want {want!r}"
        for index, (one, other) in enumerate(zip(want, got, strict=True)):
            if found := first_difference(one, other, f"{path}[{index}]"):
                return found
        return ""
    if want == got and type(want) is type(got):
        return ""
    return f"{path} is {got!r}, want {want!r}"
