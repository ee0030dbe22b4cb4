"""Watching object files."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from apfproxy.base.errors import OperatorError
from apfproxy.flowcontrol.controller import Controller
from apfproxy.flowcontrol.explanation import explain
from apfproxy.flowcontrol.learned_costs import LearnedCosts
from apfproxy.lint.linter import lint
from apfproxy.objects.additions import read_flow_schema_additions, read_level_additions
from apfproxy.objects.validation import validate
from apfproxy.request.attributes import AUTHENTICATED_GROUP, User, parse_attributes
from apfproxy.sources import in_force
from apfproxy.sources.in_force import ObjectFiles
from tests.sources.test_object_files import SCHEMA, level
from tests.sources.writer import Writer
from tests.virtual_clock import VirtualClock

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping
    from pathlib import Path

    from apfproxy.base.files import Roots
    from apfproxy.objects.additions import FlowSchemaAdditions, LevelAdditions
    from apfproxy.objects.decode import Problem
    from apfproxy.objects.field_errors import FieldError
    from apfproxy.objects.types import FlowControlObject


class Loads:
    """Keeps what became of each load."""

    def __init__(self) -> None:
        self.outcomes: list[tuple[int, int]] = []

    def __call__(self, problems: tuple[Problem, ...], dangling: tuple[str, ...]) -> None:
        """Keep the numbers of problems and of dangling FlowSchemas."""
        self.outcomes.append((len(problems), len(dangling)))


@pytest.fixture
def controller() -> Controller:
    """A controller that has the mandatory objects."""
    return Controller(VirtualClock(), 100, 0)


def test_broken_at_first(tmp_path: Path, controller: Controller) -> None:
    """A process does not start with broken objects: all problems are raised."""
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
    """A good change takes effect, a broken one leaves the last good one and is reported."""
    path = tmp_path / "a.yaml"
    path.write_text(level("first"))
    loads = Loads()
    source = ObjectFiles((str(path),), controller, on_load=loads, sleep=Writer())
    source.load_first()
    steps = []
    with caplog.at_level(logging.WARNING, logger=in_force.__name__):
        for text in (
            level("first"),
            level("second"),
            level("third").replace("7", "-7").replace("Reject", "Drop"),
            level("fourth") + "---\n" + SCHEMA.replace("NAME", "x").replace("LEVEL", "nowhere"),
        ):
            path.write_text(text)
            changed = await source.reload()
            mine = set(controller.levels) & {"first", "second", "third", "fourth"}
            steps.append((changed, mine, len(source.in_force.problems)))

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
    """A swapped link, as of a mounted ConfigMap, takes effect, and its target is then watched."""
    for version in ("1", "2"):
        (tmp_path / f"..{version}").mkdir()
        (tmp_path / f"..{version}" / "a.yaml").write_text(level(f"level-{version}"))
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

    source = ObjectFiles((str(tmp_path),), controller, sleep=Writer(), changes=changes)
    source.load_first()
    with pytest.raises(asyncio.CancelledError):
        await source.watch(lambda: None)

    assert "level-2" in controller.levels
    assert str(tmp_path / "..1") in {path for path, _, _ in watched[0]}
    assert str(tmp_path / "..2") in {path for path, _, _ in watched[1]}


def test_left_out(tmp_path: Path, controller: Controller, caplog: pytest.LogCaptureFixture) -> None:
    """What is no object of flow control is named, and the rest is in force."""
    (tmp_path / "a.yaml").write_text(f"{level('a')}---\napiVersion: apps/v1\nkind: Deployment\n")
    with caplog.at_level(logging.INFO, logger=in_force.__name__):
        ObjectFiles((str(tmp_path),), controller).load_first()

    assert [
        f"{tmp_path}/a.yaml:6: left out, as it is no object of flow control: Deployment",
        f"generation 2 of the configuration: 1 object from {tmp_path}",
    ] == caplog.messages


class Calls:
    """Counts what is done to objects of a name, or of a level's annotations."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.validated: Counter[str] = Counter()
        self.annotated: Counter[str] = Counter()

        def validated(obj: FlowControlObject) -> list[FieldError]:
            self.validated[obj.metadata.name] += 1
            return validate(obj)

        def schema_read(name: str, annotations: Mapping[str, str]) -> FlowSchemaAdditions:
            self.annotated[name] += 1
            return read_flow_schema_additions(name, annotations)

        def level_read(annotations: Mapping[str, str], **facts: bool) -> LevelAdditions:
            self.annotated.update(annotations.values())
            return read_level_additions(annotations, **facts)

        patch.setattr("apfproxy.objects.reading.validate", validated)
        patch.setattr("apfproxy.objects.types.read_flow_schema_additions", schema_read)
        patch.setattr("apfproxy.objects.types.read_level_additions", level_read)

    def take(self) -> tuple[set[tuple[str, int]], set[tuple[str, int]]]:
        """What was counted of the objects of a test."""
        taken = [
            {(name, number) for name, number in counter.items() if name in {"one", "two", "false"}}
            for counter in (self.validated, self.annotated)
        ]
        self.validated.clear()
        self.annotated.clear()
        return taken[0], taken[1]


def judge(controller: Controller) -> None:
    """Lint what is in force, and explain a request."""
    digest = controller.in_force
    lint([*digest.priority_levels.values(), *digest.flow_schemas.values()])
    user = User("u", (AUTHENTICATED_GROUP,))
    explain(
        controller,
        LearnedCosts(VirtualClock().now_ns),
        user,
        parse_attributes("GET", b"/api/v1/pods"),
    )


async def test_objects_are_validated_and_their_annotations_are_read_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, controller: Controller
) -> None:
    """It is done at a start, and at a reload: of annotations only of what has changed."""
    calls = Calls(monkeypatch)
    path = tmp_path / "a.yaml"
    text = "---\n".join(
        [
            level("one").replace(
                "{name: one}", '{name: one, annotations: {apfproxy.io/ban: "false"}}'
            ),
            SCHEMA.replace("NAME", "one").replace("LEVEL", "one"),
            SCHEMA.replace("NAME", "two").replace("LEVEL", "one").replace("100", "200"),
        ]
    )
    path.write_text(text)
    source = ObjectFiles((str(path),), controller, sleep=Writer())
    source.load_first()
    judge(controller)

    assert ({("one", 2), ("two", 1)}, {("one", 1), ("two", 1), ("false", 1)}) == calls.take()

    path.write_text(text.replace("200", "300"))
    assert await source.reload()
    judge(controller)

    assert ({("one", 2), ("two", 1)}, {("two", 1)}) == calls.take()
