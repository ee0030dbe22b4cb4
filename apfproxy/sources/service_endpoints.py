"""The servers of a Service in a Kubernetes API as endpoints: its EndpointSlices, watched.

What is known stays in use while the API cannot be asked.  What the API says is taken as it is: a
Service without endpoints has none, as addresses of pods that are gone may be those of others now.
(kube-apiserver never empties its own Service, `default/kubernetes`: kubernetes,
pkg/controlplane/reconcilers/lease.go.)

The API that is asked may be the one behind the proxy.  Then it has as many servers as the Service:
where the one of the kubeconfig does not answer, another one is asked.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from apfproxy.base.faults import Part
from apfproxy.sources.endpoint_slices import GROUP, SERVICE_LABEL, ServicePort, endpoints_of
from apfproxy.sources.reflector import Reflector, Resource
from apfproxy.upstream.found_endpoints import FoundEndpoints

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from apfproxy.sources.kubernetes_api import KubernetesApi

MAX_TOLD = 3
"""Slices that a problem names."""

logger = logging.getLogger(__name__)


class ServiceEndpoints:
    """The endpoints of a Service.

    Args:
        api: That has the Service.
        namespace: Of the Service.
        service: Its name.
        wanted: Which port of its servers.
    """

    def __init__(
        self,
        api: KubernetesApi,
        namespace: str,
        service: str,
        wanted: ServicePort,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.name = f"Service {namespace}/{service}"
        self.found = FoundEndpoints(self.name)
        self._api = api
        self._wanted = wanted
        self._left_out: tuple[str, ...] = ()
        self.reflector = Reflector(
            api,
            Resource(
                kind="EndpointSlice",
                plural="endpointslices",
                group=GROUP,
                versions=("v1",),
                right="the role of config/kubernetes/rbac/endpoints.yaml",
                namespace=namespace,
                selector=f"{SERVICE_LABEL}={service}",
                part=Part.UPSTREAM,
            ),
            self._on_change,
            sleep=sleep,
        )

    def problem(self) -> str | None:
        """Why the endpoints may be others by now, or some are left out; None while all is well."""
        if self.reflector.problem is not None:
            return f"{self.name}: {self._api.server}: {self.reflector.problem}; {self.found.kept}"
        others = "; ".join((*filter(None, (self._api.problem,)), *self._left_out))
        if others:
            return f"{self.name}: {others}"
        if not self.found.endpoints:
            return f"{self.name}: has no endpoint that is ready"
        return None

    async def run(self) -> None:
        """Follow the slices for ever."""
        await self.reflector.run()

    def _on_change(self) -> None:
        found = endpoints_of(self.reflector.objects.values(), self._wanted)
        before, self._left_out = self._left_out, found.problems[:MAX_TOLD]
        for problem in self._left_out:
            if problem not in before:
                logger.warning("%s: left out: %s", self.name, problem)
        self.found.put(found.endpoints)

    async def close(self) -> None:
        """Ask the API nothing more."""
        await self._api.close()

    def __repr__(self) -> str:
        return f"<ServiceEndpoints {self.problem() or self.name}>"
