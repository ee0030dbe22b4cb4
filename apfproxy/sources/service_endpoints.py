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
from typing import TYPE_CHECKING, Annotated

import msgspec

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
"""The label of a slice with the name of its Service."""

MAX_PORT = 65535
MAX_SHOWN = 100
"""Characters that are shown of what a slice has."""
MAX_TOLD = 3
"""Slices that a problem names."""

logger = logging.getLogger(__name__)


class ServiceEndpoints:
    """The endpoints of a Service of an API."""

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
        self.leave, self.close = api.leave, api.close
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
        self.run = self.reflector.run

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

    def _on_change(self) -> None:
        found = endpoints_of(self.reflector.objects.values(), self._wanted)
        before, self._left_out = self._left_out, found.problems[:MAX_TOLD]
        for problem in self._left_out:
            if problem not in before:
                logger.warning("%s: left out: %s", self.name, problem)
        self.found.put(found.endpoints)


def service_endpoints(settings: ServiceSettings) -> ServiceEndpoints:
    """The endpoints of a Service, which settings name; asks the API nothing yet.

    OperatorError if there is no way to the API.
    """
    name = settings.name
    assert name is not None, "settings name it"
    access = access_of(
        settings.kubeconfig, settings.context, "where requests go", "upstream.service.kubeconfig"
    )
    is_tls, server_name = settings.scheme == HTTPS, settings.address.host

    def others() -> dict[str, str | None]:
        return {each.address.url: server_name for each in endpoints.found.endpoints}

    # Only the API itself may get the credentials for it.
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
    """Which port of a Service's servers to connect to, and the name that is in their certificates.

    The port is a name, or the number at the servers; None for the first one.
    """

    port: str | None
    is_tls: bool
    server_name: str


class Conditions(msgspec.Struct):
    """The state of an endpoint of a slice; None where it is not known."""

    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None


class Target(msgspec.Struct):
    """The object behind an endpoint of a slice."""

    uid: str | None = None


class Endpoint(msgspec.Struct, rename="camel"):
    """An endpoint of a slice."""

    addresses: list[str]
    conditions: Conditions | None = None
    target_ref: Target | None = None


class Port(msgspec.Struct):
    """A port of a slice; one without a number stands for all numbers."""

    name: str | None = None
    port: Annotated[int, msgspec.Meta(gt=0, le=MAX_PORT)] | None = None
    protocol: str | None = None


class Slice(msgspec.Struct, rename="camel"):
    """An EndpointSlice."""

    address_type: str
    endpoints: list[Endpoint] | None = None
    ports: list[Port] | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """The content of slices: the endpoints that count, each once; and why others are left out."""

    endpoints: tuple[EndpointAddress, ...]
    problems: tuple[str, ...]


def endpoints_of(slices: Iterable[Json], wanted: ServicePort) -> Found:
    """The endpoints of a Service; a slice that cannot be used is told and left out as a whole."""
    servers: list[tuple[EndpointAddress, Endpoint]] = []
    problems: list[str] = []
    for each in sorted(slices, key=lambda each: (str(each.get("addressType")), _name(each))):
        try:
            servers += list(_servers(msgspec.convert(each, Slice), wanted))
        except (SliceError, msgspec.ValidationError) as error:
            problems.append(f"EndpointSlice {_name(each)}: {_shown(str(error))}")
    ready, last_resorts = [], []
    for server in servers:
        state = server[1].conditions or Conditions()
        if state.ready is not False:
            ready.append(server)
        elif state.serving is not False and state.terminating:
            last_resorts.append(server)
    by_address: dict[Address, EndpointAddress] = {}
    families: dict[str, bool] = {}  # whether a server, by its identity, counts with IPv6
    for address, endpoint in ready or last_resorts:
        is_v6 = ":" in address.address.host
        identity = endpoint.target_ref and endpoint.target_ref.uid
        if identity and families.setdefault(identity, is_v6) != is_v6:
            continue
        by_address.setdefault(address.address, address)
    return Found(tuple(by_address.values()), tuple(problems))


def _name(slice_: Json) -> str:
    metadata = slice_.get("metadata")
    return str(metadata.get("name", "")) if isinstance(metadata, dict) else ""


def _servers(slice_: Slice, wanted: ServicePort) -> Iterator[tuple[EndpointAddress, Endpoint]]:
    """The endpoints of a slice; SliceError if it has none that can be used."""
    if slice_.address_type not in {"IPv4", "IPv6"}:
        kind = _shown(slice_.address_type)
        raise SliceError(f"addressType: {kind} is not done, want IPv4 or IPv6")
    if not slice_.endpoints:  # null where there are none
        return
    port = _port(slice_.ports or [], wanted)
    for index, endpoint in enumerate(slice_.endpoints):
        first = endpoint.addresses[0] if endpoint.addresses else ""
        try:
            host = str(ipaddress.ip_address(first))
        except ValueError:
            raise SliceError(
                f"endpoints[{index}].addresses: {_shown(first)!r} is no address"
            ) from None
        address = Address(host=host, port=port, is_tls=wanted.is_tls)
        yield EndpointAddress(address=address, server_name=wanted.server_name), endpoint


def _port(ports: list[Port], wanted: ServicePort) -> int:
    """The number of the port that is wanted, at the servers; SliceError if there is none."""
    known = [each for each in ports if each.protocol in (None, "TCP")]
    port = wanted.port or ""
    number = int(port) if port.isascii() and port.isdigit() else None  # names have a letter
    for each in known:
        if number is not None and each.port in (None, number):
            return number
        if each.port is not None and wanted.port in (None, each.name or ""):
            return each.port
    has = ", ".join(f"{each.name or 'unnamed'}={each.port or 'any'}" for each in known)
    which = "no port" if wanted.port is None else f"no port {wanted.port}"
    raise SliceError(f"ports: {which} for TCP ({_shown(has) if has else 'it has none'})")


def _shown(text: str) -> str:
    """A text that a slice may have made, in one short line."""
    return one_line(text[:MAX_SHOWN])
