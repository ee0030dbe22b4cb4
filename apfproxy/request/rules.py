"""How requests are read where that is a setting: which are long-running, and where APIs begin.

A long-running request may last as long as its client likes: it has no deadline, and takes no seats
unless it is a WATCH, which has them until it began.  What kube-apiserver takes for long-running is
in its code (kubernetes#73421, kubernetes#83200), so before aggregated servers it is often wrong.

A path is long-running that is one of some prefixes, or below one.  Deviation: one that some server
might take for another path, see `path_prefixes`, is not, since it would take no seats wherever it
leads to.

Source: kubernetes/apiserver pkg/server/filters/longrunning.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from apfproxy.request.path_prefixes import PathPrefixes, is_plain_path

if TYPE_CHECKING:
    from collections.abc import Iterable

SETTING: Final = "request.longRunning"
_OF_RESOURCES: Final = ("/api/", "/apis/")


class RequestRules:
    """What makes a request long-running, and where APIs begin; immutable.

    Args:
        verbs: Of Kubernetes, or methods in small letters.
        path_prefixes: Each begins with `/`, and is not `/`; one that ends with `/` is of the paths
            below it alone.
        api_prefixes: Patterns for `PathPrefixes`.

    Attributes:
        verbs, subresources, path_prefixes: Each to why it makes a request long-running, in words.
    """

    def __init__(
        self,
        verbs: Iterable[str] = (),
        subresources: Iterable[str] = (),
        path_prefixes: Iterable[str] = (),
        api_prefixes: Iterable[str] = (),
    ) -> None:
        self.verbs = {each: f"its verb is {each} ({SETTING}.verbs)" for each in verbs}
        self.subresources = {
            each: f"its subresource is {each} ({SETTING}.subresources)" for each in subresources
        }
        self.path_prefixes = {
            each: f"its path begins with {each} ({SETTING}.pathPrefixes)" for each in path_prefixes
        }
        patterns = tuple(api_prefixes)
        self.api_prefixes = PathPrefixes(patterns) if patterns else None
        self._below = tuple([f"{each.removesuffix('/')}/" for each in self.path_prefixes])
        self.has_resource_paths = any(below.startswith(_OF_RESOURCES) for below in self._below)

    def by_path(self, path: str) -> str:
        """Why a path makes a request long-running, in words; "" if it does not."""
        if path.startswith(self._below) and is_plain_path(path):
            reasons = zip(self._below, self.path_prefixes.values(), strict=True)
            return next(why for below, why in reasons if path.startswith(below))
        return self.path_prefixes.get(path, "")


APISERVER: Final = RequestRules(
    ("watch", "proxy"), ("attach", "exec", "log", "portforward", "proxy"), ("/debug/pprof/",)
)
"""As kube-apiserver has it."""
KUBERNETES: Final = RequestRules(
    APISERVER.verbs, (*APISERVER.subresources, "instantiatebinary"), APISERVER.path_prefixes
)
"""The same with OpenShift's builds, for which clients upload what is built."""
NONE: Final = RequestRules()
