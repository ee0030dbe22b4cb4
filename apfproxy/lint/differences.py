"""How a configuration differs from the built-in objects, as unified diffs of YAML.

Only what a client decides, with defaults: specification, and annotations with a meaning here.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import yaml

from apfproxy.flowcontrol.preset import KUBERNETES
from apfproxy.lint.findings import ADDED, CHANGED, MISSING, Finding
from apfproxy.objects.additions import PREFIX
from apfproxy.objects.types import GROUP, FlowControlObject, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from apfproxy.flowcontrol.preset import Preset

LINE_WIDTH = 100


FINDING_KIND_OF = {
    "changed": (CHANGED, "differs from the built-in object"),
    "missing": (MISSING, "the suggested object is not there"),
    "added": (ADDED, "no built-in object has this name"),
}


class Difference(NamedTuple):
    """One object that is not as it is built in (see `FINDING_KIND_OF`), with a unified diff."""

    change: str
    kind: str
    name: str
    lines: tuple[str, ...]

    def finding(self) -> Finding:
        kind, message = FINDING_KIND_OF[self.change]
        return Finding(kind, self.kind, self.name, "", message)


def differences(
    objects: Iterable[FlowControlObject], preset: Preset = KUBERNETES
) -> list[Difference]:
    """Differences from the built-in objects: changed or missing in their order, then the added."""
    ours = {(kind_of(each), each.metadata.name): each for each in preset.objects()}
    theirs = {(kind_of(each), each.metadata.name): each for each in objects}
    found = []
    for key in [*ours, *sorted(theirs.keys() - ours.keys())]:
        old, new = ours.get(key), theirs.get(key)
        kind, name = key
        lines = tuple(
            difflib.unified_diff(
                yaml_lines(old),
                yaml_lines(new),
                f"built-in {kind}/{name}" if old else "/dev/null",
                f"given {kind}/{name}" if new else "/dev/null",
                lineterm="",
            )
        )
        if lines:
            change = "changed" if old and new else "added" if new else "missing"
            found.append(Difference(change, kind, name, lines))
    return found


def yaml_lines(obj: FlowControlObject | None) -> list[str]:
    """All that a client decides of an object, as lines of YAML in a fixed order."""
    if obj is None:
        return []
    metadata: dict[str, Any] = {"name": obj.metadata.name}
    annotations = {
        key: value
        for key, value in sorted(obj.metadata.annotations.items())
        if key.startswith(PREFIX)
    }
    if annotations:
        metadata["annotations"] = annotations
    shown = {
        "apiVersion": f"{GROUP}/v1",
        "kind": kind_of(obj),
        "metadata": metadata,
        # By way of JSON, since converting to builtins would leave tuples as they are.
        "spec": msgspec.json.decode(msgspec.json.encode(obj.spec)),
    }
    # Only ASCII, so that nothing in it can move the cursor of a terminal.
    text = yaml.safe_dump(shown, sort_keys=False, default_flow_style=None, width=LINE_WIDTH)
    return text.splitlines()
