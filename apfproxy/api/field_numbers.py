"""The numbers that fields have in Kubernetes' protobuf, of all structs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.api.core.field_numbers import OBJECTS_V1
from apfproxy.api.core.volume_field_numbers import VOLUMES_V1
from apfproxy.api.flowcontrol.field_numbers import FLOWCONTROL
from apfproxy.api.policy.field_numbers import POLICY_V1, POLICY_V1BETA1
from apfproxy.api.resource.field_numbers import RESOURCE_V1, RESOURCE_V1BETA1
from apfproxy.api.schema.field_numbers import META_V1

if TYPE_CHECKING:
    from apfproxy.api.schema.types import Numbers

OUTSIDE = frozenset({"kind", "apiVersion"})
"""Fields that no message has: the envelope around it has them."""

NUMBERS: dict[str, dict[str, Numbers]] = {
    "io.k8s.apimachinery.pkg.apis.meta.v1": META_V1,
    "io.k8s.api.core.v1": OBJECTS_V1 | VOLUMES_V1,
    "io.k8s.api.flowcontrol.v1": FLOWCONTROL,
    "io.k8s.api.flowcontrol.v1beta3": FLOWCONTROL,
    "io.k8s.api.policy.v1": POLICY_V1,
    "io.k8s.api.policy.v1beta1": POLICY_V1BETA1,
    "io.k8s.api.resource.v1": RESOURCE_V1,
    "io.k8s.api.resource.v1beta1": RESOURCE_V1BETA1,
}
"""Package to name of the struct to its numbers."""
