"""Any method and target: attributes, or the one error; the same as by the plainest reading.

The plain reading is kube-apiserver's order of steps, one after the other over a list of segments,
with Go's rules for escapes; it decides paths and verbs.  What depends on the query (watches and
names in field selectors, deadlines, list options) is checked for its bounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from apfproxy.request.attributes import (
    AttributesError,
    DeadlineError,
    RequestAttributes,
    parse_attributes,
    parse_duration_ns,
    request_timeout_ns,
)
from tests.fuzz.driver import raw_messages

if TYPE_CHECKING:
    from collections.abc import Mapping

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
HEXADECIMAL = b"0123456789abcdefABCDEF"
UNITS_NS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "\u03bcs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}


class RefusedError(Exception):
    """The plain reading makes nothing of the target."""


@dataclass
class Plain:
    path: str
    is_resource_request: bool = False
    verb: str = ""
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
    """Make attributes of one input: a byte that picks the method, then the target."""
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
    """Read a target that begins with a slash as kube-apiserver does.

    Raises:
        RefusedError: Go's server refuses it, or it ends after a deprecated verb.
    """
    for byte in target:
        if byte < 0x20 or byte == 0x7F:
            raise RefusedError
    path = _text(_unescaped(target.split(b"?", 1)[0]))
    result = Plain(path, verb=method.lower())
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
    asks_for_many = plain.is_resource_request and not plain.name and plain.verb == "get"
    if asks_for_many:
        assert found.verb in ("list", "watch"), found
        assert "/" not in found.name
    else:
        assert (plain.verb, plain.name) == (found.verb, found.name), (found, plain)
    assert (
        plain.path,
        plain.is_resource_request,
        plain.api_group,
        plain.api_version,
        plain.namespace,
        plain.resource,
        plain.subresource,
    ) == (
        found.path,
        found.is_resource_request,
        found.api_group,
        found.api_version,
        found.namespace,
        found.resource,
        found.subresource,
    ), (found, plain)


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
    _check_durations(found.query)


def _check_durations(query: Mapping[str, tuple[str, ...]]) -> None:
    for text in query.get("timeout", ()):
        plain = _duration_ns(text)
        try:
            found = parse_duration_ns(text)
        except DeadlineError:
            assert plain is None or abs(plain) >= 1 << 63 or len(text) > 60, (text, plain)
        else:
            assert plain is not None, (text, found)
            assert abs(found - plain) <= 60, (text, found, plain)


def _duration_ns(text: str) -> Fraction | None:
    sign = -1 if text.startswith("-") else 1
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return Fraction(0)
    total = Fraction(0)
    if not rest:
        return None
    while rest:
        number = ""
        while rest and rest[0] in "0123456789.":
            number, rest = number + rest[0], rest[1:]
        unit = ""
        while rest and rest[0] not in "0123456789.":
            unit, rest = unit + rest[0], rest[1:]
        if number in ("", ".") or number.count(".") > 1 or unit not in UNITS_NS:
            return None
        whole, _, part = number.partition(".")
        value = Fraction(int(whole or 0)) + Fraction(int(part or 0), 10 ** len(part))
        total += value * UNITS_NS[unit]
    return sign * total


def _unescaped(path: bytes) -> bytes:
    """The path with its escapes decoded."""
    result = bytearray()
    position = 0
    while position < len(path):
        byte = path[position]
        if byte == 0x25:
            digits = path[position + 1 : position + 3]
            if len(digits) < 2 or any(digit not in HEXADECIMAL for digit in digits):
                raise RefusedError
            byte = int(digits, 16)
            position += 2
        result.append(byte)
        position += 1
    return bytes(result)


def _text(data: bytes) -> str:
    text = ""
    while data:
        for length in (1, 2, 3, 4):
            try:
                text += data[:length].decode()
            except UnicodeDecodeError:
                continue
            data = data[length:]
            break
        else:
            text += "\N{REPLACEMENT CHARACTER}"
            data = data[1:]
    return text


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
