"""The metric that names the objects of the UIDs in answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.samples import Sample

from apfproxy.admin.families import in_parts
from apfproxy.admin.proxy_metrics import PREFIX
from apfproxy.flowcontrol.level_summary import FLOW_SCHEMA, named_objects

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.core import Metric

    from apfproxy.flowcontrol.controller import Controller

NAME = f"{PREFIX}flowcontrol_object_info"


def object_families(controller: Controller) -> Iterator[Metric]:
    """A series for each priority level and for each FlowSchema that an answer may have named."""
    used = {each.flow_schema for each in controller.flow_schema_counters()}
    samples = (
        Sample(NAME, {"kind": each.kind, "name": each.name, "uid": each.uid}, 1)
        for each in named_objects(controller)
        if each.kind != FLOW_SCHEMA or each.name in used
    )
    return in_parts(
        NAME.removesuffix("_info"), "Objects by the UIDs that answers name them by", "info", samples
    )
