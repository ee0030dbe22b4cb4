"""The choice of controllers, and their start and stop."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from apfproxy.apiserver.controllers.disruption import Disruption
from apfproxy.apiserver.controllers.endings import GarbageCollector, Namespaces, PodTermination
from apfproxy.apiserver.controllers.flow_control import Bootstrap, Dangling
from apfproxy.apiserver.controllers.runner import Runner
from apfproxy.objects.decode import SUGGESTED_FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from apfproxy.apiserver.controllers.runner import Controller
    from apfproxy.apiserver.registry import Registry

CONTROLLERS: dict[str, Callable[[Registry], Controller]] = {
    controller.name: controller
    for controller in (
        Bootstrap, Dangling, Disruption, GarbageCollector, Namespaces, PodTermination,
    )
}  # fmt: skip

EVERY = "*"
EXPECTED = "give a list of * (all), NAME (on) and -NAME (off), with names out of " + ", ".join(
    sorted(CONTROLLERS)
)

OWN = frozenset({Bootstrap.name, Dangling.name})
"""Controllers of kube-apiserver itself; the others are kube-controller-manager's or a kubelet's."""


def parse_controllers(texts: Collection[str]) -> frozenset[str]:
    """The names of the controllers that a list turns on.

    Args:
        texts: `*` for all, `name` for one, `-name` for all but one; an item may hold several,
            between commas.  As in kube-controller-manager a list without `*` turns on only what it
            names; but those of `OWN` run unless they, or `*`, are turned off.  No list means `*`.

    Raises:
        ValueError: A name is unknown, or there is a list without one.
    """
    items = {item.strip() for text in texts for item in text.split(",")} - {""}
    off = {item[1:] for item in items if item.startswith("-")}
    on = {item for item in items if not item.startswith("-")}
    if unknown := sorted((on | off) - CONTROLLERS.keys() - {EVERY}):
        raise ValueError(f"there is no controller {', '.join(map(repr, unknown))}; {EXPECTED}")
    if texts and not items:
        raise ValueError(f"the list is empty; {EXPECTED}")
    if both := sorted((on & off) - {EVERY}):
        raise ValueError(f"controller {both[0]!r} is turned on and off at once")
    if EVERY in on or not items:
        on |= CONTROLLERS.keys()
    if EVERY not in off:
        on |= OWN
    return frozenset(on - off - {EVERY})


class Controllers:
    """The enabled controllers of one server; one runs only if all its kinds are served."""

    def __init__(
        self,
        registry: Registry,
        enabled: frozenset[str],
        suggested_file: str | None = SUGGESTED_FILE,
    ) -> None:
        self._registry = registry
        self._bootstrap = partial(Bootstrap, registry, suggested_file)
        makers: dict[str, Callable[[], Controller]] = {
            name: self._bootstrap if name == Bootstrap.name else partial(make, registry)
            for name, make in CONTROLLERS.items()
            if name in enabled
        }
        self._makers = {
            name: make
            for name, make in makers.items()
            if all(kind in registry.kinds for kind in make().kinds)
        }
        self._runners: list[Runner] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Create what is always there, then run; StatusError if the store refuses one."""
        if Bootstrap.name in self._makers:
            await self._bootstrap().ensure_all()
        self._runners = [Runner(name, make, self._registry) for name, make in self._makers.items()]
        self._tasks = [runner.start() for runner in self._runners]

    def problem(self) -> str | None:
        """One of the problems of controllers that failed lately, or stand still; None if none."""
        return next(filter(None, (runner.problem() for runner in self._runners)), None)

    async def stop(self) -> None:
        """End all controllers; harmless once done."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks, self._runners = [], []
