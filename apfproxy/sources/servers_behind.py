"""The servers behind the proxy as those of a Kubernetes API that the proxy itself asks.

Where the API that a kubeconfig leads to is one of the servers behind, all of them are that API.
Then each of them may be asked, so that what the proxy has to know does not hang on one.  No other
server gets the credentials for an API.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from apfproxy.settings import HTTP, HTTPS, UNSAID

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from apfproxy.settings import UpstreamSettings

# Namespace and name of the Service whose servers are those of the API itself.
OF_THE_API = ("default", "kubernetes")
PORTS = {HTTP: 80, HTTPS: 443}


@dataclass(frozen=True, slots=True)
class ServersBehind:
    """The servers behind, by their settings as they are now.

    `urls` has their URLs, in the order in which to ask them, with the names in their certificates
    if those are not the hosts.
    """

    settings: Callable[[], UpstreamSettings]
    urls: Callable[[], Mapping[str, str | None]]

    def of_api(
        self, server: str, kubeconfig: str | None, context: str | None
    ) -> Mapping[str, str | None]:
        """All servers of the API at a URL, if it is the one behind; none if it is another."""
        service, parts = self.settings().service, urlsplit(server)
        if service.name is None:
            return {} if parts.path.strip("/") else self.like(server)
        is_same = (
            (service.namespace, service.name) == OF_THE_API
            and (service.kubeconfig, service.context) == (kubeconfig, context)
            and (service.scheme, parts.scheme) == (HTTPS, HTTPS)
        )
        return self.urls() if is_same else {}

    def like(self, url: str) -> Mapping[str, str | None]:
        """All servers, if the one of a URL is among those that the settings name; else none."""
        upstream = self.settings()
        named = [each.address for each in upstream.addresses]
        if upstream.dns != UNSAID:
            named.append(upstream.dns)
        at = place_of(url)
        is_named = at is not None and at in (place_of(each.url) for each in named)
        return self.urls() if is_named else {}


def place_of(url: str) -> tuple[str, str, int] | None:
    """Scheme, host and port; None if it cannot be a server's own URL, or is a Unix socket's."""
    parts = urlsplit(url)
    try:
        port = parts.port or PORTS[parts.scheme]
    except (KeyError, ValueError):
        return None
    return parts.scheme, parts.hostname or "", port
