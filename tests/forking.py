"""Processes to be killed: each is forked from one that has imported everything already."""

from __future__ import annotations

import json
import os
import sys
import traceback
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def say(**fields: object) -> None:
    """Write a line of JSON in one piece."""
    os.write(1, (json.dumps(fields) + "\n").encode())


def fork_for_each_line(run: Callable[[str], int]) -> None:
    """Fork a process for each line of standard input, tell its id and, once it has ended, how.

    Args:
        run: Called in the new process with the line; gives its exit code.
    """
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            try:
                os._exit(run(line.strip()))
            finally:
                traceback.print_exc()
                os._exit(1)
        say(pid=child)
        _, status = os.waitpid(child, 0)
        say(status=status)
