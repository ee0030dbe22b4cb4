"""`apfproxy apiserver`: a small Kubernetes-style API server, from the command line to its end."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import click

from apfproxy.apiserver.controllers.control import parse_controllers
from apfproxy.apiserver.gate import (
    EVERY_VERB,
    LONGEST_S,
    VERBS,
    Fault,
    Latency,
    LoadSettings,
    Shape,
)
from apfproxy.apiserver.seeds import SeedCounts
from apfproxy.apiserver.store.entries import DEFAULT_CHANGES
from apfproxy.app.apiserver_process import ApiServerProcess, ApiServerSettings
from apfproxy.app.log import configure_logging
from apfproxy.app.running import run_in_loop, serve_until_signal
from apfproxy.cli.errors import EXIT_CODES, exit_code
from apfproxy.cli.parameters import Parsed, WholeNumber
from apfproxy.settings import LOG_FORMATS, LOG_LEVELS, TEXT
from apfproxy.settings.values import parse_address, parse_listen_address
from apfproxy.simulation.mix import parse_times

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    Callback = Callable[[click.Context, click.Parameter, Any], Any]

EPILOG = f"""\b
Examples:
  apfproxy apiserver
  apfproxy apiserver --listen 127.0.0.1:8000 --store objects.db
  kubectl --server http://127.0.0.1:6443 get flowschemas

SIGTERM or SIGINT ends watches, gives other requests 10 s and stops.  A second signal stops at once.

{EXIT_CODES}"""

EXAMPLES = "5ms, 20ms-50ms, exp(10ms), normal(10ms,2ms) or lognormal(10ms,0.5)"
BARE = re.compile(r"(?:\w+\()?([0-9.]{1,9})(?:[,)-]|$)")
"""A latency that begins with a number without a unit."""
NUMBER = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")
SEEDS = {"slices": 200_000, "pods": 200_000, "budgets": 20_000}
"""Objects of each kind at most: they are all in memory."""


def parse_latencies(texts: Iterable[str]) -> dict[str, Latency]:
    """One without a verb is for all verbs that are not named."""
    found: dict[str, Latency] = {}
    for text in texts:
        verb, equals, latency = text.partition("=")
        if not equals:
            verb, latency = EVERY_VERB, text
        if verb not in (EVERY_VERB, *VERBS):
            verbs = f"{EVERY_VERB} or one of {', '.join(VERBS)}"
            raise ValueError(f"expected a verb, {verbs}, not {verb!r}")
        if verb in found:
            name = "the latency of all verbs" if verb == EVERY_VERB else verb
            raise ValueError(f"{name} is given twice; keep one")
        found[verb] = parse_latency(latency)
    return found


def parse_latency(text: str) -> Latency:
    """A duration or a distribution of them, as in the mixes of `simulate`."""
    try:
        times = parse_times(text)
    except ValueError as error:
        if "shorter" in str(error):
            raise
        bare = BARE.match(text)
        hint = f"; write {bare[1]}ms, or {bare[1]}s for seconds" if bare else ""
        raise ValueError(f"expected a latency such as {EXAMPLES}, not {text!r}{hint}") from None
    shape = Shape(times.shape)
    first, second = times.first_ns / 1e9, times.second
    if shape is not Shape.LOGNORMAL:
        second /= 1e9
    if max(first, second) > LONGEST_S:
        raise ValueError(f"expected at most {LONGEST_S:g} s, not {text!r}")
    return Latency(shape, first, second)


def parse_external_address(text: str) -> str:
    address = parse_address(text)
    if address.path or not address.port:
        raise ValueError(f"expected a host and a port that clients can connect to, not {text!r}")
    return str(address)


def pairs_of(texts: Iterable[str], known: Collection[str], expected: str) -> dict[str, str]:
    """The values of NAME=VALUE,... with known names; `expected` says which these are."""
    found: dict[str, str] = {}
    for item in (each.strip() for text in texts for each in text.split(",")):
        name, equals, value = item.partition("=")
        if name not in known or not equals:
            raise ValueError(f"expected {expected}, not {item!r}")
        if name in found:
            raise ValueError(f"{name} is given twice; keep one")
        found[name] = value
    return found


def parse_faults(texts: Iterable[str]) -> dict[Fault, float]:
    known = ", ".join(f"{fault.value}=SHARE" for fault in Fault)
    names = [fault.value for fault in Fault]
    pairs = pairs_of(texts, names, f"one of {known}, with a share such as 1%")
    found = {Fault(name): parse_share(share, f"{name}={share}") for name, share in pairs.items()}
    if sum(found.values()) > 1 and not math.isclose(sum(found.values()), 1):
        raise ValueError(f"the shares add up to {sum(found.values()):.1%}, more than all requests")
    return found


def parse_share(text: str, whole: str) -> float:
    """A share from 0 to 1, of a percentage or a number."""
    number = text.removesuffix("%")
    if NUMBER.fullmatch(number) is not None:
        if number == text and float(text) >= 1:
            raise ValueError(f"{whole!r} may mean a percentage or all: write {whole}%, or 100%")
        share = float(number) / (100 if text.endswith("%") else 1)
        if share <= 1:
            return share
    raise ValueError(f"expected a share from 0% to 100%, such as 0.1%, not {whole!r}")


def parse_seeds(text: str) -> SeedCounts:
    known = ", ".join(f"{name}=N" for name in SEEDS)
    pairs = pairs_of([text], SEEDS, f"some of {known}, such as slices=20000")
    for name, count in pairs.items():
        if re.fullmatch(r"[0-9]{1,9}", count) is None or int(count) > SEEDS[name]:
            given = f"{name}={count}"
            raise ValueError(f"expected a number from 0 to {SEEDS[name]}, not {given!r}")
    return SeedCounts(**{name: int(count) for name, count in pairs.items()})


def read_by(parse: Callable[[Any], Any]) -> Callback:
    """A flag whose text, or texts, a function reads that may raise ValueError."""

    def read(context: click.Context, flag: click.Parameter, value: Any) -> Any:  # noqa: ANN401 - as click has it
        try:
            return parse(value)
        except ValueError as error:
            raise click.BadParameter(str(error), context, flag) from error

    return read


@click.command(epilog=EPILOG)
@click.option(
    "--listen",
    type=Parsed("[host]:port", parse_listen_address),
    default="127.0.0.1:6443",
    show_default=True,
    metavar="[HOST]:PORT",
    help="For clients, as HTTP without authentication; :6443 for all addresses; or unix:/PATH.",
)
@click.option(
    "--store",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="SQLite file that keeps the objects; created if missing. [default: in memory only]",
)
@click.option(
    "--watch-window",
    type=WholeNumber(1, 10_000_000),
    default=DEFAULT_CHANGES,
    show_default=True,
    metavar="CHANGES",
    help="Changes of each resource that a watch can go back.",
)
@click.option(
    "--controllers",
    multiple=True,
    callback=read_by(parse_controllers),
    metavar="LIST",
    help="Controllers that run: * for all, NAME, -NAME; without * only those named, and bootstrap"
    " and flow-schema-status unless they are turned off.  Others are disruption,"
    " garbage-collector, namespace and pod-termination.  [default: *]",
)
@click.option(
    "--external-address",
    type=Parsed("host:port", parse_external_address),
    metavar="HOST:PORT",
    help="The address that /api tells clients.  [default: that of --listen]",
)
@click.option(
    "--latency",
    multiple=True,
    callback=read_by(parse_latencies),
    metavar="[VERB=]TIME",
    help="Time of a request beside its work: 5ms, 20ms-50ms, exp(10ms), normal(10ms,2ms)"
    " or lognormal(10ms,0.5); get=5ms for one verb.  Repeatable.",
)
@click.option(
    "--capacity",
    type=WholeNumber(1, 1_000_000),
    metavar="N",
    help="With more than N requests at once each takes (requests / N) ^ 1.5 times as long.",
)
@click.option(
    "--fault",
    "faults",
    multiple=True,
    callback=read_by(parse_faults),
    metavar="KIND=SHARE",
    help="Share of requests that fail: 500=1%, reset=0.1%, stall=0.1%.  Repeatable.",
)
@click.option(
    "--seed-objects",
    "seeds",
    callback=read_by(lambda text: SeedCounts() if text is None else parse_seeds(text)),
    metavar="KIND=N,...",
    help="Objects from the start: slices=20000,pods=500,budgets=20; at most "
    + ", ".join(f"{most} {name}" for name, most in SEEDS.items())
    + ".",
)
@click.option(
    "--random-seed",
    type=WholeNumber(0, (1 << 63) - 1),
    metavar="NUMBER",
    help="Seed that makes uids, names, latencies and faults the same in each run.",
)
@click.option("--log-level", type=click.Choice(LOG_LEVELS), default="info", show_default=True)
@click.option(
    "--log-format",
    type=click.Choice(LOG_FORMATS),
    default=TEXT,
    show_default=True,
    help="Lines of the log, on stderr: text, or a JSON object each.",
)
def apiserver(**flags: Any) -> int:  # noqa: ANN401 - as click gives them
    """Serve a small Kubernetes API, for tests and load tests.

    It has flow control's objects, leases, events, configuration, nodes, pods, their controllers
    and budgets, slices and namespaces.  There is no authentication: all who reach the
    address may do everything.
    """
    load = LoadSettings(**{name: flags.pop(name) for name in ("latency", "capacity", "faults")})
    settings = ApiServerSettings(load=load, **flags)
    configure_logging(settings.log_level, settings.log_format)
    return run_in_loop(run(settings))


async def run(
    settings: ApiServerSettings, on_started: Callable[[ApiServerProcess], None] | None = None
) -> int:
    """Serve until a signal, then stop; returns the exit code; CommandError if it cannot start."""
    return await exit_code(
        serve_until_signal(lambda _signals: ApiServerProcess(settings), on_started)
    )
