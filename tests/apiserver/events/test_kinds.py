"""Tests of `apfproxy.apiserver.events`; `tests/conformance` has what Kubernetes answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from apfproxy.apiserver.events import EVENT_OF_CORE, EVENT_OF_EVENTS, cells, check_event

if TYPE_CHECKING:
    from apfproxy.objects.types import Object

NOW_S = 100.0
AT_40 = "1970-01-01T00:00:40.000000Z"


def event(namespace: str = "n", **fields: object) -> Object:
    """An event of the core."""
    about = {"kind": "Pod", "name": "p", "namespace": namespace}
    metadata = {"name": "e", "namespace": namespace}
    return {"metadata": metadata, "involvedObject": about, "source": {}, **fields}


@pytest.mark.parametrize(
    ("namespace", "about", "is_right"),
    [
        ("n", "n", True),
        ("n", "other", False),
        ("n", "", False),
        ("default", "", True),
        ("kube-system", "", True),
    ],
)
def test_namespaces(namespace: str, about: str, *, is_right: bool) -> None:
    """An event is in the namespace of what it is about."""
    made = event(namespace, involvedObject={"kind": "Pod", "namespace": about})

    assert is_right == (not check_event(made))


def test_rows() -> None:
    """The row of an event has its times, its reporter and its count, wherever they are."""
    times = {"firstTimestamp": "1970-01-01T00:00:10Z", "lastTimestamp": "1970-01-01T00:01:30Z"}
    old = event(**times, source={"component": "kubelet", "host": "n1"}, count=7, message=" m\n")
    new = event(eventTime=AT_40, reportingComponent="c", reportingInstance="")
    series = {"count": 3, "lastObservedTime": "1970-01-01T00:01:39.000000Z"}

    assert ("10s", "", "", "pod/p", "", "kubelet, n1", "m", "90s", 7, "e") == cells(old, NOW_S)
    assert ("60s", "c", "60s", 1) == tuple(cells(new, NOW_S)[i] for i in (0, 5, 7, 8))
    assert ("1s", 3) == tuple(cells({**new, "series": series}, NOW_S)[i] for i in (0, 8))
    nameless = cells({**new, "involvedObject": {"kind": "Pod"}}, NOW_S)
    assert "pod" == nameless[3]


def test_selectable_fields() -> None:
    """Each kind has the names of its own form, and both are of one event."""
    fields = EVENT_OF_CORE.selectable(event(reason="R", reportingComponent="c"))

    assert fields == EVENT_OF_EVENTS.selectable(event(reason="R", reportingComponent="c"))
    for kind in (EVENT_OF_CORE, EVENT_OF_EVENTS):
        assert set(kind.selectable_fields) <= set(fields)
    assert ("p", "p", "c", "c") == tuple(
        fields[name]
        for name in ("involvedObject.name", "regarding.name", "reportingController", "source")
    )
    assert "events" == EVENT_OF_EVENTS.collection
    assert EVENT_OF_CORE.storage is EVENT_OF_EVENTS.storage
