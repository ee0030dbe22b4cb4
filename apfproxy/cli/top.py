"""`apfproxy top`: what a running proxy does, in a terminal, as it does it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.live import Live

from apfproxy.base.tasks import spawn
from apfproxy.cli.errors import EXIT_CODES, OK, CommandError
from apfproxy.cli.key_reader import ESCAPE, key_reader
from apfproxy.cli.live_client import ClustersState, LiveClient
from apfproxy.cli.live_clusters import ClustersView
from apfproxy.cli.live_tables import render
from apfproxy.cli.live_view import SORTS, View
from apfproxy.cli.parameters import Parsed, admin_option, cluster_option, output_option
from apfproxy.settings.values import parse_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from apfproxy.cli.live_client import LiveState
    from apfproxy.settings import Address

LEAST_INTERVAL_S = 0.1
"""As often as the live page gets a new state."""
LARGEST_INTERVAL_S = 3600.0
PLAIN_WIDTH = 100
"""Columns where there is no terminal."""

STDIN = 0

HELP_KEYS = frozenset("hH?")
LONGEST_PART = 100
"""Characters of a name that can be typed."""

ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

EPILOG = f"""\b
Examples:
  apfproxy top
  apfproxy top --admin 10.0.0.7:8081 --interval 5s
  apfproxy top --once -o json

{EXIT_CODES}"""


def parse_interval(text: str) -> float:
    """Read the time between two looks, in seconds.

    ValueError if it is no duration, or not a useful one.
    """
    interval_s = parse_duration(text)
    if not LEAST_INTERVAL_S <= interval_s <= LARGEST_INTERVAL_S:
        raise ValueError(f"expected a duration from 100ms to 1h, not {text!r}")
    return interval_s


@click.command(epilog=EPILOG)
@admin_option
@cluster_option
@click.option(
    "--interval",
    "interval_s",
    type=Parsed("duration", parse_interval),
    default="1s",
    show_default=True,
    help="Time between updates.",
)
@click.option("--once", is_flag=True, help="Print one table, and end.")
@output_option
def top(admin: Address, cluster: str | None, interval_s: float, output: str, *, once: bool) -> int:
    """Show levels, queues and flows of a running proxy.

    The first lines say in words what is wrong, and how the server behind is.  Then come the levels,
    those with problems first: seats in use, limits, what they borrow (+) or lend (-), requests that
    execute and wait, and how many are served, failed by the server and rejected per second.  Below
    are the queues with the most waiting requests, and the flows that take most.

    h explains all columns and keys; p, s, w, r and n sort by problems, seats, waits, rejections and
    name; e shows the servers behind, where there are several; / shows only what has a part of a
    name; q or Ctrl-C ends.

    Of a proxy with several clusters there is a line for each, or with --cluster what is above.

    Where the output is not a terminal, or with --once, it is printed once.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # names may be of any language
    if output == "json":
        return asyncio.run(print_json(admin, cluster))
    console = Console(highlight=False, markup=False, emoji=False)
    if once or not sys.stdout.isatty() or console.is_dumb_terminal:
        if not sys.stdout.isatty():
            console.width = PLAIN_WIDTH
        return asyncio.run(print_once(admin, console, cluster))
    return asyncio.run(run(admin, interval_s, console, STDIN, cluster))


async def print_json(admin: Address, cluster: str | None = None) -> int:
    """Print the state as the proxy has it."""
    async with LiveClient(admin, cluster) as client:
        state = await client.fetch()
    click.echo(json.dumps(state, indent=2))
    return OK


async def print_once(admin: Address, console: Console, cluster: str | None = None) -> int:
    """Print the tables of one look."""
    async with LiveClient(admin, cluster) as client:
        state = await client.look()
    view = (
        ClustersView(client.url, state)
        if isinstance(state, ClustersState)
        else View(client.url, state)
    )
    if console.is_terminal:
        console.print(render(view, console.width))
        return OK
    with console.capture() as printed:
        console.print(render(view, console.width))
    # Tables are as wide as the console, with blanks that a file or a pipe need not have.
    lines = [line.rstrip() for line in printed.get().splitlines()]
    click.echo("\n".join(lines), file=console.file)
    return OK


async def run(
    admin: Address,
    interval_s: float,
    console: Console,
    descriptor: int,
    cluster: str | None = None,
) -> int:
    """Show the state until told to end.

    CommandError if there is nothing to show from the beginning.
    """
    loop = asyncio.get_running_loop()
    async with LiveClient(admin, cluster) as client:
        screen = Screen(client, await client.look(), loop.time)
        with (
            _signals(loop, screen),
            key_reader(descriptor, loop, screen.on_key),
            Live(console=console, auto_refresh=False, screen=True) as live,
        ):
            looking = spawn(screen.look_again(interval_s), name="looking at the proxy")
            try:
                while not screen.is_ended:
                    view = screen.view(console.height)
                    live.update(render(view, console.width), refresh=True)
                    await screen.changed()
            finally:
                looking.cancel()
                await asyncio.gather(looking, return_exceptions=True)
    return OK


@contextlib.contextmanager
def _signals(loop: asyncio.AbstractEventLoop, screen: Screen) -> Iterator[None]:
    """End by a signal as by a key, and follow the size of the terminal."""
    for number in ENDING_SIGNALS:
        loop.add_signal_handler(number, screen.end)
    loop.add_signal_handler(signal.SIGWINCH, screen.wake)
    try:
        yield
    finally:
        for number in (*ENDING_SIGNALS, signal.SIGWINCH):
            loop.remove_signal_handler(number)


class Screen:
    """What is to be shown, and when it changes; `is_ended` once it was told to end."""

    def __init__(
        self,
        client: LiveClient,
        state: LiveState | ClustersState,
        now_s: Callable[[], float],
    ) -> None:
        self._client = client
        self._now_s = now_s
        self.is_ended = False
        self._state = state
        self._seen_s = now_s()
        self._problem: str | None = None
        self._sort = next(iter(SORTS))
        self._part = ""
        self._is_typing = False
        self._is_help = False
        self._is_endpoints = False
        self._change = asyncio.Event()

    def on_key(self, key: str) -> None:
        """Do what a key says."""
        if self._is_typing:
            self._type(key)
        elif key.lower() == "q":
            self.end()
        elif key in HELP_KEYS:
            self._is_help = not self._is_help
        elif key.lower() == "e":
            self._is_help, self._is_endpoints = False, not self._is_endpoints
        elif key == "/":
            self._is_help, self._is_typing = False, True
        elif key == ESCAPE:
            self._is_help, self._part = False, ""
        elif key.lower() in SORTS:
            self._sort = key.lower()
        else:
            return
        self.wake()

    def _type(self, key: str) -> None:
        """Add to the part of a name, or end it."""
        if key in ("\r", "\n", ESCAPE):
            self._is_typing = False
            self._part = "" if key == ESCAPE else self._part
        elif key in ("\x7f", "\b"):
            self._part = self._part[:-1]
        elif key.isprintable():
            self._part = (self._part + key)[:LONGEST_PART]

    def end(self) -> None:
        """Show no more."""
        self.is_ended = True
        self.wake()

    def wake(self) -> None:
        """Draw the screen again."""
        self._change.set()

    async def changed(self) -> None:
        """Wait until there is something else to show."""
        await self._change.wait()
        self._change.clear()

    async def look_again(self, interval_s: float) -> None:
        """Look at the proxy again and again, also while it is away."""
        while True:
            await asyncio.sleep(interval_s)
            await self.look()

    async def look(self) -> None:
        """Look at the proxy once more."""
        try:
            state = await self._client.look()
        except CommandError as error:
            self._problem = error.message.partition(";")[0].replace(self._client.url, "it")
        else:
            self._state, self._seen_s, self._problem = state, self._now_s(), None
        self.wake()

    def view(self, height: int) -> View | ClustersView:
        """What to show now, in so many lines."""
        if isinstance(self._state, ClustersState):
            return ClustersView(
                self._client.url,
                self._state,
                self._problem,
                self._now_s() - self._seen_s,
                height,
                self._part,
                self._is_typing,
            )
        return View(
            self._client.url,
            self._state,
            self._sort,
            self._problem,
            self._now_s() - self._seen_s,
            height,
            self._part,
            self._is_typing,
            self._is_help,
            self._is_endpoints,
        )
