"""The API of a server as one handler of HTTP requests.

It serves `/api`, `/apis`, `/openapi` and `/version` with all below them; the process serves health
and metrics.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING
from urllib.parse import unquote

from aiohttp import web

from apfproxy.apiserver import errors, options, responses
from apfproxy.apiserver.discovery import AGGREGATED, Discovery, etag, version_document
from apfproxy.apiserver.errors import StatusError, internal_error
from apfproxy.apiserver.handlers import Call, Paths
from apfproxy.apiserver.openapi.documents import OpenAPI
from apfproxy.apiserver.responses import JSON, failure
from apfproxy.apiserver.store.entries import StoreError
from apfproxy.request.attributes import parse_query

if TYPE_CHECKING:
    import random

    from aiohttp.typedefs import Handler

    from apfproxy.apiserver.openapi.documents import Document
    from apfproxy.apiserver.registry import Registry
    from apfproxy.objects.types import Object

log = logging.getLogger(__name__)

V2_PROTOBUF_NAME = "com.github.proto-openapi.spec.v2"
"""Part of the media types, which write the version in different ways."""
PREFIXES = ("/api", "/apis", "/openapi", "/version")
VARY = "Accept, Accept-Encoding"
AGGREGATED_TYPE = "{};g={};v={};as={}".format(JSON, *AGGREGATED)
EXTERNAL_ADDRESS = "127.0.0.1:6443"
"""Kubernetes' port on this machine; clients that come through a proxy know a better one."""
CUSTOM_RESOURCES = ["apis", "apiextensions.k8s.io", "v1", "customresourcedefinitions"]
"""Asked for by kubectl when it does not find the kind of a file: with a response it says so of
that kind, and applies the rest of the file."""
NO_CUSTOM_RESOURCES: Object = {
    "kind": "CustomResourceDefinitionList",
    "apiVersion": "apiextensions.k8s.io/v1",
    "metadata": {"resourceVersion": "0"},
    "items": [],
}
OF_GROUP = 2


class Api:
    """The API over one registry; `external_address` is what `/api` tells clients to connect to."""

    def __init__(
        self, registry: Registry, chance: random.Random, external_address: str = EXTERNAL_ADDRESS
    ) -> None:
        self.registry = registry
        self._external_address = external_address
        self._discovery = Discovery(registry.kinds)
        self._openapi = OpenAPI(registry.kinds)
        self._paths = Paths(registry.kinds)
        self._chance = chance

    def routes(self, handler: Handler | None = None) -> list[web.RouteDef]:
        """The routes of the API, for an application; another handler may wrap `handle`."""
        return [
            web.route("*", f"{prefix}{rest}", handler or self.handle)
            for prefix in PREFIXES
            for rest in ("", "/{path:.*}")
        ]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        responses.WARNINGS.set([])
        try:
            return await self._respond(request)
        except StatusError as error:
            return await failure(request, error)
        except StoreError as error:
            # The store has logged it, once for all writes that it refuses.
            return await failure(request, internal_error(str(error)))
        except ConnectionError:
            return web.Response()  # The client left; aiohttp would log an exception as an error.
        except Exception:
            log.exception("%s %s: failed unforeseen", request.method, request.path)
            return await failure(request, internal_error("unforeseen; the server's log says more"))

    async def _respond(self, request: web.Request) -> web.StreamResponse:
        # Decoded before it is split, as Kubernetes and flow control do it.
        segments = unquote(request.rel_url.raw_path, errors="replace").split("/")[1:]
        if segments[0] == "openapi":
            return await self._openapi_document(request, segments[1:])
        if segments[-1] == "":
            segments.pop()
        if segments == CUSTOM_RESOURCES and request.method == "GET":
            return await self._json(request, NO_CUSTOM_RESOURCES)
        if segments[0] == "apis" and segments[1:] and segments[1] not in self._discovery.groups:
            return no_such_path()
        if len(segments) > {"api": 2, "apis": 3}.get(segments[0], len(segments)):
            call = Call(self.registry, request, self._paths.target(segments), self._chance)
            return await call.answer()
        found = self._found(request, segments)
        if found is None:
            raise errors.no_such_resource()
        if isinstance(found, web.Response):
            return found
        if segments[0] != "apis" or len(segments) > OF_GROUP:
            # Another handler of Kubernetes responds at `/apis` and groups, to any method.
            if request.method != "GET":
                raise errors.method_not_allowed()
            available = (JSON,) if segments == ["version"] else responses.AVAILABLE
            responses.check_route(request.headers.get("Accept", ""), available)
        return await self._json(request, found)

    def _found(self, request: web.Request, segments: list[str]) -> Object | web.Response | None:
        known = self._discovery
        match segments:
            case ["version"]:
                return version_document()
            case ["api" | "apis" as root] if wants_aggregated(request.headers.get("Accept", "")):
                return self._aggregated(request, is_core=root == "api")
            case ["api"]:
                return known.api_versions(self._external_address)
            case ["apis"]:
                return known.api_group_list()
            case ["apis", group]:
                return known.api_group(group)
            case ["api", version]:
                return known.api_resource_list("", version)
            case ["apis", group, version]:
                return known.api_resource_list(group, version)
        return None

    def _aggregated(self, request: web.Request, *, is_core: bool) -> web.Response:
        body = responses.encode(self._discovery.aggregated(is_core=is_core))
        headers = {"ETag": etag(body), "Vary": "Accept", "Cache-Control": "public"}
        if headers["ETag"] in request.headers.get("If-None-Match", ""):
            return web.Response(status=304, headers=headers)
        headers["Content-Type"] = AGGREGATED_TYPE
        return web.Response(body=body, headers=headers)

    async def _json(self, request: web.Request, found: Object) -> web.Response:
        accept = request.headers.get("Accept", "")
        form = responses.AS_JSON if "gitVersion" in found else responses.chosen(accept)
        pretty = options.pretty(parse_query(request.rel_url.raw_query_string.encode()))
        return await responses.document(request, form, responses.encode(found), pretty=pretty)

    async def _openapi_document(self, request: web.Request, segments: list[str]) -> web.Response:
        """An OpenAPI document; made in a thread, since that takes long."""
        accept = request.headers.get("Accept", "")
        found = await asyncio.to_thread(self._described, accept, segments)
        if found is None:
            return web.Response(status=404) if segments[:1] == ["v3"] else no_such_path()
        if segments != ["v3"] and found.content_type == JSON and not takes_json(accept):
            return web.Response(status=406, headers={"Content-Type": ""})
        tag = f'"{found.hash}"'
        headers = {"ETag": tag, "Vary": VARY, "Cache-Control": responses.UNCACHED}
        if tag in request.headers.get("If-None-Match", ""):
            return web.Response(status=304, headers=headers)
        headers["Content-Type"] = found.content_type
        if not responses.takes_gzip(request):
            return web.Response(body=found.data, headers=headers)
        headers["Content-Encoding"] = "gzip"
        return web.Response(body=await asyncio.to_thread(lambda: found.gzipped), headers=headers)

    def _described(self, accept: str, segments: list[str]) -> Document | None:
        openapi = self._openapi
        match segments:
            case ["v2"]:
                return openapi.v2_protobuf if V2_PROTOBUF_NAME in accept else openapi.v2_json
            case ["v3"]:
                return openapi.v3_index
            case ["v3", *path]:
                return openapi.v3_documents.get("/".join(path))
        return None


def takes_json(accept: str) -> bool:
    return not accept or any(JSON in choice.written() for choice in responses.choices(accept))


def wants_aggregated(accept: str) -> bool:
    found = (each for each in responses.choices(accept) if each.converts_to == AGGREGATED)
    return any(JSON in choice.written() for choice in found)


def no_such_path() -> web.Response:
    """The response of Kubernetes for paths outside of its groups."""
    headers = {"X-Content-Type-Options": "nosniff"}
    return web.Response(status=404, text="404 page not found\n", headers=headers)
