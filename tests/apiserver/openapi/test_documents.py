"""Tests of the documents as they are sent."""

from __future__ import annotations

import gzip
import json

from apfproxy.apiserver.openapi.documents import V2_PROTOBUF, Document, OpenAPI
from tests.apiserver.kinds import KINDS


def test_documents() -> None:
    """All documents are there, in the forms that clients ask for."""
    openapi = OpenAPI(KINDS)

    assert "2.0" == json.loads(openapi.v2_json.data)["swagger"]
    assert V2_PROTOBUF == openapi.v2_protobuf.content_type
    version = openapi.v3_documents["version"]
    assert "3.0.0" == json.loads(version.data)["openapi"]


def test_index_names_the_hashes() -> None:
    """Each link of the index has the hash of the document that it leads to."""
    openapi = OpenAPI(KINDS)
    paths = json.loads(openapi.v3_index.data)["paths"]

    assert openapi.v3_documents.keys() == paths.keys()
    assert {
        path: f"/openapi/v3/{path}?hash={document.hash}"
        for path, document in openapi.v3_documents.items()
    } == {path: entry["serverRelativeURL"] for path, entry in paths.items()}


def test_documents_are_kept() -> None:
    """A document is built once."""
    openapi = OpenAPI(KINDS)

    assert openapi.v2_json is openapi.v2_json
    assert openapi.v2_protobuf is openapi.v2_protobuf
    assert openapi.v3_documents is openapi.v3_documents
    assert openapi.v3_index is openapi.v3_index


def test_documents_are_the_same_in_every_run() -> None:
    """Several servers of one version answer alike, tags included."""
    first, second = OpenAPI(KINDS), OpenAPI(KINDS)

    assert first.v2_json == second.v2_json
    assert first.v2_json.hash == second.v2_json.hash
    assert first.v3_index.gzipped == second.v3_index.gzipped


def test_document() -> None:
    """A document has a tag and a compressed form."""
    document = Document(b"{}")

    assert b"{}" == gzip.decompress(document.gzipped)
    assert Document(b"[]").hash != document.hash
