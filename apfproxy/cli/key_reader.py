"""Single keys from a terminal, which gets back its manners at the end."""

from __future__ import annotations

import contextlib
import os
import termios
import tty
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator

MOST_AT_ONCE = 64
ESCAPE = "\x1b"
"""The key Esc alone.  It also begins what a key without a letter sends; such as an arrow, in one
piece."""

NO_CHARACTER = b"\x00"


@contextlib.contextmanager
def key_reader(
    descriptor: int, loop: asyncio.AbstractEventLoop, on_key: Callable[[str], None]
) -> Iterator[None]:
    """Call back with each key, without echo; where there is no terminal, do nothing.

    Ctrl-C still interrupts.  Ctrl-Z does nothing, as it would leave the screen as it is.
    """
    if not os.isatty(descriptor):
        yield
        return
    before = termios.tcgetattr(descriptor)

    def read() -> None:
        try:
            data = os.read(descriptor, MOST_AT_ONCE)
        except OSError:  # the terminal is gone
            data = b""
        if not data:
            loop.remove_reader(descriptor)
        elif data == ESCAPE.encode() or not data.startswith(ESCAPE.encode()):
            for key in data.decode(errors="replace"):
                on_key(key)

    try:
        tty.setcbreak(descriptor, termios.TCSADRAIN)
        now = termios.tcgetattr(descriptor)
        now[6][termios.VSUSP] = NO_CHARACTER
        termios.tcsetattr(descriptor, termios.TCSADRAIN, now)
        loop.add_reader(descriptor, read)
        yield
    finally:
        loop.remove_reader(descriptor)
        with contextlib.suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
