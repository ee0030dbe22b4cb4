"""A parent process that says what a test has written down, whatever it is asked."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from apfproxy.fleet.parent_messages import LineProtocol
from tests.end_to_end.scene import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable


class ScriptedParent(LineProtocol):
    """One connection: each line that comes gets the next one of the script, then it ends.

    Attributes:
        heard: The lines that came.
        is_lost: Set when the connection is gone.
    """

    def __init__(self, script: tuple[bytes, ...]) -> None:
        super().__init__()
        self._script = list(script)
        self.heard: list[bytes] = []
        self.is_lost = asyncio.Event()

    def on_line(self, line: bytes) -> None:
        """Say the next line; end the connection if there is none."""
        self.heard.append(line)
        assert self.transport is not None
        if not self._script:
            self.transport.close()
            return
        self.transport.write(self._script.pop(0))

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's
        """Note it."""
        self.is_lost.set()

    async def loses_it(self, act: Callable[[], object]) -> None:
        """Do something once a line has come, and wait until the connection is gone."""
        await until(lambda: bool(self.heard))
        act()
        await self.is_lost.wait()


@asynccontextmanager
async def scripted(path: str, *script: bytes) -> AsyncIterator[ScriptedParent]:
    """A parent at a path, for one worker."""
    parent = ScriptedParent(script)
    server = await asyncio.get_running_loop().create_unix_server(lambda: parent, path)
    yield parent
    parent.end()
    server.close()
    await server.wait_closed()
