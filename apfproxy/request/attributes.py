"""The attributes of a request: what it does to which resource, from its method and target.

Paths of resources (`api` has no groups, `apis` has):

    /api/{version}/{resource}[/{name}[/{subresource}]]
    /api/{version}/namespaces/{namespace}/{resource}[/{name}[/{subresource}]]
    /api/{version}/watch/...     deprecated: a WATCH of what follows
    /api/{version}/proxy/...     deprecated: a proxied request, without subresources
    /apis/{group}/{version}/...  the same

Everything else is a request for a non-resource URL, whose verb is its method in small letters.

Source: kubernetes/apiserver pkg/endpoints/request/requestinfo.go and
pkg/server/filters/longrunning.go; prefixes, verbs and subresources as kube-apiserver sets them.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003  compiled, the class has it at run time

import msgspec

from apfproxy.request.list_options import ListOptions, list_options, watch_and_name
from apfproxy.request.target import NO_PARAMETERS, TargetError, known_parameters, split_target

VERB_OF_METHOD = {
    "POST": "create",
    "GET": "get",
    "HEAD": "get",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
LISTING_VERBS = frozenset({"list", "watch"})
READ_ONLY_VERBS = LISTING_VERBS | {"get"}
NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})
LONG_RUNNING_VERBS = frozenset({"watch", "proxy"})
LONG_RUNNING_SUBRESOURCES = frozenset({"attach", "exec", "proxy", "log", "portforward"})
PROFILING_PREFIX = "/debug/pprof/"


class AttributesError(ValueError):
    """The target of a request makes no sense; the client is at fault."""


class RequestAttributes(msgspec.Struct, frozen=True):
    """What a request does.

    Text is decoded: bytes of the target that are not UTF-8 are U+FFFD each.  A field that does not
    apply is "".

    Attributes:
        is_resource_request: Whether the path is that of a resource.
        path: The whole path, decoded but not normalised.
        verb: Kubernetes' verb of a resource request; "" for a method that has none.
        name: From the path, or the only name that the field selector of a LIST or WATCH lets
            through.
        long_running: Whether it may last as long as its client likes.
        is_mutating: Whether it may change anything.
        query: Of the decoded query the parameters that are known, each with its first value.
        list_options: Of a LIST or WATCH only.
        is_plain: Whether the API is not Kubernetes', see `plain_attributes`.
    """

    is_resource_request: bool
    path: str
    verb: str
    api_prefix: str = ""
    api_group: str = ""
    api_version: str = ""
    namespace: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""
    long_running: bool = False
    is_mutating: bool = True
    query: Mapping[str, tuple[str, ...]] = NO_PARAMETERS
    list_options: ListOptions | None = None
    is_plain: bool = False

    @property
    def parts(self) -> tuple[str, ...] | None:
        """The path from the resource on; None for other paths."""
        if not self.is_resource_request:
            return None
        parts = self.path.strip("/").split("/")[3 if self.api_prefix == "apis" else 2 :]
        return tuple(_from_resource(parts[1:] if parts[0] in LONG_RUNNING_VERBS else parts))

    @property
    def group_resource(self) -> str:
        """The resource with its group, such as `pods` or `deployments.apps`."""
        return f"{self.resource}.{self.api_group}" if self.api_group else self.resource


def parse_attributes(method: str, target: bytes) -> RequestAttributes:
    """The attributes of a request, from the method and target that are forwarded.

    Raises:
        AttributesError: The target makes no sense.
    """
    try:
        path, raw_query = split_target(method, target)
    except TargetError as error:
        raise AttributesError(str(error)) from None
    query = known_parameters(raw_query) if raw_query else NO_PARAMETERS
    match path.strip("/").split("/"):
        case ["api", version, *parts] if parts:
            return _resource(method, path, ("api", "", version), parts, query)
        case ["apis", group, version, *parts] if parts:
            return _resource(method, path, ("apis", group, version), parts, query)
        case ["apis", _, _]:
            return _non_resource(method, path, "apis", query)
        case _:
            return _non_resource(method, path, "", query)


def _non_resource(
    method: str, path: str, prefix: str, query: Mapping[str, tuple[str, ...]]
) -> RequestAttributes:
    verb = method.lower()
    return RequestAttributes(
        is_resource_request=False,
        path=path,
        verb=verb,
        api_prefix=prefix,
        long_running=verb in LONG_RUNNING_VERBS or path.startswith(PROFILING_PREFIX),
        is_mutating=verb not in READ_ONLY_VERBS,
        query=query,
        list_options=list_options(query) if verb in LISTING_VERBS else None,
    )


def _resource(
    method: str,
    path: str,
    api: tuple[str, str, str],
    parts: list[str],
    query: Mapping[str, tuple[str, ...]],
) -> RequestAttributes:
    """The attributes of a resource request, of API prefix, group, version and parts of the path."""
    if parts[0] in LONG_RUNNING_VERBS:  # the deprecated paths that begin with a verb
        verb = parts.pop(0)
        if not parts:
            raise AttributesError(f"request target ends after the verb {verb}")
    else:
        verb = VERB_OF_METHOD.get(method, "")
    namespace = parts[1] if parts[0] == "namespaces" and len(parts) > 1 else ""
    parts = _from_resource(parts)
    resource, name, subresource, *_ = (*parts, "", "")
    if verb == "proxy":
        subresource = ""
    if not name:
        verb, name = _of_collection(verb, query)
    return RequestAttributes(
        is_resource_request=True,
        path=path,
        verb=verb,
        api_prefix=api[0],
        api_group=api[1],
        api_version=api[2],
        namespace=namespace,
        resource=resource,
        subresource=subresource,
        name=name,
        long_running=verb in LONG_RUNNING_VERBS or subresource in LONG_RUNNING_SUBRESOURCES,
        is_mutating=verb not in READ_ONLY_VERBS,
        query=query,
        list_options=list_options(query) if verb in LISTING_VERBS else None,
    )


def _from_resource(parts: list[str]) -> list[str]:
    """The parts without the namespace that the resource is in."""
    match parts:
        case ["namespaces", _, resource, *_] if resource not in NAMESPACE_SUBRESOURCES:
            return parts[2:]
    return parts


def _of_collection(verb: str, query: Mapping[str, tuple[str, ...]]) -> tuple[str, str]:
    """The verb and name of a request whose path has no name."""
    if verb == "get":
        is_watch, name = watch_and_name(query) if query else (False, "")
        return "watch" if is_watch else "list", name
    return "deletecollection" if verb == "delete" else verb, ""
