"""Tests of the names that Go has for types of fields."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from apfproxy.apiserver.core.pod_schema import POD_OBJECT
from apfproxy.apiserver.flowcontrol.schema import FLOW_SCHEMA_V1BETA3
from apfproxy.apiserver.resource.schema import RESOURCE_SLICE_OBJECT
from apfproxy.apiserver.schema.reading import MismatchError, read
from apfproxy.apiserver.schema.types import Scalar

if TYPE_CHECKING:
    from apfproxy.apiserver.schema.types import Struct


@pytest.mark.parametrize(
    ("schema", "obj", "message"),
    [
        (
            FLOW_SCHEMA_V1BETA3,
            {"spec": {"distinguisherMethod": {"type": 5}}},
            (
                "number into Go struct field FlowDistinguisherMethod.spec.distinguisherMethod.type"
                " of type v1beta3.FlowDistinguisherMethodType"
            ),
        ),
        (
            POD_OBJECT,
            {"spec": {"volumes": [{"name": 5}]}},
            "number into Go struct field Volume.spec.volumes.name of type string",
        ),
        (
            POD_OBJECT,
            {"spec": {"containers": [{"imagePullPolicy": 5}]}},
            (
                "number into Go struct field Container.spec.containers.imagePullPolicy"
                " of type v1.PullPolicy"
            ),
        ),
        (
            RESOURCE_SLICE_OBJECT,
            {"spec": {"devices": [{"attributes": []}]}},
            (
                "array into Go struct field Device.spec.devices.attributes"
                " of type map[v1.QualifiedName]v1.DeviceAttribute"
            ),
        ),
    ],
)
def test_messages(schema: Struct, obj: dict[str, object], message: str) -> None:
    """Types have the names of Go."""
    with pytest.raises(MismatchError) as error:
        read(schema, obj)

    assert f"json: cannot unmarshal {message}" == str(error.value)


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        ({"spec": 5}, "cannot restore struct from: int64"),
        ({"spec": {"containers": "a"}}, "cannot restore slice from string"),
        ({"spec": {"nodeSelector": []}}, "cannot restore map from slice"),
        ({"spec": {"nodeName": 5}}, "cannot convert int64 to string"),
        ({"spec": {"nodeName": {}}}, "unrecognized type: string"),
        ({"spec": {"priority": 1.5}}, "cannot convert float64 to int32"),
        (
            {"spec": {"containers": [{"resources": {"limits": {"cpu": "x"}}}]}},
            "quantities must match the regular expression",
        ),
        (
            {"spec": {"containers": [{"ports": [{"hostIP": True}]}]}},
            "unrecognized type: string",
        ),
    ],
)
def test_restored(obj: dict[str, object], message: str) -> None:
    """Where Go makes a struct of decoded data it says it in other words."""
    with pytest.raises(MismatchError) as error:
        read(POD_OBJECT, obj)

    assert error.value.restored.startswith(message)


def test_restored_scalars_that_are_structs() -> None:
    """A quantity reads text in any case."""
    error = MismatchError("bool", Scalar.INT_OR_STRING, value=True)

    assert "json: cannot unmarshal bool into Go value of type intstr.IntOrString" == error.restored
