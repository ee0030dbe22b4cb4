"""Tests of `apfproxy.apiserver.handlers`."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.apiserver.bodies import LARGEST_BYTES
from apfproxy.apiserver.flowcontrol import FLOW_SCHEMA
from apfproxy.apiserver.responses import COMPRESSED_BYTES
from tests.apiserver.site import (
    APPLY,
    BUDGETS,
    JSON,
    JSON_PATCH,
    MERGE,
    NAMESPACES,
    PARTIAL,
    PARTIAL_LIST,
    PODS,
    SCHEMAS,
    STRATEGIC,
    TABLE,
    YAML,
    budget,
    flow_schema,
    namespace,
    pod,
)

if TYPE_CHECKING:
    from apfproxy.objects.types import Object
    from tests.apiserver.site import Site

BETA = "/apis/flowcontrol.apiserver.k8s.io/v1beta3/flowschemas"
HELD: dict[str, Any] = {"finalizers": ["example.com/hold"]}


def names(document: Any) -> list[str]:  # noqa: ANN401  JSON
    """Of the objects of a list."""
    return [item["metadata"]["name"] for item in document["items"]]


@pytest.mark.parametrize(
    ("collection", "raw"),
    [
        pytest.param(SCHEMAS, flow_schema("x"), id="cluster"),
        pytest.param(BUDGETS, budget("x"), id="namespaced"),
        pytest.param(NAMESPACES, namespace("x"), id="namespaces"),
    ],
)
async def test_life_of_an_object(site: Site, collection: str, raw: Object) -> None:
    """An object is created, read, listed, replaced, patched and deleted."""
    path = f"{collection}/x"
    created = await site.send("POST", collection, raw)
    read = await site.get(path)
    listed = await site.get(collection)
    labelled = {**read.body, "metadata": {**read.body["metadata"], "labels": {"a": "b"}}}
    replaced = await site.send("PUT", path, labelled)
    patch = {"metadata": {"labels": {"c": "d"}}}
    patched = await site.send("PATCH", path, patch, content_type=MERGE)
    deleted = await site.send("DELETE", path)

    assert (201, 200, 200) == (created.status, read.status, listed.status)
    assert created.body == read.body
    assert "x" in names(listed.body)
    assert f"{read.body['kind']}List" == listed.body["kind"]
    assert "b" == replaced.body["metadata"]["labels"]["a"]
    assert {"a": "b", "c": "d"}.items() <= patched.body["metadata"]["labels"].items()
    assert 200 == deleted.status
    is_namespace = collection == NAMESPACES
    assert (200 if is_namespace else 404) == (await site.get(path)).status
    if not is_namespace:
        status = deleted.body
        assert ("Status", "Success") == (status["kind"], status["status"])
        assert ("x", read.body["metadata"]["uid"]) == (
            status["details"]["name"],
            status["details"]["uid"],
        )


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        pytest.param("POST", SCHEMAS, flow_schema("g"), id="create"),
        pytest.param("PUT", f"{SCHEMAS}/f", flow_schema(precedence=7), id="replace"),
        pytest.param("PATCH", f"{SCHEMAS}/f", {"spec": {"matchingPrecedence": 7}}, id="patch"),
        pytest.param("PUT", f"{SCHEMAS}/f/status", flow_schema(), id="status"),
        pytest.param("DELETE", f"{SCHEMAS}/f", None, id="delete"),
        pytest.param("DELETE", SCHEMAS, None, id="delete-all"),
        pytest.param("DELETE", f"{PODS}/p", None, id="delete-pod"),
        pytest.param("POST", f"{PODS}/p/eviction", {"metadata": {"name": "p"}}, id="evict"),
        pytest.param("PUT", f"{NAMESPACES}/default/finalize", namespace("default"), id="finalize"),
    ],
)
async def test_dry_runs(site: Site, method: str, path: str, body: Any) -> None:  # noqa: ANN401  JSON
    """Everything is answered as if, and nothing is written."""
    await site.send("POST", SCHEMAS, flow_schema())
    await site.send("POST", PODS, pod())
    version = site.store.resource_version
    content_type = MERGE if method == "PATCH" else ""
    answer = await site.send(method, f"{path}?dryRun=All", body, content_type=content_type)

    assert answer.status in {200, 201}, answer.data
    assert version == site.store.resource_version


async def test_apply(site: Site) -> None:
    """A configuration is YAML; the first creates, others meet with owners."""
    text = b"""
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata: {name: f}
spec: {priorityLevelConfiguration: {name: exempt}, matchingPrecedence: %d}
"""

    async def apply(precedence: int, query: str) -> Any:  # noqa: ANN401  an answer
        body = text % precedence
        return await site.send("PATCH", f"{SCHEMAS}/f?{query}", body, content_type=APPLY)

    dry = await apply(5, "fieldManager=a&dryRun=All")
    missing = await site.get(f"{SCHEMAS}/f")
    created = await apply(5, "fieldManager=a")
    same = await apply(5, "fieldManager=a")
    conflict = await apply(6, "fieldManager=b")
    forced = await apply(6, "fieldManager=b&force=true")

    assert (201, 404, 201, 200) == (dry.status, missing.status, created.status, same.status)
    assert created.body == same.body
    assert (409, "Conflict") == conflict.summary
    assert [(".spec.matchingPrecedence", "FieldManagerConflict")] == conflict.causes
    assert 6 == forced.body["spec"]["matchingPrecedence"]
    assert (422, "Invalid") == (await apply(6, "")).summary


@pytest.mark.parametrize(
    ("content_type", "patch"),
    [
        (MERGE, {"spec": {"matchingPrecedence": 7, "bogus": 1}}),
        (STRATEGIC, {"spec": {"matchingPrecedence": 7, "bogus": 1}}),
        (
            JSON_PATCH,
            [
                {"op": "replace", "path": "/spec/matchingPrecedence", "value": 7},
                {"op": "add", "path": "/spec/bogus", "value": 1},
            ],
        ),
    ],
    ids=["merge", "strategic", "json"],
)
async def test_unknown_fields_of_patches(site: Site, content_type: str, patch: object) -> None:
    """They are an error, a warning or nothing, and never stored."""
    await site.send("POST", SCHEMAS, flow_schema())
    strict, warned, ignored = [
        await site.send(
            "PATCH", f"{SCHEMAS}/f?fieldValidation={how}", patch, content_type=content_type
        )
        for how in ("Strict", "Warn", "Ignore")
    ]

    assert (422, "Invalid") == strict.summary
    assert [("patch", "FieldValueInvalid")] == strict.causes
    assert ['unknown field "spec.bogus"'] == warned.warnings
    assert [] == ignored.warnings
    assert 7 == warned.body["spec"]["matchingPrecedence"]
    assert "bogus" not in warned.body["spec"]


async def test_unknown_fields_of_objects(site: Site) -> None:
    """A creation that is strict makes nothing of what it does not know."""
    raw = flow_schema()
    raw["spec"]["bogus"] = 1
    strict = await site.send("POST", f"{SCHEMAS}?fieldValidation=Strict", raw)
    warned = await site.send("POST", f"{SCHEMAS}?fieldValidation=Warn", raw)

    assert (400, "BadRequest") == strict.summary
    assert (201, ['unknown field "spec.bogus"']) == (warned.status, warned.warnings)


async def test_bad_json_patch(site: Site) -> None:
    """A patch whose test fails changes nothing."""
    await site.send("POST", SCHEMAS, flow_schema())
    patch = [{"op": "test", "path": "/spec/matchingPrecedence", "value": 1}]
    answer = await site.send("PATCH", f"{SCHEMAS}/f", patch, content_type=JSON_PATCH)

    assert (422, "Invalid") == answer.summary


@pytest.mark.parametrize(
    ("method", "path", "headers", "body", "expected"),
    [
        pytest.param("PATCH", "/f", {"Content-Type": "text/x"}, b"{}", 415, id="no-patch"),
        pytest.param("POST", "", {"Content-Type": "text/x"}, b"{}", 415, id="no-object"),
        pytest.param("GET", "/f", {"Accept": "text/html"}, None, 406, id="no-form"),
        pytest.param("GET", "/f", {"Accept": PARTIAL_LIST}, None, 406, id="list-of-one"),
        pytest.param("GET", "", {"Accept": PARTIAL}, None, 406, id="one-of-many"),
        pytest.param("POST", "/f", {}, b"{}", 405, id="method"),
        pytest.param("PUT", "", {}, b"{}", 405, id="method-of-many"),
        pytest.param("OPTIONS", "", {}, None, 405, id="options"),
        pytest.param("GET", "/f/bogus", {}, None, 404, id="subresource"),
        pytest.param("GET", "/f/status/x", {}, None, 404, id="too-deep"),
        pytest.param("GET", "/f?resourceVersion=x", {}, None, 500, id="version"),
        pytest.param("POST", "?dryRun=No", {}, b"", 422, id="option-before-body"),
        pytest.param("POST", "?dryRun=No", {"Content-Type": "a/b"}, b"", 415, id="type-first"),
        pytest.param(
            "PATCH", "/f?force=1", {"Content-Type": MERGE, "Accept": "a/b"}, b"{}", 406, id="form"
        ),
        pytest.param("DELETE", "/f", {}, b"[]", 400, id="options-of-no-kind"),
        pytest.param("DELETE", "/f", {"Content-Type": "a/b"}, b"x", 415, id="options-of-no-form"),
    ],
)
async def test_refusals(
    site: Site,
    method: str,
    path: str,
    headers: dict[str, str],
    body: bytes | None,
    expected: int,
) -> None:
    """Requests that cannot be are answered with a Status that says why."""
    await site.send("POST", SCHEMAS, flow_schema())
    answer = await site.send(
        method,
        SCHEMAS + path,
        body,
        accept=headers.get("Accept", ""),
        content_type=headers.get("Content-Type", ""),
    )

    assert expected == answer.summary[0]


async def test_head(site: Site) -> None:
    """Objects are read by GET alone, as in Kubernetes."""
    answer = await site.send("HEAD", SCHEMAS)

    assert (405, b"") == (answer.status, answer.data)


async def test_representations(site: Site) -> None:
    """One object as YAML, as a row, or as its metadata alone."""
    await site.send("POST", SCHEMAS, flow_schema())
    as_yaml = await site.get(f"{SCHEMAS}/f", accept=YAML)
    table = await site.get(f"{SCHEMAS}/f?includeObject=None", accept=TABLE)
    whole = await site.get(f"{SCHEMAS}/f?includeObject=Object", accept=TABLE)
    bad = await site.get(f"{SCHEMAS}/f?includeObject=All", accept=TABLE)
    partial = await site.get(f"{SCHEMAS}/f", accept=PARTIAL)
    partials = await site.get(SCHEMAS, accept=PARTIAL_LIST)
    fallback = await site.get(f"{SCHEMAS}/g", accept=f"{PARTIAL}, */*")
    preferred = await site.get(SCHEMAS, accept=f"application/x-unknown, {TABLE}, {YAML}")

    assert YAML == as_yaml.headers["Content-Type"]
    assert as_yaml.data.startswith(b"apiVersion: flowcontrol.apiserver.k8s.io/v1\n")
    assert ("Table", [None]) == (table.body["kind"], [r["object"] for r in table.body["rows"]])
    assert "FlowSchema" == whole.body["rows"][0]["object"]["kind"]
    assert (400, "BadRequest") == bad.summary
    assert {"kind", "apiVersion", "metadata"} == set(partial.body)
    assert ("PartialObjectMetadataList", ["f"]) == (partials.body["kind"], names(partials.body))
    assert (404, "NotFound") == fallback.summary
    assert "Table" == preferred.body["kind"]


async def test_forms_of_writes(site: Site) -> None:
    """What is created, changed or deleted is answered in the form that is wanted."""
    created = await site.send("POST", SCHEMAS, flow_schema(**HELD), accept=TABLE)
    patch: Object = {"metadata": {"labels": {"a": "b"}}}
    patched = await site.send("PATCH", f"{SCHEMAS}/f", patch, accept=PARTIAL, content_type=MERGE)
    deleted = await site.send("DELETE", f"{SCHEMAS}/f", accept=YAML)

    assert (201, "Table") == (created.status, created.body["kind"])
    assert "PartialObjectMetadata" == patched.body["kind"]
    assert b"deletionTimestamp:" in deleted.data


@pytest.mark.parametrize(
    ("query", "agent", "is_indented"),
    [
        ("", "", False),
        ("", "curl/8", True),
        ("", "Mozilla/5.0 (X11)", True),
        ("", "kubectl/1.36", False),
        ("?pretty=true", "", True),
        ("?pretty=false", "curl/8", False),
    ],
)
async def test_layout(site: Site, query: str, agent: str, is_indented: bool) -> None:
    """People get indented JSON, programs do not; both get a line's end."""
    await site.send("POST", SCHEMAS, flow_schema())
    headers = {"User-Agent": agent} if agent else {}
    answer = await site.get(f"{SCHEMAS}/f{query}", headers=headers)

    assert is_indented == answer.data.startswith(b"{\n  ")
    assert answer.data.endswith(b"}\n")


async def test_compression(site: Site) -> None:
    """Large answers are compressed for who takes it, in one piece or as they are made."""
    annotations = {"x": "y" * 100_000}
    await site.send("POST", SCHEMAS, flow_schema("big", annotations=annotations))
    await site.send("POST", SCHEMAS, flow_schema("bigger", annotations=annotations))
    takes = {"Accept-Encoding": "gzip"}
    plain = await site.get(SCHEMAS)
    small = await site.get(f"{SCHEMAS}/big", headers=takes)
    large = await site.get(SCHEMAS, headers=takes)

    assert "Content-Encoding" not in plain.headers
    assert "Content-Encoding" not in small.headers
    assert "gzip" == large.headers["Content-Encoding"]
    assert plain.data == gzip.decompress(large.data)


async def test_streamed_lists(site: Site) -> None:
    """Lists of many objects are written as they are made, and are the same."""
    for number in range(300):
        await site.add(FLOW_SCHEMA, flow_schema(f"f{number}"))
    takes = {"Accept-Encoding": "gzip"}
    plain = await site.get(SCHEMAS)
    packed = await site.get(SCHEMAS, headers=takes)
    table = await site.get(SCHEMAS, accept=TABLE)
    people = await site.get(SCHEMAS, headers={"User-Agent": "curl/8"})
    as_yaml = await site.get(SCHEMAS, accept=YAML)

    assert "chunked" == plain.headers["Transfer-Encoding"]
    assert 300 == len(plain.body["items"]) == len(table.body["rows"])
    assert plain.data == gzip.decompress(packed.data)
    assert plain.data.endswith(b"]}\n")
    assert plain.body == people.body
    assert 300 == as_yaml.data.count(b"name: exempt")


async def test_streamed_lists_of_large_objects(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """So are lists of few objects that are large, since clients may be many and slow."""
    monkeypatch.setattr("apfproxy.apiserver.handlers.STREAMED_BYTES", 1000)
    await site.add(FLOW_SCHEMA, flow_schema("a"))
    small = await site.get(SCHEMAS)
    await site.add(FLOW_SCHEMA, flow_schema("b", annotations={"a": "x" * 1000}))
    large = await site.get(SCHEMAS)

    assert "Content-Length" in small.headers
    assert "chunked" == large.headers["Transfer-Encoding"]
    assert 2 == len(large.body["items"])


async def test_old_versions(site: Site) -> None:
    """An old version of a kind is served with a warning, and stored in the new one."""
    created = await site.send("POST", BETA, flow_schema())
    read = await site.get(f"{SCHEMAS}/f")
    listed = await site.get(BETA)

    assert created.body["apiVersion"].endswith("v1beta3")
    assert read.body["apiVersion"].endswith("v1")
    assert [] == read.warnings
    for answer in (created, listed):
        assert ["flowcontrol.apiserver.k8s.io/v1beta3 FlowSchema is deprecated in v1.29+"] == [
            warning.partition(",")[0] for warning in answer.warnings
        ]


async def test_subresources(site: Site) -> None:
    """The status is read and written by itself; namespaces are finalized."""
    await site.send("POST", SCHEMAS, flow_schema())
    patch = {"status": {"conditions": [{"type": "X", "status": "True"}]}, "spec": {"rules": []}}
    for content_type in (MERGE, STRATEGIC):
        answer = await site.send("PATCH", f"{SCHEMAS}/f/status", patch, content_type=content_type)
        assert "X" == answer.body["status"]["conditions"][0]["type"]
    read = await site.get(f"{SCHEMAS}/f/status")
    assert answer.body == read.body
    await site.send("POST", NAMESPACES, namespace("n"))
    await site.send("DELETE", f"{NAMESPACES}/n")
    final = await site.send("PUT", f"{NAMESPACES}/n/finalize", namespace("n"))

    assert 200 == final.status
    assert 404 == (await site.get(f"{NAMESPACES}/n")).status
    assert 405 == (await site.get(f"{NAMESPACES}/n/finalize")).status


async def test_conflicts(site: Site) -> None:
    """Who replaces what he has not seen is told so, by version or by uid."""
    await site.send("POST", SCHEMAS, flow_schema())
    stale = await site.send("PUT", f"{SCHEMAS}/f", flow_schema(resourceVersion="1"))
    other = await site.send("PUT", f"{SCHEMAS}/f", flow_schema(uid="u"))
    gone = await site.send("PUT", f"{SCHEMAS}/g", flow_schema("g", uid="u"))
    none = await site.send("PUT", f"{SCHEMAS}/g", flow_schema("g"))
    wrong = await site.send("PUT", f"{SCHEMAS}/g", flow_schema("f"))
    nameless = await site.send("PUT", f"{SCHEMAS}/f", {"spec": {}})
    free = await site.send("PUT", f"{SCHEMAS}/f", flow_schema())

    for answer in (stale, other):
        assert (409, "Conflict") == answer.summary
    assert (404, "NotFound") == none.summary == gone.summary
    assert (400, "BadRequest") == wrong.summary == nameless.summary
    assert 200 == free.status


async def test_budgets_are_replaced_knowingly(site: Site) -> None:
    """A replacement says which state it replaces; a patch need not."""
    await site.send("POST", BUDGETS, budget())
    answer = await site.send("PUT", f"{BUDGETS}/b", budget())
    patched = await site.send("PATCH", f"{BUDGETS}/b", {}, content_type=MERGE)

    assert [("metadata.resourceVersion", "FieldValueInvalid")] == answer.causes
    assert 200 == patched.status


@pytest.mark.parametrize(
    ("query", "body", "expected"),
    [
        pytest.param("", None, 200, id="plain"),
        pytest.param("?orphanDependents=false", None, 202, id="cascading"),
        pytest.param("", {"orphanDependents": False}, 202, id="in-body"),
        pytest.param("?propagationPolicy=Background", None, 200, id="background"),
        pytest.param("?propagationPolicy=Sideways", None, 422, id="bad"),
        pytest.param("", {"preconditions": {"uid": "u"}}, 409, id="precondition"),
        pytest.param("", {"kind": "Bogus", "apiVersion": "v1"}, 400, id="other-kind"),
    ],
)
async def test_deletions(site: Site, query: str, body: Object | None, expected: int) -> None:
    """An object that has to wait is answered itself, in the old way with 202."""
    await site.send("POST", SCHEMAS, flow_schema(**HELD))
    answer = await site.send("DELETE", f"{SCHEMAS}/f{query}", body)

    assert expected == answer.status
    assert ("FlowSchema" if expected < 300 else "Status") == answer.body["kind"]


@pytest.mark.parametrize(
    ("body", "content_type", "message"),
    [
        pytest.param(b"{}x", JSON, "invalid character 'x' after top-level value", id="json"),
        pytest.param(b" ", JSON, "unexpected end of JSON input", id="blank"),
    ],
)
async def test_options_that_cannot_be_read(
    site: Site, body: bytes, content_type: str, message: str
) -> None:
    """Nobody says what a body of a deletion should have been."""
    answer = await site.send("DELETE", f"{SCHEMAS}/f", body, content_type=content_type)

    expected = f"couldn't get version/kind; json parse error: {message}"
    assert (400, expected) == (answer.status, answer.body["message"])


async def test_a_body_of_nothing_counts(site: Site) -> None:
    """With any body the parameters do not count: `dryRun` there does not save the object."""
    await site.send("POST", SCHEMAS, flow_schema())
    answer = await site.send("DELETE", f"{SCHEMAS}/f?dryRun=All", b"null", content_type=JSON)

    assert [200, 404] == [answer.status, (await site.get(f"{SCHEMAS}/f")).status]


async def test_exports_are_refused(site: Site) -> None:
    """What once gave an object without its state says so, unless it is not wanted."""
    answers = [await site.get(f"{SCHEMAS}/x?export={value}") for value in ("true", "false")]

    assert [400, 404] == [answer.status for answer in answers]


async def test_pods_are_answered(site: Site) -> None:
    """A pod that is deleted is answered itself, even if it is gone."""
    await site.send("POST", PODS, pod())
    answer = await site.send("DELETE", f"{PODS}/p?gracePeriodSeconds=0")

    assert (200, "Pod") == (answer.status, answer.body["kind"])
    assert 0 == answer.body["metadata"]["deletionGracePeriodSeconds"]
    assert 404 == (await site.get(f"{PODS}/p")).status


async def test_delete_collection(site: Site) -> None:
    """What is selected goes, or begins to, and is answered as it was."""
    for name, metadata in (("a", {}), ("b", HELD), ("c", {})):
        labels = {"keep": "yes"} if name == "c" else {"keep": "no"}
        await site.send("POST", SCHEMAS, flow_schema(name, labels=labels, **metadata))
    dry = await site.send("DELETE", f"{SCHEMAS}?labelSelector=keep%3Dno&dryRun=All")
    limited = await site.send("DELETE", f"{SCHEMAS}?labelSelector=keep%3Dno&limit=1&dryRun=All")
    done = await site.send("DELETE", f"{SCHEMAS}?labelSelector=keep%3Dno")
    bad = await site.send("DELETE", f"{SCHEMAS}?fieldSelector=spec.x%3Dy")

    assert ["a", "b"] == names(dry.body) == names(done.body)
    assert ["a"] == names(limited.body)
    assert "FlowSchemaList" == done.body["kind"]
    assert "deletionTimestamp" not in done.body["items"][1]["metadata"]
    assert ["b", "c"] == names((await site.get(SCHEMAS)).body)
    assert (400, "BadRequest") == bad.summary
    assert 405 == (await site.send("DELETE", NAMESPACES)).status
    assert 405 == (await site.send("DELETE", "/api/v1/pods")).status


async def test_evictions(site: Site) -> None:
    """A pod that no budget protects is evicted."""
    await site.send("POST", PODS, pod())
    path = f"{PODS}/p/eviction"
    for body in ({"metadata": {"name": "q"}}, {"kind": "Pod", "apiVersion": "v1"}):
        assert 400 == (await site.send("POST", path, body)).status
    dry = {"metadata": {"name": "p"}, "deleteOptions": {"dryRun": ["All"]}}
    assert 201 == (await site.send("POST", path, dry)).status
    assert 200 == (await site.get(f"{PODS}/p")).status
    eviction = {"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": "p"}}
    assert 405 == (await site.get(path)).status
    assert 415 == (await site.send("POST", path, eviction, content_type="a/b")).status
    answer = await site.send("POST", path, {**eviction, "apiVersion": "policy/v1"})

    assert (201, "Success") == (answer.status, answer.body["status"])
    assert 404 == (await site.get(f"{PODS}/p")).status


async def test_future_states_of_objects(site: Site) -> None:
    """A state that is yet to come is waited for, and then refused; any state is there."""
    await site.send("POST", SCHEMAS, flow_schema())
    late = await site.get(f"{SCHEMAS}/f?resourceVersion=999")

    assert (504, "Timeout") == late.summary
    assert "1" == late.headers["Retry-After"]
    assert 200 == (await site.get(f"{SCHEMAS}/f?resourceVersion=0")).status
    assert 200 == (await site.get(f"{SCHEMAS}/f?resourceVersion=1")).status


def head(method: str, path: str, *fields: str, version: str = "1.1") -> bytes:
    """The head of a request."""
    lines = [f"{method} {path} HTTP/{version}", "Host: x", *fields, "Connection: close", "", ""]
    return "\r\n".join(lines).encode()


async def test_bodies_in_chunks(site: Site) -> None:
    """A body need not say how long it is."""
    data = json.dumps(flow_schema()).encode()
    fields = ("Content-Type: application/json", "Transfer-Encoding: chunked")
    answer = await site.raw(
        head("POST", SCHEMAS, *fields),
        b"".join(b"1\r\n%c\r\n" % byte for byte in data) + b"0\r\n\r\n",
    )

    assert answer.startswith(b"HTTP/1.1 201 ")


async def test_expectations(site: Site) -> None:
    """Who waits before he sends a body is told to go on."""
    data = json.dumps(flow_schema()).encode()
    fields = ("Content-Type: application/json", f"Content-Length: {len(data)}")
    answer = await site.raw(
        head("POST", SCHEMAS, *fields, "Expect: 100-continue"), data, reads_first=True
    )

    assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 ")


async def test_old_clients(site: Site) -> None:
    """HTTP/1.0 has no chunks: what is streamed ends with the connection."""
    for number in range(300):
        await site.add(FLOW_SCHEMA, flow_schema(f"f{number}"))
    answer = await site.raw(head("GET", SCHEMAS, version="1.0"))
    watched = await site.raw(head("GET", f"{SCHEMAS}?watch=true&timeoutSeconds=1", version="1.0"))

    fields, _, body = answer.partition(b"\r\n\r\n")
    assert b"chunked" not in fields
    assert 300 == len(json.loads(body)["items"])
    assert 300 == watched.count(b'"ADDED"')


async def test_huge_bodies(site: Site) -> None:
    """413 before it is read, if it says how long it is, or else when it is too long."""
    said = await site.raw(head("POST", SCHEMAS, f"Content-Length: {LARGEST_BYTES + 1}"))
    chunk = b"%x\r\n%b\r\n" % (LARGEST_BYTES // 2, b" " * (LARGEST_BYTES // 2))
    unsaid = await site.raw(
        head("POST", SCHEMAS, "Transfer-Encoding: chunked"), chunk * 2 + b"2\r\n  \r\n"
    )

    for answer in (said, unsaid):
        assert answer.startswith(b"HTTP/1.1 413 ")
        assert b'"reason":"RequestEntityTooLarge"' in answer


async def test_bodies_that_are_not_what_they_say(site: Site) -> None:
    """A body that cannot be unpacked is the client's fault."""
    fields = ("Content-Encoding: gzip", "Content-Type: application/json", "Content-Length: 5")
    answer = await site.raw(head("POST", SCHEMAS, *fields) + b"hello")

    assert answer.startswith(b"HTTP/1.1 400 ")


async def test_large_yaml(site: Site) -> None:
    """A large body is read in a thread, and comes to the same."""
    text = f"metadata: {{name: p}}\n{'# ' + 'x' * COMPRESSED_BYTES}\nspec: [broken"
    answers = [
        await site.send("POST", PODS, text.encode(), content_type=YAML),
        await site.send("PATCH", f"{PODS}/p?fieldManager=m", text.encode(), content_type=APPLY),
    ]

    assert [400, 400] == [answer.status for answer in answers]
    assert "(must be of type Pod): yaml: line " in answers[0].body["message"]
