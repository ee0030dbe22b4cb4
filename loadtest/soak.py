"""Half of what apfproxy can do, for a long time: memory, descriptors and seats have to stay flat.

Two proxies, one of them with TLS, stand before one origin.  Clients have tokens or certificates;
they pipeline, upload, watch, open tunnels and leave in the middle.  Meanwhile objects, tokens and
the server's certificate are replaced again and again.  At the end all is quiet, and what is held
then is compared with what was held at first.  With --protocol h2 the clients speak HTTP/2, watches
among their requests; tunnels, and the watches that are held for long, speak HTTP/1.1 beside them.

    python -m loadtest.soak --minutes 20 --json soak.json
    python -m loadtest.soak --minutes 20 --protocol h2

With --faults a TCP link between proxy and origin treats connections badly, one way after the other
and then all ways at random.  Every response is held against its request; after each fault the link
is good again, all seats have to come back, and responses have to be good soon.

    python -m loadtest.soak --faults --requests 200000 --seed 1
    python -m loadtest.soak --faults --only reset,vanish --per-fault 5000

With --strain clients that stall on purpose measure how late each deadline is kept, while links on
both sides fail at random: heads, bodies, idle connections, responses, waits for a seat, tokens.

    python -m loadtest.soak --strain --minutes 20

With --slow slowhttptest (a Debian package) has thousands of clients send heads or bodies, or read
responses, slowly, beside two other clients.

    python -m loadtest.soak --slow --connections 4000 --seconds 40

The exit status is 2 if something of that did not hold.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import secrets
import ssl
import statistics
import sys
from dataclasses import asdict, dataclass, field
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

from loadtest import faults, slow, strain
from loadtest.echo import CONFIGMAPS, GROUP, OBJECTS, FirstFew, Habits, level_of
from loadtest.echo_clients import EchoClients
from loadtest.origin import Origin
from loadtest.processes import LoadTestError, Proxy, ProxyState, replace_file
from loadtest.program import Parser, Results, Table, count_up_to, measured, names_from
from tests.support.certificates import Authority

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path

CONNECTIONS = {"h1": 24, "h2": 6}
"""For each of the four kinds of clients: as many requests are under way on them in all."""
CALIBRATION_S = 8.0
QUIET_S = 10.0
"""After which idle connections to the origin are closed, and client connections long gone."""
WATCHES = 20
TUNNELS = 5
"""For each proxy, held for some seconds each."""
CHANGE_PERIOD_S = 7.0
SETTINGS = """
downstream:
  requestTimeout: 20s
  tls: {tls}
{http2}upstream: {{idleTimeout: 3s, answerTimeout: 15s}}
authentication: {authentication}
flowControl: {{serverConcurrencyLimit: 600, objects: [objects.yaml]}}
logLevel: warning
"""
HTTP2 = "  http2: {cleartext: true}\n"
"""For the proxy without TLS; with TLS it is on."""
USERS = ("ann", "bob", "cid", "dot")
MIB = 1 << 20
MAX_GROWTH = 0.05
MAX_GROWTH_BYTES = 4 * MIB
"""Bounds growth of memory from the middle to the end: the greater of the two."""
SAMPLES = Table(
    "s >7.0f | proxy >7 | RSS MiB >9.1f | files >7 | seats >7 | executing >11"
    "| waiting >9 | active >8 | idle >6 | clients >9"
)


@dataclass(slots=True)
class Sample:
    at_s: float
    rss_bytes: int
    descriptors: int
    state: ProxyState


@dataclass(slots=True)
class Subject:
    """A proxy, with samples of the load and of the quiet times around it."""

    proxy: Proxy
    samples: list[Sample] = field(default_factory=list)
    before: Sample | None = None
    after: Sample | None = None

    @property
    def name(self) -> str:
        return self.proxy.name

    async def sample(self, began_s: float) -> Sample:
        state = await self.proxy.state()
        sample = Sample(
            monotonic() - began_s,
            self.proxy.rss_bytes(),
            self.proxy.descriptors(),
            state,
        )
        print_sample(self.name, sample)
        return sample

    def growth_bytes(self) -> float:
        half = self.samples[len(self.samples) // 2 :]
        if len(half) < 2:
            return 0.0
        times = [each.at_s for each in half]
        slope, _ = statistics.linear_regression(times, [each.rss_bytes for each in half])
        return slope * (times[-1] - times[0])

    def wrong(self) -> list[str]:
        before, after = self.before, self.after
        assert before is not None
        assert after is not None
        wrong = []
        limit = max(MAX_GROWTH_BYTES, MAX_GROWTH * self.samples[-1].rss_bytes)
        if self.growth_bytes() > limit:
            wrong.append(f"memory grew by {self.growth_bytes() / MIB:.1f} MiB in the second half")
        if after.descriptors > before.descriptors:
            wrong.append(f"{before.descriptors} descriptors became {after.descriptors}")
        if not after.state.is_quiet:
            wrong.append(f"not quiet: {after.state}")
        return [f"{self.name}: {text}" for text in wrong]


class Site:
    """The files of a plain proxy and of one with TLS, which change meanwhile."""

    def __init__(self, directory: Path, *, http2: bool) -> None:
        self.http2 = http2
        self._directory = directory
        self._authority = Authority("soak")
        self._tokens = [secrets.token_hex(16) for _ in USERS]
        self._contexts: dict[tuple[bool, bool], list[ssl.SSLContext]] = {}
        self._changes = 0
        ca_file = self._authority.write(directory)
        self.renew_certificate()
        self.change_tokens()
        self.change_objects()
        certificate = "{certificateFile: server.crt, keyFile: server.key}"
        by_both = "{tokenFile: tokens.csv, clientCaFile: ca.crt}"
        self.settings = {
            "plain": SETTINGS.format(
                tls="{}", authentication="{tokenFile: tokens.csv}", http2=HTTP2 * http2
            ),
            "tls": SETTINGS.format(tls=certificate, authentication=by_both, http2=""),
        }
        files = [self._authority.issue(user, [GROUP]).write(directory, user) for user in USERS]
        for is_http2 in (False, True):
            contexts = [ssl.create_default_context(cafile=ca_file) for _ in range(len(USERS) + 1)]
            for context, names in zip(contexts, files, strict=False):
                context.load_cert_chain(*names)
            for context in contexts:
                context.set_alpn_protocols(["h2" if is_http2 else "http/1.1"])
            self._contexts[is_http2, True] = contexts[:-1]
            self._contexts[is_http2, False] = contexts[-1:]

    def contexts(self, *, http2: bool, has_certificates: bool) -> Sequence[ssl.SSLContext]:
        return self._contexts[http2, has_certificates]

    @property
    def token_fields(self) -> Sequence[str]:
        return [f"Authorization: Bearer {token}\r\n" for token in self._tokens]

    def renew_certificate(self) -> None:
        self._authority.issue("localhost", usage="server").write(self._directory, "server")

    def change_tokens(self) -> None:
        lines = [
            f'{token},{user},{at},"{GROUP}"\n'
            for at, (user, token) in enumerate(zip(USERS, self._tokens, strict=True))
        ]
        lines.append(f'{secrets.token_hex(16)},eve,9,"{GROUP}"\n')
        replace_file(self._directory / "tokens.csv", "".join(lines))

    def change_objects(self) -> None:
        self._changes += 1
        text = level_of(GROUP, queues=48) + level_of("others") if self._changes % 2 else OBJECTS
        replace_file(self._directory / "objects.yaml", text)


class Soak:
    def __init__(self, site: Site, subjects: Sequence[Subject], seed: int) -> None:
        self.site = site
        self.subjects = subjects
        self.counts = {"watches": 0, "tunnels": 0, "changes": 0}
        self.wrong = FirstFew()
        self._random = random.Random(seed)  # noqa: S311 - no secret
        self._groups: list[EchoClients] = []
        self._seed = seed
        self._next = 0

    async def load(self, seconds: float, requests_per_s: float) -> float:
        """Send requests for a while: how many were answered in a second."""
        plain, tls = (subject.proxy.port for subject in self.subjects)
        site = self.site
        makes: list[tuple[int, Sequence[str], Sequence[ssl.SSLContext]]] = [
            (plain, ("",), ()),
            (plain, site.token_fields, ()),
            (tls, ("",), site.contexts(http2=site.http2, has_certificates=True)),
            (tls, site.token_fields, site.contexts(http2=site.http2, has_certificates=False)),
        ]
        groups = []
        for port, fields, contexts in makes:
            self._next += 10**8
            habits = Habits(
                fields=fields,
                tls=contexts,
                patience_s=25.0,
                requests_per_s=requests_per_s / len(makes),
                http2=site.http2,
            )
            groups.append(EchoClients(port, self._seed + self._next, habits, self._next))
        connections = CONNECTIONS["h2" if site.http2 else "h1"]
        running = [asyncio.create_task(group.run(10**8 - 1, connections)) for group in groups]
        began_s = monotonic()
        await asyncio.wait(running, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
        rate = sum(group.tally.answered for group in groups) / (monotonic() - began_s)
        for group in groups:
            group.stop()
        try:
            await asyncio.gather(*running)
        except ExceptionGroup as error:
            logs = [subject.proxy.log.read_text()[-2000:] for subject in self.subjects]
            raise LoadTestError(f"{error.exceptions}; the proxies' logs end: {logs}") from error
        self._groups += groups
        return rate

    async def live(self, seconds: float, requests_per_s: float, period_s: float) -> None:
        began_s = monotonic()
        beside = [asyncio.create_task(self._change()), self._begin_samples(began_s, period_s)]
        for subject in self.subjects:
            beside += [
                asyncio.create_task(self._again_and_again(partial(each, subject)))
                for each in [self._watch] * WATCHES + [self._tunnel] * TUNNELS
            ]
        try:
            await self.load(seconds, requests_per_s)
        finally:
            for task in beside:
                task.cancel()
            for result in await asyncio.gather(*beside, return_exceptions=True):
                if isinstance(result, Exception):
                    raise result

    def tally(self) -> dict[str, Any]:
        total: dict[str, Any] = {"by_status": {}}
        for group in self._groups:
            for name, value in asdict(group.tally).items():
                if isinstance(value, int):
                    total[name] = total.get(name, 0) + value
            for status, count in group.tally.by_status.items():
                total["by_status"][status] = total["by_status"].get(status, 0) + count
            self.wrong += group.tally.wrong
            group.tally.wrong.clear()
        return total

    def _begin_samples(self, began_s: float, period_s: float) -> asyncio.Task[None]:
        async def take() -> None:
            while True:
                await asyncio.sleep(period_s)
                for subject in self.subjects:
                    subject.samples.append(await subject.sample(began_s))

        return asyncio.create_task(take())

    async def _change(self) -> None:
        site = self.site
        while True:
            for change in (site.change_objects, site.change_tokens, site.renew_certificate):
                await asyncio.sleep(CHANGE_PERIOD_S / 3)
                change()
                self.counts["changes"] += 1

    async def _again_and_again(self, once: partial[Any]) -> None:
        while True:
            try:
                async with asyncio.timeout(60):
                    await once()
            except (TimeoutError, OSError, EOFError) as error:
                self.wrong.add(f"{once.func.__name__} of {once.args[0].name}: {error!r}")
                await asyncio.sleep(1)

    async def _connect(
        self, subject: Subject
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, str]:
        dice, site = self._random, self.site
        by_certificate = dice.random() < 0.5
        context = None
        if subject.name == "tls":
            context = dice.choice(site.contexts(http2=False, has_certificates=by_certificate))
        reader, writer = await asyncio.open_connection(
            "127.0.0.1",
            subject.proxy.port,
            ssl=context,
            server_hostname="localhost" if context else None,
        )
        fields = dice.choice(site.token_fields)
        if by_certificate:
            # The plain proxy believes this; the other one has seen the certificate.
            fields = "X-Remote-User: ann\r\nX-Remote-Group: testers\r\n"
        return reader, writer, f"Host: localhost\r\n{fields}"

    async def _watch(self, subject: Subject) -> None:
        reader, writer, fields = await self._connect(subject)
        try:
            writer.write(
                f"GET {CONFIGMAPS}?watch=true HTTP/1.1\r\n{fields}"
                f"X-Request-Id: held\r\nX-Answer: watch 0\r\n\r\n".encode()
            )
            end_s = monotonic() + self._random.uniform(2, 20)
            line = await reader.readline()
            if b" 200 " not in line:
                self.wrong.add(f"a watch got {line!r}")
            while monotonic() < end_s and await reader.read(65536):
                pass
            self.counts["watches"] += 1
        finally:
            writer.transport.abort()

    async def _tunnel(self, subject: Subject) -> None:
        """Send bytes through a tunnel, which come back, and then leave in one way or another."""
        dice = self._random
        reader, writer, fields = await self._connect(subject)
        try:
            writer.write(
                f"GET /api/v1/namespaces/default/pods/x/exec?command=x HTTP/1.1\r\n{fields}"
                "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode()
            )
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 101 "):
                self.wrong.add(f"a tunnel got {head!r}")
                await asyncio.sleep(1)
                return
            for _ in range(dice.randint(1, 20)):
                data = dice.randbytes(dice.randint(1, 50_000))
                writer.write(data)
                if await reader.readexactly(len(data)) != data:
                    self.wrong.add("a tunnel gave other bytes back")
                await asyncio.sleep(dice.uniform(0, 0.5))
            self.counts["tunnels"] += 1
            if dice.random() < 0.5:
                writer.close()
                with contextlib.suppress(OSError):
                    await writer.wait_closed()
        finally:
            writer.transport.abort()


def print_sample(name: str, sample: Sample) -> None:
    state = sample.state
    SAMPLES.row(
        *(sample.at_s, name, sample.rss_bytes / MIB, sample.descriptors),
        *(state.seats, state.executing, state.waiting),
        *(state.upstream_active, state.upstream_idle, state.downstream),
    )


async def measure(options: argparse.Namespace, directory: Path) -> Results:
    site = await asyncio.to_thread(Site, directory, http2=options.protocol == "h2")
    origin = Origin()
    with contextlib.ExitStack() as running:
        running.callback(origin.stop)
        await origin.start()
        ports = [origin.port]
        subjects = [
            Subject(running.enter_context(Proxy(directory, ports, name=name, settings=settings)))
            for name, settings in site.settings.items()
        ]
        soak = Soak(site, subjects, options.seed)
        full = await soak.load(CALIBRATION_S, 0)
        print(f"at most {full:.0f} responses/s; half of that for {options.minutes} minutes")
        SAMPLES.head()
        began_s = monotonic()
        for subject in subjects:
            await subject.proxy.quiet()
        await asyncio.sleep(QUIET_S)
        for subject in subjects:
            subject.before = await subject.sample(began_s)
        await soak.live(options.minutes * 60, full / 2, options.sample_s)
        await asyncio.sleep(QUIET_S)
        for subject in subjects:
            await subject.proxy.quiet()
            subject.after = await subject.sample(began_s)
    tally = soak.tally()
    wrong = [*soak.wrong, *origin.seen.wrong]
    for subject in subjects:
        wrong += [*subject.wrong(), *subject.proxy.problems()]
        growth = subject.growth_bytes() / MIB
        print(f"{subject.name}: memory {growth:+.1f} MiB in the second half, by its slope")
    print(f"{tally}\n{soak.counts}")
    if not tally.get("answered"):
        raise LoadTestError("there was no response")
    proxies = {
        subject.name: {
            "before": asdict(subject.before) if subject.before else None,
            "after": asdict(subject.after) if subject.after else None,
            "growth_bytes": subject.growth_bytes(),
            "samples": [asdict(sample) for sample in subject.samples],
        }
        for subject in subjects
    }
    counts = soak.counts
    return {"full_per_s": full, "tally": tally, "counts": counts, "proxies": proxies}, wrong


async def measure_kind(options: argparse.Namespace, directory: Path) -> Results:
    measuring = measure if options.kind is None else options.kind.measure
    results, wrong = await measuring(options, directory)
    return {**results, "wrong": wrong}, wrong


def main() -> int:
    parser = Parser(__doc__)
    kind = partial(parser.add_mutually_exclusive_group().add_argument, action="store_const")
    kind("--faults", dest="kind", const=faults, help="failing connections instead of a soak")
    kind("--strain", dest="kind", const=strain, help="stalling clients instead of a soak")
    kind("--slow", dest="kind", const=slow, help="slowhttptest instead of a soak")
    add = parser.add_argument
    known = (*faults.FAULTS, *slow.MODES)
    add("--minutes", type=count_up_to(10_000), default=20, help="of half load, or of strain (20)")
    add("--protocol", choices=("h1", "h2"), default="h1", help="of most clients: h1 or h2 (h1)")
    add("--sample-s", type=count_up_to(600), default=10, help="between samples (10)")
    add("--requests", type=count_up_to(10**8), default=200_000, help="under random faults (200000)")
    add("--per-fault", type=count_up_to(10**7), default=2000, help="of each other fault (2000)")
    add("--only", type=names_from(known, "fault"), help=f"of {','.join(known)} (all)")
    add("--connections", type=count_up_to(20_000), default=4000, help="slow ones at once (4000)")
    add("--seconds", type=count_up_to(3600), default=40, help="of each kind of slow ones (40)")
    add("--rate", type=count_up_to(100_000), default=300, help="of other clients, or opened (300)")
    add("--seed", type=int, default=1, help="of all that is drawn (1)")
    options = parser.parse_args()
    return measured(options, measure_kind, descriptors=2 * options.connections + 4000)


if __name__ == "__main__":
    sys.exit(main())
