"""An API server to be killed: `python -m tests.end_to_end.forked_apiserver FILE`.

For each line on its standard input, a port or nothing for any, it forks a server on the file, as
`apfproxy apiserver` runs it; without a name of a file objects end with the server.
That has imported everything before, so that it starts in milliseconds; else it is no different.  On
standard output is a line of JSON for each: its process id, the port once it is ready, its end.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import uvloop

from apfproxy.app.apiserver_process import ApiServerSettings
from apfproxy.cli.apiserver import run
from apfproxy.settings import Address
from tests.forking import fork_for_each_line, say

if TYPE_CHECKING:
    from apfproxy.app.apiserver_process import ApiServerProcess

WATCH_WINDOW = 600
"""Changes of a resource: more than one server makes, fewer than all, so that the file is pruned."""


def serve(path: str, port: int) -> int:
    def on_started(process: ApiServerProcess) -> None:
        say(port=process.port)

    settings = ApiServerSettings(
        listen=Address(host="127.0.0.1", port=port), store=path or None, watch_window=WATCH_WINDOW
    )
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(run(settings, on_started))


if __name__ == "__main__":
    fork_for_each_line(lambda line: serve(sys.argv[1], int(line or 0)))
