"""A change in two steps."""

from __future__ import annotations

import pytest

from apfproxy.base.errors import OperatorError
from apfproxy.settings import Settings
from apfproxy.settings.change import NO_CHANGE, Change, prepare_all


class Part:
    """A part of a process, which may not be able to change."""

    def __init__(self, done: list[str], problems: str = "") -> None:
        self.done = done
        self.problems = problems

    async def prepare(self, settings: Settings) -> Change:
        """Make something, or fail."""
        assert settings == Settings()
        if self.problems:
            raise OperatorError(self.problems)
        return Change(lambda: self.done.append("commit"), lambda: self.done.append("discard"))


async def no_change(_settings: Settings) -> Change:
    """Have nothing to make."""
    return NO_CHANGE


@pytest.mark.parametrize("step", ["commit", "discard"])
async def test_all_change(step: str) -> None:
    """All parts come into force, or none does."""
    done: list[str] = []
    parts = (Part(done).prepare, no_change, Part(done).prepare)
    change = await prepare_all(parts, Settings(), lambda: done.append("then"))
    getattr(change, step)()

    assert {"commit": ["commit", "commit", "then"], "discard": ["discard"] * 2}[step] == done


async def test_all_parts_are_asked() -> None:
    """Everything that is wrong is said at once, and what was made is given up."""
    done: list[str] = []
    parts = (Part(done, "a\nb"), Part(done), Part(done, "c"))
    with pytest.raises(OperatorError) as raised:
        await prepare_all((each.prepare for each in parts), Settings())

    assert ("a\nb\nc", ["discard"]) == (str(raised.value), done)
