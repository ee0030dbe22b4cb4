"""Watching object files."""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from apfproxy.base.errors import OperatorError
from apfproxy.flowcontrol.controller import Controller
from apfproxy.flowcontrol.explanation import explain
from apfproxy.flowcontrol.learned_costs import LearnedCosts
from apfproxy.lint.linter import lint
from apfproxy.request.attributes import AUTHENTICATED_GROUP, User, parse_attributes
from apfproxy.sources import in_force
from apfproxy.sources.in_force import ObjectFiles
from tests.support.clocks import Steps, VirtualClock
from tests.support.objects import SCHEMA_YAML, level_yaml

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from pathlib import Path

    from apfproxy.base.files import Roots
    from apfproxy.objects.decode import Problem


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


async def test_objects_are_validated_and_their_annotations_are_read_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, controller: Controller
) -> None:
    """It is done at a start, and at a reload, of annotations only of what has changed.

    Lint and explanations need no more.
    """
    calls: Counter[str] = Counter()

    def count(module: str, name: str, key: Callable[..., str]) -> None:
        act = getattr(importlib.import_module(module), name)

        def counted(*given: Any, **facts: bool) -> Any:  # noqa: ANN401 - of either
            calls[key(*given)] += 1
            return act(*given, **facts)

        monkeypatch.setattr(f"{module}.{name}", counted)

    count("apfproxy.objects.reading", "validate", lambda obj: f"valid {obj.metadata.name}")
    types = "apfproxy.objects.types"
    count(types, "read_flow_schema_additions", lambda name, _: f"schema {name}")
    count(types, "read_level_additions", lambda given: f"level {given.get('apfproxy.io/ban')}")

    def taken() -> dict[str, int]:
        digest = controller.in_force
        lint([*digest.priority_levels.values(), *digest.flow_schemas.values()])
        user = User("u", (AUTHENTICATED_GROUP,))
        costs = LearnedCosts(VirtualClock().now_ns)
        explain(controller, costs, user, parse_attributes("GET", b"/api/v1/pods"))
        found = {key: calls[key] for key in calls if key.endswith((" one", " two", "false"))}
        calls.clear()
        return found

    path = tmp_path / "a.yaml"
    banned = '{name: one, annotations: {apfproxy.io/ban: "false"}}'
    one = SCHEMA_YAML.replace("NAME", "one").replace("LEVEL", "one")
    two = SCHEMA_YAML.replace("NAME", "two").replace("LEVEL", "one").replace("100", "200")
    text = "---\n".join([level_yaml("one").replace("{name: one}", banned), one, two])
    path.write_text(text)
    source = ObjectFiles((str(path),), controller, sleep=Steps())
    source.load_first()
    validated = {"valid one": 2, "valid two": 1}
    assert {**validated, "schema one": 1, "schema two": 1, "level false": 1} == taken()

    path.write_text(text.replace("200", "300"))
    assert await source.reload()
    assert {**validated, "schema two": 1} == taken()
