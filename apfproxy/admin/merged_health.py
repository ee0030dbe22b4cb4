"""The health pages of several workers as one.

A page fails only where no worker is well, or where a check of the process itself fails: what fails
in one worker, or a worker that does not answer, is listed, with the worker's number.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

from apfproxy.base.health_checks import HealthReport, one_line

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from apfproxy.admin.worker_answers import Asked
    from apfproxy.base.health_checks import HealthRegistry

LINE = re.compile(r"\[([+-])\](\S+) (ok|excluded: ok|failed: (.*))")
OF_A_WORKER = "worker/"
"""Begins the names of checks of one worker."""


@dataclass(frozen=True, slots=True)
class CheckLine:
    """A check on a page of a worker.

    Attributes:
        problem: None if it is well.
        is_excluded: Whether it was not looked at.
    """

    name: str
    problem: str | None
    is_excluded: bool


def lines_of(text: str) -> list[CheckLine]:
    """The checks that a page lists."""
    return [
        CheckLine(found[2], found[4], found[3].startswith("excluded"))
        for line in text.splitlines()
        if (found := LINE.fullmatch(line)) is not None
    ]


def worker_name(index: int) -> str:
    """The name of a worker among the checks."""
    return f"{OF_A_WORKER}{index}"


def excluded_for(index: int, excluded: Collection[str]) -> list[str]:
    """Those checks that one worker has to leave out: its own, and those that are of all."""
    own = f"{worker_name(index)}/"
    return [
        name.removeprefix(own)
        for name in excluded
        if name.startswith(own) or not name.startswith(OF_A_WORKER)
    ]


def merged_report(
    page: str,
    own: HealthRegistry,
    asked: Sequence[Asked],
    *,
    verbose: bool,
    excluded: Collection[str] = (),
) -> HealthReport:
    """Answer for a page of all workers.

    Args:
        page: Its name.
        own: The checks of the process that the workers belong to.
        asked: What they say on their verbose pages, see `excluded_for`.
        verbose: Whether all checks are listed, however they are.
        excluded: The names of checks that are not to count.
    """
    own_names = {check.name for check in own if page in check.pages}
    report = own.page(page, verbose=True, excluded=[name for name in excluded if name in own_names])
    lines = report.text.splitlines()[:-1]
    names = own_names | set()
    checks: dict[str, str] = {}  # well in all workers that have it, by its name
    failed: list[str] = []
    are_well: list[bool] = []
    for each in asked:
        name = worker_name(each.worker.index)
        names.add(name)
        if name in excluded:
            lines.append(f"[+]{name} excluded: ok")
            are_well.append(True)
            continue
        if each.answer is None:
            lines.append(f"[-]{name} failed: {one_line(each.problem)}")
            continue
        are_well.append(each.answer.is_ok)
        is_well = "ok" if each.answer.is_ok else f"failed: {page} check failed"
        lines.append(f"[{'+' if each.answer.is_ok else '-'}]{name} {is_well}")
        for check in lines_of(each.answer.text):
            names |= {check.name, f"{name}/{check.name}"}
            if check.problem is not None:
                failed.append(f"[-]{name}/{check.name} failed: {check.problem}")
                checks[check.name] = ""
            elif check.name not in own_names:
                checks.setdefault(check.name, "excluded: ok" if check.is_excluded else "ok")
    lines += [f"[+]{name} {text}" for name, text in checks.items() if text]
    lines += failed
    if unmatched := sorted(set(excluded) - names):
        text = ", ".join(f'"{one_line(name)}"' for name in unmatched)
        lines.append(f"warn: some health checks cannot be excluded: no matches for {text}")
    is_healthy = report.is_healthy and any(are_well)
    if is_healthy and not verbose:
        return HealthReport(is_healthy=True, text="ok")
    lines.append(f"{page} check {'passed' if is_healthy else 'failed'}")
    return HealthReport(is_healthy=is_healthy, text="\n".join(lines) + "\n")


def merged_check(asked: Sequence[Asked]) -> HealthReport | None:
    """Answer for one check of all workers; None if none has it.

    It is well where it is well, or does not count, in one that answers.
    """
    answers = [(each.worker, each.answer) for each in asked if each.answer is not None]
    if not answers and asked:
        lines = [f"{worker_name(each.worker.index)}: {one_line(each.problem)}\n" for each in asked]
        return HealthReport(is_healthy=False, text="".join(lines))
    there = [
        (worker, answer)
        for worker, answer in answers
        if answer.content_type and answer.status != HTTPStatus.NOT_FOUND
    ]
    if not there:
        return None
    failed = [
        f"{worker_name(worker.index)}: {one_line(answer.text)}"
        for worker, answer in there
        if answer.text != "ok"
    ]
    is_healthy = any(answer.is_ok for _, answer in there)
    return HealthReport(is_healthy=is_healthy, text="\n".join([*failed, ""]) if failed else "ok")
