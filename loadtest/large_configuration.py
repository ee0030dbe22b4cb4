"""How long clients wait while a proxy with thousands of objects is told new ones, or shows them.

Starts `apfproxy serve` with so many FlowSchemas and PriorityLevelConfigurations, of files, of a
store or of `apfproxy apiserver`, and has one client send small requests one after the other.
Beside them the objects change, the pages of the admin listener are read, and objects of nearly the
largest size are written.  Told are of each the client's median and longest wait, and the most CPU
time that went by between two turns of the proxy's event loop, which does not depend on what else
the machine has to do.

    python -m loadtest.large_configuration --schemas 5000
    python -m loadtest.large_configuration --schemas 5000 --levels 1000 --source store

Needs curl, whose work must not hold up the client.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiohttp import ClientSession

from apfproxy.objects.types import GROUP
from loadtest.arguments import Parser, count_up_to
from loadtest.processes import (
    LoadTestError,
    Process,
    exit_status,
    free_ports,
    python_module,
    start_origin,
)

if TYPE_CHECKING:
    import argparse
    from collections.abc import Awaitable, Callable

PAUSE_S = 0.002
"""Between two requests of the client."""
REST_S = 1.5
"""After each thing that is done, so that what it set off is seen too."""
ADJUSTMENT_S = 11.0
"""Within which the limits are adjusted once."""
TAKEN_WITHIN_S = 60.0
AT_ONCE = 16
SEATS_A_LEVEL = 10
"""Of the server: fewer would leave levels without any."""
LARGEST_RULES = 11_000
"""Of one FlowSchema: 2 MB."""
REQUEST = (
    b"GET /api/v1/namespaces/default/pods/p HTTP/1.1\r\nHost: a\r\n"
    b"X-Remote-User: user-7\r\nX-Remote-Group: group-7\r\n\r\n"
)
PAGES = (
    "/metrics",
    "/debug/api_priority_and_fairness/dump_priority_levels",
    "/debug/api_priority_and_fairness/dump_queues",
    "/debug/api_priority_and_fairness/dump_requests",
    "/debug/limits",
    "/debug/live",
    "/debug/top_flows",
)

KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:PORT"}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
users: [{name: u, user: {token: t}}]
"""

Object = dict[str, Any]


def schema(number: int, level: str, precedence: int = 1000) -> Object:
    """One FlowSchema."""
    resource_rule = {
        "verbs": ["get", "list", "watch"],
        "apiGroups": [""],
        "resources": ["pods", "services"],
        "namespaces": ["*"],
    }
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "FlowSchema",
        "metadata": {"name": f"schema-{number:05d}"},
        "spec": {
            "matchingPrecedence": precedence,
            "priorityLevelConfiguration": {"name": level},
            "distinguisherMethod": {"type": "ByUser"},
            "rules": [
                {
                    "subjects": [
                        {"kind": "User", "user": {"name": f"user-{number}"}},
                        {"kind": "Group", "group": {"name": f"group-{number}"}},
                    ],
                    "resourceRules": [resource_rule],
                }
            ],
        },
    }


def priority_level(number: int, shares: int = 10) -> Object:
    """One PriorityLevelConfiguration."""
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "PriorityLevelConfiguration",
        "metadata": {"name": f"level-{number:04d}"},
        "spec": {
            "type": "Limited",
            "limited": {
                "nominalConcurrencyShares": shares,
                "lendablePercent": 50,
                "limitResponse": {
                    "type": "Queue",
                    "queuing": {"queues": 64, "handSize": 8, "queueLengthLimit": 50},
                },
            },
        },
    }


def objects(schemas: int, levels: int, change: int = 0) -> list[Object]:
    """All objects; those of another change are all others."""
    return [
        *(priority_level(number, 10 + change) for number in range(levels)),
        *(
            schema(
                number, f"level-{number % levels:04d}" if levels else "workload-low", 1000 + change
            )
            for number in range(schemas)
        ),
    ]


def large_object() -> Object:
    """A FlowSchema of 2 MB, which matches nobody."""
    made = schema(0, "workload-low", 9999)
    made["metadata"]["name"] = "large"
    (rule,) = made["spec"]["rules"]
    rule["subjects"] = [{"kind": "User", "user": {"name": "nobody"}}]
    rule["resourceRules"] = [
        {**rule["resourceRules"][0], "apiGroups": [f"group-{number}.example.org"]}
        for number in range(LARGEST_RULES)
    ]
    return made


class Client:
    """Sends small requests one after the other.

    Args:
        port: Of the proxy.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self.waits_s: list[float] = []

    def __repr__(self) -> str:
        return f"<Client: {len(self.waits_s)} requests>"

    async def run(self) -> None:
        """Send until it is cancelled."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            while True:
                begun_s = time.monotonic()
                writer.write(REQUEST)
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                if not head.startswith(b"http/1.1 200"):
                    raise LoadTestError(f"the proxy answers {head!r}")
                length = head.partition(b"content-length: ")[2].partition(b"\r\n")[0]
                await reader.readexactly(int(length))
                self.waits_s.append(time.monotonic() - begun_s)
                await asyncio.sleep(PAUSE_S)
        finally:
            writer.close()


class Measured:
    """What a proxy does to its client.

    Args:
        proxy: That is measured.
        client: Of it.
        beats: What it tells of its turns.
        is_json: Whether to print JSON.
    """

    def __init__(self, proxy: Process, client: Client, beats: Path, *, is_json: bool) -> None:
        self._proxy = proxy
        self._beats = beats
        self._client = client
        self._is_json = is_json

    def __repr__(self) -> str:
        return f"<Measured {self._proxy!r}>"

    async def during(self, name: str, act: Callable[[], Awaitable[object]]) -> None:
        """Print what the client sees while something is done, and shortly after."""
        self._client.waits_s.clear()
        cpu_ns, begun_s = self._proxy.cpu_ns(), time.monotonic()
        await act()
        took_s = time.monotonic() - begun_s
        await asyncio.sleep(REST_S)
        waits_s = self._client.waits_s
        found = {
            "what": name,
            "took_s": round(took_s, 2),
            "p50_ms": round(statistics.median(waits_s) * 1e3, 1),
            "longest_ms": round(max(waits_s) * 1e3, 1),
            "cpu_s": round((self._proxy.cpu_ns() - cpu_ns) / 1e9, 2),
            "longest_turn_ms": round(self._longest_turn_ms(begun_s), 1),
        }
        if self._is_json:
            print(json.dumps(found), flush=True)
        else:
            turn_ms = found["longest_turn_ms"]
            turn = f"{turn_ms:.1f}" if turn_ms else "under 5"  # of those nothing is told
            print(
                f"{name:<28} {found['took_s']:8.2f} s  p50 {found['p50_ms']:6.1f} ms "
                f" longest {found['longest_ms']:7.1f} ms  cpu {found['cpu_s']:6.2f} s"
                f"  longest turn {turn:>7} ms of cpu",
                flush=True,
            )

    def _longest_turn_ms(self, since_s: float) -> float:
        beats = map(json.loads, self._beats.read_text().splitlines())
        return max((beat["cpu_ms"] for beat in beats if beat["at_s"] >= since_s), default=0.0)


async def curl(*arguments: str) -> None:
    """Make a request whose answer goes nowhere.

    Raises:
        LoadTestError: It failed.
    """
    process = await asyncio.create_subprocess_exec(
        "curl", "-sS", "--fail", "-o", "/dev/null", *arguments
    )
    try:
        if await process.wait() != 0:
            raise LoadTestError(f"curl {' '.join(arguments)} failed")
    finally:
        with suppress(ProcessLookupError):
            process.kill()


def start_api(port: int, directory: Path) -> Process:
    """Start an API server to take objects from."""
    program = str(Path(sys.executable).parent / "apfproxy")
    listen = ("apiserver", "--listen", f"127.0.0.1:{port}")
    return Process("apiserver", [program, *listen], port=port, core=0, directory=directory)


class Site:
    """A proxy with its objects, and the ways to change them.

    Args:
        arguments: Of the command line.
        directory: For files.
        origin_port: Where the proxy forwards to.
    """

    def __init__(self, arguments: argparse.Namespace, directory: Path, origin_port: int) -> None:
        self._schemas: int = arguments.schemas
        self._levels: int = arguments.levels
        self._directory = directory
        self._file = directory / "objects.json"
        self.source: str = arguments.source
        self.api: Process | None = None
        self._write(objects(self._schemas, self._levels))
        where: tuple[str, ...] = ("--objects", str(self._file))
        if self.source == "store":
            where = ("--store", str(directory / "objects.db"))
        elif self.source == "kubernetes":
            (api_port,) = free_ports(1)
            self.api = start_api(api_port, directory)
            kubeconfig = directory / "kubeconfig"
            kubeconfig.write_text(KUBECONFIG.replace("PORT", str(api_port)))
            where = ("--objects-from-kubernetes", "--kubeconfig", str(kubeconfig))
        self.beats = directory / "beats.jsonl"
        port, self.admin_port = free_ports(2)
        seats = SEATS_A_LEVEL * max(self._levels, 60)
        flags = {
            "--upstream": f"http://127.0.0.1:{origin_port}",
            "--listen": f"127.0.0.1:{port}",
            "--admin": f"127.0.0.1:{self.admin_port}",
            "--identity-headers-from": "127.0.0.0/8",
            "--server-concurrency-limit": str(seats),
        }
        self.proxy = Process(
            "apfproxy",
            [*python_module("loadtest.beating_proxy"), *chain.from_iterable(flags.items()), *where],
            port=port,
            core=1,
            directory=directory,
            environment={"BEATS": str(self.beats)},
        )
        self._change = 0

    def __repr__(self) -> str:
        return f"<Site of {self.proxy!r}>"

    def url(self, path: str) -> str:
        """An address of the admin listener."""
        return f"http://127.0.0.1:{self.admin_port}{path}"

    def object_url(self, plural: str) -> str:
        """Where objects are written, if not to files."""
        port = self.admin_port if self.api is None else self.api.port
        return f"http://127.0.0.1:{port}/apis/{GROUP}/v1/{plural}"

    def stop(self) -> None:
        """End what runs."""
        self.proxy.stop()
        if self.api is not None:
            self.api.stop()

    async def fill(self) -> None:
        """Put the objects into the store."""
        async with ClientSession() as session:
            await self._each(session, objects(self._schemas, self._levels), is_new=True)

    async def change_one(self) -> None:
        """Change one FlowSchema, and wait until it is in force."""
        self._change += 1
        made = objects(self._schemas, self._levels)
        made[-1]["spec"]["matchingPrecedence"] = 2000 + self._change
        await self._put(made[-1:], made)

    async def change_all(self) -> None:
        """Change all objects, and wait until they are in force."""
        self._change += 1
        made = objects(self._schemas, self._levels, self._change)
        await self._put(made, made)

    async def write_large(self) -> None:
        """Create, replace and delete a very large object."""
        body = self._directory / "large.json"
        body.write_text(json.dumps(large_object()))
        path = self.object_url("flowschemas")
        data = ("-H", "Content-Type: application/json", "--data-binary", f"@{body}")
        await curl(*data, path)
        await curl("-X", "PUT", *data, path + "/large")
        await curl("-X", "DELETE", path + "/large")

    async def listen(self) -> None:
        """Look at the live page's events for a while."""
        with suppress(LoadTestError):
            await curl("--max-time", "5", "--stderr", "/dev/null", self.url("/events"))

    async def _put(self, changed: list[Object], made: list[Object]) -> None:
        before = self._generations()
        if self.source != "files":
            async with ClientSession() as session:
                await self._each(session, changed, is_new=False)
        else:
            await asyncio.to_thread(self._write, made)
        async with asyncio.timeout(TAKEN_WITHIN_S):
            while self._generations() == before:  # noqa: ASYNC110 - it tells in its log alone
                await asyncio.sleep(0.05)

    async def _each(self, session: ClientSession, made: list[Object], *, is_new: bool) -> None:
        left = iter(made)

        async def send() -> None:
            for each in left:
                plural = each["kind"].lower() + "s"
                url = self.object_url(plural)
                if not is_new:
                    url += "/" + each["metadata"]["name"]
                async with session.request("POST" if is_new else "PUT", url, json=each) as answer:
                    if answer.status >= 400:
                        raise LoadTestError(await answer.text())

        await asyncio.gather(*(send() for _ in range(AT_ONCE)))

    def _write(self, made: list[Object]) -> None:
        # YAML, as people have it, though written as JSON, which is YAML but for its first brace.
        text = "".join(f"---\n{json.dumps(each)}\n" for each in made)
        new = self._file.with_suffix(".new")
        new.write_text(text)
        new.replace(self._file)

    def _generations(self) -> int:
        return self.proxy.log.read_text().count(" of the configuration: ")


async def measure(site: Site, *, is_json: bool) -> None:
    """Do everything once."""
    if site.source != "files":
        await site.fill()
    client = Client(site.proxy.port)
    running = asyncio.ensure_future(client.run())
    measured = Measured(site.proxy, client, site.beats, is_json=is_json)

    async def do_all() -> None:
        await asyncio.sleep(0.5)
        await measured.during("nothing but adjustments", lambda: asyncio.sleep(ADJUSTMENT_S))
        await measured.during("one object changes", site.change_one)
        await measured.during("all objects change", site.change_all)
        for path in PAGES:
            await measured.during(path.rpartition("/")[2], partial(curl, site.url(path)))
        url = site.url("/metrics")
        await measured.during("metrics, gzip", lambda: curl("-H", "Accept-Encoding: gzip", url))
        await measured.during("live page", site.listen)
        if site.source != "files":
            await measured.during("large writes", site.write_large)

    doing = asyncio.ensure_future(do_all())
    done, _ = await asyncio.wait({running, doing}, return_when=asyncio.FIRST_COMPLETED)
    for task in (running, doing):
        task.cancel()
    await asyncio.gather(running, doing, return_exceptions=True)
    for task in done:
        task.result()


def main() -> int:
    """Measure, as the command line says."""
    parser = Parser(__doc__)
    parser.add_argument("--schemas", type=count_up_to(20_000), default=5000)
    parser.add_argument("--levels", type=count_up_to(10_000, 0), default=0)
    parser.add_argument("--source", choices=("files", "store", "kubernetes"), default="files")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each")
    arguments = parser.parse_args()

    def run() -> None:
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name)
            with start_origin(directory=directory, arguments=["--delay-ms", "0"]) as origin:
                site = Site(arguments, directory, origin.port)
                with ExitStack() as stack:
                    stack.callback(site.stop)
                    asyncio.run(measure(site, is_json=arguments.json))

    return exit_status("large_configuration", run)


if __name__ == "__main__":
    sys.exit(main())
