"""The servers of a Service in a Kubernetes API as endpoints: its EndpointSlices, watched.

1. An endpoint counts while it is ready, which it is unless its conditions say otherwise.  One that
   is terminating is not ready, and so is drained.
2. While none is ready, those count that terminate but still serve, as for kube-proxy.
3. Of several addresses of an endpoint the first one counts; the others have no meaning.
4. A server with an IPv4 and an IPv6 address, of two slices, counts once, where the slices tell
   which object it is.
5. Nodes and zones do not matter.  Names in place of addresses (FQDN) are left out.

The last endpoints stay in use while the API cannot be asked.  A Service without endpoints has none:
addresses of pods that are gone may be those of others now.  (kube-apiserver never empties its own
Service, `default/kubernetes`: kubernetes, pkg/controlplane/reconcilers/lease.go.)

Source: Kubernetes documentation, "EndpointSlices"; the types of discovery.k8s.io/v1; KEP-1669
"Proxy Terminating Endpoints".
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from typing import TYPE_CHECKING, Annotated

import msgspec

from apfproxy.base.faults import Part
from apfproxy.objects.field_errors import one_line
from apfproxy.settings import HTTPS, Address, EndpointAddress
from apfproxy.sources.reflector import Reflector, Resource
from apfproxy.upstream.found_endpoints import FoundEndpoints

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator

    from apfproxy.settings import ServiceSettings
    from apfproxy.sources.kubernetes_api import Json, KubernetesApi

GROUP = "discovery.k8s.io"
SERVICE_LABEL = "kubernetes.io/service-name"  # the label of a slice with the name of its Service

MAX_PORT = 65535
MAX_SHOWN = 100  # characters of a slice's content
MAX_TOLD = 3  # slices that a problem names

logger = logging.getLogger(__name__)


class ServiceEndpoints:
    def __init__(
        self,
        api: KubernetesApi,
        service: ServiceSettings,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.name = f"Service {service.namespace}/{service.name}"
        self.leave, self.close = api.leave, api.close
        self.found = FoundEndpoints(self.name)
        self._api = api
        self._service = service
        self._left_out: tuple[str, ...] = ()
        self.reflector = Reflector(
            api,
            Resource(
                kind="EndpointSlice",
                plural="endpointslices",
                group=GROUP,
                versions=("v1",),
                right="the role of config/kubernetes/rbac/endpoints.yaml",
                namespace=service.namespace,
                selector=f"{SERVICE_LABEL}={service.name}",
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
        endpoints, problems = endpoints_of(self.reflector.objects.values(), self._service)
        before, self._left_out = self._left_out, problems[:MAX_TOLD]
        for problem in self._left_out:
            if problem not in before:
                logger.warning("%s: left out: %s", self.name, problem)
        self.found.put(endpoints)


class SliceError(Exception):
    """Says why a slice cannot be used."""


class Conditions(msgspec.Struct):
    """None where it is not known."""

    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None


class Target(msgspec.Struct):
    uid: str | None = None


class Endpoint(msgspec.Struct, rename="camel"):
    addresses: list[str]
    conditions: Conditions | None = None
    target_ref: Target | None = None


class Port(msgspec.Struct):
    """One without a number stands for all numbers."""

    name: str | None = None
    port: Annotated[int, msgspec.Meta(gt=0, le=MAX_PORT)] | None = None
    protocol: str | None = None


class Slice(msgspec.Struct, rename="camel"):
    address_type: str
    endpoints: list[Endpoint] | None = None
    ports: list[Port] | None = None


def endpoints_of(
    slices: Iterable[Json], service: ServiceSettings
) -> tuple[tuple[EndpointAddress, ...], tuple[str, ...]]:
    """The endpoints that count, each once; and why slices, each as a whole, are left out."""
    servers: list[tuple[EndpointAddress, Endpoint]] = []
    problems: list[str] = []
    for each in sorted(slices, key=lambda each: (str(each.get("addressType")), _name(each))):
        try:
            servers += list(_servers(msgspec.convert(each, Slice), service))
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
    return tuple(by_address.values()), tuple(problems)


def _name(slice_: Json) -> str:
    metadata = slice_.get("metadata")
    return str(metadata.get("name", "")) if isinstance(metadata, dict) else ""


def _servers(slice_: Slice, service: ServiceSettings) -> Iterator[tuple[EndpointAddress, Endpoint]]:
    """The endpoints of a slice; SliceError if it has none that can be used."""
    if slice_.address_type not in {"IPv4", "IPv6"}:
        kind = _shown(slice_.address_type)
        raise SliceError(f"addressType: {kind} is not done, want IPv4 or IPv6")
    if not slice_.endpoints:  # null where there are none
        return
    port = _port(slice_.ports or [], service.port)
    for index, endpoint in enumerate(slice_.endpoints):
        first = endpoint.addresses[0] if endpoint.addresses else ""
        try:
            host = str(ipaddress.ip_address(first))
        except ValueError:
            raise SliceError(
                f"endpoints[{index}].addresses: {_shown(first)!r} is no address"
            ) from None
        address = Address(host=host, port=port, is_tls=service.scheme == HTTPS)
        yield EndpointAddress(address=address, server_name=service.address.host), endpoint


def _port(ports: list[Port], wanted: str | None) -> int:
    """The number at the servers of the port of a name or number, or the first; SliceError."""
    known = [each for each in ports if each.protocol in (None, "TCP")]
    # Names have a letter.
    number = int(wanted) if wanted and wanted.isascii() and wanted.isdigit() else None
    for each in known:
        if number is not None and each.port in (None, number):
            return number
        if each.port is not None and wanted in (None, each.name or ""):
            return each.port
    has = ", ".join(f"{each.name or 'unnamed'}={each.port or 'any'}" for each in known)
    which = "no port" if wanted is None else f"no port {wanted}"
    raise SliceError(f"ports: {which} for TCP ({_shown(has) if has else 'it has none'})")


def _shown(text: str) -> str:
    return one_line(text[:MAX_SHOWN])
