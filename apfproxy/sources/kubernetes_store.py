"""A record in a ConfigMap, which several clusters' records share.

Each has two entries: the data, and the version, which the writer draws.  A write names the resource
version that it has seen of the whole ConfigMap.  If that has changed and the record's version has
not, another record was written, and the write is tried again.
"""

from __future__ import annotations

import secrets
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple

from apfproxy.fleet.record import MAX_RECORD_BYTES
from apfproxy.fleet.store import Stored, StoreError, Swapped
from apfproxy.sources.kubernetes_api import (
    KubernetesApiError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.sources.kubernetes_api import Json, KubernetesApi

VERSION_BYTES = 12
MAX_TRIES = 8  # of a write, while others write other records
LABELS = {"app.kubernetes.io/managed-by": "apfproxy"}
UNREADABLE = "has something else than a record: delete it"


class Seen(NamedTuple):
    """A record in a ConfigMap, and the version of the whole; "" if there is no ConfigMap."""

    stored: Stored
    resource_version: str


class KubernetesStore:
    """One record in a ConfigMap, which is created if it is not there."""

    def __init__(self, api: KubernetesApi, namespace: str, name: str, key: str) -> None:
        self._api = api
        self._what = f"the ConfigMap {namespace}/{name}"
        self._name = name
        self._folder = f"/api/v1/namespaces/{namespace}/configmaps"
        self._path = f"{self._folder}/{name}"
        # Names of fleets and clusters have no underscore.
        self._data = key.replace("/", "_")
        self._version = f"{self._data}_version"
        self._seen: Seen | None = None

    async def read(self) -> Stored:
        return (await self._read()).stored

    async def swap(self, data: bytes, seen: Stored, *, is_urgent: bool = False) -> Swapped:  # noqa: ARG002 - no member listens
        """Write if no member has since `seen`; StoreError, after which it may be written or not."""
        if len(data) > MAX_RECORD_BYTES:
            raise StoreError(f"the record has {len(data)} bytes, more than {MAX_RECORD_BYTES}")
        try:
            text = data.decode()
        except UnicodeDecodeError:
            raise StoreError("a ConfigMap has texts only, and the record is none") from None
        version = secrets.token_hex(VERSION_BYTES)
        there = self._seen
        for _ in range(MAX_TRIES):
            if there is None or there.stored.version != seen.version:
                there = await self._read()
            if there.stored.version != seen.version:
                return Swapped(is_done=False, stored=there.stored)
            written = await self._write({self._data: text, self._version: version}, there)
            if written is not None:
                self._seen = Seen(Stored(data, version), written)
                return Swapped(is_done=True, stored=self._seen.stored)
            there = None
        raise StoreError(f"{self._what} was changed by others {MAX_TRIES} times in between")

    def listen(self, on_urgent: Callable[[], None]) -> None:
        """Do nothing: no member is told, and all look once a period."""

    async def close(self) -> None:
        await self._api.close()

    async def _read(self) -> Seen:
        self._seen = None
        try:
            found = await self._api.get(self._path, {})
        except KubernetesApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise self._failed(error) from None
            self._seen = Seen(Stored(None, ""), "")
            return self._seen
        self._seen = Seen(self._stored(found), self._resource_version(found))
        return self._seen

    async def _write(self, entries: dict[str, str], there: Seen) -> str | None:
        """The resource version after a write; None if another client wrote in between."""
        self._seen = None
        metadata: Json = {}
        try:
            if there.resource_version:
                metadata["resourceVersion"] = there.resource_version
                changes = {"metadata": metadata, "data": entries}
                return self._resource_version(await self._api.merge(self._path, changes))
            metadata |= {"name": self._name, "labels": LABELS}
            whole = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
            return self._resource_version(
                await self._api.create(self._folder, whole | {"data": entries})
            )
        except KubernetesApiError as error:
            # Not found: it was deleted, so it is created next.
            if error.status == HTTPStatus.CONFLICT or (
                error.status == HTTPStatus.NOT_FOUND and there.resource_version
            ):
                return None
            raise self._failed(error) from None

    def _failed(self, error: KubernetesApiError) -> StoreError:
        advice = ""
        if error.status == HTTPStatus.FORBIDDEN:
            advice = "; config/kubernetes/rbac/fleet.yaml has the rights that are needed"
        return StoreError(
            f"{self._what}: the Kubernetes API: {error}{advice}", pause_s=error.retry_after_s
        )

    def _stored(self, found: Json) -> Stored:
        entries: Any = found.get("data") or {}
        data, version = (
            entries.get(key) if isinstance(entries, dict) else 0
            for key in (self._data, self._version)
        )
        if data is None and version is None:
            return Stored(None, "")
        if not isinstance(data, str) or not isinstance(version, str) or not version:
            raise StoreError(f"{self._what}: {self._data} {UNREADABLE}")
        try:
            return Stored(data.encode(), version)
        except UnicodeEncodeError:
            raise StoreError(f"{self._what}: {self._data} {UNREADABLE}") from None

    def _resource_version(self, found: Json) -> str:
        metadata: Any = found.get("metadata")
        version: Any = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
        if not isinstance(version, str) or not version:
            raise StoreError(f"{self._what}: the response has no resource version")
        return version
