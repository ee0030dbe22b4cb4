"""Which of several sockets at one port get new connections.

By itself the kernel divides them by the addresses of each connection among all sockets of the group
(SO_REUSEPORT), also those from which nobody accepts at the moment: such connections would wait.  A
program of the classic packet filter, attached to the group, draws one of those that are left
(SO_ATTACH_REUSEPORT_CBPF, Linux 4.5; see socket(7)).  What waits already is not moved.
"""

from __future__ import annotations

import ctypes
import logging
import socket
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

SO_ATTACH_REUSEPORT_CBPF, SO_DETACH_REUSEPORT_BPF = 51, 68
"""Of <asm-generic/socket.h>; the second one is of Linux 5.3."""

LOAD_WORD, MODULO, JUMP_IF_EQUAL, RETURN = 0x20, 0x94, 0x15, 0x06
"""Operations of <linux/bpf_common.h>: ld abs, alu mod k, jmp jeq k, ret k."""
RANDOM = 0xFFFFF000 + 56
"""The place of a random number (SKF_AD_OFF + SKF_AD_RANDOM) of <linux/filter.h>."""

log = logging.getLogger(__name__)


def steer(group: Sequence[socket.socket], chosen: Sequence[int]) -> None:
    """Have new connections go to some of a group's sockets, in equal parts.

    Args:
        group: All sockets of one address, in the order in which they began to listen.
        chosen: Places in it; if all or none, the kernel divides by itself.

    A kernel that cannot do it leaves all as it is, and the log says so.
    """
    try:
        if 0 < len(chosen) < len(group):
            _attach(group[0], chosen)
        else:
            _detach(group)
    except OSError as error:
        log.debug("connections are not steered past workers that do not serve: %s", error)


def _attach(member: socket.socket, chosen: Sequence[int]) -> None:
    code = program(chosen)
    buffer = ctypes.create_string_buffer(code, len(code))
    filter_ = struct.pack("HP", len(code) // 8, ctypes.addressof(buffer))
    member.setsockopt(socket.SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, filter_)


def _detach(group: Sequence[socket.socket]) -> None:
    try:
        group[0].setsockopt(socket.SOL_SOCKET, SO_DETACH_REUSEPORT_BPF, 0)
    except FileNotFoundError:
        pass  # nothing is attached
    except OSError:
        _attach(group[0], range(len(group)))  # what an older kernel can do


def program(chosen: Sequence[int]) -> bytes:
    """A program that returns one of some numbers, each as likely as the others."""
    code = [(LOAD_WORD, 0, 0, RANDOM), (MODULO, 0, 0, len(chosen))]
    for drawn, place in enumerate(chosen):
        code += [(JUMP_IF_EQUAL, 0, 1, drawn), (RETURN, 0, 0, place)]
    code.append((RETURN, 0, 0, chosen[0]))  # never reached, but a program has to end so
    return b"".join(struct.pack("HBBI", *each) for each in code)
