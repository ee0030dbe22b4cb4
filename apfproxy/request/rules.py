"""How requests are read where that is a setting: which of them are long-running.

A long-running request may last as long as its client likes: it has no deadline, and takes no seats
unless it is a WATCH, which has them until it began.  What kube-apiserver takes for long-running is
in its code (kubernetes#73421, kubernetes#83200), so before aggregated servers it is often wrong.

A path is long-running that is one of some prefixes, or below one.  Deviation: one that some server
might take for another path is not, since it would take no seats wherever it leads to.  Such paths
are those with dot segments, and those with a character that is not unreserved or a delimiter by
RFC 3986: escapes that are decoded a second time, backslashes, `;` with what belongs to a segment,
and whatever is no ASCII, which may become it.

Source: kubernetes/apiserver pkg/server/filters/longrunning.go.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

SETTING: Final = "request.longRunning"
PLAIN_PATH: Final = re.compile(r"(?:/(?!\.+(?:/|\Z))[A-Za-z0-9._~!$&'()*+,=:@-]*+)*+")
_OF_RESOURCES: Final = ("/api/", "/apis/")


def is_plain_path(path: str) -> bool:
    """Whether every server takes the path, decoded once, for one below its beginning."""
    return PLAIN_PATH.fullmatch(path) is not None


class RequestRules:
    """What makes a request long-running; immutable.

    Args:
        verbs: Of Kubernetes, or methods in small letters.
        subresources: Of resource requests.
        path_prefixes: Each begins with `/`, and is not `/`; one that ends with `/` is of the paths
            below it alone.

    Attributes:
        verbs, subresources, path_prefixes: Each to why it makes a request long-running, in words.
        has_resource_paths: Whether a prefix may be that of a resource.
    """

    __slots__ = ("_below", "has_resource_paths", "path_prefixes", "subresources", "verbs")

    def __init__(
        self,
        verbs: Iterable[str] = (),
        subresources: Iterable[str] = (),
        path_prefixes: Iterable[str] = (),
    ) -> None:
        self.verbs = {each: f"its verb is {each} ({SETTING}.verbs)" for each in verbs}
        self.subresources = {
            each: f"its subresource is {each} ({SETTING}.subresources)" for each in subresources
        }
        self.path_prefixes = {
            each: f"its path begins with {each} ({SETTING}.pathPrefixes)" for each in path_prefixes
        }
        self._below = tuple([f"{each.removesuffix('/')}/" for each in self.path_prefixes])
        self.has_resource_paths = any(below.startswith(_OF_RESOURCES) for below in self._below)

    def by_path(self, path: str) -> str:
        """Why a path makes a request long-running, in words; "" if it does not."""
        if path.startswith(self._below) and is_plain_path(path):
            reasons = zip(self._below, self.path_prefixes.values(), strict=True)
            return next(why for below, why in reasons if path.startswith(below))
        return self.path_prefixes.get(path, "")

    def __repr__(self) -> str:
        named = ", ".join([*self.verbs, *self.subresources, *self.path_prefixes])
        return f"<RequestRules: long-running are {named or 'none'}>"


APISERVER: Final = RequestRules(
    ("watch", "proxy"), ("attach", "exec", "log", "portforward", "proxy"), ("/debug/pprof/",)
)
"""As kube-apiserver has it."""
KUBERNETES: Final = RequestRules(
    APISERVER.verbs, (*APISERVER.subresources, "instantiatebinary"), APISERVER.path_prefixes
)
"""The same with OpenShift's builds, for which clients upload what is built."""
NONE: Final = RequestRules()
