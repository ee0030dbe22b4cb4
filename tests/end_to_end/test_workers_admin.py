"""The one admin listener of several workers, asked by commands, scrapers and a browser."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
from typing import TYPE_CHECKING

from click.testing import CliRunner

from apfproxy.cli.commands import cli
from tests.end_to_end.programs import installed
from tests.end_to_end.served import (
    Served,
    answered,
    ask,
    children,
    command,
    connections,
    started_upstream,
)
from tests.support.browser import Tab, chromium

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STARTED = r"listens on 127\.0\.0\.1:(\d+), .* admin on 127\.0\.0\.1:(\d+)"
REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
REQUESTS = 24
CLUSTERS = """
workers: 2
downstream: {{listen: "127.0.0.1:0"}}
admin: "127.0.0.1:0"
clusters:
- {{name: a, pathPrefix: /a, upstream: {{url: "{upstream}"}}}}
- name: b
  pathPrefix: /b
  upstream: {{url: "{upstream}"}}
  flowControl: {{serverConcurrencyLimit: 40}}
"""
SEATS = 40
DISPATCHED = re.compile(r"(?m)^apiserver_flowcontrol_dispatched_requests_total\{.*\} (.*)$")
LIVE = "document.getElementById('connection').dataset.state === 'live'"
HOLD = (
    f"{LIVE} && document.getElementById('fleet').textContent.split('holds its claim').length === 3"
)
"""The page says it of both workers."""
GAP = """
(([claim, part]) => part.getBoundingClientRect().left - claim.getBoundingClientRect().right)(
  document.querySelector('#fleet-rows td.number').children)
""".strip()
"""Pixels between a worker's claim and its part of all seats."""


@contextlib.contextmanager
def workers(*flags: str, requests: int = REQUESTS) -> Iterator[tuple[Served, int, int]]:
    with (
        started_upstream() as upstream,
        command(
            *("serve", "--workers", "2", "--upstream", upstream, "--listen", "127.0.0.1:0"),
            *("--admin", "127.0.0.1:0", "--server-concurrency-limit", str(SEATS)),
            *flags,
        ) as served,
    ):
        found = served.line(STARTED)
        port, admin = int(found[1]), int(found[2])
        with connections(port, requests, REQUEST) as clients:
            for each in clients:
                assert answered(each) == 200
        while sum(dispatched(admin)) < requests:
            pass  # workers tell their parent once a second
        yield served, port, admin


def page(admin: int, target: str) -> str:
    status, body = ask(admin, target)
    assert status == 200, body
    return body


def dispatched(admin: int, target: str = "/metrics") -> list[float]:
    return [float(each) for each in DISPATCHED.findall(page(admin, target))]


def run(admin: int, *words: str) -> str:
    result = CliRunner().invoke(cli, [*words, "--admin", f"127.0.0.1:{admin}"])
    assert result.exit_code == 0, result.output
    return result.output


async def check_live_page(admin: int, folder: Path) -> None:
    installed("chromium")
    installed("chromedriver")
    own = "document.querySelector('#of-worker:not([hidden])')?.textContent"
    link = "document.querySelector('footer a').href"
    itself = "document.querySelector('#fleet-rows tr:has(.tag:not([hidden])) th')?.textContent"
    with chromium(folder) as driver:
        tab = Tab(driver)
        await tab.open(f"http://127.0.0.1:{admin}/", width=400)
        await tab.until(HOLD)
        assert await tab.run(f"[{own} ?? '', {itself} ?? '']") == ["", ""]
        assert await tab.run(GAP) > 0
        await tab.open(f"http://127.0.0.1:{admin}/?worker=2")
        await tab.until(f"{LIVE} && {itself} === 'worker-2'")
        metrics = f"http://127.0.0.1:{admin}/metrics?worker=2"
        assert await tab.run(f"[{own}, {link}]") == ["worker 2 all workers", metrics]
        assert await tab.errors() == []


async def test_pages_and_counts(tmp_path: Path) -> None:
    """They are those of both workers, and no end of a worker takes anything of them away."""
    with workers() as (served, port, admin):
        top = json.loads(run(admin, "top", "--once", "--output", "json"))
        limits = json.loads(run(admin, "limits", "--output", "json"))
        explained = run(admin, "explain", "list", "pods", "-n", "x")
        members = run(admin, "limits", "--fleet")
        await check_live_page(admin, tmp_path)
        before = dispatched(admin)
        each = dispatched(admin, "/metrics?workers=each")
        health = page(admin, "/readyz?verbose")
        os.kill(children(served)[0], signal.SIGKILL)
        served.line(r"worker \d \(process \d+\) was ended by SIGKILL")
        meanwhile = dispatched(admin)
        ready, _ = ask(admin, "/readyz")
        served.line(r"worker \d serves again")
        after = dispatched(admin)
        restarts = page(admin, "/metrics")
        statuses = {ask(port, "/")[0] for _ in range(8)}
        former = set(children(served))
        served.send(signal.SIGUSR2)
        served.line("all workers are replaced")
        while former.intersection(children(served)):
            pass
        in_the_end = dispatched(admin)
        code, rest = served.end()

    assert sum(level["dispatched"] for level in top["levels"]) == REQUESTS
    assert [each["name"] for each in top["workers"]] == ["1", "2"]
    assert top["serverConcurrencyLimit"] == limits["serverConcurrencyLimit"] == SEATS
    # As of one process: nominal limits are rounded up.
    assert SEATS <= limits["sums"]["nominal"] < SEATS + len(limits["levels"])
    assert limits["sums"]["current"] <= SEATS
    assert "note            the queues and seats are those of worker 1 of 2\n" in explained
    assert "worker-1" in members
    assert "worker-2" in members

    assert before == meanwhile == after == [REQUESTS]
    assert sum(each) == REQUESTS
    assert {"[+]worker/1 ok", "[+]worker/2 ok", "[+]workers ok"} <= set(health.splitlines())
    assert ready == 200
    assert "apfproxy_worker_restarts_total 1.0" in restarts
    assert (statuses, in_the_end, code) == ({200}, [REQUESTS + 8], 0)
    assert "is lost" not in rest


def test_clusters(tmp_path: Path) -> None:
    """Workers serve several clusters, whose pages are those of both workers as well."""
    with started_upstream() as upstream:
        settings = tmp_path / "settings.yaml"
        settings.write_text(CLUSTERS.format(upstream=upstream))
        with command("serve", "--settings", str(settings)) as served:
            found = served.line(STARTED)
            port, admin = int(found[1]), int(found[2])
            statuses = {ask(port, f"/{cluster}/x")[0] for cluster in "ab" for _ in range(8)}
            overview = page(admin, "/debug/clusters").splitlines()
            levels = json.loads(run(admin, "top", "--cluster", "a", "--once", "-o", "json"))
            limits = json.loads(run(admin, "limits", "--cluster", "b", "-o", "json"))
            metrics = page(admin, "/metrics")
            unnamed, text = ask(admin, "/debug/limits")
            settings.write_text(settings.read_text().replace("pathPrefix: /b", "pathPrefix: /c"))
            for _ in range(2):
                served.line(r"worker \d .* read again; changed: ")
            after = {ask(port, "/c/x")[0] for _ in range(8)}
            settings.write_text("clusters: [")
            served.line("not YAML")
            code, rest = served.end()

    assert (statuses, after) == ({200}, {200})
    assert {line.split(",")[0] for line in overview[1:]} == {"a", "b"}
    assert sum(level["dispatched"] for level in levels["levels"]) == 8
    assert limits["serverConcurrencyLimit"] == SEATS
    assert 'dispatched_requests_total{cluster="a",' in metrics
    assert (unnamed, text.partition(":")[0]) == (400, "cluster")
    assert code == 0
    assert "not YAML" not in rest  # the parent says it, and does not pass it on
