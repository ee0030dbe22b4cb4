"""Settings of limits, objects and costs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from apfproxy.settings.setting_fields import bounded, path_setting

KUBERNETES_API, HTTP_API = "kubernetes", "http"
"""What kind of API the server behind has: which objects are built in, and how requests are read."""


def preset_setting() -> Any:  # noqa: ANN401 - stands for the default itself, as `field` does
    """Make a field for one of these kinds."""
    return field(default=KUBERNETES_API, metadata={"choices": (KUBERNETES_API, HTTP_API)})


ENFORCE, OBSERVE = "enforce", "observe"
"""What flow control does: its work, or nothing but count what it would have done."""

MAX_SEATS = (1 << 31) - 1

PROMPT, AS_KUBERNETES = "prompt", "kubernetes"
"""When idle seats are lent: as soon as a request lacks them, or every 10 s as there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchSettings:
    """When a WATCH that asked for no initial events gives its seats back."""

    silence_s: float = bounded(0.1, 0.001)
    limit_s: float = bounded(10.0, 0.001)
    bookmark_limit_s: float = bounded(60.0, 0.001)


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesSettings:
    """A Kubernetes API that has the objects."""

    is_enabled: bool = field(default=False, metadata={"key": "enabled"})
    kubeconfig: str | None = path_setting()
    context: str | None = None
    first_sync_timeout_s: float = bounded(10.0, 0)
    write_status: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowControlSettings:
    """Limits, objects and costs."""

    enforcement: str = field(default=ENFORCE, metadata={"choices": (ENFORCE, OBSERVE)})
    server_concurrency_limit: int = bounded(600, 1, MAX_SEATS, one_of="limit")
    per_endpoint: int | None = bounded(None, 1, MAX_SEATS, one_of="limit")
    limit_adjustment: str = field(default=PROMPT, metadata={"choices": (PROMPT, AS_KUBERNETES)})
    objects: tuple[str, ...] = field(default=(), metadata={"form": "path"})
    store: str | None = path_setting()
    kubernetes: KubernetesSettings = field(default_factory=KubernetesSettings)
    suggested_objects: bool = True
    hash_seed: int | None = bounded(None, 0, (1 << 32) - 1)
    object_counts_from: str | None = field(default=None, metadata={"form": "url"})
    object_counts_interval_s: float = bounded(30.0, 0.1)

    def seats(self, healthy: int) -> int:
        """The limit of the whole while so many endpoints are healthy; never that of none."""
        if self.per_endpoint is None:
            return self.server_concurrency_limit
        return min(self.per_endpoint * max(healthy, 1), MAX_SEATS)
