"""Answers requests for resources: decodes them, carries them out, and writes the results.

Source: Kubernetes API reference; apiserver's `endpoints/handlers`.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from aiohttp import web

from apfproxy.apiserver import options as parameters
from apfproxy.apiserver.bodies import (
    LARGEST_BYTES,
    OPTIONS_KIND,
    Expected,
    any_version,
    check_media_type,
    check_number,
    decode,
    expected_of,
    media_type,
    parse,
    too_large,
    versions,
)
from apfproxy.apiserver.errors import (
    bad_request,
    method_not_allowed,
    not_found,
    object_details,
    success,
    unknown_error,
)
from apfproxy.apiserver.go_values import printed
from apfproxy.apiserver.lists import Selection, page, wait_until_visible
from apfproxy.apiserver.outcomes import check_identity, compute, is_version, place
from apfproxy.apiserver.patches import (
    APPLY_PATCH,
    PATCH_TYPES,
    Patch,
    applied,
    unsupported_patch_type,
)
from apfproxy.apiserver.paths import EVICTION, SCALE
from apfproxy.apiserver.policy.eviction import evict
from apfproxy.apiserver.policy.kinds import EVICTIONS
from apfproxy.apiserver.registry import WriteOptions, selectable
from apfproxy.apiserver.rendering import Renderer
from apfproxy.apiserver.responses import (
    ALL_SHAPES,
    AVAILABLE,
    STREAMED,
    STREAMED_BYTES,
    STREAMED_ITEMS,
    WITHOUT_TABLE,
    Form,
    check_route,
    chosen,
    document,
    encode,
    headers_for,
    indented_list,
    respond_in_parts,
    stream,
    wants_indented,
    warn,
    yaml_list,
)
from apfproxy.apiserver.scale import SCALE_KIND, scale_of, scaled
from apfproxy.apiserver.schema.shared_structs import DELETE_OPTIONS
from apfproxy.apiserver.store.entries import Entry, entry_of
from apfproxy.apiserver.watches import METER, Watch
from apfproxy.request.attributes import parse_query

if TYPE_CHECKING:
    import random

    from apfproxy.apiserver.kind import Kind, Version
    from apfproxy.apiserver.lists import Page
    from apfproxy.apiserver.options import ListOptions, WriteParameters
    from apfproxy.apiserver.paths import Target
    from apfproxy.apiserver.registry import DeleteOptions, Registry, Written
    from apfproxy.apiserver.schema.body import Parsed
    from apfproxy.apiserver.schema.protobuf import SchemaFor
    from apfproxy.objects.types import Object

DELETED_AT_ONCE = 32
"""Objects of a collection deleted before other tasks run; takes some milliseconds."""


class Call:
    """One request for a resource; `chance` draws how long a watch lasts."""

    def __init__(
        self, registry: Registry, request: web.Request, target: Target, chance: random.Random
    ) -> None:
        self._registry = registry
        self._store = registry.store
        self._request = request
        self._target = target
        self._kind = target.kind
        self._version = target.version
        self._query = parse_query(request.rel_url.raw_query_string.encode())
        self._accept = request.headers.get("Accept", "")
        self._content_type = request.headers.get("Content-Type", "")
        self._user_agent = request.headers.get("User-Agent", "")
        self._pretty = parameters.pretty(self._query)
        self._chance = chance
        self._collection = registry.store.collection(target.kind.collection)

    async def answer(self) -> web.StreamResponse:
        """Answer it, or raise a StatusError."""
        target, method = self._target, self._request.method
        if method not in target.methods:
            raise method_not_allowed()
        if method == "PATCH" and media_type(self._content_type) not in PATCH_TYPES:
            raise unsupported_patch_type()
        is_watchable = method == "GET" and (target.is_watch or not target.name)
        check_route(self._accept, STREAMED if is_watchable else AVAILABLE)
        if target.version.deprecation:
            warn([target.version.deprecation])
        if target.subresource == EVICTION:
            return await self._evict()
        if target.subresource == SCALE:
            return await self._scale()
        if method == "GET":
            is_one = target.name and not target.is_watch
            return await (self._get() if is_one else self._list_or_watch())
        if method == "POST":
            return await self._create()
        if method == "PUT":
            return await self._replace()
        if method == "PATCH":
            return await self._patch()
        return await (self._delete() if target.name else self._delete_collection())

    async def _get(self) -> web.StreamResponse:
        """Read one object."""
        form = self._form()
        await wait_until_visible(self._store, parameters.asked_version(self._query))
        target, kind = self._target, self._kind
        entry = self._collection.get(target.namespace, target.name)
        if entry is None:
            raise not_found(kind.group, kind.plural, target.name)
        return await self._document(form, self._renderer(form).document(entry))

    async def _list_or_watch(self) -> web.StreamResponse:
        """Read a collection, or follow it."""
        target = self._target
        is_watch = target.is_watch or parameters.is_watch(self._query)
        form = self._form()
        options = parameters.list_options(
            self._query, self._kind, is_watch=is_watch, served=self._version.name
        )
        selection = self._selection(options)
        if is_watch:
            return await self._watch(options, selection)
        found = await page(self._store, self._collection, selection, options)
        return await self._listed(form, found)

    async def _create(self) -> web.StreamResponse:
        """Add an object."""
        form = self._form()
        check_media_type(self._content_type)
        data = await self._body()
        options = parameters.write_parameters(self._query, self._user_agent, "CreateOptions")
        obj = await self._sent(data, options.field_validation)
        write = self._write_options(options, data)
        written = await self._registry.create(self._kind, self._target.namespace, obj, write)
        return await self._written(form, written)

    async def _replace(self) -> web.StreamResponse:
        """Put a whole object in place of what is there."""
        form = self._form()
        data = await self._body()
        options = parameters.write_parameters(self._query, self._user_agent, "UpdateOptions")
        obj = await self._sent(data, options.field_validation)
        target = self._target
        check_identity(obj, target.namespace, target.name)
        uid = obj["metadata"].get("uid", "")
        if self._is_creation():
            write = self._write_options(options, data)
            written = await self._registry.create(self._kind, target.namespace, obj, write)
            return await self._written(form, written)
        attempts = chain((obj,), iter(lambda: self._decoded(data, options.field_validation), None))
        write = self._write_options(options, data)
        written = await self._registry.update(
            self._kind, target.namespace, target.name, lambda _: next(attempts), write, uid=uid
        )
        return await self._written(form, written)

    def _is_creation(self) -> bool:
        """Whether a replacement is to create the object, since there is none."""
        kind, target = self._kind, self._target
        if not kind.rules.is_created_by_update or target.subresource:
            return False
        return self._store.head(kind.collection, target.namespace, target.name) is None

    async def _patch(self) -> web.StreamResponse:
        """Change parts of an object."""
        patch_type = media_type(self._content_type)
        form = self._form()
        data = await self._body()
        options = parameters.patch_options(
            self._query, self._user_agent, is_apply=patch_type == APPLY_PATCH
        )
        kind, version, target = self._kind, self._version, self._target
        write = self._write_options(options, data)
        if patch_type == APPLY_PATCH:
            read_configuration = partial(applied, kind, version, data, options.field_validation)
            configuration, warnings = await compute(len(data), read_configuration)
            warn(warnings)
            written = await self._registry.apply(
                kind, target.namespace, target.name, configuration, write, force=options.force
            )
            return await self._written(form, written)
        if self._store.head(kind.collection, target.namespace, target.name) is None:
            raise not_found(kind.group, kind.plural, target.name)
        read_patch = partial(Patch, kind, version, patch_type, data, options.field_validation)
        patch = await compute(len(data), read_patch)

        def patched(live: Object) -> Object:
            new = patch.change(live)
            warn(patch.warnings)
            return new

        written = await self._registry.update(kind, target.namespace, target.name, patched, write)
        return await self._written(form, written)

    async def _delete(self) -> web.StreamResponse:
        """Delete one object."""
        form = self._form()
        options = await self._delete_options()
        target, kind = self._target, self._kind
        written = await self._registry.delete(kind, target.namespace, target.name, options)
        if not written.is_gone or kind.answers_deleted:
            status = 202 if options.is_cascading and not written.is_gone else 200
            return await self._written(form, written, status=status)
        details = object_details(kind.group, kind.plural, target.name)
        details["uid"] = written.obj["metadata"]["uid"]
        return await self._document(form, encode(success(details=details)))

    async def _delete_collection(self) -> web.StreamResponse:
        """Delete all objects that are selected."""
        form = self._form()
        options = await self._delete_options()
        selected = parameters.list_options(
            self._query, self._kind, is_watch=False, served=self._version.name
        )
        found = await page(self._store, self._collection, self._selection(selected), selected)
        kind = self._kind
        for index, entry in enumerate(found.entries):
            if index % DELETED_AT_ONCE == 0:
                await asyncio.sleep(0)  # a store in memory never waits, so let other tasks run
            # Another client may have deleted it meanwhile.
            if self._store.head(kind.collection, entry.namespace, entry.name) is not None:
                await self._registry.delete(kind, entry.namespace, entry.name, options)
        # The objects as they were found, not as they ended.
        return await self._listed(form, found)

    async def _evict(self) -> web.StreamResponse:
        """Delete a pod if the budgets of its namespace allow it."""
        form = self._form(has_table=False)
        check_media_type(self._content_type)
        data = await self._body()
        options = parameters.write_parameters(self._query, self._user_agent, "CreateOptions")
        parsed = await self._parsed(data, "Eviction", versions("Eviction", EVICTIONS))
        api_version = parsed.raw.get("apiVersion") if isinstance(parsed.raw, dict) else None
        if api_version not in EVICTIONS:
            api_version = "policy/v1"
        expected = Expected("Eviction", api_version, EVICTIONS[api_version])
        read_eviction = partial(decode, expected, parsed, options.field_validation, data)
        eviction, warnings = await compute(len(data), read_eviction)
        warn(warnings)
        target = self._target
        place(eviction["metadata"], target.namespace)
        asked, wanted = list(self._query.get("dryRun", ())), eviction.get("deleteOptions") or {}
        inner = wanted.get("dryRun")
        if asked and inner and asked != inner:
            both = f"{printed(asked)} and {printed(inner)}"
            raise unknown_error(f"Non-matching dry-run options in request and content: {both}")
        how = parameters.delete_options({}, wanted, self._user_agent)
        how = replace(how, is_dry_run=how.is_dry_run or options.is_dry_run)
        status = await evict(self._registry, target.namespace, target.name, eviction, how)
        return await self._document(form, encode(status), status=201)

    async def _scale(self) -> web.StreamResponse:
        """Read how many pods a controller wants, or change it."""
        form = self._form(has_table=False)
        target, kind = self._target, self._kind
        if self._request.method == "GET":
            obj = self._registry.get(kind, target.namespace, target.name)
            return await self._document(form, encode(scale_of(kind, obj)))
        patch_type = media_type(self._content_type)
        is_patch = self._request.method == "PATCH"
        if is_patch and patch_type == APPLY_PATCH:
            raise unsupported_patch_type()
        data = await self._body()
        if is_patch:
            options = parameters.patch_options(self._query, self._user_agent, is_apply=False)
            validation = options.field_validation
            change = Patch(SCALE_KIND, SCALE_KIND.storage, patch_type, data, validation).change
        else:
            options = parameters.write_parameters(self._query, self._user_agent, "UpdateOptions")
            sent = self._decoded_as(SCALE_KIND, SCALE_KIND.storage, data, options.field_validation)

            def change(live: Object) -> Object:  # noqa: ARG001 - as of a patch
                return sent

        write = self._write_options(options, data)
        made = scaled(kind, target.name, change)
        written = await self._registry.update(kind, target.namespace, target.name, made, write)
        return await self._document(form, encode(scale_of(kind, written.obj)))

    async def _listed(self, form: Form, found: Page) -> web.StreamResponse:
        """Answer with many objects."""
        chunks = self._renderer(form).list_chunks(found.entries, found.metadata)
        size = sum(len(entry.data) for entry in found.entries[:STREAMED_ITEMS])
        if len(found.entries) < STREAMED_ITEMS and size < STREAMED_BYTES:
            return await self._document(form, b"".join(chunks))
        if form.is_yaml:
            chunks = yaml_list(chunks)
        elif wants_indented(self._request, self._pretty):
            chunks = indented_list(chunks)
        else:
            chunks = chain(chunks, (b"\n",))
        return await stream(self._request, form, chunks)

    async def _watch(self, options: ListOptions, selection: Selection) -> web.StreamResponse:
        form = self._form(streams=True)
        watch = Watch(
            self._store,
            self._collection,
            selection,
            options,
            self._renderer(form),
            self._chance,
        )
        await watch.begin()

        async def write(response: web.StreamResponse) -> None:
            await watch.run(response.write, METER.get())

        return await respond_in_parts(self._request, headers_for(form), write)

    def _form(self, *, has_table: bool = True, streams: bool = False) -> Form:
        shapes = ALL_SHAPES if has_table else WITHOUT_TABLE
        return chosen(self._accept, shapes=shapes, streams=streams)

    def _renderer(self, form: Form) -> Renderer:
        include = self._query.get("includeObject", ("",))[0]
        return Renderer(self._kind, self._version, form, include, self._registry.clock())

    def _selection(self, options: ListOptions) -> Selection:
        """Which objects of the collection the request selects."""
        return Selection(
            self._target.namespace,
            self._target.name,
            options.label_selector,
            options.field_selector,
        )

    async def _body(self) -> bytes:
        """The request's body; StatusError 413, or 400 for one that is not encoded as it says."""
        request = self._request
        if (request.content_length or 0) > LARGEST_BYTES:
            raise too_large()
        if not request.can_read_body:
            return b""
        chunks, size = [], 0
        try:
            async for chunk in request.content.iter_any():
                size += len(chunk)
                if size > LARGEST_BYTES:
                    raise too_large()
                chunks.append(chunk)
        except web.RequestPayloadError as error:
            raise bad_request(f"the body of the request cannot be read: {error}") from error
        data = b"".join(chunks)
        check_number(data)
        return data

    async def _parsed(self, data: bytes, kind_name: str, schema_for: SchemaFor) -> Parsed:
        """The request's body, parsed."""
        return await compute(
            len(data), partial(parse, self._content_type, data, kind_name, schema_for)
        )

    async def _sent(self, data: bytes, validation: str) -> Object:
        """The object in the request's body."""
        return await compute(len(data), partial(self._decoded, data, validation))

    def _decoded(self, data: bytes, validation: str) -> Object:
        return self._decoded_as(self._kind, self._version, data, validation)

    def _decoded_as(self, kind: Kind, version: Version, data: bytes, validation: str) -> Object:
        expected = expected_of(kind, version)
        schemas = versions(expected.kind, {expected.api_version: expected.schema})
        parsed = parse(self._content_type, data, expected.kind, schemas)
        obj, warnings = decode(expected, parsed, validation, data)
        warn(warnings)
        return obj

    def _write_options(self, options: WriteParameters, data: bytes) -> WriteOptions:
        return WriteOptions(
            options.field_manager,
            options.is_dry_run,
            self._version,
            self._target.subresource,
            len(data),
            warn,
        )

    async def _delete_options(self) -> DeleteOptions:
        """The options of the deletion, from the body or the query."""
        data = await self._body()
        raw = None
        if data:
            schemas = any_version(OPTIONS_KIND, DELETE_OPTIONS)
            parsed = await self._parsed(data, OPTIONS_KIND, schemas)
            # An empty body counts as one: then the parameters are ignored.
            raw = {} if parsed.raw is None else parsed.raw
        return parameters.delete_options(self._query, raw, self._user_agent)

    async def _written(
        self, form: Form, written: Written, status: int | None = None
    ) -> web.Response:
        """Answer with the written object."""
        body = self._renderer(form).document(stored(self._kind, written.obj))
        if status is None:
            status = 201 if written.is_created else 200
        return await self._document(form, body, status=status)

    async def _document(self, form: Form, body: bytes, *, status: int = 200) -> web.Response:
        return await document(self._request, form, body, status=status, pretty=self._pretty)


def stored(kind: Kind, obj: Object) -> Entry:
    """A written object as the store keeps it; after a dry run it may have any version."""
    text = obj["metadata"].get("resourceVersion", "")
    resource_version = int(text) if is_version(text) else 0
    return entry_of(kind.collection, obj, selectable(kind, obj), resource_version)
