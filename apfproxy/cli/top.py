"""`apfproxy top`: the state of a running proxy, in a terminal, as it changes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import termios
import threading
import time
import tty
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.live import Live

from apfproxy.cli.admin_client import fetch, of_cluster
from apfproxy.cli.errors import EXIT_CODES, OK, CommandError
from apfproxy.cli.parameters import Parsed, admin_options, output_option
from apfproxy.cli.top_tables import PATH, SORTS, View, readable, render
from apfproxy.settings.values import parse_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from apfproxy.cli.parameters import AdminAddress

LEAST_INTERVAL_S, LARGEST_INTERVAL_S = (0.1, 3600.0)
WIDE = 100_000
"""Columns where there is no terminal: nothing is cut."""
ESCAPE = "\x1b"
"""The key Esc alone.  It also begins what a key without a letter sends, such as an arrow."""
MOST_KEYS, LONGEST_PART = (64, 100)
"""Bytes from the keyboard that are read at once; characters of a name that can be typed."""
REMEDY = "give the address of the admin listener of a running proxy, its own --admin"
ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

EPILOG = f"""\b
Examples:
  apfproxy top
  apfproxy top --admin 10.0.0.7:8081 --interval 5s
  apfproxy top --once -o json

{EXIT_CODES}"""


def parse_interval(text: str) -> float:
    interval_s = parse_duration(text)
    if not LEAST_INTERVAL_S <= interval_s <= LARGEST_INTERVAL_S:
        raise ValueError(f"expected a duration with its unit, from 100ms to 1h, not {text!r}")
    return interval_s


@click.command(epilog=EPILOG)
@admin_options
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
def top(
    admin: AdminAddress, cluster: str | None, interval_s: float, output: str, *, once: bool
) -> int:
    """Show levels, queues and flows of a running proxy.

    The first lines say in words what is wrong, and how the server behind is.  Then come the levels,
    those with problems first: seats in use, limits, what they borrow (+) or lend (-), requests that
    execute and wait, and how many are served, failed by the server and rejected per second.  Below
    are the queues with the most waiting requests, and the flows that take most.

    h explains all columns and keys; p, s, w, r and n sort by problems, seats, waits, rejections and
    name; e shows the servers behind, where there are several; / shows only what has a part of a
    name; q or Ctrl-C ends.

    Of a proxy with several clusters there is a line for each, or with --cluster what is above.

    Where the output is not a terminal, or with --once, it is printed once; not to a terminal, as
    wide as it takes.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # names may be of any language
    target = of_cluster(cluster, PATH)
    found = fetch(admin, target, remedy=REMEDY)
    if output == "json":
        click.echo(json.dumps(found, indent=2))
        return OK
    view = View(admin.url, readable(admin.url, found))
    console = Console(highlight=False, markup=False, emoji=False)
    if once or not sys.stdout.isatty() or console.is_dumb_terminal:
        return print_once(view, console)
    return asyncio.run(run(view, lambda: renew(view, admin, target), interval_s, console))


def renew(view: View, admin: AdminAddress, target: str) -> None:
    """Look at the proxy again; while it is away the view keeps its last state."""
    try:
        view.state = readable(admin.url, fetch(admin, target, remedy=REMEDY))
    except CommandError as error:
        view.problem = error.message.partition(";")[0].replace(f" at {admin.url}", "")
    else:
        view.seen_s, view.problem = time.monotonic(), None


def print_once(view: View, console: Console) -> int:
    if console.is_terminal:
        console.print(render(view, console.width))
        return OK
    console.width = WIDE
    with console.capture() as printed:
        console.print(render(view, None))
    # Lines are as wide as the console, with blanks that a file or a pipe need not have.
    click.echo("\n".join(map(str.rstrip, printed.get().splitlines())), file=console.file)
    return OK


async def run(
    view: View, look: Callable[[], None], interval_s: float, console: Console, descriptor: int = 0
) -> int:
    """Show the view until a key or a signal ends it; `look` renews it, in a thread."""
    loop = asyncio.get_running_loop()
    changed, ended = asyncio.Event(), threading.Event()

    def end() -> None:
        ended.set()
        changed.set()

    def on_key(key: str) -> None:
        if not view.is_typing and key.lower() == "q":
            end()
        elif press(view, key):
            changed.set()

    def keep_looking() -> None:
        while not ended.wait(interval_s):
            look()
            with contextlib.suppress(RuntimeError):  # the loop has just ended
                loop.call_soon_threadsafe(changed.set)

    # A thread of its own, which a proxy that does not answer cannot keep from ending.
    threading.Thread(target=keep_looking, daemon=True).start()
    for number in ENDING_SIGNALS:
        loop.add_signal_handler(number, end)
    loop.add_signal_handler(signal.SIGWINCH, changed.set)
    try:
        with (
            key_reader(descriptor, loop, on_key),
            Live(console=console, auto_refresh=False, screen=True) as live,
        ):
            while not ended.is_set():
                live.update(render(view, console.width, console.height), refresh=True)
                await changed.wait()
                changed.clear()
    finally:
        ended.set()
        for number in (*ENDING_SIGNALS, signal.SIGWINCH):
            loop.remove_signal_handler(number)
    return OK


def press(view: View, key: str) -> bool:
    """Do what a key means; returns whether there is something else to show."""
    if view.is_typing:
        if key in ("\r", "\n", ESCAPE):
            view.is_typing = False
            view.part = "" if key == ESCAPE else view.part
        elif key in ("\x7f", "\b"):
            view.part = view.part[:-1]
        elif key.isprintable():
            view.part = (view.part + key)[:LONGEST_PART]
        return True
    key = key.lower()
    if key in ("h", "?", "e"):
        screen = "servers" if key == "e" else "help"
        view.screen = "" if view.screen == screen else screen
    elif key == "/":
        view.screen, view.is_typing = view.screen.removeprefix("help"), True
    elif key == ESCAPE:
        view.screen, view.part = view.screen.removeprefix("help"), ""
    elif key in SORTS:
        view.sort = key
    else:
        return False
    return True


@contextlib.contextmanager
def key_reader(
    descriptor: int, loop: asyncio.AbstractEventLoop, on_key: Callable[[str], None]
) -> Iterator[None]:
    """Call back with each key, without echo; where there is no terminal, do nothing.

    Ctrl-C still interrupts.  Ctrl-Z does nothing, as it would leave the screen as it is.
    """
    if not os.isatty(descriptor):
        yield
        return
    before = termios.tcgetattr(descriptor)

    def read() -> None:
        try:
            data = os.read(descriptor, MOST_KEYS)
        except OSError:  # the terminal is gone
            data = b""
        if not data:
            loop.remove_reader(descriptor)
        elif data == ESCAPE.encode() or not data.startswith(ESCAPE.encode()):
            for key in data.decode(errors="replace"):
                on_key(key)

    try:
        tty.setcbreak(descriptor, termios.TCSADRAIN)
        now = termios.tcgetattr(descriptor)
        now[6][termios.VSUSP] = b"\x00"  # no character
        termios.tcsetattr(descriptor, termios.TCSADRAIN, now)
        loop.add_reader(descriptor, read)
        yield
    finally:
        loop.remove_reader(descriptor)
        with contextlib.suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
