"""Where to listen, and where to connect."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where to listen or to connect; port 0 lets the system choose.

    Attributes:
        host: An empty one is every address of the machine, where to listen.
        is_tls: Whether to connect with TLS, as a URL says by https.
        path: Of a Unix socket, in place of host and port; else "".
    """

    host: str
    port: int
    is_tls: bool = False
    path: str = ""

    @classmethod
    def unix(cls, path: str) -> Address:
        """The address of a Unix socket; whoever asks for a host and a port gets localhost, 80."""
        return cls(host="localhost", port=80, path=path)

    @property
    def authority(self) -> str:
        """Host and port, as a Host field or a URL has them; "localhost" for a Unix socket."""
        if self.path:
            return self.host
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def from_here(self) -> Address:
        """Where a client on this machine connects to what listens here."""
        host = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)  # noqa: S104 - listened on
        return replace(self, host=host)

    @property
    def url(self) -> str:
        """As an upstream is written: http://HOST:PORT, https://HOST:PORT or unix:/PATH."""
        return str(self) if self.path else f"{'https' if self.is_tls else 'http'}://{self}"

    def __str__(self) -> str:
        return f"unix:{self.path}" if self.path else self.authority


UNSAID = Address(host="", port=0)
"""Stands for the address of an upstream that nobody has named."""

UNIX_MODE = 0o660
"""Of the file of a Unix socket: who may write to it may connect."""
