"""Where and how the programs of one comparison run."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from loadtest.builds import THIS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from loadtest.builds import Build
    from loadtest.tls_site import TlsSite


class Site(NamedTuple):
    """Where and how the programs of one comparison run."""

    directory: Path
    """An existing directory for configurations and output."""

    proxy_core: int | None
    """The CPU of each proxy; None leaves it to the scheduler."""

    load_core: int | None
    """The CPU of the origin and of the load generator."""

    adds_headers: bool = False
    """Whether HAProxy and nginx set the fields that apfproxy sets."""

    tls: TlsSite | None = None
    """What proxies and clients speak TLS with, if they do."""

    upstream_tls: TlsSite | None = None
    """What proxies and the origin speak TLS with, if they do."""

    http2: bool = False
    """Whether clients speak HTTP/2 to the proxies; HTTP/1.1 otherwise."""

    features: Sequence[str] | None = None
    """What `WITH` has on and apfproxy has not; None leaves apfproxy its defaults."""

    builds: Mapping[str, Build] = MappingProxyType({"apfproxy": THIS})
    """Each apfproxy's name, and what it is; `WITH` is the last of them."""

    token_file: Path | None = None
    """The tokens that apfproxy knows; without, it believes identity headers."""
