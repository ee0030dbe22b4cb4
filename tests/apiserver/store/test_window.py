"""Tests of the newest changes of a resource."""

from __future__ import annotations

import pytest

from apfproxy.apiserver.store import window as module
from apfproxy.apiserver.store.entries import Change, ChangeType, Entry, TooOldError
from apfproxy.apiserver.store.window import CHANGE_BYTES, Window


def change(version: int, size: int = 2) -> Change:
    """A change that created an object of so many bytes."""
    entry = Entry("pods", "a", f"x{version}", version, "u", {}, {}, b"x" * size)
    return Change(version, ChangeType.ADDED, entry, None)


def filled(versions: range, changes: int = 1000) -> Window:
    """A window that saw changes of these resource versions."""
    window = Window(changes=changes)
    for version in versions:
        window.append(change(version))
    return window


def versions(changes: list[Change]) -> list[int]:
    """Their resource versions."""
    return [found.resource_version for found in changes]


def test_positions_go_on_while_the_window_moves() -> None:
    """A reader that keeps up reads each change once, wherever the window is by then."""
    window = filled(range(10, 20), changes=8)
    position = window.position(17)
    read = window.read(position, 1)
    for version in range(20, 27):
        window.append(change(version))
    rest = window.read(position + 1, 100)

    assert [18] == versions(read)
    assert list(range(19, 27)) == versions(rest)
    assert window.end == position + 1 + len(rest)


def test_readers_that_are_left_behind_learn_it() -> None:
    """A position whose change is gone is too old, the one after it is not."""
    window = filled(range(10, 30), changes=8)
    first = window.end - len(window)

    assert window.floor + 1 == window.read(first, 1)[0].resource_version
    with pytest.raises(TooOldError):
        window.read(first - 1, 1)


def test_floor() -> None:
    """One can start at the newest change that is gone, as nothing after it is missing."""
    window = filled(range(10, 30, 2), changes=8)

    assert (12, 8) == (window.floor, len(window))
    assert [14] == versions(window.read(window.position(12), 1))
    assert [28, 26, 24] == versions(list(window.since(22)))
    with pytest.raises(TooOldError, match=r"too old resource version: 11 \(12\)"):
        window.position(11)
    with pytest.raises(TooOldError):
        next(window.since(11))


@pytest.mark.parametrize("changes", [1, 7, 8, 100])
def test_width(changes: int) -> None:
    """At least so many changes are kept, and at most an eighth more."""
    window = Window(changes=changes)
    widths = set()
    for version in range(1, 400):
        window.append(change(version))
        if window.floor:
            widths.add(len(window))

    assert (changes, changes + changes // 8) == (min(widths), max(widths))


def test_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Heavy changes leave earlier; the newest stays however heavy it is."""
    monkeypatch.setattr(module, "MOST_BYTES", 10 * CHANGE_BYTES)
    window = Window(changes=100)
    for version in range(1, 20):
        window.append(change(version, CHANGE_BYTES))
    light = len(window)
    window.append(change(20, 100 * CHANGE_BYTES))
    heavy = len(window)
    window.append(change(21))

    assert (5, 1, 1, 20) == (light, heavy, len(window), window.floor)


def test_only_the_newest_keep_what_is_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """What watchers encode is shared by those near the end; others encode for themselves."""
    monkeypatch.setattr(module, "SHARED_CHANGES", 3)
    window = filled(range(1, 4))
    window.append(change(4))

    assert [None, {}, {}, {}] == [found.encoded for found in window.read(0, 10)]


def test_encoded_is_bounded_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large objects share less."""
    monkeypatch.setattr(module, "SHARED_BYTES", 100)
    window = Window(changes=4)
    for version in range(1, 10):
        window.append(change(version, 40))
    encoded = [found.encoded for found in window.read(window.end - len(window), 10)]

    assert [None, None, {}, {}] == encoded


def test_a_narrow_window_forgets_what_it_shared() -> None:
    """What left the window is not counted as shared any more."""
    window = filled(range(1, 3000), changes=2)

    assert [2998, 2999] == versions(window.read(window.end - 2, 10))
    assert (2, 2997) == (len(window), window.floor)


def test_restore() -> None:
    """After a restart the window is as it was; a narrower one is cut at once."""
    window = Window(changes=8)
    window.restore([change(version) for version in range(10, 30)], 5)
    wide = Window(changes=80)
    wide.restore([change(version) for version in range(10, 30)], 5)

    assert (8, 21) == (len(window), window.floor)
    assert (20, 5) == (len(wide), wide.floor)
