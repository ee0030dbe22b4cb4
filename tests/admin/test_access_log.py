"""The access log's file: batches, bounds, rotation, errors, and its end."""

from __future__ import annotations

import os
import stat
import threading
from typing import TYPE_CHECKING

import pytest

from apfproxy.admin.access_log import (
    FLUSH_PERIOD_NS,
    MAX_GATHERED,
    MAX_KEPT_BYTES,
    STALLED_NS,
    STDOUT,
    AccessLog,
)
from tests.support.clocks import VirtualClock, until

if TYPE_CHECKING:
    from pathlib import Path

FULL = "/dev/full"
THREAD = "access log"


class Bench:
    def __init__(self, path: Path | str, max_queued: int = 100_000) -> None:
        self.clock = VirtualClock()
        self.log = AccessLog(str(path), max_queued, self.clock)

    def write(self, *lines: str) -> None:
        for line in lines:
            self.write_bytes(f"{line}\n".encode(), 1)

    def write_bytes(self, data: bytes, lines: int, kept_bytes: int = 0) -> None:
        self.log.write(lambda: data, lines, kept_bytes)

    async def flush(self) -> None:
        self.clock.run()
        await until(lambda: not self.log.queued)


async def test_lines_are_in_the_file_in_their_order(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("before\n")
    bench = Bench(path)
    bench.log.open()
    numbers = [str(number) for number in range(3 * MAX_GATHERED + 7)]
    bench.write(*numbers)
    await bench.log.close()
    await bench.log.close()

    assert ["before", *numbers] == path.read_text().splitlines()
    assert (len(numbers), 0, 0) == (bench.log.written, bench.log.dropped, bench.log.queued)


@pytest.mark.parametrize(
    ("max_queued", "kept_bytes", "lines", "dropped"),
    [(2, 0, "a b e", 2), (9, MAX_KEPT_BYTES + 1, "a e", 3)],
    ids=["lines", "bytes"],
)
async def test_lines_beyond_a_bound_are_dropped(
    tmp_path: Path, max_queued: int, kept_bytes: int, lines: str, dropped: int
) -> None:
    bench = Bench(tmp_path / "log", max_queued)
    bench.log.open()
    for line in "abcd":
        bench.write_bytes(f"{line}\n".encode(), 1, kept_bytes)
    await bench.flush()
    took_ns = bench.clock.now_ns()
    bench.write("e")
    await bench.log.close()

    assert FLUSH_PERIOD_NS == took_ns
    assert dropped == bench.log.dropped
    assert lines.split() == (tmp_path / "log").read_text().splitlines()


async def test_rotation_to_nowhere(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    path = folder / "log"
    bench = Bench(path)
    bench.log.open()
    folder.rename(tmp_path / "old")
    bench.log.reopen()
    bench.write("a")
    await bench.flush()
    problem = "cannot be opened again, so the old file is kept: No such file or directory"
    problems = [bench.log.problem]
    folder.mkdir()
    bench.log.reopen()
    bench.write("b")
    await bench.log.close()

    assert ["a\n", "b\n"] == [(tmp_path / each / "log").read_text() for each in ("old", "logs")]
    problems.append(bench.log.problem)
    assert 1 == bench.log.write_errors
    assert [f"{path} {problem}", None] == problems
    assert [f"access log {path} {problem}"] == caplog.messages


async def test_disk_with_a_little_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "log"
    bench = Bench(path)
    bench.log.open()
    room = 5
    write = os.write

    def write_some(descriptor: int, data: memoryview) -> int:
        nonlocal room
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            if not room:
                raise OSError(28, "No space left on device")
            data = data[:room]
            room -= len(data)
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", write_some)
    bench.write_bytes(b"aa\nbbbb\ncccc\n", 3)
    await bench.flush()
    bench.write("dd")
    await bench.flush()
    first = (bench.log.written, bench.log.dropped)
    room = 1000
    bench.write("ee")
    await bench.flush()
    bench.write("ff")
    await bench.log.close()

    assert ["aa", "bb", "ee", "ff"] == path.read_text().splitlines()
    assert ((1, 3), (3, 3)) == (first, (bench.log.written, bench.log.dropped))
    assert None is bench.log.problem
    assert f"access log {path} works again" == caplog.messages[-1]


async def test_stdout(capfd: pytest.CaptureFixture[str]) -> None:
    """A dash is stdout, which is never closed nor opened again."""
    bench = Bench(STDOUT)
    bench.log.open()
    bench.write("a")
    bench.log.reopen()
    bench.write("b")
    await bench.log.close()
    os.write(1, b"c\n")

    assert "a\nb\nc\n" == capfd.readouterr().out


async def test_reader_that_reads_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    bench = Bench(tmp_path / "pipe")
    bench.log.open()
    monkeypatch.setattr("apfproxy.admin.access_log.CLOSE_TIMEOUT_S", 0.01)
    bench.write_bytes(b"%b\n" % (b"x" * 999) * 200, 200)
    await bench.log.close()
    os.close(reader)  # the write under way fails by that, which the thread logs, and then ends
    await until(lambda: THREAD not in {each.name for each in threading.enumerate()})

    assert f"access log {tmp_path}/pipe: 200 lines are lost: it takes no more" in caplog.messages


async def test_an_error_in_the_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(tmp_path / "log")
    bench.log.open()
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda *_: 1 // 0)
        bench.write("a", "b")
        await bench.flush()
        problem = bench.log.problem or ""
    bench.write("c")
    await bench.flush()

    assert f"{tmp_path}/log cannot be written: ZeroDivisionError" in problem
    assert (None, "c\n") == (bench.log.problem, (tmp_path / "log").read_text())
    assert (1, 2, 2) == (bench.log.written, bench.log.dropped, bench.log.write_errors)
    assert 1 == caplog.text.count("cannot be written")
    await bench.log.close()


async def test_a_thread_that_stands_still(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path / "log")
    bench.log.open()
    goes_on = threading.Event()
    write = os.write
    monkeypatch.setattr(os, "write", lambda *rest: goes_on.wait() and write(*rest))
    bench.clock.run_until(STALLED_NS)
    bench.write("a")
    gathered = bench.log.problem
    bench.clock.run()  # hands it over
    bench.clock.run_until(2 * STALLED_NS - 1)
    early = bench.log.problem
    bench.clock.run_until(bench.clock.now_ns() + 1)
    late = bench.log.problem
    goes_on.set()
    await bench.flush()
    after = bench.log.problem
    await bench.log.close()

    assert (None, None, None) == (gathered, early, after)
    assert f"{tmp_path}/log: no line was written for 5 s" == late
