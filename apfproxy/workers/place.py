"""The place of a worker process: what its parent tells it, and what that makes of its settings.

The parent tells it in a variable of the environment, in JSON.  A worker of newer code may be told
by an older parent: what is not said there has a default.
"""

from __future__ import annotations

import logging
import os
import pickle
import socket
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from msgspec import structs

from apfproxy.base.errors import OperatorError
from apfproxy.base.memory import default_bytes, overload_bytes
from apfproxy.settings import (
    AUTO_WORKERS,
    MAX_WORKERS,
    AdminTlsSettings,
    LimitSettings,
    Settings,
    with_each_cluster,
    with_values,
)
from apfproxy.workers.link import Renew

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping

WORKER: Final = "APFPROXY_WORKER"
STORE: Final = "parent:link"
"""The fleet's store in the settings of a worker: the memory of its parent."""
PERIOD_S: Final = 0.25
LEASE_S: Final = 2.0
"""For workers that share seats: their parent drops those of one that dies at once."""
AT_FULL_PACE: Final = 50
"""Clusters, each of which has a record; with more of them workers look less often at each."""
MAX_LEASE_S: Final = 10.0
"""As long as a worker may be silent."""
QUOTA: Final = Path("/sys/fs/cgroup/cpu.max")
"""The quota of a container: CPU microseconds in a period, or `max`, and the period."""

log = logging.getLogger(__name__)


class WorkerPlace(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """All that a parent tells a worker; `link`, `sockets` and `settings` are descriptors.

    `index` is from 1 on, `generation` counts the processes that have had it.  `member` names it in
    the fleet of workers.  `objects` is the path of the objects of the parent's store, if any.
    """

    index: Annotated[int, msgspec.Meta(ge=1)]
    generation: int = 1
    count: int
    member: str
    link: int = -1
    sockets: tuple[int, ...] = ()
    settings: int = -1
    objects: str | None = None
    hash_seed: int

    def told(self) -> dict[str, str]:
        return {WORKER: msgspec.json.encode(self).decode()}


def worker_place(environment: MutableMapping[str, str]) -> WorkerPlace | None:
    """Take the place from the environment, where a child of ours would find it; None for no worker.

    OperatorError if it cannot be understood.
    """
    text = environment.pop(WORKER, None)
    if text is None:
        return None
    try:
        place = msgspec.json.decode(text, type=WorkerPlace)
        if place.index > place.count:
            raise ValueError(f"{place.index} is no index of {place.count} workers")  # noqa: TRY301 - as the others
        if not stat.S_ISSOCK(os.fstat(place.link).st_mode):
            raise ValueError(f"descriptor {place.link} is no link to a parent")  # noqa: TRY301 - as the others
    except (ValueError, OSError) as error:
        raise OperatorError(
            f"{WORKER}: {error}; only the parent of workers sets it, so unset it"
        ) from error
    return place


def worker_count(wanted: int | None, quota: Path = QUOTA) -> int:
    """The number that settings mean; 0 for one process without a parent.

    `AUTO_WORKERS` is one for each processor that we may use; a quota of two and a half gives three.
    """
    if wanted != AUTO_WORKERS:
        return wanted or 0
    processors = len(os.sched_getaffinity(0))
    try:
        allowed_us, period_us = quota.read_text(encoding="ascii").split()
        processors = min(processors, -(-int(allowed_us) // int(period_us)))
    except (OSError, ValueError, ZeroDivisionError):
        pass  # no cgroup of version 2, or no quota
    return max(1, min(processors, MAX_WORKERS))


def part_of(whole: int, place: WorkerPlace) -> int:
    """A worker's part of something that all of them share; at least 1."""
    return max(whole // place.count + (place.index <= whole % place.count), 1)


class SentSettings:
    """Reads the settings of a worker: those that its parent has sent last, placed.

    If this code cannot use them, since the parent's is another, it reads those of file and flags.
    """

    def __init__(self, place: WorkerPlace, read: Callable[[], Settings]) -> None:
        self.place = place
        self.sent = Renew(0, _handed(place))
        self._read = read
        self._seen: Renew | None = None
        self._found: Settings | None = None
        self._in_force: Settings | None = None
        self._clusters: int | None = None

    def __call__(self) -> Settings:
        """The settings in force if nothing was sent since; OperatorError if they cannot be used."""
        sent = self.sent
        self._found = self._in_force if sent is self._seen else _unpickled(sent.settings)
        self._seen = sent
        whole = self._found or self._read()
        if self._clusters is None:
            self._clusters = len(whole.clusters)  # at the start, as no lease changes later
        return placed(whole, self.place, self._clusters)

    def settle(self, *, is_refused: bool) -> int:
        """Say whether what was read is in force; returns the number of what was sent."""
        if not is_refused:
            self._in_force = self._found
        return self._seen.number if self._seen is not None else 0


def _handed(place: WorkerPlace) -> bytes:
    """The settings in force at the start of a worker; empty if it was handed none."""
    try:
        with open(place.settings, "rb") as file:  # noqa: PTH123 - a descriptor
            file.seek(0)  # as it is shared, anyone who wrote it stands at its end
            return file.read()
    except (OSError, ValueError):
        return b""


def _unpickled(data: bytes) -> Settings | None:
    try:
        found = pickle.loads(data)  # noqa: S301 - the parent's, which no one else writes to
    except Exception as error:  # noqa: BLE001 - of other code; pickles end in any of them
        log.warning("cannot read the settings in force, and takes those of now: %s", error)
        return None
    return found if isinstance(found, Settings) else None


def placed(settings: Settings, place: WorkerPlace, clusters: int = 1) -> Settings:
    """The settings of a worker: those of the whole, but for its place among so many clusters."""
    pace = min(max(clusters / AT_FULL_PACE, 1.0), MAX_LEASE_S / LEASE_S)
    return with_each_cluster(
        _placed(settings, place, pace), lambda each: _placed(each, place, pace)
    )


def _placed(settings: Settings, place: WorkerPlace, pace: float) -> Settings:
    def part(whole: int | None) -> int | None:
        return None if whole is None else part_of(whole, place)

    limits, upstream = settings.downstream.limits, settings.upstream
    flow_control, fleet = settings.flow_control, settings.fleet
    connections, held_bytes = limits.max_connections, limits.max_held_bytes
    whole_bytes = settings.downstream.overload.memory_bytes
    if connections != LimitSettings().max_connections:
        # The default stands for as many as there may be open files, which each process has.
        connections = part(connections)
    if held_bytes is None:
        # The default is of the memory that all processes have.
        held_bytes = default_bytes(whole_bytes)
    flow_values: dict[str, object] = {}
    if flow_control.store is not None and place.objects is not None:
        # The built-in ones are in the store.
        flow_values = {"store": None, "objects": (place.objects,), "suggested_objects": False}
        settings = structs.replace(settings, admin_token_file=None)
    if flow_control.hash_seed is None:
        flow_values["hash_seed"] = place.hash_seed
    fleet_values: dict[str, object] = {
        "store": STORE,
        "member": place.member,
        "replicas": place.count,
        "refresh_interval_s": PERIOD_S * pace,
        "lease_s": LEASE_S * pace,
    }
    if fleet.store is not None:
        # Each worker is a member, however many there are: `auto` differs among machines.
        fleet_values = {
            "member": f"{fleet.member or socket.gethostname()}-{place.member}",
            "replicas": None if fleet.replicas is None else fleet.replicas * place.count,
        }
    values = {
        "downstream": {
            "limits": {
                "max_connections": connections,
                "max_held_bytes": part(held_bytes),
                "max_held_bytes_per_address": part(limits.max_held_bytes_per_address),
            },
            "overload": {"memory_bytes": part(overload_bytes(whole_bytes))},
        },
        "upstream": {
            "max_connections": part(upstream.max_connections),
            "max_requests_per_endpoint": part(upstream.max_requests_per_endpoint),
        },
        "flow_control": flow_values,
        "fleet": fleet_values,
        "access_log": {"max_bytes_per_second": part(settings.access_log.max_bytes_per_second)},
        # Its parent has the listener, and says who may read.
        "admin_tls": AdminTlsSettings(),
        "admin_read_token_file": None,
    }
    return with_values(settings, values)
