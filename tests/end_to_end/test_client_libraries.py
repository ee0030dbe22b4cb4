"""Clients and operators of others: what each is used for, through the proxy.

kubectl has files of its own, as has the rest of the Kubernetes client for Python.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.end_to_end.api_servers import PROXIED
from tests.end_to_end.programs import installed

NAMESPACE = "default"
WITHIN_S = 60
LEASE_S = 15
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"
JAVASCRIPT = Path(__file__).with_name("client.mjs")


def config_map(name: str, **data: str) -> dict[str, Any]:
    metadata = {"name": name, "labels": {"of": name}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


@pytest.fixture
def server(servers: dict[str, str]) -> str:
    return servers[PROXIED]


def test_kubernetes(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It elects leaders: the first while it renews its lease, the other once that has expired."""
    client: Any = importlib.import_module("kubernetes.client")
    election: Any = importlib.import_module("kubernetes.leaderelection.leaderelection")
    locks: Any = importlib.import_module("kubernetes.leaderelection.resourcelock.leaselock")
    configs: Any = importlib.import_module("kubernetes.leaderelection.electionconfig")
    now_s = [1_700_000_000.25]
    monkeypatch.setattr(election, "time", SimpleNamespace(time=lambda: now_s[0]))
    configuration = client.Configuration()
    configuration.host = server
    api = client.CoordinationV1Api(client.ApiClient(configuration))
    candidates = []
    for name in ("first", "second"):
        lock = locks.LeaseLock("leader", NAMESPACE, name)
        lock.api_instance = api
        config = configs.Config(lock, LEASE_S, 10, 2, lambda: None, None)
        candidates.append(election.LeaderElection(config))

    for pause_s, leads in (
        (0, [True, False]),
        (LEASE_S - 1, [True, False]),
        (LEASE_S + 1, [False, True]),
    ):
        now_s[0] += pause_s
        order = zip(leads, candidates, strict=True)
        assert all(each.try_acquire_or_renew() for is_leader, each in order if is_leader)
        assert leads == [each.try_acquire_or_renew() for each in candidates]
    assert "second" == api.read_namespaced_lease("leader", NAMESPACE).spec.holder_identity


async def test_kubernetes_asyncio(server: str) -> None:
    """It lists, patches, applies, goes on with a watch, and elects a leader."""
    client: Any = importlib.import_module("kubernetes_asyncio.client")
    watch: Any = importlib.import_module("kubernetes_asyncio.watch")
    election: Any = importlib.import_module("kubernetes_asyncio.leaderelection.leaderelection")
    locks: Any = importlib.import_module("kubernetes_asyncio.leaderelection.resourcelock.leaselock")
    configs: Any = importlib.import_module("kubernetes_asyncio.leaderelection.electionconfig")
    of = {"namespace": NAMESPACE, "label_selector": "of=asyncio"}

    async with client.ApiClient(client.Configuration(host=server)) as api_client:
        core = client.CoreV1Api(api_client)
        listed = await core.list_namespaced_config_map(**of)
        assert [] == listed.items
        await core.create_namespaced_config_map(NAMESPACE, config_map("asyncio", a="1"))
        await core.patch_namespaced_config_map(
            "asyncio", NAMESPACE, {"data": {"b": "2"}}, _content_type=MERGE
        )
        applied = await core.patch_namespaced_config_map(
            "asyncio", NAMESPACE, config_map("asyncio", a="3"), _content_type=APPLY,
            field_manager="it", force=True,
        )  # fmt: skip
        assert {"a": "3", "b": "2"} == applied.data

        seen: list[tuple[str, Any]] = []
        version = listed.metadata.resource_version
        for _ in range(2):  # each watch goes on from the last event of the one before
            stream = watch.Watch().stream(
                core.list_namespaced_config_map, **of, resource_version=version
            )
            async with stream:
                async for event in stream:
                    seen.append((event["type"], event["object"].data))
                    version = event["object"].metadata.resource_version
                    break
        assert [("ADDED", {"a": "1"}), ("MODIFIED", {"a": "1", "b": "2"})] == seen
        await core.delete_namespaced_config_map("asyncio", NAMESPACE)

        candidates = []
        for name in ("first", "second"):
            lock = locks.LeaseLock("asyncio", NAMESPACE, name, api_client)
            config = configs.Config(lock, LEASE_S, 10, 2, print, None)
            candidates.append(election.LeaderElection(config))
        for _ in range(2):
            assert [True, False] == [await each.try_acquire_or_renew() for each in candidates]


async def test_lightkube(server: str) -> None:
    """It lists, patches, applies and goes on with a watch, in typed objects."""
    lightkube: Any = importlib.import_module("lightkube")
    core: Any = importlib.import_module("lightkube.resources.core_v1")
    kubeconfig: Any = importlib.import_module("lightkube.config.kubeconfig")
    types: Any = importlib.import_module("lightkube.types")
    config = kubeconfig.SingleConfig(
        context_name="it",
        context=kubeconfig.Context(cluster="it", user="it"),
        cluster=kubeconfig.Cluster(server=server),
        user=kubeconfig.User(),
    )

    async with lightkube.AsyncClient(config, namespace=NAMESPACE, field_manager="it") as client:
        listed = client.list(core.ConfigMap, labels={"of": "lightkube"})
        assert [] == [each async for each in listed]
        version = listed.resourceVersion
        first = await client.create(core.ConfigMap.from_dict(config_map("lightkube", a="1")))
        patch = {"data": {"b": "2"}}
        await client.patch(core.ConfigMap, "lightkube", patch, patch_type=types.PatchType.MERGE)
        applied = await client.apply(
            core.ConfigMap.from_dict(config_map("lightkube", a="3")), force=True
        )
        assert {"a": "3", "b": "2"} == applied.data

        for since, kind in ((version, "ADDED"), (first.metadata.resourceVersion, "MODIFIED")):
            async for event, obj in client.watch(
                core.ConfigMap, labels={"of": "lightkube"}, resource_version=since
            ):
                assert (kind, "lightkube") == (event, obj.metadata.name)
                break
        await client.delete(core.ConfigMap, "lightkube")


@pytest.mark.filterwarnings("ignore:Kubernetes version .* is not supported:UserWarning")
async def test_kr8s(server: str) -> None:
    """It lists, patches, labels, watches and waits for the end of an object."""
    kr8s: Any = importlib.import_module("kr8s")
    objects: Any = importlib.import_module("kr8s.asyncio.objects")
    api = await kr8s.asyncio.api(url=server)
    selector = {"namespace": NAMESPACE, "label_selector": {"of": "kr8s"}}

    assert [] == [each async for each in api.get("configmaps", **selector)]
    made = await objects.ConfigMap(config_map("kr8s", a="1"), namespace=NAMESPACE, api=api)
    await made.create()
    await made.patch({"data": {"b": "2"}}, type="merge")
    await made.label(step="labelled")
    (found,) = [each async for each in api.get("configmaps", **selector)]
    assert ({"a": "1", "b": "2"}, "labelled") == (found.data, found.labels["step"])
    async with contextlib.aclosing(api.watch("configmaps", **selector)) as events:
        async for event, obj in events:
            if event == "ADDED":
                await made.delete()
            else:
                assert ("DELETED", "kr8s") == (event, obj.name)
                break
    assert not await made.exists()
    await api._session.aclose()  # noqa: SLF001  it has no method that does


async def test_kopf(server: str) -> None:
    """An operator is told of objects, keeps them until it is done, patches, and posts events."""
    kopf: Any = importlib.import_module("kopf")
    client: Any = importlib.import_module("kubernetes_asyncio.client")
    registry, settings = kopf.OperatorRegistry(), kopf.OperatorSettings()
    settings.posting.enabled = True
    ready, stop, told = asyncio.Event(), asyncio.Event(), asyncio.Queue[str]()

    @kopf.on.login(registry=registry)  # type: ignore[untyped-decorator]
    def login(**_: object) -> object:
        return kopf.ConnectionInfo(server=server)

    @kopf.on.create("configmaps", labels={"of": "kopf"}, registry=registry)  # type: ignore[untyped-decorator]
    def create(body: Any, patch: Any, **_: object) -> None:  # noqa: ANN401  of kopf
        patch.metadata.labels["step"] = "created"
        kopf.info(body, reason="Greeted", message="Hello.")
        told.put_nowait("create")

    @kopf.on.update("configmaps", labels={"of": "kopf"}, field="data", registry=registry)  # type: ignore[untyped-decorator]
    def update(new: object, **_: object) -> None:
        told.put_nowait(f"update {new}")

    @kopf.on.delete("configmaps", labels={"of": "kopf"}, registry=registry)  # type: ignore[untyped-decorator]
    def delete(**_: object) -> None:
        told.put_nowait("delete")

    async with client.ApiClient(client.Configuration(host=server)) as api_client:
        core = client.CoreV1Api(api_client)
        operator = asyncio.ensure_future(
            kopf.operator(
                registry=registry, settings=settings, namespaces=[NAMESPACE], standalone=True,
                ready_flag=ready, stop_flag=stop,
            )
        )  # fmt: skip
        try:
            async with asyncio.timeout(WITHIN_S):
                await ready.wait()
                await core.create_namespaced_config_map(NAMESPACE, config_map("kopf", a="1"))
                assert "create" == await told.get()
                await core.patch_namespaced_config_map(
                    "kopf", NAMESPACE, {"data": {"a": "2"}}, _content_type=MERGE
                )
                assert "update {'a': '2'}" == await told.get()
                found = await core.read_namespaced_config_map("kopf", NAMESPACE)
                assert "created" == found.metadata.labels["step"]
                assert ["kopf.zalando.org/KopfFinalizerMarker"] == found.metadata.finalizers
                await core.delete_namespaced_config_map("kopf", NAMESPACE)
                assert "delete" == await told.get()
                while True:
                    events = await core.list_namespaced_event(
                        NAMESPACE, field_selector="involvedObject.name=kopf"
                    )
                    if "Greeted" in [event.reason for event in events.items]:
                        break
        finally:
            stop.set()
            await operator


def test_javascript(server: str) -> None:
    """The Kubernetes client for JavaScript lists, patches, applies, and its informer follows."""
    modules = Path(sys.prefix, "node_modules")
    done = subprocess.run(  # noqa: S603  Node.js, on a script of the tests
        [installed("node"), JAVASCRIPT, server, modules],
        capture_output=True,
        check=False,
        text=True,
        timeout=WITHIN_S,
    )
    assert (0, "") == (done.returncode, done.stderr)
