"""Thousands of slow clients beside two others, for `soak --slow`: slowhttptest, by its modes.

slowhttptest opens connections that send a head a few bytes at a time, or a body, or read a large
response as slowly.  Meanwhile two other clients send 20 requests a second each, every other one on
a connection of its own: a service account, whose priority level is apart from that of the slow
clients, and a user who shares theirs.

Slow bodies hold seats of their level until `downstream.limits.bodyRateGrace` is over, and slow
readers, by the settings here, until `slowReaderGrace` is, so for that long the user in the same
level may have to wait.  (By default slow readers hold theirs for as long as their requests may
take, as in kube-apiserver.)
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import asdict
from time import monotonic
from typing import TYPE_CHECKING, Any

from loadtest.clients import OpenLoop
from loadtest.processes import LoadTestError, Process, Proxy, ProxyState, installed, start_origin
from loadtest.program import Results, Table

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

MODES = {
    "head": ("-H", "-i", "2", "-x", "24"),
    "body": ("-B", "-i", "2", "-x", "10", "-s", "8192", "-t", "POST"),
    "read": ("-X", "-w", "512", "-y", "1024", "-n", "1", "-z", "32", "-k", "1"),
}
"""For slowhttptest; a piece every two seconds, or a read of 32 bytes every second."""
REQUESTS_PER_S = 20
WORST_MS = 1000.0
GRACE_MS = {"head": 0.0, "body": 5000.0, "read": 1000.0}
"""For which slow clients hold seats: `bodyRateGrace`'s default, and `slowReaderGrace` as below."""
SETTINGS = """
downstream: {limits: {slowReaderGrace: 1s, slowReadersPerLevel: 100000}}
"""
GROWTH_MIB = 48.0
"""For memory that may stay after a mode: what the allocator keeps for the next one."""
SPARE_DESCRIPTORS = 8
PERIOD_S = 0.5
QUIET_WITHIN_S = 60.0
NICE = 10
FIELDS = {
    "apart": b"X-Remote-User: system:serviceaccount:kube-system:worker\r\n"
    b"X-Remote-Group: system:serviceaccounts\r\n"
    b"X-Remote-Group: system:serviceaccounts:kube-system\r\n",
    "beside": b"X-Remote-User: alice\r\n",
}
"""For a user in the level workload-high, and of one in global-default, as the slow clients are."""
TABLE = Table(
    "mode <6 | slow >7 | apart >11 | worst ms >10.0f | beside >10 | worst ms >10.0f"
    "| RSS MiB, before/during/after >31 | descriptors >22"
)


def other_client(port: int, fields: bytes) -> OpenLoop:
    target = b"GET /api/v1/namespaces/default/configmaps/x HTTP/1.1\r\nHost: localhost\r\n"
    request = "GET", target + fields + b"\r\n"
    return OpenLoop(port, REQUESTS_PER_S, new_percent=50, request=lambda _: request)


def numbers_of(proxy: Proxy, state: ProxyState) -> dict[str, float]:
    return {
        "connections": state.downstream,
        "rss_mib": round(proxy.rss_bytes() / 2**20, 1),
        "descriptors": proxy.descriptors() - state.upstream_idle,
    }


async def suffer(
    mode: str, proxy: Proxy, options: argparse.Namespace, directory: Path
) -> dict[str, Any]:
    before = numbers_of(proxy, await proxy.state())
    most = before.copy()
    target = "large" if mode == "read" else "slow"
    command = [
        *("nice", "-n", str(NICE), installed("slowhttptest"), *MODES[mode]),
        *("-c", str(options.connections), "-r", str(options.rate), "-l", str(options.seconds)),
        *("-p", "5", "-u", f"http://127.0.0.1:{proxy.port}/{target}"),
    ]
    others = {name: other_client(proxy.port, fields) for name, fields in FIELDS.items()}
    # It may wait for connections to close, and is stopped then.
    end_s = monotonic() + options.seconds + 30
    with Process(f"slowhttptest-{mode}", command, port=proxy.port, directory=directory) as attack:

        def is_over() -> bool:
            return monotonic() > end_s or not attack.is_running

        runs = [asyncio.create_task(each.run(0, is_over)) for each in others.values()]
        while not is_over():
            with suppress(LoadTestError, OSError):
                now = numbers_of(proxy, await proxy.state())
                most = {name: max(most[name], now[name]) for name in most}
            await asyncio.sleep(PERIOD_S)
        await asyncio.gather(*runs)
    state = await proxy.quiet(QUIET_WITHIN_S, clients_leave=True)
    after = numbers_of(proxy, state)
    wrong, found = [], {}
    for name, other in others.items():
        tally, asked = other.tally(), len(other.outcomes)
        worst_ms = round(max(tally.latencies_ms, default=0.0), 1)
        found[name] = {"asked": asked, "answered": tally.answered, "worst_ms": worst_ms}
        if tally.answered != asked:
            results = {each.result for each in other.outcomes} - {"200"}
            wrong.append(f"{name}: {asked - tally.answered} of {asked} requests got {results}")
        limit_ms = WORST_MS + (GRACE_MS[mode] if name == "beside" else 0.0)
        if worst_ms > limit_ms:
            wrong.append(f"{name}: a response took {worst_ms:.0f} ms, more than {limit_ms:.0f}")
    if after["rss_mib"] - before["rss_mib"] > GROWTH_MIB:
        wrong.append(f"memory has grown by more than {GROWTH_MIB:.0f} MiB")
    if after["descriptors"] > before["descriptors"] + SPARE_DESCRIPTORS:
        wrong.append("descriptors are left")
    if not state.is_quiet or state.downstream:
        wrong.append(f"not quiet: {state}")
    return {
        "mode": mode,
        "others": found,
        "moments": [before, most, after],
        "state": asdict(state),
        "wrong": [f"{mode}: {text}" for text in wrong],
    }


async def measure(options: argparse.Namespace, directory: Path) -> Results:
    found = []
    with (
        start_origin(directory=directory) as origin,
        Proxy(directory, [origin.port], name="slow", settings=SETTINGS) as proxy,
    ):
        # Caches and pools are there before anything is measured.
        await other_client(proxy.port, FIELDS["apart"]).run(30)
        await proxy.quiet(QUIET_WITHIN_S, clients_leave=True)
        TABLE.head()
        for mode in options.only or MODES:
            each = await suffer(mode, proxy, options, directory)
            found.append(each)
            cells: list[object] = [mode, each["moments"][1]["connections"]]
            for other in each["others"].values():
                cells += [f"{other['answered']}/{other['asked']}", other["worst_ms"]]
            for name, form in (("rss_mib", ".1f"), ("descriptors", ".0f")):
                cells.append("/".join(f"{moment[name]:{form}}" for moment in each["moments"]))
            TABLE.row(*cells)
    return {"modes": found}, [text for each in found for text in each["wrong"]]
