"""Requests of the machine's clients, and the objects by which they are classified."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from apfproxy.objects.decode import decode_documents
from tests.support.objects import flow_schema, priority_level

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apfproxy.objects.types import FlowControlObject

HANDSHAKE = (
    b"Connection: Upgrade\r\n",
    b"Upgrade: websocket\r\n",
    b"Sec-WebSocket-Version: 13\r\n",
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
)
SPDY = (b"Connection: Upgrade\r\n", b"Upgrade: SPDY/3.1\r\n")
POD = b"/api/v1/namespaces/a/pods/b"


@dataclass(frozen=True)
class Request:
    """One of few requests, told apart by method and target; `content` is its decoded body."""

    method: bytes
    target: bytes
    head: bytes
    body: bytes = b""
    content: bytes = b""
    token: str = ""
    is_long_running: bool = False
    takes_seats: bool = True
    protocol: bytes = b""
    is_good: bool = True


def request(
    line: bytes,
    token: str = "quick",  # noqa: S107  of no one
    *lines: bytes,
    body: bytes = b"",
    chunks: tuple[bytes, ...] | None = None,
    version: bytes = b"1.1",
    is_good: bool = True,
) -> Request:
    method, target = line.split(b" ")
    fields = [b"Host: h\r\n", *lines]
    if token:
        fields.append(b"Authorization: Bearer %b\r\n" % token.encode())
    raw, content = body, body
    if chunks is not None:
        fields.append(b"Transfer-Encoding: chunked\r\n")
        raw = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"
        content = b"".join(chunks)
    elif body:
        fields.append(b"Content-Length: %d\r\n" % len(body))
    head = b"%b HTTP/%b\r\n%b\r\n" % (line, version, b"".join(fields))
    is_watch = b"watch=1" in target
    is_other = b"/exec" in target or b"/log" in target
    upgrade = {HANDSHAKE: b"websocket", SPDY: b"SPDY/3.1"}
    return Request(
        method,
        target,
        head,
        raw,
        content,
        token,
        is_long_running=is_watch or is_other,
        takes_seats=not is_other,
        protocol=upgrade.get(lines, b""),
        is_good=is_good,
    )


LONG = b"x" * 90

REQUESTS = (
    request(b"GET " + POD),
    request(b"GET " + POD + b"?quick"),
    request(b"GET " + POD + b"?slow", "slow"),
    request(b"GET " + POD + b"?fickle", "fickle"),
    request(b"GET /api/v1/pods?fickle", "fickle"),
    request(b"GET /plain?fickle", "fickle"),
    request(b"GET " + POD + b"?bad", "bad"),
    request(b"GET " + POD + b"?nobody", ""),
    request(b"GET /api/v1/pods"),
    request(b"GET /api/v1/pods?timeout=1s"),
    request(b"HEAD " + POD),
    request(b"DELETE " + POD),
    request(b"POST /api/v1/namespaces/a/pods", body=b"body"),
    request(b"POST /api/v1/namespaces/a/pods?slow", "slow", body=b"body"),
    request(b"POST /api/v1/namespaces/a/pods?fickle", "fickle", body=b"12345678901234567890"),
    request(b"PUT " + POD, body=LONG),
    request(b"POST /long", body=LONG * 3),
    request(b"POST /long?fickle", "fickle", body=LONG * 3),
    request(b"POST /chunked", chunks=(b"one", b"two")),
    request(b"POST /chunked?fickle", "fickle", chunks=(LONG, b"2", LONG)),
    request(b"POST /expect", "quick", b"Expect: 100-continue\r\n", body=b"expected"),
    request(b"GET /api/v1/pods?watch=1"),
    request(b"GET /api/v1/pods?watch=1&slow", "slow"),
    request(b"GET /api/v1/pods?watch=1&sendInitialEvents=true"),
    request(b"GET /api/v1/pods?watch=1&upgrade", "quick", *HANDSHAKE),
    request(b"GET " + POD + b"/exec?command=ls", "quick", *HANDSHAKE),
    request(b"POST " + POD + b"/exec", "quick", *SPDY, body=b"four"),
    request(b"GET " + POD + b"/log?follow=1"),
    request(b"POST " + POD + b"/exec?plain", body=b"body"),
    request(b"GET /old", version=b"1.0"),
    request(b"GET /old?kept", "quick", b"Connection: keep-alive\r\n", version=b"1.0"),
    request(b"GET /last", "quick", b"Connection: close\r\n"),
    request(b"GET /refusing"),
    request(b"GET /banned"),
    request(b"GET /rated"),
    request(b"GET /limited/api/v1?watch=1"),
    request(b"GET /apis/limited/v1/things?watch=1"),
    request(b"GET /exempt"),
    request(b"POST /too-long", body=b"y" * 5000, is_good=False),
    request(b"GET /bad", "quick", b"No colon\r\n", is_good=False),
    request(b"POST /bad-chunk", chunks=(b"abc",)),
)
BAD_CHUNKS = b"3\r\nabcX"
GARBAGE = b"\x16\x03\x01 not HTTP at all\r\n\r\n"

BY_LINE = {(each.method, each.target): each for each in REQUESTS}
assert len(BY_LINE) == len(REQUESTS)

REJECT = {"type": "Reject"}
ANY_USER = {"kind": "User", "user": {"name": "*"}}
Json = dict[str, Any]


def queued(queues: int, hand: int, length: int, lendable: int = 0) -> Json:
    queuing = {"queues": queues, "handSize": hand, "queueLengthLimit": length}
    return {
        "nominalConcurrencyShares": 100_000,
        "lendablePercent": lendable,
        "limitResponse": {"type": "Queue", "queuing": queuing},
    }


def rejecting(shares: int, lendable: int = 0) -> Json:
    return {
        "nominalConcurrencyShares": shares,
        "lendablePercent": lendable,
        "limitResponse": REJECT,
    }


def schema(
    name: str, precedence: int, level: str, url: str, group: str = "nowhere", **additions: str
) -> Json:
    everything = {"verbs": ["*"], "apiGroups": [group], "resources": ["*"], "namespaces": ["*"]}
    rule = {
        "subjects": [ANY_USER],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": [url]}],
        "resourceRules": [{**everything, "clusterScope": True}],
    }
    return flow_schema(
        name,
        matchingPrecedence=precedence,
        priorityLevelConfiguration={"name": level},
        distinguisherMethod={"type": "ByUser"},
        rules=[rule],
    ) | annotated(name, **additions)


def annotated(name: str, **additions: str) -> Json:
    notes = {f"apfproxy.io/{key.replace('_', '-')}": value for key, value in additions.items()}
    return {"metadata": {"name": name, "annotations": notes}}


def configuration(
    normal: Json, level: str = "normal", **additions: str
) -> Sequence[FlowControlObject]:
    objects = (
        priority_level("normal", limited=normal),
        priority_level("refusing", limited=rejecting(1, 100)),
        priority_level("banned", limited=rejecting(0)) | annotated("banned", ban="true"),
        schema("refusing", 10, "refusing", "/refusing"),
        schema("banned", 11, "banned", "/banned"),
        schema("rated", 12, level, "/rated", request_rate="1", request_burst="2"),
        schema("limited", 13, level, "/limited/*", "limited", long_running_limit="1"),
        schema("exempt-too", 14, "exempt", "/exempt"),
        schema("normal", 100, level, "*", "*", **additions),
    )
    decoded = decode_documents(b"\n---\n".join(map(msgspec.json.encode, objects)), "objects.yaml")
    assert not decoded.problems
    return decoded.objects


CONFIGURATIONS: tuple[Sequence[FlowControlObject], ...] = (
    configuration(queued(1, 1, 3)),
    configuration(queued(4, 2, 1, lendable=50), long_running_limit="2", flow_requests_limit="3"),
    configuration(queued(1, 1, 3), level="refusing"),
    configuration(rejecting(10), bytes_per_second="1k"),
    configuration(queued(1, 1, 3), level="exempt"),
    (),
)
"""The last one leaves the mandatory objects alone."""
