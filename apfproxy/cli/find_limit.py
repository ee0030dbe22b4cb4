"""`apfproxy find-limit`: a bounded load on a server, to see which limit it should have."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import socket
from functools import partial
from typing import TYPE_CHECKING

import aiohttp
import click
from rich.console import Console
from rich.text import Text

from apfproxy import __version__
from apfproxy.admin.explain_page import parse_header
from apfproxy.app.running import descriptor_limit, run_in_loop
from apfproxy.authn.upstream_api import EXCHANGE_ERRORS, explained
from apfproxy.base.errors import OperatorError
from apfproxy.base.held_signals import INTERRUPTED
from apfproxy.base.signals import Hangup, Signals
from apfproxy.base.tasks import spawn
from apfproxy.base.tls_files import Pem, client_context
from apfproxy.cli.errors import EXIT_CODES, FAILED, OK, CommandError
from apfproxy.cli.find_limit_tables import failures_text, lines_of, picture, report_of
from apfproxy.cli.kubectl_phrases import parse_path_request
from apfproxy.cli.parameters import (
    Parsed,
    WholeNumber,
    check_plot,
    json_option,
    output_option,
    plot_option,
    write_plot,
)
from apfproxy.cli.stepped_load import OK_STATUSES, TIMEOUT_S, Search, SteppedLoad
from apfproxy.objects.field_errors import counted, one_line
from apfproxy.settings import AutoLimitSettings
from apfproxy.settings.values import parse_duration, parse_upstream_url
from apfproxy.sources.token_file import read_token

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.base.address import Address

MOST_SHOWN = 3
"""Paths that the announcement has."""
SPARE_DESCRIPTORS = 64
REDIRECTIONS = range(300, 400)
DISTRESS = "the server is in distress before there is any load"
HINTS = {
    401: "it needs credentials: give --token-file, or --header",
    403: "these credentials may not do that: give others",
    404: "give a --path that the server has",
    429: DISTRESS,
    503: DISTRESS,
    504: DISTRESS,
}

EPILOG = f"""\b
Examples:
  apfproxy find-limit --upstream http://127.0.0.1:8000 --path /orders
  apfproxy find-limit --upstream http://127.0.0.1:8000 --path /a --path /b \\
      --max-concurrency 64 --plot limit.svg
  apfproxy find-limit --upstream https://10.0.0.1:6443 --ca-file ca.crt \\
      --token-file token --path '/api/v1/pods?limit=500'

{EXIT_CODES}"""


def parse_limited_duration(text: str) -> float:
    duration_s = parse_duration(text)
    if not 1 <= duration_s <= 3600:  # noqa: PLR2004  an hour
        raise ValueError(f"expected a duration from 1s to 1h, not {text!r}")
    return duration_s


def parse_path(text: str) -> str:
    try:
        return parse_path_request("GET", text)[1].decode()
    except click.UsageError as error:
        raise ValueError(error.message) from None


@click.command("find-limit", epilog=EPILOG)
@click.option(
    "--upstream",
    type=Parsed("url", parse_upstream_url),
    required=True,
    metavar="URL",
    help="The server: http://HOST:PORT, https://HOST:PORT or unix:/PATH.",
)
@click.option(
    "--path",
    "paths",
    type=Parsed("path", parse_path),
    multiple=True,
    required=True,
    metavar="/PATH",
    help="What to GET, with its query.  Repeatable: all are taken in turn.",
)
@click.option(
    "--header",
    "headers",
    multiple=True,
    type=Parsed("header", parse_header),
    metavar="NAME:VALUE",
    help="A header field of all requests.  Repeatable.",
)
@click.option("--token-file", type=click.Path(), metavar="FILE", help="Their bearer token.")
@click.option(
    "--ca-file",
    type=click.Path(),
    metavar="FILE",
    help="CAs that verify the server, PEM.  [default: those of the system]",
)
@click.option(
    "--max-concurrency",
    type=WholeNumber(1, 10_000),
    default=512,
    show_default=True,
    metavar="N",
    help="The most requests at a time.",
)
@click.option(
    "--max-duration",
    type=Parsed("duration", parse_limited_duration),
    default="60s",
    show_default=True,
    metavar="DURATION",
    help="The longest that it may take.",
)
@click.option("--yes", is_flag=True, help="The server is yours, though its address is public.")
@output_option
@json_option
@plot_option("Draw throughput and latency against concurrency, too, as SVG.")
def find_limit(  # noqa: PLR0913  flags
    *,
    upstream: Address,
    paths: tuple[str, ...],
    headers: tuple[tuple[str, str], ...],
    token_file: str | None,
    ca_file: str | None,
    max_concurrency: int,
    max_duration: float,
    yes: bool,
    output: str,
    is_json: bool,
    plot_path: str | None,
) -> int:
    """Load a server of yours, and see which limit it should have.

    It sends GETs to the server itself, not through a proxy: 1 at a time, then 2, 4 and so on, until
    the throughput grows no more or requests fail, then as many as lie between.  The limit is the
    least concurrency with about the most throughput, as with serverConcurrencyLimit: auto.

    Take a copy of the server if you can: while it is at its limit its other clients wait, too.
    Take paths as its clients do, and run this on another machine than the server.
    """
    check_plot(plot_path)
    if ca_file is not None and not upstream.is_tls:
        raise click.UsageError("--ca-file goes with an --upstream of https://")
    fields = {"user-agent": f"apfproxy/{__version__} find-limit", **dict(headers)}
    authorities = None if ca_file is None else Pem(path=ca_file)
    try:
        if token_file is not None:
            fields["authorization"] = f"Bearer {read_token(token_file, 1).decode()}"
        tls = client_context(authorities, None) if upstream.is_tls else None
    except OperatorError as error:
        raise CommandError(str(error)) from error
    search = Search(max_concurrency, AutoLimitSettings().target / 100)
    load = partial(
        SteppedLoad, upstream, paths, search, longest_s=max_duration, headers=fields, tls=tls
    )
    code = run_in_loop(run(load, max_duration, is_sure=yes))
    if not search.good:
        if code == INTERRUPTED:
            raise KeyboardInterrupt
        if search.failed is not None:
            raise CommandError(f"{failures_text(search.failed)}, although sent one by one")
        raise CommandError(
            f"fewer than 8 responses in {max_duration:g} s: give a longer --max-duration, or paths"
            " with a faster response"
        )
    report = report_of(upstream, paths, search, is_interrupted=code == INTERRUPTED)
    if plot_path is not None:
        write_plot(plot_path, picture(report))
    if is_json or output == "json":
        click.echo(json.dumps(report))
    else:
        click.echo("\n".join(lines_of(report)))
    return FAILED if report["limit"] is None and code == OK else code


async def run(make: Callable[[], SteppedLoad], duration_s: float, *, is_sure: bool) -> int:
    """Load the server until the limit is known, the time is up, or a signal comes."""
    load, console = make(), Console(stderr=True)
    most, paths = load.search.most, load.paths
    shown = ", ".join(paths[:MOST_SHOWN]) + ", ..." * (len(paths) > MOST_SHOWN)
    announcement = (
        f"GET {shown} at {load.server.url}, at most {counted(most, 'request')} at a time,"
        f" for {duration_s:g} s at most; Ctrl-C ends it"
    )

    async def interrupt(first: asyncio.Event, until: asyncio.Timeout) -> None:
        await first.wait()
        if not until.expired():
            until.reschedule(0)

    with Signals(Hangup.END) as signals, console.status("") as status:
        try:
            async with asyncio.timeout(duration_s) as until:
                interrupting = spawn(interrupt(signals.first, until), name="waiting for a signal")
                if most > descriptor_limit() - SPARE_DESCRIPTORS:
                    raise CommandError(f"too few file descriptors for {most} requests at a time")
                if not is_sure:
                    await check_address(load.server)
                await check_paths(load)
                console.print(Text(announcement), soft_wrap=not console.is_terminal)
                await load.run(status.update)
        except TimeoutError:
            return INTERRUPTED if signals.first.is_set() else OK
        finally:
            interrupting.cancel()
            await load.close()
    return OK


async def check_address(server: Address) -> None:
    """See that it is no address of the internet: a load there would be an attack."""
    if server.path:
        return
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(server.host, server.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise CommandError(f"{server.url}: no address of {server.host}: {error.strerror}") from None
    for *_, address in found:
        if ipaddress.ip_address(address[0]).is_global:
            raise click.UsageError(
                f"{server.url} has the public address {address[0]}; give --yes if it is yours"
            )


async def check_paths(load: SteppedLoad) -> None:
    """See that each path has a response of success."""
    server = load.server
    for path in dict.fromkeys(load.paths):
        try:
            status, location = await load.request(path)
        except TimeoutError:
            text = f"no response in {TIMEOUT_S:g} s"
        except EXCHANGE_ERRORS as error:
            text = f"{explained(error, 'the server')[0]}; {remedy(server, error)}"
        else:
            if status in OK_STATUSES:
                continue
            hint = HINTS.get(status, "")
            if location and status in REDIRECTIONS:
                hint = f"it points to {location}: give that"
            text = f"status {status}" + f"; {hint}" * bool(hint)
        raise CommandError(one_line(f"GET {path} at {server.url}: {text}"))


def remedy(server: Address, error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return "give --ca-file, the CA that signed it, and the name that it is for"
    if isinstance(error, aiohttp.ClientSSLError):
        return f"if the server speaks no TLS, give --upstream http://{server.authority}"
    if isinstance(error, aiohttp.ClientConnectorError):
        return "is the server started?"
    other = "http" if server.is_tls else "https"
    return f"if the server speaks {other}, give --upstream {other}://{server.authority}"
