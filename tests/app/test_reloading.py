"""Reading settings and files again, within a process."""

from __future__ import annotations

import asyncio
import copy
import ipaddress
import json
import logging
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from msgspec import structs

from apfproxy.app import reloading
from apfproxy.app.process import ProxyProcess
from apfproxy.app.reloading import SettingsFile, reload
from apfproxy.base.tasks import spawn
from apfproxy.settings import (
    HTTP_API,
    Address,
    DownstreamSettings,
    Record,
    Settings,
)
from apfproxy.settings.change import changes
from apfproxy.settings.file import load_settings, parse_settings, setting_paths, settings_in
from apfproxy.sources import kubernetes_api
from tests.support.certificates import Authority
from tests.support.kubernetes_api import SLICES, KubernetesDouble
from tests.support.objects import at, slice_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator

    from apfproxy.base.files import Roots

BASE: dict[str, Any] = yaml.safe_load("""
downstream: {listen: 127.0.0.1:0, tls: {certificateFile: a.crt, keyFile: a.key}}
upstream:
  url: https://127.0.0.1:9
  tokenFile: token1
  tls: {caFile: ca1.crt, certificateFile: a.crt, keyFile: a.key}
authentication:
  clientCaFile: ca1.crt
  tokenFile: tokens1
  frontProxy: {caFile: ca1.crt, allowedNames: [front]}
  tokenReview: {enabled: true}
  impersonation: {accessReview: {enabled: true}}
flowControl: {hashSeed: 1, objectCountsFrom: http://127.0.0.1:9/metrics}
accessLog: {path: log1}
tracing: {endpoint: http://127.0.0.1:9, samplingRatePerMillion: 1}
admin: 127.0.0.1:0
""")
"""Settings of a process that uses most of what it can; files lie in the directory of a test."""

CHANGED = yaml.safe_load("""
request:
  pathPrefixes: ["/clusters/{workspace}"]
  longRunning: {verbs: [watch], subresources: [console], pathPrefixes: [/events]}
downstream:
  listen: ":0"
  socketMode: "0600"
  headTimeout: 1s
  idleTimeout: 2s
  requestTimeout: 3s
  maxHeadBytes: 4096
  maxHeaderFields: 5
  maxTargetBytes: 600
  identityHeadersFrom: [10.0.0.0/8]
  trustedProxies: [11.0.0.0/8]
  proxyProtocol: true
  tls: {certificateFile: b.crt, keyFile: b.key, requireClientCertificate: true, handshakeTimeout:
    1s}
  keepAlive: {idle: 21s, timeout: 22s}
  explainAnswersTo: {users: ["*"], groups: [a]}
  http2: {enabled: false, cleartext: true, maxConcurrentStreams: 7, goawayChance: 0.01}
  limits: {maxConnections: 700, maxConnectionsPerAddress: 8, maxPipelinedRequests: 9,
    maxBodyBytes: 10, maxHeldBytes: 11MiB, maxHeldBytesPerAddress: 10MiB,
    maxHeldBytesPerConnection: 9MiB, gatheredBodyBytes: 11, completionBodyBytes: 16,
    minBodyRateBytes: 12, bodyRateGrace: 13s, slowReaderGrace: 14s, slowReadersPerLevel: 15}
  overload: {loopDelay: 15s, memoryBytes: 16GiB}
upstream:
  url: https://127.0.0.1:10
  endpoints: [{url: https://127.0.0.1:10}, {url: https://127.0.0.1:11}]
  dns: https://localhost:10
  resolveInterval: 31s
  identity: impersonate
  identityWithoutCertificate: true
  tokenFile: token2
  hostHeader: a.example
  maxConnections: 17
  idleTimeout: 18s
  connectTimeout: 19s
  answerTimeout: 20s
  streamIdleTimeout: 5m
  abandonedWait: 20s
  maxRequestsPerEndpoint: 17
  slowStart: 18s
  failsReadiness: true
  service: {namespace: a, name: b, port: c, scheme: http, kubeconfig: kubeconfig, context: d}
  tls: {caFile: ca2.crt, serverName: a.example, certificateFile: b.crt, keyFile: b.key,
    handshakeTimeout: 1s}
  healthCheck: {path: /readyz, interval: 21s, timeout: 22s, healthyThreshold: 3,
    unhealthyThreshold: 4}
  ejection: {failures: 6, pause: 7s, maxPause: 8s}
  rebalance: {percentPerMinute: 9}
  upgrades: {allow: ["/sockets/*"], deny: ["/apis/a.example/*"]}
authentication:
  clientCaFile: ca2.crt
  tokenFile: tokens2
  jwt: [{issuer: https://a, audiences: [b]}]
  anonymous: false
  frontProxy: {caFile: ca2.crt, allowedNames: [b], usernameHeaders: [X-A], uidHeaders: [X-A],
    groupHeaders: [X-A], extraHeaderPrefixes: [X-A-]}
  tokenReview: {enabled: false, cache: 1s, grace: 2s, maxCached: 3, maxConcurrent: 4, timeout: 5s}
  apiKeys: {file: keys, header: X-Key, bearer: true, basic: true, unknown: anonymous}
  unverified: {basic: true, secretHeaders: [X-S], cookies: [s], headers: [X-H], address: true,
    namesPerAddress: 7}
  impersonation:
    users: [a]
    groups: [b]
    accessReview: {enabled: false, cache: 1s, grace: 2s, maxCached: 3, maxConcurrent: 4, timeout:
      5s}
preset: http
tunnel: {idleTimeout: 21s}
watch: {silence: 22s, limit: 23s, bookmarkLimit: 24s}
drain: {shutdownDelay: 25s, idleGrace: 26s, timeout: 27s}
flowControl:
  enforcement: observe
  serverConcurrencyLimit: auto
  perEndpoint: 29
  autoLimit: {min: 3, max: 90, initial: 30, target: 90}
  limitAdjustment: kubernetes
  maxListSeats: 200
  objects: [objects]
  store: store.db
  suggestedObjects: false
  hashSeed: 2
  objectCountsFrom: http://127.0.0.1:10/metrics
  objectCountsInterval: 1s
  kubernetes: {enabled: true, kubeconfig: kubeconfig, context: c, firstSyncTimeout: 1s,
    writeStatus: true}
fleet: {store: rediss://127.0.0.1:9, name: a, member: b, replicas: 3, refreshInterval: 500ms,
  lease: 6s, passwordFile: token1, sentinelPasswordFile: token1, caFile: ca1.crt, certificateFile:
  a.crt, keyFile: a.key, kubeconfig: kubeconfig, context: d}
accessLog: {path: log2, requests: errors, sampledPercent: 29, refusedPerSecond: 31,
  maxBytesPerSecond: 5000, maxQueued: 30, auditIds: false}
tracing:
  endpoint: http://127.0.0.1:10
  samplingRatePerMillion: 29
  serviceName: a
  maxQueued: 30
  parentsFrom: {users: ["*"], groups: [a]}
topFlows: {enabled: false, capacity: 31}
workers: 2
admin: ~
adminSocketMode: "0600"
adminTls: {certificateFile: b.crt, keyFile: b.key, clientCaFile: ca2.crt}
adminReadTokenFile: token2
adminTokenFile: token2
metrics: full
logLevel: error
logFormat: json
clusters: [{name: a, hosts: [a]}]
""")
"""Every setting with another value than that of `BASE`."""


def leaves(node: object, prefix: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(node, dict):
        for key, value in node.items():
            yield from leaves(value, f"{prefix}.{key}")
    else:
        yield prefix[1:], node


OTHERS = dict(leaves(CHANGED))

WITH = {
    "downstream.tls.certificateFile": "downstream.tls.keyFile",
    "downstream.tls.keyFile": "downstream.tls.certificateFile",
    **dict.fromkeys(
        [f"authentication.apiKeys.{each}" for each in ("header", "bearer", "basic", "unknown")],
        "authentication.apiKeys.file",
    ),
    **dict.fromkeys(
        [f"upstream.service.{each}" for each in ("namespace", "port", "scheme", "kubeconfig")],
        "upstream.service.name",
    ),
    "upstream.service.context": "upstream.service.kubeconfig",
    "upstream.tls.certificateFile": "upstream.tls.keyFile",
    "upstream.tls.keyFile": "upstream.tls.certificateFile",
    "flowControl.kubernetes.kubeconfig": "flowControl.kubernetes.enabled",
    "flowControl.kubernetes.writeStatus": "flowControl.kubernetes.enabled",
    "flowControl.kubernetes.context": "flowControl.kubernetes.kubeconfig",
    **dict.fromkeys(
        [f"flowControl.autoLimit.{each}" for each in ("min", "max", "initial", "target")],
        "flowControl.serverConcurrencyLimit",
    ),
    "adminTokenFile": "flowControl.store",
    "authentication.unverified.namesPerAddress": "authentication.unverified.address",
    "adminTls.certificateFile": "adminTls.keyFile",
    "adminTls.keyFile": "adminTls.certificateFile",
    "adminTls.clientCaFile": "adminTls.certificateFile",
}
"""Settings that need another one."""

WITHOUT = {
    "upstream.endpoints": "upstream.url",
    "upstream.dns": "upstream.url",
    "upstream.service.name": "upstream.url",
    "upstream.service.scheme": "upstream.tls",
}
"""Settings that go only without another one."""

UNSEEN = {
    *("drain.shutdownDelay", "drain.idleGrace", "drain.timeout"),  # read when it is time
    *("metrics", "logLevel", "logFormat"),  # of the process, not of the proxy; see below
    "tracing.serviceName",  # in an object of OpenTelemetry's; see there
}
"""Settings that change nothing that the parts of a proxy keep."""


def other(document: dict[str, Any], path: str | None) -> dict[str, Any]:
    """The document with another value at a path, and what it needs."""
    document = copy.deepcopy(document)
    done: set[str] = set()
    while path is not None and path not in done:
        done.add(path)
        *sections, key = path.split(".")
        section = document
        for name in sections:
            section = section.setdefault(name, {})
        section[key] = OTHERS[path]
        left, _, name = WITHOUT.get(path, ".").partition(".")
        document.get(left, {}).pop(name, None)
        path = WITH.get(path)
    return document


def fixed_paths(record: type[Record] = Settings, prefix: str = "") -> Iterator[str]:
    for key, setting in settings_in(record).items():
        if setting.name in record.RESTART:
            yield prefix + key
        elif setting.section is not None and not setting.is_list:
            yield from fixed_paths(setting.section, f"{prefix}{key}.")


FIXED = (*fixed_paths(), "clusters")

SETTINGS_PAGE = Path(__file__).parents[2] / "docs" / "settings.md"
ANY_PORT = Address(host="127.0.0.1", port=0)
BEFORE = Settings(downstream=DownstreamSettings(listen=ANY_PORT), admin=None)


def read(document: dict[str, Any], folder: Path) -> Settings:
    path = folder / "settings.json"
    path.write_text(json.dumps(document))
    return load_settings(path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    authority = Authority("a")
    for name in "ab":
        authority.issue(name, usage="server").write(tmp_path, name)
        (tmp_path / f"ca{'ab'.index(name) + 1}.crt").write_bytes(Authority(name).pem)
        (tmp_path / f"token{'ab'.index(name) + 1}").write_text(f"{name}" * 40)
        (tmp_path / f"tokens{'ab'.index(name) + 1}").write_text(f"{name * 9},{name},1\n")
    (tmp_path / "objects").mkdir()
    (tmp_path / "keys").write_text(f"{'ab' * 32},a,1\n")
    return tmp_path


LEFT_OUT = frozenset({
    *("controller", "clock", "pool", "upstream", "generation", "counters", "context", "problem"),
    *("reads_total", "sweep_now_ns", "_health", "_costs", "_descriptor"),
    *("_progress_ns", "_beat_s", "_counted_ns", "_closing", "_kinds", "kinds"),
    *("_counters", "_delay_ns", "_late_ns", "sweep", "_done_s", "_owner", "_sessions", "_retiring"),
    *("_hmac_key", "_key", "_lines", "_zero_ns", "_looked_s"),
    *("state", "ramp", "share", "_sweeps", "shed", "is_known", "_wheel"),
})  # fmt: skip
"""Holds what is the same for all, or changes by itself."""


def state(value: Any, prefix: str = "", depth: int = 6) -> dict[str, object]:  # noqa: ANN401  whatever a part keeps
    if value is None or isinstance(value, int | float | str | bytes):
        return {prefix: value}
    if isinstance(value, ipaddress.IPv4Network):
        return {prefix: str(value)}
    if isinstance(value, set | frozenset):
        return {prefix: sorted(map(str, value))}
    children: dict[str, Any] = {}
    if isinstance(value, tuple | list):
        children = {f"[{number}]": each for number, each in enumerate(value)}
    elif isinstance(value, dict):
        children = {
            f"[{repr(key) if isinstance(key, str | int | tuple) else number}]": each
            for number, (key, each) in enumerate(value.items())
        }
    elif depth > 0 and not isinstance(value, Settings):  # of which a part uses only some
        if not type(value).__module__.startswith("apfproxy"):
            return {}
        names = {*(vars(value) if hasattr(value, "__dict__") else ())}
        names.update(
            name for each in type(value).__mro__ for name in getattr(each, "__slots__", ())
        )
        names.update(getattr(value, "__struct_fields__", ()))
        children = {
            f".{name}": getattr(value, name)
            for name in names - LEFT_OUT
            if not name.endswith(("_controller", "_clock", "_generation", "_due_ns"))
        }
    found: dict[str, object] = {}
    for name, child in children.items():
        found |= state(child, prefix + name, depth - 1)
    return found


def state_of(process: ProxyProcess) -> dict[str, object]:
    source = process.cluster.objects.source
    found: dict[str, object] = {
        "paths": getattr(source, "paths", None),
        "health": sorted((check.name, check.pages) for check in process.health),
    }
    found |= state(process.server, "server")
    found |= state(process.observation, "observation")
    found |= state(process.access, "access")
    for name in ("served", "identities", "counts", "found_limit"):
        found |= state(getattr(process.cluster, name), name)
    found |= state(process.cluster.served.pool, "pool", 5)
    for level in process.cluster.controller.levels.values():
        limits = level.nominal_limit, level.lower_limit, level.upper_limit, level.max_seats
        found[f"level {level.name}"] = limits, repr(level.queue_set.config)
    return found


def test_every_setting_is_tried() -> None:
    assert set(setting_paths()) == set(OTHERS)
    for path in OTHERS:
        documents = [BASE, other(BASE, path)]
        before, after = (parse_settings(json.dumps(each).encode(), "f") for each in documents)
        assert path in named_in(changes(before, after))


def named_in(changes: list[str]) -> set[str]:
    return {each.partition("[")[0] for each in changes}


def is_fixed(path: str) -> bool:
    return any(path == each or path.startswith(f"{each}.") for each in FIXED)


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a Kubernetes API, the same for all, whose Services have an endpoint each."""
    api = KubernetesDouble()
    api.put(SLICES, slice_of(at("127.0.0.1"), ports=[{"name": "c", "port": 10}]))
    monkeypatch.setattr(kubernetes_api, "open_api", lambda *_: api)


@pytest.mark.parametrize("path", OTHERS)
@pytest.mark.usefixtures("service")
async def test_as_if_started_so(
    path: str, folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(reloading, "configure_logging", lambda *_: None)
    monkeypatch.chdir(folder)  # for the access log
    base = BASE
    if path == "adminTokenFile":
        base = other(BASE, "flowControl.store")
    before, after = read(base, folder), read(other(base, path), folder)
    changed = ProxyProcess(before)
    await changed.start()
    first = state_of(changed)
    await reload(changed, SettingsFile(None, lambda: after))
    second = state_of(changed)
    in_force = changed.settings
    await changed.stop()

    assert changed.health.problem("settings") is None
    if is_fixed(path):
        (said,) = (each for each in caplog.messages if each.startswith("not changed: restart to"))
        assert path in said.removeprefix("not changed: restart to change ").split(", ")
        assert in_force == before
        return
    assert in_force == after
    (said,) = (each for each in caplog.messages if each.startswith("read again; changed: "))
    assert path in named_in(said.removeprefix("read again; changed: ").split(", "))
    fresh = await state_of_fresh(after)
    assert fresh == second
    assert (first != fresh) == (path not in UNSEEN)


async def state_of_fresh(settings: Settings) -> dict[str, object]:
    process = ProxyProcess(settings)
    await process.start()
    found = state_of(process)
    await process.stop()
    return found


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        pytest.param("downstream.tls.keyFile", "b.key", "is not the key of", id="key"),
        pytest.param("authentication.tokenFile", "nowhere", "nowhere", id="tokens"),
        pytest.param("flowControl.objects", ["broken.yaml"], "broken.yaml:2", id="objects"),
        pytest.param("accessLog.path", "nowhere/log", "cannot be opened", id="log"),
    ],
)
async def test_all_or_nothing(
    path: str,
    value: object,
    problem: str,
    folder: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    (folder / "broken.yaml").write_text("[")
    document = other(other(other(BASE, "accessLog.path"), "topFlows.capacity"), "upstream.url")
    section = document
    *sections, key = path.split(".")
    for name in sections:
        section = section[name]
    section[key] = value
    before, after = read(BASE, folder), read(document, folder)
    process = ProxyProcess(before)
    await process.start()
    first, parts = state_of(process), (process.cluster.identities, process.observation.access_log)
    file = SettingsFile(None, lambda: after)
    logged = []
    for file.is_retry in (False, True, False):
        await reload(process, file)
        logged.append(sum("the settings cannot be used" in each for each in caplog.messages))
    second = state_of(process)
    found = process.health.problem("settings") or ""
    has_changed = parts != (process.cluster.identities, process.observation.access_log)
    await process.stop()

    assert problem in found
    assert file.may_recover
    assert second == first
    assert not has_changed
    assert [1, 1, 2] == logged
    assert process.settings is before
    events = [each for each in process.configuration_events if each.is_error]
    assert all(each.message.startswith("The settings stay as they were: ") for each in events)


async def test_what_goes_only_with_what_is_fixed(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plain: dict[str, Any] = {"upstream": {"url": "http://a"}, "downstream": BASE["downstream"]}
    del (plain := copy.deepcopy(plain))["downstream"]["tls"]
    secured = copy.deepcopy(plain)
    secured["downstream"]["tls"] = BASE["downstream"]["tls"]
    secured["authentication"] = {"clientCaFile": "ca1.crt"}
    process = ProxyProcess(read(plain, folder))
    await reload(process, SettingsFile(None, lambda: read(secured, folder)))
    await process.stop()

    assert (
        "restart to change downstream.tls.certificateFile, downstream.tls.keyFile; the rest does"
        " not go without it" in caplog.messages
    )
    assert "authentication.clientCaFile (--client-ca-file) needs downstream.tls" in caplog.text
    assert process.settings == read(plain, folder)


async def test_log_level(monkeypatch: pytest.MonkeyPatch) -> None:
    """It changes, too, but only if it is another one."""
    levels: list[str] = []
    monkeypatch.setattr(
        reloading, "configure_logging", lambda level, form: levels.append(f"{level} as {form}")
    )
    process = ProxyProcess(BEFORE)
    debug = structs.replace(BEFORE, log_level="debug")
    reads = [BEFORE, debug, structs.replace(debug, log_format="json"), debug]
    file = SettingsFile(None, lambda: reads.pop(0))
    for _ in range(4):
        await reload(process, file)
    await process.stop()

    assert ["debug as text", "debug as json", "debug as text"] == levels
    assert ["logLevel", "logFormat", "logFormat"] == [
        each.message.removeprefix("Settings changed: ") for each in process.configuration_events
    ]


async def watched(file: SettingsFile, act: Callable[[], None]) -> bool:
    """Whether a reload is asked for when the file is looked at after an act."""
    asked = asyncio.Event()

    async def changes(_roots: Roots) -> AsyncGenerator[object, None]:
        act()
        yield None
        looked.set()
        await asyncio.Event().wait()

    looked = asyncio.Event()
    task = spawn(file.watch(asked, lambda: None, changes), name="watching")
    await looked.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return asked.is_set()


async def test_a_change_of_the_file_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").write_text("b")
    path = tmp_path / "settings.yaml"
    path.symlink_to(tmp_path / "a")
    file = SettingsFile(path, Settings)
    file.read()

    def swap() -> None:
        (tmp_path / "next").symlink_to(tmp_path / "b")
        (tmp_path / "next").replace(path)

    assert not await watched(file, lambda: None)
    for act in (swap, path.unlink, lambda: path.write_text("c")):
        assert await watched(file, act)  # type: ignore[arg-type]  # what it returns is of no use
        file.read()
        assert not await watched(file, lambda: None)


async def test_what_may_recover_is_tried_again(tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text("")
    file = SettingsFile(path, Settings)
    file.read()
    file.may_recover = True

    assert await watched(file, lambda: None)
    assert file.is_retry
    assert await watched(file, lambda: path.write_text("a"))  # type: ignore[arg-type]  # as above
    assert not file.is_retry


async def test_an_empty_file_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text("logLevel: info")
    process = ProxyProcess(BEFORE)
    file = SettingsFile(path, lambda: structs.replace(BEFORE, preset=HTTP_API))
    file.read()
    path.write_text("")
    await reload(process, file)
    refused = file.refused
    path.unlink()
    await reload(process, file)
    await process.stop()

    assert (f"{path}: is empty; write the settings that are meant",) == refused
    assert HTTP_API == process.settings.preset  # what reads the file says that it is gone


def test_settings_page() -> None:
    """The settings page names exactly the settings that take a restart."""
    text = SETTINGS_PAGE.read_text()
    table = text[text.index("| setting that takes a restart |") :]
    rows = table[: table.index("\n\n")].splitlines()[2:]
    found = {name for row in rows for name in re.findall("`(.+?)`", row.split("|")[1])}

    assert {*FIXED} <= found
    assert found - {*FIXED} == {"downstream.tls"}
