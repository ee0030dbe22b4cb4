"""`apfproxy demo`: what flow control changes for each client, measured on this machine."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import click
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from apfproxy.app.running import run_in_loop
from apfproxy.base.signals import Hangup, Signals
from apfproxy.cli.demo_clients import KINDS, Load, Tally, wait
from apfproxy.cli.demo_fleet import fleet_demo
from apfproxy.cli.demo_gateway import gateway_demo
from apfproxy.cli.demo_report import WITH, WITHOUT, Arm, bars_of, summary, table_of
from apfproxy.cli.demo_servers import demo_servers
from apfproxy.cli.errors import EXIT_CODES, FAILED, OK, CommandError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from rich.console import RenderableType

    from apfproxy.cli.demo_servers import Ports

WARM_UP_PART = 0.2
"""Of each half: until the queues are as full as they get, and connections are made."""
REFRESH_S = 0.25
PLAIN_WIDTH = 100
"""Columns of a table that is not shown in a terminal."""
ENOUGH_FOR_BARS = 30
"""Lines of a terminal that also holds the bars while the demo runs."""

EPILOG = f"""\b
Examples:
  apfproxy demo --seconds 10
  apfproxy demo --gateway
  apfproxy demo --fleet

{EXIT_CODES}"""


@click.command(epilog=EPILOG)
@click.option(
    "--seconds",
    type=click.FloatRange(1, 600),
    metavar="NUMBER",
    default=20,
    show_default=True,
    help="How long to measure: half of it without flow control and half with it, or with --fleet a"
    " quarter for each line.",
)
@click.option(
    "--gateway",
    is_flag=True,
    help="Show instead what clients notice when one of two servers is killed: nothing.",
)
@click.option(
    "--fleet",
    is_flag=True,
    help="Show instead how three replicas share one limit.",
)
def demo(seconds: float, *, gateway: bool, fleet: bool) -> int:
    """Show what each client gets with and without flow control.

    Starts an API server (10 ms a request while it has at most 20 of them, slower beyond), the
    proxy before it, and two kinds of client: a greedy one that lists budgets, with 200 requests in
    flight, and five modest ones that each get a pod, with one.  Everything stays on this machine,
    on ports that the system chooses.  The first lines name the address of the live page, and a
    kubectl command for the proxy's objects.  The last lines say what a modest client gains, and
    what the greedy one pays.

    With --gateway the proxy has two API servers behind it, each of which does 10 requests at once
    in 20 ms, and 40 clients that each get a pod.  One server is killed while they ask, and started
    again.  The exit code is 1 if a client sees an error.

    With --fleet three proxies stand before an API server that does 12 requests at once in 40 ms,
    and 36 clients get a pod, first all at one proxy, then at all three, then at another one.  Each
    proxy has the seats that its requests ask for, and together they never have more than 12.
    """
    if gateway and fleet:
        raise click.UsageError("give either --gateway or --fleet")
    console = Console()
    if not console.is_terminal:
        console = Console(width=PLAIN_WIDTH)
    if gateway:
        return gateway_demo(seconds, console)
    if fleet:
        return fleet_demo(seconds, console)
    with demo_servers() as ports:
        return run_in_loop(run_demo(ports, seconds, console))


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
                parts: list[RenderableType] = [table_of(arms), Text(status)]
                if console.height >= ENOUGH_FOR_BARS:
                    parts.insert(1, bars_of(arms))
                live.update(Group(*parts), refresh=True)

        for name, port in ((WITHOUT, ports.without), (WITH, ports.limited)):
            if not interrupted.is_set():
                arm = Arm(name, {kind.name: Tally() for kind in KINDS})
                arms.append(arm)
                await run_arm(arm, port, seconds / 2, interrupted, show)
    console.print(table_of(arms))
    console.print(bars_of(arms))
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


def places(ports: Ports) -> str:
    """Where to look at the proxy that limits, while the demo runs: its page, and its objects."""
    admin = f"http://127.0.0.1:{ports.admin}"
    return (
        f"The proxy's page, while this runs:     {admin}/\n"
        f"The proxy's objects, while this runs:  kubectl --server {admin} get flowschemas"
    )
