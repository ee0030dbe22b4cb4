"""Writes into the status of each FlowSchema whether its priority level exists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from apfproxy.apiserver.flowcontrol.kinds import FLOW_SCHEMA, PRIORITY_LEVEL_CONFIGURATION
from apfproxy.apiserver.registry import WriteOptions
from apfproxy.apiserver.store.entries import ChangeType
from apfproxy.objects.go_text import rfc3339
from apfproxy.objects.types import due_condition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from apfproxy.apiserver.controllers.queue import Key
    from apfproxy.apiserver.kind import Kind
    from apfproxy.apiserver.registry import Registry
    from apfproxy.apiserver.store.entries import Change

MANAGER = "api-priority-and-fairness-config-consumer-v1"


class NamingPart(msgspec.Struct, rename="camel"):
    """The part of a specification that names the level."""

    priority_level_configuration: dict[str, str]


class DanglingPart(msgspec.Struct):
    """The part of a FlowSchema that matters here; the rest may be large, and is not decoded."""

    spec: NamingPart
    status: dict[str, Any] = {}


decode_part = msgspec.json.Decoder(DanglingPart).decode


class Dangling:
    """Keeps the condition `Dangling` of FlowSchemas."""

    name = "flow-schema-status"
    kinds = (PRIORITY_LEVEL_CONFIGURATION, FLOW_SCHEMA)

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._levels: set[str] = set()
        self._level_of: dict[str, str] = {}
        self._schemas_of: dict[str, set[str]] = {}

    def __repr__(self) -> str:
        return f"<Dangling of {len(self._level_of)} schemas, {len(self._levels)} levels>"

    def notice(self, kind: Kind, change: Change) -> Iterable[Key]:
        """Note which levels there are, and which schemas name them."""
        name = change.entry.name
        is_gone = change.type is ChangeType.DELETED
        if kind is PRIORITY_LEVEL_CONFIGURATION:
            if is_gone:
                self._levels.discard(name)
            elif name in self._levels:
                return ()
            else:
                self._levels.add(name)
            return [(schema,) for schema in self._schemas_of.get(name, ())]
        self._forget(name)
        if is_gone:
            return ()
        level = decode_part(change.entry.data).spec.priority_level_configuration["name"]
        self._level_of[name] = level
        self._schemas_of.setdefault(level, set()).add(name)
        return [(name,)]

    def _forget(self, schema: str) -> None:
        level = self._level_of.pop(schema, None)
        if level is not None:
            schemas = self._schemas_of[level]
            schemas.discard(schema)
            if not schemas:
                del self._schemas_of[level]

    async def look(self, key: Key) -> None:
        """Write the condition of a schema if it is not right."""
        (name,) = key
        entry = self._registry.store.head(FLOW_SCHEMA.resource, "", name)
        if entry is None:
            return
        part = msgspec.to_builtins(decode_part(entry.data))
        condition = due_condition(part, self._levels, rfc3339(self._registry.clock()))
        if condition is not None:
            patch = {"metadata": {"name": name}, "status": {"conditions": [condition]}}
            options = WriteOptions(MANAGER, subresource="status")
            await self._registry.apply(FLOW_SCHEMA, "", name, patch, options, force=True)
