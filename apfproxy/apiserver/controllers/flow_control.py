"""Keeps the built-in objects of flow control and some namespaces, and the status of FlowSchemas.

1. A missing object is created.
2. A mandatory one has the specification that is built in, but for the seats of level `exempt`.
3. So has a suggested one whose annotation `apf.kubernetes.io/autoupdate-spec` is true; without a
   valid annotation that is decided by whether its specification was ever changed, and written down.
4. An object that has the annotation, as true, and is no longer built in is removed.
5. The condition `Dangling` of a FlowSchema says whether its priority level is missing.

Where kube-apiserver looks once a minute, this looks whenever one of these objects changes.

Source: Kubernetes, `pkg/registry/flowcontrol/ensurer` and `pkg/controlplane/controller`.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from apfproxy.apiserver.controllers.runner import Controller
from apfproxy.apiserver.core.cluster import NAMESPACE
from apfproxy.apiserver.flowcontrol import FLOW_SCHEMA, PRIORITY_LEVEL_CONFIGURATION
from apfproxy.apiserver.outcomes import WriteOptions, decoded
from apfproxy.apiserver.registry import DeleteOptions, completed, entry_metadata
from apfproxy.apiserver.store.entries import ChangeType
from apfproxy.objects.decode import DIRECTORY, MANDATORY_FILE, SUGGESTED_FILE
from apfproxy.objects.documents import split_documents
from apfproxy.objects.go_text import rfc3339
from apfproxy.objects.types import due_condition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from apfproxy.apiserver.controllers.runner import Key
    from apfproxy.apiserver.kind import Kind
    from apfproxy.apiserver.registry import Registry
    from apfproxy.apiserver.store.entries import Change
    from apfproxy.objects.types import Object

KINDS = {kind.name: kind for kind in (FLOW_SCHEMA, PRIORITY_LEVEL_CONFIGURATION)}

AUTO_UPDATE = "apf.kubernetes.io/autoupdate-spec"
NAMESPACE_MANAGER = "kube-apiserver"
STATUS_MANAGER = "api-priority-and-fairness-config-consumer-v1"

EXEMPT = "exempt"
ADJUSTABLE = ("nominalConcurrencyShares", "lendablePercent")
"""Holds what an operator may change of the mandatory level `exempt`."""

SYSTEM_NAMESPACES = ("kube-system", "kube-public", "default", "kube-node-lease")

BOOLEANS = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}
"""Texts that Go parses as booleans."""


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """A built-in object as it is created, in canonical form."""

    kind: Kind
    obj: Object
    is_mandatory: bool = False

    @property
    def name(self) -> str:
        return str(self.obj["metadata"]["name"])

    def revised(self, current: Object) -> Object | None:
        """Correct an existing flow-control object, which is changed; None if it is right."""
        metadata = current["metadata"]
        annotation = BOOLEANS.get(metadata.get("annotations", {}).get(AUTO_UPDATE, ""))
        is_kept_equal = self.is_mandatory or (
            metadata.get("generation") == 1 if annotation is None else annotation
        )
        spec = self._wanted(current) if is_kept_equal else current["spec"]
        if annotation is is_kept_equal and spec == current["spec"]:
            return None
        if annotation is not is_kept_equal:
            text = "true" if is_kept_equal else "false"
            metadata.setdefault("annotations", {})[AUTO_UPDATE] = text
        return {**current, "spec": copy.deepcopy(spec)}

    def _wanted(self, current: Object) -> Object:
        spec: Object = self.obj["spec"]
        exempt = current["spec"].get("exempt")
        is_adjustable = self.is_mandatory and self.name == EXEMPT
        if self.kind is not PRIORITY_LEVEL_CONFIGURATION or not is_adjustable or exempt is None:
            return spec
        adjusted = {field: exempt[field] for field in ADJUSTABLE if field in exempt}
        return {**spec, "exempt": {**spec["exempt"], **adjusted}}


def _built_in(file_name: str, *, is_mandatory: bool) -> list[BuiltIn]:
    documents, problem = split_documents((DIRECTORY / file_name).read_bytes())
    assert problem is None, problem
    return [
        BuiltIn(KINDS[raw["kind"]], completed(KINDS[raw["kind"]], raw), is_mandatory)
        for raw in (document.content for document in documents)
        if isinstance(raw, dict)
    ]


class Bootstrap(Controller):
    name = "bootstrap"
    manager = "api-priority-and-fairness-config-producer-v1"

    def __init__(self, registry: Registry, suggested_file: str | None = SUGGESTED_FILE) -> None:
        """Without a file there are no suggested objects."""
        super().__init__(registry)
        kinds = (PRIORITY_LEVEL_CONFIGURATION, FLOW_SCHEMA, NAMESPACE)
        self.kinds = tuple(kind for kind in kinds if kind in registry.kinds)
        objects = [
            BuiltIn(NAMESPACE, completed(NAMESPACE, {"metadata": {"name": name}}))
            for name in SYSTEM_NAMESPACES
        ]
        if suggested_file is not None:
            objects += _built_in(suggested_file, is_mandatory=False)
        objects += _built_in(MANDATORY_FILE, is_mandatory=True)
        self._built_in = {
            (each.kind.plural, each.name): each for each in objects if each.kind in self.kinds
        }

    async def ensure_all(self) -> None:
        """Create and correct all objects; StatusError if the store refuses one."""
        for key in self._built_in:
            await self.look(key)
        for kind in self.kinds:
            if kind is not NAMESPACE:
                for obj in self._registry.objects(kind):
                    await self.look((kind.plural, obj["metadata"]["name"]))

    def notice(self, kind: Kind, change: Change) -> Iterable[Key]:
        key = (kind.plural, change.entry.name)
        is_gone = change.type is ChangeType.DELETED
        if kind is NAMESPACE:
            return [key] if is_gone and key in self._built_in else ()
        return [key] if key in self._built_in or not is_gone else ()

    async def look(self, key: Key) -> None:
        plural, name = key
        built_in = self._built_in.get((plural, name))
        if built_in is None:
            await self._remove_former(plural, name)
            return
        kind = built_in.kind
        entry = self._head(kind, "", name)
        if entry is None:
            options = WriteOptions(NAMESPACE_MANAGER if kind is NAMESPACE else self.manager)
            await self._registry.create(kind, "", copy.deepcopy(built_in.obj), options)
        elif kind is not NAMESPACE and (new := built_in.revised(decoded(kind, entry))):
            # The object is unchanged, since nothing was awaited.
            await self._update(kind, ("", name), lambda _: new)

    async def _remove_former(self, plural: str, name: str) -> None:
        """Remove an object whose annotation says that it was once built in."""
        kind = next(kind for kind in self.kinds if kind.plural == plural)
        entry = self._head(kind, "", name)
        if entry is None:
            return
        metadata = entry_metadata(entry)
        annotation = metadata.get("annotations", {}).get(AUTO_UPDATE, "")
        if BOOLEANS.get(annotation) and "deletionTimestamp" not in metadata:
            options = DeleteOptions(uid=metadata["uid"])
            await self._registry.delete(kind, "", name, options)


class Dangling(Controller):
    name = "flow-schema-status"
    kinds = (PRIORITY_LEVEL_CONFIGURATION, FLOW_SCHEMA)

    def __init__(self, registry: Registry) -> None:
        super().__init__(registry)
        self._level_of: dict[str, str] = {}

    def notice(self, kind: Kind, change: Change) -> Iterable[Key]:
        name = change.entry.name
        if kind is PRIORITY_LEVEL_CONFIGURATION:
            if change.type is ChangeType.MODIFIED:
                return ()
            return [(schema,) for schema, level in self._level_of.items() if level == name]
        if change.type is ChangeType.DELETED:
            self._level_of.pop(name, None)
            return ()
        self._level_of[name] = _level_of(msgspec.json.decode(change.entry.data))
        return [(name,)]

    async def look(self, key: Key) -> None:
        (name,) = key
        entry = self._head(FLOW_SCHEMA, "", name)
        if entry is None:
            return
        schema = msgspec.json.decode(entry.data)
        level = _level_of(schema)
        levels = {level} if self._head(PRIORITY_LEVEL_CONFIGURATION, "", level) else set()
        condition = due_condition(schema, levels, rfc3339(self._registry.clock()))
        if condition is not None:
            await self._apply_condition(FLOW_SCHEMA, ("", name), condition, STATUS_MANAGER)


def _level_of(schema: Object) -> str:
    name: str = schema["spec"]["priorityLevelConfiguration"]["name"]
    return name
