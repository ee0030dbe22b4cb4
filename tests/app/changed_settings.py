"""Every setting with another value, for processes whose settings change."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from apfproxy.settings import Record, Settings
from apfproxy.settings.file import settings_in

if TYPE_CHECKING:
    from collections.abc import Iterator

BASE: dict[str, Any] = {
    "downstream": {
        "listen": "127.0.0.1:0",
        "tls": {"certificateFile": "a.crt", "keyFile": "a.key"},
    },
    "upstream": {
        "url": "https://127.0.0.1:9",
        "tls": {"caFile": "ca1.crt", "certificateFile": "a.crt", "keyFile": "a.key"},
        "tokenFile": "token1",
    },
    "authentication": {
        "clientCaFile": "ca1.crt",
        "frontProxy": {"caFile": "ca1.crt", "allowedNames": ["front"]},
        "tokenFile": "tokens1",
        "tokenReview": {"enabled": True},
        "impersonation": {"accessReview": {"enabled": True}},
    },
    "flowControl": {"hashSeed": 1, "objectCountsFrom": "http://127.0.0.1:9/metrics"},
    "accessLog": {"path": "log1"},
    "tracing": {"endpoint": "http://127.0.0.1:9", "samplingRatePerMillion": 1},
    "admin": "127.0.0.1:0",
}
"""Settings of a process that uses most of what it can; files lie in the directory of a test."""

OTHERS: dict[str, Any] = {
    "request.pathPrefixes": ["/clusters/{workspace}"],
    "request.longRunning.verbs": ["watch"],
    "request.longRunning.subresources": ["console"],
    "request.longRunning.pathPrefixes": ["/events"],
    "downstream.listen": ":0",
    "downstream.socketMode": "0600",
    "downstream.tls.certificateFile": "b.crt",
    "downstream.tls.keyFile": "b.key",
    "downstream.tls.requireClientCertificate": True,
    "downstream.tls.handshakeTimeout": "1s",
    "downstream.headTimeout": "1s",
    "downstream.idleTimeout": "2s",
    "downstream.keepAlive.idle": "21s",
    "downstream.keepAlive.timeout": "22s",
    "downstream.requestTimeout": "3s",
    "downstream.maxHeadBytes": 4096,
    "downstream.maxHeaderFields": 5,
    "downstream.maxTargetBytes": 600,
    "downstream.identityHeadersFrom": ["10.0.0.0/8"],
    "downstream.trustedProxies": ["11.0.0.0/8"],
    "downstream.proxyProtocol": True,
    "downstream.explainAnswersTo.users": ["*"],
    "downstream.explainAnswersTo.groups": ["a"],
    "downstream.http2.enabled": False,
    "downstream.http2.cleartext": True,
    "downstream.http2.maxConcurrentStreams": 7,
    "downstream.http2.goawayChance": 0.01,
    "downstream.limits.maxConnections": 700,
    "downstream.limits.maxConnectionsPerAddress": 8,
    "downstream.limits.maxPipelinedRequests": 9,
    "downstream.limits.maxBodyBytes": 10,
    "downstream.limits.maxHeldBytes": "11MiB",
    "downstream.limits.maxHeldBytesPerAddress": "10MiB",
    "downstream.limits.maxHeldBytesPerConnection": "9MiB",
    "downstream.limits.gatheredBodyBytes": 11,
    "downstream.limits.minBodyRateBytes": 12,
    "downstream.limits.bodyRateGrace": "13s",
    "downstream.limits.slowReaderGrace": "14s",
    "downstream.limits.slowReadersPerLevel": 15,
    "downstream.overload.loopDelay": "15s",
    "downstream.overload.memoryBytes": "16MiB",
    "upstream.url": "https://127.0.0.1:10",
    "upstream.endpoints": [{"url": "https://127.0.0.1:10"}, {"url": "https://127.0.0.1:11"}],
    "upstream.dns": "https://localhost:10",
    "upstream.resolveInterval": "31s",
    "upstream.service.namespace": "a",
    "upstream.service.name": "b",
    "upstream.service.port": "c",
    "upstream.service.scheme": "http",
    "upstream.service.kubeconfig": "kubeconfig",
    "upstream.service.context": "d",
    "upstream.tls.caFile": "ca2.crt",
    "upstream.tls.serverName": "a.example",
    "upstream.tls.certificateFile": "b.crt",
    "upstream.tls.keyFile": "b.key",
    "upstream.tls.handshakeTimeout": "1s",
    "upstream.identity": "impersonate",
    "upstream.tokenFile": "token2",
    "upstream.hostHeader": "a.example",
    "upstream.maxConnections": 17,
    "upstream.idleTimeout": "18s",
    "upstream.connectTimeout": "19s",
    "upstream.answerTimeout": "20s",
    "upstream.abandonedWait": "20s",
    "upstream.healthCheck.path": "/readyz",
    "upstream.healthCheck.interval": "21s",
    "upstream.healthCheck.timeout": "22s",
    "upstream.healthCheck.healthyThreshold": 3,
    "upstream.healthCheck.unhealthyThreshold": 4,
    "upstream.ejection.failures": 6,
    "upstream.ejection.pause": "7s",
    "upstream.ejection.maxPause": "8s",
    "upstream.rebalance.percentPerMinute": 9,
    "upstream.maxRequestsPerEndpoint": 17,
    "upstream.upgrades.allow": ["/sockets/*"],
    "upstream.upgrades.deny": ["/apis/a.example/*"],
    "upstream.slowStart": "18s",
    "upstream.failsReadiness": True,
    "authentication.clientCaFile": "ca2.crt",
    "authentication.frontProxy.caFile": "ca2.crt",
    "authentication.frontProxy.allowedNames": ["b"],
    "authentication.frontProxy.usernameHeaders": ["X-A"],
    "authentication.frontProxy.uidHeaders": ["X-A"],
    "authentication.frontProxy.groupHeaders": ["X-A"],
    "authentication.frontProxy.extraHeaderPrefixes": ["X-A-"],
    "authentication.tokenFile": "tokens2",
    "authentication.jwt": [{"issuer": "https://a", "audiences": ["b"]}],
    "authentication.tokenReview.enabled": False,
    "authentication.tokenReview.cache": "1s",
    "authentication.tokenReview.grace": "2s",
    "authentication.tokenReview.maxCached": 3,
    "authentication.tokenReview.maxConcurrent": 4,
    "authentication.tokenReview.timeout": "5s",
    "authentication.apiKeys.file": "keys",
    "authentication.apiKeys.header": "X-Key",
    "authentication.apiKeys.bearer": True,
    "authentication.apiKeys.basic": True,
    "authentication.apiKeys.unknown": "anonymous",
    "authentication.unverified.basic": True,
    "authentication.unverified.secretHeaders": ["X-S"],
    "authentication.unverified.headers": ["X-H"],
    "authentication.unverified.address": True,
    "authentication.unverified.namesPerAddress": 7,
    "authentication.anonymous": False,
    "authentication.impersonation.users": ["a"],
    "authentication.impersonation.groups": ["b"],
    "authentication.impersonation.accessReview.enabled": False,
    "authentication.impersonation.accessReview.cache": "1s",
    "authentication.impersonation.accessReview.grace": "2s",
    "authentication.impersonation.accessReview.maxCached": 3,
    "authentication.impersonation.accessReview.maxConcurrent": 4,
    "authentication.impersonation.accessReview.timeout": "5s",
    "preset": "http",
    "tunnel.idleTimeout": "21s",
    "watch.silence": "22s",
    "watch.limit": "23s",
    "watch.bookmarkLimit": "24s",
    "drain.shutdownDelay": "25s",
    "drain.idleGrace": "26s",
    "drain.timeout": "27s",
    "flowControl.enforcement": "observe",
    "flowControl.serverConcurrencyLimit": 28,
    "flowControl.perEndpoint": 29,
    "flowControl.limitAdjustment": "kubernetes",
    "flowControl.objects": ["objects"],
    "flowControl.store": "store.db",
    "flowControl.kubernetes.enabled": True,
    "flowControl.kubernetes.kubeconfig": "kubeconfig",
    "flowControl.kubernetes.context": "c",
    "flowControl.kubernetes.firstSyncTimeout": "1s",
    "flowControl.kubernetes.writeStatus": True,
    "flowControl.suggestedObjects": False,
    "flowControl.hashSeed": 2,
    "flowControl.objectCountsFrom": "http://127.0.0.1:10/metrics",
    "flowControl.objectCountsInterval": "1s",
    "fleet.store": "rediss://127.0.0.1:9",
    "fleet.name": "a",
    "fleet.member": "b",
    "fleet.replicas": 3,
    "fleet.refreshInterval": "500ms",
    "fleet.lease": "6s",
    "fleet.passwordFile": "token1",
    "fleet.sentinelPasswordFile": "token1",
    "fleet.caFile": "ca1.crt",
    "fleet.certificateFile": "a.crt",
    "fleet.keyFile": "a.key",
    "fleet.kubeconfig": "kubeconfig",
    "fleet.context": "d",
    "accessLog.path": "log2",
    "accessLog.requests": "errors",
    "accessLog.sampledPercent": 29,
    "accessLog.refusedPerSecond": 31,
    "accessLog.maxBytesPerSecond": 5000,
    "accessLog.maxQueued": 30,
    "accessLog.auditIds": False,
    "tracing.endpoint": "http://127.0.0.1:10",
    "tracing.samplingRatePerMillion": 29,
    "tracing.parentsFrom.users": ["*"],
    "tracing.parentsFrom.groups": ["a"],
    "tracing.serviceName": "a",
    "tracing.maxQueued": 30,
    "topFlows.enabled": False,
    "topFlows.capacity": 31,
    "workers": 2,
    "admin": None,
    "adminSocketMode": "0600",
    "adminTls.certificateFile": "b.crt",
    "adminTls.keyFile": "b.key",
    "adminTls.clientCaFile": "ca2.crt",
    "adminReadTokenFile": "token2",
    "adminTokenFile": "token2",
    "metrics": "full",
    "logLevel": "error",
    "logFormat": "json",
    "clusters": [{"name": "a", "hosts": ["a"]}],
}
"""Every setting with another value than that of `BASE`."""

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
    """The paths of settings and sections that take a restart."""
    for key, setting in settings_in(record).items():
        if setting.name in record.RESTART:
            yield prefix + key
        elif setting.section is not None and not setting.is_list:
            yield from fixed_paths(setting.section, f"{prefix}{key}.")


FIXED = (*fixed_paths(), "clusters")
