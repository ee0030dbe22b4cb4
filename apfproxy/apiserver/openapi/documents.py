"""All OpenAPI documents of a server, each made at the first request for it, and cached.

A document is tens to hundreds of kilobytes of JSON that never change while the server runs, so it
is cached as bytes, compressed too.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from apfproxy.apiserver.discovery import MAJOR, MINOR
from apfproxy.apiserver.openapi import protobuf, v2, v3
from apfproxy.apiserver.openapi.paths import catalog

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apfproxy.apiserver.kind import Kind
    from apfproxy.objects.types import Object

JSON = "application/json"
V2_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
"""Content type of the protobuf form; clients also write an `@` in place of the dot before `v1.0`,
which is no valid content type."""
VERSION = f"{MAJOR}.{MINOR}"


@dataclass(frozen=True)
class Document:
    """A document as it is sent."""

    data: bytes
    content_type: str = JSON

    @cached_property
    def gzipped(self) -> bytes:
        """Compressed bytes; the same in every run."""
        return gzip.compress(self.data, compresslevel=6, mtime=0)

    @cached_property
    def hash(self) -> str:
        """In upper-case hexadecimal digits; quoted it is the document's ETag."""
        return hashlib.sha512(self.data).hexdigest().upper()


def in_json(document: Object) -> Document:
    """A document in JSON."""
    return Document(json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode())


class OpenAPI:
    """The OpenAPI documents of some kinds."""

    def __init__(self, kinds: Sequence[Kind]) -> None:
        """Describe the kinds; each document is made when it is first used."""
        self._kinds = tuple(kinds)

    @cached_property
    def _swagger(self) -> Object:
        return v2.document(catalog(self._kinds), VERSION)

    @cached_property
    def v2_json(self) -> Document:
        """The document of `/openapi/v2`."""
        return in_json(self._swagger)

    @cached_property
    def v2_protobuf(self) -> Document:
        """The same in protobuf, for kubectl."""
        return Document(protobuf.encode(self._swagger), V2_PROTOBUF)

    @cached_property
    def v3_documents(self) -> dict[str, Document]:
        """By path below `/openapi/v3/`, such as `apis/policy/v1`."""
        made = v3.documents(catalog(self._kinds), VERSION)
        return {path: in_json(document) for path, document in made.items()}

    @cached_property
    def v3_index(self) -> Document:
        """The document of `/openapi/v3`."""
        return in_json(v3.index({path: one.hash for path, one in self.v3_documents.items()}))
