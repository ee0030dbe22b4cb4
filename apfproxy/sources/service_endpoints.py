"""The servers of a Service in a Kubernetes API as endpoints: its EndpointSlices, watched.

1. An endpoint counts while it is ready, which it is unless its conditions say otherwise.  One that
   is terminating is not ready, and so is drained.
2. While none is ready, those count that terminate but still serve, as for kube-proxy: better they
   than none.
3. Of several addresses of an endpoint the first one counts; the others have no meaning.
4. A server with an IPv4 and an IPv6 address, of two slices, counts once, where the slices tell
   which object it is.
5. Where nodes and zones are does not matter.  Names in place of addresses (FQDN) are left out.

What is known stays in use while the API cannot be asked.  What the API says is taken as it is: a
Service without endpoints has none, as addresses of pods that are gone may be those of others now.
(kube-apiserver never empties its own Service, `default/kubernetes`: kubernetes,
pkg/controlplane/reconcilers/lease.go.)

The API that is asked may be the one behind the proxy.  Then it has as many servers as the Service:
where the one of the kubeconfig does not answer, another one is asked.

Source: Kubernetes documentation, "EndpointSlices"; the types of discovery.k8s.io/v1; KEP-1669
"Proxy Terminating Endpoints".
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from apfproxy.base.faults import Part
from apfproxy.objects.field_errors import one_line
from apfproxy.settings import HTTPS, Address, EndpointAddress
from apfproxy.sources.api_credentials import ApiCredentials
from apfproxy.sources.kubeconfig import access_of
from apfproxy.sources.kubernetes_api import KubernetesApi, no_others
from apfproxy.sources.reflector import Reflector, Resource
from apfproxy.sources.servers_behind import OF_THE_API
from apfproxy.upstream.found_endpoints import FoundEndpoints

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator

    from apfproxy.settings import ServiceSettings
    from apfproxy.sources.kubernetes_api import Json

GROUP = "discovery.k8s.io"
SERVICE_LABEL = "kubernetes.io/service-name"
"""Of a slice: which Service it is of."""

FAMILIES = ("IPv4", "IPv6")
MAX_PORT = 65535
MAX_SHOWN = 100
"""Characters that are shown of what a slice has."""
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


def service_endpoints(settings: ServiceSettings) -> ServiceEndpoints:
    """The endpoints of a Service, which settings name; asks the API nothing yet.

    KubeconfigError if there is no way to the API.
    """
    name = settings.name
    assert name is not None, "settings name it"
    access = access_of(
        settings.kubeconfig, settings.context, "where requests go", "upstream.service.kubeconfig"
    )
    is_tls, server_name = settings.scheme == HTTPS, settings.address.host

    def others() -> dict[str, str | None]:
        return {each.address.url: server_name for each in endpoints.found.endpoints}

    # Nobody but the API itself may get the credentials for it.
    is_api = (settings.namespace, name) == OF_THE_API and is_tls
    api = KubernetesApi(
        access.server,
        ApiCredentials(access),
        others=others if is_api and access.server.startswith("https:") else no_others,
    )
    endpoints = ServiceEndpoints(
        api,
        settings.namespace,
        name,
        ServicePort(port=settings.port, is_tls=is_tls, server_name=server_name),
    )
    return endpoints


class SliceError(Exception):
    """A slice that cannot be used; says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServicePort:
    """Which port of a Service's servers to connect to, and how.

    Attributes:
        port: Its name, or its number at the servers; None for the first one.
        is_tls: Whether to connect with TLS.
        server_name: That their certificates must have.
    """

    port: str | None
    is_tls: bool
    server_name: str

    @property
    def number(self) -> int | None:
        """The number that is wanted; names have a letter."""
        is_number = self.port is not None and self.port.isascii() and self.port.isdigit()
        return int(self.port or 0) if is_number else None


@dataclass(frozen=True, slots=True)
class Found:
    """What slices have.

    Attributes:
        endpoints: That count, each once.
        problems: Why others are left out.
    """

    endpoints: tuple[EndpointAddress, ...]
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Server:
    """An endpoint of a slice.

    Attributes:
        identity: Of the object behind it; "" if the slice does not tell.
    """

    address: EndpointAddress
    identity: str
    is_ready: bool
    is_last_resort: bool


def endpoints_of(slices: Iterable[Json], wanted: ServicePort) -> Found:
    """The endpoints of a Service; what is no slice, or no endpoint, is told and left out."""
    servers: list[_Server] = []
    problems: list[str] = []
    for each in sorted(slices, key=lambda each: (str(each.get("addressType")), _name(each))):
        try:
            servers += list(_servers(each, wanted))  # all of a slice, or nothing
        except SliceError as error:
            problems.append(f"EndpointSlice {_name(each)}: {error}")
    counting = [each for each in servers if each.is_ready] or [
        each for each in servers if each.is_last_resort
    ]
    by_address: dict[Address, EndpointAddress] = {}
    families: dict[str, bool] = {}  # whether a server, by its identity, counts with IPv6
    for server in counting:
        is_v6 = ":" in server.address.address.host
        if server.identity and families.setdefault(server.identity, is_v6) != is_v6:
            continue
        by_address.setdefault(server.address.address, server.address)
    return Found(tuple(by_address.values()), tuple(problems))


def _name(slice_: Json) -> str:
    metadata = slice_.get("metadata")
    return str(metadata.get("name", "")) if isinstance(metadata, dict) else ""


def _servers(slice_: Json, wanted: ServicePort) -> Iterator[_Server]:
    """The endpoints of a slice; SliceError if it has none that can be used."""
    family = slice_.get("addressType")
    if family not in FAMILIES:
        raise SliceError(f"addressType: {_shown(family)} is not done, want {' or '.join(FAMILIES)}")
    endpoints = slice_.get("endpoints")
    if not endpoints:  # null where there are none
        return
    if not isinstance(endpoints, list):
        raise SliceError("endpoints: want a list")
    port = _port(slice_.get("ports"), wanted)
    for index, endpoint in enumerate(endpoints):
        if not isinstance(endpoint, dict):
            raise SliceError(f"endpoints[{index}]: want an object")
        conditions = endpoint.get("conditions")
        if not isinstance(conditions, dict):
            conditions = {}
        target = endpoint.get("targetRef")
        identity = target.get("uid") if isinstance(target, dict) else None
        yield _Server(
            EndpointAddress(
                address=Address(
                    host=_host(endpoint.get("addresses"), f"endpoints[{index}].addresses"),
                    port=port,
                    is_tls=wanted.is_tls,
                ),
                server_name=wanted.server_name,
            ),
            identity if isinstance(identity, str) else "",
            is_ready=conditions.get("ready") is not False,
            is_last_resort=conditions.get("serving") is not False
            and conditions.get("terminating") is True,
        )


def _host(addresses: object, where: str) -> str:
    first = addresses[0] if isinstance(addresses, list) and addresses else None
    try:
        return str(ipaddress.ip_address(first if isinstance(first, str) else ""))
    except ValueError:
        raise SliceError(f"{where}: {_shown(first)} is no address") from None


def _port(ports: object, wanted: ServicePort) -> int:
    """The number of the port that is wanted, at the servers; SliceError if there is none."""
    known: list[tuple[str, int | None]] = []
    for port in ports if isinstance(ports, list) else ():
        if isinstance(port, dict) and port.get("protocol") in (None, "TCP"):
            number = port.get("port")
            has_number = isinstance(number, int) and 0 < number <= MAX_PORT
            known.append((str(port.get("name") or ""), number if has_number else None))
    for name, number in known:
        # One without a number stands for all numbers.
        if wanted.number is not None and number in (None, wanted.number):
            return wanted.number
        if number is not None and wanted.port in (None, name):
            return number
    has = ", ".join(f"{name or 'unnamed'}={number or 'any'}" for name, number in known)
    which = "no port" if wanted.port is None else f"no port {wanted.port}"
    raise SliceError(f"ports: {which} for TCP ({_shown(has) if has else 'it has none'})")


def _shown(value: Any) -> str:  # noqa: ANN401 - of JSON
    """A value of a slice in one short line."""
    return one_line(str(value)[:MAX_SHOWN])
