"""What the access log leaves out: how much, and how it counts that."""

from __future__ import annotations

import pytest

from apfproxy.flowcontrol.controller import Controller
from apfproxy.objects.bootstrap import bootstrap_objects
from apfproxy.proxy.log_omissions import MAX_KEYS, SECOND_NS, LogBudget, Omission, Omissions
from apfproxy.request.attributes import parse_attributes
from apfproxy.request.user import User
from apfproxy.settings import AccessLogSettings
from tests.virtual_clock import VirtualClock

REASON = "queue-full"


def omissions(**settings: int | None) -> tuple[Omissions, LogBudget]:
    """Those of a log with such settings, and its budget."""
    log = AccessLogSettings(**settings)  # type: ignore[arg-type]  # by their names
    budget = LogBudget(log)
    return Omissions(log, budget), budget


@pytest.mark.parametrize(
    ("per_second", "logged"),
    [
        pytest.param(3, [3, 3, 3], id="some"),
        pytest.param(0, [0, 0, 0], id="none"),
        pytest.param(None, [9, 9, 9], id="all"),
    ],
)
def test_refused_requests_of_each_second(per_second: int | None, logged: list[int]) -> None:
    """A second begins with the first one that is refused after the second before."""
    tested, budget = omissions(refused_per_second=per_second)
    times_ns = (5, 5 + SECOND_NS, 9 * SECOND_NS)
    found = [sum(tested.count_refused(None, REASON, at_ns) for _ in range(9)) for at_ns in times_ns]
    refused, over_bytes = tested.take()

    left_out = 27 - sum(logged)
    assert logged == found
    assert left_out == sum(refused.values()) == budget.left_out[Omission.REFUSED]
    assert {} == over_bytes
    assert tested.is_empty


def test_flows_and_reasons_are_told_apart() -> None:
    """A flow that is refused all the time takes no lines from another one."""
    tested, _ = omissions(refused_per_second=1)
    controller = Controller(VirtualClock(), 600, 0)
    controller.commit(controller.digest(bootstrap_objects()))
    attributes = parse_attributes("GET", b"/api/v1/pods")
    ann, bob = (
        controller.classify(User(name, ("system:authenticated",)), attributes)
        for name in ("ann", "bob")
    )
    kinds = [(ann, REASON), (ann, REASON), (bob, REASON), (ann, "ban"), (None, "ban")]
    found = [tested.count_refused(where, why, 0) for where, why in kinds]

    assert [True, False, True, True, True] == found
    assert {(REASON, "global-default", "global-default", "ann"): 1} == tested.refused


def test_flows_without_end() -> None:
    """Those for which there is no room share the lines of their reason."""
    tested, _ = omissions(refused_per_second=1)
    controller = Controller(VirtualClock(), 600, 0)
    controller.commit(controller.digest(bootstrap_objects()))
    attributes = parse_attributes("GET", b"/api/v1/pods")
    number, logged = 3 * MAX_KEYS, 0
    for name in range(number):
        user = User(str(name), ("system:authenticated",))
        found = controller.classify(user, attributes)
        logged += sum(tested.count_refused(found, REASON, 0) for _ in range(2))

    assert MAX_KEYS + 1 == logged
    assert 2 * number - logged == sum(tested.refused.values())
    assert number - MAX_KEYS < tested.refused[REASON, "", "", ""]
    assert MAX_KEYS + 1 >= len(tested.refused)


def test_bytes_come_back_with_time() -> None:
    """The bytes of a second may be spent at once, and what exceeds them is paid for."""
    _, budget = omissions(max_bytes_per_second=4096)
    start_ns = 10**15
    assert budget.refill(start_ns)
    budget.spend(3 * 4096)

    has_left = [budget.refill(start_ns + tenth * SECOND_NS // 10) for tenth in range(1, 22)]
    assert [False] * 20 + [True] == has_left
    budget.spend(410)
    assert not budget.refill(start_ns + 21 * SECOND_NS // 10)
    assert budget.refill(start_ns + 100 * SECOND_NS)
    budget.spend(4096)
    assert not budget.refill(start_ns + 100 * SECOND_NS)


def test_pieces_of_bytes_are_not_lost() -> None:
    """Looks that are shorter than a byte takes come to the same."""
    _, budget = omissions(max_bytes_per_second=4096)
    budget.refill(SECOND_NS)
    budget.spend(4096)
    looks = (budget.refill(SECOND_NS + number * 1000) for number in range(1, 1000))

    assert SECOND_NS // 4096 // 1000 + 1 == 1 + list(looks).index(True)


def test_other_budgets() -> None:
    """A budget that changes is full; one that stays is as it was; without one all is written."""
    _, budget = omissions(max_bytes_per_second=4096)
    budget.spend(5000)
    budget.configure(AccessLogSettings(max_bytes_per_second=4096))
    assert not budget.refill(0)
    budget.configure(AccessLogSettings(max_bytes_per_second=8192))
    assert budget.refill(0)
    budget.configure(AccessLogSettings(max_bytes_per_second=None))
    budget.spend(1 << 40)
    assert budget.refill(0)


def test_requests_without_bytes() -> None:
    """They are counted by their reasons."""
    tested, budget = omissions()
    for reason in ("", "", REASON):
        tested.count_over_bytes(reason)

    assert {"": 2, REASON: 1} == tested.over_bytes
    assert 3 == budget.left_out[Omission.BYTES]
