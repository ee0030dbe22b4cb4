"""Lessons of a server about its idle connections."""

from __future__ import annotations

import pytest

from apfproxy.upstream.idle_limit import FORGOTTEN_NS, IdleLimit

S = 1_000_000_000
MS = 1_000_000


def taught(*lessons: tuple[int, int], announced: bytes = b"") -> IdleLimit:
    limit = IdleLimit()
    if announced:
        limit.announced(announced)
    for age_ns, now_ns in lessons:
        limit.closed(age_ns, now_ns)
    return limit


@pytest.mark.parametrize(
    ("lessons", "expected"),
    [
        pytest.param([], 0, id="nothing"),
        pytest.param([(2 * S, 9 * S)], 1800 * MS, id="one"),
        pytest.param([(2 * S, 9 * S), (5 * S, 20 * S)], 1800 * MS, id="later-is-nothing-new"),
        pytest.param([(5 * S, 9 * S), (2 * S, 20 * S)], 1800 * MS, id="sooner"),
        pytest.param([(200 * MS, 9 * S)], 0, id="too-soon-for-idleness"),
        pytest.param([(2 * S, 9 * S)] * 9, 1800 * MS, id="many-of-one-age"),
        pytest.param([(2900 * MS, 9 * S), (2 * S, 9 * S)], 1800 * MS, id="about-one-age"),
        pytest.param([(2 * S, 9 * S), (30 * S, 9 * S)], 0, id="a-server-that-ends"),
        pytest.param(
            [(30 * S, 9 * S), (2 * S, 9 * S + 1), (1 * S, 9 * S + 2), (5 * S, 9 * S + 3)],
            0,
            id="with-many",
        ),
        pytest.param(
            [(9 * S, 2 * S), (5 * S, 9 * S), (900 * MS, 9 * S)], 8100 * MS, id="as-it-was-before"
        ),
        pytest.param(
            [(2 * S, 9 * S), (30 * S, 9 * S), (2 * S, 20 * S)], 1800 * MS, id="again-after-that"
        ),
    ],
)
def test_shortest_time_counts_unless_all_connections_ended(
    lessons: list[tuple[int, int]], expected: int
) -> None:
    assert expected == taught(*lessons).limit_ns(21 * S)


def test_says_what_is_a_lesson() -> None:
    limit = IdleLimit()

    assert [True, False, False, True] == [
        limit.closed(age_s * S, now_s * S) for age_s, now_s in [(5, 10), (5, 10), (6, 20), (2, 30)]
    ]


def test_a_server_that_is_gone_taught_nothing() -> None:
    limit = taught((9 * S, 2 * S), (5 * S, 90 * S))
    limit.gone(95 * S)
    assert 8100 * MS == limit.limit_ns(95 * S)
    limit.gone(96 * S)
    assert 8100 * MS == limit.limit_ns(96 * S)

    assert limit.closed(5 * S, 100 * S)
    limit.gone(120 * S)
    assert 4500 * MS == limit.limit_ns(120 * S)


def test_it_is_forgotten_slowly() -> None:
    limit = taught((2 * S, 9 * S))
    periods = [limit.limit_ns(9 * S + number * FORGOTTEN_NS) // MS for number in (0, 1, 2, 3)]
    assert [1800, 3600, 7200, 14400] == periods
    assert 24 * 3600 * S < limit.limit_ns(9 * S + 10**6 * FORGOTTEN_NS) < 1 << 60
    now_ns = 9 * S + 2 * FORGOTTEN_NS

    assert limit.closed(2 * S, now_ns)
    assert 1800 * MS == limit.limit_ns(now_ns)


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        (b"Keep-Alive: timeout=5", 4500 * MS),
        (b"keep-alive: max=100, Timeout = 20", 18 * S),
        (b'Keep-Alive: timeout="5"', 4500 * MS),
        (b"Keep-Alive: max=100", 0),
        (b"Keep-Alive: timeout=soon", 0),
        (b"Keep-Alive: timeout=0", 0),
    ],
)
def test_field_of_the_server_counts(field: bytes, expected: int) -> None:
    limit = taught(announced=field)

    assert expected == limit.limit_ns(9 * S)
    assert (expected or 7200 * MS) == taught((8 * S, 9 * S), announced=field).limit_ns(9 * S) or (
        expected > 7200 * MS
    )
