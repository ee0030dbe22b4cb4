"""The store that settings name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from apfproxy.base.errors import OperatorError
from apfproxy.settings.store_address import Kind, StoreAddress, store_address

if TYPE_CHECKING:
    from apfproxy.fleet.store import LedgerStore
    from apfproxy.settings import FleetSettings
    from apfproxy.sources.servers_behind import ServersBehind


class StoreOpener(Protocol):
    """Opens the store that settings name."""

    def __call__(
        self, fleet: FleetSettings, key: str, behind: ServersBehind | None = None
    ) -> LedgerStore:
        """The store with the record of a key; see `open_store`."""


def open_store(fleet: FleetSettings, key: str, behind: ServersBehind | None = None) -> LedgerStore:
    """The store with the record of a key; it connects when it is used.

    It reads the files that the settings name.

    Args:
        fleet: Settings that name a store, and that go together.
        key: `FLEET`, or `FLEET/CLUSTER`.
        behind: The servers behind, any of which is asked if they are the store.

    Raises:
        OperatorError: What they name cannot be used, or takes what is not installed.
    """
    # A proxy without a fleet imports none of them.
    address = _address(fleet)
    if address.kind is Kind.PARENT:
        raise OperatorError("only workers have the store of their parent")
    if address.kind is Kind.KUBERNETES:
        return _in_kubernetes(address, fleet, key, behind)
    try:
        from apfproxy.fleet.redis_store import RedisStore  # noqa: PLC0415
    except ImportError as error:
        raise OperatorError(
            f"fleet.store (--fleet): needs redis-py, but the module {error.name} is not"
            " installed: pip install 'apfproxy[redis]' adds what is missing"
            " (docs/fleet-stores.md)"
        ) from error
    return RedisStore(address, fleet, key)


def described(fleet: FleetSettings) -> str:
    """Where the record lives, without secrets."""
    return str(_address(fleet))


def _address(fleet: FleetSettings) -> StoreAddress:
    assert fleet.store is not None, "the caller has seen that there is a fleet"
    try:
        return store_address(fleet.store)
    except ValueError as error:
        raise OperatorError(f"fleet.store (--fleet): {error}") from error


def _in_kubernetes(
    address: StoreAddress, fleet: FleetSettings, key: str, behind: ServersBehind | None
) -> LedgerStore:
    from apfproxy.fleet.kubernetes_store import KubernetesStore  # noqa: PLC0415
    from apfproxy.sources.kubernetes_api import open_api  # noqa: PLC0415

    decided = "who gets how many seats"
    api = open_api(fleet.kubeconfig, fleet.context, decided, "fleet.kubeconfig", behind)
    return KubernetesStore(api, address.namespace, address.name, key)
