"""The access log's file: the event loop gathers records, one thread makes lines and writes them.

1. No one waits: if too many lines are queued, or they keep too many bytes, new ones are dropped.
2. An error is logged once, until writing works again; lines that cannot be written are lost.  A
   line written in part, as to a full disk, is ended before the next one.
3. The system is advised to drop the file from the page cache every few MiB: it is rarely read
   again.  On virtual machines it also saves 0.7 us a line to use the same pages again.
4. The file is opened again, as after a rotation, in the order of lines: none is in the wrong file.
"""

from __future__ import annotations

import contextlib
import logging
import os
import stat
from typing import TYPE_CHECKING

from apfproxy.admin.batch_thread import BatchThread
from apfproxy.base.errors import OperatorError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from apfproxy.base.clock import Clock

log = logging.getLogger(__name__)

Chunk = tuple["Callable[[], bytes]", int, int]
"""A function that makes lines; how many they are, and the bytes that are kept until then."""

STDOUT = "-"
FLUSH_PERIOD_NS = 100_000_000
MAX_GATHERED = 1024
"""Lines; the queue can exceed its bound by so many."""
MAX_KEPT_BYTES = 64 << 20
"""Bounds heads of requests whose lines are not made yet."""
CACHED_BYTES = 8 << 20
"""Written before the page cache drops the file; programs that follow the log read it from there."""
CLOSE_TIMEOUT_S = 5.0
STALLED_NS = 5_000_000_000
MODE = 0o640


class AccessLogError(OperatorError):
    """The file cannot be opened; the operator's fault."""


class AccessLog:
    """The file, or `STDOUT`, and the lines on their way to it, of which some may wait at most."""

    def __init__(self, path: str, max_queued: int, clock: Clock) -> None:
        self._path = path
        self._max_queued = max_queued
        self._clock = clock
        self._descriptor = -1
        self._thread: BatchThread[Chunk] = BatchThread(
            "access log", FLUSH_PERIOD_NS, MAX_GATHERED, clock
        )
        """A batch without lines is to open the file again."""
        self._taken = 0
        self._taken_bytes = 0
        # Written by the thread only:
        self._done = 0
        self._done_bytes = 0
        self._lost = 0
        self._is_torn = False
        self._cached_bytes = 0
        self.write_errors = 0
        self._failure: str | None = None
        self._stays: str | None = None
        """Why the file is not the one at the path; None while it is."""
        self._progress_ns = 0
        """When the thread last finished some lines, or there was a line for it after a pause."""
        # Written by the loop only:
        self._refused = 0

    @property
    def dropped(self) -> int:
        """Lines not written, since too many waited or since writing failed."""
        return self._refused + self._lost

    @property
    def problem(self) -> str | None:
        """None while all is well."""
        if self._failure is not None:
            return self._failure
        if self._stays is not None:
            return self._stays
        stalled_ns = self._clock.now_ns() - self._progress_ns
        if self.queued and stalled_ns >= STALLED_NS:
            return f"{self._path}: no line was written for {stalled_ns / 1e9:.0f} s"
        return None

    @property
    def written(self) -> int:
        return self._done - self._lost

    def open(self) -> None:
        """Open the file and start writing, or raise AccessLogError."""
        try:
            self._descriptor = open_log(self._path)
        except OSError as error:
            raise AccessLogError(
                f"accessLog.path: the access log {self._path} cannot be opened: {error.strerror}"
            ) from error
        self._thread.open(self._run)

    def write(self, make: Callable[[], bytes], lines: int, kept_bytes: int = 0) -> None:
        """Queue so many lines, each with its line feed; `make` is called in the thread."""
        queued = self.queued
        if queued >= self._max_queued or self._taken_bytes - self._done_bytes > MAX_KEPT_BYTES:
            self._refused += lines
            return
        if not queued:
            self._progress_ns = self._clock.now_ns()
        self._taken += lines
        self._taken_bytes += kept_bytes
        self._thread.put((make, lines, kept_bytes), lines)

    def reopen(self) -> None:
        """Write all later lines to the file that is now at the path."""
        self._thread.put_mark()

    async def close(self) -> None:
        """Write what is left, and end; harmless if it never was opened."""
        if not await self._thread.close(CLOSE_TIMEOUT_S):
            log.warning(
                "access log %s: %d lines are lost: it takes no more", self._path, self.queued
            )

    @property
    def queued(self) -> int:
        return self._taken - self._done

    # In the thread.

    def _run(self, batches: Iterator[list[Chunk]]) -> None:
        for chunks in batches:
            for make, lines, kept_bytes in chunks:
                lost = self._lost
                try:
                    self._write_lines(make(), lines)
                except Exception as error:  # noqa: BLE001  later lines may be written
                    self._lost = lost + lines
                    self._fail(f"cannot be written: {error!r}")
                self._done += lines
                self._done_bytes += kept_bytes
                self._progress_ns = self._clock.now_ns()
            if not chunks:
                self._open_again()
        if self._path != STDOUT:
            os.close(self._descriptor)

    def _write_lines(self, data: bytes, lines: int) -> None:
        if self._is_torn:
            data = b"\n" + data
        done = 0
        try:
            while done < len(data):
                done += os.write(self._descriptor, memoryview(data)[done:])
        except OSError as error:
            begun = data[:done]
            self._lost += lines - max(0, begun.count(b"\n") - self._is_torn)
            self._is_torn = not begun.endswith(b"\n") if begun else self._is_torn
            self._fail(f"cannot be written: {error.strerror}")
        else:
            self._lost += lines - (data.count(b"\n") - self._is_torn)
            self._is_torn = False
            if self._failure is not None:
                self._failure = None
                log.warning("access log %s works again", self._path)
        self._cached_bytes += done
        if self._cached_bytes >= CACHED_BYTES:
            self._leave_cache()

    def _leave_cache(self) -> None:
        self._cached_bytes = 0
        is_file = stat.S_ISREG(os.fstat(self._descriptor).st_mode)
        if is_file and hasattr(os, "posix_fadvise"):
            # Only advice: some file systems do not support it.
            with contextlib.suppress(OSError):
                os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_DONTNEED)

    def _open_again(self) -> None:
        if self._path == STDOUT:
            return
        try:
            descriptor = open_log(self._path)
        except OSError as error:
            self.write_errors += 1
            problem = f"cannot be opened again, so the old file is kept: {error.strerror}"
            log.error("access log %s %s", self._path, problem)  # noqa: TRY400  the file is named
            self._stays = f"{self._path} {problem}"
            return
        self._stays = None
        old, self._descriptor = self._descriptor, descriptor
        with contextlib.suppress(OSError):  # its lines were written, or counted as lost
            os.close(old)
        self._is_torn = False
        log.info("access log %s: opened again", self._path)

    def _fail(self, problem: str) -> None:
        self.write_errors += 1
        if self._failure is None:
            log.error("access log %s %s; lines are dropped until it works", self._path, problem)
        self._failure = f"{self._path} {problem}"


def open_log(path: str) -> int:
    """A log's descriptor for appending; OSError also where no one reads a pipe."""
    if path == STDOUT:
        return 1
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
    descriptor = os.open(path, flags, MODE)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.set_blocking(descriptor, True)
    return descriptor
