"""Print where apfproxy's CPU goes, by step of a request's life.

Clients drive a mix through the proxy, as in `peers`, twice: once alone, which gives the CPU per
request and the kernel's share of it, as the kernel counts them; and once with py-spy, which looks
at the stack of the proxy many times a second.  It sees Python's functions and those that mypyc has
compiled, so both builds have the same table.  What is not the kernel's is divided among the steps
as the samples are.  A step's share is uncertain by about 1 % with 2 000 samples.  py-spy slows the
proxy down, so what timers do has a greater share than it should; a lower --rate helps.

    python -m loadtest.profile cluster
    python -m loadtest.profile varied --interpreter wheel/bin/python --json profile.json
    python -m loadtest.profile cluster --tls --streams 8

py-spy needs the right to trace processes of the same user: run as root, or set
`kernel.yama.ptrace_scope=0`.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from loadtest.arguments import Parser, count_up_to, output_file
from loadtest.builds import THIS, named_build
from loadtest.cluster import users, write_token_file
from loadtest.contenders import start_contender
from loadtest.nginx_origin import MAX_CONNECTIONS, start_nginx_origin
from loadtest.processes import LoadTestError, Process, exit_status, raise_descriptor_limit
from loadtest.site import Site
from loadtest.steps import KERNEL, STEPS, count_steps
from loadtest.tls_site import make_tls
from loadtest.wrk import DEFAULT_CONNECTIONS, KEPT_MIXES, Measurement, Variety, drive

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from loadtest.builds import Build

PY_SPY = Path(sys.executable).with_name("py-spy")
WARM_UP_S = 2

MOST_OF_A_STEP = 3
"""How many functions of a step are named at most."""


class Step(NamedTuple):
    """What one step costs."""

    name: str
    us_per_request: float
    share: float
    functions: dict[str, float]
    """The costliest of it to microseconds per request."""


def profile(options: argparse.Namespace, site: Site) -> dict[str, object]:
    """Measure and print the table.

    Args:
        options: The command line.
        site: Where the programs run.

    Returns:
        What `--json` writes.
    """
    if options.mix == "cluster":
        site = site._replace(token_file=site.directory / "tokens.csv")
        write_token_file(site.directory / "tokens.csv", users())
    version = site.builds["apfproxy"].version()
    with ExitStack() as running:
        origin = running.enter_context(start_nginx_origin(site, options.mix))
        proxy = running.enter_context(start_contender("apfproxy", site, origin.port))

        def load(seconds: int) -> Measurement:
            return drive(
                proxy,
                mix=options.mix,
                variety=Variety(seed=options.seed, streams=options.streams),
                seconds=seconds,
                connections=options.connections
                or DEFAULT_CONNECTIONS[options.mix] // max(1, options.streams),
                core=site.load_core,
                directory=site.directory,
                tls=site.tls,
            )

        load(WARM_UP_S)
        kernel_before, user_before = proxy.kernel_and_user_ticks()
        measured = load(options.seconds)
        kernel, user = proxy.kernel_and_user_ticks()
        kernel, user = kernel - kernel_before, user - user_before
        with ThreadPoolExecutor() as threads:
            sampling = threads.submit(sample, proxy, options.seconds, options.rate, site.directory)
            # py-spy may need long to begin.
            sampled = [load(options.seconds)]
            while not sampling.done():
                sampled.append(load(options.seconds))
            raw = sampling.result()
    steps = divide(raw, measured.cpu_us_per_request, kernel / max(1, kernel + user))
    samples = sum(sum(of.values()) for of in count_steps(raw).values())
    speed = max(each.requests_per_s for each in sampled) / measured.requests_per_s
    print(version)
    print(f"{options.mix}: {samples} samples, at {speed:.0%} of the speed without py-spy")
    print_steps(steps, measured)
    return {
        "version": version,
        "mix": options.mix,
        "samples": samples,
        "speed_while_sampled": speed,
        **measured._asdict(),
        "steps": [step._asdict() for step in steps],
    }


def sample(proxy: Process, seconds: int, rate: int, directory: Path) -> str:
    """Look at the stack of the proxy for a while.

    Args:
        proxy: The proxy, under load.
        seconds: How long.
        rate: How often a second.
        directory: Where the samples may be written.

    Returns:
        py-spy's lines of `frame;frame;frame COUNT`.

    Raises:
        LoadTestError: py-spy is not installed, or may not trace the proxy.
    """
    if not PY_SPY.exists():
        raise LoadTestError("no program 'py-spy'; `pip install '.[loadtest]'` has it")
    file = directory / "samples"
    done = subprocess.run(
        [
            PY_SPY,
            "record",
            f"--pid={proxy.pid}",
            f"--duration={seconds}",
            f"--rate={rate}",
            "--native",
            "--function",
            "--format=raw",
            f"--output={file}",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode or not file.exists():
        words = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        raise LoadTestError(f"py-spy failed: {words}")
    return file.read_text()


def divide(raw: str, cpu_us: float, kernels_share: float) -> list[Step]:
    """Divide the CPU of a request among the steps.

    Args:
        raw: The samples.
        cpu_us: CPU per request, the kernel's included.
        kernels_share: How much of it is the kernel's, 0 to 1.

    Raises:
        LoadTestError: There are no samples to divide by.
    """
    counts = count_steps(raw)
    in_kernel = sum(counts[KERNEL].values())
    in_user = sum(sum(of.values()) for of in counts.values()) - in_kernel
    if not in_user:
        raise LoadTestError("py-spy saw nothing but system calls; ask for more --seconds")
    steps = []
    for name, functions in counts.items():
        all_us, samples = (
            (cpu_us * kernels_share, in_kernel)
            if name == KERNEL
            else (cpu_us * (1 - kernels_share), in_user)
        )
        us = {
            function: all_us * count / max(1, samples)
            for function, count in functions.most_common()
        }
        total = all_us if name == KERNEL else sum(us.values())
        steps.append(Step(name, total, total / cpu_us, us))
    return steps


def print_steps(steps: Sequence[Step], measured: Measurement) -> None:
    """Print the table, with as many functions of a step as fit into a line of the terminal."""
    room = shutil.get_terminal_size().columns
    print(f"\n{'step':<12}{'us/request':>11}{'share':>8}  costliest functions, us/request")
    for step in steps:
        line = f"{step.name:<12}{step.us_per_request:>11.2f}{step.share:>8.1%}"
        for number, (name, us) in enumerate(list(step.functions.items())[:MOST_OF_A_STEP]):
            file, _, function = name.partition(".")
            short = f"{file}.{function.rpartition('.')[2]}" if function else name
            more = f"{', ' if number else '  '}{short} {us:.1f}"
            if number and len(line + more) > room:
                break
            line += more
        print(line)
    print(f"{'all':<12}{measured.cpu_us_per_request:>11.2f}{1:>8.1%}")


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line; wrong input ends the program with one line."""
    parser = Parser(f"{__doc__}\nSteps:\n{_legend()}")
    add = parser.add_argument
    add("mix", choices=KEPT_MIXES, help="what clients send")
    add("--seconds", type=count_up_to(3600), default=15, help="of each of both loads (15)")
    add("--rate", type=count_up_to(1000), default=100, help="samples a second (100)")
    add(
        "--connections",
        type=count_up_to(MAX_CONNECTIONS),
        help="of clients (cluster 256, others 64)",
    )
    add(
        "--interpreter",
        dest="build",
        type=_build,
        default=THIS,
        metavar="PYTHON",
        help="that of another virtual environment, or the root of another checkout",
    )
    add("--tls", action="store_true", help="clients speak TLS 1.3 to the proxy")
    add(
        "--streams",
        type=count_up_to(100, 0),
        default=0,
        help="at once on a connection over HTTP/2, of cluster only; 0 for HTTP/1.1 (0)",
    )
    add("--no-pin", action="store_true", help="let the scheduler choose cores")
    add("--seed", type=int, default=1, help="of what cluster draws (1)")
    add("--json", type=output_file, metavar="FILE", help="write all functions of each step there")
    options = parser.parse_args(arguments)
    if options.streams and options.mix != "cluster":
        parser.error("--streams drives the mix cluster only")
    return options


def _build(place: str) -> Build:
    return named_build(f"apfproxy={place}")[1]


def _legend() -> str:
    return "\n".join(f"    {name:<12}{what}" for name, what in STEPS.items())


def run(options: argparse.Namespace) -> None:
    """Run what the command line asks for and write the JSON file."""
    raise_descriptor_limit(2 * (options.connections or max(DEFAULT_CONNECTIONS.values())) + 100)
    with tempfile.TemporaryDirectory(prefix="apfproxy-profile-") as directory:
        proxy_core, load_core = (None, None) if options.no_pin else (0, 1)
        site = Site(
            Path(directory),
            proxy_core,
            load_core,
            tls=make_tls(Path(directory)) if options.tls else None,
            http2=bool(options.streams),
            builds={"apfproxy": options.build},
        )
        found = profile(options, site)
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the profile; the result is the exit status."""
    options = parse_arguments(arguments)
    return exit_status("profile", lambda: run(options))


if __name__ == "__main__":
    sys.exit(main())
