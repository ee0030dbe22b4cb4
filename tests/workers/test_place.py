"""Tests of what a worker is told, and what that makes of its settings."""

from __future__ import annotations

import json
import os
import pickle
import socket
from typing import TYPE_CHECKING

import msgspec
import pytest
from msgspec import structs

from apfproxy.base.errors import OperatorError
from apfproxy.base.memory import default_bytes
from apfproxy.settings import AUTO_WORKERS, AdminTlsSettings, Settings
from apfproxy.settings.file import parse_settings
from apfproxy.workers.link import Renew
from apfproxy.workers.place import (
    STORE,
    WORKER,
    SentSettings,
    WorkerPlace,
    part_of,
    placed,
    worker_count,
    worker_place,
)
from tests.workers.scripts import PLACE

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("objects", [None, "/run/a/objects"])
def test_told(objects: str | None) -> None:
    """A worker reads what its parent says, and its own children do not."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        place = msgspec.structs.replace(PLACE, objects=objects, link=theirs.fileno())
        environment = {"A": "b"} | place.told()

        assert place == worker_place(environment)
    assert {"A": "b"} == environment
    assert worker_place(environment) is None


@pytest.mark.parametrize("wrong", ["", "{}", "1", '{"index": "a"}', "-1/1", "0/1", "9/3", "9/0"])
def test_nonsense(wrong: str, tmp_path: Path) -> None:
    """Other text, a link that is no socket, and an index out of range are errors."""
    ours, theirs = socket.socketpair()
    with ours, theirs, (tmp_path / "file").open("w") as file:
        text = wrong
        if "/" in wrong:
            link, index = map(int, wrong.split("/"))
            links = {9: theirs.fileno(), 0: file.fileno(), -1: -1}
            place = msgspec.structs.replace(PLACE, link=links[link], index=index)
            text = place.told()[WORKER]
        with pytest.raises(OperatorError, match=r"APFPROXY_WORKER: .*; only the parent"):
            worker_place({WORKER: text})


def handed(data: bytes) -> WorkerPlace:
    """A place with the descriptor of these settings, which its reader closes."""
    descriptor = os.memfd_create("settings")
    os.write(descriptor, data)
    return structs.replace(PLACE, settings=descriptor)


def test_sent_settings() -> None:
    """They come whole, by the names of their fields, so that newer code can have more of these.

    Each is read once: then those in force are, which what was refused is not.
    """
    document = {
        "upstream": {"endpoints": [{"url": "http://a:1"}]},
        "downstream": {"trustedProxies": ["::1/128", "10.0.0.0/8"]},
        "clusters": [{"name": "b", "hosts": ["c"]}, {"name": "d"}],
    }
    first = parse_settings(json.dumps(document).encode(), "f")
    kind, values = first.fleet.__reduce__()[1]
    second = structs.replace(first, log_level="debug")
    sent = SentSettings(handed(pickle.dumps(first)), pytest.fail)
    found = [sent()]
    numbers = [sent.settle(is_refused=False)]
    sent.sent = Renew(1, pickle.dumps(second))
    for is_refused in (True, False):
        found.append(sent())
        numbers.append(sent.settle(is_refused=is_refused))

    assert [placed(each, PLACE, 2) for each in (first, second, first)] == found
    assert [0, 1, 1] == numbers
    assert {*values} == {*kind.__struct_fields__}


@pytest.mark.parametrize("data", [None, b"", b"x", pickle.dumps(1), b"cnowhere\nnothing\n."])
def test_settings_of_other_code(data: bytes | None) -> None:
    reads = [Settings(workers=3), Settings(workers=2)]
    sent = SentSettings(PLACE if data is None else handed(data), reads.pop)
    found = [sent()]
    sent.settle(is_refused=False)
    found.append(sent())

    assert [(STORE, 2), (STORE, 3)] == [(each.fleet.store, each.workers) for each in found]


@pytest.mark.parametrize(("whole", "count"), [(10, 3), (2, 3), (0, 3), (7, 1)])
def test_parts(whole: int, count: int) -> None:
    """The parts make the whole, unless somebody would have none."""
    parts = [
        part_of(whole, msgspec.structs.replace(PLACE, index=index, count=count))
        for index in range(1, count + 1)
    ]

    assert max(whole, count) == sum(parts)
    assert max(parts) - min(parts) <= 1


DIVIDED = """
accessLog: {refusedPerSecond: 3, maxBytesPerSecond: 9000}
adminTls: {certificateFile: a, keyFile: b, clientCaFile: c}
adminReadTokenFile: d
downstream: {limits: {maxConnections: 101}, overload: {memoryBytes: 4MiB}}
upstream: {maxConnections: 50, maxRequestsPerEndpoint: 3}
clusters: [{name: a, hosts: [a]}, {name: b}]
"""
GIVEN = "{flowControl: {hashSeed: 3}, fleet: {store: 'redis://a', member: m, replicas: 5}}"


def settings(text: str) -> Settings:
    return parse_settings(text.encode(), "f")


def test_placed() -> None:
    """Limits are divided, and addresses and names are a worker's own, unless they are given."""
    found = placed(settings(DIVIDED), PLACE)
    of_a, of_b = found.clusters
    limits, fleet, log = found.downstream.limits, found.fleet, found.access_log

    assert (51, 1 << 21) == (limits.max_connections, found.downstream.overload.memory_bytes)
    assert (25, 2) == (found.upstream.max_connections, found.upstream.max_requests_per_endpoint)
    assert (3, 4500) == (log.refused_per_second, log.max_bytes_per_second)
    assert (AdminTlsSettings(), None) == (found.admin_tls, found.admin_read_token_file)
    assert ("parent:link", "worker-1", 2) == (fleet.store, fleet.member, fleet.replicas)
    assert of_a.settings is not None
    assert fleet == of_a.settings.fleet
    assert 7 == of_a.settings.flow_control.hash_seed
    assert of_b.settings is None
    found = placed(settings(GIVEN), PLACE)
    fleet = found.fleet
    assert default_bytes() // PLACE.count == found.downstream.limits.max_held_bytes
    assert 3 == found.flow_control.hash_seed
    assert ("redis://a", "m-worker-1", 10) == (fleet.store, fleet.member, fleet.replicas)


def test_objects_of_a_store() -> None:
    stored = settings("{flowControl: {store: a.db}, adminTokenFile: token}")
    found = placed(stored, msgspec.structs.replace(PLACE, objects="/run/a/objects"))
    flow_control = found.flow_control

    assert (None, ("/run/a/objects",)) == (flow_control.store, flow_control.objects)
    assert (False, None) == (flow_control.suggested_objects, found.admin_token_file)


@pytest.mark.parametrize(
    ("quota", "processors", "count"),
    [
        pytest.param("max 100000\n", 8, 8, id="no-quota"),
        pytest.param("250000 100000\n", 8, 3, id="a-part-counts"),
        pytest.param("10000 100000\n", 8, 1, id="at-least-one"),
        pytest.param("9000000 100000\n", 8, 8, id="more-than-there-are"),
        pytest.param("1 0\n", 8, 8, id="nonsense"),
        pytest.param(None, 8, 8, id="no-cgroup"),
        pytest.param(None, 400, 128, id="most"),
    ],
)
def test_auto(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quota: str | None, processors: int, count: int
) -> None:
    """One for each processor that this process may use; else what is asked for."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(processors)))
    path = tmp_path / "cpu.max"
    if quota is not None:
        path.write_text(quota)

    assert count == worker_count(AUTO_WORKERS, path)
    assert (3, 0) == (worker_count(3, path), worker_count(None, path))
