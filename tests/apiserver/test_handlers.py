"""Tests of handlers and bodies, beside the recorded requests."""

from __future__ import annotations

import gzip
import json
import threading
from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.apiserver.bodies import (
    LARGEST_BYTES,
    check_number,
    decode,
    expected_of,
    weight_of,
)
from apfproxy.apiserver.core.pods import POD
from apfproxy.apiserver.errors import StatusError
from apfproxy.apiserver.flowcontrol import FLOW_SCHEMA
from apfproxy.apiserver.handlers import Paths
from apfproxy.apiserver.kinds import KINDS
from apfproxy.apiserver.options import asked_version, manager_of
from apfproxy.apiserver.outcomes import LARGE_BYTES
from apfproxy.apiserver.policy import EVICTIONS
from apfproxy.apiserver.registry import Registry
from apfproxy.apiserver.responses import PROTOBUF, WARNINGS, Renderer
from apfproxy.apiserver.reviews import SELECTORS
from apfproxy.apiserver.schema.body import MAGIC, MOST_OBJECTS
from apfproxy.apiserver.schema.reading import read
from apfproxy.apiserver.schema.shared_structs import DELETE_OPTIONS
from apfproxy.apiserver.store.entries import StoreError
from apfproxy.request.attributes import parse_query
from tests.apiserver.schema.protobuf_writer import block, document
from tests.apiserver.site import (
    JSON_PATCH,
    MERGE,
    NAMESPACES,
    PODS,
    SCHEMAS,
    TABLE,
    YAML,
    flow_schema,
    pod,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.objects.types import Object
    from tests.apiserver.site import Answer, Site


PATHS = Paths(KINDS)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("api", 404), ("api/v1/pods/b", 404), ("api/v1/namespaces//pods", 404),
        ("api/v1/namespaces/a/pods/b/status/more", 404),
        ("api/v1/namespaces/a/nodes", 404),
        ("api/v1/watch/namespaces/a/pods/b/status", 404),
        ("api/v1/watch", 404), ("api/v1/nodes/.", 400), ("api/v1/nodes/..", 400),
        ("api/v1/nodes/a%b", 400),
    ],
)  # fmt: skip
def test_nothing_there(path: str, status: int) -> None:
    with pytest.raises(StatusError) as caught:
        PATHS.target(path.split("/"))
    assert status == caught.value.code


async def test_streamed_lists(site: Site) -> None:
    for number in range(300):
        await site.create(FLOW_SCHEMA, flow_schema(f"f{number}"))
    plain = await site.get(SCHEMAS)
    packed = await site.get(SCHEMAS, headers={"Accept-Encoding": "gzip"})
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
    monkeypatch.setattr("apfproxy.apiserver.responses.STREAMED_BYTES", 1000)
    await site.create(FLOW_SCHEMA, flow_schema("a"))
    small = await site.get(SCHEMAS)
    await site.create(FLOW_SCHEMA, flow_schema("b", annotations={"a": "x" * 1000}))
    large = await site.get(SCHEMAS)
    assert "Content-Length" in small.headers
    assert "chunked" == large.headers["Transfer-Encoding"]
    assert 2 == len(large.body["items"])


async def test_another_client_deletes_too(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "ab":
        await site.send("POST", SCHEMAS, flow_schema(name))
    delete = Registry.delete

    async def delete_all(registry: Registry, *_: Any) -> Any:  # noqa: ANN401  as it is
        for name in "ab":
            written = await delete(registry, FLOW_SCHEMA, "", name, *_[3:])
        return written

    monkeypatch.setattr(Registry, "delete", delete_all)
    found = await site.send("DELETE", SCHEMAS)

    assert (200, 2) == (found.status, len(found.body["items"]))


def head(method: str, path: str, *fields: str, version: str = "1.1") -> bytes:
    lines = [f"{method} {path} HTTP/{version}", "Host: x", *fields, "Connection: close", "", ""]
    return "\r\n".join(lines).encode()


async def test_huge_bodies(site: Site) -> None:
    said = await site.raw(head("POST", SCHEMAS, f"Content-Length: {LARGEST_BYTES + 1}"))
    chunk = b"%x\r\n%b\r\n" % (LARGEST_BYTES // 2, b" " * (LARGEST_BYTES // 2))
    unsaid = await site.raw(
        head("POST", SCHEMAS, "Transfer-Encoding: chunked"), chunk * 2 + b"2\r\n  \r\n"
    )

    for answer in (said, unsaid):
        assert answer.startswith(b"HTTP/1.1 413 ")
        assert b'"reason":"RequestEntityTooLarge"' in answer


async def test_large_requests_are_judged_in_threads(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reviews, options of deletions and patches that copy: else all other requests would wait."""
    threads: list[threading.Thread] = []

    def noting(work: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*given: object) -> Any:  # noqa: ANN401  what it returns
            threads.append(threading.current_thread())
            return work(*given)

        return noted

    await site.create(FLOW_SCHEMA, flow_schema())
    name, (parse, is_known) = "labelSelector", SELECTORS["labelSelector"]
    monkeypatch.setitem(SELECTORS, name, (noting(parse), is_known))
    monkeypatch.setattr("apfproxy.apiserver.bodies.read", noting(read))
    monkeypatch.setattr("apfproxy.apiserver.options.read", noting(read))
    selector = {"rawSelector": ",".join(["a"] * LARGE_BYTES)}
    spec = {"user": "u", "resourceAttributes": {"verb": "get", name: selector}}
    copy = {"op": "copy", "from": "/metadata/name", "path": "/metadata/labels"}
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    empty: list[list[object]] = [[{}] * 500, [None] * 500, [""] * 3000]
    answers = [
        await site.send("POST", path, {"spec": spec}),
        await site.send("PATCH", f"{SCHEMAS}/f", [copy], content_type=JSON_PATCH),
        await site.send("DELETE", f"{SCHEMAS}/f", {"dryRun": ["x"] * LARGE_BYTES}),
        *[
            await site.send("PATCH", f"{SCHEMAS}/f", {"x": items}, content_type=MERGE)
            for items in empty
        ],
    ]
    assert [201, 422, 422, 200, 200, 200] == [each.status for each in answers]
    assert len(threads) == len(answers)
    assert threading.current_thread() not in threads


async def test_bodies_that_are_not_what_they_say(site: Site) -> None:
    fields = ("Content-Encoding: gzip", "Content-Type: application/json", "Content-Length: 5")
    answer = await site.raw(head("POST", SCHEMAS, *fields) + b"hello")
    assert answer.startswith(b"HTTP/1.1 400 ")


async def send(site: Site, method: str, path: str, body: bytes) -> Answer:
    accept = f"{PROTOBUF},application/json"
    return await site.send(method, path, body, accept=accept, content_type=PROTOBUF)


async def test_pods_with_fields_that_are_kept(site: Site) -> None:
    spec = block(2, block(1, b"c") + block(2, b"i")) + block(16, b"host")
    body = MAGIC + block(1, block(1, b"v1") + block(2, b"Pod")) + block(2, block(2, spec))
    refused = await send(site, "POST", PODS, body)
    assert (415, "UnsupportedMediaType") == refused.summary
    assert "field 16 of PodSpec cannot be kept" in refused.body["message"]


async def test_options_in_protobuf(site: Site) -> None:
    await site.send("POST", PODS, pod())
    other = document(POD.storage.schema, "v1", "Pod", {})
    uid: Object = {"preconditions": {"uid": "x"}}
    options = document(DELETE_OPTIONS, "policy/v1", "DeleteOptions", uid)
    eviction: Object = {"metadata": {"name": "p"}, "deleteOptions": uid}
    sent = document(EVICTIONS["policy/v1"], "policy/v1", "Eviction", eviction)
    path = f"{PODS}/p"
    answers = [
        await send(site, "DELETE", path, other),
        await send(site, "DELETE", path, options),
        await send(site, "POST", f"{path}/eviction", other),
        await send(site, "POST", f"{path}/eviction", sent),
        await send(site, "DELETE", path, document(DELETE_OPTIONS, "v1", "DeleteOptions", {})),
    ]

    assert [400, 409, 400, 409, 200] == [answer.status for answer in answers]


async def test_no_protobuf_answers(site: Site) -> None:
    only = await site.get(NAMESPACES, accept=PROTOBUF)
    patch = await send(site, "PATCH", f"{NAMESPACES}/default", b"k8s\x00")
    assert (406, "NotAcceptable") == only.summary
    assert 415 == patch.status


AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


@pytest.mark.parametrize("path", ["/api", "/apis"])
async def test_aggregated_discovery(site: Site, path: str) -> None:
    answer = await site.get(path, accept=f"{AGGREGATED},application/json")
    tag = answer.headers["ETag"]
    again = await site.get(path, accept=AGGREGATED, headers={"If-None-Match": tag})
    unknown = await site.get(path, accept=AGGREGATED.replace("v2", "v9") + ",application/json")
    assert "APIGroupDiscoveryList" == answer.body["kind"]
    assert AGGREGATED == answer.headers["Content-Type"]
    assert (304, b"") == (again.status, again.data)
    assert "APIGroupDiscoveryList" != unknown.body["kind"]


@pytest.mark.parametrize(
    ("path", "accept"),
    [
        ("/openapi/v2", "application/json"),
        ("/openapi/v2", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"),
        ("/openapi/v3", "application/json"),
        ("/openapi/v3/apis/policy/v1", "application/json"),
    ],
)
async def test_openapi(site: Site, path: str, accept: str) -> None:
    plain = await site.get(path, accept=accept)
    packed = await site.get(path, accept=accept, headers={"Accept-Encoding": "gzip"})
    known = {"If-None-Match": plain.headers["ETag"]}
    again = await site.get(path, accept=accept, headers=known)
    assert 200 == plain.status
    assert plain.data == gzip.decompress(packed.data)
    assert (304, b"") == (again.status, again.data)


async def test_unforeseen_failures(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> bytes:  # noqa: ANN401  whatever is asked
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(Renderer, "document", fail)
    await site.send("POST", SCHEMAS, flow_schema())
    answer = await site.get(f"{SCHEMAS}/f")

    assert (500, "InternalError") == answer.summary
    assert b"secret" not in answer.data
    assert "secret" in caplog.text


async def test_failures_of_the_disk(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any, **__: Any) -> Any:  # noqa: ANN401  whatever is asked
        raise StoreError("the disk is full")

    monkeypatch.setattr(site.store, "put", fail)
    answer = await site.send("POST", SCHEMAS, flow_schema())

    assert (500, "InternalError") == answer.summary
    assert b"the disk is full" in answer.data
    assert [] == caplog.messages, "the store itself logs it, once for all writes"


AUTHENTICATION = "/apis/authentication.k8s.io/v1"
AUTHORIZATION = "/apis/authorization.k8s.io/v1"
SELF = f"{AUTHORIZATION}/selfsubjectaccessreviews"
OTHER = f"{AUTHORIZATION}/subjectaccessreviews"
LOCAL = f"{AUTHORIZATION}/namespaces/a/localsubjectaccessreviews"
VERB = {"verb": "get"}
LISTED = {"key": "a", "operator": "In", "values": ["b"]}
EXISTING = {"key": "a", "operator": "Exists"}
TOKEN = {"user": {}, "error": "invalid bearer token"}
AUTHENTICATED = "system:authenticated"


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, {"username": "system:anonymous", "groups": ["system:unauthenticated"]}),
        (
            {"X-Remote-User": "ann", "X-Remote-Group": "a", "X-Remote-Extra-B%2fc": "d"},
            {"username": "ann", "groups": ["a", AUTHENTICATED], "extra": {"b/c": ["d"]}},
        ),
        (
            {"X-Remote-User": "ann", "Impersonate-User": "bob", "Impersonate-Uid": "7"},
            {"username": "bob", "groups": [AUTHENTICATED], "uid": "7"},
        ),
        ({"Impersonate-Group": "a"}, None),
    ],
    ids=["nobody", "front-proxy", "impersonated", "group-of-nobody"],
)
async def test_who_asks(site: Site, headers: dict[str, str], expected: Object | None) -> None:
    path = f"{AUTHENTICATION}/selfsubjectreviews"
    found = await site.send("POST", path, {}, headers=headers)
    if expected is None:
        assert (400, "BadRequest") == found.summary
    else:
        assert (201, expected) == (found.status, found.body["status"]["userInfo"])
        assert ["creationTimestamp"] == list(found.body["metadata"])


@pytest.mark.parametrize(
    ("path", "spec", "status"),
    [
        (SELF, {"nonResourceAttributes": {"path": "/x"}}, {"allowed": True}),
        (OTHER, {"user": "a", "resourceAttributes": VERB}, {"allowed": True}),
        (LOCAL, {"groups": ["a"], "resourceAttributes": {"namespace": "a"}}, {"allowed": True}),
        (f"{AUTHENTICATION}/tokenreviews", {"token": "x"}, TOKEN),
    ],
)
@pytest.mark.parametrize("is_protobuf", [False, True])
async def test_allowed(
    site: Site, path: str, spec: Object, status: Object, is_protobuf: bool
) -> None:
    body: Any = {
        "spec": spec,
        "metadata": {"uid": "x", "creationTimestamp": "2020-01-01T00:00:00Z"},
    }
    if is_protobuf:
        kind = next(kind for kind in KINDS if kind.plural == path.rpartition("/")[2])
        body = document(kind.storage.schema, kind.api_version("v1"), kind.name, body)
    found = await site.send("POST", path, body, content_type=PROTOBUF if is_protobuf else "")

    assert (201, spec, status) == (found.status, found.body["spec"], found.body["status"])
    assert {"managedFields"} == found.body["metadata"].keys() - {"namespace"}


@pytest.mark.parametrize(
    ("fields", "labels", "ignored"),
    [
        ({"rawSelector": "a=b"}, {"rawSelector": "a"}, []),
        ({"rawSelector": "a"}, {"rawSelector": "a in"}, ["fieldSelector", "labelSelector"]),
        ({"requirements": [EXISTING]}, {"requirements": [EXISTING]}, ["fieldSelector"]),
        (
            {"requirements": [LISTED, EXISTING]},
            {"requirements": [LISTED, {"key": "a", "operator": "Gt"}]},
            ["fieldSelector partially", "labelSelector partially"],
        ),
    ],
)
async def test_ignored_selectors(
    site: Site, fields: Object, labels: Object, ignored: list[str]
) -> None:
    attributes = {**VERB, "fieldSelector": fields, "labelSelector": labels}
    found = await site.send("POST", SELF, {"spec": {"resourceAttributes": attributes}})

    assert "; ".join(
        f"spec.resourceAttributes.{each} ignored due to parse error" for each in ignored
    ) == found.body["status"].get("evaluationError", "")


@pytest.mark.parametrize(
    ("extra", "shown"),
    [(1, "map[string]v1.ExtraValue"), ({"a": 1}, "v1.ExtraValue"), ({"a": [1]}, "string")],
)
async def test_types_of_extra_values(site: Site, extra: object, shown: str) -> None:
    found = await site.send("POST", OTHER, {"spec": {"extra": extra}})

    assert found.body["message"].endswith(f"SubjectAccessReviewSpec.spec.extra of type {shown}")


async def test_subresources_of_clusters(site: Site) -> None:
    """A subresource that only a cluster can serve is not found, and named."""
    known, unknown = [await site.send("GET", f"{PODS}/x/{name}") for name in ("log", "logs")]

    assert (404, "NotFound") == known.summary == unknown.summary
    assert f"{unknown.body['message']}: pods/log is not served here" == known.body["message"]


async def test_rules(site: Site) -> None:
    found = await site.send(
        "POST", f"{AUTHORIZATION}/selfsubjectrulesreviews", {"spec": {"namespace": "a"}}
    )
    assert {
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        "incomplete": False,
    } == found.body["status"]


ATTRIBUTES = "spec.resourceAttributes"
REQUIREMENT = f"{ATTRIBUTES}.{{}}Selector.requirements[0].{{}}"


def limited(field: str, **selector: object) -> Object:
    return {"resourceAttributes": {**VERB, field: selector}}


@pytest.mark.parametrize(
    ("path", "spec", "fields"),
    [
        (SELF, {}, [ATTRIBUTES]),
        (SELF, {"resourceAttributes": VERB, "nonResourceAttributes": VERB},
         ["spec.nonResourceAttributes", "metadata"]),
        (OTHER, {"resourceAttributes": VERB}, ["spec.user"]),
        (LOCAL, {"user": "a", "resourceAttributes": VERB}, [f"{ATTRIBUTES}.namespace"]),
        (LOCAL, {"user": "a", "nonResourceAttributes": VERB}, ["spec.nonResourceAttributes"]),
        (SELF, limited("fieldSelector"), [f"{ATTRIBUTES}.fieldSelector.requirements"]),
        (SELF, limited("labelSelector", rawSelector="a", requirements=[{"operator": "New"}]),
         [f"{ATTRIBUTES}.labelSelector.rawSelector", *[REQUIREMENT.format("label", "key")] * 2]),
        (SELF, limited("fieldSelector", requirements=[{"operator": "In"}]),
         [REQUIREMENT.format("field", "key"), REQUIREMENT.format("field", "values")]),
    ],
)  # fmt: skip
async def test_invalid(site: Site, path: str, spec: Object, fields: list[str]) -> None:
    metadata = {"name": "x"} if "metadata" in fields else {}
    found = await site.send("POST", path, {"metadata": metadata, "spec": spec})
    assert fields == [field for field, _ in found.causes]
    assert found.body["message"].startswith('.authorization.k8s.io "" is invalid: ')


GROUP = "flowcontrol.apiserver.k8s.io"
EXPECTED = expected_of(FLOW_SCHEMA, FLOW_SCHEMA.storage)


async def test_no_update_creates_what_has_another_uid(site: Site) -> None:
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/a"
    refused = await site.send("PUT", path, {"metadata": {"name": "a", "uid": "x"}})
    made = await site.send("PUT", path, {"metadata": {"name": "a", "resourceVersion": "7"}})

    assert (409, 201) == (refused.status, made.status)
    assert "in precondition: x, UID in object meta: " in refused.body["message"]


def sent(data: bytes, validation: str = "Warn", content_type: str = "") -> dict[str, Any]:
    WARNINGS.set([])
    return decode((EXPECTED,), content_type, data, validation)


UNKNOWN = "the object provided is unrecognized (must be of type FlowSchema): "
CUT = 'FlowSchema in version "v1" cannot be handled as a FlowSchema: unexpected EOF'
DEEP = b'{"metadata":' + b'{"a":' * 20_000 + b"1" + b"}" * 20_001
BAD = {
    "empty": (PROTOBUF, b"", f"{UNKNOWN}empty data (<empty>)"),
    "empty-envelope": (PROTOBUF, b"k8s\x00", f"{UNKNOWN}empty body (6b387300)"),
    "no-protobuf": (
        PROTOBUF, b"{" * 31,
        f"{UNKNOWN}provided data does not appear to be a protobuf message, expected prefix [107",
    ),
    "cut": (PROTOBUF, document(EXPECTED.schema, "", "", {}) + b"\x12\x01\x0a", CUT),
    "cut-and-nameless": (PROTOBUF, b"k8s\x00" + block(2, b"\x0a"), CUT),
    "other-kind": (
        PROTOBUF, document(EXPECTED.schema, "v1", "Pod", {}),
        'Pod in version "v1" cannot be handled as a FlowSchema: converting (v1.Pod) to (flowcontro',
    ),
    "other-version": (
        PROTOBUF, document(EXPECTED.schema, f"{GROUP}/v1beta3", "FlowSchema", {}),
        f"the API version in the data ({GROUP}/v1beta3) does not match the expected API version (",
    ),
    "deep": ("", b"[" * 100_000 + b"]" * 100_000, f"{UNKNOWN}couldn't get version/kind"),
    "deep-object": ("", DEEP, f"{UNKNOWN}couldn't get version/kind"),
}  # fmt: skip


@pytest.mark.parametrize(("content_type", "data", "message"), BAD.values(), ids=BAD)
def test_bad_bodies(content_type: str, data: bytes, message: str) -> None:
    """400; what is no text is shown as hexadecimal digits."""
    with pytest.raises(StatusError) as error:
        sent(data, "Warn", content_type)
    assert (400, "BadRequest") == (error.value.code, error.value.reason)
    assert error.value.message.startswith(message)
    assert len(error.value.message) < 1000


def test_weights() -> None:
    """Usual objects weigh a few times as much as they have bytes; almost empty ones weigh more."""
    usual = json.dumps(pod()).encode()
    assert len(usual) < weight_of(usual) < 5 * len(usual)
    assert weight_of(MAGIC + bytes(5000)) > LARGE_BYTES


@pytest.mark.parametrize("piece", [b"{},", b"null,"])
def test_too_many_objects(piece: bytes) -> None:
    check_number(piece * MOST_OBJECTS)
    with pytest.raises(StatusError) as caught:
        check_number(piece * (MOST_OBJECTS + 1))
    assert (413, "RequestEntityTooLarge") == (caught.value.code, caught.value.reason)


AGENT = "kubectl/v1.36.0 (linux/amd64)"


@pytest.mark.parametrize(
    ("user_agent", "manager"),
    [
        (AGENT, "kubectl"), ("", "unknown"), ("/1", "unknown"), ("a\tb\u00ad c/1", "ab c"),
        (200 * "a", 128 * "a"),
        (127 * "a" + "\u00e4" + "b", 127 * "a"),
    ],
)  # fmt: skip
def test_manager_of(user_agent: str, manager: str) -> None:
    assert manager == manager_of(user_agent)


def test_exports_are_refused() -> None:
    for query in (b"export", b"export=1"):
        with pytest.raises(StatusError, match="export"):
            asked_version(parse_query(query))
