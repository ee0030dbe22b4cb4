"""The attributes of a request: what it does to which resource, from its method and target.

Paths of resources (`api` has no groups, `apis` has):

    /api/{version}/{resource}[/{name}[/{subresource}]]
    /api/{version}/namespaces/{namespace}/{resource}[/{name}[/{subresource}]]
    /api/{version}/watch/...     deprecated: a WATCH of what follows
    /api/{version}/proxy/...     deprecated: a proxied request, without subresources
    /apis/{group}/{version}/...  the same

Everything else is a request for a non-resource URL, whose verb is its method in small letters.

Below one of `PathPrefixes` what follows the prefix counts, as if the path began there.  But a path
that is no resource's is matched as a whole by rules: `/clusters/a/healthz` is another one than
`/healthz`, which anybody may ask for without a limit.

Source: kubernetes/apiserver pkg/endpoints/request/requestinfo.go; prefixes as kube-apiserver sets
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from apfproxy.request.list_options import ListOptions, list_options, watch_and_name
from apfproxy.request.rules import KUBERNETES, RequestRules
from apfproxy.request.target import (
    NO_PARAMETERS,
    TargetError,
    decode_path,
    known_parameters,
    split_target,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

VERB_OF_METHOD: Final = {
    "POST": "create",
    "GET": "get",
    "HEAD": "get",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
LISTING_VERBS: Final = frozenset({"list", "watch"})
READ_ONLY_VERBS: Final = LISTING_VERBS | {"get"}
NAMESPACE_SUBRESOURCES: Final = frozenset({"status", "finalize"})
PATH_VERBS: Final = frozenset({"watch", "proxy"})
"""Those with which the deprecated paths begin."""
OWN_PATHS: Final = ("/api/", "/apis/")
"""What is below these is below no other prefix."""


class AttributesError(ValueError):
    """The target of a request makes no sense; the client is at fault."""


class RequestAttributes:
    """What a request does; immutable once it is made.

    Text is decoded: bytes of the target that are not UTF-8 are U+FFFD each.  A field that does not
    apply is "".

    Attributes:
        is_resource_request: Whether the path is that of a resource.
        path: The whole path, decoded but not normalised.
        path_prefix: What of it stands before the API; "" for nothing.
        prefix_value: The variable part of that; "" if it has none, or the path may lead elsewhere.
        verb: Kubernetes' verb of a resource request; "" for a method that has none.
        name: From the path, or the only name that the field selector of a LIST or WATCH lets
            through.
        long_running_by: Why it may last as long as its client likes, in words; "" if it may not.
        is_mutating: Whether it may change anything.
        query: Of the decoded query the parameters that are known, each with its first value.
        list_options: Of a LIST or WATCH only.
        is_plain: Whether the API is not Kubernetes', see `plain_attributes`.
    """

    __slots__ = (
        "api_group",
        "api_prefix",
        "api_version",
        "is_mutating",
        "is_plain",
        "is_resource_request",
        "list_options",
        "long_running_by",
        "name",
        "namespace",
        "path",
        "path_prefix",
        "prefix_value",
        "query",
        "resource",
        "subresource",
        "verb",
    )

    def __init__(  # noqa: PLR0913  one for each that it has
        self,
        *,
        is_resource_request: bool,
        path: str,
        verb: str,
        api_prefix: str = "",
        api_group: str = "",
        api_version: str = "",
        namespace: str = "",
        resource: str = "",
        subresource: str = "",
        name: str = "",
        long_running_by: str = "",
        is_mutating: bool = True,
        query: Mapping[str, tuple[str, ...]] = NO_PARAMETERS,
        list_options: ListOptions | None = None,
        is_plain: bool = False,
    ) -> None:
        self.is_resource_request = is_resource_request
        self.path = path
        self.verb = verb
        self.api_prefix = api_prefix
        self.api_group = api_group
        self.api_version = api_version
        self.namespace = namespace
        self.resource = resource
        self.subresource = subresource
        self.name = name
        self.long_running_by = long_running_by
        self.is_mutating = is_mutating
        self.query = query
        self.list_options = list_options
        self.is_plain = is_plain
        self.path_prefix = ""
        self.prefix_value = ""

    def put_below(self, path: str, prefix: str, value: str) -> None:
        """Be the attributes of a request whose path begins with a prefix, see the attributes."""
        self.path = path
        self.path_prefix = prefix
        self.prefix_value = value

    @property
    def long_running(self) -> bool:
        """Whether it may last as long as its client likes."""
        return self.long_running_by != ""

    @property
    def parts(self) -> tuple[str, ...] | None:
        """The path from the resource on; None for other paths."""
        if not self.is_resource_request:
            return None
        path = self.path[len(self.path_prefix) :]
        parts = path.strip("/").split("/")[3 if self.api_prefix == "apis" else 2 :]
        return tuple(_from_resource(parts[1:] if parts[0] in PATH_VERBS else parts))

    @property
    def group_resource(self) -> str:
        """The resource with its group, such as `pods` or `deployments.apps`."""
        return f"{self.resource}.{self.api_group}" if self.api_group else self.resource

    @property
    def stored_as(self) -> str:
        """The same among those of all prefixes, each of which has other objects."""
        resource = self.group_resource
        return f"{self.path_prefix} {resource}" if self.path_prefix else resource

    def __repr__(self) -> str:
        return f"<RequestAttributes {self.verb} {self.path}>"


def parse_attributes(
    method: str, target: bytes, rules: RequestRules = KUBERNETES
) -> RequestAttributes:
    """The attributes of a request, from the method and target that are forwarded.

    Raises:
        AttributesError: The target makes no sense.
    """
    try:
        raw_path, raw_query = split_target(method, target)
        path = decode_path(raw_path)
    except TargetError as error:
        raise AttributesError(str(error)) from None
    query = known_parameters(raw_query) if raw_query else NO_PARAMETERS
    if rules.api_prefixes is not None and not path.startswith(OWN_PATHS):
        prefix, value = rules.api_prefixes.find(raw_path, path)
        if prefix:
            found = _attributes(method, path[len(prefix) :] or "/", query, rules)
            found.put_below(path, prefix, value)
            return found
    return _attributes(method, path, query, rules)


def _attributes(
    method: str, path: str, query: Mapping[str, tuple[str, ...]], rules: RequestRules
) -> RequestAttributes:
    parts = path.strip("/").split("/")
    prefix, count = parts[0], len(parts)
    if prefix == "api" and count > 2:
        return _resource(method, path, "api", "", parts[1], parts[2:], query, rules)
    if prefix == "apis" and count > 3:
        return _resource(method, path, "apis", parts[1], parts[2], parts[3:], query, rules)
    prefix = "apis" if prefix == "apis" and count == 3 else ""
    return _non_resource(method, path, prefix, query, rules)


def _non_resource(
    method: str,
    path: str,
    prefix: str,
    query: Mapping[str, tuple[str, ...]],
    rules: RequestRules,
) -> RequestAttributes:
    verb = method.lower()
    return RequestAttributes(
        is_resource_request=False,
        path=path,
        verb=verb,
        api_prefix=prefix,
        long_running_by=rules.verbs.get(verb, "") or rules.by_path(path),
        is_mutating=verb not in READ_ONLY_VERBS,
        query=query,
        list_options=list_options(query) if verb in LISTING_VERBS else None,
    )


def _resource(
    method: str,
    path: str,
    prefix: str,
    group: str,
    version: str,
    parts: list[str],
    query: Mapping[str, tuple[str, ...]],
    rules: RequestRules,
) -> RequestAttributes:
    """The attributes of a resource request; `parts` are of the path, behind the version."""
    if parts[0] in PATH_VERBS:  # the deprecated paths that begin with a verb
        verb = parts.pop(0)
        if not parts:
            raise AttributesError(f"request target ends after the verb {verb}")
    else:
        verb = VERB_OF_METHOD.get(method, "")
    namespace = parts[1] if parts[0] == "namespaces" and len(parts) > 1 else ""
    parts = _from_resource(parts)
    count = len(parts)
    name = parts[1] if count > 1 else ""
    subresource = parts[2] if count > 2 and verb != "proxy" else ""
    if not name:
        verb, name = _of_collection(verb, query)
    long_running_by = rules.verbs.get(verb, "") or rules.subresources.get(subresource, "")
    if rules.has_resource_paths and not long_running_by:
        long_running_by = rules.by_path(path)
    return RequestAttributes(
        is_resource_request=True,
        path=path,
        verb=verb,
        api_prefix=prefix,
        api_group=group,
        api_version=version,
        namespace=namespace,
        resource=parts[0],
        subresource=subresource,
        name=name,
        long_running_by=long_running_by,
        is_mutating=verb not in READ_ONLY_VERBS,
        query=query,
        list_options=list_options(query) if verb in LISTING_VERBS else None,
    )


def _from_resource(parts: list[str]) -> list[str]:
    """The parts without the namespace that the resource is in."""
    if len(parts) > 2 and parts[0] == "namespaces" and parts[2] not in NAMESPACE_SUBRESOURCES:
        return parts[2:]
    return parts


def _of_collection(verb: str, query: Mapping[str, tuple[str, ...]]) -> tuple[str, str]:
    """The verb and name of a request whose path has no name."""
    if verb == "get":
        is_watch, name = watch_and_name(query) if query else (False, "")
        return "watch" if is_watch else "list", name
    return "deletecollection" if verb == "delete" else verb, ""
