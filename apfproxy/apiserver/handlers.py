"""Answers requests for resources: finds what a path names, decodes, carries out, responds.

    /api/v1/...                                     the core group
    /apis/GROUP/VERSION/...                         all others
    .../RESOURCE[/NAME[/SUBRESOURCE]]               without a namespace, or in all of them
    .../namespaces/NAMESPACE/RESOURCE[/NAME[/SUBRESOURCE]]
    .../watch/...                                   any of the above, watched: deprecated

Source: Kubernetes documentation, "API Concepts"; apiserver's `endpoints/handlers`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from aiohttp import web

from apfproxy.apiserver import bodies, responses
from apfproxy.apiserver import options as parameters
from apfproxy.apiserver.apps import SCALE_KIND, scale_of, scaled
from apfproxy.apiserver.bodies import (
    APPLY_PATCH,
    PATCH_TYPES,
    Patch,
    applied,
    unsupported_patch_type,
)
from apfproxy.apiserver.discovery import subresources_of
from apfproxy.apiserver.errors import (
    bad_request,
    invalid,
    method_not_allowed,
    no_such_resource,
    not_found,
    object_details,
    success,
    unknown_error,
)
from apfproxy.apiserver.go_values import printed
from apfproxy.apiserver.lists import METER, Selection, Watch, page, wait_until_visible
from apfproxy.apiserver.outcomes import (
    LARGE_BYTES,
    Write,
    check_identity,
    check_uid,
    compute,
    decoded,
    is_version,
    place,
)
from apfproxy.apiserver.policy import EVICTIONS as EVICTION_STRUCTS
from apfproxy.apiserver.policy import evict
from apfproxy.apiserver.registry import NAMESPACES
from apfproxy.apiserver.responses import Renderer, encode, warn
from apfproxy.apiserver.reviews import user_of
from apfproxy.apiserver.schema.reading import canonical
from apfproxy.apiserver.schema.shared_structs import DELETE_OPTIONS
from apfproxy.apiserver.store.entries import TYPE_FIELDS, Entry
from apfproxy.objects.go_text import rfc3339
from apfproxy.request.attributes import parse_query

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable

    from apfproxy.apiserver.kind import Kind, Version
    from apfproxy.apiserver.lists import Page
    from apfproxy.apiserver.outcomes import WriteOptions
    from apfproxy.apiserver.registry import DeleteOptions, Registry, Written
    from apfproxy.apiserver.schema.types import Struct
    from apfproxy.objects.types import Object

DELETED_AT_ONCE = 32
"""Objects of a collection deleted before other tasks run; takes some milliseconds."""

METHODS = {"create": "POST", "get": "GET", "patch": "PATCH", "update": "PUT"}
"""Verbs of subresources to the methods that stand for them."""
OTHER_KINDS = frozenset({"eviction", "scale"})
"""Subresources with objects of a kind of their own."""
UNSERVED = frozenset(
    {"attach", "binding", "ephemeralcontainers", "exec", "log", "portforward", "proxy", "resize"}
) | {"token"}
"""Subresources that a cluster has of what is served here."""
EVICTIONS = tuple(bodies.Expected("Eviction", *each) for each in EVICTION_STRUCTS.items())


@dataclass(frozen=True, slots=True)
class Target:
    """Holds what a path names; the namespace is "" for a kind without, or for all of them."""

    kind: Kind
    version: Version
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    is_watch: bool = False

    @property
    def methods(self) -> set[str]:
        if self.is_watch:
            return {"GET"}
        if self.subresource:
            verbs = {name: verbs for name, _, verbs in subresources_of(self.kind)}
            return {METHODS[verb] for verb in verbs[self.subresource]}
        if self.name:
            return {"GET", "PUT", "PATCH", "DELETE"}
        if self.kind.review:
            return {"POST"}
        if self.kind.is_namespaced and not self.namespace:
            return {"GET"}
        return {"GET", "POST"} if self.kind.resource == NAMESPACES else {"GET", "POST", "DELETE"}


class Paths:
    def __init__(self, kinds: Iterable[Kind]) -> None:
        self._resources: dict[tuple[str, str], dict[str, tuple[Kind, Version]]] = {}
        for kind in kinds:
            for version in kind.versions:
                group_version = self._resources.setdefault((kind.group, version.name), {})
                group_version[kind.plural] = (kind, version)

    def target(self, segments: list[str]) -> Target:
        """Find the target of a path, whose decoded segments begin with `api` or `apis`.

        StatusError 404 if there is no such thing; 400 if there can be none of that name.
        """
        group, rest = ("", segments[1:]) if segments[0] == "api" else (segments[1], segments[2:])
        resources = self._resources.get((group, rest[0])) if rest else None
        if resources is None or "" in rest:
            raise no_such_resource()
        is_watch = rest[1:2] == ["watch"]
        namespace, rest = "", rest[2:] if is_watch else rest[1:]
        if rest[:1] == [NAMESPACES] and rest[2:] and rest[2] not in {"status", "finalize"}:
            namespace, rest = rest[1], rest[2:]
        plural, name, subresource, *more = [*rest, "", "", ""]
        if plural not in resources or any(more):
            raise no_such_resource()
        kind, version = resources[plural]
        is_elsewhere = bool(namespace) != kind.is_namespaced
        if (is_elsewhere and (namespace or name or kind.review)) or (
            kind.review and (name or is_watch)
        ):
            raise no_such_resource()
        known = {each for each, _, _ in subresources_of(kind)} if subresource else {""}
        if subresource not in known or (subresource and is_watch):
            is_real = subresource in UNSERVED
            raise no_such_resource(f": {plural}/{subresource} is not served here" * is_real)
        if name in {".", ".."} or "%" in name:
            wrong = "may not contain '%'" if "%" in name else f"may not be '{name}'"
            raise bad_request(f'Name parameter invalid: "{name}": {wrong}')
        return Target(kind, version, namespace, name, subresource, is_watch)


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
        self._pretty = parameters.pretty(self._query)
        self._chance = chance
        self._form = responses.AS_JSON  # until the Accept field is judged
        self._is_scale = target.subresource == "scale"
        own = target.kind, target.version
        self._shown = (SCALE_KIND, SCALE_KIND.storage) if self._is_scale else own

    async def answer(self) -> web.StreamResponse:
        target, method = self._target, self._request.method
        if method not in target.methods:
            raise method_not_allowed()
        if method == "PATCH":
            patch_type = bodies.media_type(self._content_type)
            if patch_type not in PATCH_TYPES or (patch_type == APPLY_PATCH and self._is_scale):
                raise unsupported_patch_type()
        is_list = method == "GET" and (target.is_watch or not target.name)
        responses.check_route(self._accept, responses.STREAMED if is_list else responses.AVAILABLE)
        if target.version.deprecation:
            warn([target.version.deprecation])
        has_table = target.kind.review is None and target.subresource not in OTHER_KINDS
        self._form = responses.chosen(
            self._accept, shapes=responses.ALL_SHAPES if has_table else responses.WITHOUT_TABLE
        )
        handlers = {
            "GET": self._list_or_watch if is_list else self._get,
            "POST": self._create,
            "PUT": self._replace,
            "PATCH": self._patch,
            "DELETE": self._delete if target.name else self._delete_collection,
        }
        return await handlers[method]()

    async def _get(self) -> web.StreamResponse:
        await wait_until_visible(self._store, parameters.asked_version(self._query))
        target, kind = self._target, self._kind
        entry = self._store.collection(kind.collection).get(target.namespace, target.name)
        if entry is None:
            raise not_found(kind.group, kind.plural, target.name)
        if self._is_scale:
            return await self._object(decoded(kind, entry))
        return await self._document(self._renderer().document(entry))

    async def _list_or_watch(self) -> web.StreamResponse:
        is_watch = self._target.is_watch or parameters.is_watch(self._query)
        if not is_watch:
            return await self._listed(await self._selected())
        options, selection = self._selection(is_watch=True)
        self._form = responses.chosen(self._accept, shapes=responses.ALL_SHAPES, streams=True)
        collection = self._store.collection(self._kind.collection)
        renderer = self._renderer()
        watch = Watch(self._store, collection, selection, options, renderer, self._chance)
        await watch.begin()

        async def write(response: web.StreamResponse) -> None:
            await watch.run(response.write, METER.get())

        return await responses.respond_in_parts(
            self._request, responses.headers_for(self._form), write
        )

    def _selection(self, *, is_watch: bool) -> tuple[parameters.ListOptions, Selection]:
        target = self._target
        options = parameters.list_options(self._query, self._kind, self._version, is_watch=is_watch)
        labels, fields = options.label_selector, options.field_selector
        return options, Selection(target.namespace, target.name, labels, fields)

    async def _selected(self) -> Page:
        options, selection = self._selection(is_watch=False)
        collection = self._store.collection(self._kind.collection)
        return await page(self._store, collection, selection, options)

    async def _create(self) -> web.StreamResponse:
        kind, namespace = self._kind, self._target.namespace
        bodies.check_media_type(self._content_type)
        data = await self._body()
        options = self._write_options(data, "CreateOptions")
        obj = await self._sent(data, options)
        if self._target.subresource:
            return await self._evicted(obj, options)
        if kind.review is not None:
            return await self._reviewed(obj, options)
        return await self._written(await self._registry.create(kind, namespace, obj, options))

    async def _reviewed(self, obj: Object, options: WriteOptions) -> web.Response:
        kind, schema, now = self._kind, self._version.schema, rfc3339(self._registry.clock())
        review, user = kind.review, user_of(self._request)
        assert review is not None, "it is one"
        place(obj["metadata"], self._target.namespace)
        for field in ("uid", "creationTimestamp"):
            obj["metadata"].pop(field, None)

        def made() -> Object:
            # Canonical with the namespace in its place.
            found = canonical(schema, Write(kind, options, now).created(obj))
            if errors := kind.rules.validate(found):
                raise invalid(kind.group, "", "", errors)  # Kubernetes has lost the kind here
            return canonical(schema, review(found, user, now))

        return await self._object(await compute(options.sent_bytes, made), 201)

    async def _evicted(self, eviction: Object, options: WriteOptions) -> web.Response:
        target = self._target
        place(eviction["metadata"], target.namespace)
        asked, wanted = list(self._query.get("dryRun", ())), eviction.get("deleteOptions") or {}
        inner = wanted.get("dryRun")
        if asked and inner and asked != inner:
            both = f"{printed(asked)} and {printed(inner)}"
            raise unknown_error(f"Non-matching dry-run options in request and content: {both}")
        read = partial(parameters.delete_options, {}, wanted)
        how = await compute(options.sent_bytes, read)
        how = replace(how, is_dry_run=how.is_dry_run or options.is_dry_run)
        status = await evict(self._registry, target.namespace, target.name, eviction, how)
        return await self._document(encode(status), status=201)

    async def _replace(self) -> web.StreamResponse:
        data = await self._body()
        options = self._write_options(data, "UpdateOptions")
        obj = await self._sent(data, options)
        kind, target = self._kind, self._target
        check_identity(obj, target.namespace, target.name)
        is_there = self._store.head(kind.collection, target.namespace, target.name) is not None
        if kind.rules.is_created_by_update and not target.subresource and not is_there:
            namespace = target.namespace
            check_uid(kind, namespace, target.name, "", obj["metadata"].get("uid", ""))
            written = await self._registry.create(kind, namespace, obj, options, is_update=True)
            return await self._written(written)
        uid = obj["metadata"].get("uid", "")
        attempts = chain((obj,), iter(lambda: self._decoded(data, options), None))
        return await self._updated(options, lambda _: next(attempts), uid)

    async def _patch(self) -> web.StreamResponse:
        patch_type = bodies.media_type(self._content_type)
        data = await self._body()
        is_apply = patch_type == APPLY_PATCH
        options = self._write_options(data, "PatchOptions", is_apply=is_apply)
        kind, target, validation = self._kind, self._target, options.field_validation
        if is_apply:
            read_configuration = partial(applied, kind, self._version, data, validation)
            configuration, warnings = await compute(bodies.weight_of(data), read_configuration)
            warn(warnings)
            written = await self._registry.apply(
                kind, target.namespace, target.name, configuration, options
            )
            return await self._written(written)
        if self._store.head(kind.collection, target.namespace, target.name) is None:
            raise not_found(kind.group, kind.plural, target.name)
        read_patch = partial(Patch, *self._shown, patch_type, data, validation)
        patch = await compute(bodies.weight_of(data), read_patch)
        if patch.copies:  # the result may be far larger than the patch and the object
            options = replace(options, sent_bytes=max(options.sent_bytes, LARGE_BYTES))

        def patched(live: Object) -> Object:
            new = patch.change(live)
            warn(patch.warnings)
            return new

        return await self._updated(options, patched)

    async def _delete(self) -> web.StreamResponse:
        options = await self._delete_options()
        target, kind = self._target, self._kind
        written = await self._registry.delete(kind, target.namespace, target.name, options)
        if not written.is_gone or kind.answers_deleted:
            status = 202 if options.is_cascading and not written.is_gone else 200
            return await self._written(written, status=status)
        details = object_details(kind.group, kind.plural, target.name)
        details["uid"] = written.obj["metadata"]["uid"]
        return await self._document(encode(success(details=details)))

    async def _delete_collection(self) -> web.StreamResponse:
        options = await self._delete_options()
        found = await self._selected()
        kind = self._kind
        for index, entry in enumerate(found.entries):
            if index % DELETED_AT_ONCE == 0:
                await asyncio.sleep(0)  # a store in memory never waits, so let other tasks run
            # Another client may have deleted it meanwhile.
            if self._store.head(kind.collection, entry.namespace, entry.name) is not None:
                await self._registry.delete(kind, entry.namespace, entry.name, options)
        # The objects as they were found, not as they ended.
        return await self._listed(found)

    async def _listed(self, found: Page) -> web.StreamResponse:
        chunks = self._renderer().list_chunks(found.entries, found.metadata)
        is_short = len(found.entries) < responses.STREAMED_ITEMS
        if is_short and sum(len(each.data) for each in found.entries) < responses.STREAMED_BYTES:
            return await self._document(b"".join(chunks))
        if self._form.is_yaml:
            chunks = responses.yaml_list(chunks)
        elif responses.wants_indented(self._request, self._pretty):
            chunks = responses.indented_list(chunks)
        else:
            chunks = chain(chunks, (b"\n",))
        return await responses.stream(self._request, self._form, chunks)

    def _renderer(self) -> Renderer:
        include = self._query.get("includeObject", ("",))[0]
        return Renderer(*self._shown, self._form, include, self._registry.clock)

    async def _body(self) -> bytes:
        """StatusError 413, or 400 for a body that is not encoded as it says."""
        request = self._request
        if (request.content_length or 0) > bodies.LARGEST_BYTES:
            raise bodies.too_large()
        if not request.can_read_body:
            return b""
        chunks, size = [], 0
        try:
            async for chunk in request.content.iter_any():
                size += len(chunk)
                if size > bodies.LARGEST_BYTES:
                    raise bodies.too_large()
                chunks.append(chunk)
        except web.RequestPayloadError as error:
            raise bad_request(f"the body of the request cannot be read: {error}") from error
        data = b"".join(chunks)
        bodies.check_number(data)
        return data

    async def _sent(self, data: bytes, options: WriteOptions) -> Object:
        return await compute(bodies.weight_of(data), partial(self._decoded, data, options))

    def _decoded(self, data: bytes, options: WriteOptions) -> Object:
        is_eviction = self._target.subresource == "eviction"
        expected = EVICTIONS if is_eviction else (bodies.expected_of(*self._shown),)
        return bodies.decode(expected, self._content_type, data, options.field_validation)

    def _write_options(self, data: bytes, name: str, *, is_apply: bool = False) -> WriteOptions:
        user_agent = self._request.headers.get("User-Agent", "")
        return replace(
            parameters.write_options(self._query, user_agent, name, is_apply=is_apply),
            version=self._version,
            subresource=self._target.subresource,
            sent_bytes=bodies.weight_of(data),
            warn=warn,
        )

    async def _delete_options(self) -> DeleteOptions:
        raw = None
        if data := await self._body():
            read = partial(
                bodies.parse, self._content_type, data, bodies.OPTIONS_KIND, _delete_options_schema
            )
            # An empty body counts as one: then the parameters are ignored.
            raw = (await compute(bodies.weight_of(data), read)).raw
            raw = {} if raw is None else raw
        return await compute(
            bodies.weight_of(data), partial(parameters.delete_options, self._query, raw)
        )

    async def _updated(
        self, write: WriteOptions, change: Callable[[Object], Object], uid: str = ""
    ) -> web.Response:
        kind, namespace, name = self._kind, self._target.namespace, self._target.name
        if self._is_scale:
            change = scaled(kind, name, change)
        written = await self._registry.update(kind, namespace, name, change, write, uid=uid)
        return await self._written(written)

    async def _written(self, written: Written, status: int = 200) -> web.Response:
        return await self._object(written.obj, 201 if written.is_created else status)

    async def _object(self, obj: Object, status: int = 200) -> web.Response:
        """Respond with an object that may not be stored; after a dry run it has any version."""
        if self._is_scale:
            obj = scale_of(self._kind, obj)
        text = obj["metadata"].get("resourceVersion", "")
        version = int(text) if is_version(text) else 0
        data = encode({name: part for name, part in obj.items() if name not in TYPE_FIELDS})
        entry = Entry("", "", "", version, "", {}, {}, data)
        body = self._renderer().document(entry)
        return await self._document(body, status=status)

    async def _document(self, body: bytes, *, status: int = 200) -> web.Response:
        return await responses.document(
            self._request, self._form, body, status=status, pretty=self._pretty
        )


def _delete_options_schema(_api_version: str, kind: str) -> Struct | None:
    return DELETE_OPTIONS if kind in {"", bodies.OPTIONS_KIND} else None
