"""What workers answer, taken apart."""

from __future__ import annotations

from apfproxy.admin.worker_answers import (
    Answer,
    Asked,
    WorkerAdmin,
    in_service,
    json_pages,
    named,
    names_of,
)

FIRST, SECOND, THIRD = (WorkerAdmin(index, "path", "serving", index) for index in (1, 2, 3))


def test_json_pages() -> None:
    """Pages, refusals and silence are told apart; what is no JSON is no answer."""
    refusal = Answer(404, "text/plain", b"404\xff")
    pages = json_pages([
        Asked(FIRST, Answer(200, "application/json", b'{"a": 1}')),
        Asked(SECOND, refusal),
        Asked(THIRD, problem="away"),
        Asked(THIRD, Answer(200, "text/html", b"<html>")),
    ])  # fmt: skip

    assert pages.found == [(FIRST, {"a": 1})]
    assert pages.refusal == refusal
    assert refusal.text == "404�"
    assert [each.problem.split(":")[0] for each in pages.silent] == [
        "away",
        "its answer is no JSON",
    ]


def test_page() -> None:
    """Only what was asked for is the page."""
    assert Asked(FIRST, Answer(404, "", b"")).page is None
    assert Asked(FIRST).page is None


def test_in_service() -> None:
    """One that is about to take another's place is not asked; one that is alone there is."""
    starting = WorkerAdmin(1, "new", "starting", 77)

    assert in_service([starting, FIRST, SECOND]) == [FIRST, SECOND]
    assert in_service([starting, SECOND]) == [starting, SECOND]


def test_names_of() -> None:
    """A worker that makes room for another one has another name than that."""
    old = WorkerAdmin(1, "old", "draining", 77)

    assert names_of([old, FIRST, SECOND]) == ["1-77", "1", "2"]
    assert names_of([old, SECOND]) == ["1", "2"]
    assert named([old, FIRST, SECOND], "1-77") == [old]
    assert named([old, FIRST, SECOND], "3") == []
