"""`apfproxy serve` that tells how much CPU time goes by between two turns of its event loop.

All threads' time counts: one that does not let the loop have its turn holds up requests as well.
What other programs do on the machine does not count.  For each beat that took more than 5 ms a line
of JSON goes to the file that `BEATS` names: when it ended, by the monotonic clock, and its time.

    BEATS=beats.jsonl python -m loadtest.beating_proxy --upstream http://127.0.0.1:9000
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from apfproxy.base.tasks import spawn
from apfproxy.cli import serve

if TYPE_CHECKING:
    from apfproxy.app.process import ProxyProcess
    from apfproxy.app.reloading import SettingsFile
    from apfproxy.settings import Settings

BEAT_S = 0.001
TOLD_NS = 5_000_000

serve_until_stopped = serve.run


async def beat(path: Path) -> None:
    """Tell of slow beats, for ever."""
    with path.open("w") as file:
        before_ns = time.process_time_ns()
        while True:
            await asyncio.sleep(BEAT_S)
            now_ns = time.process_time_ns()
            if now_ns - before_ns > TOLD_NS:
                line = {"at_s": time.monotonic(), "cpu_ms": (now_ns - before_ns) / 1e6}
                print(json.dumps(line), file=file, flush=True)
            before_ns = now_ns


async def run(settings: Settings, *, file: SettingsFile) -> int:
    """Serve, and beat from the start on."""

    def begin(_process: ProxyProcess) -> None:
        spawn(beat(Path(os.environ["BEATS"])), name="beating")

    return await serve_until_stopped(settings, begin, file=file)


if __name__ == "__main__":
    serve.run = run  # type: ignore[assignment]
    sys.exit(serve.serve(sys.argv[1:], standalone_mode=False))
