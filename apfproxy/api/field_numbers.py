"""The numbers of fields in Kubernetes' protobuf, of structs that do not say them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.api.core.field_numbers import OBJECTS_V1
from apfproxy.api.core.volume_field_numbers import VOLUMES_V1
from apfproxy.api.policy.field_numbers import POLICY_V1, POLICY_V1BETA1
from apfproxy.api.resource.field_numbers import RESOURCE_V1, RESOURCE_V1BETA1

if TYPE_CHECKING:
    from apfproxy.api.schema.types import Numbers

NUMBERS: dict[str, dict[str, Numbers]] = {
    "io.k8s.api.core.v1": OBJECTS_V1 | VOLUMES_V1,
    "io.k8s.api.policy.v1": POLICY_V1,
    "io.k8s.api.policy.v1beta1": POLICY_V1BETA1,
    "io.k8s.api.resource.v1": RESOURCE_V1,
    "io.k8s.api.resource.v1beta1": RESOURCE_V1BETA1,
}
"""Package to name of the struct to its numbers."""
