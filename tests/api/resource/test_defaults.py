"""Tests of what ResourceSlices get and lose on the way to the store."""

from __future__ import annotations

from apfproxy.api.resource.defaults import drop_disabled_fields, stamp_taints

NOW = "2026-01-02T03:04:05Z"
EARLIER = "2026-01-01T00:00:00Z"


def test_taints_get_a_time() -> None:
    """A time that is there already stays."""
    taints = [{"key": "a"}, {"key": "b", "timeAdded": EARLIER}]
    slice_ = {"spec": {"devices": [{"name": "d"}, {"name": "e", "taints": taints}]}}
    stamp_taints(slice_, NOW)

    assert [NOW, EARLIER] == [taint["timeAdded"] for taint in taints]


def test_slices_without_devices_stay_as_they_are() -> None:
    """There is nothing to be set or dropped."""
    slice_: dict[str, dict[str, object]] = {"spec": {}}
    stamp_taints(slice_, NOW)
    drop_disabled_fields(slice_)

    assert {"spec": {}} == slice_


def test_fields_behind_gates_are_dropped() -> None:
    """Kubernetes 1.36 does not have them by default."""
    device = {
        "name": "d",
        "attributes": {"a": {"ints": [1], "strings": ["x"]}, "b": {"int": 1}},
        "nodeAllocatableResourceMappings": {"cpu": {}},
    }
    drop_disabled_fields({"spec": {"devices": [device, {"name": "e"}]}})

    assert {"name": "d", "attributes": {"a": {}, "b": {"int": 1}}} == device
