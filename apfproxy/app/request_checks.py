"""Whether what settings say of requests makes sense for the API behind."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from apfproxy.flowcontrol.preset import PRESETS
from apfproxy.objects.field_errors import closest
from apfproxy.request.attributes import OWN_PATHS
from apfproxy.request.rules import APISERVER, SETTING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from apfproxy.settings import Settings

PREFIXES: Final = "request.pathPrefixes"
VARIABLE: Final = re.compile(r"{[^}]*}")
METHODS: Final = ("get", "head", "post", "put", "patch", "delete", "options")
ORDINARY: Final = (*METHODS, "list", "create", "update", "deletecollection")
"""Verbs of most requests."""
LASTING: Final = ("watch", "proxy")
"""The others that requests to Kubernetes have."""


def request_problems(settings: Settings) -> Iterator[str]:
    """Why it makes none, a line for each reason."""
    named = settings.request.long_running
    yield from _prefix_problems(settings)
    if PRESETS[settings.preset].is_plain:
        if named.subresources:
            yield (
                f"{SETTING}.subresources: with the preset http no path has a subresource; name"
                " paths in pathPrefixes"
            )
    elif named.verbs is not None and "watch" not in named.verbs:
        yield f"{SETTING}.verbs: needs watch, which lasts whatever is said here"
    upgrades = settings.upstream.upgrades
    for path in dict.fromkeys(upgrades.allow):
        if path in upgrades.deny:
            yield f"upstream.upgrades: {path} is in allow and in deny; keep one"


def _prefix_problems(settings: Settings) -> Iterator[str]:
    """What is wrong with patterns of prefixes."""
    is_plain = PRESETS[settings.preset].is_plain
    alike: dict[str, str] = {}
    for pattern in settings.request.path_prefixes:
        if not is_plain and f"{pattern}/".startswith(OWN_PATHS):
            yield (
                f"{PREFIXES}: {pattern} is never found, since what is below /api and /apis is an"
                " API by itself"
            )
        other = alike.setdefault(VARIABLE.sub("{}", pattern), pattern)
        if other is not pattern:
            yield f"{PREFIXES}: {other} and {pattern} are the same; remove one of them"


def request_warnings(settings: Settings) -> Iterator[str]:
    """What may be meant otherwise, a line for each."""
    preset = PRESETS[settings.preset]
    if preset.is_plain and settings.upstream.upgrades.allow:
        yield (
            "upstream.upgrades.allow: with the preset http WebSockets are served on any path; name"
            " exceptions in deny"
        )
    named = settings.request.long_running
    if not preset.is_plain:
        yield from _left_out("verbs", named.verbs, APISERVER.verbs)
        yield from _left_out("subresources", named.subresources, APISERVER.subresources)
        yield from _left_out("pathPrefixes", named.path_prefixes, APISERVER.path_prefixes)
    for verb in named.verbs or ():
        if verb in ORDINARY:
            yield (
                f"{SETTING}.verbs has {verb}: all such requests take no seats, so that nothing"
                " limits them; name subresources or paths instead"
            )
        elif not preset.is_plain and (meant := closest(verb, LASTING)) not in ("", verb):
            yield f"{SETTING}.verbs has {verb}: did you mean {meant}?"


def _left_out(key: str, given: tuple[str, ...] | None, own: Iterable[str]) -> Iterator[str]:
    """A list takes the place of the default, of which something may be missed."""
    missing = [] if given is None else [each for each in own if each not in given]
    if missing:
        yield (
            f"{SETTING}.{key} leaves out {', '.join(missing)}, which kube-apiserver takes for"
            " long-running: here it takes seats, and its time is limited"
        )
