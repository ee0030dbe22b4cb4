"""Whether what settings say of requests makes sense for the API behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from apfproxy.api.schema.mistakes import closest
from apfproxy.flowcontrol.preset import PRESETS
from apfproxy.request.rules import SETTING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apfproxy.settings import Settings

METHODS: Final = ("get", "head", "post", "put", "patch", "delete", "options")
ORDINARY: Final = (*METHODS, "list", "create", "update", "deletecollection")
"""Verbs of most requests."""
LASTING: Final = ("watch", "proxy")
"""The others that requests to Kubernetes have."""


def request_problems(settings: Settings) -> Iterator[str]:
    """Why it makes none, a line for each reason."""
    named = settings.request.long_running
    if PRESETS[settings.preset].is_plain:
        if named.subresources:
            yield (
                f"{SETTING}.subresources: with the preset http no path has a subresource; name"
                " paths in pathPrefixes"
            )
    elif named.verbs is not None and "watch" not in named.verbs:
        yield f"{SETTING}.verbs: needs watch, which lasts whatever is said here"


def request_warnings(settings: Settings) -> Iterator[str]:
    """What may be meant otherwise, a line for each."""
    preset = PRESETS[settings.preset]
    for verb in settings.request.long_running.verbs or ():
        if verb in ORDINARY:
            yield (
                f"{SETTING}.verbs has {verb}: all such requests take no seats, so that nothing"
                " limits them; name subresources or paths instead"
            )
        elif not preset.is_plain and (meant := closest(verb, LASTING)) not in ("", verb):
            yield f"{SETTING}.verbs has {verb}: did you mean {meant}?"
