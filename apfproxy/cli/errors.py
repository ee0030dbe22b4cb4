"""How commands end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from apfproxy.base.errors import OperatorError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

OK = 0
FAILED = 1
USAGE = 2

EXIT_CODES = (
    "Exit codes: 0 ok, 1 failed, 2 wrong usage (flags, settings file), 130 interrupted; serve,"
    " apiserver and top run until they are interrupted, and end with 0."
)


class CommandError(click.ClickException):
    """Its lines say what to do."""

    exit_code = FAILED

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(lines))


class SettingsFileError(CommandError):
    exit_code = USAGE


async def exit_code(
    serving: Awaitable[bool], problems_of: Callable[[OperatorError], Iterable[str]] | None = None
) -> int:
    """`OK` once serving ended in order, `FAILED` if a second signal cut the end short.

    CommandError if it cannot start; `problems_of` gives its lines, if it knows more than the error.
    """
    try:
        return OK if await serving else FAILED
    except OperatorError as error:
        lines = str(error).splitlines() if problems_of is None else problems_of(error)
        raise CommandError(*lines) from error
