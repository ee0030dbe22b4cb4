"""Watching object files."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.flowcontrol.controller import Controller
from apfproxy.flowcontrol.explanation import explain
from apfproxy.flowcontrol.learned_costs import LearnedCosts
from apfproxy.lint.linter import lint
from apfproxy.objects.additions import read_flow_schema_additions, read_level_additions
from apfproxy.objects.validation import validate
from apfproxy.request.attributes import AUTHENTICATED_GROUP, User, parse_attributes
from apfproxy.sources import in_force
from apfproxy.sources.in_force import ObjectFiles, ObjectsError
from tests.sources.test_object_files import SCHEMA, level
from tests.sources.writer import Writer
from tests.virtual_clock import VirtualClock

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping
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


class Threads:
    """In which threads a controller's configurations are prepared, and put in force.

    Args:
        patch: For as long as a test runs.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.preparing: set[threading.Thread] = set()
        self.committing: set[threading.Thread] = set()
        for name, seen in (("digest", self.preparing), ("commit", self.committing)):
            patch.setattr(Controller, name, self._seen_by(getattr(Controller, name), seen))

    @staticmethod
    def _seen_by(
        act: Callable[[Controller, Any], Any], seen: set[threading.Thread]
    ) -> Callable[[Controller, Any], Any]:
        def recorded(controller: Controller, argument: Any) -> Any:  # noqa: ANN401 - of either
            seen.add(threading.current_thread())
            return act(controller, argument)

        return recorded

    def check(self) -> None:
        """The event loop's thread does no more than it has to."""
        here = {threading.current_thread()}
        assert self.preparing
        assert not here & self.preparing
        assert here == self.committing


@pytest.fixture
def controller() -> Controller:
    """A controller that has the mandatory objects."""
    return Controller(VirtualClock(), 100, 0)


def test_without_suggested_objects(controller: Controller) -> None:
    """Only the mandatory objects are there if the suggested ones are not wanted."""
    ObjectFiles((), controller, with_suggested=False).load_first()

    assert set(controller.levels) == {"exempt", "catch-all"}


def test_broken_at_first(tmp_path: Path, controller: Controller) -> None:
    """A process does not start with broken objects: all problems are raised."""
    (tmp_path / "a.yaml").write_text("a: [")
    (tmp_path / "b.yaml").write_text("b: [")
    loads = Loads()
    source = ObjectFiles((str(tmp_path),), controller, on_load=loads)

    with pytest.raises(ObjectsError) as caught:
        source.load_first()

    assert [problem.partition(":")[0] for problem in caught.value.problems] == [
        str(tmp_path / "a.yaml"),
        str(tmp_path / "b.yaml"),
    ]
    assert loads.outcomes == [(2, 0)]


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
            steps.append((changed, mine, len(source.problems)))

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


async def test_file_that_is_being_written(tmp_path: Path, controller: Controller) -> None:
    """A file that is empty for a moment, or half there, is not taken until it rests."""
    path = tmp_path / "a.yaml"
    path.write_text(level("first"))
    loads = Loads()
    whole = level("first") + "---\n" + level("second")
    writes = [partial(path.write_text, text) for text in (level("second"), whole)]
    source = ObjectFiles((str(path),), controller, on_load=loads, sleep=Writer(*writes))
    source.load_first()
    path.write_text("")

    assert await source.reload()
    assert {"first", "second"} <= set(controller.levels)
    assert loads.outcomes == [(0, 0), (0, 0)]


async def test_no_objects_are_warned_about(
    tmp_path: Path, controller: Controller, caplog: pytest.LogCaptureFixture
) -> None:
    """Files without any object leave the built-in ones, which is hardly what was wanted."""
    with caplog.at_level(logging.WARNING, logger=in_force.__name__):
        ObjectFiles((str(tmp_path),), controller).load_first()

    messages = [record.getMessage() for record in caplog.records]
    assert messages == [f"generation 2 of the configuration: no objects at all from {tmp_path}"]


async def test_watch_reloads_and_follows_links(tmp_path: Path, controller: Controller) -> None:
    """A swapped link, as of a mounted ConfigMap, takes effect, and its target is then watched."""
    for version in ("1", "2"):
        (tmp_path / f"..{version}").mkdir()
        (tmp_path / f"..{version}" / "a.yaml").write_text(level(f"level-{version}"))
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "a.yaml").symlink_to("..data/a.yaml")
    source = ObjectFiles((str(tmp_path),), controller, sleep=Writer())
    source.load_first()
    watched: list[Roots] = []

    async def changes(roots: Roots) -> AsyncGenerator[object, None]:
        watched.append(roots)
        if len(watched) == 2:
            raise asyncio.CancelledError
        yield None
        (tmp_path / "..new").symlink_to("..2")
        (tmp_path / "..new").rename(tmp_path / "..data")
        yield None

    with pytest.raises(asyncio.CancelledError):
        await source.watch(lambda: None, changes)

    assert "level-2" in controller.levels
    assert str(tmp_path / "..1") in {path for path, _, _ in watched[0]}
    assert str(tmp_path / "..2") in {path for path, _, _ in watched[1]}


async def test_what_cannot_be_taken_is_tried_again(
    tmp_path: Path, controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an error of the program the same contents are read again, until they are in force."""
    path = tmp_path / "a.yaml"
    path.write_text(level("first"))
    source = ObjectFiles((str(path),), controller, sleep=Writer())
    source.load_first()
    path.write_text(level("second"))
    with monkeypatch.context() as patch:
        patch.setattr(Controller, "commit", lambda *_: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            await source.reload()

    assert await source.reload()
    assert not await source.reload()
    assert "second" in controller.levels


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
