"""The API of a server as one handler of HTTP requests.

It takes `/api`, `/apis`, `/openapi` and `/version` with all below them; health and metrics are the
process's own.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING
from urllib.parse import unquote

from aiohttp import web

from apfproxy.api.ownership.conflicts import OwnershipConflicts
from apfproxy.apiserver import options as parameters
from apfproxy.apiserver.answers import document, failure, takes_gzip
from apfproxy.apiserver.discovery import AGGREGATED_VERSIONS, Discovery, etag
from apfproxy.apiserver.errors import StatusError, method_not_allowed, no_such_resource
from apfproxy.apiserver.handlers import Handlers
from apfproxy.apiserver.negotiation import JSON, forms, not_acceptable
from apfproxy.apiserver.openapi.documents import OpenAPI
from apfproxy.apiserver.paths import Paths
from apfproxy.apiserver.rendering import encode
from apfproxy.apiserver.store.entries import StoreError
from apfproxy.apiserver.versions import version_document
from apfproxy.request.target import parse_query

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable

    from apfproxy.api.kind import Object
    from apfproxy.apiserver.openapi.documents import Document
    from apfproxy.apiserver.registry import Registry

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

log = logging.getLogger(__name__)

V2_PROTOBUF_NAME = "com.github.proto-openapi.spec.v2"
"""In media types, which differ in how they write the version."""
PREFIXES = ("/api", "/apis", "/openapi", "/version")
EXTERNAL_ADDRESS = "127.0.0.1:6443"
"""Kubernetes' port on this machine; where clients come through a proxy only they know better."""
UNFORESEEN = "Internal error occurred: unforeseen; the server's log says more"
DISCOVERY_GROUP = "apidiscovery.k8s.io"


class Api:
    """The API over one registry.

    Args:
        registry: Of the objects.
        chance: Draws how long watches last.
        external_address: What `/api` tells clients to connect to.
    """

    def __init__(
        self,
        registry: Registry,
        chance: random.Random,
        external_address: str = EXTERNAL_ADDRESS,
    ) -> None:
        self.registry = registry
        self._external_address = external_address
        kinds = registry.kinds
        self._discovery = Discovery(kinds)
        self._openapi = OpenAPI(kinds)
        evicts = any(kind.resource == "poddisruptionbudgets.policy" for kind in kinds)
        self._handlers = Handlers(registry, Paths(kinds, evicts=evicts), chance)

    def __repr__(self) -> str:
        return f"<Api over {self.registry!r}>"

    def routes(self, handler: Handler | None = None) -> list[web.RouteDef]:
        """All of it, for an application.

        Args:
            handler: Gets the requests, and hands them to `handle`; None for nothing in between.
        """
        return [
            web.route("*", f"{prefix}{rest}", handler or self.handle)
            for prefix in PREFIXES
            for rest in ("", "/{path:.*}")
        ]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer one request, whatever becomes of it."""
        try:
            return await self._answer(request)
        except StatusError as error:
            return await failure(request, error)
        except OwnershipConflicts as error:
            details = {"causes": error.causes()}
            return await failure(request, StatusError(409, "Conflict", error.message, details))
        except StoreError as error:
            log.error("%s %s: %s", request.method, request.path, error)  # noqa: TRY400 - it is ours
            message = f"Internal error occurred: {error}"
            return await failure(request, StatusError(500, "InternalError", message))
        except ConnectionError:
            # The client left while it was answered; aiohttp would log what is raised as a fault.
            return web.Response()
        except Exception:
            log.exception("%s %s: failed unforeseen", request.method, request.path)
            return await failure(request, StatusError(500, "InternalError", UNFORESEEN))

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        # Decoded before it is split, as Kubernetes does it and whoever judges requests before.
        segments = unquote(request.rel_url.raw_path, errors="replace").split("/")[1:]
        if segments[-1] == "":
            segments.pop()
        is_discovery = segments[0] in {"api", "apis"}
        if is_discovery and len(segments) > (2 if segments[0] == "api" else 3):
            return await self._handlers.answer(request, segments)
        if request.method not in {"GET", "HEAD"}:
            raise method_not_allowed()
        if segments[0] == "openapi":
            return await self._openapi_document(request, segments[1:])
        found = self._found(request, segments)
        if found is None:
            raise no_such_resource()
        return found if isinstance(found, web.Response) else await self._json(request, found)

    def _found(self, request: web.Request, segments: list[str]) -> Object | web.Response | None:
        """The document of discovery at a path; None if there is none."""
        discovery = self._discovery
        match segments:
            case ["version"]:
                return dict(version_document())
            case ["api" | "apis" as root]:
                return self._root(request, root)
            case ["api", version]:
                return discovery.api_resource_list("", version)
            case ["apis", group]:
                return discovery.api_group(group)
            case ["apis", group, version]:
                return discovery.api_resource_list(group, version)
        return None

    def _root(self, request: web.Request, root: str) -> Object | web.Response:
        """What `/api` and `/apis` answer: all in one, if the client wants it so."""
        discovery = self._discovery
        for form in forms(request.headers.get("Accept", "")):
            if form.group == DISCOVERY_GROUP and form.version in AGGREGATED_VERSIONS:
                made = discovery.aggregated_core if root == "api" else discovery.aggregated_groups
                body = encode(made(form.version))
                content_type = (
                    f"application/json;g={DISCOVERY_GROUP};v={form.version}"
                    ";as=APIGroupDiscoveryList"
                )
                return unless_known(request, body, content_type)
            if not form.kind:
                break
        if root == "apis":
            return discovery.api_group_list()
        return discovery.api_versions(self._external_address)

    async def _json(self, request: web.Request, found: Object) -> web.Response:
        """A document of discovery in the form that the client wants."""
        accepted = forms(request.headers.get("Accept", ""))
        form = next((form for form in accepted if not form.kind), None)
        if form is None:
            raise not_acceptable()
        query = parse_query(request.rel_url.raw_query_string.encode())
        return await document(
            request,
            form,
            encode(found),
            pretty=parameters.pretty(query) if query.get("pretty") else None,
        )

    async def _openapi_document(
        self, request: web.Request, segments: list[str]
    ) -> web.StreamResponse:
        """A document of OpenAPI; made in a thread, since that takes its time."""
        found = await asyncio.to_thread(
            self._described, request.headers.get("Accept", ""), segments
        )
        if found is None:
            raise no_such_resource()
        headers = {"ETag": found.etag, "Vary": "Accept, Accept-Encoding", "Cache-Control": "public"}
        if found.etag in request.headers.get("If-None-Match", ""):
            return web.Response(status=304, headers=headers)
        headers["Content-Type"] = found.content_type
        if not takes_gzip(request):
            return web.Response(body=found.data, headers=headers)
        body = await asyncio.to_thread(lambda: found.gzipped)
        return web.Response(body=body, headers={**headers, "Content-Encoding": "gzip"})

    def _described(self, accept: str, segments: list[str]) -> Document | None:
        """The document of OpenAPI at a path; None if there is none."""
        match segments:
            case ["v2"]:
                if V2_PROTOBUF_NAME in accept:
                    return self._openapi.v2_protobuf()
                check_json(accept)
                return self._openapi.v2_json()
            case ["v3"]:
                check_json(accept)
                return self._openapi.v3_index()
            case ["v3", *path]:
                check_json(accept)
                return self._openapi.v3("/".join(path))
        return None


def check_json(accept: str) -> None:
    """Make sure that the client takes JSON.

    Raises:
        StatusError: 406.
    """
    if not any(form.media_type == JSON for form in forms(accept)):
        raise not_acceptable()


def unless_known(request: web.Request, body: bytes, content_type: str) -> web.Response:
    """The document, or that it is the one that the client has."""
    tag = etag(body)
    headers = {"ETag": tag, "Vary": "Accept", "Cache-Control": "public"}
    if tag in request.headers.get("If-None-Match", ""):
        return web.Response(status=304, headers=headers)
    return web.Response(body=body, headers={**headers, "Content-Type": content_type})
