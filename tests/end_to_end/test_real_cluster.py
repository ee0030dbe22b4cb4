"""The proxy before a real Kubernetes API: both name the same classes, request for request."""

from __future__ import annotations

import asyncio
import random
import ssl
from contextlib import asynccontextmanager
from dataclasses import dataclass
from ipaddress import ip_network
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from apfproxy.app.process import ProxyProcess
from apfproxy.settings import (
    Address,
    DownstreamSettings,
    FlowControlSettings,
    KubernetesSettings,
    Settings,
    UpstreamSettings,
    UpstreamTlsSettings,
)
from apfproxy.sources.kubeconfig import read_kubeconfig
from tests.end_to_end.api_servers import ANY_PORT, url_of
from tests.end_to_end.real_cluster import kubeconfig, needs_real_cluster
from tests.end_to_end.scene import on_uvloop

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from apfproxy.base.tls_files import Pem
    from apfproxy.sources.kubeconfig import ApiAccess

REQUESTS = 500
SCHEMAS = 24
GROUP = "/apis/flowcontrol.apiserver.k8s.io/v1"
PREFIX = "apfproxy-parity-"
SENTINEL = f"{PREFIX}sentinel"
FIELDS = ("X-Kubernetes-PF-FlowSchema-UID", "X-Kubernetes-PF-PriorityLevel-UID")

USERS = [
    ("alice", ("dev",)),
    ("bob", ("dev", "ops")),
    ("carol", ()),
    ("system:anonymous", ("system:unauthenticated",)),
    ("system:apiserver", ("system:masters",)),
    ("system:kube-controller-manager", ()),
    ("system:kube-scheduler", ()),
    ("system:node:n1", ("system:nodes",)),
    ("system:serviceaccount:kube-system:a", ("system:serviceaccounts",)),
    (
        "system:serviceaccount:team-a:builder",
        ("system:serviceaccounts", "system:serviceaccounts:team-a"),
    ),
    ("o'neill <x>", ("dev",)),
]
ROOTS = [
    ("/api/v1", ("pods", "services", "secrets", "nodes", "namespaces", "events", "endpoints")),
    ("/apis/apps/v1", ("deployments", "replicasets")),
    ("/apis/coordination.k8s.io/v1", ("leases",)),
    (GROUP, ("flowschemas", "prioritylevelconfigurations")),
    ("/apis/nobody.example/v2", ("things",)),
]
# None with dot segments, which the proxy classifies in its own way.
PATHS = [
    *("/", "/api", "/apis", "/apis/apps", "/version", "/healthz", "/healthz/ping", "/livez/ping"),
    *("/readyz", "/openapi/v2", "/openapi/v3/", "/metrics", "/logs/", "//api/v1/pods"),
    *("/healthz/", "/api/v1/", "/apis/apps/v1/", "/%61pi/v1/pods"),
    *("/debug/api_priority_and_fairness/dump_queues", "/.well-known/openid-configuration"),
]
QUERIES = [
    *("", "", "", "limit=5", "resourceVersion=0", "watch=0", "watch=false", "timeout=5s"),
    *("timeout=-1s", "fieldSelector=metadata.name%3Dx", "labelSelector=a%3Db"),
    *("watch=1&timeoutSeconds=1", "watch=true&timeoutSeconds=1", "watch&timeoutSeconds=1"),
    "watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3Dx",
]
METHODS = ["GET"] * 6 + ["HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


@dataclass(frozen=True)
class Ask:
    """One request of somebody."""

    method: str
    target: str
    user: str
    groups: tuple[str, ...]


def some_request(chance: random.Random) -> Ask:
    user, groups = chance.choice(USERS)
    method = chance.choice(METHODS)
    if chance.random() < 0.2:
        target = chance.choice(PATHS)
    else:
        root, resources = chance.choice(ROOTS)
        target = root
        if chance.random() < 0.6:
            target += f"/namespaces/{chance.choice(('team-a', 'kube-system', 'default'))}"
        target += "/" + chance.choice(resources)
        if chance.random() < 0.5:
            target += "/" + chance.choice(("x", "kube-controller-manager"))
            if chance.random() < 0.4:
                target += "/" + chance.choice(
                    ("status", "scale", "log", "exec", "proxy", "binding")
                )
    query = chance.choice(QUERIES)
    if method not in ("GET", "HEAD", "OPTIONS"):
        query += "&dryRun=All" if query else "dryRun=All"
        if "system:masters" in groups:
            groups = ("dev",)
    return Ask(method, target + ("?" + query if query else ""), user, groups)


def some_schema(chance: random.Random, number: int, levels: list[str]) -> dict[str, Any]:
    user, groups = chance.choice(USERS)
    subjects: list[dict[str, Any]] = [{"kind": "User", "user": {"name": user}}]
    if groups and chance.random() < 0.5:
        subjects.append({"kind": "Group", "group": {"name": groups[0]}})
    if chance.random() < 0.3:
        account = {"namespace": "team-a", "name": chance.choice(("*", "builder"))}
        subjects.append({"kind": "ServiceAccount", "serviceAccount": account})
    root, resources = chance.choice(ROOTS)
    group = "" if root == "/api/v1" else root.split("/")[2]
    verbs = chance.choice((["*"], ["get", "list"], ["watch"], ["create", "update", "delete"]))
    rule: dict[str, Any] = {
        "subjects": subjects,
        "resourceRules": [
            {
                "verbs": verbs,
                "apiGroups": [chance.choice(("*", group))],
                "resources": chance.choice((["*"], [f"{chance.choice(resources)}/status"])),
                "clusterScope": chance.random() < 0.5,
                "namespaces": chance.choice((["*"], ["team-a"])),
            }
        ],
    }
    if chance.random() < 0.5:
        paths = chance.choice((["*"], ["/healthz", "/livez/*"], ["/apis/*"]))
        rule["nonResourceRules"] = [{"verbs": ["*"], "nonResourceURLs": paths}]
    return schema(f"{PREFIX}{number}", chance.choice(levels), chance.randint(2, 1200), rule)


def schema(name: str, level: str, precedence: int, rule: dict[str, Any]) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {
            "matchingPrecedence": precedence,
            "priorityLevelConfiguration": {"name": level},
            "distinguisherMethod": {"type": "ByUser"},
            "rules": [rule],
        },
    }


class Cluster:
    """The real API, asked as anybody."""

    def __init__(
        self, session: aiohttp.ClientSession, url: str, tls: ssl.SSLContext | bool
    ) -> None:
        self._session = session
        self._url = url
        self._tls = tls

    async def classes(self, ask: Ask) -> tuple[str | None, ...]:
        fields = [("Impersonate-User", ask.user)]
        fields += [("Impersonate-Group", group) for group in ask.groups]
        return await classes_of(self._session, self._url, ask, fields, self._tls)

    async def create(self, resource: str, body: dict[str, Any]) -> None:
        async with self._session.post(
            f"{self._url}{GROUP}/{resource}", json=body, ssl=self._tls
        ) as response:
            assert 201 == response.status, await response.text()

    async def delete_all(self) -> None:
        for resource in ("flowschemas", "prioritylevelconfigurations"):
            url = f"{self._url}{GROUP}/{resource}"
            async with self._session.get(url, ssl=self._tls) as response:
                names = [item["metadata"]["name"] for item in (await response.json())["items"]]
            for name in names:
                if name.startswith(PREFIX):
                    async with self._session.delete(f"{url}/{name}", ssl=self._tls) as response:
                        assert 200 == response.status


async def classes_of(
    session: aiohttp.ClientSession,
    url: str,
    ask: Ask,
    fields: list[tuple[str, str]],
    tls: ssl.SSLContext | bool,
) -> tuple[str | None, ...]:
    target = URL(url + ask.target, encoded=True)
    async with session.request(
        ask.method, target, headers=fields, ssl=tls, allow_redirects=False
    ) as response:
        found = tuple(response.headers.get(name) for name in FIELDS)
        response.close()
    return found


def file_of(folder: Path, name: str, pem: Pem | None) -> str | None:
    if pem is None:
        return None
    path = folder / name
    path.write_bytes(pem.content())
    return str(path)


@asynccontextmanager
async def proxy_before(access: ApiAccess, config: str, folder: Path) -> AsyncIterator[ProxyProcess]:
    address = urlsplit(access.server)
    token_file = access.token_file
    if access.token is not None:
        (folder / "token").write_text(access.token)
        token_file = str(folder / "token")
    own = access.own or (None, None)
    process = ProxyProcess(
        Settings(
            downstream=DownstreamSettings(
                listen=ANY_PORT, identity_headers_from=(ip_network("127.0.0.0/8"),)
            ),
            upstream=UpstreamSettings(
                url=Address(host=address.hostname or "", port=address.port or 443, is_tls=True),
                tls=UpstreamTlsSettings(
                    ca_file=file_of(folder, "ca.crt", access.authorities),
                    server_name=access.server_name,
                    certificate_file=file_of(folder, "client.crt", own[0]),
                    key_file=file_of(folder, "client.key", own[1]),
                ),
                identity="impersonate",
                token_file=token_file,
            ),
            flow_control=FlowControlSettings(
                kubernetes=KubernetesSettings(is_enabled=True, kubeconfig=config)
            ),
            admin=None,
        )
    )
    await process.start()
    try:
        yield process
    finally:
        await process.stop()


@needs_real_cluster
@on_uvloop
async def test_classes_are_those_of_the_real_server(tmp_path: Path) -> None:
    """Random requests of random users get the UIDs that kube-apiserver itself names."""
    config = kubeconfig(tmp_path)
    access = read_kubeconfig(config)
    chance = random.Random(36)  # noqa: S311  a test
    tls: ssl.SSLContext | bool = not access.is_unverified
    if access.authorities is not None:
        tls = ssl.create_default_context(cadata=access.authorities.content().decode())
        if access.own is not None:
            paths = [file_of(tmp_path, f"own-{at}.pem", pem) for at, pem in enumerate(access.own)]
            tls.load_cert_chain(paths[0] or "", paths[1])
    headers = {"Authorization": f"Bearer {access.token}"} if access.token else {}
    async with (
        aiohttp.ClientSession(headers=headers) as direct,
        aiohttp.ClientSession() as proxied,
    ):
        cluster = Cluster(direct, access.server, tls)
        await cluster.delete_all()
        try:
            await make_objects(cluster, chance)
            async with proxy_before(access, config, tmp_path) as process:
                pairs = await compared(cluster, proxied, process.port, chance)
        finally:
            await cluster.delete_all()

    assert [] == [(ask, expected, got) for ask, expected, got in pairs if expected != got]
    # They say something: requests of many classes, and long-running ones of none.
    classes = {expected for _, expected, _ in pairs}
    assert (None, None) in classes
    assert 12 < len(classes)


async def make_objects(cluster: Cluster, chance: random.Random) -> None:
    levels = [f"{PREFIX}level-{number}" for number in range(4)]
    for level in levels:
        limited = {"nominalConcurrencyShares": 30, "limitResponse": {"type": "Reject"}}
        await cluster.create(
            "prioritylevelconfigurations",
            {"metadata": {"name": level}, "spec": {"type": "Limited", "limited": limited}},
        )
    for number in range(SCHEMAS):
        await cluster.create("flowschemas", some_schema(chance, number, levels))
    rule = {
        "subjects": [{"kind": "User", "user": {"name": SENTINEL}}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    }
    ask = Ask("GET", "/version", SENTINEL, ())
    before = await cluster.classes(ask)
    await cluster.create("flowschemas", schema(SENTINEL, levels[0], 2, rule))
    async with asyncio.timeout(60):
        while before == await cluster.classes(ask):  # noqa: ASYNC110  nothing tells
            # The server says nothing when it has taken an object in.
            await asyncio.sleep(0.2)


async def compared(
    cluster: Cluster, session: aiohttp.ClientSession, port: int, chance: random.Random
) -> list[tuple[Ask, tuple[str | None, ...], tuple[str | None, ...]]]:
    pairs = []
    for _ in range(REQUESTS):
        ask = some_request(chance)
        fields = [("X-Remote-User", ask.user)]
        fields += [("X-Remote-Group", group) for group in ask.groups]
        expected = await cluster.classes(ask)
        got = await classes_of(session, url_of(port), ask, fields, tls=False)
        pairs.append((ask, expected, got))
    return pairs
