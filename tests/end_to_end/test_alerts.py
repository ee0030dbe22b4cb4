"""Each alert fires for a real proxy in that state, and none for one that is busy and healthy."""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from apfproxy.app import process as process_module
from apfproxy.proxy import server as server_module
from apfproxy.settings import Address
from tests.config.expressions import alerting_rules
from tests.end_to_end.http2.frames import PREFACE, ping
from tests.end_to_end.http2.frames import settings as settings_frame
from tests.end_to_end.programs import free_port, installed
from tests.end_to_end.prometheus import (
    Expected,
    Labels,
    Series,
    minutes,
    promtool,
    series_of,
)
from tests.end_to_end.scene import GET, NARROW, OK, MovedClock, Setup, on_uvloop, running
from tests.end_to_end.served import (
    WITHIN_S,
    Answer,
    Served,
    Upstream,
    answered,
    ask,
    children,
    command,
    connections,
)
from tests.support.certificates import DAY, Authority
from tests.support.clocks import until
from tests.support.credentials import unsigned

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

IN_A_YEAR = datetime.now(UTC) + 365 * DAY
WAITS = {rule["alert"]: minutes(rule["for"]) for rule in alerting_rules()}
"""For each alert the minutes for which its expression has to hold."""
WINDOW = 15
"""Minutes: the longest range that an expression looks back, or more."""
LONG = 60
"""Minutes from which on promtool looks every 15 minutes only."""
QUIET = 30
"""Minutes for which a proxy is well before it comes into a state."""
LISTENS = r"listens on 127\.0\.0\.1:(\d+)"
HOLD = b"GET /hold HTTP/1.1\r\nHost: a\r\n\r\n"
MASTER = HOLD.replace(
    b"\r\n\r\n", b"\r\nX-Remote-User: a\r\nX-Remote-Group: system:masters\r\n\r\n"
)
DANGLING = (
    NARROW.rpartition("---")[2].replace(": narrow", ": missing").replace(": everybody", ": b")
)
WRONG_ADDITION = NARROW.replace(
    "{name: everybody,", '{name: everybody, annotations: {"apfproxy.io/a": b},'
)
LOOK_EVERY_S = 0.1
WELL = "apfproxy_upstream_up 1"
LATE_S = 6.0
"""More than five seconds, which is a bound of a histogram."""
REQUESTS, PAGES = 40, 4
BAD = b"GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer bad\r\n\r\n"
FLOOD = PREFACE + settings_frame() + ping() * 10_000


class Behind(Answer):
    """The server behind: some paths are answered late, or badly."""

    released: threading.Event

    def do_GET(self) -> None:  # noqa: N802 - its name there
        if self.path == "/hold":
            self.released.wait(WITHIN_S)
        elif self.path == "/bad":
            self.send_error(500)
            return
        elif self.path == "/broken":
            self.close_connection = True
            return
        super().do_GET()

    def do_POST(self) -> None:  # noqa: N802 - its name there
        if self.path == "/v1/completions":
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            for _ in range(3):
                self.wfile.write(b"data: {}\n\n")
                threading.Event().wait(0.05)
            self.close_connection = True
            return
        self.released.wait(WITHIN_S)
        self.send_response(500)
        self.send_header("Content-Length", "0")
        self.end_headers()


@contextlib.contextmanager
def behind(released: threading.Event | None = None) -> Iterator[str]:
    end = released or threading.Event()
    server = Upstream(("127.0.0.1", 0), type("Mine", (Behind,), {"released": end}))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        end.set()
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass
class Stage:
    """Where a proxy is brought to a state; its first page is from before."""

    folder: Path
    stack: contextlib.ExitStack
    admin: int = field(default_factory=free_port)
    pages: list[Series] = field(default_factory=list)

    def mark(self) -> None:
        """Take the series of now."""
        page = self.page()
        self.pages.append(series_of(page, instance=f"127.0.0.1:{self.admin}", job="apfproxy"))

    def behind(self, released: threading.Event | None = None) -> str:
        return self.stack.enter_context(behind(released))

    def hold(self, port: int, number: int, request: bytes = HOLD) -> None:
        self.stack.enter_context(connections(port, number, request))

    @property
    def settings(self) -> Path:
        return self.folder / f"settings-{self.admin}.yaml"

    def serve(
        self,
        upstream: str | dict[str, Any],
        *,
        admin: int = 0,
        descriptors: int | None = None,
        downstream: dict[str, Any] | None = None,
        **settings: Any,  # noqa: ANN401 - as YAML has them
    ) -> tuple[Served, int]:
        admin = admin or self.admin
        upstream = {"url": upstream} if isinstance(upstream, str) else upstream
        # Where other processes hold the loop up, that is not looked for.
        own = {"listen": "127.0.0.1:0", "overload": {"loopDelay": None}} | (downstream or {})
        path = self.folder / f"settings-{admin}.yaml"
        listener = f"127.0.0.1:{admin}"
        whole = {"downstream": own, "upstream": upstream, "admin": listener, **settings}
        path.write_text(yaml.safe_dump(whole))
        served = self.stack.enter_context(
            command("serve", "--settings", str(path), descriptors=descriptors)
        )
        return served, int(served.line(LISTENS)[1])

    def page(self) -> str:
        return ask(self.admin, "/metrics")[1]

    def until(self, *patterns: str) -> None:
        end = time.monotonic() + WITHIN_S
        while not all(re.search(f"(?m)^{each}", page := self.page()) for each in patterns):
            assert time.monotonic() < end, page
            threading.Event().wait(LOOK_EVERY_S)

    def until_other(self, name: str, before: str) -> None:
        [found] = re.findall(rf"(?m)^{name}.*$", before)
        self.until(f"(?!{re.escape(found)}){name}")

    def objects(self, name: str, text: str) -> str:
        folder = self.folder / "objects"
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(text)
        return str(folder)

    def tls(self, authority: Authority, not_after: datetime) -> dict[str, str]:
        issued = authority.issue("a", usage="server", not_after=not_after)
        certificate, key = issued.write(self.folder, "tls")
        return {"certificateFile": certificate, "keyFile": key}


Function = Callable[[Stage], None]
STATES: list[Any] = []
"""For each a function, what fires then, and what has fired before."""


def raises(*alerts: str, before: tuple[str, ...] = ()) -> Callable[[Function], Function]:
    def register(function: Function) -> Function:
        firing, earlier = (
            frozenset(f"Apfproxy{each}" for each in some) for some in (alerts, before)
        )
        STATES.append(pytest.param(function, firing, earlier, id=function.__name__))
        return function

    return register


@raises("RequestsRejected", "SeatsExhausted", "ExemptLevelGrows", before=("SeatsExhausted",))
def rejecting(stage: Stage) -> None:
    flow_control = {"serverConcurrencyLimit": 2, "objects": [stage.objects("a.yaml", NARROW)]}
    _, port = stage.serve(
        stage.behind(),
        downstream={"identityHeadersFrom": ["127.0.0.1"]},
        flowControl=flow_control,
    )
    rejected = r"apiserver_flowcontrol_rejected_requests_total\{.*\"queue-full\"\} "
    stage.hold(port, 10)
    stage.until(rejected + "6")
    stage.mark()
    stage.hold(port, 10)
    stage.hold(port, 3, MASTER)
    exempt = r'apiserver_flowcontrol_current_executing_seats\{.*"exempt"\} 3'
    stage.until(rejected + "16", exempt)
    stage.mark()


@raises("WaitsLong")
def waiting(stage: Stage) -> None:
    @on_uvloop
    async def wait() -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(process_module, "LoopClock", MovedClock)
            setup = Setup(NARROW, seats=1, admin=Address(host="127.0.0.1", port=stage.admin))
            async with running(setup) as scene:
                clock = scene.process.clock
                assert isinstance(clock, MovedClock)
                await scene.exchange(GET)
                await asyncio.to_thread(stage.mark)
                hold = await scene.take_seat()
                waiting = await scene.ask(GET)
                await until(lambda: scene.level().queue_set.requests_waiting)
                clock.move(LATE_S)
                await hold.end()
                await (await scene.upstream.next_request()).peer.send(OK)
                await waiting.read_answer()
                await asyncio.to_thread(stage.mark)

    wait()


@raises(
    *("ConfigurationNotInForce", "DanglingFlowSchemas", "AdditionsUnused", "HealthCheckFails"),
    *("TokenExpires", "AuthenticationFails"),
)
def neglected(stage: Stage) -> None:
    token, now = stage.folder / "token", datetime.now(UTC)
    token.write_bytes(unsigned({"iat": int(now.timestamp()), "exp": int(IN_A_YEAR.timestamp())}))
    (stage.folder / "tokens.csv").write_text("good,alice,1\n")
    served, port = stage.serve(
        {"url": stage.behind(), "tokenFile": "token"},
        authentication={"tokenFile": "tokens.csv"},
        flowControl={"objects": [stage.objects("good.yaml", NARROW)]},
    )
    assert token_statuses(port, "good") == [200]
    stage.mark()
    before = stage.page()
    begin, end = ((now + each).timestamp() for each in (-365 * DAY, DAY / 24))
    token.write_bytes(unsigned({"iat": int(begin), "exp": int(end)}))
    stage.until_other("apfproxy_token_issued_timestamp_seconds", before)
    stage.objects("dangling.yaml", DANGLING)
    stage.objects("good.yaml", WRONG_ADDITION)
    stage.until("apfproxy_dangling_flow_schemas 1", "apfproxy_unused_additions 1")
    stage.objects("bad.yaml", "kind: FlowSchema")
    stage.settings.write_text("downstream: 1")
    served.send(signal.SIGHUP)
    stage.until("apfproxy_config_problems [1-9]", r'apfproxy_healthcheck\{name="settings"\} 0')
    assert token_statuses(port, "good", "a", "b", "good") == [200, 401, 401, 200]
    stage.mark()


@raises("UpstreamDown", "Overloaded", "ObservesOnly")
def alone(stage: Stage) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    overload = {"memoryBytes": "1MiB"}
    stage.serve(url, downstream={"overload": overload}, flowControl={"enforcement": "observe"})
    stage.until("apfproxy_upstream_up 0", r'apfproxy_overloaded\{reason="memory"\} 1')
    stage.mark()


@raises("EndpointDown", "UpstreamFails", before=("EndpointDown",))
def broken(stage: Stage) -> None:
    urls = [stage.behind(), f"http://127.0.0.1:{free_port()}"]
    health = {"path": "/readyz", "interval": "200ms"}
    upstream = {"endpoints": [{"url": each} for each in urls], "healthCheck": health}
    _, port = stage.serve(upstream)
    stage.until(r"apfproxy_endpoint_up\{.*\} 0", r"apfproxy_endpoint_up\{.*\} 1")
    assert ask(port, "/")[0] == 200
    stage.mark()
    assert [ask(port, path)[0] for path in ("/", "/broken", "/")] == [200, 502, 200]
    stage.mark()


@contextlib.contextmanager
def redis(folder: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    path = folder / "redis.sock"
    process = subprocess.Popen(  # noqa: S603 - a program of the system, on files of the test
        [installed("redis-server"), "--port", "0", "--unixsocket", str(path), "--save", ""],
        cwd=folder,
        stdout=subprocess.DEVNULL,
    )
    try:
        yield f"redis+unix:{path}", process
    finally:
        process.kill()
        process.wait()


def member(stage: Stage, store: str, admin: int, seats: int) -> tuple[Served, int]:
    fleet = {"store": store, "member": str(admin), "refreshInterval": "200ms", "lease": "2s"}
    flow_control = {"serverConcurrencyLimit": seats}
    return stage.serve(stage.behind(), admin=admin, fleet=fleet, flowControl=flow_control)


@raises("FleetMembersUnlike", "FleetClaimsAboveLimit")
def unlike(stage: Stage) -> None:
    store, _ = stage.stack.enter_context(redis(stage.folder))
    _, port = member(stage, store, stage.admin, 20)
    stage.hold(port, 10)
    stage.until("apfproxy_fleet_used_seats 10")
    stage.mark()
    member(stage, store, free_port(), 5)
    stage.until("apfproxy_fleet_unlike_members 1", "apfproxy_fleet_limit_seats 5")
    stage.mark()


@raises("FleetMemberLost", "FleetLedgerAway")
def lost(stage: Stage) -> None:
    store, server = stage.stack.enter_context(redis(stage.folder))
    member(stage, store, stage.admin, 20)
    other, _ = member(stage, store, free_port(), 20)
    stage.until("apfproxy_fleet_members 2", r'apfproxy_fleet_state\{state="held"\} 1')
    stage.mark()
    other.process.kill()
    stage.until("apfproxy_fleet_lost_members_total 1")
    server.kill()
    stage.until(r'apfproxy_fleet_state\{state="(expired|partitioned)"\} 1')
    stage.mark()


@raises("NoWorker", "WorkerSilent", "WorkersRestart")
def without_workers(stage: Stage) -> None:
    tls = stage.tls(Authority("site"), IN_A_YEAR)
    served, _ = stage.serve(stage.behind(), downstream={"tls": tls}, workers=2)
    stage.until(r'apfproxy_workers\{state="serving"\} 2')
    stage.mark()
    (stage.folder / "tls.crt").unlink()
    for pid in children(served):
        subprocess.run(["kill", "-9", str(pid)], check=True)  # noqa: S603, S607
    stage.until(
        r'apfproxy_workers\{state="serving"\} 0', "apfproxy_worker_restarts_total ([3-9]|1\\d)"
    )
    stage.mark()


@raises("ConnectionsRefused", "DescriptorsRunOut")
def crowded(stage: Stage) -> None:
    _, port = stage.serve(stage.behind(), descriptors=64, accessLog={"path": "log"})
    stage.until(WELL)
    stage.mark()
    stage.hold(port, 40)
    stage.hold(stage.admin, 8, b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n")
    stage.until(
        r'apfproxy_connections_refused_total\{reason="connections"\} [1-9]',
        r"process_open_fds (5[89]|6\d)",
    )
    stage.mark()


@raises("TlsHandshakesFail", "CertificateExpires", "Floods")
def hostile(stage: Stage) -> None:
    authority = Authority("site")
    tls = stage.tls(authority, IN_A_YEAR)
    _, port = stage.serve(stage.behind(), downstream={"tls": tls})
    stage.until(WELL)
    stage.mark()
    before = stage.page()
    stage.tls(authority, datetime.now(UTC) + DAY)
    stage.until_other("apfproxy_certificate_expiry_timestamp_seconds", before)
    for _ in range(3):
        with pytest.raises(ssl.SSLCertVerificationError):
            handshake(port, ssl.create_default_context())
    context = ssl.create_default_context(cadata=authority.pem.decode())
    context.set_alpn_protocols(["h2"])
    with handshake(port, context) as client, contextlib.suppress(OSError):
        client.sendall(FLOOD)
        while client.recv(65536):
            pass
    stage.until(
        r"apfproxy_http2_floods_total\{.*\} [1-9]", r"apfproxy_tls_handshake_failures_total\{.*\} 3"
    )
    stage.mark()


@raises("ReviewsFail", "ReviewsLeftOut", "HealthCheckFails", "AccessLogIncomplete")
def unreviewed(stage: Stage) -> None:
    review = {"enabled": True, "maxConcurrent": 1}
    (stage.folder / "token").write_text("own")
    released = threading.Event()
    _, port = stage.serve(
        {"url": stage.behind(released), "tokenFile": "token"},
        authentication={"tokenReview": review},
        accessLog={"path": "/dev/full"},
    )
    stage.until(WELL)
    stage.mark()
    with contextlib.ExitStack() as clients:
        for each in range(40):
            request = HOLD.replace(b"Host:", b"Authorization: Bearer %d\r\nHost:" % each)
            clients.enter_context(connections(port, 1, request))
        stage.until(r'apfproxy_reviews_refused_total\{.*"queue-full"\} [1-9]')
        released.set()
        stage.until(r"apfproxy_review_failures_total\{.*\} [1-9]")
    stage.until("apfproxy_access_log_errors_total [1-9]")
    stage.mark()


@raises("NoDeadlines", "InternalErrors")
def failing(stage: Stage) -> None:
    @on_uvloop
    async def fail() -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(server_module, "SWEEP_PERIOD_S", 0.001)
            patch.setattr(server_module, "STALE_SWEEP_S", 1.0)
            async with running(Setup(admin=Address(host="127.0.0.1", port=stage.admin))) as scene:
                scene.expects_errors = True
                await asyncio.to_thread(stage.mark)
                patch.setattr(scene.process.server, "_shared", None)
                await asyncio.to_thread(
                    stage.until,
                    r'apfproxy_healthcheck\{name="sweep"\} 0',
                    r"apfproxy_internal_errors_total\{.*\} [1-9]",
                )
                await asyncio.to_thread(stage.mark)
                patch.undo()

    fail()


def handshake(port: int, context: ssl.SSLContext) -> ssl.SSLSocket:
    with socket.create_connection(("127.0.0.1", port), timeout=WITHIN_S) as plain:
        return context.wrap_socket(plain, server_hostname="127.0.0.1")


def token_statuses(port: int, *tokens: str) -> list[int]:
    return [ask(port, "/", head=f"Authorization: Bearer {each}\r\n")[0] for each in tokens]


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> list[Series]:
    folder, authority = tmp_path_factory.mktemp("healthy"), Authority("site")
    (folder / "tokens.csv").write_text("good,alice,1\n")
    context = ssl.create_default_context(cadata=authority.pem.decode())
    good = b"GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer good\r\n\r\n"
    with contextlib.ExitStack() as stack:
        stage = Stage(folder, stack)
        _, port = stage.serve(
            {"endpoints": [{"url": stage.behind()} for _ in range(2)]},
            downstream={"tls": stage.tls(authority, IN_A_YEAR)},
            authentication={"tokenFile": "tokens.csv"},
            flowControl={"serverConcurrencyLimit": 20},
            accessLog={"path": "access.log"},
        )
        for _ in range(PAGES):
            with contextlib.closing(handshake(port, context)) as client:
                for request, status in ((good, 200),) * REQUESTS + ((BAD, 401),):
                    client.sendall(request)
                    assert answered(client) == status
            with pytest.raises(ssl.SSLCertVerificationError):
                handshake(port, ssl.create_default_context())
            stage.mark()
    return stage.pages


def test_busy_and_healthy(healthy: list[Series], tmp_path: Path) -> None:
    expected = [Expected(minute, frozenset()) for minute in (1, 2, 5, 10, 15, 20, 40, 60)]

    promtool(tmp_path, {"healthy": healthy}, 0, expected)


def test_series_of_others(healthy: list[Series], tmp_path: Path) -> None:
    """A kube-apiserver has series of the same names, however bad they are, and is no proxy."""
    theirs = [
        {
            relabelled(key, instance="10.0.0.1:6443"): value
            for key in healthy[0]
            if dict(key)["__name__"].startswith(("apiserver_", "process_"))
        }
        for value in (0.0, 1e6)
    ]
    assert any(("priority_level", "exempt") in each for each in theirs[0])

    promtool(tmp_path, {"healthy": healthy, "other": theirs}, 1, [Expected(60, frozenset())])


@pytest.mark.parametrize(("bring_about", "alerts", "before"), STATES)
def test_state(
    bring_about: Function,
    alerts: frozenset[str],
    before: frozenset[str],
    healthy: list[Series],
    tmp_path: Path,
) -> None:
    """Its alerts fire, whatever the job's name, once they have waited; no other one does."""
    with contextlib.ExitStack() as stack:
        stage = Stage(tmp_path, stack)
        bring_about(stage)
    judge(stage.pages, alerts, before, healthy, tmp_path)


def test_killed(healthy: list[Series], tmp_path: Path) -> None:
    before = {relabelled(key, instance="127.0.0.1:1"): value for key, value in healthy[0].items()}
    down = {key: 0.0 for key in before if ("__name__", "up") in key}

    judge([before, down], frozenset({"ApfproxyDown"}), frozenset(), healthy, tmp_path)


def judge(
    pages: list[Series],
    alerts: frozenset[str],
    before: frozenset[str],
    healthy: list[Series],
    folder: Path,
) -> None:
    last = max(WAITS[each] for each in alerts)
    step = 15 if last > LONG else 1
    first = QUIET if len(pages) > 1 else 0
    expected = [Expected(first + last + WINDOW, alerts)]
    if first:
        expected.append(Expected(first - step, before))
    expected += [
        Expected(first + WAITS[each] - step, frozenset(), of=each)
        for each in alerts - before
        if WAITS[each] > step
    ]
    renamed = [
        {relabelled(key, job="another"): value for key, value in series.items()} for series in pages
    ]
    promtool(folder, {"healthy": healthy, "other": renamed}, first, expected, step=step)


def relabelled(key: Labels, **labels: str) -> Labels:
    return tuple(sorted((dict(key) | labels).items()))


def test_absent(tmp_path: Path) -> None:
    """A Prometheus without a proxy says so, as no series of a proxy is there."""
    minute = WAITS["ApfproxyAbsent"]
    expected = [Expected(each, frozenset()) for each in (1, minute - 1)]

    promtool(tmp_path, {}, 0, [*expected, Expected(minute + 1, frozenset({"ApfproxyAbsent"}))])


def test_every_alert_has_its_state() -> None:
    """Each alert of the file is raised by a state above, or has a test of its own."""
    raised = {"ApfproxyAbsent", "ApfproxyDown"}.union(*(each.values[1] for each in STATES))

    assert raised == WAITS.keys()
