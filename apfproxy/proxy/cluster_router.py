"""Which cluster a request is of."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from apfproxy.proxy.context import Context


class ClusterRouter:
    """Knows the clusters behind a listener.

    Attributes:
        only: That of all requests.
    """

    def __init__(self, only: Context) -> None:
        self.only = only

    def __repr__(self) -> str:
        return f"<ClusterRouter: {self.only!r}>"
