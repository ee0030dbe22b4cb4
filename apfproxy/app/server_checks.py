"""Whether it is clear where the servers behind are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.settings import MAX_ENDPOINTS, UNSAID, ServiceSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apfproxy.settings import Address, EndpointSettings, UpstreamSettings

WITHOUT_UPSTREAM = (
    "upstream.url: say where to forward, here or by --upstream URL; or by upstream.endpoints,"
    " upstream.dns or upstream.service"
)
"""What settings are told that name no server."""


def ways_to_servers(upstream: UpstreamSettings) -> list[str]:
    """The settings that say where the servers are."""
    given = {
        "upstream.url (--upstream)": upstream.url != UNSAID,
        "upstream.endpoints (--upstream, repeated)": upstream.endpoints != (),
        "upstream.dns (--upstream-dns)": upstream.dns != UNSAID,
        "upstream.service (--upstream-service)": upstream.service != ServiceSettings(),
    }
    return [way for way, is_given in given.items() if is_given]


def server_problems(upstream: UpstreamSettings) -> Iterator[str]:
    """Why it is not clear, a line for each reason."""
    service, ways = upstream.service, ways_to_servers(upstream)
    if len(ways) > 1:
        yield f"give only one of {' and '.join(ways)}: each says where to forward"
    if service != ServiceSettings() and service.name is None:
        yield "upstream.service: needs name, which says whose servers to forward to"
    if service.context is not None and service.kubeconfig is None:
        yield "upstream.service.context: needs upstream.service.kubeconfig, which has the contexts"
    if upstream.ejection.max_pause_s < upstream.ejection.pause_s:
        yield "upstream.ejection: maxPause is shorter than pause"
    if len(upstream.endpoints) > MAX_ENDPOINTS:
        yield f"upstream.endpoints (--upstream): more than {MAX_ENDPOINTS}"
    else:
        yield from _endpoint_problems(upstream.endpoints)


def _endpoint_problems(endpoints: tuple[EndpointSettings, ...]) -> Iterator[str]:
    seen: dict[Address, str] = {}
    for index, each in enumerate(endpoints):
        where, first = f"upstream.endpoints[{index}]", next(iter(seen), each.url)
        if each.url == UNSAID:
            yield f"{where}: needs url"
            continue
        if each.url in seen:
            yield (
                f"{where}: {each.url.url} is {seen[each.url]} already; give a server that takes"
                " more of the work a larger weight"
            )
        elif each.url.is_tls != first.is_tls:
            yield (
                f"{where}: {each.url.url} is not of the scheme of {first.url}; servers of one API"
                " have TLS, or none of them has"
            )
        seen.setdefault(each.url, where)
