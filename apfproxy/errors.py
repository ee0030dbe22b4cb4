"""Errors that are the operator's fault."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from apfproxy.settings import Address


class OperatorError(ValueError):
    """Settings, or what they name, cannot be used; the text has a line for each problem."""


class ListenError(OperatorError):
    """An address cannot be listened on."""

    def __init__(self, address: Address, setting: str, error: OSError) -> None:
        reason = (error.strerror or str(error)).rpartition(": ")[2]
        choose = f"choose another address with --{setting}"
        hint = {
            errno.EADDRINUSE: f"stop what listens there, or {choose}",
            errno.EACCES: f"{choose}: ports below 1024 take a privilege",
        }.get(error.errno or 0, f"{choose}: one of this machine, such as 0.0.0.0:{address.port}")
        super().__init__(f"cannot listen on {address}: {reason}; {hint}")
        self.setting = setting
