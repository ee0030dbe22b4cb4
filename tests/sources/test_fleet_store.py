"""The store that settings name, and records in a ConfigMap of `apfproxy apiserver`."""

from __future__ import annotations

import json
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import ClientSession, web

from apfproxy.base.errors import OperatorError
from apfproxy.fleet.record import MAX_RECORD_BYTES
from apfproxy.fleet.store import Stored, StoreError
from apfproxy.settings import FleetSettings
from apfproxy.sources.api_credentials import ApiCredentials
from apfproxy.sources.fleet_store import open_store
from apfproxy.sources.kubeconfig import ApiAccess
from apfproxy.sources.kubernetes_api import KubernetesApi
from apfproxy.sources.kubernetes_store import KubernetesStore
from tests.end_to_end.api_servers import api_server
from tests.fleet.agreement import agrees
from tests.sources.test_kubernetes_api import api_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

NOTHING = Stored(None, "")
PATH = "/api/v1/namespaces/default/configmaps/fleet"


@pytest.fixture
async def port() -> AsyncIterator[int]:
    async with api_server() as port:
        yield port


def store_of(port: int, key: str = "a") -> KubernetesStore:
    return KubernetesStore(api_at(port), "default", "fleet", key)


def api_at(port: int) -> KubernetesApi:
    access = ApiAccess(server=f"http://127.0.0.1:{port}")
    return KubernetesApi(access.server, ApiCredentials(access))


@asynccontextmanager
async def stores_of(port: int, *keys: str) -> AsyncIterator[list[KubernetesStore]]:
    stores = [store_of(port, key) for key in keys]
    yield stores
    for each in stores:
        await each.close()


async def test_agreement(port: int) -> None:
    async with stores_of(port, "a", "a") as stores:
        await agrees(*stores)


async def test_several_records(port: int) -> None:
    async with stores_of(port, "a/b", "a/c") as (one, other):
        first = await one.swap(b"1", NOTHING)
        second = await other.swap(b"2", NOTHING)
        assert (await one.swap(b"3", first.stored)).is_done
        assert (await other.swap(b"4", second.stored)).is_done
        api = api_at(port)
        data = (await api.get(PATH, {}))["data"]
        await api.close()

        assert ("3", "4") == (data["a_b"], data["a_c"])
        assert {"a_b", "a_b_version", "a_c", "a_c_version"} == data.keys()


async def test_deleted(port: int) -> None:
    """A ConfigMap that somebody deletes or empties is nothing, and is made again."""
    async with stores_of(port, "a") as (store,):
        seen = await store.swap(b"1", NOTHING)
        api = api_at(port)
        async with ClientSession() as session:
            await session.delete(f"http://127.0.0.1:{port}{PATH}")
        late = await store.swap(b"2", seen.stored)
        assert (False, NOTHING) == (late.is_done, late.stored)
        again = await store.swap(b"2", late.stored)
        assert again.is_done
        await api.merge(PATH, {"data": {"a": None, "a_version": None}})
        await api.close()

        assert NOTHING == await store.read()
        assert (await store.swap(b"3", NOTHING)).is_done


@pytest.mark.parametrize(
    "data", [{"a": "1"}, {"a_version": "1"}, {"a": "1", "a_version": ""}], ids=str
)
async def test_garbage(port: int, data: dict[str, str]) -> None:
    async with stores_of(port, "a", "b") as (store, other):
        await other.swap(b"1", NOTHING)
        api = api_at(port)
        await api.merge(PATH, {"data": data})
        await api.close()
        for again in (store.read(), store.swap(b"1", NOTHING)):
            with pytest.raises(StoreError, match="default/fleet: a has something else than a rec"):
                await again


async def test_what_is_no_record(port: int) -> None:
    async with stores_of(port, "a") as (store,):
        with pytest.raises(StoreError, match="more than"):
            await store.swap(b"x" * (MAX_RECORD_BYTES + 1), NOTHING)
        with pytest.raises(StoreError, match="has texts only"):
            await store.swap(b"\xff", NOTHING)


def answering(*answers: tuple[int, Any]) -> Any:  # noqa: ANN401 - a handler
    left = list(answers)

    async def handle(_request: web.Request) -> web.Response:
        status, body = left.pop(0)
        return web.Response(status=status, body=json.dumps(body))

    return handle


THERE = {"metadata": {"resourceVersion": "7"}, "data": {"a": "1", "a_version": "v"}}


@pytest.mark.parametrize(
    ("answers", "problem"),
    [
        (
            [(403, {"message": "may not"})],
            "answered 403: may not; config/kubernetes/rbac/fleet.yaml has the rights",
        ),
        pytest.param([(500, {})], "answered 500", id="server-error"),
        pytest.param([(200, {})], "the response has no resource version", id="no-version"),
        pytest.param([(200, {"metadata": 7})], "no resource version", id="no-meta"),
        ([(200, THERE | {"data": {"a": 7, "a_version": "v"}})], "something else"),
        pytest.param([(200, THERE | {"data": [7]})], "something else than a record", id="list"),
        ([(200, THERE | {"data": {"a": "\ud800", "a_version": "v"}})], "no JSON"),
    ],
)
async def test_wrong_answers(answers: list[tuple[int, Any]], problem: str) -> None:
    async with api_of(answering(*answers)) as api:
        store = KubernetesStore(api, "default", "fleet", "a")
        with pytest.raises(StoreError, match=f"the ConfigMap default/fleet: .*{problem}"):
            await store.read()


async def test_written_by_others() -> None:
    """Writes of other records are no conflict, but not without an end."""
    answers = [(409, {}), (200, THERE)] * 20
    async with api_of(answering((200, THERE), *answers)) as api:
        store = KubernetesStore(api, "default", "fleet", "a")
        seen = await store.read()
        with pytest.raises(StoreError, match="was changed by others 8 times in between"):
            await store.swap(b"2", seen)


async def test_written_in_between() -> None:
    """A write of the same record in between is a conflict, and what is there is handed back."""
    other = THERE | {"data": {"a": "2", "a_version": "w"}}
    async with api_of(answering((200, THERE), (409, {}), (200, other))) as api:
        store = KubernetesStore(api, "default", "fleet", "a")
        swapped = await store.swap(b"3", await store.read())

    assert (False, Stored(b"2", "w")) == (swapped.is_done, swapped.stored)


@pytest.mark.parametrize(("headers", "pause_s"), [({"Retry-After": "3"}, 3.0), ({}, 0.0)])
async def test_too_many_requests(headers: dict[str, str], pause_s: float) -> None:
    async def refuse(_request: web.Request) -> web.Response:
        return web.Response(status=429, headers=headers)

    async with api_of(refuse) as api:
        store = KubernetesStore(api, "default", "fleet", "a")
        with pytest.raises(StoreError, match="answered 429") as error:
            await store.read()

    assert pause_s == error.value.pause_s


@pytest.mark.parametrize(
    ("store", "problem"),
    [
        ("parent:link", "only workers have the store of their parent"),
        ("http://u:secret@a", r"^fleet\.store "),
    ],
)
def test_store_that_cannot_be_opened(store: str, problem: str) -> None:
    with pytest.raises(OperatorError, match=problem) as error:
        open_store(FleetSettings(store=store), "a")
    assert "secret" not in str(error.value)


def test_without_redis_py(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in sys.modules if each.startswith("apfproxy.fleet.redis")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "redis.asyncio", None)
    with pytest.raises(OperatorError, match=r"redis\.asyncio is not installed: pip install 'apfp"):
        open_store(FleetSettings(store="redis://a"), "a")


def test_kubernetes_outside_a_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(OperatorError, match=r"fleet\.kubeconfig"):
        open_store(FleetSettings(store="kubernetes:a/b"), "a")
