"""Settings of several processes that share one limit."""

from __future__ import annotations

from dataclasses import dataclass, field

from apfproxy.settings.setting_fields import bounded, path_setting

AUTO_WORKERS = 0
"""Stands for as many workers as there are processors, `auto` where people write it."""

MAX_WORKERS = 128
"""Each of them has pools, caches and health checks of its own: beyond, replicas do better."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetSettings:
    """The fleet of proxies that share one server limit; there is none without a store.

    Attributes:
        store: Where its record lives, see `sources.store_address`.
        name: Of the fleet; several may share a store.
        member: The name of this proxy on pages; None for that of the machine.
        replicas: How many proxies are meant to be there; None for as many as come.  In a worker's
            settings, how many members: each of a proxy's workers is one.
        refresh_interval_s: Between two looks of a member at the record.
        lease_s: For how long a member that is not seen keeps its seats.
        password_file: Of Redis' user; read for each connection.
        sentinel_password_file: The same, of Redis Sentinel.
        kubeconfig, context: How to reach the Kubernetes API, where that is the store.
    """

    store: str | None = field(default=None, metadata={"form": "store"})
    name: str = field(default="apfproxy", metadata={"form": "fleet"})
    member: str | None = field(default=None, metadata={"form": "member"})
    replicas: int | None = bounded(None, 1, 512)
    refresh_interval_s: float = bounded(1.0, 0.1, 60)
    lease_s: float = bounded(5.0, 1, 600)
    password_file: str | None = path_setting()
    sentinel_password_file: str | None = path_setting()
    ca_file: str | None = path_setting()
    certificate_file: str | None = path_setting()
    key_file: str | None = path_setting()
    kubeconfig: str | None = path_setting()
    context: str | None = None
