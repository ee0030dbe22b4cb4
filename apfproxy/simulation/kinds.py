"""Requests that are alike: one who asks and what is asked, looked at once for many of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from apfproxy.flowcontrol.preset import KUBERNETES
from apfproxy.request.attributes import RequestAttributes, User, request_timeout_ns

if TYPE_CHECKING:
    from collections.abc import Hashable

    from apfproxy.flowcontrol.preset import Preset

DEFAULT_TIMEOUT_NS = 60_000_000_000
"""How long a request may take that says nothing about it, as in the proxy's settings."""


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """One kind of requests; compared by identity, so that looking it up costs next to nothing.

    Attributes:
        client: Who asks, as reports name it.
        user: Who asks, as FlowSchemas see it.
        attributes: What is asked.
        timeout_ns: How long one may take, unless it is long-running.
        seats: What each of them takes; 0 to have that estimated.
        headers: Header fields that FlowSchemas may look at: names in lower case, and values.
    """

    client: str
    user: User
    attributes: RequestAttributes
    timeout_ns: int
    seats: int = 0
    headers: tuple[tuple[str, str], ...] = ()


def essence(kind: Kind, *, with_names: bool) -> tuple[Hashable, ...]:
    """What of a kind decides anything; two kinds with one essence are alike.

    `with_names` has the names of objects that are written to count: WATCHes of single objects make
    writes to them, and to no others, wider.  Names of objects that are read never count.
    """
    attributes = kind.attributes
    verb = attributes.verb
    is_read = attributes.is_resource_request and not attributes.is_mutating
    has_name = with_names or is_read
    return (
        kind.user,
        kind.timeout_ns,
        kind.seats,
        kind.headers,
        verb,
        attributes.api_group,
        attributes.resource,
        attributes.subresource,
        attributes.namespace,
        attributes.name if has_name and verb != "get" else "",
        attributes.path_prefix if attributes.is_resource_request else attributes.path,
        attributes.prefix_value,
        None if attributes.list_options is None else attributes.list_options.values,
        attributes.query.get("fieldSelector") if verb == "watch" else None,
    )


def kind_of(
    client: str,
    user: User,
    method: str,
    target: str,
    seats: int = 0,
    headers: tuple[tuple[str, str], ...] = (),
    preset: Preset = KUBERNETES,
) -> Kind:
    """The kind of requests with a method and a target, to a kind of API.

    AttributesError or DeadlineError if nothing can be made of the target or of its `timeout`.
    """
    attributes = preset.attributes_of(method, target.encode("utf-8", "surrogateescape"))
    timeout_ns = request_timeout_ns(attributes, DEFAULT_TIMEOUT_NS)
    return Kind(client, user, attributes, timeout_ns, seats, headers)
