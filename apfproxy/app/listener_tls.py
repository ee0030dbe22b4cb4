"""TLS towards clients, which may depend on the host that they name; whether they speak HTTP/2.

Where there are several clusters, a client that names a host in its handshake sees the certificate
of that host's cluster, and is asked for its own one by that cluster's CAs.  Any other one sees that
of the whole proxy, and may show a certificate of any cluster's CA.  Which says nothing yet: each
cluster judges a client's certificate by its own CAs again.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from apfproxy.app.clusters import tls_group
from apfproxy.app.identities import client_cas_of
from apfproxy.base.files import FileChanges
from apfproxy.proxy.cluster_router import normal_host
from apfproxy.proxy.http2.available import WHY_NOT, is_offered
from apfproxy.proxy.tls import ServerTls
from apfproxy.settings.change import NO_CHANGE, Change

if TYPE_CHECKING:
    import ssl
    from collections.abc import Hashable

    from apfproxy.app.clusters import Clusters
    from apfproxy.base.tls_files import TlsFile
    from apfproxy.proxy.cluster_router import ClusterRouter
    from apfproxy.settings import DownstreamSettings, Settings

LONGEST_FIELD: Final = 65536
"""In bytes; libnghttp2 takes no longer one, whatever `maxHeadBytes` says."""

logger = logging.getLogger(__name__)


class ListenerTls:
    """The certificate in force; OperatorError if that of the whole proxy cannot be used."""

    def __init__(self, settings: Settings, router: ClusterRouter, clusters: Clusters) -> None:
        self._router = router
        self._clusters = clusters
        self._own: ServerTls | None = None
        self._files = FileChanges()
        self._is_started = False
        self._made_of: object = None
        if clusters.only is None:
            self._own, self._files = self._made(settings)
            self._made_of = parts_of(settings)

    @property
    def current(self) -> ServerTls | None:
        """New connections begin with it; None where clients speak plain HTTP."""
        only = self._clusters.only
        return self._own if only is None else only.identities.server_tls

    def start(self) -> None:
        self._is_started = True
        self._files.start("the certificate")

    def stop(self) -> None:
        self._files.stop()

    async def read_again(self) -> None:
        await self._files.check()

    async def prepare(self, settings: Settings) -> Change:
        if self._clusters.only is not None or parts_of(settings) == self._made_of:
            return NO_CHANGE
        made = await asyncio.to_thread(self._made, settings)
        return Change(lambda: self._put(settings, *made))

    def _put(self, settings: Settings, own: ServerTls | None, files: FileChanges) -> None:
        self.stop()
        self._own, self._files, self._made_of = own, files, parts_of(settings)
        if self._is_started:
            self.start()

    def _made(self, settings: Settings) -> tuple[ServerTls | None, FileChanges]:
        tls, files = settings.downstream.tls, FileChanges()
        if tls.certificate_file is None:
            return None, files
        own = ServerTls(
            tls,
            all_client_cas(settings),
            self._choose,
            offers_http2=is_offered(settings.downstream.http2),
        )
        # One cluster's broken file is that cluster's own problem.
        files.add(own.own_paths, own.load, others=own.ca_paths)
        return own, files

    def _choose(self, name: str) -> tuple[ssl.SSLContext, Hashable] | None:
        """A handshake that names a host goes on with it; None for the one that it began with."""
        group = self._router.group_of(normal_host(name.encode(errors="replace")))
        if group is None:
            return None
        for cluster in self._clusters:
            server_tls = cluster.identities.server_tls
            if server_tls is not None and tls_group(cluster.settings) == group:
                own = self._own
                # The handshake goes on to ask for a client's certificate if it began so.  A cluster
                # that asks for none has no CA to check one with.
                if (
                    own is not None
                    and not server_tls.ca_paths
                    and server_tls.settings == own.settings
                ):
                    server_tls = own
                return server_tls.context, group
        return None


def all_client_cas(settings: Settings) -> tuple[TlsFile, ...]:
    files: dict[str, TlsFile] = {}
    for cluster in settings.clusters:
        if cluster.settings is not None:
            for file in client_cas_of(cluster.settings.authentication):
                files.setdefault(file.path, file)
    return tuple(files.values())


def parts_of(settings: Settings) -> object:
    return settings.downstream.tls, settings.downstream.http2.is_enabled, all_client_cas(settings)


def spoken(downstream: DownstreamSettings) -> str:
    has_tls, http2 = downstream.tls.certificate_file is not None, downstream.http2
    found = " with TLS" if has_tls else ""
    if http2.is_enabled and not WHY_NOT and (has_tls or http2.is_cleartext):
        found += " and HTTP/2" if has_tls else ", with HTTP/2 by prior knowledge"
    return found + (", behind the PROXY protocol" if downstream.proxy_protocol else "")


def warning(downstream: DownstreamSettings) -> str:
    """Why what the settings ask for has no effect; "" if it has, or if they ask for nothing."""
    has_tls, http2, why = downstream.tls.certificate_file is not None, downstream.http2, WHY_NOT
    if not http2.is_enabled:
        why = "downstream.http2.enabled is false"
    elif has_tls:
        why = why or "downstream.tls is on; clients speak HTTP/2 over TLS without it"
    if http2.is_cleartext and why:
        return f"downstream.http2.cleartext has no effect: {why}"
    is_spoken = http2.is_enabled and not WHY_NOT and (has_tls or http2.is_cleartext)
    if is_spoken and downstream.max_head_bytes > LONGEST_FIELD:
        return (
            "downstream.maxHeadBytes: over HTTP/2 one field has 64 KiB at most, and a longer one"
            " gets 431; where clients send such fields, set downstream.http2.enabled to false"
        )
    return ""


def say_why_not(downstream: DownstreamSettings) -> None:
    if text := warning(downstream):
        logger.warning("%s", text)
    elif WHY_NOT and downstream.http2.is_enabled and downstream.tls.certificate_file is not None:
        logger.warning("clients are offered HTTP/1.1 only: %s", WHY_NOT)
