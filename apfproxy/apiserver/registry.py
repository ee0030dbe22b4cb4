"""Operations on stored objects, by kind: what handlers, controllers and seeds call.

A decision (is it there, is it valid, is it still as the client believes) and the hand-over of its
result to the store are one synchronous step, so that nothing changes in between; what is awaited is
that the store has it for good.

Source: apiserver's `registry/generic/registry/store.go`, `registry/rest/{create,update,delete}.go`.
"""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from apfproxy.api.kind import no_grace
from apfproxy.api.metadata import carry_over, drop_repeated_owners
from apfproxy.api.names import SUFFIX_LENGTH, generated_name
from apfproxy.api.ownership.applied import AppliedTypeError
from apfproxy.api.ownership.managed import (
    AppliedObjectError,
    apply,
    keep_times,
    update_managed,
)
from apfproxy.api.schema.reading import MismatchError, canonical, read
from apfproxy.api.times import parse_time, rfc3339
from apfproxy.apiserver.errors import (
    StatusError,
    already_exists,
    bad_request,
    forbidden,
    invalid,
    no_name_left,
    not_found,
    unknown_error,
)
from apfproxy.apiserver.identity import (
    check_identity,
    check_no_uid,
    check_preconditions,
    check_uid,
    check_unchanged,
    is_version,
    place,
)
from apfproxy.apiserver.store.entries import ObjectTooLargeError

if TYPE_CHECKING:
    import random
    from asyncio import Future
    from collections.abc import Callable, Iterable

    from apfproxy.api.kind import Kind, Object, Version
    from apfproxy.apiserver.store.entries import Entry
    from apfproxy.apiserver.store.store import Store

NAMESPACES = "namespaces"
SUFFIX_CHARACTERS = "bcdfghjklmnpqrstvwxz2456789"
"""Of generated names: without vowels and look-alikes, as Kubernetes has it."""
NAME_ATTEMPTS = 8
"""Generated names that are tried before a collision is answered with 409: Kubernetes' number."""

STATUS = "status"
FINALIZE = "finalize"
ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Who writes, and how.

    Attributes:
        manager: Field manager, as `managedFields` names it.
        is_dry_run: Whether to answer as if, and store nothing.
    """

    manager: str
    is_dry_run: bool = False


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """How to delete.

    Attributes:
        is_dry_run: Whether to answer as if, and delete nothing.
        grace_period_s: Seconds that the object gets to end; None for the kind's default.
        uid: The object must have it; None for any.
        resource_version: The object must have it; None for any.
        propagation: `Background`, `Foreground`, `Orphan`, or "" for the kind's default.
        manager: Field manager.
        is_cascading: Whether the client said so in the old way, `orphanDependents: false`.
    """

    is_dry_run: bool = False
    grace_period_s: int | None = None
    uid: str | None = None
    resource_version: str | None = None
    propagation: str = ""
    manager: str = "unknown"
    is_cascading: bool = False


@dataclass(frozen=True, slots=True)
class Written:
    """What a write came to.

    Attributes:
        obj: The object as stored, in the storage version, with `kind` and `apiVersion`.
        is_created: Whether it was not there before.
        is_gone: Whether it is there no more.
        warnings: For the client.
    """

    obj: Object
    is_created: bool = False
    is_gone: bool = False
    warnings: tuple[str, ...] = ()


class Registry:
    """All objects of some kinds in one store.

    Args:
        kinds: That are served.
        store: Keeps them.
        clock: Seconds since 1970.
        chance: Makes uids and the suffixes of generated names.
    """

    def __init__(
        self,
        kinds: Iterable[Kind],
        store: Store,
        clock: Callable[[], float],
        chance: random.Random,
    ) -> None:
        self.kinds = tuple(kinds)
        self.store = store
        self.clock = clock
        self._chance = chance
        self._has_namespaces = any(kind.resource == NAMESPACES for kind in self.kinds)

    def __repr__(self) -> str:
        return f"<Registry of {len(self.kinds)} kinds at {self.store.resource_version}>"

    def get(self, kind: Kind, namespace: str, name: str) -> Object:
        """The newest state of an object, in the storage version.

        Raises:
            StatusError: 404.
        """
        return decoded(kind, self._entry(kind, namespace, name))

    def objects(self, kind: Kind, namespace: str | None = None) -> list[Object]:
        """All objects of a kind, or of a namespace, in the storage version."""
        entries = self.store.collection(kind.resource).snapshot(namespace)
        return [decoded(kind, entry) for entry in entries]

    async def create(
        self, kind: Kind, version: Version, namespace: str, obj: Object, options: WriteOptions
    ) -> Written:
        """Add an object.

        Args:
            kind: Its kind.
            version: That `obj` has the form of.
            namespace: From the request; "" for a kind without.
            obj: Canonical, with defaults; is changed.
            options: Who and how.

        Raises:
            StatusError: It may not be added.
        """
        warnings = drop_repeated_owners(obj["metadata"])
        self._own(kind, version, None, obj, options)
        return await self._create(kind, version, namespace, obj, options, warnings)

    async def update(
        self,
        kind: Kind,
        version: Version,
        namespace: str,
        name: str,
        change: Callable[[Object], Object],
        options: WriteOptions,
        *,
        subresource: str = "",
        uid: str = "",
    ) -> Written:
        """Replace an object by what becomes of it.

        Args:
            kind: Its kind.
            version: In whose form `change` sees and returns it.
            namespace: Of the object; "" for a kind without.
            name: Of the object.
            change: Gets the object, may change it, and returns the new one, canonical and with
                defaults.
            options: Who and how.
            subresource: `status`, `finalize` or "".
            uid: The object must have it; "" for any.

        Raises:
            StatusError: It is not there, not the one that is meant, or may not become that.
        """
        check_uid(kind, self.store.head(kind.resource, namespace, name), name, uid)
        entry = self._entry(kind, namespace, name)
        live = in_version(kind, version, entry)
        new = change(in_version(kind, version, entry))
        set_type(new, kind, version)
        warnings = drop_repeated_owners(new["metadata"])
        self._own(kind, version, live, new, options, subresource)
        return await self._replace(kind, version, entry, new, options, subresource, warnings)

    async def apply(
        self,
        kind: Kind,
        version: Version,
        namespace: str,
        name: str,
        patch: Object,
        options: WriteOptions,
        *,
        force: bool,
        subresource: str = "",
    ) -> Written:
        """Make an object have the fields of an applied configuration; create it if need be.

        Args:
            kind: Its kind.
            version: That `patch` has the form of.
            namespace: Of the object; "" for a kind without.
            name: Of the object.
            patch: The fields that `options.manager` wants to own, as decoded JSON.
            options: Who and how.
            force: Whether to take fields from other managers.
            subresource: As for `update`.

        Raises:
            StatusError: It may not become that.
            OwnershipConflicts: Other managers own fields with other values.
        """
        entry = self.store.head(kind.resource, namespace, name)
        live = in_version(kind, version, entry) if entry else None
        if entry is None:
            if subresource:
                raise not_found(kind.group, kind.plural, name)
            check_no_uid(kind, name, patch)
        set_type(patch, kind, version)
        try:
            merged = apply(
                live,
                patch,
                version.schema,
                manager=options.manager,
                api_version=kind.api_version(version.name),
                subresource=subresource,
                time=rfc3339(self.clock()),
                reset=reset_fields(kind, subresource),
                force=force,
            )
            new = read(version.schema, merged).obj
        except AppliedObjectError as error:
            raise bad_request(str(error)) from error
        except AppliedTypeError as error:
            raise unknown_error(error.message) from error
        except MismatchError as error:
            raise unknown_error(str(error)) from error
        check_identity(new, namespace, name)
        version.set_defaults(new)
        new = canonical(version.schema, new)
        warnings = drop_repeated_owners(new["metadata"])
        if entry is None:
            return await self._create(kind, version, namespace, new, options, warnings)
        return await self._replace(kind, version, entry, new, options, subresource, warnings)

    async def delete(
        self, kind: Kind, namespace: str, name: str, options: DeleteOptions
    ) -> Written:
        """Delete an object, at once or as soon as nothing holds it.

        Raises:
            StatusError: It is not there, not the one that is meant, or may not be deleted.
        """
        entry = self._entry(kind, namespace, name)
        obj = decoded(kind, entry)
        if objection := kind.rules.objection(obj):
            raise forbidden(kind.group, kind.plural, name, objection)
        check_preconditions(kind, entry, options.uid, options.resource_version)
        is_graceful = self._give_grace(kind, obj, options)
        if is_graceful is None:
            return Written(obj)
        metadata = obj["metadata"]
        set_propagation(metadata, options.propagation)
        is_held = kind.rules.is_held(obj)
        is_gone = not is_held and not (is_graceful and metadata["deletionGracePeriodSeconds"])
        if not is_graceful and is_held:
            self._mark_held(kind, obj)
        elif not is_graceful:
            obj = decoded(kind, entry)
        if options.is_dry_run:
            return Written(obj, is_gone=is_gone)
        stored = None
        if obj != decoded(kind, entry):
            # One that gets time to end is seen to be deleted even if that time is none at all.
            stored = self._put(kind, obj)
        if is_gone:
            stored = self._delete(kind, obj)
        if stored is not None:
            await asyncio.shield(stored)
        return Written(obj, is_gone=is_gone)

    def _entry(self, kind: Kind, namespace: str, name: str) -> Entry:
        entry = self.store.head(kind.resource, namespace, name)
        if entry is None:
            raise not_found(kind.group, kind.plural, name)
        return entry

    def _own(
        self,
        kind: Kind,
        version: Version,
        live: Object | None,
        new: Object,
        options: WriteOptions,
        subresource: str = "",
    ) -> None:
        update_managed(
            live,
            new,
            version.schema,
            manager=options.manager,
            api_version=kind.api_version(version.name),
            subresource=subresource,
            time=rfc3339(self.clock()),
            reset=reset_fields(kind, subresource),
        )

    async def _create(
        self,
        kind: Kind,
        version: Version,
        namespace: str,
        obj: Object,
        options: WriteOptions,
        warnings: list[str],
    ) -> Written:
        """Add an object whose fields are owned."""
        obj = version.to_storage(obj)
        set_type(obj, kind, kind.storage)
        metadata = obj["metadata"]
        place(metadata, namespace)
        if self._has_namespaces and kind.is_namespaced:
            self._check_namespace(kind, metadata)
        if objection := kind.rules.admit_create(obj):
            # Names are generated after admission.
            name = metadata.get("name") or metadata.get("generateName") or "Unknown"
            raise forbidden(kind.group, kind.plural, name, objection)
        for field in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
            metadata.pop(field, None)
        metadata["uid"] = str(uuid.UUID(int=self._chance.getrandbits(128), version=4))
        metadata["creationTimestamp"] = rfc3339(self.clock())
        prefix = "" if metadata.get("name") else metadata.get("generateName", "")
        if prefix:
            metadata["name"] = self._new_name(kind, namespace, prefix)
        kind.rules.stamp(obj, metadata["creationTimestamp"])
        kind.rules.prepare_create(obj)
        name = metadata.get("name", "")
        if errors := kind.rules.validate(obj):
            raise invalid(kind.group, kind.name, name, errors)
        warnings += kind.rules.warnings(obj, None)
        is_taken = self.store.head(kind.resource, namespace, name) is not None
        if not options.is_dry_run and is_version(metadata.get("resourceVersion", "")):
            raise unknown_error("resourceVersion should not be set on objects to be created")
        if is_taken and metadata.get("generateName"):
            raise no_name_left(kind.group, kind.plural, name)
        if is_taken:
            raise already_exists(kind.group, kind.plural, name)
        if not options.is_dry_run:
            await asyncio.shield(self._put(kind, obj))
        return Written(obj, is_created=True, warnings=tuple(warnings))

    async def _replace(
        self,
        kind: Kind,
        version: Version,
        entry: Entry,
        new: Object,
        options: WriteOptions,
        subresource: str,
        warnings: list[str],
    ) -> Written:
        """Put an object whose fields are owned in place of the entry."""
        rules = kind.rules
        new = version.to_storage(new)
        set_type(new, kind, kind.storage)
        old = decoded(kind, entry)
        metadata = new["metadata"]
        check_identity(new, entry.namespace, entry.name)
        place(metadata, entry.namespace)
        check_unchanged(kind, entry, metadata)
        metadata["resourceVersion"] = old["metadata"]["resourceVersion"]
        carry_over(metadata, old["metadata"])
        validate = rules.validate_update
        if subresource == STATUS:
            rules.prepare_status(new, old)
            validate = rules.validate_status
        elif subresource == FINALIZE:
            assert rules.prepare_finalize is not None, "only kinds that have it get here"
            rules.prepare_finalize(new, old)
        else:
            rules.stamp(new, rfc3339(self.clock()))
            rules.prepare_update(new, old)
        keep_times(new, old)
        if errors := validate(new, old):
            raise invalid(kind.group, kind.name, entry.name, errors)
        if not subresource:
            warnings += rules.warnings(new, old)
        metadata = old["metadata"]
        is_gone = (
            "deletionTimestamp" in metadata
            and not metadata.get("deletionGracePeriodSeconds")
            and not rules.is_held(new)
        )
        if not options.is_dry_run:
            if is_gone:
                # What nothing holds any more is never stored: watchers see what was there last.
                await asyncio.shield(self._delete(kind, old))
            elif new != old:
                await asyncio.shield(self._put(kind, new))
        return Written(new, is_gone=is_gone, warnings=tuple(warnings))

    def _check_namespace(self, kind: Kind, metadata: Object) -> None:
        """Refuse new objects where no namespace is, or one that is about to end."""
        namespace = metadata.get("namespace", "")
        entry = self.store.head(NAMESPACES, "", namespace)
        if entry is None:
            raise not_found("", NAMESPACES, namespace)
        if "deletionTimestamp" in entry_metadata(entry):
            name = metadata.get("name", "")
            error = forbidden(
                kind.group,
                kind.plural,
                name,
                f"unable to create new content in namespace {namespace}"
                " because it is being terminated",
            )
            message = f"namespace {namespace} is being terminated"
            cause = {
                "reason": "NamespaceTerminating",
                "message": message,
                "field": "metadata.namespace",
            }
            raise StatusError(
                error.code,
                error.reason,
                error.message,
                {**(error.details or {}), "causes": [cause]},
            )

    def _new_name(self, kind: Kind, namespace: str, prefix: str) -> str:
        """A name with this prefix that is not taken, if one is found."""
        for _ in range(NAME_ATTEMPTS):
            suffix = "".join(self._chance.choices(SUFFIX_CHARACTERS, k=SUFFIX_LENGTH))
            name = generated_name(prefix, suffix)
            if self.store.head(kind.resource, namespace, name) is None:
                break
        return name

    def _give_grace(self, kind: Kind, obj: Object, options: DeleteOptions) -> bool | None:
        """Change an object whose kind gets time to end to one that is ending, or sooner so.

        Returns:
            Whether that is so; None if the deletion began before and nothing more is to be done.
        """
        rules, metadata = kind.rules, obj["metadata"]
        is_ending = "deletionTimestamp" in metadata
        if rules.grace_s is no_grace:
            is_for_its_finalizer = rules.prepare_finalize is not None and rules.is_held(obj)
            return None if is_ending and is_for_its_finalizer else False
        if not is_ending:
            grace_s = rules.grace_s(obj, options.grace_period_s)
            metadata["deletionTimestamp"] = rfc3339(self.clock() + grace_s)
            metadata["deletionGracePeriodSeconds"] = grace_s
            self._begin_to_end(kind, obj)
            return True
        current_s = metadata.get("deletionGracePeriodSeconds", 0)
        if current_s == 0:
            return False
        if options.grace_period_s is None or options.grace_period_s >= current_s:
            return None
        began = parse_time(metadata["deletionTimestamp"]) - current_s
        metadata["deletionTimestamp"] = rfc3339(began + options.grace_period_s)
        metadata["deletionGracePeriodSeconds"] = options.grace_period_s
        return True

    def _mark_held(self, kind: Kind, obj: Object) -> None:
        """Change an object that something holds to one that is to go as soon as nothing does."""
        metadata, now = obj["metadata"], self.clock()
        is_ending = "deletionTimestamp" in metadata
        if not is_ending or parse_time(metadata["deletionTimestamp"]) > now:
            metadata["deletionTimestamp"] = rfc3339(now)
        metadata["deletionGracePeriodSeconds"] = 0
        if not is_ending:
            self._begin_to_end(kind, obj)

    def _begin_to_end(self, kind: Kind, obj: Object) -> None:
        """Change what else changes in an object when its deletion begins."""
        metadata = obj["metadata"]
        if metadata.get("generation"):
            metadata["generation"] += 1
        kind.rules.mark_deleted(obj)

    def _put(self, kind: Kind, obj: Object) -> Future[Entry]:
        metadata = obj["metadata"]
        try:
            return self.store.put(
                kind.resource,
                metadata.get("namespace", ""),
                metadata["name"],
                obj,
                labels=metadata.get("labels") or {},
                fields=selectable(kind, obj),
                uid=metadata["uid"],
            )
        except ObjectTooLargeError as error:
            # As Kubernetes hands on what etcd says; clients look for these words.
            raise unknown_error("etcdserver: request is too large") from error

    def _delete(self, kind: Kind, obj: Object) -> Future[Entry]:
        metadata = obj["metadata"]
        return self.store.delete(
            kind.resource,
            metadata.get("namespace", ""),
            metadata["name"],
            obj,
            labels=metadata.get("labels") or {},
            fields=selectable(kind, obj),
            uid=metadata["uid"],
        )


def decoded(kind: Kind, entry: Entry) -> Object:
    """The object of an entry, in the storage version; a copy of its own for each caller."""
    obj: Object = {
        "kind": kind.name,
        "apiVersion": kind.api_version(kind.storage.name),
        **msgspec.json.decode(entry.data),
    }
    return obj


def completed(kind: Kind, raw: Object) -> Object:
    """The object that a client would send, in canonical form of the storage version, with defaults.

    Args:
        kind: Of the object.
        raw: Of the right types.
    """
    version = kind.storage
    obj = canonical(version.schema, raw)
    version.set_defaults(obj)
    return canonical(version.schema, obj)


def in_version(kind: Kind, version: Version, entry: Entry) -> Object:
    """The object of an entry, in a version's form."""
    obj = version.from_storage(decoded(kind, entry))
    set_type(obj, kind, version)
    return obj


def entry_metadata(entry: Entry) -> dict[str, Any]:
    """The metadata of an entry's object."""
    metadata: dict[str, Any] = msgspec.json.decode(entry.data)["metadata"]
    return metadata


def selectable(kind: Kind, obj: Object) -> dict[str, str]:
    """The values of the fields that field selectors may name."""
    metadata = obj["metadata"]
    return {
        "metadata.name": metadata["name"],
        "metadata.namespace": metadata.get("namespace", ""),
        **kind.selectable(obj),
    }


def set_type(obj: Object, kind: Kind, version: Version) -> None:
    """Give the object the kind and version that it has the form of."""
    obj["kind"] = kind.name
    obj["apiVersion"] = kind.api_version(version.name)


def reset_fields(kind: Kind, subresource: str) -> tuple[tuple[str, ...], ...]:
    """What a write to the subresource, or to the object itself, does not own."""
    return kind.rules.reset_status_fields if subresource == STATUS else kind.rules.reset_fields


def set_propagation(metadata: Object, propagation: str) -> None:
    """Hold the object until its dependents are dealt with as the client wants it."""
    if not propagation:
        return
    finalizers = [
        each for each in metadata.get("finalizers", ()) if each not in {ORPHAN, FOREGROUND}
    ]
    if propagation == "Orphan":
        finalizers.append(ORPHAN)
    elif propagation == "Foreground":
        finalizers.append(FOREGROUND)
    if finalizers:
        metadata["finalizers"] = finalizers
    else:
        metadata.pop("finalizers", None)
