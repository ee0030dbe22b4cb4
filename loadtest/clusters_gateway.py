"""A gateway with many clusters, of which some are well and three are not."""

from __future__ import annotations

import json
import os
import signal
from time import monotonic
from typing import TYPE_CHECKING, Any

from loadtest.gateway_notes import Place
from loadtest.processes import Process, free_ports, python_module

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

BROKEN, DEAD, OVERLOADED = "broken", "dead", "overloaded"
SPECIAL = (BROKEN, DEAD, OVERLOADED)
"""Those that are not well: a configuration of no use, dead servers, too many requests."""
DEAD_PORTS = (1, 2)
"""On which nothing listens, nor any program of a user can."""
MIB = 1 << 20

Cluster = dict[str, Any]


def host_behind(name: str) -> str:
    """What the servers of a cluster get as Host, which says whose settings a request met."""
    return f"{name}.behind"


def place_of(name: str) -> Place:
    """Where the requests of a cluster go: every other one has a prefix instead of a host."""
    if name.endswith(("1", "3", "5", "7", "9")):
        return Place("gateway.test", f"/clusters/{name}", host_behind(name))
    return Place(f"{name}.test", "", host_behind(name))


def cluster(name: str, ports: Sequence[int], limit: int = 100) -> Cluster:
    """Give the settings of a cluster.

    Args:
        name: Its own.
        ports: Of its servers.
        limit: Its seats.
    """
    place = place_of(name)
    where = {"pathPrefix": place.prefix} if place.prefix else {"hosts": [place.host]}
    return {
        "name": name,
        **where,
        "upstream": {
            "endpoints": [{"url": f"http://127.0.0.1:{port}"} for port in ports],
            "hostHeader": host_behind(name),
        },
        "flowControl": {"serverConcurrencyLimit": limit},
    }


class Gateway:
    """A gateway whose clusters can be changed.

    Args:
        directory: An existing directory for its files.
        name: Of its files.
        clusters: Their settings, by name.
    """

    def __init__(self, directory: Path, name: str, clusters: Mapping[str, Cluster]) -> None:
        self.clusters = dict(clusters)
        self._settings = directory / f"{name}.yaml"
        self.write()
        port, self.admin_port = free_ports(2)
        begun_s = monotonic()
        self.process = Process(
            name,
            [
                *python_module("apfproxy"),
                *("serve", "--settings", str(self._settings)),
                *("--listen", f"127.0.0.1:{port}", "--admin", f"127.0.0.1:{self.admin_port}"),
                *("--identity-headers-from", "127.0.0.0/8"),
            ],
            port=port,
            directory=directory,
        )
        self.start_s = monotonic() - begun_s
        self.start_cpu_s = self.process.cpu_ns() / 1e9

    def write(self) -> None:
        """Write the settings, which JSON is YAML enough for."""
        text = json.dumps(
            {
                "downstream": {"requestTimeout": "6s"},
                "upstream": {"answerTimeout": "5s", "connectTimeout": "500ms"},
                "logLevel": "warning",
                "clusters": list(self.clusters.values()),
            },
            indent=1,
        )
        new = self._settings.with_suffix(".new")
        new.write_text(text)
        new.replace(self._settings)

    def reload(self) -> None:
        """Have the settings as they are now read."""
        self.write()
        os.kill(self.process.pid, signal.SIGHUP)


def make_clusters(count: int, ports: Sequence[int]) -> dict[str, Cluster]:
    """Give the settings of all clusters: those that are well, and the special ones.

    Args:
        count: How many.
        ports: Of the servers; those of the overloaded cluster are the last.
    """
    *well, slow = ports
    clusters = {
        name: cluster(name, well) for name in (f"c{at}" for at in range(count - len(SPECIAL)))
    }
    clusters[BROKEN] = cluster(BROKEN, well) | {"flowControl": {"serverConcurrencyLimit": "many"}}
    clusters[DEAD] = cluster(DEAD, DEAD_PORTS)
    clusters[OVERLOADED] = cluster(OVERLOADED, [slow], limit=5)
    return clusters


def weigh(directory: Path, clusters: Mapping[str, Cluster]) -> dict[str, float]:
    """Start gateways with one cluster and with all; what one costs."""
    figures: dict[str, float] = {}
    first = dict(list(clusters.items())[:1])
    for name, some in (("one", first), ("all", clusters)):
        gateway = Gateway(directory, f"weighed-{name}", some)
        with gateway.process as process:
            figures[f"rss_{name}_mib"] = process.rss_bytes() / MIB
            figures[f"start_{name}_s"] = gateway.start_s
            figures[f"start_cpu_{name}_s"] = gateway.start_cpu_s
    more = len(clusters) - 1
    figures["rss_each_kib"] = (figures["rss_all_mib"] - figures["rss_one_mib"]) * 1024 / more
    figures["start_cpu_each_ms"] = (
        (figures["start_cpu_all_s"] - figures["start_cpu_one_s"]) * 1000 / more
    )
    return figures
