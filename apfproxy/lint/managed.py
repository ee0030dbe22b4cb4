"""Objects that kube-apiserver would change back, or delete.

Source: Kubernetes documentation, "API Priority and Fairness", "Maintenance of the mandatory and
suggested configuration objects", and "Well-known labels, annotations and taints".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.flowcontrol.preset import KUBERNETES
from apfproxy.lint.findings import MANAGED, Finding
from apfproxy.objects.types import FlowControlObject, kind_of
from apfproxy.objects.validation import PRIORITY_LEVELS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from apfproxy.flowcontrol.preset import Preset

AUTO_UPDATE = "apf.kubernetes.io/autoupdate-spec"


def managed(objects: Iterable[FlowControlObject], preset: Preset = KUBERNETES) -> Iterator[Finding]:
    """Objects whose annotation gives them to kube-apiserver, which has them otherwise.

    Those that are as built in are well, and so are the mandatory ones: no annotation changes who
    keeps them.
    """
    specs = {(kind_of(each), each.metadata.name): each.spec for each in preset.objects()}
    for each in objects:
        kind, name = kind_of(each), each.metadata.name
        if each.metadata.annotations.get(AUTO_UPDATE) != "true" or name in PRIORITY_LEVELS:
            continue
        suggested = specs.get((kind, name))
        if suggested is None:
            message = f'"true" lets kube-apiserver delete this {kind}, which it does not suggest'
        elif suggested != each.spec:
            message = '"true" lets kube-apiserver undo what differs from the suggested object'
        else:
            continue
        yield Finding(MANAGED, kind, name, f"metadata.annotations[{AUTO_UPDATE}]", message)
