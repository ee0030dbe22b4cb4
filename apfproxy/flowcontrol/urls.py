"""Non-resource URLs, as rules name them: which paths they match.

A URL `/a`, `/a/` or `/a/*` matches what is below `/a/` too; `*` matches everything.

Deviation: a path that some server might take for another one matches a non-resource URL only as a
whole, or by `*` or `/*`.  Kubernetes lets `/healthz/../api/v1/secrets` pass for a part of
`/healthz`, which is harmless before kube-apiserver, which resolves nothing.  Behind this proxy may
be a server that does, and its clients must not choose an exempt priority level so.  Such paths are
named in `request.path_prefixes`.
"""

from __future__ import annotations

from typing import Final

from apfproxy.flowcontrol.subjects import ALL
from apfproxy.request.path_prefixes import is_plain_path

ROOT: Final = "/"


def below(url: str) -> str:
    """What all paths below a URL begin with; below `ROOT` are those too that are not plain."""
    return url.removesuffix(ALL).removesuffix("/") + "/"


def match_url(urls: tuple[str, ...], path: str) -> bool:
    """Whether any of the URLs of a rule matches a path."""
    if ALL in urls or path in urls:
        return True
    prefixes = tuple(map(below, urls))
    return path.startswith(prefixes) and (is_plain_path(path) or ROOT in prefixes)
