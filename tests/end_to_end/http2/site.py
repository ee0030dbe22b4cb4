"""A proxy that speaks HTTP/2 with TLS, or without to who knows that it does."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from apfproxy.settings import DownstreamTlsSettings, Http2Settings
from tests.end_to_end.scene import Scene, Setup, running
from tests.support.certificates import Authority

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

CLEARTEXT = Http2Settings(is_cleartext=True)


class Site:
    """The files of a proxy and its clients."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority("servers")
        (folder / "ca.pem").write_bytes(self.authority.pem)
        self._is_tls = False

    def setup(self, base: Setup, *, is_tls: bool) -> Setup:
        if not is_tls:
            return base.with_downstream(http2=CLEARTEXT)
        issued = self.authority.issue("localhost", usage="server")
        certificate, key = issued.write(self.folder, "server")
        tls = DownstreamTlsSettings(certificate_file=certificate, key_file=key)
        return base.with_downstream(tls=tls)

    @contextlib.asynccontextmanager
    async def running(self, base: Setup | None = None, *, is_tls: bool) -> AsyncIterator[Scene]:
        self._is_tls = is_tls
        async with running(self.setup(base or Setup(), is_tls=is_tls)) as scene:
            yield scene

    def url(self, scene: Scene) -> str:
        scheme = "https" if self._is_tls else "http"
        return f"{scheme}://localhost:{scene.process.port}"
