"""Any method and target: attributes, or the one error; the same as by the plainest reading.

The plain reading is kube-apiserver's order of steps, with Go's rules for escapes; it decides paths
and verbs.  What depends on the query is checked for its bounds.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass

from apfproxy.request.attributes import (
    AttributesError,
    DeadlineError,
    RequestAttributes,
    parse_attributes,
    request_timeout_ns,
)
from tests.fuzz.driver import raw_messages

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE", "get")
VERBS = {
    "POST": "create",
    "GET": "get",
    "HEAD": "get",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
MINUTE_NS = 60_000_000_000


class RefusedError(Exception):
    """The plain reading makes nothing of the target."""


@dataclass
class Plain:
    """The attributes that kube-apiserver makes of method and path."""

    path: str
    verb: str
    is_resource_request: bool = False
    api_group: str = ""
    api_version: str = ""
    namespace: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""


def _values_of(attributes: RequestAttributes) -> dict[str, object]:
    found = {name: getattr(attributes, name) for name in dir(attributes) if name[0] != "_"}
    return {name: value for name, value in found.items() if not callable(value)}


def run_one(data: bytes) -> None:
    """Take a byte that picks the method, then the target."""
    method = METHODS[(data[0] if data else 0) % len(METHODS)]
    target = data[1:]
    found = _attributes(method, target)
    again = _attributes(method, target)
    assert (found and _values_of(found)) == (again and _values_of(again))
    if found is not None:
        _check_bounds(found)
    if not target.startswith(b"/"):
        return
    try:
        plain = read_plainly(method, target)
    except RefusedError:
        assert found is None, found
        return
    assert found is not None, plain
    _compare(found, plain)


def _attributes(method: str, target: bytes) -> RequestAttributes | None:
    try:
        return parse_attributes(method, target)
    except AttributesError:
        return None


def read_plainly(method: str, target: bytes) -> Plain:
    """Read a target that begins with a slash; raises RefusedError, as Go's server does."""
    if any(byte < 0x20 or byte == 0x7F for byte in target):
        raise RefusedError
    path = _text(_unescaped(target.split(b"?", 1)[0]))
    result = Plain(path, method.lower())
    segments = path.strip("/").split("/")
    if segments[0] not in ("api", "apis") or len(segments) < 3:
        return result
    if segments.pop(0) == "apis":
        if len(segments) < 3:
            return result
        result.api_group = segments.pop(0)
    result.api_version = segments.pop(0)
    result.is_resource_request = True
    if segments[0] in ("watch", "proxy"):
        if len(segments) < 2:
            raise RefusedError
        result.verb = segments.pop(0)
    else:
        result.verb = VERBS.get(method, "")
    if segments[0] == "namespaces" and len(segments) > 1:
        result.namespace = segments[1]
        if len(segments) > 2 and segments[2] not in ("status", "finalize"):
            segments = segments[2:]
    result.resource = segments[0]
    if len(segments) > 1:
        result.name = segments[1]
    if len(segments) > 2 and result.verb != "proxy":
        result.subresource = segments[2]
    if not result.name and result.verb == "delete":
        result.verb = "deletecollection"
    return result


def _compare(found: RequestAttributes, plain: Plain) -> None:
    expected = asdict(plain)
    if plain.is_resource_request and not plain.name and plain.verb == "get":
        assert expected.pop("verb")
        assert expected.pop("name") == ""
        assert found.verb in ("list", "watch"), found
        assert "/" not in found.name
    assert expected == {name: getattr(found, name) for name in expected}, found


def _check_bounds(found: RequestAttributes) -> None:
    assert found.is_mutating == (found.verb not in ("get", "list", "watch"))
    assert (found.list_options is not None) == (found.verb in ("list", "watch"))
    if found.list_options is not None:
        assert -(1 << 63) <= found.list_options.limit < 1 << 63
    assert found.verb != "watch" or found.long_running
    for values in found.query.values():
        assert values
    try:
        timeout_ns = request_timeout_ns(found, MINUTE_NS)
    except DeadlineError:
        pass
    else:
        assert 0 < timeout_ns <= MINUTE_NS


def _unescaped(path: bytes) -> bytes:
    if re.search(rb"%(?![0-9a-fA-F]{2})", path):
        raise RefusedError
    return re.sub(rb"%(..)", lambda escape: bytes((int(escape[1], 16),)), path)


def _text(data: bytes) -> str:
    """Text with a mark for each byte that is none, as Go has it."""
    text = ""
    while True:
        try:
            return text + data.decode()
        except UnicodeDecodeError as error:
            text += data[: error.start].decode() + "\N{REPLACEMENT CHARACTER}"
            data = data[error.start + 1 :]


def seeds() -> list[bytes]:
    targets = {raw.split(b" ")[1][:300] for raw in raw_messages() if raw.count(b" ") > 1}
    targets |= {
        b"/api/v1/namespaces/n/pods/p/log?follow=1",
        b"/apis/apps/v1/namespaces/n/deployments?watch=true&timeoutSeconds=5&timeout=1m30.5s",
        b"/api/v1/watch/namespaces/n/pods/p",
        b"/api/v1/proxy/namespaces/n/services/s/a/b",
        b"/api/v1/namespaces/n/finalize",
        b"/api/v1/pods?fieldSelector=metadata.name%3Dx,spec.a!=b&limit=9223372036854775808",
        b"/api/v1/pods?labelSelector=a+in+(b,c),!d&resourceVersion=0&resourceVersionMatch=Exact",
        b"/api//v1///pods/%2F%ff%E2%82%AC",
        b"http://[fe80::1%25en0]:80/api/v1/pods",
    }
    return [bytes([number % 6]) + target for number, target in enumerate(sorted(targets))]
