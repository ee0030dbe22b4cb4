"""Tests of `apfproxy.flowcontrol.load_meter`."""

from __future__ import annotations

import pytest

from apfproxy.flowcontrol.load_meter import (
    IDLE_TAKES,
    LONGEST_NAME,
    MOST_CLASSES,
    MOST_NAMES,
    OTHERS,
    LoadMeter,
    path_class,
)
from apfproxy.request.attributes import parse_attributes, plain_attributes

S = 1_000_000_000
POD = parse_attributes("GET", b"/api/v1/namespaces/a/pods/b")
DEPLOYMENTS = parse_attributes("GET", b"/apis/apps/v1/deployments")


def plain(path: str, method: str = "GET") -> object:
    return plain_attributes(method, path.encode())


def count(meter: LoadMeter, path: str) -> None:
    meter.add(plain_attributes("GET", path.encode()), 0, 1, S)


def test_classes() -> None:
    meter = LoadMeter()
    meter.add(POD, 1000, 1, S)
    meter.add(POD, 600, 1, 2 * S)
    meter.add(POD, 70_000, 1, S)
    meter.add(DEPLOYMENTS, 1000, 3, S)  # each once a seat

    assert {
        ("get", "pods", 5): (2.0, 3.0),
        ("get", "pods", 8): (1.0, 1.0),
        ("list", "deployments.apps", 5): (3.0, 3.0),
    } == meter.take()
    assert {} == meter.take()


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/", ""),
        ("/orders", "orders"),
        ("/orders/17/items", "orders/*"),
        ("/v1/orders/17", "*/orders"),
        ("/a/b/c/d", "a/b"),
        ("*", ""),
    ],
)
def test_path_class(path: str, name: str) -> None:
    assert name == path_class(path)


def test_more_classes_than_are_told_apart() -> None:
    """Scans of random paths count as one class; those that were met before stay."""
    meter = LoadMeter()
    count(meter, "/known")
    for _ in range(5):
        for letter in range(MOST_CLASSES * 2):
            count(meter, f"/{chr(0x4E00 + letter)}")
        count(meter, "/known")
        found = meter.take()

        assert ("", "known", 0) in found or ("get", "known", 0) in found
        assert len(found) <= MOST_CLASSES + 1
        assert found[OTHERS][0] >= MOST_CLASSES


def test_classes_that_are_not_met_any_more_make_room() -> None:
    meter = LoadMeter()
    for letter in range(MOST_CLASSES):
        count(meter, f"/{chr(0x4E00 + letter)}")
    meter.take()
    count(meter, "/late")
    assert {OTHERS} == meter.take().keys()

    for _ in range(IDLE_TAKES):
        meter.take()
    count(meter, "/late")
    assert OTHERS not in meter.take()


def test_long_names() -> None:
    meter = LoadMeter()
    count(meter, "/" + "a" * LONGEST_NAME + "b")
    assert {OTHERS} == meter.take().keys()


def test_names_of_many_paths() -> None:
    """As many are kept at most, whatever clients ask for."""
    meter = LoadMeter()
    for number in range(3 * MOST_NAMES):
        count(meter, f"/orders/{number}")

    ((_, (responses, _)),) = meter.take().items()
    assert 3 * MOST_NAMES == responses
    assert len(meter._names) <= MOST_NAMES  # noqa: SLF001  it shows in no other way
