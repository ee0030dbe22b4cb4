"""Programs that behave like workers, in some lines, for tests of their parent."""

from __future__ import annotations

import sys

import msgspec

from apfproxy.settings import Settings
from apfproxy.workers.place import SentSettings, WorkerPlace

PLACE = WorkerPlace(index=1, generation=3, count=2, member="worker-1", link=9, hash_seed=7)

BEGIN = """
import json, os, signal, socket, sys, time
import msgspec
signal.pthread_sigmask(signal.SIG_UNBLOCK, signal.valid_signals())
place = json.loads(os.environ["APFPROXY_WORKER"])
link = socket.socket(fileno=place["link"])
def send(*names, **fields):
    frames = [msgspec.msgpack.encode({"type": name, **fields}) for name in names]
    link.sendall(b"".join(len(each).to_bytes(4, "big") + each for each in frames))
def serve():
    send("Serving")
def read(size):
    return link.recv(size, socket.MSG_WAITALL)
def until_told(names=("Drain", "Leave", "Cut")):
    while length := read(4):
        message = msgspec.msgpack.decode(read(int.from_bytes(length, "big")))
        if message["type"] in names:
            return
        if message["type"] == "Renew":
            renew(message)
def renew(message, refused=""):
    send("Serving", number=message["number"], refused=refused)
"""

SERVES = "serve(); until_told()"
ENDS = "sys.exit(3)"
NEVER_SERVES = "time.sleep(600)"
SERVES_AND_ENDS = "serve(); sys.exit(3)"
DRAINS_AT_ONCE = "send('Serving', 'Ending'); until_told()"
DRAINS_AT_SIGTERM = """
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
serve()
signal.sigwait([signal.SIGTERM])
send("Ending")
until_told()
"""
HANGS = "serve(); time.sleep(600)"
IGNORES_DRAINS = "serve(); until_told(['Cut'])"


def sent_settings(link: int = -1) -> SentSettings:
    """The settings of a worker with that link, whose parent has not sent any."""
    return SentSettings(msgspec.structs.replace(PLACE, link=link), Settings)


def command(script: str) -> list[str]:
    return [sys.executable, "-c", BEGIN + script]
