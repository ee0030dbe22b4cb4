"""Keeps the built-in objects: mandatory and suggested flow control, and some namespaces.

1. A missing object is created.
2. A mandatory one has the specification that is built in, but for the seats of level `exempt`.
3. So has a suggested one whose annotation `apf.kubernetes.io/autoupdate-spec` is true; without a
   valid annotation that is decided by whether its specification was ever changed, and written down.
4. An object that has the annotation, as true, and is no longer built in is removed.

Where kube-apiserver looks once a minute, this looks whenever one of these objects changes.

Source: Kubernetes, `pkg/registry/flowcontrol/ensurer` and `pkg/controlplane/controller`.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

from apfproxy.apiserver.controllers.runner import is_not_found
from apfproxy.apiserver.core.namespaces import NAMESPACE
from apfproxy.apiserver.errors import StatusError
from apfproxy.apiserver.flowcontrol.kinds import FLOW_SCHEMA, PRIORITY_LEVEL_CONFIGURATION
from apfproxy.apiserver.registry import DeleteOptions, WriteOptions, completed, entry_metadata
from apfproxy.apiserver.store.entries import ChangeType
from apfproxy.objects.decode import DIRECTORY, MANDATORY_FILE, SUGGESTED_FILE
from apfproxy.objects.documents import split_documents

if TYPE_CHECKING:
    from collections.abc import Iterable

    from apfproxy.apiserver.controllers.queue import Key
    from apfproxy.apiserver.kind import Kind
    from apfproxy.apiserver.registry import Registry
    from apfproxy.apiserver.store.entries import Change
    from apfproxy.objects.types import Object

KINDS = {kind.name: kind for kind in (FLOW_SCHEMA, PRIORITY_LEVEL_CONFIGURATION)}

AUTO_UPDATE = "apf.kubernetes.io/autoupdate-spec"
FLOW_CONTROL_MANAGER = "api-priority-and-fairness-config-producer-v1"
NAMESPACE_MANAGER = "kube-apiserver"

EXEMPT = "exempt"
ADJUSTABLE = ("nominalConcurrencyShares", "lendablePercent")
"""What an operator may change of the mandatory level `exempt`."""

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
    is_mandatory: bool

    @property
    def name(self) -> str:
        """Name of the object."""
        return str(self.obj["metadata"]["name"])


def flow_control_objects(file_name: str, *, is_mandatory: bool) -> list[BuiltIn]:
    """The objects of one of the bootstrap files."""
    documents, problem = split_documents((DIRECTORY / file_name).read_bytes())
    assert problem is None, problem
    return [
        BuiltIn(KINDS[raw["kind"]], completed(KINDS[raw["kind"]], raw), is_mandatory)
        for raw in (document.content for document in documents)
        if isinstance(raw, dict)
    ]


def revised(built_in: BuiltIn, current: Object) -> Object | None:
    """The corrected form of an existing flow-control object; None if it is right."""
    metadata = current["metadata"]
    annotation = BOOLEANS.get(metadata.get("annotations", {}).get(AUTO_UPDATE, ""))
    is_kept_equal = built_in.is_mandatory or (
        metadata.get("generation") == 1 if annotation is None else annotation
    )
    spec = wanted_spec(built_in, current) if is_kept_equal else current["spec"]
    if annotation is is_kept_equal and spec == current["spec"]:
        return None
    new = copy.deepcopy(current)
    new["spec"] = copy.deepcopy(spec)
    if annotation is not is_kept_equal:
        text = "true" if is_kept_equal else "false"
        new["metadata"].setdefault("annotations", {})[AUTO_UPDATE] = text
    return new


def wanted_spec(built_in: BuiltIn, current: Object) -> Object:
    """The specification that an object should have: the built-in one, as adjusted."""
    spec: Object = built_in.obj["spec"]
    exempt = current["spec"].get("exempt")
    is_adjustable = built_in.is_mandatory and built_in.name == EXEMPT
    if built_in.kind is not PRIORITY_LEVEL_CONFIGURATION or not is_adjustable or exempt is None:
        return spec
    adjusted = {field: exempt[field] for field in ADJUSTABLE if field in exempt}
    return {**spec, "exempt": {**spec["exempt"], **adjusted}}


class Bootstrap:
    """Keeps the built-in objects, with the suggested ones of a bootstrap file or without."""

    name = "bootstrap"

    def __init__(
        self,
        registry: Registry,
        *,
        with_suggested: bool = True,
        suggested_file: str = SUGGESTED_FILE,
    ) -> None:
        self._registry = registry
        kinds = (PRIORITY_LEVEL_CONFIGURATION, FLOW_SCHEMA, NAMESPACE)
        self.kinds = tuple(kind for kind in kinds if kind in registry.kinds)
        namespaces = (
            BuiltIn(
                NAMESPACE, completed(NAMESPACE, {"metadata": {"name": name}}), is_mandatory=False
            )
            for name in SYSTEM_NAMESPACES
        )
        self._built_in = {
            (built_in.kind.plural, built_in.name): built_in
            for built_in in (
                *namespaces,
                *flow_control_objects(suggested_file, is_mandatory=False),
                *flow_control_objects(MANDATORY_FILE, is_mandatory=True),
            )
            if built_in.kind in self.kinds
            and (with_suggested or built_in.is_mandatory or built_in.kind is NAMESPACE)
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
        """Note changes of built-in objects, and of others that may once have been built in."""
        key = (kind.plural, change.entry.name)
        if kind is NAMESPACE:
            is_concerned = change.type is ChangeType.DELETED and key in self._built_in
        else:
            is_concerned = key in self._built_in or change.type is not ChangeType.DELETED
        return [key] if is_concerned else ()

    async def look(self, key: Key) -> None:
        """Create or correct an object."""
        plural, name = key
        built_in = self._built_in.get((plural, name))
        try:
            if built_in is None:
                await self._remove_former(plural, name)
            elif built_in.kind is NAMESPACE:
                self._registry.get(NAMESPACE, "", name)
            else:
                await self._revise(built_in)
        except StatusError as error:
            if not is_not_found(error):
                raise
            if built_in is not None:
                await self._create(built_in)

    async def _create(self, built_in: BuiltIn) -> None:
        kind = built_in.kind
        manager = NAMESPACE_MANAGER if kind is NAMESPACE else FLOW_CONTROL_MANAGER
        obj = copy.deepcopy(built_in.obj)
        await self._registry.create(kind, "", obj, WriteOptions(manager))

    async def _revise(self, built_in: BuiltIn) -> None:
        kind, name = built_in.kind, built_in.name
        new = revised(built_in, self._registry.get(kind, "", name))
        if new is not None:
            # The object is unchanged, since nothing was awaited.
            options = WriteOptions(FLOW_CONTROL_MANAGER)
            await self._registry.update(kind, "", name, lambda _: new, options)

    async def _remove_former(self, plural: str, name: str) -> None:
        """Remove an object whose annotation says that it was once built in."""
        kind = next(kind for kind in self.kinds if kind.plural == plural)
        entry = self._registry.store.head(kind.collection, "", name)
        if entry is None:
            return
        metadata = entry_metadata(entry)
        annotation = metadata.get("annotations", {}).get(AUTO_UPDATE, "")
        if BOOLEANS.get(annotation) and "deletionTimestamp" not in metadata:
            options = DeleteOptions(uid=metadata["uid"], manager=FLOW_CONTROL_MANAGER)
            await self._registry.delete(kind, "", name, options)
