"""A change in two steps."""

from __future__ import annotations

from apfproxy.app.change import NO_CHANGE, Change


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
