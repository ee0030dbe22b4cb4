"""Reading objects from files and putting them over the built-in ones."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from apfproxy.base.files import read_file
from apfproxy.flowcontrol.preset import KUBERNETES
from apfproxy.objects.decode import bootstrap_objects, mandatory_objects
from apfproxy.objects.types import PriorityLevelConfiguration
from apfproxy.settings import FlowControlSettings, KubernetesSettings
from apfproxy.sources.object_files import decode_files, effective_objects, read_files
from apfproxy.sources.object_source import source_text
from apfproxy.sources.stored_objects import write_objects
from tests.support.objects import level_yaml

if TYPE_CHECKING:
    from pathlib import Path


def names_of(*paths: object) -> list[str]:
    read = decode_files(read_files([str(path) for path in paths]))
    return [each.metadata.name for each in read.objects]


def problems_of(*paths: object) -> list[str]:
    read = decode_files(read_files([str(path) for path in paths]))
    return [str(problem) for problem in read.problems]


def test_directory(tmp_path: Path) -> None:
    """Of a directory those files count that look like objects, in the order of their names."""
    (tmp_path / "b.yml").write_text(level_yaml("b"))
    (tmp_path / "a.yaml").write_text(level_yaml("a"))
    (tmp_path / "c.json").write_text('{"apiVersion": "v1", "kind": "List", "items": []}')
    (tmp_path / "notes.txt").write_text("no object")
    (tmp_path / ".hidden.yaml").write_text("no object")
    (tmp_path / "below.yaml").mkdir()

    assert names_of(tmp_path) == ["a", "b"]
    assert problems_of(tmp_path) == []


def test_directory_of_other_things(tmp_path: Path) -> None:
    """What tools keep beside objects is left out, each file in a line; what is named is not."""
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


@pytest.mark.parametrize("change", ["contents", "name", "gone", "swapped"])
def test_fingerprint(tmp_path: Path, change: str) -> None:
    path = tmp_path / "a.yaml"
    other = tmp_path / "b.yaml"
    path.write_text("a")
    other.write_text("b")
    before = read_files([str(tmp_path)]).fingerprint()
    assert read_files([str(tmp_path)]).fingerprint() == before

    if change == "contents":
        path.write_text("c")
    elif change == "name":
        path.rename(tmp_path / "c.yaml")
    elif change == "gone":
        path.unlink()
    else:
        path.write_text("b")
        other.write_text("a")

    assert read_files([str(tmp_path)]).fingerprint() != before


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
