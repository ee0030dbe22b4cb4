"""Drive a proxy, mostly with wrk, and read from `/proc` what that cost the proxy.

The mixes of requests: `cluster` is what the clients of a Kubernetes cluster send (`cluster.py`), by
a driver of its own (`cluster_driver.py`); `varied` draws namespace, name and user again for each
request, from so many that what is cached of targets or users helps little; `same` sends one request
over and over, which favours who remembers the last head.
"""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from loadtest.cluster import CONNECTIONS
from loadtest.processes import ROOT, LoadTestError, Process, installed, pin, python_module

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from loadtest.contenders import TlsSite

DEFAULT_CONNECTIONS = {"cluster": CONNECTIONS, "varied": 64, "same": 64}
MIXES = tuple(DEFAULT_CONNECTIONS)

TARGET = "/api/v1/namespaces/default/configmaps/x"
FIELDS = {
    "User-Agent": "kubectl/v1.36.0 (linux/amd64) kubernetes/24a394e",
    "Accept": "application/json",
    "Accept-Encoding": "gzip",
    "X-Remote-User": "jane@example.com",
    "X-Remote-Group": "developers",
}

REPORT_LUA = """
done = function(summary, latency, requests)
  io.write(string.format(
    'REPORT {"requests":%d,"duration_us":%d,"p50_us":%d,"p99_us":%d,"bad_statuses":%d,'
      .. '"socket_errors":%d}\\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    summary.errors.status,
    summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout))
end
"""

VARIED_LUA = """
local random = math.random
init = function(args)
  math.randomseed(os.time())
end
request = function()
  return "GET /api/v1/namespaces/team-" .. random(100) .. "/configmaps/settings-" .. random(1000000)
    .. " HTTP/1.1\\r\\nHost: " .. wrk.host .. "\\r\\n%s"
    .. "X-Remote-User: user-" .. random(10000) .. "@example.com\\r\\n\\r\\n"
end
"""


class Variety(NamedTuple):
    """Numbers of requests of the mix `cluster`.

    Attributes:
        seed: For what is drawn.
        rate: Requests a second; 0 for as many as there can be.
        streams: At once on each connection over HTTP/2; 0 speaks HTTP/1.1.
    """

    seed: int = 0
    rate: int = 0
    streams: int = 0


class Measurement(NamedTuple):
    requests: int
    requests_per_s: float
    cpu_us_per_request: float
    p50_ms: float
    p99_ms: float


def script_text(mix: str) -> str:
    if mix == "same":
        fields = (f'wrk.headers["{name}"] = "{text}"\n' for name, text in FIELDS.items())
        return "".join(fields) + REPORT_LUA
    lines = (f"{name}: {text}\\r\\n" for name, text in FIELDS.items() if name != "X-Remote-User")
    return VARIED_LUA % "".join(lines) + REPORT_LUA


def drive(
    proxy: Process,
    *,
    mix: str,
    variety: Variety,
    seconds: int,
    connections: int,
    core: int | None,
    directory: Path,
    tls: TlsSite | None = None,
) -> Measurement:
    if mix == "cluster":
        arguments = {
            "--port": proxy.port,
            "--connections": connections,
            "--seconds": seconds,
            "--seed": variety.seed,
            "--rate": variety.rate,
            "--streams": variety.streams,
            **({} if tls is None else {"--ca-file": tls.authority}),
        }
        return _drive_cluster(proxy, arguments, core, tls)
    script = directory / f"{mix}.lua"
    script.write_text(script_text(mix))
    scheme = "http" if tls is None else "https"
    argv = [
        *(installed("wrk"), "--threads=1", "--latency", f"--connections={connections}"),
        *(f"--duration={seconds}s", f"--script={script}"),
        f"{scheme}://127.0.0.1:{proxy.port}{TARGET}",
    ]
    before_ns = proxy.cpu_ns()
    with _started(argv, core, tls) as wrk:
        try:
            output, _ = wrk.communicate(timeout=seconds + 30)
        except subprocess.TimeoutExpired as error:
            raise LoadTestError(f"wrk against {proxy.name} did not end; is it stuck?") from error
    spent_ns = proxy.cpu_ns() - before_ns
    return _measurement(f"wrk against {proxy.name}", output, spent_ns)


def _drive_cluster(
    proxy: Process, arguments: Mapping[str, object], core: int | None, tls: TlsSite | None
) -> Measurement:
    argv = python_module("loadtest.cluster_driver")
    argv += [f"{name}={value}" for name, value in arguments.items()]
    with _started(argv, core, tls) as driver:
        assert driver.stdin is not None
        assert driver.stdout is not None
        output = driver.stdout.readline()
        before_ns = proxy.cpu_ns()
        if output.startswith("READY"):
            driver.stdin.write("go\n")
            driver.stdin.flush()
            output = driver.stdout.readline()
        spent_ns = proxy.cpu_ns() - before_ns
    return _measurement(f"the clients of {proxy.name}", output, spent_ns)


@contextmanager
def _started(
    argv: Sequence[str], core: int | None, tls: TlsSite | None
) -> Iterator[subprocess.Popen[str]]:
    own = {} if tls is None else {"OPENSSL_CONF": str(tls.client_config)}
    with subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
        env={**os.environ, **own},
        start_new_session=True,
    ) as driver:
        try:
            if core is not None:
                pin(driver.pid, core)
            yield driver
        finally:
            driver.kill()


def _measurement(driver: str, output: str, spent_ns: int) -> Measurement:
    reports = [line for line in output.splitlines() if line.startswith("REPORT ")]
    if not reports:
        last = output.strip().splitlines()[-1:] or ["it printed nothing"]
        raise LoadTestError(f"{driver} failed: {last[0]}")
    report = json.loads(reports[0].removeprefix("REPORT "))
    if report["bad_statuses"] or report["socket_errors"] or not report["requests"]:
        raise LoadTestError(
            f"{driver}: {report['bad_statuses']} bad statuses, "
            f"{report['socket_errors']} socket errors in {report['requests']} requests; see its log"
        )
    return Measurement(
        requests=report["requests"],
        requests_per_s=report["requests"] / (report["duration_us"] / 1e6),
        cpu_us_per_request=spent_ns / 1000 / report["requests"],
        p50_ms=report["p50_us"] / 1000,
        p99_ms=report["p99_us"] / 1000,
    )
