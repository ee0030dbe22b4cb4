"""The kinds of objects that are served."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.api.apps.kinds import CONTROLLERS
from apfproxy.api.coordination.kinds import LEASE
from apfproxy.api.core.configuration_kinds import CONFIG_MAP, SECRET, SERVICE_ACCOUNT
from apfproxy.api.core.kinds import NAMESPACE, POD
from apfproxy.api.core.nodes import NODE
from apfproxy.api.events.kinds import EVENT_OF_CORE, EVENT_OF_EVENTS
from apfproxy.api.flowcontrol.kinds import FLOW_SCHEMA, PRIORITY_LEVEL_CONFIGURATION
from apfproxy.api.policy.kinds import POD_DISRUPTION_BUDGET
from apfproxy.api.resource.kinds import RESOURCE_SLICE

if TYPE_CHECKING:
    from apfproxy.api.kind import Kind

FLOW_CONTROL_KINDS: tuple[Kind, ...] = (FLOW_SCHEMA, PRIORITY_LEVEL_CONFIGURATION)
"""What a proxy keeps its own configuration in."""

KINDS: tuple[Kind, ...] = (
    NAMESPACE,
    POD,
    CONFIG_MAP,
    SECRET,
    SERVICE_ACCOUNT,
    NODE,
    EVENT_OF_CORE,
    *CONTROLLERS,
    EVENT_OF_EVENTS,
    POD_DISRUPTION_BUDGET,
    LEASE,
    RESOURCE_SLICE,
    *FLOW_CONTROL_KINDS,
)
"""All that there are, groups in the order in which Kubernetes tells them."""
