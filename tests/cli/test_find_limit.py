"""`apfproxy find-limit`: which limit it finds, and what it says where there is none."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import signal
import socket
import threading
import xml.etree.ElementTree as ET
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from apfproxy.app import running
from apfproxy.base.held_signals import INTERRUPTED
from apfproxy.cli import find_limit, stepped_load
from apfproxy.cli.find_limit import check_address
from apfproxy.cli.find_limit_tables import lines_of, picture, report_of
from apfproxy.cli.main import main
from apfproxy.cli.stepped_load import Search, Step
from apfproxy.settings import Address
from tests.support.http_server import serving

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from pathlib import Path

    from tests.support.http_server import Handler

SERVER = Address(host="127.0.0.1", port=8000)
KNEE, SERVICE_S = 8, 0.1


@pytest.fixture(autouse=True)
def same_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "raise_descriptor_limit", lambda: None)


def step_of(concurrency: int, throughput: float, *, fails: bool = False, busy: float = 0.1) -> Step:
    step = Step(concurrency, 10.0, [0.01] * round(10 * throughput), busy=busy)
    if fails:
        step.failures["503"] = step.requests
        step.latencies_s.clear()
    return step


def searched(throughput: Callable[[int], float], fails_from: int = 1 << 20) -> Search:
    search = Search(512, 0.97)
    looks: Counter[int] = Counter()
    while concurrency := search.next():
        looks[concurrency] += 1
        fails = concurrency >= fails_from
        search.add(step_of(concurrency, throughput(concurrency), fails=fails))
    assert looks.total() <= stepped_load.STEPS
    assert max(looks.values()) <= 2
    return search


@pytest.mark.parametrize(
    ("throughput", "fails_from", "limits", "most"),
    [
        pytest.param(lambda n: 50 * min(n, 20), 1 << 20, (18, 24), 128, id="flat"),
        pytest.param(lambda n: 50 * n / max(1.0, n / 20) ** 1.5, 1 << 20, (18, 24), 64, id="falls"),
        pytest.param(lambda n: 50 * min(n, 100), 1 << 20, (90, 125), 512, id="many"),
        pytest.param(lambda _: 200.0, 1 << 20, (1, 1), 4, id="one-at-a-time"),
        pytest.param(lambda n: 50 * n, 20, (16, 19), 32, id="refuses"),
        pytest.param(lambda n: 50 * n, 1 << 20, (512, 512), 512, id="no-end"),
        pytest.param(lambda n: 50 * min(n, 3), 1 << 20, (3, 3), 16, id="few"),
    ],
)
def test_limit(
    throughput: Callable[[int], float], fails_from: int, limits: tuple[int, int], most: int
) -> None:
    """It is at the knee, and the server gets no more requests at a time than that takes."""
    search = searched(throughput, fails_from)

    assert limits[0] <= search.knee.concurrency <= limits[1]
    assert max(search.steps) <= most
    assert search.is_open == (limits[0] == 512)


def test_disturbed_step() -> None:
    """Steps that were slow for another reason are looked at again, and do not raise the limit."""
    looks: Counter[int] = Counter()
    search = Search(512, 0.97)
    while concurrency := search.next():
        looks[concurrency] += 1
        is_disturbed = concurrency in (8, 16) and looks[concurrency] == 1
        throughput = 30 * min(concurrency, 8) * (0.7 if is_disturbed else 1.0)
        search.add(step_of(concurrency, throughput))

    assert 8 == search.knee.concurrency
    assert search.steps[8].throughput == 240


def test_recommendation() -> None:
    search = searched(lambda n: min(100 * n, 390 + n))
    report = report_of(SERVER, ["/a"], search, is_interrupted=False)

    assert (4, 16, False, "http") == tuple(
        report[each] for each in ("limit", "highest", "isLowerBound", "preset")
    )
    *_, advice, shortfall, levels = lines_of(report)
    assert advice == (
        "Set --server-concurrency-limit 4: 97% of the highest throughput (406/s at 16); p99 is"
        " 10 ms there, 10 ms at 16."
    )
    assert "4 seats are too few for health" in shortfall
    assert "interactive 4" in levels


@pytest.mark.parametrize(
    ("fails_from", "is_lower_bound", "note"),
    [
        (1 << 20, True, "The throughput still grew: give a greater --max-concurrency."),
        (20, False, "11,500 of 11,500 requests failed (503) with 23 at a time."),
    ],
)
def test_notes(fails_from: int, *, is_lower_bound: bool, note: str) -> None:
    search = searched(lambda n: 50 * n, fails_from)
    report = report_of(SERVER, ["/api/v1/pods"], search, is_interrupted=False)

    assert (is_lower_bound, "kubernetes") == (report["isLowerBound"], report["preset"])
    assert note in list(lines_of(report))


@pytest.mark.parametrize(
    ("is_interrupted", "note"), [(True, "was interrupted"), (False, "longer --max-duration")]
)
def test_cut_short(*, is_interrupted: bool, note: str) -> None:
    """The limit that is known then is one at least."""
    search = Search(16, 0.97)
    search.add(step_of(1, 100))
    text = "\n".join(lines_of(report_of(SERVER, ["/"], search, is_interrupted=is_interrupted)))

    assert "--server-concurrency-limit 1 at least: it has the highest throughput, 100/s" in text
    assert note in text


@pytest.mark.parametrize("at_first", [1, 4, 6])
def test_server_that_breaks(at_first: int) -> None:
    """Failures at a concurrency that went well before are not those of too much load."""
    search = Search(512, 0.97)
    for _ in range(at_first):
        search.add(step_of(search.next() or 0, 50 * min(search.next() or 0, 8)))
    highest = search.good[-1].concurrency
    looks = 0
    while concurrency := search.next():
        looks += 1
        search.add(step_of(concurrency, 100, fails=True))
    report = report_of(SERVER, ["/"], search, is_interrupted=False)

    assert looks <= 5
    assert (None, False) == (report["limit"], report["isLowerBound"])
    *_, text = lines_of(report)
    assert text.startswith("No limit was found: 1,000 of 1,000 requests failed (503) with ")
    assert text.endswith(f"see to it, then give --max-concurrency {highest}.")


def test_server_that_recovers() -> None:
    """One more look sees that the server recovers from too much."""
    search = Search(512, 0.97)
    looked: list[int] = []
    while concurrency := search.next():
        looked.append(concurrency)
        search.add(step_of(concurrency, 50, fails=concurrency > 1))

    assert [1, 2, 1] == looked
    assert report_of(SERVER, ["/"], search, is_interrupted=False)["limit"] == 1


def test_own_limit() -> None:
    """No limit is given where this program was what had no more time."""
    search = Search(16, 0.97)
    search.add(step_of(1, 4000))
    search.add(step_of(2, 4100, busy=0.95))
    report = report_of(SERVER, ["/"], search, is_interrupted=False)

    assert report["limit"] is None
    assert "No limit was found: find-limit itself was busy" in "\n".join(lines_of(report))
    assert ET.fromstring(picture(report)) is not None  # noqa: S314 - own text


@contextlib.contextmanager
def served(handler: Handler) -> Iterator[str]:
    """Serve in another thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def run(work: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401 - what that returns
        return asyncio.run_coroutine_threadsafe(work, loop).result()

    manager = serving(handler)
    try:
        yield run(manager.__aenter__())
        run(manager.__aexit__(None, None, None))
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def test_server_with_a_known_limit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    places = asyncio.Semaphore(KNEE)
    paths = set()

    async def handle(request: web.Request) -> web.Response:
        paths.add((request.path_qs, request.headers.get("authorization")))
        async with places:
            await asyncio.sleep(SERVICE_S)
        return web.Response(text="ok")

    (tmp_path / "token").write_text("abc")
    plot = tmp_path / "plot.svg"
    with served(handle) as url:
        flags = ["--path", "/a?b=%20", "--path", "/c", "--max-duration", "12s", "--json"]
        files = ["--token-file", str(tmp_path / "token"), "--plot", str(plot)]
        code = main(["find-limit", "--upstream", url, *flags, *files])
    said = capsys.readouterr()

    assert (0, f"GET /a?b=%20, /c at {url}, at most 512 requests at a time, for 12 s at most") == (
        code,
        said.err.partition(";")[0],
    )
    report = json.loads(said.out)
    assert KNEE / 1.5 <= report["limit"] <= KNEE * 1.5
    assert paths == {("/a?b=%20", "Bearer abc"), ("/c", "Bearer abc")}
    drawn = "".join(ET.parse(plot).getroot().itertext())  # noqa: S314 - own text
    assert f"{url}: limit {report['limit']}responses a second" in drawn


@pytest.mark.parametrize(
    ("request_number", "text"),
    [
        pytest.param(1, "apfproxy: interrupted\n", id="at-once"),
        pytest.param(90, "\nIt was interrupted before the best limit was known.\n", id="later"),
    ],
)
def test_interrupted(request_number: int, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """SIGINT ends the load at once, with what is known."""
    count = itertools.count(1)

    async def handle(_request: web.Request) -> web.Response:
        await asyncio.sleep(SERVICE_S)
        if next(count) == request_number:
            signal.raise_signal(signal.SIGINT)
            await asyncio.sleep(1.0)
        return web.Response()

    with served(handle) as url:
        code = main(["find-limit", "--upstream", url, "--path", "/", "--max-duration", "10s"])
    said = capsys.readouterr()

    assert INTERRUPTED == code
    assert text in said.out + said.err
    assert next(count) < request_number + 8


STATUSES = {"/moved": 302, "/secret": 401, "/denied": 403, "/none": 404, "/full": 503, "/bad": 500}


async def respond(request: web.Request) -> web.Response:
    if request.path == "/slow":
        await asyncio.sleep(1.0)
    if request.path == "/reset":
        assert request.transport is not None
        request.transport.abort()
    status = STATUSES.get(request.path, 200)
    return web.Response(status=status, headers={"Location": "/new"})


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/moved", "status 302; it points to /new: give that"),
        ("/secret", "status 401; it needs credentials: give --token-file, or --header"),
        ("/denied", "status 403; these credentials may not do that"),
        ("/none", "status 404; give a --path that the server has"),
        ("/full", "status 503; the server is in distress before there is any load"),
        ("/bad", "status 500\n"),
        ("/slow", "no response in"),
        ("/reset", "the connection broke; if the server speaks https, give --upstream https://"),
    ],
)
def test_no_load_on_what_fails(
    path: str, text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(stepped_load, "TIMEOUT_S", 0.3)
    with served(respond) as url:
        code = main(["find-limit", "--upstream", url, "--path", "/fine", "--path", path])

    (line,) = capsys.readouterr().err.splitlines(keepends=True)
    assert (1, True) == (code, line.startswith(f"apfproxy: GET {path} at {url}: {text}")), line


def test_many_slow_paths(capsys: pytest.CaptureFixture[str]) -> None:
    """The first look at each path takes of the duration, too."""
    count = itertools.count(1)

    async def handle(_request: web.Request) -> web.Response:
        next(count)
        await asyncio.sleep(0.4)
        return web.Response()

    paths = [each for number in range(20) for each in ("--path", f"/{number}")]
    with served(handle) as url:
        assert 1 == main(["find-limit", "--upstream", url, "--max-duration", "1s", *paths])

    assert next(count) <= 4
    assert capsys.readouterr().err.startswith("apfproxy: fewer than 8 responses in 1 s: give a")


@pytest.mark.parametrize("host", ["10.0.0.1", "100.64.0.1", "fd00::1"])
async def test_private_addresses(host: str) -> None:
    await check_address(Address(host=host, port=80))


def test_a_public_address(capsys: pytest.CaptureFixture[str]) -> None:
    assert 2 == main(["find-limit", "--upstream", "http://1.1.1.1", "--path", "/"])
    assert "has the public address 1.1.1.1; give --yes if it is yours" in capsys.readouterr().err


def test_few_descriptors(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(find_limit, "descriptor_limit", lambda: 500)

    assert 1 == main(["find-limit", "--upstream", "http://127.0.0.1:1", "--path", "/"])
    assert capsys.readouterr().err == (
        "apfproxy: too few file descriptors for 512 requests at a time\n"
    )


def test_wrong_schemes(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    assert 1 == main(["find-limit", "--upstream", f"http://127.0.0.1:{port}", "--path", "/"])
    with served(respond) as url:
        assert 1 == main(
            ["find-limit", "--upstream", url.replace("http:", "https:"), "--path", "/"]
        )

    refused, no_tls = capsys.readouterr().err.splitlines()
    assert refused.endswith("cannot connect: Connection refused; is the server started?")
    assert no_tls.endswith(f"if the server speaks no TLS, give --upstream {url}")


def test_all_fails(capsys: pytest.CaptureFixture[str]) -> None:
    """A server that fails under the first load has no limit that is right."""
    count = iter(range(1000))

    async def handle(_request: web.Request) -> web.Response:
        return web.Response(status=503 if next(count) > 3 else 200)

    with served(handle) as url:
        assert 1 == main(["find-limit", "--upstream", url, "--path", "/"])

    assert "requests failed (503), although sent one by one" in capsys.readouterr().err
