"""Fuzz the parsers with atheris; what it finds is added to the corpus, which is kept small.

    pip install -e '.[test,fuzz]'
    python -m tests.fuzz.run --target request_stream --seconds 120
    python -m tests.fuzz.run --seconds 3600 --jobs 2        # every target for an hour, two at once

An input that fails is left in `crash-*` of the directory `--artifacts`, and the exit status is 1;
`--input FILE` runs that one again.  Processes run at the lowest priority.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Protocol, cast

from coverage import Coverage

if TYPE_CHECKING:
    from collections.abc import Callable

CORPUS = Path(__file__).parent / "corpus"
NAMES = ("request_stream", "answer_stream", "chunked_body", "attributes", "frame_stream")
DICTIONARY = Path(__file__).with_name("http.dict")
MAX_INPUT_BYTES = 4096
TIMEOUT_S = 20
"""For one input; more is a finding, too."""
PACKAGE = str(Path(__file__).parents[2] / "apfproxy" / "*")
ONE_AT_A_TIME = Lock()
MAX_CORPUS_FILE_BYTES = 2500


class Target(Protocol):
    """A module with `run_one`, which raises if anything is wrong, and first inputs."""

    run_one: Callable[[bytes], None]
    seeds: Callable[[], list[bytes]]


def target_named(name: str) -> Target:
    """The module of that name; not imported before, so that atheris sees it imported."""
    return cast("Target", importlib.import_module(f"tests.fuzz.{name}"))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--target", choices=NAMES, help="one of them; all by default")
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--corpus", type=Path, default=CORPUS, help="a directory per target in it")
    parser.add_argument("--jobs", type=int, default=1, help="targets that run at once")
    parser.add_argument("--artifacts", type=Path, default=Path("fuzz-findings"))
    parser.add_argument("--input", type=Path, help="run this one input of --target, and end")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.input is not None:
        if options.target is None:
            parser.error("--input needs --target")
        target_named(options.target).run_one(options.input.read_bytes())
        return 0
    if options.worker is not None:
        return _work(options)
    names = [options.target] if options.target else list(NAMES)
    with ThreadPoolExecutor(options.jobs) as pool:
        statuses = list(pool.map(lambda name: _fuzz(name, options), names))
    for name, status in zip(names, statuses, strict=True):
        sys.stdout.write(f"{name}: {'no finding' if not status else f'FAILED, status {status}'}\n")
    return 1 if any(statuses) else 0


def _fuzz(name: str, options: argparse.Namespace) -> int:
    kept = options.corpus / name
    kept.mkdir(parents=True, exist_ok=True)
    options.artifacts.mkdir(parents=True, exist_ok=True)
    target = target_named(name)
    with tempfile.TemporaryDirectory() as directory:
        live = Path(directory)
        for path in kept.iterdir():
            shutil.copy(path, live)
        for seed in target.seeds():
            _write(live, seed[:MAX_INPUT_BYTES])
        log = options.artifacts / f"{name}.log"
        with log.open("wb") as output:
            status = subprocess.run(  # noqa: S603  itself
                [
                    *(sys.executable, "-m", "tests.fuzz.run", "--target", name),
                    *("--artifacts", str(options.artifacts), "--seconds", str(options.seconds)),
                    *("--worker", str(live)),
                ],
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
            ).returncode
        found = [path.read_bytes() for path in live.iterdir()]
    if status == 0:
        with ONE_AT_A_TIME:  # the targets share the buffer that all connections read into
            _keep(name, found, kept)
    runs = re.findall(r"number_of_executed_units: *([0-9]+)", log.read_text(errors="replace"))
    sys.stdout.write(f"{name}: {runs[-1] if runs else 0} inputs, log in {log}\n")
    sys.stdout.flush()
    return status


def _keep(name: str, found: list[bytes], kept: Path) -> None:
    """Keep the inputs, smallest first, of which each runs lines in an order that is new."""
    run_one = target_named(name).run_one
    known: set[object] = set()
    inputs = []
    for data in sorted(set(found), key=lambda data: (len(data), data)):
        if len(data) > MAX_CORPUS_FILE_BYTES:
            break
        run_one(data)  # first without being watched: what is met for the first time is of chance
        watch = Coverage(data_file=None, branch=True, include=[PACKAGE], config_file=False)
        with watch.collect():
            run_one(data)
        seen = watch.get_data()
        arcs = {(file, arc) for file in seen.measured_files() for arc in seen.arcs(file) or ()}
        if not arcs <= known:
            known |= arcs
            inputs.append(data)
    for path in kept.iterdir():
        path.unlink()
    for data in inputs:
        _write(kept, data)


def _write(directory: Path, content: bytes) -> None:
    name = hashlib.sha256(content).hexdigest()[:16]
    (directory / name).write_bytes(content)


def _work(options: argparse.Namespace) -> int:
    atheris = importlib.import_module("atheris")  # only here, since the rest needs none of it
    os.nice(15)
    packages = ["apfproxy.http", "apfproxy.proxy", "apfproxy.request", "apfproxy.upstream"]
    with atheris.instrument_imports(include=[*packages, "tests.fuzz"]):
        target = target_named(options.target)
    arguments = [
        f"-max_len={MAX_INPUT_BYTES}",
        f"-timeout={TIMEOUT_S}",
        f"-dict={DICTIONARY}",
        f"-artifact_prefix={options.artifacts}/crash-{options.target}-",
        "-print_final_stats=1",
        f"-max_total_time={options.seconds}",
        str(options.worker),
    ]
    atheris.Setup([sys.argv[0], *arguments], target.run_one)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
