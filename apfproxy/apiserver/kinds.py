"""The kinds of objects that are served."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.apiserver.apps import CONTROLLERS
from apfproxy.apiserver.coordination import LEASE
from apfproxy.apiserver.core.cluster import CONFIG_MAP, NAMESPACE, NODE, SECRET, SERVICE_ACCOUNT
from apfproxy.apiserver.core.pods import POD
from apfproxy.apiserver.events import EVENT_OF_CORE, EVENT_OF_EVENTS
from apfproxy.apiserver.flowcontrol import FLOW_SCHEMA, PRIORITY_LEVEL_CONFIGURATION
from apfproxy.apiserver.policy import POD_DISRUPTION_BUDGET
from apfproxy.apiserver.resource import RESOURCE_SLICE
from apfproxy.apiserver.reviews import REVIEWS

if TYPE_CHECKING:
    from apfproxy.apiserver.kind import Kind

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
    *REVIEWS,
    POD_DISRUPTION_BUDGET,
    LEASE,
    RESOURCE_SLICE,
    *FLOW_CONTROL_KINDS,
)
"""All that there are, groups in the order in which Kubernetes tells them."""
