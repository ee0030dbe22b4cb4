"""Errors of a store at the start of a process."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from apfproxy.apiserver.errors import StatusError
from apfproxy.apiserver.store.entries import StoreError
from apfproxy.base.errors import OperatorError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextlib.contextmanager
def starting(refused: str) -> Iterator[None]:
    """Turn errors of a store at the start into `OperatorError`; `refused` objects are named so."""
    try:
        yield
    except StoreError as error:
        raise OperatorError(str(error)) from error
    except StatusError as error:
        raise OperatorError(f"{refused}: {error.message}") from error
