"""The one admin listener of several workers, asked by commands, scrapers and a browser."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
from typing import TYPE_CHECKING

import pytest
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
AS_JSON = "Accept: application/json\r\n"
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
SETTINGS = """
workers: 2
upstream: {{url: "{upstream}"}}
downstream: {{listen: "127.0.0.1:0"}}
admin: "127.0.0.1:0"
""".lstrip()
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
    """A proxy of two workers that has had some requests: the parent, its port, the admin's."""
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
    """A page of the listener."""
    status, body = ask(admin, target)
    assert status == 200, body
    return body


def dispatched(admin: int, target: str = "/metrics") -> list[float]:
    """How many requests got seats, series by series."""
    return [float(each) for each in DISPATCHED.findall(page(admin, target))]


def seats_of_second(admin: int) -> int:
    """The seats that the second worker may use."""
    _, body = ask(admin, "/debug/fleet?worker=2", head=AS_JSON)
    return int(json.loads(body)["inForce"])


def run(admin: int, *words: str) -> str:
    """The output of a command that asks the listener."""
    result = CliRunner().invoke(cli, [*words, "--admin", f"127.0.0.1:{admin}"])
    assert result.exit_code == 0, result.output
    return result.output


def test_commands() -> None:
    """The commands need to know of nothing: what they show is that of both."""
    with workers() as (_, _, admin):
        top = json.loads(run(admin, "top", "--once", "--output", "json"))
        limits = json.loads(run(admin, "limits", "--output", "json"))
        explained = run(admin, "explain", "list", "pods", "-n", "x")
        members = run(admin, "limits", "--fleet")

    assert sum(level["dispatched"] for level in top["levels"]) == REQUESTS
    assert [each["name"] for each in top["workers"]] == ["1", "2"]
    assert top["serverConcurrencyLimit"] == limits["serverConcurrencyLimit"] == SEATS
    # As of one process: nominal limits are rounded up.
    assert SEATS <= limits["sums"]["nominal"] < SEATS + len(limits["levels"])
    assert limits["sums"]["current"] <= SEATS
    assert "note            the queues and seats are those of worker 1 of 2\n" in explained
    assert "worker-1" in members
    assert "worker-2" in members


def test_counts_outlive_a_worker() -> None:
    """A worker that is killed takes nothing of what was counted away."""
    with workers() as (served, _, admin):
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

    assert before == meanwhile == after == [REQUESTS]
    assert sum(each) == REQUESTS
    assert {"[+]worker/1 ok", "[+]worker/2 ok", "[+]workers ok"} <= set(health.splitlines())
    assert ready == 200
    assert "apfproxy_worker_restarts_total 1.0" in restarts


def test_last_counts() -> None:
    """Workers that make room for others hand over what they counted since the last scrape."""
    with workers() as (served, port, admin):
        before = DISPATCHED.findall(page(admin, "/metrics"))
        statuses = {ask(port, "/")[0] for _ in range(8)}
        former = set(children(served))
        served.send(signal.SIGUSR2)
        served.line("all workers are replaced")
        while former.intersection(children(served)):
            pass
        after = DISPATCHED.findall(page(admin, "/metrics"))
        code, rest = served.end()

    assert (statuses, code) == ({200}, 0)
    assert ([f"{REQUESTS}.0"], [f"{REQUESTS + 8}.0"]) == (before, after)
    assert "is lost" not in rest


def test_worker_that_hangs() -> None:
    """Pages say so, its seats are the other's, and it is killed and replaced."""
    with workers() as (served, port, admin):
        hanging = children(served)[0]
        os.kill(hanging, signal.SIGSTOP)
        while "[!]worker/1: it shows no life" not in page(admin, "/readyz?verbose"):
            pass
        state = json.loads(page(admin, "/debug/live"))
        metrics = page(admin, "/metrics")
        while seats_of_second(admin) < SEATS:
            pass
        served.line(rf"worker 1 \(process {hanging}\) has shown no life for 10 s, and is killed")
        served.line(r"worker 1 serves again")
        statuses = {ask(port, "/")[0] for _ in range(20)}
        again = page(admin, "/readyz?verbose")

    assert statuses == {200}
    assert {"1": "it shows no life", "2": ""} == {
        each["name"]: each["problem"] for each in state["workers"]
    }
    assert 'apfproxy_worker_up{worker="1"} 0.0' in metrics
    assert 'apfproxy_workers{state="silent"} 1.0' in metrics
    assert "[+]worker/1 ok" in again.splitlines()


def test_worker_that_cannot_start(tmp_path: Path) -> None:
    """The others serve, and health and metrics name it."""
    objects = tmp_path / "objects.yaml"
    objects.write_text("")
    with workers("--objects", str(objects)) as (served, port, admin):
        objects.write_text("a: [")
        os.kill(children(served)[0], signal.SIGKILL)
        served.line(r"worker 1 ended with exit code 1; its log says why; next try")
        statuses = {ask(port, "/")[0] for _ in range(8)}
        ready, health = ask(admin, "/readyz?verbose")
        metrics = page(admin, "/metrics")

    assert (statuses, ready) == ({200}, 200)
    problem = r"(?m)^\[!\]worker/1: it (has no process|is starting): worker 1 ended with exit"
    assert re.search(problem, health)
    assert 'apfproxy_worker_up{worker="1"} 0.0' in metrics


def test_clusters(tmp_path: Path) -> None:
    """The pages of several clusters are those of both workers, too."""
    with started_upstream() as upstream:
        settings = tmp_path / "settings.yaml"
        settings.write_text(CLUSTERS.format(upstream=upstream))
        with command("serve", "--settings", str(settings)) as served:
            found = served.line(STARTED)
            port, admin = int(found[1]), int(found[2])
            statuses = {ask(port, "/a/x")[0] for _ in range(8)}
            overview = page(admin, "/debug/clusters").splitlines()
            levels = json.loads(run(admin, "top", "--cluster", "a", "--once", "-o", "json"))
            limits = json.loads(run(admin, "limits", "--cluster", "b", "-o", "json"))
            metrics = page(admin, "/metrics")
            unnamed, text = ask(admin, "/debug/limits")

    assert statuses == {200}
    assert {line.split(",")[0] for line in overview[1:]} == {"a", "b"}
    assert sum(level["dispatched"] for level in levels["levels"]) == 8
    assert limits["serverConcurrencyLimit"] == SEATS
    assert 'dispatched_requests_total{cluster="a",' in metrics
    assert (unnamed, text.partition(":")[0]) == (400, "cluster")


async def test_live_page(tmp_path: Path) -> None:
    """A browser sees both workers on one page, as it happens, or one of them on its own."""
    installed("chromium")
    installed("chromedriver")
    own = "document.querySelector('#of-worker:not([hidden])')?.textContent"
    link = "document.querySelector('footer a').href"
    itself = "document.querySelector('#fleet-rows tr:has(.tag:not([hidden])) th')?.textContent"
    with workers() as (_, _, admin), chromium(tmp_path) as driver:
        tab = Tab(driver)
        await tab.open(f"http://127.0.0.1:{admin}/", width=400)
        await tab.until(HOLD)
        of_all = await tab.run(f"[{own} ?? '', {itself} ?? '']")
        gap = await tab.run(GAP)
        await tab.open(f"http://127.0.0.1:{admin}/?worker=2")
        await tab.until(f"{LIVE} && {itself} === 'worker-2'")
        of_one = await tab.run(f"[{own}, {link}]")
        errors = await tab.errors()

    assert of_all == ["", ""]
    assert gap > 0
    assert of_one == ["worker 2 all workers", f"http://127.0.0.1:{admin}/metrics?worker=2"]
    assert errors == []


def test_settings_that_workers_refuse(tmp_path: Path) -> None:
    """They are in force nowhere, nor where a worker starts; the parent says why."""
    settings, tokens = tmp_path / "settings.yaml", tmp_path / "tokens"
    tokens.write_text("a" * 40)
    with started_upstream() as upstream:
        settings.write_text(SETTINGS.format(upstream=upstream))
        with command("serve", "--settings", str(settings)) as served:
            found = served.line(STARTED)
            port, admin = int(found[1]), int(found[2])
            refused = f"authentication: {{tokenFile: nowhere}}\nadminReadTokenFile: {tokens}\n"
            settings.write_text(settings.read_text() + refused)
            served.line(r"ERROR apfproxy.app.reloading: .*:5: authentication.tokenFile: .*: cannot")
            served.line(r"ERROR apfproxy.app.reloading: the settings cannot be used, and stay")
            status, health = ask(admin, "/readyz?verbose")
            open_to_all, _ = ask(admin, "/metrics")
            os.kill(children(served)[0], signal.SIGKILL)
            served.line("worker 1 serves again")
            statuses = {ask(port, "/")[0] for _ in range(20)}
            served.end()

    assert (status, open_to_all, statuses) == (200, 200, {200})
    assert "[!]settings" in health


@pytest.mark.parametrize(
    "refused",
    [
        pytest.param("", id="emptied"),
        pytest.param("adminReadTokenFile: nowhere\npreset: http\n", id="by-the-parent-alone"),
    ],
)
def test_worker_that_starts_while_settings_are_refused(refused: str, tmp_path: Path) -> None:
    """It has those in force: nobody comes in who did not before."""
    settings = tmp_path / "settings.yaml"
    (tmp_path / "tokens").write_text("a-good-token,u,1\n")
    settings.write_text("authentication: {tokenFile: tokens, anonymous: false}\n")
    with workers("--settings", str(settings), requests=0) as (served, port, _):
        settings.write_text(refused)
        served.line("the settings cannot be used, and stay as they were")
        for _ in range(2):
            os.kill(children(served)[0], signal.SIGKILL)
            served.line(r"worker \d serves again")
        heads = [f"Authorization: Bearer {each}-token\r\n" for each in ("a-good", "a-wrong")]
        right, wrong = ({ask(port, "/", head=each)[0] for _ in range(20)} for each in heads)

    assert ({200}, {401}) == (right, wrong)


def test_settings_that_one_worker_refuses(tmp_path: Path) -> None:
    """All go on with those of before, also the one that had taken the others."""
    settings, others = tmp_path / "settings.yaml", tmp_path / "others"
    (tmp_path / "tokens").write_text("a-good-token,u,1\n")
    others.write_text("another-token,u,1\n")
    settings.write_text("authentication: {tokenFile: tokens, anonymous: false}\n")
    with workers("--settings", str(settings), requests=0) as (served, port, _):
        hanging = children(served)[0]
        os.kill(hanging, signal.SIGSTOP)
        settings.write_text(settings.read_text().replace("tokens", "others"))
        served.line("worker 2 .* read again; changed: authentication.tokenFile")
        others.unlink()
        os.kill(hanging, signal.SIGCONT)
        served.line(" ERROR apfproxy.app.reloading: the settings cannot be used, and stay")
        other = {
            ask(port, "/", head="Authorization: Bearer another-token\r\n")[0] for _ in range(20)
        }
        right = {
            ask(port, "/", head="Authorization: Bearer a-good-token\r\n")[0] for _ in range(20)
        }
        still = children(served)[0]

    assert ({401}, {200}, hanging) == (other, right, still)


def test_settings_that_take_a_restart(tmp_path: Path) -> None:
    """A worker that takes another's place has them as its parent has, not as the file by now."""
    settings = tmp_path / "settings.yaml"
    with started_upstream() as upstream:
        settings.write_text(
            f"workers: 2\nupstream: {{url: '{upstream}'}}\nadmin: 127.0.0.1:0\n"
            "downstream: {listen: '127.0.0.1:0'}\n"
        )
        with command("serve", "--settings", str(settings)) as served:
            found = served.line(STARTED)
            port, admin = int(found[1]), int(found[2])
            proxied = "0', proxyProtocol: true, trustedProxies: [127.0.0.1]}"
            settings.write_text(
                settings.read_text().replace("0'}", proxied)
                + "fleet: {store: 'redis://127.0.0.1:1'}\n"
            )
            said = served.line("not changed: restart to change (.*)")[1]
            os.kill(children(served)[0], signal.SIGKILL)
            served.line("worker 1 serves again")
            statuses = {ask(port, "/")[0] for _ in range(20)}
            while '"limit"' not in (of_one := ask(admin, "/debug/fleet?worker=1", head=AS_JSON)[1]):
                pass
            code, rest = served.end()

    assert (said, statuses, code) == ("downstream.proxyProtocol, fleet.store", {200}, 0)
    assert json.loads(of_one)["store"] == "the parent process"
    assert "restart to change" not in rest  # the parent alone says it
