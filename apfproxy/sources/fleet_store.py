"""The store of a fleet's record that settings name; the modules of other stores stay unread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.base.errors import OperatorError
from apfproxy.fleet.store import address_of
from apfproxy.settings.store_address import Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.fleet.store import LedgerStore
    from apfproxy.settings import FleetSettings
    from apfproxy.sources.servers_behind import ServersBehind

    StoreOpener = Callable[[FleetSettings, str, ServersBehind], LedgerStore]


def open_store(fleet: FleetSettings, key: str, behind: ServersBehind | None = None) -> LedgerStore:
    """The store with the record of a key, `FLEET` or `FLEET/CLUSTER`; it connects when it is used.

    `behind` are the servers behind, any of which is asked if they are the store.  OperatorError if
    files that the settings name cannot be used, or what the store takes is not installed.
    """
    address = address_of(fleet)
    if address.kind is Kind.PARENT:
        raise OperatorError("only workers have the store of their parent")
    if address.kind is Kind.KUBERNETES:
        from apfproxy.sources.kubernetes_api import open_api  # noqa: PLC0415
        from apfproxy.sources.kubernetes_store import KubernetesStore  # noqa: PLC0415

        decided = "who gets how many seats"
        api = open_api(fleet.kubeconfig, fleet.context, decided, "fleet.kubeconfig", behind)
        return KubernetesStore(api, address.namespace, address.name, key)
    try:
        from apfproxy.fleet.redis_store import RedisStore  # noqa: PLC0415
    except ImportError as error:
        raise OperatorError(
            f"fleet.store (--fleet): needs redis-py, but the module {error.name} is not"
            " installed: pip install 'apfproxy[redis]' adds what is missing"
            " (docs/fleet-stores.md)"
        ) from error
    return RedisStore(address, fleet, key)
