"""Reading objects from files and putting them over the built-in ones."""

from __future__ import annotations

import asyncio
import logging
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from apfproxy.base.errors import OperatorError
from apfproxy.base.files import read_file
from apfproxy.flowcontrol.controller import Controller
from apfproxy.flowcontrol.preset import KUBERNETES
from apfproxy.objects.decode import mandatory_objects
from apfproxy.objects.types import PriorityLevelConfiguration
from apfproxy.settings import FlowControlSettings, KubernetesSettings
from apfproxy.sources import in_force
from apfproxy.sources.in_force import ObjectFiles
from apfproxy.sources.object_files import decode_files, effective_objects, read_files
from apfproxy.sources.object_source import source_text
from apfproxy.sources.stored_objects import write_objects
from tests.support.clocks import Steps, VirtualClock
from tests.support.objects import SCHEMA_YAML, bootstrap_objects, level_yaml

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from apfproxy.base.files import Roots
    from apfproxy.objects.decode import Problem


def names_of(*paths: object) -> list[str]:
    read = decode_files(read_files([str(path) for path in paths]))
    return [each.metadata.name for each in read.objects]


def problems_of(*paths: object) -> list[str]:
    read = decode_files(read_files([str(path) for path in paths]))
    return [str(problem) for problem in read.problems]


def test_directory(tmp_path: Path) -> None:
    """Files of a directory count that look like objects, in the order of their names."""
    (tmp_path / "b.yml").write_text(level_yaml("b"))
    (tmp_path / "a.yaml").write_text(level_yaml("a"))
    (tmp_path / "c.json").write_text('{"apiVersion": "v1", "kind": "List", "items": []}')
    (tmp_path / "notes.txt").write_text("no object")
    (tmp_path / ".hidden.yaml").write_text("no object")
    (tmp_path / "below.yaml").mkdir()

    assert names_of(tmp_path) == ["a", "b"]
    assert problems_of(tmp_path) == []


def test_directory_of_other_things(tmp_path: Path) -> None:
    """Other files of a directory are left out, each told in a line; named files are not."""
    (tmp_path / "a.yaml").write_text(f"apiVersion: v1\nkind: Namespace\n---\n{level_yaml('a')}")
    (tmp_path / "kustomization.yaml").write_text("resources: [a.yaml]\nmetadata: {name: x}\n")
    (tmp_path / "values-prod.yaml").write_text("{{ broken: [\n")
    (tmp_path / "package.json").write_text('{"name": "x"}')
    left_out = decode_files(read_files([str(tmp_path)])).left_out
    named = tmp_path / "package.json"

    assert (["a"], []) == (names_of(tmp_path), problems_of(tmp_path))
    assert [
        "/a.yaml:1: left out, as it is no object of flow control: Namespace",
        "/kustomization.yaml: left out, as it is a file of kustomize or Helm",
        "/package.json:1: left out, as it is no object of flow control: a document without a kind",
        "/values-prod.yaml: left out, as it is a file of kustomize or Helm",
    ] == [str(each).removeprefix(str(tmp_path)) for each in left_out]
    assert 2 == len(decode_files(read_files([str(named), str(tmp_path)])).problems[0].messages)


def test_pipe(tmp_path: Path) -> None:
    """A pipe is refused, not waited for; a command may read it, to a bound."""
    path = tmp_path / "a.yaml"
    os.mkfifo(path)
    refused = [f"{path}: cannot be read: a pipe, not a regular file"]
    assert refused == problems_of(tmp_path)
    with ThreadPoolExecutor() as threads:
        writing = threads.submit(path.write_text, level_yaml("a"))
        contents = read_files([str(path)], streams=True)

    assert ((str(path), level_yaml("a").encode()),) == contents.files
    assert writing.result()
    with pytest.raises(OSError, match="larger than 5 bytes"):
        read_file("/dev/zero", 5, streams=True)


def test_one_name_in_two_files(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(level_yaml("x"))
    (tmp_path / "b.yaml").write_text(level_yaml("x"))

    assert problems_of(tmp_path) == [
        (
            f'{tmp_path}/b.yaml:1: PriorityLevelConfiguration "x":'
            f" also defined in {tmp_path}/a.yaml: remove one"
        )
    ]


def test_broken_object(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(level_yaml("good") + "---\n" + level_yaml("bad").replace("Reject", "Drop"))

    assert names_of(path) == ["good"]
    (problem,) = problems_of(path)
    assert problem.startswith(
        f'{path}:6: PriorityLevelConfiguration "bad": spec.limited.limitResponse.type: '
    )


def test_given_objects_replace_built_in_ones(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(level_yaml("workload-low") + "---\n" + level_yaml("mine"))
    given = decode_files(read_files([str(tmp_path)])).objects

    objects = effective_objects(given, with_suggested=True)

    assert len(objects) == len(bootstrap_objects()) + 1
    assert [
        each.spec.limited.nominal_concurrency_shares
        for each in objects
        if isinstance(each, PriorityLevelConfiguration)
        and each.metadata.name in ("workload-low", "mine")
        and each.spec.limited is not None
    ] == [7, 7]


@pytest.mark.parametrize(
    "after",
    [
        pytest.param({"a": "c", "b": "b"}, id="contents"),
        pytest.param({"c": "a", "b": "b"}, id="name"),
        pytest.param({"b": "b"}, id="gone"),
        pytest.param({"a": "b", "b": "a"}, id="swapped"),
    ],
)
def test_fingerprint(tmp_path: Path, after: dict[str, str]) -> None:
    def fingerprint(files: dict[str, str]) -> bytes:
        for path in tmp_path.iterdir():
            path.unlink()
        for name, text in files.items():
            (tmp_path / f"{name}.yaml").write_text(text)
        return read_files([str(tmp_path)]).fingerprint()

    before = {"a": "a", "b": "b"}
    assert fingerprint(before) == fingerprint(before) != fingerprint(after)


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "objects.json"
    objects = effective_objects((), with_suggested=True, preset=KUBERNETES)
    write_objects(str(path), objects[:1])
    write_objects(str(path), objects)
    read = decode_files(read_files((str(path),)))

    assert () == tuple(read.problems)
    assert list(objects) == list(read.objects)
    assert 0o600 == stat.S_IMODE(path.stat().st_mode)
    assert [path] == list(tmp_path.iterdir())


def test_file_that_cannot_be_replaced(tmp_path: Path) -> None:
    path = tmp_path / "objects.json"
    path.mkdir()
    with pytest.raises(OSError, match=r"objects\.json"):
        write_objects(str(path), mandatory_objects())

    assert [path] == list(tmp_path.iterdir())
    with pytest.raises(FileNotFoundError):
        write_objects(str(tmp_path / "gone" / "objects.json"), ())


OVER = FlowControlSettings(objects=("a.yaml", "b/"))
OF_KUBERNETES = FlowControlSettings(kubernetes=KubernetesSettings(is_enabled=True))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (FlowControlSettings(), "the built-in objects"),
        (OVER, "a.yaml, b/, over the built-in objects"),
        (FlowControlSettings(objects=("a.yaml",), suggested_objects=False), "a.yaml"),
        (FlowControlSettings(store="x.db"), "the store x.db"),
        (OF_KUBERNETES, "a Kubernetes API"),
    ],
)
def test_source(settings: FlowControlSettings, expected: str) -> None:
    assert expected == source_text(settings)


class Loads:
    def __init__(self) -> None:
        self.outcomes: list[tuple[int, int]] = []

    def __call__(self, problems: tuple[Problem, ...], dangling: tuple[str, ...]) -> None:
        self.outcomes.append((len(problems), len(dangling)))


@pytest.fixture
def controller() -> Controller:
    return Controller(VirtualClock(), 100, 0)


def test_broken_at_first(tmp_path: Path, controller: Controller) -> None:
    (tmp_path / "a.yaml").write_text("a: [")
    (tmp_path / "b.yaml").write_text("b: [")
    with pytest.raises(OperatorError) as caught:
        ObjectFiles((str(tmp_path),), controller).load_first()

    assert [line.partition(":")[0] for line in str(caught.value).splitlines()] == [
        str(tmp_path / "a.yaml"),
        str(tmp_path / "b.yaml"),
    ]


async def test_reload(
    tmp_path: Path, controller: Controller, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(level_yaml("first"))
    loads = Loads()
    source = ObjectFiles((str(path),), controller, on_load=loads, sleep=Steps())
    source.load_first()
    steps = []
    with caplog.at_level(logging.WARNING, logger=in_force.__name__):
        for text in (
            level_yaml("first"),
            level_yaml("second"),
            level_yaml("third").replace("7", "-7").replace("Reject", "Drop"),
            level_yaml("fourth")
            + "---\n"
            + SCHEMA_YAML.replace("NAME", "x").replace("LEVEL", "nowhere"),
        ):
            path.write_text(text)
            changed = await source.reload()
            mine = set(controller.levels) & {"first", "second", "third", "fourth"}
            steps.append((changed, mine, len(source.in_force.problems)))
        assert not await source.reload()

    assert steps == [
        (False, {"first"}, 0),
        (True, {"second"}, 0),
        (True, {"second"}, 1),
        (True, {"fourth"}, 0),
    ]
    assert loads.outcomes == [(0, 0), (0, 0), (1, 0), (0, 1)]
    messages = [record.getMessage() for record in caplog.records]
    assert [f"{path}:4: ", f"{path}:4: "] == [text[: len(f"{path}:4: ")] for text in messages[:2]]
    assert "nominalConcurrencyShares" in messages[0]
    assert messages[2] == f"a problem in {path}: the configuration stays as it was"
    assert messages[3].startswith("FlowSchema 'x': spec.priorityLevelConfiguration.name: ")
    assert len(messages) == 4


async def test_watch_reloads_and_follows_links(tmp_path: Path, controller: Controller) -> None:
    for version in ("1", "2"):
        (tmp_path / f"..{version}").mkdir()
        (tmp_path / f"..{version}" / "a.yaml").write_text(level_yaml(f"level-{version}"))
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "a.yaml").symlink_to("..data/a.yaml")
    watched: list[Roots] = []

    async def changes(roots: Roots) -> AsyncGenerator[object, None]:
        watched.append(roots)
        if len(watched) == 2:
            raise asyncio.CancelledError
        yield None
        (tmp_path / "..new").symlink_to("..2")
        (tmp_path / "..new").rename(tmp_path / "..data")
        yield None

    source = ObjectFiles((str(tmp_path),), controller, sleep=Steps(), changes=changes)
    source.load_first()
    with pytest.raises(asyncio.CancelledError):
        await source.watch(lambda: None)

    assert "level-2" in controller.levels
    assert str(tmp_path / "..1") in {path for path, _, _ in watched[0]}
    assert str(tmp_path / "..2") in {path for path, _, _ in watched[1]}
