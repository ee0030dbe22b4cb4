"""Errors that are the operator's fault."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from apfproxy.base.address import Address


class OperatorError(ValueError):
    """Settings, or what they name, cannot be used; the text has a line for each problem."""


class ListenError(OperatorError):
    def __init__(self, address: Address, setting: str, error: OSError) -> None:
        reason = (error.strerror or str(error)).rpartition(": ")[2]
        choose = f"choose another address with --{setting}"
        if address.path:
            otherwise = choose
            advice = {
                errno.EADDRINUSE: f"stop that one, or {choose}",
                errno.ENOENT: f"make the folder first, or {choose}",
                errno.EACCES: f"let this user write to the folder, or {choose}",
            }
        else:
            otherwise = f"{choose}: one of this machine, such as 0.0.0.0:{address.port}"
            advice = {
                errno.EADDRINUSE: f"stop what listens there, or {choose}",
                errno.EACCES: f"{choose}: ports below 1024 take a privilege",
            }
        super().__init__(
            f"cannot listen on {address}: {reason[:1].lower()}{reason[1:]};"
            f" {advice.get(error.errno or 0, otherwise)}"
        )
        self.setting = setting
