"""Files that an operator names: read, and watched for changes."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from functools import partial
from typing import TYPE_CHECKING

import pytest
import watchfiles

from apfproxy.base import files
from apfproxy.base.errors import OperatorError
from apfproxy.base.files import (
    MAX_SETTLING_READS,
    FileChanges,
    fingerprint,
    notifications,
    open_regular,
    read_file,
    read_named,
    watch_roots,
)
from tests.support.clocks import Steps

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from pathlib import Path


class WrongError(ValueError):
    pass


def listen(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))


@pytest.mark.parametrize("size", [0, 3, 4])
def test_file_is_read_whole_through_links_up_to_a_bound(tmp_path: Path, size: int) -> None:
    (tmp_path / "..2024").mkdir()
    (tmp_path / "..2024" / "token").write_bytes(b"x" * size)
    (tmp_path / "..data").symlink_to("..2024")
    path = tmp_path / "token"
    path.symlink_to("..data/token")

    assert b"x" * size == read_named(path, 4, WrongError)
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(WrongError, match=r"token: cannot be read: larger than 4 bytes; is it"):
        read_named(path, 4, WrongError)
    with pytest.raises(OSError, match="larger than 4 bytes"):
        read_file("/dev/zero", 4, streams=True)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        pytest.param(lambda _: None, "No such file or directory", id="nothing"),
        pytest.param(os.mkdir, "a directory, not a regular file", id="directory"),
        pytest.param(os.mkfifo, "a pipe, not a regular file", id="pipe"),
        pytest.param(listen, "No such device or address", id="socket"),
        pytest.param(
            lambda path: path.symlink_to("/dev/zero"), "a device, not a regular file", id="device"
        ),
    ],
)
def test_what_is_no_file_is_said_without_a_wait(
    tmp_path: Path, make: Callable[[Path], object], problem: str
) -> None:
    path = tmp_path / "token"
    make(path)

    with pytest.raises(WrongError, match=f"{path}: cannot be read: {problem}"):
        read_named(path, 4, WrongError)
    with pytest.raises(OSError, match=problem) as caught:
        open_regular(path)
    assert str(path) == caught.value.filename


class Reader:
    def __init__(self, *paths: Path) -> None:
        self._paths = paths
        self.loaded: list[str] = []

    def __call__(self) -> None:
        text = "+".join(path.read_text() for path in self._paths)
        if "bad" in text:
            raise ValueError("no good")
        self.loaded.append(text)


def watched(path: Path, *writes: Callable[[], object]) -> tuple[Reader, FileChanges]:
    path.write_text("1")
    reader = Reader(path)
    changes = FileChanges(Steps(*writes))
    changes.add((str(path),), reader)
    return reader, changes


async def test_loads_at_once_and_after_changes(tmp_path: Path) -> None:
    path = tmp_path / "a"
    reader, changes = watched(path)
    found = []
    for text in ("1", "2", "2", "1"):
        path.write_text(text)
        found.append(await changes.check())

    assert [0, 1, 0, 1] == found
    assert ["1", "2", "1"] == reader.loaded


async def test_change_that_is_no_good_leaves_the_old_contents_and_other_groups(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    paths = [tmp_path / name for name in "ab"]
    for path in paths:
        path.write_text("1")
    readers = [Reader(path) for path in paths]
    changes = FileChanges(Steps())
    for path, reader in zip(paths, readers, strict=True):
        changes.add((str(path),), reader)
    paths[0].write_text("bad secret")
    paths[1].write_text("2")
    with caplog.at_level(logging.WARNING):
        found = [await changes.check() for _ in range(2)]
    problems = changes.problems
    paths[0].write_text("3")
    found.append(await changes.check())

    assert [1, 0, 1] == found
    assert [["1", "3"], ["1", "2"]] == [reader.loaded for reader in readers]
    assert [
        f"changed, but not taken, the old contents stay in force: {paths[0]}: no good"
    ] == caplog.messages
    assert caplog.messages == problems
    assert [] == changes.problems


@pytest.mark.parametrize(("make", "kind"), [(os.mkfifo, "pipe"), (os.mkdir, "directory")])
async def test_what_becomes_no_regular_file_is_refused(
    tmp_path: Path, make: Callable[[Path], None], kind: str
) -> None:
    path = tmp_path / "a"
    reader, changes = watched(path)
    path.unlink()
    make(path)
    with pytest.raises(OperatorError, match="not a regular file"):
        changes.add((str(path),), reader)

    assert (0, ["1"]) == (await changes.check(), reader.loaded)
    expected = f"in force: {path}: cannot be read: a {kind}, not a regular file"
    assert changes.problems[0].endswith(expected)


def test_fingerprint_of_a_huge_file_is_of_its_start_size_and_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "DIGESTED_BYTES", 4)
    path = tmp_path / "a"
    path.write_bytes(b"12345")
    os.utime(path, ns=(1, 1))
    before = fingerprint((str(path),))
    path.write_bytes(b"1234!")
    os.utime(path, ns=(1, 1))
    assert before == fingerprint((str(path),))
    os.utime(path, ns=(2, 2))

    assert before != fingerprint((str(path),))


async def test_file_that_is_gone_and_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "a"
    reader, changes = watched(path, partial(path.write_text, "1"))
    path.write_text("")
    found = [await changes.check()]  # it is written again as it was
    path.unlink()
    found.append(await changes.check())
    path.write_text("1")
    found.append(await changes.check())

    assert [0, 0, 1] == found
    assert ["1", "1"] == reader.loaded


async def test_key_that_follows_its_certificate_is_waited_for(tmp_path: Path) -> None:
    certificate, key = tmp_path / "crt", tmp_path / "key"
    certificate.write_text("c1")
    key.write_text("k1")
    reader = Reader(certificate, key)
    changes = FileChanges(Steps(partial(key.write_text, ""), partial(key.write_text, "k2")))
    changes.add((str(certificate), str(key)), reader)
    certificate.write_text("c2")
    await changes.check()

    assert ["c1+k1", "c2+k2"] == reader.loaded


async def test_file_that_never_rests_is_taken_in_the_end(tmp_path: Path) -> None:
    path = tmp_path / "a"
    writes = (partial(path.write_text, f"w{i}") for i in range(100))
    reader, changes = watched(path, *writes)
    path.write_text("")
    await changes.check()

    assert ["1", f"w{MAX_SETTLING_READS - 1}"] == reader.loaded


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param("a.yaml", {".", "{here}"}, id="relative"),
        pytest.param("{here}/link.yaml", {"{here}", "{here}/real"}, id="where-a-link-leads"),
        pytest.param("{here}/gone", {"{here}"}, id="gone"),
    ],
)
def test_watch_roots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, expected: set[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a.yaml").touch()
    (tmp_path / "link.yaml").symlink_to("real/a.yaml")
    here = str(tmp_path.resolve())
    roots = watch_roots((path.format(here=here),))

    assert {each.format(here=here) for each in expected} == {root for root, _, _ in roots}


async def test_notifications_of_a_change(tmp_path: Path) -> None:
    events = notifications(watch_roots((str(tmp_path),)))
    await anext(events)
    pending = asyncio.ensure_future(anext(events))
    # Until the watch is there a change is not told: change until one is.
    for attempt in range(1000):
        (tmp_path / "new").write_text(str(attempt))
        (tmp_path / "new").rename(tmp_path / "a.yaml")
        done, _ = await asyncio.wait([pending], timeout=0.02)
        if done:
            break
    await events.aclose()

    assert pending.done()


@pytest.mark.parametrize(
    "error",
    [OSError(28, "no space left for watches"), UnicodeEncodeError("utf-8", "\udcff", 0, 1, "no")],
)
async def test_files_are_still_read_where_nothing_can_be_watched(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:

    def no_watch(*_paths: str, **_options: object) -> AsyncGenerator[object, None]:
        raise error

    monkeypatch.setattr(files, "REREAD_PERIOD_S", 0.0)
    monkeypatch.setattr(watchfiles, "awatch", no_watch)

    seen = [event async for event in notifications(frozenset({("/nowhere", 1, 1)}))]

    assert seen == [None]
