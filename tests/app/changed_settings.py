"""Every setting with another value, for processes whose settings change."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import yaml

from apfproxy.settings import Record, Settings
from apfproxy.settings.file import settings_in

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    maxHeldBytesPerConnection: 9MiB, gatheredBodyBytes: 11, minBodyRateBytes: 12, bodyRateGrace:
    13s, slowReaderGrace: 14s, slowReadersPerLevel: 15}
  overload: {loopDelay: 15s, memoryBytes: 16MiB}
upstream:
  url: https://127.0.0.1:10
  endpoints: [{url: https://127.0.0.1:10}, {url: https://127.0.0.1:11}]
  dns: https://localhost:10
  resolveInterval: 31s
  identity: impersonate
  tokenFile: token2
  hostHeader: a.example
  maxConnections: 17
  idleTimeout: 18s
  connectTimeout: 19s
  answerTimeout: 20s
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
  unverified: {basic: true, secretHeaders: [X-S], headers: [X-H], address: true, namesPerAddress:
    7}
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
  serverConcurrencyLimit: 28
  perEndpoint: 29
  limitAdjustment: kubernetes
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
