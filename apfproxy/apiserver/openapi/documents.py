"""All OpenAPI documents of a server, each made when it is asked for first, and kept.

A document is tens to hundreds of kilobytes of JSON that never change while the server runs, so it
is kept as bytes, compressed too.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from apfproxy.apiserver.openapi import protobuf, v2, v3
from apfproxy.apiserver.openapi.paths import Catalog, catalog
from apfproxy.apiserver.versions import MAJOR, MINOR

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apfproxy.api.kind import Kind, Object

JSON = "application/json"
V2_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
"""Content type of the protobuf form; clients also write an `@` in place of the dot before `v1.0`,
which is no valid content type."""


@dataclass(frozen=True)
class Document:
    """A document as it is sent.

    Attributes:
        data: Its bytes.
        content_type: What they are.
    """

    data: bytes
    content_type: str = JSON

    @cached_property
    def gzipped(self) -> bytes:
        """Compressed bytes; the same in every run."""
        return gzip.compress(self.data, compresslevel=6, mtime=0)

    @cached_property
    def hash(self) -> str:
        """Hash of the bytes, in upper-case hexadecimal digits."""
        return hashlib.sha512(self.data).hexdigest().upper()

    @property
    def etag(self) -> str:
        """The ETag: the hash, quoted."""
        return f'"{self.hash}"'


def in_json(document: Object) -> Document:
    """A document in JSON."""
    return Document(json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode())


class OpenAPI:
    """The OpenAPI documents about a set of kinds."""

    def __init__(self, kinds: Sequence[Kind]) -> None:
        """Describe the kinds; nothing is built before it is asked for."""
        self.kinds = tuple(kinds)
        self.version = f"{MAJOR}.{MINOR}"

    @cached_property
    def catalog(self) -> Catalog:
        """All operations."""
        return catalog(self.kinds)

    @cached_property
    def swagger(self) -> Object:
        """The version 2 document; nobody may change it."""
        return v2.document(self.catalog, self.version)

    @cached_property
    def json_document(self) -> Document:
        """The version 2 document in JSON."""
        return in_json(self.swagger)

    @cached_property
    def protobuf_document(self) -> Document:
        """The version 2 document in protobuf."""
        return Document(protobuf.encode(self.swagger), V2_PROTOBUF)

    @cached_property
    def v3_documents(self) -> dict[str, Document]:
        """The version 3 documents, by path below `/openapi/v3/`."""
        made = v3.documents(self.catalog, self.version)
        return {path: in_json(document) for path, document in made.items()}

    @cached_property
    def index_document(self) -> Document:
        """The index of the version 3 documents."""
        return in_json(v3.index({path: one.hash for path, one in self.v3_documents.items()}))

    def v2_json(self) -> Document:
        """The document of `/openapi/v2`."""
        return self.json_document

    def v2_protobuf(self) -> Document:
        """The same in protobuf, for kubectl."""
        return self.protobuf_document

    def v3_index(self) -> Document:
        """The document of `/openapi/v3`.

        Its links name the hashes of documents, so that a client may keep what it got from one for
        ever; a request with another hash, or none, is about the current document.
        """
        return self.index_document

    def v3(self, path: str) -> Document | None:
        """The document of `/openapi/v3/{path}`, such as `apis/policy/v1`; None if there is none."""
        return self.v3_documents.get(path)
