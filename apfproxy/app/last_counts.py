"""What a worker has counted when it ends: a file that it leaves for its parent.

It has the worker's page of metrics, and a line that ends it; so one that is not whole can be told.
Nobody reads it before the worker has ended.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from apfproxy.admin.metrics import ScrapedPage

MAX_BYTES: Final = 16 << 20
"""As much as is kept of workers that are gone.  It takes a worker some seconds."""
MODE = 0o600
END: Final = b"# EOF\n"


def leave_counts(path: str, page: ScrapedPage) -> None:
    """Leave a page; OSError if that cannot be, also as there is too much of it."""
    data = bytearray()
    for piece in page.slices():
        data += piece
        if len(data) > MAX_BYTES:
            raise OSError(f"they have more than {MAX_BYTES} bytes")
    data += END
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, MODE)
    with open(descriptor, "wb") as file:  # noqa: PTH123 - of a descriptor
        file.write(data)


def take_counts(path: str) -> bytes:
    """Take what a worker has left: its page; b"" if it left none."""
    try:
        # Whatever is there, its parent does not wait for it, nor read it without end.
        with open(path, "rb", opener=_opened) as file:
            data = file.read(MAX_BYTES + len(END))
        Path(path).unlink()
    except OSError:
        return b""  # it was killed, or could not write, which its log says
    return data.removesuffix(END) if data.endswith(END) else b""


def _opened(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)
