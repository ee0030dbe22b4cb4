"""A change in two steps."""

from __future__ import annotations

import pytest

from apfproxy.base.errors import OperatorError
from apfproxy.settings import Settings
from apfproxy.settings.change import NO_CHANGE, Change, prepare_all


def test_a_change_does_what_it_was_given() -> None:
    """Either of the two, when it is asked to."""
    done: list[str] = []
    change = Change(lambda: done.append("commit"), lambda: done.append("discard"))
    change.commit()
    change.discard()

    assert ["commit", "discard"] == done


def test_no_change_can_be_committed_and_given_up() -> None:
    """It does nothing either way, and any other does nothing that it was not given."""
    for change in (NO_CHANGE, Change()):
        change.commit()
        change.discard()


class Part:
    """A part of a process, which may not be able to change."""

    def __init__(self, problems: str = "") -> None:
        self.problems = problems

    async def prepare(self, settings: Settings) -> Change:
        """Make nothing, or fail."""
        assert settings == Settings()
        if self.problems:
            raise OperatorError(self.problems)
        return NO_CHANGE


async def test_all_parts_are_asked() -> None:
    """Everything that is wrong is said at once, and what was made can be given up."""
    changes: list[Change] = []
    with pytest.raises(OperatorError) as raised:
        await prepare_all((Part("a\nb"), Part(), Part("c")), Settings(), changes)

    assert ("a\nb\nc", [NO_CHANGE]) == (str(raised.value), changes)
