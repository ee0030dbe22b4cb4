"""`apfproxy demo`: what flow control changes for each client, measured on this machine."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click
from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from apfproxy.app.running import run_in_loop
from apfproxy.app.signals import Hangup, Signals
from apfproxy.cli.demo_clients import ClientKind, Load, Tally
from apfproxy.cli.demo_servers import SEATS, SERVICE_S, demo_servers
from apfproxy.cli.errors import EXIT_CODES, FAILED, OK, CommandError

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.cli.demo_servers import Ports

NAMESPACE = "/namespaces/load-0"
GREEDY = ClientKind(
    "greedy",
    ("greedy",),
    in_flight=200,
    path=f"/apis/policy/v1{NAMESPACE}/poddisruptionbudgets",
)
MODEST = ClientKind(
    "modest",
    tuple(f"modest-{number}" for number in range(5)),
    in_flight=1,
    path=f"/api/v1{NAMESPACE}/pods/app-0-00000",
)
KINDS = (GREEDY, MODEST)

WITHOUT = "without"
WITH = "with"

WARM_UP_PART = 0.2
"""Of each half: until the queues are as full as they get, and connections are made."""
REFRESH_S = 0.25
PLAIN_WIDTH = 100
"""Columns of a table that is not shown in a terminal."""

EPILOG = f"""\b
Example:
  apfproxy demo --seconds 10

{EXIT_CODES}"""


@click.command(epilog=EPILOG)
@click.option(
    "--seconds",
    type=click.FloatRange(1, 600),
    metavar="NUMBER",
    default=20,
    show_default=True,
    help="How long to measure, one half without flow control and one with it.",
)
def demo(seconds: float) -> int:
    """Show what each client gets with and without flow control.

    Starts an API server (10 ms a request while it has at most 20 of them, slower beyond), the
    proxy before it, and two kinds of client: a greedy one that lists budgets, with 200 requests in
    flight, and five modest ones that each get a pod, with one.  Everything stays on this machine,
    on ports that the system chooses.  The first lines name the address of the live page, and a
    kubectl command for the proxy's objects.
    """
    console = Console()
    if not console.is_terminal:
        console = Console(width=PLAIN_WIDTH)
    with demo_servers() as ports:
        return run_in_loop(run_demo(ports, seconds, console))


@dataclass(slots=True)
class Arm:
    """One half of the demo: all clients against one proxy, `WITHOUT` or `WITH` flow control.

    Attributes:
        tallies: What each kind of client got, by its name.
        duration_s: How long that was measured.
    """

    name: str
    tallies: dict[str, Tally]
    duration_s: float = 0.0


async def run_demo(ports: Ports, seconds: float, console: Console) -> int:
    """Measure both halves, show them as they go, and print the summary; returns the exit code."""
    arms: list[Arm] = []
    with contextlib.ExitStack() as stack:
        interrupted = stack.enter_context(Signals(Hangup.END)).first
        console.print(places(ports), highlight=False, soft_wrap=True)
        show: Callable[[str], None] = lambda _status: None  # noqa: E731 - replaced below
        if console.is_terminal:
            live = stack.enter_context(Live(console=console, auto_refresh=False, transient=True))

            def show(status: str) -> None:
                live.update(Group(table_of(arms), Text(status)), refresh=True)

        for name, port in ((WITHOUT, ports.without), (WITH, ports.limited)):
            if not interrupted.is_set():
                arm = Arm(name, {kind.name: Tally() for kind in KINDS})
                arms.append(arm)
                await run_arm(arm, port, seconds / 2, interrupted, show)
    console.print(table_of(arms))
    console.print(summary(arms, is_whole=not interrupted.is_set()), highlight=False)
    return OK if any(arm.duration_s for arm in arms) else FAILED


async def run_arm(
    arm: Arm,
    port: int,
    duration_s: float,
    interrupted: asyncio.Event,
    show: Callable[[str], None],
) -> None:
    """Measure one half; ends early once `interrupted` is set."""
    load = Load(KINDS, port)
    try:
        await load.start()
        show(f"{arm.name} flow control: warming up (Ctrl-C ends)")
        await wait(interrupted, duration_s * WARM_UP_PART)
        load.measure()
        arm.tallies = load.tallies
        measured_s = duration_s * (1 - WARM_UP_PART)
        while not interrupted.is_set() and load.duration_s < measured_s:
            await wait(interrupted, min(REFRESH_S, measured_s - load.duration_s))
            arm.duration_s = load.duration_s
            left_s = max(0.0, measured_s - arm.duration_s)
            show(f"{arm.name} flow control: {left_s:.0f} s left (Ctrl-C ends)")
    except OSError as error:
        raise CommandError(f"no connection to the proxy of the demo: {error.strerror}") from error
    finally:
        load.stop()


async def wait(event: asyncio.Event, duration_s: float) -> None:
    """Wait for the event, but no longer than the duration."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), duration_s)


def table_of(arms: list[Arm]) -> Table:
    """What each kind of client got, in each half."""
    # Simple enough to fit into 80 columns.
    table = Table(
        title=f"Before a server that does {SEATS} requests at once in {SERVICE_S * 1000:.0f} ms",
        caption="  ".join(described(kind) for kind in KINDS),
        box=box.SIMPLE,
        padding=(0, 1, 0, 0),
    )
    for heading in ("clients", "flow control"):
        table.add_column(heading, no_wrap=True)
    for heading in ("answers/s", "each", "p50 ms", "p99 ms", "rejected", "failed"):
        table.add_column(heading, justify="right", no_wrap=True)
    for kind in KINDS:
        clients = len(kind.users)
        label = kind.name
        for arm in arms:
            tally = arm.tallies[kind.name]
            rate = tally.answered / arm.duration_s if arm.duration_s else 0.0
            table.add_row(
                label,
                arm.name,
                f"{rate:.0f}",
                f"{rate / clients:.0f}",
                milliseconds(tally.percentile_s(50)),
                milliseconds(tally.percentile_s(99)),
                str(tally.rejected),
                str(tally.failed),
                style="bold" if arm.name == WITH else "",
            )
            label = ""
        table.add_section()
    return table


def places(ports: Ports) -> str:
    """Where to look at the proxy that limits, while the demo runs: its page, and its objects."""
    admin = f"http://127.0.0.1:{ports.admin}"
    return (
        f"The proxy's page, while this runs:     {admin}/\n"
        f"The proxy's objects, while this runs:  kubectl --server {admin} get flowschemas"
    )


def described(kind: ClientKind) -> str:
    """Who the clients of a kind are."""
    clients = len(kind.users)
    requests = "request" if kind.in_flight == 1 else "requests"
    noun = "client" if clients == 1 else "clients"
    return f"{kind.name}: {clients} {noun}, {kind.in_flight} {requests} in flight each."


def milliseconds(duration_s: float | None) -> str:
    """A latency as the table shows it."""
    return "-" if duration_s is None else f"{duration_s * 1000:.1f}"


def summary(arms: list[Arm], *, is_whole: bool) -> str:
    """What the numbers mean, in a sentence."""
    by_name = {arm.name: arm.tallies[MODEST.name].percentile_s(50) for arm in arms}
    without, limited = by_name.get(WITHOUT), by_name.get(WITH)
    if without is None or limited is None:
        reason = "no modest client got an answer in both" if is_whole else "interrupted"
        return f"Nothing to compare: {reason}."
    sentence = (
        f"Half of a modest client's requests took at most {milliseconds(without)} ms without flow"
        f" control, and {milliseconds(limited)} ms with it."
    )
    return sentence if is_whole else f"{sentence}  (Interrupted.)"
