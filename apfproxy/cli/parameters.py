"""Flags of several commands, types of flags that say what they expect, and tables as text."""

from __future__ import annotations

import contextlib
import functools
import math
import shutil
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from apfproxy.cli.errors import CommandError
from apfproxy.settings import KUBERNETES_API, PRESET_NAMES, Address
from apfproxy.settings.values import API_PREFIX, parse_address, parse_upstream_url

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    ParamType = click.ParamType[Any]
else:
    # Generic since click 8.4 only.
    ParamType = click.ParamType

Command = TypeVar("Command", bound="Callable[..., Any]")

LONGEST_SHOWN = 60
"""Characters."""
LOCALHOST = "127.0.0.1"
DEFAULT_ADMIN = "http://127.0.0.1:8081"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminAddress(Address):
    """Where an admin listener is, and what gives access to it."""

    token_file: str | None = None
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None


class Parsed(ParamType):
    """A flag whose text a function reads that may raise ValueError."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401 - as click has it
        if not isinstance(value, str):  # it has been read already
            return value
        try:
            return self._parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class WholeNumber(click.IntRange):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401 - as click has it
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            return self.fail(f"expected a whole number {_bounds(self, value)}", param, ctx)


class Number(click.FloatRange):
    """NaN is none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401 - as click has it
        with contextlib.suppress(click.BadParameter):
            if not math.isnan(number := super().convert(value, param, ctx)):
                return number
        return self.fail(f"expected a number {_bounds(self, value)}", param, ctx)


def _bounds(kind: click.IntRange | click.FloatRange, value: object) -> str:
    if kind.max is None:
        bounds = f"from {kind.min} on"
    elif kind.min_open:
        bounds = f"above {kind.min} and below {kind.max}"
    else:
        bounds = f"from {kind.min} to {kind.max}"
    return f"{bounds}, not {str(value)[:LONGEST_SHOWN]!r}"


def parse_admin(text: str) -> Address:
    """Read where an admin listener is: a URL, `HOST:PORT`, `:PORT` of this machine, or a socket."""
    if "://" in text:
        return parse_upstream_url(text)
    try:
        return parse_address(f"{LOCALHOST}{text}" if text.startswith(":") else text)
    except ValueError:
        raise ValueError(
            f"expected {DEFAULT_ADMIN}, HOST:PORT, :PORT or unix:/PATH, not {text!r}"
        ) from None


def aligned(
    header: Sequence[str], rows: Sequence[Sequence[str]], numbers: frozenset[int]
) -> list[str]:
    """A table as lines, two spaces between columns and none at the end; `numbers` set right."""
    lines = [tuple(header), *map(tuple, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if index in numbers else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


def fitted(text: str) -> str:
    """The text on stdout; in a terminal its lines end between words."""
    if not sys.stdout.isatty():
        return text
    width = shutil.get_terminal_size().columns
    return textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)


output_option = click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Text for people, or one JSON document.",
)
json_option = click.option("--json", "is_json", is_flag=True, help="The same as --output json.")


def parse_plot(text: str) -> str:
    if Path(text).suffix.lower() not in {".svg", ""}:
        raise ValueError(f"plots are SVG: expected a file such as report.svg, not {text!r}")
    return text


def plot_option(text: str) -> Callable[[Command], Command]:
    return click.option(
        "--plot", "plot_path", metavar="FILE", type=Parsed("file", parse_plot), help=text
    )


def check_plot(path: str | None) -> None:
    """See that a plot can be written when all is over, as far as can be told."""
    if path is not None and not (folder := Path(path).parent).is_dir():
        raise CommandError(f"{path} cannot be written: there is no directory {folder}")


def write_plot(path: str, svg: str) -> None:
    try:
        Path(path).write_text(svg, encoding="utf-8", errors="replace")
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror or error}") from None


_ADMIN_OPTIONS = (
    click.option(
        "--admin",
        type=Parsed("address", parse_admin),
        metavar="ADDRESS",
        default=DEFAULT_ADMIN,
        show_default=True,
        help="The admin listener of a running proxy: a URL, HOST:PORT, :PORT of this machine, or"
        " unix:/PATH.",
    ),
    *(
        click.option(
            f"--admin-{name}-file",
            type=click.Path(dir_okay=False),
            metavar="FILE",
            help=what,
        )
        for name, what in (
            ("token", "The bearer token for it."),
            ("ca", "The CAs of its certificate, for https://. [default: those of the system]"),
            ("cert", "A client certificate for it, for https://."),
            ("key", "The key of that certificate."),
        )
    ),
    click.option(
        "--cluster",
        metavar="NAME",
        help="Which of several clusters of the proxy; those that it has are in its settings.",
    ),
)


def admin_options(command: Command) -> Command:
    """Add the flags that say where a running proxy is asked, as two parameters."""

    @functools.wraps(command)
    def run(*, admin: Address, **others: Any) -> Any:  # noqa: ANN401 - as click gives them
        names = ("token_file", "ca_file", "cert_file", "key_file")
        files = {name: others.pop(f"admin_{name}") for name in names}
        if any(files[name] for name in names[1:]) and not admin.is_tls:
            raise click.UsageError(
                "--admin-ca-file, --admin-cert-file and --admin-key-file go with an --admin of https://"
            )
        if bool(files["cert_file"]) != bool(files["key_file"]):
            raise click.UsageError("--admin-cert-file and --admin-key-file go together")
        address = AdminAddress(
            host=admin.host, port=admin.port, is_tls=admin.is_tls, path=admin.path, **files
        )
        return command(admin=address, **others)

    for option in reversed(_ADMIN_OPTIONS):
        run = option(run)
    return run  # type: ignore[return-value]  # it takes the flags for what the command takes


PRESET_HELP = (
    "What kind of API the server has: which objects are built in, and how requests are read."
)
preset_option = click.option(
    "--preset",
    type=click.Choice(PRESET_NAMES),
    help=f"{PRESET_HELP} [default: {KUBERNETES_API}]",
)
path_prefix_option = click.option(
    "--path-prefix",
    multiple=True,
    type=Parsed("path prefix", API_PREFIX.parse),
    metavar="PATTERN",
    help="Where the server has APIs below a prefix, such as /clusters/{workspace}; the setting"
    " request.pathPrefixes.  Repeatable.",
)
SUGGESTED_HELP = "Whether the preset's objects are built in."
suggested_objects_option = click.option(
    "--suggested-objects/--no-suggested-objects",
    default=True,
    help=f"{SUGGESTED_HELP} [default: yes]",
)
