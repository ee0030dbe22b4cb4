"""Settings of what requests mean."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class LongRunningSettings:
    """Which requests may last as long as their clients like; None as the preset has it."""

    verbs: tuple[str, ...] | None = field(default=None, metadata={"form": "verb"})
    subresources: tuple[str, ...] | None = field(default=None, metadata={"form": "subresource"})
    path_prefixes: tuple[str, ...] | None = field(default=None, metadata={"form": "paths-below"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSettings:
    """How requests are read.

    Attributes:
        path_prefixes: Patterns of prefixes below which the server has APIs.
    """

    path_prefixes: tuple[str, ...] = field(default=(), metadata={"form": "api-prefix"})
    long_running: LongRunningSettings = field(default_factory=LongRunningSettings)
