"""What runs in the pods: a few commands that are scripted, and files that are real."""

from __future__ import annotations

import asyncio
import io
import tarfile
from typing import TYPE_CHECKING

from tests.end_to_end.streaming_upstream.channels import STDERR, STDOUT, Streams

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

FIRST_LINE = b"started\n"
NOT_FOUND = 127
TERMINATED = "terminated"


class Container:
    """The one container of a pod: its files, and what it has written to its log.

    Args:
        root: The directory that is its root.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._lines = [FIRST_LINE]
        self._has_ended = False
        self._changed = asyncio.Condition()

    async def log(self, line: bytes) -> None:
        """Write a line to the log."""
        async with self._changed:
            self._lines.append(line)
            self._changed.notify_all()

    async def end_log(self) -> None:
        """End the log."""
        async with self._changed:
            self._has_ended = True
            self._changed.notify_all()

    async def lines(self, *, is_followed: bool) -> AsyncIterator[bytes]:
        """What is in the log, and if it is followed what comes to it until its end."""
        at = 0
        while True:
            while at < len(self._lines):
                yield self._lines[at]
                at += 1
            if self._has_ended or not is_followed:
                return
            async with self._changed:
                while at == len(self._lines) and not self._has_ended:
                    await self._changed.wait()

    def path(self, name: str) -> Path:
        """Where a file of the container is; not outside of its root."""
        path = (self.root / name.lstrip("/")).resolve()
        assert path.is_relative_to(self.root.resolve()), name
        return path

    def __repr__(self) -> str:
        return f"<Container in {self.root}, {len(self._lines)} lines>"


class Process:
    """A command in a container.

    Args:
        container: Where it runs.
        streams: Its streams.
        asked_by: Who runs it, as a line.
    """

    def __init__(self, container: Container, streams: Streams, asked_by: str) -> None:
        self._container = container
        self._streams = streams
        self._asked_by = asked_by

    async def run(self, command: list[str]) -> int:
        """Run a command: its exit code."""
        commands: dict[str, Callable[[list[str]], Awaitable[int]]] = {
            "cat": self._cat,
            "echo": self._echo,
            "exit": self._exit,
            "log": self._log,
            "size": self._size,
            "stop": self._stop,
            "tar": self._tar,
            "test": self._test,
            "whoami": self._whoami,
        }
        name, *arguments = command
        if name not in commands:
            await self._streams.write(STDERR, f"{name}: not found\n".encode())
            return NOT_FOUND
        return await commands[name](arguments)

    async def attach(self, *, has_stdin: bool) -> int:
        """The command that has run since the start: says so, and echoes line by line."""
        await self._streams.write(STDOUT, FIRST_LINE)
        return await self._cat([]) if has_stdin else 0

    async def _cat(self, _: list[str]) -> int:
        while data := await self._streams.read_stdin():
            await self._streams.write(STDOUT, data)
        return 0

    async def _echo(self, arguments: list[str]) -> int:
        await self._streams.write(STDOUT, (" ".join(arguments) + "\n").encode())
        return 0

    async def _exit(self, arguments: list[str]) -> int:
        await self._streams.write(STDOUT, b"going\n")
        await self._streams.write(STDERR, b"gone wrong\n")
        return int(arguments[0])

    async def _log(self, _: list[str]) -> int:
        text = b""
        while data := await self._streams.read_stdin():
            text += data
        await self._container.log(text)
        return 0

    async def _size(self, _: list[str]) -> int:
        columns, rows = await self._streams.read_size()
        await self._streams.write(STDOUT, f"{columns}x{rows}\r\n".encode())
        return 0

    async def _stop(self, _: list[str]) -> int:
        await self._container.end_log()
        return 0

    async def _test(self, arguments: list[str]) -> int:
        assert "-d" == arguments[0], arguments
        return 0 if self._container.path(arguments[1]).is_dir() else 1

    async def _whoami(self, _: list[str]) -> int:
        await self._streams.write(STDOUT, self._asked_by.encode())
        return 0

    async def _tar(self, arguments: list[str]) -> int:
        """Do as kubectl cp asks: `tar cf - PATH`, `tar -xmf - -C DIRECTORY`."""
        action, *rest = arguments
        if "c" in action:
            return await self._pack(rest[1])
        return await self._unpack(rest[rest.index("-C") + 1] if "-C" in rest else "/")

    async def _pack(self, name: str) -> int:
        path = self._container.path(name)
        if not path.exists():
            missing = f"tar: {name.lstrip('/')}: Cannot stat: No such file or directory\n"
            await self._streams.write(STDERR, missing.encode())
            return 2
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            tar.add(path, name.lstrip("/"))
        await self._streams.write(STDOUT, archive.getvalue())
        return 0

    async def _unpack(self, directory: str) -> int:
        archive = io.BytesIO()
        while data := await self._streams.read_stdin():
            archive.write(data)
        archive.seek(0)
        with tarfile.open(fileobj=archive) as tar:
            # Python 3.11.2 does not know of filters; what comes is the tests' own either way.
            tar.extraction_filter = getattr(tarfile, "data_filter", None)
            tar.extractall(self._container.path(directory))  # noqa: S202
        return 0

    def __repr__(self) -> str:
        return f"<Process in {self._container}>"
