"""`apfproxy simulate`: what a configuration would do with the requests of a log, or of a mix."""

from __future__ import annotations

import codecs
import contextlib
import gc
import gzip
import io
import json
import os
import sys
import zlib
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from apfproxy.cli.errors import EXIT_CODES, OK, CommandError
from apfproxy.cli.offline import DEFAULTS, limit_adjustment_option, objects_in_force, seats_option
from apfproxy.cli.parameters import (
    Parsed,
    WholeNumber,
    check_plot,
    json_option,
    output_option,
    path_prefix_option,
    plot_option,
    preset_option,
    suggested_objects_option,
    write_plot,
)
from apfproxy.cli.simulate_tables import print_report
from apfproxy.flowcontrol.limit_finder import FinderSettings, LimitFinder
from apfproxy.flowcontrol.passage import MOST_LIST_SEATS
from apfproxy.flowcontrol.preset import PRESETS
from apfproxy.lint.known_resources import is_of_kubernetes
from apfproxy.objects.additions import MATCH_QUERY
from apfproxy.objects.field_errors import counted, one_line
from apfproxy.objects.types import FlowSchema
from apfproxy.request.attributes import KNOWN_PARAMETERS
from apfproxy.settings import (
    AS_KUBERNETES,
    AUTO_SEATS,
    KUBERNETES_API,
    AutoLimitSettings,
)
from apfproxy.settings.values import AUTO, MAX_SEATS, SEATS, parse_duration
from apfproxy.simulation.logs import TooManyBrokenError, read_access_log, read_audit_log
from apfproxy.simulation.mix import Mix, MixError, parse_mix
from apfproxy.simulation.plots import picture
from apfproxy.simulation.report import configuration_report, difference, listed
from apfproxy.simulation.server_model import named_numbers, parse_server_model
from apfproxy.simulation.simulation import Sequence as Replay
from apfproxy.simulation.simulation import Simulation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import BinaryIO

    from apfproxy.flowcontrol.preset import Preset
    from apfproxy.objects.types import FlowControlObject
    from apfproxy.simulation.records import Records
    from apfproxy.simulation.server_model import ServerModel

MAX_LINE_BYTES = 64 << 20
"""An audit event with the bodies of a large request and its response has a few MiB."""
MAX_SKIPPED_BYTES = 1 << 30
"""Bytes of a line that is too long; there are devices whose first line never ends."""
MAX_MIX_BYTES = 4 << 20
NS_PER_DAY = 86_400_000_000_000
LONGEST_SPAN_NS = 31 * NS_PER_DAY
"""Span of a log: limits are adjusted every 10 s, and one wrong time may be years away."""

STDIN, STDIN_NAME = ("-", "<stdin>")
GZIP = b"\x1f\x8b"
COMPRESSED = (b"\x28\xb5\x2f\xfd", b"BZh", b"\xfd7zXZ", b"PK\x03\x04")
"""How files of zstd, bzip2, xz and zip begin."""
MOST_MAGIC = 4
GC_THRESHOLD = 200_000
"""Objects made before a look for circles, of which requests make none: 10 % less time."""

HELD = (
    "arrivals are taken as they were: clients that waited for responses would have asked later,"
    " so a crowded level looks worse than it was"
)
UNLOGGED = (
    "without a line, as the log says, and not replayed: accessLog.refusedPerSecond and"
    " accessLog.maxBytesPerSecond left them out"
)
NOT_COMPLETE = (
    ", none of which is of the stage ResponseComplete, which says how long a request took: take it"
    " out of omitStages in the audit policy, and record again"
)
OF_GOOGLE = (
    " of Google Cloud's audit log, which does not say how long requests take: record an access log"
    " of this proxy instead"
)
GUESSED = "never executed; replayed with the mean service time of what is alike"
OTHER_API = (
    "none of the requests is for a resource of Kubernetes; if the server has another API, give"
    " --preset http: it changes how they are classified, and which objects are built in"
)
NO_MODEL = (
    "without --server-model the server does not slow down under load, so that the limit that is"
    " found tells of the demand alone"
)
NO_QUERY = (
    "an access log has of queries only what decides something in Kubernetes' API: for"
    f" {MATCH_QUERY} its requests are without"
)
AUTO_BOUNDS = dict.fromkeys(("min", "max", "initial"), (1, MAX_SEATS)) | {"target": (50, 99)}

EPILOG = f"""\b
Examples:
  apfproxy simulate --mix mix.yaml
  apfproxy simulate --mix mix.yaml --compare new-objects/ --plot report.svg
  apfproxy simulate --audit-log a.log --server-concurrency-limit 400 --json
  apfproxy simulate --access-log a.log --server-model capacity=40 \\
    --compare-server-concurrency-limit auto
  apfproxy simulate --audit-log audit.log.gz
  zcat access.log.*.gz | apfproxy simulate --access-log -

{EXIT_CODES}"""


def parse_auto_limit(text: str) -> AutoLimitSettings:
    """Read settings such as `min=10,max=400`; ValueError."""
    given = named_numbers(text, AUTO_BOUNDS, "numbers such as min=10,max=400,initial=50,target=97")
    if any(not each.is_integer() for each in given.values()):
        raise ValueError(f"expected whole numbers, not {text!r}")
    auto = AutoLimitSettings(**{name: int(each) for name, each in given.items()})
    if not auto.min <= auto.max or ("initial" in given and auto.initial != auto.first):
        raise ValueError(f"expected min <= initial <= max, not {text!r}")
    return auto


log_option = partial(click.option, metavar="FILE", type=click.Path())
objects_option = partial(click.option, metavar="PATH", type=click.Path(), multiple=True)
number_option = partial(click.option, metavar="N", show_default=True)
limit_option = partial(seats_option, type=Parsed("seats", SEATS.parse))
auto_option = partial(click.option, metavar="NAME=N,...", type=Parsed("settings", parse_auto_limit))


@click.command(epilog=EPILOG)
@log_option("--mix", "mix_path", help="A synthetic mix of requests, in YAML; - for stdin.")
@log_option(
    "--audit-log",
    help="A Kubernetes audit log, audit.k8s.io/v1 Events in whatever wraps them; - for stdin.",
)
@log_option("--access-log", help="An access log of this proxy; - for stdin.")
@objects_option(
    "--objects",
    help="FlowSchemas and PriorityLevelConfigurations: a file, or a directory."
    " [default: the built-in ones]  Repeatable.",
)
@limit_option(
    "--server-concurrency-limit",
    default=DEFAULTS.server_concurrency_limit,
    show_default=True,
    help="Seats of the whole server; auto has them be found, as serve does.",
)
@objects_option(
    "--compare", help="Objects of a second configuration, to compare with the first.  Repeatable."
)
@limit_option(
    "--compare-server-concurrency-limit",
    help="Seats of the second configuration, or auto. [default: as the first]",
)
@auto_option(
    "--auto-limit",
    help="min, max, initial and target of a limit that is auto, such as min=10,max=400; the"
    " settings flowControl.autoLimit.",
)
@auto_option(
    "--compare-auto-limit",
    help="The same of the second configuration. [default: as the first]",
)
@click.option(
    "--server-model",
    metavar="MODEL",
    type=Parsed("model", parse_server_model),
    help="How the server slows down under load: capacity=20, or capacity=20,overload=1.5, or"
    " contention=0.02,coherency=0.0001; 'capacity=40; 30s: capacity=20' changes it after 30s."
    "  [default: not at all]",
)
@preset_option
@path_prefix_option
@suggested_objects_option
@limit_adjustment_option
@number_option(
    "--max-list-seats",
    type=WholeNumber(1, MOST_LIST_SEATS),
    default=DEFAULTS.max_list_seats,
    help="Seats of one LIST at most; the setting flowControl.maxListSeats.",
)
@number_option(
    "--hash-seed",
    type=WholeNumber(0, (1 << 32) - 1),
    default=0,
    metavar="NUMBER",
    help="Decides which queues a flow is dealt.",
)
@click.option(
    "--warm-up",
    type=Parsed("duration", parse_duration),
    default="0s",
    show_default=True,
    metavar="DURATION",
    help="Time at the start that is not counted, while limits adjust to the demand.",
)
@number_option("--top", type=WholeNumber(1, 10_000), default=10, help="Flows and clients to list.")
@number_option(
    "--max-broken-lines",
    type=WholeNumber(0),
    default=100,
    help="Unreadable lines of a log that are skipped; one more is an error.",
)
@output_option
@json_option
@plot_option("Draw seats, limits, waiting and rejected requests over time, too, as SVG.")
def simulate(  # noqa: PLR0913  flags
    *,
    mix_path: str | None,
    audit_log: str | None,
    access_log: str | None,
    objects: tuple[str, ...],
    server_concurrency_limit: int,
    compare: tuple[str, ...],
    compare_server_concurrency_limit: int | None,
    auto_limit: AutoLimitSettings | None,
    compare_auto_limit: AutoLimitSettings | None,
    server_model: ServerModel | None,
    preset: str | None,
    path_prefix: tuple[str, ...],
    suggested_objects: bool,
    limit_adjustment: str | None,
    max_list_seats: int,
    hash_seed: int,
    warm_up: float,
    top: int,
    max_broken_lines: int,
    output: str,
    is_json: bool,
    plot_path: str | None,
) -> int:
    """Replay requests through one or two configurations.

    The requests are those of a log or of a synthetic mix; give one of --mix, --audit-log and
    --access-log.  They go through the flow control of the proxy itself, on a virtual clock.
    Service times are as given; with --server-model they are those of an idle server.
    """
    if [mix_path, audit_log, access_log].count(None) != 2:  # noqa: PLR2004  two of three
        raise click.UsageError("give one of --mix, --audit-log and --access-log")
    check_plot(plot_path)
    kind = PRESETS[preset or KUBERNETES_API].with_rules(None, None, None, path_prefix)
    sides = [(objects, server_concurrency_limit, auto_limit)]
    if compare or compare_server_concurrency_limit is not None or compare_auto_limit:
        seats = compare_server_concurrency_limit
        seats = server_concurrency_limit if seats is None else seats
        sides.append((compare or objects, seats, compare_auto_limit or auto_limit))
    configurations = [
        _configuration(*each, kind, with_suggested=suggested_objects) for each in sides
    ]
    is_auto = any(finder for *_, finder in configurations)
    if (auto_limit or compare_auto_limit) and not is_auto:
        which = "" if auto_limit else "compare-"
        raise click.UsageError(
            f"--{which}auto-limit goes with --{which}server-concurrency-limit {AUTO}"
        )
    source: Mix | Records
    warnings: list[str] = []
    if mix_path is not None:
        source = mix_of(mix_path, kind)
        described: dict[str, Any] = {"mix": _named(mix_path)}
    else:
        path = audit_log or access_log
        assert path is not None
        asked = {
            each.additions.condition.parameter
            for each in chain.from_iterable(in_force for _, in_force, *_ in configurations)
            if isinstance(each, FlowSchema) and each.additions.condition
        } - {""}
        source = records_of(path, kind, max_broken_lines, asked, is_audit=audit_log is not None)
        described = _described(_named(path), source)
        if source.held:
            held = counted(source.held, "request")
            warnings.append(f"{held} waited or never executed in the log; {HELD}")
        unknown = sorted(asked.difference(() if kind.is_plain else KNOWN_PARAMETERS))
        warnings += [f"{NO_QUERY} {', '.join(unknown)}"] if access_log and unknown else []
    if preset is None and not any(is_of_kubernetes(each.attributes) for each in source.kinds):
        warnings.append(OTHER_API)
    if is_auto and server_model is None:
        warnings.append(NO_MODEL)
    reports = []
    for name, in_force, seats, finder in configurations:
        with bar(f"simulating {name}") as move:
            simulation = simulated(
                in_force,
                seats,
                source,
                move,
                hash_seed=hash_seed,
                is_prompt=limit_adjustment != AS_KUBERNETES,
                max_list_seats=max_list_seats,
                warm_up_ns=round(warm_up * 1e9),
                server_model=server_model,
                finder=finder,
            )
        for problem in simulation.problems:
            click.echo(f"apfproxy simulate: {one_line(problem)}", err=True)
        reports.append(configuration_report(name, simulation))
    warnings += [
        f"{each['name']}: all was over after {each['seconds']:.1f} s, before the warm-up of"
        f" {warm_up:g} s; the numbers are those of all requests"
        for each in reports
        if warm_up and not each["warmUpSeconds"]
    ]
    report: dict[str, Any] = {
        "input": described,
        "warnings": warnings,
        "configurations": [listed(each, top) for each in reports],
    }
    if len(reports) > 1:
        report["difference"] = difference(*reports, top=top)
    if plot_path is not None:
        write_plot(plot_path, picture(report))
    if is_json or output == "json":
        click.echo(json.dumps(report))
    else:
        print_report(report, sys.stdout)
    return OK


def mix_of(path: str, preset: Preset) -> Mix:
    name = _named(path)
    try:
        with _opened(path) as file:
            data = file.read(MAX_MIX_BYTES + 1)
    except OSError as error:
        raise CommandError(f"{name} cannot be read: {error.strerror or error}") from None
    if len(data) > MAX_MIX_BYTES:
        raise CommandError(f"{name}: larger than {MAX_MIX_BYTES >> 20} MiB")
    try:
        return parse_mix(data, preset)
    except MixError as error:
        where = name if error.line is None else f"{name}:{error.line}"
        raise CommandError(f"{where}: {one_line(str(error))}") from None


def records_of(
    path: str, preset: Preset, max_broken: int, asked: Iterable[str], *, is_audit: bool
) -> Records:
    """Read a log, with notes on stderr; CommandError if it cannot be read, or is no such log."""
    name = _named(path)
    read, other = (read_audit_log, "--access-log") if is_audit else (read_access_log, "--audit-log")
    try:
        with bar("reading") as move:
            records = read(_lines_of(path, move), max_broken, preset, asked)
    except OSError as error:
        raise CommandError(f"{name} cannot be read: {error.strerror or error}") from None
    except (EOFError, zlib.error) as error:
        raise CommandError(f"{name} cannot be unpacked: {error}") from None
    except TooManyBrokenError as error:
        raise CommandError(
            *(f"{name}: {one_line(line)}" for line in str(error).splitlines())
        ) from None
    if not len(records):
        lines = [f"{name}:{line}: {one_line(message)}" for line, message in records.problems]
        reasons = (
            (records.early, "event", NOT_COMPLETE),
            (records.misfits, "line", f" of the other kind of log: give it with {other}"),
            (records.foreign, "line", OF_GOOGLE),
            (records.left_out, "line", " of other programs, and no request in it"),
        )
        found = (counted(count, noun) + text for count, noun, text in reasons if count)
        nothing = "there is no request in it" + (": is this the right file?" if lines else "")
        raise CommandError(*lines, f"{name}: {next(found, nothing)}")
    if records.guessed == len(records):
        raise CommandError(
            f"{name}: none of its {counted(len(records), 'request')} executed, so that it is not"
            " known how long they take; record a log while the server answers"
        )
    if records.span_ns > LONGEST_SPAN_NS:
        days = records.span_ns / NS_PER_DAY
        raise CommandError(
            f"{name}: its requests lie {days:.0f} days apart: split it, or correct its times"
        )
    for line, message in records.problems:
        click.echo(f"{name}:{line}: {one_line(message)}", err=True)
    for count, noun, message in (
        (records.broken, "broken line", "left out"),
        (records.left_out, "line", "of other programs left out"),
        (records.unlogged, "request", UNLOGGED),
        (records.guessed, "request", GUESSED),
    ):
        if count:
            click.echo(f"{name}: {counted(count, noun)} {message}", err=True)
    return records


def _configuration(
    paths: tuple[str, ...],
    seats: int,
    auto: AutoLimitSettings | None,
    preset: Preset,
    *,
    with_suggested: bool,
) -> tuple[str, Sequence[FlowControlObject], int, LimitFinder | None]:
    """Name, objects and seats of a configuration, and what finds the seats, if they are found."""
    name = ", ".join(paths) or f"{'built-in' if with_suggested else 'mandatory'} objects"
    in_force = objects_in_force(paths, preset, with_suggested=with_suggested)
    if seats != AUTO_SEATS:
        return f"{name}, {seats} seats", in_force, seats, None
    auto = auto or AutoLimitSettings()
    name += f", {AUTO} from {auto.first} seats, min {auto.min}, max {auto.max}"
    settings = FinderSettings(auto.min, auto.max, auto.first, auto.target / 100)
    return f"{name}, target {auto.target}", in_force, seats, LimitFinder(settings)


def _described(name: str, records: Records) -> dict[str, Any]:
    return {
        "log": name,
        "requests": len(records),
        "skippedLines": records.skipped,
        "brokenLines": records.broken,
        "leftOutLines": records.left_out,
        "unloggedRequests": records.unlogged,
        "problems": [{"line": line, "message": text} for line, text in records.problems],
        "guessedServiceTimes": records.guessed,
    }


def _named(path: str) -> str:
    return STDIN_NAME if path == STDIN else path


def _opened(path: str) -> contextlib.AbstractContextManager[io.BufferedReader]:
    if path != STDIN:
        return Path(path).open("rb")
    return contextlib.nullcontext(cast("io.BufferedReader", sys.stdin.buffer))


def _lines_of(path: str, move: Callable[[float], None]) -> Iterator[bytes]:
    """The lines of a file, of long ones the beginning; `move` is told which part is read."""
    with _opened(path) as raw:
        size = told = 0
        with contextlib.suppress(OSError):  # nothing that the system knows of
            size = os.fstat(raw.fileno()).st_size
        file = _unpacked(raw, _named(path))
        while line := file.readline(MAX_LINE_BYTES):
            yield line
            skipped = 0
            while len(line) == MAX_LINE_BYTES and not line.endswith(b"\n"):
                line = file.readline(MAX_LINE_BYTES)
                skipped += len(line)
                if skipped > MAX_SKIPPED_BYTES:
                    raise CommandError(
                        f"{_named(path)}: a line has more than {MAX_SKIPPED_BYTES >> 20} MiB:"
                        " is this the right file?"
                    )
            if size and (position := raw.tell()) - told > size / 200:
                told = position
                move(position / size)


def _unpacked(file: io.BufferedReader, name: str) -> BinaryIO:
    """A file in UTF-8 and without gzip; CommandError if it is compressed otherwise."""
    if file.peek(MOST_MAGIC).startswith(GZIP):
        file = io.BufferedReader(gzip.GzipFile(fileobj=file))
    start = file.peek(MOST_MAGIC)
    if start.startswith((GZIP, *COMPRESSED)):
        raise CommandError(f"{name} is compressed otherwise than by gzip: unpack it first")
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return codecs.EncodedFile(file, "utf-8", "utf-16", "replace")
    return file


def simulated(
    objects: Sequence[FlowControlObject],
    seats: int,
    source: Mix | Records,
    move: Callable[[float], None],
    **options: Any,  # noqa: ANN401 - of `Simulation`
) -> Simulation:
    """Replay all requests through one configuration; `move` is told which part is done."""
    expected = source.expected_requests() if isinstance(source, Mix) else len(source)
    simulation = Simulation(
        objects, seats, on_progress=lambda done: move(done / max(expected, 1.0)), **options
    )
    if isinstance(source, Mix):
        source.feed(simulation)
    else:
        Replay(simulation, source.requests())
    thresholds = gc.get_threshold()
    gc.set_threshold(GC_THRESHOLD, 50, 50)
    try:
        simulation.run()
    finally:
        gc.set_threshold(*thresholds)
    return simulation


@contextlib.contextmanager
def bar(title: str) -> Iterator[Callable[[float], None]]:
    """A progress bar on stderr if that is a terminal; what moves it takes a part of 1."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(title, total=1.0)
        yield lambda part: progress.update(task, completed=min(part, 1.0))
