"""How clients of the echo behave."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from loadtest.echo import KINDS

if TYPE_CHECKING:
    import ssl
    from collections.abc import Sequence

DEPTHS = (1, 1, 1, 2, 8)
"""Requests on their way at once on one connection."""
LONGEST_LIFE = 300
"""Requests on one connection."""
ENDLESS_EVENTS = 6
"""After which a client has enough of a watch that does not end."""
WATCH_PATIENCE_S = 2.0
"""After which a client has enough of a watch that is quiet."""


@dataclass(frozen=True, kw_only=True)
class Habits:
    """How clients behave.

    Attributes:
        kinds: Kind of request to weight.
        abort_share: Share of requests in the middle of which the client leaves.
        patience_s: After which a request without an end counts as hung.
        users: Different ones.
        fields: Lines of the head to choose from, such as credentials.
        tls: For connections, one of these; none without TLS.
        requests_per_s: Of all connections; 0 for as fast as answers come.
        http2: Whether they speak HTTP/2.
    """

    kinds: dict[str, int] = field(
        default_factory=lambda: {kind: weight for kind, (weight, _) in KINDS.items()}
    )
    abort_share: float = 0.01
    patience_s: float = 12.0
    users: int = 20
    fields: Sequence[str] = ("",)
    tls: Sequence[ssl.SSLContext] = ()
    requests_per_s: float = 0.0
    http2: bool = False
