"""The cluster that a request is of: by the host that it names, and the begin of its path.

1. A host is compared in lower case, without its port and without a dot at its end.
2. `*.example.com` is any host below example.com, however many labels it has more; not example.com.
3. A path begins with a prefix up to a `/`, a `?` or its end.  Both are compared byte by byte: what
   is escaped, or has a `.` segment or a double `/`, is another path.
4. Of several clusters a host that is named in full counts before a wildcard, a longer wildcard
   before a shorter one, and any before a cluster without hosts; then the longer prefix.
5. The prefix is taken off before anything else reads the path.

A request whose Host field is malformed, or whose method, target and fields cannot be told apart,
gets the response that it would get without clusters.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from apfproxy.http.grammar import HOST, HeadError
from apfproxy.http.request_head import parse_head

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from apfproxy.http.request_fields import FieldRules
    from apfproxy.proxy.context import Context

_HOST_LINES: Final = re.compile(rb"\r\n[Hh][Oo][Ss][Tt]:[ \t]*([^\r\n]*)")
_SCHEMES: Final = (b"http://", b"https://")
_ENDS: Final = b"/?"

MAX_HOST_BYTES: Final = 260
"""A longer one is no one's: names have 253 characters, and a port has five."""
MAX_SHOWN_BYTES: Final = 100
"""Bytes shown of a host or a path, to a client that no one knows."""
RETRY_AFTER_S: Final = 10


class Route:
    """The way to one cluster.

    Attributes:
        hosts: In lower case, without port; `*.` and a name for all below; none for any host.
        prefix: Of paths, without a `/` at its end; b"" for any path.
        context: None while the cluster cannot be used; `absence` says why.
        tls_group: Clusters with equal ones may share a connection with TLS.
    """

    def __init__(
        self,
        name: str,
        hosts: Sequence[str],
        prefix: bytes,
        context: Context | None,
        absence: str = "",
        tls_group: Hashable = None,
        max_connections: int | None = None,
        retry_after_s: int = RETRY_AFTER_S,
    ) -> None:
        self.name = name
        self.hosts = tuple(hosts)
        self.prefix = prefix
        self.context = context
        self.absence = absence
        self.tls_group = tls_group
        self.max_connections = max_connections
        self.retry_after_s = retry_after_s

    def __repr__(self) -> str:
        return f"<Route to {self.name}: {self.hosts} {self.prefix!r}>"


class _Places:
    def __init__(self) -> None:
        self.routes: dict[bytes, Route] = {}
        self._lengths: list[int] = []
        self.groups: set[Hashable] = set()

    def add(self, route: Route) -> None:
        self.routes.setdefault(route.prefix, route)
        self._lengths = sorted({len(prefix) for prefix in self.routes}, reverse=True)
        self.groups.add(route.tls_group)

    def find(self, path: bytes) -> Route | None:
        size = len(path)
        for length in self._lengths:
            if length > size or (0 < length < size and path[length] not in _ENDS):
                continue
            route = self.routes.get(path[:length])
            if route is not None:
                return route
        return None


class ClusterRouter:
    """Knows the clusters behind a listener.

    `only` is that of all requests, where there are no others; `rules` are for heads without a host.
    """

    def __init__(self, only: Context | None = None, rules: FieldRules | None = None) -> None:
        self.only = only
        self.rules = rules
        self.routes: tuple[Route, ...] = ()
        self._places: dict[bytes, _Places] = {}
        """By hosts as routes have them, wildcards among them; b"" for any host."""
        self._has_wildcards = self.has_prefixes = False

    def put(self, routes: Iterable[Route], only: Context | None = None) -> None:
        """Have these routes; the first of the same hosts and prefix counts."""
        self.routes = tuple(routes)
        self.only = only
        self._places = {}
        self.has_prefixes = any(route.prefix for route in self.routes)
        for route in self.routes:
            for host in route.hosts or ("",):
                self._places.setdefault(host.encode(), _Places()).add(route)
        self._has_wildcards = any(host.startswith(b"*.") for host in self._places)

    def route(self, head: bytes, known_host: bytes | None = None) -> tuple[Route, bytes, bytes]:
        """The route of a request, its host, and its head without the prefix; or HeadError."""
        host = self._host_of(head) if known_host is None else known_host
        start = head.find(b" ") + 1
        end = head.find(b" ", start)
        target = head[start:end]
        at = start
        if target[:1] != b"/":
            at += _path_of_url(target)
        path = head[at:end]
        route = self.find(normal_host(host), path)
        if route is None:
            raise HeadError(404, _unknown(host, path))
        if route.context is None:
            who = f"the cluster {route.name}" if route.name else "the proxy"
            retry_after = b"Retry-After: %d\r\n" % route.retry_after_s
            raise HeadError(503, f"{who} {route.absence}", retry_after)
        if not route.prefix:
            return route, host, head
        rest = path[len(route.prefix) :]
        slash = b"" if rest[:1] == b"/" else b"/"
        return route, host, b"".join((head[:at], slash, rest, head[end:]))

    def find(self, host: bytes, path: bytes) -> Route | None:
        """The route of a host, as `normal_host` writes it, and a path with its query."""
        for places in self._places_of(host):
            found = places.find(path)
            if found is not None:
                return found
        return None

    def group_of(self, host: bytes) -> Hashable:
        """The TLS group of all clusters that requests to a host may be of; None if they differ."""
        groups: set[Hashable] = set()
        for places in self._places_of(host):
            groups.update(places.groups)
            if b"" in places.routes:
                break
        return groups.pop() if len(groups) == 1 else None

    def _places_of(self, host: bytes) -> list[_Places]:
        keys = [host]
        at = host.find(b".", 1) if self._has_wildcards else -1
        while at >= 0:
            keys.append(b"*" + host[at:])
            at = host.find(b".", at + 1)
        keys.append(b"")
        return [self._places[key] for key in keys if key in self._places]

    def _host_of(self, head: bytes) -> bytes:
        lines: list[bytes] = _HOST_LINES.findall(head)
        if len(lines) == 1:
            host = lines[0].rstrip(b" \t")
            if HOST.fullmatch(host):
                return host
        assert self.rules is not None
        return parse_head(head, self.rules).fields.host or b""

    def __repr__(self) -> str:
        return f"<ClusterRouter: {self.only or self.routes!r}>"


def normal_host(host: bytes) -> bytes:
    """The host of a Host field: lower case, without port, brackets, last dot; b"" if too long."""
    if len(host) > MAX_HOST_BYTES:
        return b""
    host = host.lower()
    if host[:1] == b"[":
        return host[1:].partition(b"]")[0]
    return host.partition(b":")[0].removesuffix(b".")


def _path_of_url(target: bytes) -> int:
    """Where the path of a target begins that is a URL; its length if it has none, or is no URL."""
    lower = target[:8].lower()
    for scheme in _SCHEMES:
        if lower.startswith(scheme):
            for at in range(len(scheme), len(target)):
                if target[at] in _ENDS:
                    return at
    return len(target)


def _unknown(host: bytes, path: bytes) -> str:
    shown = host[:MAX_SHOWN_BYTES].decode(errors="replace")
    where = path.partition(b"?")[0][:MAX_SHOWN_BYTES].decode(errors="replace")
    return f'no cluster is behind the host "{shown}" with the path "{where}"'
