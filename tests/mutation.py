"""Change the program at random, and count the changes that the tests notice.

    python -m tests.mutation --count 300 --seed 1 --out mutants.json
    python -m tests.mutation --again mutants.json        only those that survived

A mutant is one change of an operator, a constant, a condition or a call in one of the rooms below,
in a copy of the tree.  At first the tests run once, and coverage notes which of them reach which
line.  Of a mutant those that reach its statement run until one fails; a mutant that makes them hang
is noticed, too.  Two mutants run at a time; the seed picks the same ones from the same sources.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, NamedTuple

import pytest
from coverage import CoverageData

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
ROOMS = {
    "flowcontrol": ["tests/flowcontrol"],
    "http": ["tests/http", "tests/proxy", "tests/upstream"],
    "upstream": ["tests/upstream", "tests/proxy"],
    "fleet": ["tests/fleet", "tests/app"],
    "authn": ["tests/authn", "tests/proxy"],
}
"""Package to the tests that have to notice its mutants, those of its own room first."""
AT_ONCE = 2
TIMEOUT_S = 240
MOST_TESTS = 300
"""So many tests run by their names; more of them run with all of their files."""
NOT_RUN = (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.NO_TESTS_COLLECTED)
PYTEST = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not e2e"]

SWAPPED: dict[type[ast.AST], str] = {
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.In: "not in",
    ast.NotIn: "in",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "//",
    ast.FloorDiv: "*",
    ast.Div: "*",
    ast.Mod: "//",
    ast.BitOr: "&",
    ast.BitAnd: "|",
    ast.And: "or",
    ast.Or: "and",
}


class Mutant(NamedTuple):
    """One change: bytes `start` to `end` of the file, which begin in the line, become `new`."""

    file: str
    line: int
    start: int
    end: int
    old: str
    new: str


def mutants_of(file: str, source: bytes) -> Iterator[Mutant]:  # noqa: C901  `walk` is in it
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def text(node: ast.expr | ast.stmt) -> str:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        first = starts[node.lineno - 1] + node.col_offset
        return source[first : starts[node.end_lineno - 1] + node.end_col_offset].decode()

    def change(node: ast.expr | ast.stmt, new: str) -> Mutant:
        first, old = starts[node.lineno - 1] + node.col_offset, text(node)
        return Mutant(file, node.lineno, first, first + len(old.encode()), old, new)

    def walk(node: ast.AST) -> Iterator[Mutant]:  # noqa: C901, PLR0912  a table of nodes
        match node:
            case ast.Import() | ast.ImportFrom() | ast.JoinedStr() | ast.Assert():
                return
            case ast.If(test=ast.Name("TYPE_CHECKING")) | ast.Expr(value=ast.Constant()):
                return
            case ast.AnnAssign(value=value):
                if value is not None:
                    yield from walk(value)
                return
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                for part in [*node.args.defaults, *node.args.kw_defaults, *node.body]:
                    if part is not None:
                        yield from walk(part)
                return
            case ast.Constant(value=bool() as flag):
                yield change(node, str(not flag))
            case ast.Constant(value=int() | float() as number):
                yield change(node, str(number + 1))
            case ast.Constant(value=str() as value) if text(node)[0] in "\"'":
                yield change(node, repr(f"{value}X"))
            case ast.Compare(ops=[operator], left=left, comparators=[right]):
                yield change(node, f"({text(left)}) {SWAPPED[type(operator)]} ({text(right)})")
            case ast.BoolOp(op=operator, values=values):
                word = f" {SWAPPED[type(operator)]} "
                yield change(node, f"({word.join(f'({text(value)})' for value in values)})")
            case ast.BinOp(op=operator, left=left, right=right) if type(operator) in SWAPPED:
                yield change(node, f"(({text(left)}) {SWAPPED[type(operator)]} ({text(right)}))")
            case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
                yield change(test, f"(not ({text(test)}))")
            case ast.Expr(value=ast.Call() | ast.Await()):
                yield change(node, "pass")
            case ast.Raise() | ast.Continue() | ast.Break() | ast.AugAssign() | ast.Delete():
                yield change(node, "pass")
            case ast.Return(value=ast.expr() as value) if text(value) != "None":
                yield change(value, "None")
        for child in ast.iter_child_nodes(node):
            yield from walk(child)

    return walk(ast.parse(source))


def chosen(rooms: list[str], count: int, seed: int) -> list[Mutant]:
    every = [
        mutant
        for room in rooms
        for path in sorted((ROOT / "apfproxy" / room).rglob("*.py"))
        for mutant in mutants_of(str(path.relative_to(ROOT)), path.read_bytes())
    ]
    return random.Random(seed).sample(every, min(count, len(every)))  # noqa: S311  to be repeated


def reached(rooms: list[str], tree: Path) -> CoverageData:
    """Run the tests of rooms once: which of them reach which line."""
    tests = dict.fromkeys(each for room in rooms for each in ROOMS[room])
    options = ["-n", str(AT_ONCE), "--cov=apfproxy", "--cov-context=test", "--cov-report="]
    subprocess.run([*PYTEST, *options, *tests], cwd=tree, check=True)  # noqa: S603  our own
    data = CoverageData(str(tree / ".coverage"))
    data.read()
    return data


def tests_of(mutant: Mutant, tree: Path, data: CoverageData) -> list[str]:
    """The tests that reach the statement of a mutant; all of its room if it is run by imports."""
    lines = {mutant.line}
    for node in ast.walk(ast.parse((tree / mutant.file).read_bytes())):
        if isinstance(node, ast.stmt) and node.end_lineno and not hasattr(node, "body"):
            within = range(node.lineno, node.end_lineno + 1)
            lines |= set(within) if mutant.line in within else set()
    contexts = data.contexts_by_lineno(str(tree / mutant.file))
    names = {name.partition("|")[0] for line in lines for name in contexts.get(line, ())}
    rooms = ROOMS[Path(mutant.file).parts[1]]
    if "" in names:
        return rooms
    found = sorted(name for name in names if name.startswith(tuple(f"{room}/" for room in rooms)))
    if len(found) > MOST_TESTS:
        found = sorted({name.partition("::")[0] for name in found})
    return sorted(found, key=lambda name: not name.startswith(f"{rooms[0]}/"))


def is_noticed(mutant: Mutant, tree: Path, tests: list[str]) -> bool:
    path = tree / mutant.file
    source = path.read_bytes()
    new = source[: mutant.start] + mutant.new.encode() + source[mutant.end :]
    path.write_bytes(new)
    try:
        compile(new, mutant.file, "exec")
        status = status_of(tree, tests)
        if status in NOT_RUN:  # a name that pytest does not take back
            status = status_of(tree, sorted({name.partition("::")[0] for name in tests}))
    except subprocess.TimeoutExpired:
        return True
    finally:
        path.write_bytes(source)
    return status != pytest.ExitCode.OK  # as where not even `conftest` loads any more


def status_of(tree: Path, tests: list[str]) -> int:
    return subprocess.run(  # noqa: S603  tests of our own
        [*PYTEST, "-x", "-p", "no:randomly", *tests],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree)},
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
    ).returncode


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rooms", default=",".join(ROOMS), help="of the package, with commas")
    parser.add_argument("--again", type=Path, help="run only the survivors of this file")
    parser.add_argument("--out", type=Path, default=Path("mutants.json"))
    options = parser.parse_args()
    if options.again:
        mutants = [Mutant(*each) for each in json.loads(options.again.read_bytes())["survived"]]
    else:
        mutants = chosen(options.rooms.split(","), options.count, options.seed)
    survived: list[Mutant] = []
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(AT_ONCE) as pool:
        trees: SimpleQueue[Path] = SimpleQueue()
        for number in range(AT_ONCE):
            tree = Path(folder, str(number))
            ignored = shutil.ignore_patterns(".git", ".venv", "build", "__pycache__", ".*_cache")
            shutil.copytree(ROOT, tree, ignore=ignored)
            trees.put(tree)
        first = trees.get()
        data = reached(sorted({Path(each.file).parts[1] for each in mutants}), first)
        tests = {each: tests_of(each, first, data) for each in mutants}
        trees.put(first)

        def run(mutant: Mutant) -> None:
            tree = trees.get()
            noticed = bool(tests[mutant]) and is_noticed(mutant, tree, tests[mutant])
            trees.put(tree)
            if not noticed:
                survived.append(mutant)
                print(f"{mutant.file}:{mutant.line}: {mutant.old!r} -> {mutant.new!r}", flush=True)  # noqa: T201

        list(pool.map(run, mutants))
    by_room = Counter(Path(each.file).parts[1] for each in survived)
    print(f"{len(mutants) - len(survived)} of {len(mutants)} noticed; survived: {dict(by_room)}")  # noqa: T201
    options.out.write_text(json.dumps({"count": len(mutants), "survived": survived}, indent=1))


if __name__ == "__main__":
    main()
