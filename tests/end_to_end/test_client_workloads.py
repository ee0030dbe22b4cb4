"""What clients do beside their work: they elect leaders, and record events."""

from __future__ import annotations

import asyncio
import importlib
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from tests.end_to_end.api_servers import DIRECT, PROXIED, api_servers, in_thread

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.e2e

client: Any = importlib.import_module("kubernetes.client")
leader_election: Any = importlib.import_module("kubernetes.leaderelection.leaderelection")
election_config: Any = importlib.import_module("kubernetes.leaderelection.electionconfig")
lease_lock: Any = importlib.import_module("kubernetes.leaderelection.resourcelock.leaselock")

NAMESPACE = "default"
LEASE_S = 15
RECORDERS = 200
TIMES = 3
"""How often each recorder reports its event."""
STRATEGIC = {"Content-Type": "application/strategic-merge-patch+json"}


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, str]]:
    """Two servers, one of them behind the proxy: name to URL."""
    with in_thread(api_servers()) as urls:
        yield urls


class Candidate:
    """Wants to lead, with the Kubernetes client for Python."""

    def __init__(self, url: str, identity: str) -> None:
        configuration = client.Configuration()
        configuration.host = url
        lock = lease_lock.LeaseLock("leader", NAMESPACE, identity)
        lock.api_instance = client.CoordinationV1Api(client.ApiClient(configuration))
        self._api = lock.api_instance
        self._election = leader_election.LeaderElection(
            election_config.Config(lock, LEASE_S, 10, 2, lambda: None, None)
        )

    def tries(self) -> bool:
        """Try to lead, or to go on leading; whether it does."""
        return bool(self._election.try_acquire_or_renew())

    def leader(self) -> str:
        """Who leads."""
        return str(self._api.read_namespaced_lease("leader", NAMESPACE).spec.holder_identity)


@pytest.mark.parametrize("server", [DIRECT, PROXIED])
def test_leader_election(
    servers: dict[str, str], server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first leads while it renews its lease, and the other once that has expired."""
    now_s = [1_700_000_000.25]
    clock = SimpleNamespace(time=lambda: now_s[0])
    monkeypatch.setattr(leader_election, "time", clock)
    first, second = (Candidate(servers[server], name) for name in ("first", "second"))

    assert (True, False) == (first.tries(), second.tries())
    now_s[0] += LEASE_S - 1
    assert (True, False) == (first.tries(), second.tries())
    now_s[0] += LEASE_S + 1
    assert second.tries()
    assert not first.tries()
    assert "second" == first.leader()


async def record(session: aiohttp.ClientSession, number: int) -> None:
    """Report one event some times, as the recorder of client-go's `tools/record` does.

    It creates the event, and patches its count by a strategic merge patch.
    """
    path = f"/api/v1/namespaces/{NAMESPACE}/events"
    name = f"old-{number}"
    event = {
        "metadata": {"name": name},
        "involvedObject": {"kind": "Pod", "name": f"p{number}", "namespace": NAMESPACE},
        "reason": "Started",
        "source": {"component": f"recorder-{number}"},
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "count": 1,
    }
    async with session.post(path, json=event) as answer:
        assert 201 == answer.status, await answer.text()
    for count in range(2, TIMES + 1):
        patch = {"count": count, "lastTimestamp": f"2026-01-01T00:00:0{count}Z"}
        async with session.patch(f"{path}/{name}", json=patch, headers=STRATEGIC) as answer:
            assert 200 == answer.status, await answer.text()


async def record_series(session: aiohttp.ClientSession, number: int) -> None:
    """Report one event some times, as the recorder of client-go's `tools/events` does.

    It creates the event in `events.k8s.io`, and patches its series.
    """
    path = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"
    name = f"new-{number}"
    event = {
        "metadata": {"name": name},
        "eventTime": "2026-01-01T00:00:00.000001Z",
        "reportingController": "recorder",
        "reportingInstance": f"recorder-{number}",
        "action": "Start",
        "reason": "Started",
        "regarding": {"kind": "Pod", "name": f"q{number}", "namespace": NAMESPACE},
        "type": "Normal",
    }
    async with session.post(path, json=event) as answer:
        assert 201 == answer.status, await answer.text()
    for count in range(2, TIMES + 1):
        seen = f"2026-01-01T00:00:0{count}.000000Z"
        patch = {"series": {"count": count, "lastObservedTime": seen}}
        async with session.patch(f"{path}/{name}", json=patch, headers=STRATEGIC) as answer:
            assert 200 == answer.status, await answer.text()


@pytest.mark.parametrize("server", [DIRECT, PROXIED])
async def test_event_recorders(servers: dict[str, str], server: str) -> None:
    """Two hundred recorders of both kinds lose no event, and both forms show all of them."""
    async with aiohttp.ClientSession(servers[server]) as session:
        await asyncio.gather(
            *(record(session, number) for number in range(RECORDERS // 2)),
            *(record_series(session, number) for number in range(RECORDERS // 2)),
        )
        async with session.get(f"/api/v1/namespaces/{NAMESPACE}/events") as answer:
            old = (await answer.json())["items"]
        async with session.get(f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events") as answer:
            new = (await answer.json())["items"]

    assert (RECORDERS, RECORDERS) == (len(old), len(new))
    counts = [event.get("count") or event["series"]["count"] for event in old]
    assert [TIMES] * RECORDERS == counts
    assert {f"recorder-{number}" for number in range(RECORDERS // 2)} == {
        event["deprecatedSource"]["component"] for event in new if event["deprecatedSource"]
    }
