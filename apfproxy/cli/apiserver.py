"""`apfproxy apiserver`: a small Kubernetes-style API server, from the command line to its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from apfproxy.apiserver.app import EXTERNAL_ADDRESS
from apfproxy.apiserver.controllers.control import parse_controllers
from apfproxy.apiserver.load import LoadSettings
from apfproxy.apiserver.seeds import SeedCounts
from apfproxy.apiserver.store.entries import DEFAULT_CHANGES
from apfproxy.app.apiserver_process import ApiServerProcess, ApiServerSettings
from apfproxy.app.log import configure_logging
from apfproxy.app.running import run_in_loop, serve_until_signal
from apfproxy.cli.errors import EXIT_CODES, exit_code
from apfproxy.cli.load_flags import parse_faults, parse_latencies, parse_seeds
from apfproxy.cli.parameters import ADDRESS, LISTEN_ADDRESS, WholeNumber
from apfproxy.settings import LOG_FORMATS, LOG_LEVELS, TEXT

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.settings import Address

    Callback = Callable[[click.Context, click.Parameter, Any], Any]

EPILOG = f"""\b
Examples:
  apfproxy apiserver
  apfproxy apiserver --listen 127.0.0.1:8000 --store objects.db
  kubectl --server http://127.0.0.1:6443 get flowschemas

SIGTERM or SIGINT ends watches, finishes writes and stops.  A second signal stops at once.

{EXIT_CODES}"""


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
    type=LISTEN_ADDRESS,
    default="127.0.0.1:6443",
    show_default=True,
    metavar="[HOST]:PORT",
    help="For clients, as HTTP without authentication; :6443 for all addresses.",
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
    help="Controllers that run: * for all, NAME, -NAME; without * only those named.  [default: *]",
)
@click.option(
    "--external-address",
    type=ADDRESS,
    default=EXTERNAL_ADDRESS,
    show_default=True,
    metavar="HOST:PORT",
    help="The address that /api tells clients.",
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
    help="Objects from the start: slices=20000,pods=500,budgets=20.",
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
def apiserver(external_address: Address, **flags: Any) -> int:  # noqa: ANN401 - as click gives them
    """Serve a small Kubernetes API, for tests and load tests.

    It has flow control's objects, leases, events, configuration, nodes, pods, their controllers
    and budgets, slices and namespaces.  There is no authentication: all who reach the
    address may do everything.
    """
    load = LoadSettings(**{name: flags.pop(name) for name in ("latency", "capacity", "faults")})
    settings = ApiServerSettings(load=load, external_address=str(external_address), **flags)
    configure_logging(settings.log_level, settings.log_format)
    return run_in_loop(run(settings))


async def run(
    settings: ApiServerSettings, on_started: Callable[[ApiServerProcess], None] | None = None
) -> int:
    """Serve until a signal, then stop; returns the exit code; CommandError if it cannot start."""
    return await exit_code(
        serve_until_signal(lambda _signals: ApiServerProcess(settings), on_started)
    )
