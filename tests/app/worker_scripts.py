"""Programs that behave like workers, in some lines, for tests of their parent."""

from __future__ import annotations

import sys

BEGIN = """
import contextlib, json, os, signal, socket, sys, time
signal.pthread_sigmask(signal.SIG_UNBLOCK, signal.valid_signals())
place = json.loads(os.environ["APFPROXY_WORKER"])
link = socket.socket(fileno=place["link"])
admin = socket.socket(socket.AF_UNIX)
def serve():
    with contextlib.suppress(OSError):  # which a test has put there
        admin.bind(place["admin"])
    link.send(b"s")
def until_told(words=b"dlc"):
    while (word := link.recv(1)) and word not in words:
        pass
    return word
"""

SERVES = "serve(); until_told()"
ENDS = "sys.exit(3)"
NEVER_SERVES = "time.sleep(600)"
SERVES_AND_ENDS = "serve(); sys.exit(3)"
DRAINS_AT_ONCE = "link.send(b'se'); until_told()"
DRAINS_AT_SIGTERM = """
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
serve()
signal.sigwait([signal.SIGTERM])
link.send(b"e")
until_told()
"""
HANGS = "serve(); time.sleep(600)"
IGNORES_DRAINS = "serve(); until_told(b'c')"


def command(script: str) -> list[str]:
    """The command of such a worker."""
    return [sys.executable, "-c", BEGIN + script]
