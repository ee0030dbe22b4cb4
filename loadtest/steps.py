"""Which step of a request's life a sampled stack belongs to.

A stack has its functions from the outermost on, as py-spy writes them: Python's as
`Class.function (apfproxy/proxy/file.py:1)`, those that mypyc has compiled as
`CPyDef_file___Class___function (library)`.  The innermost function of apfproxy or uvloop decides.
What these call of Python's, libc's and other libraries' is theirs; so is what `SHARED` has.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from loadtest.processes import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable

KERNEL, LOOP, GARBAGE, REST = "kernel", "event loop", "garbage", "rest"
TLS, FRAMES = "tls", "frames"

STEPS = {
    KERNEL: "system calls and what the network does in them",
    LOOP: "uvloop, outside of system calls",
    TLS: "OpenSSL, and uvloop around it",
    FRAMES: "HTTP/2: its frames and fields taken apart and put together, its streams",
    "parse": "the head of the request: found, parsed, checked, prepared for the server",
    "authenticate": "credentials, and whose they are",
    "attributes": "verb, resource, namespace, and how long it may take",
    "classify": "FlowSchema and flow",
    "admit": "flow control before and after: seats, queues, costs",
    "forward": "the exchange, and the request on its way to the server",
    "answer": "the answer's head, and the answer on its way to the client",
    "observe": "log, top flows, metrics",
    GARBAGE: "Python's collector of garbage",
    REST: "none of these",
}
"""Each step, and what it is."""

OF_FUNCTION = {
    "proxy/request": {"request_of": "attributes"},
    "flowcontrol/passage": {"classify": "classify"},
    "proxy/http1_connection": {
        "send": "answer",
        "send_response": "answer",
        "on_exchange_end": "answer",
    },
    "proxy/exchange": {
        "_authenticate": "authenticate",
        "_on_verdict": "authenticate",
        "_give_back": "answer",
        "end": "answer",
        "finish": "answer",
        "_log": "observe",
    },
    "upstream/pool": {"release": "answer"},
    "upstream/endpoint": {"send": "forward", "send_more": "forward"},
}
"""Functions of another step than their file."""

OF_FILE = {
    "proxy/http1_connection": "parse",
    "http/read_buffer": "parse",
    "proxy/request": "parse",
    "http/request_body": "parse",
    "http/request_fields": "parse",
    "http/request_head": "parse",
    "proxy/head_reader": "parse",
    "proxy/http2/connection": FRAMES,
    "proxy/http2/output": FRAMES,
    "proxy/http2/request_head": FRAMES,
    "proxy/http2/stream": FRAMES,
    "flowcontrol/classifier": "classify",
    "flowcontrol/controller": "classify",
    "flowcontrol/dealer": "classify",
    "proxy/client_limits": "forward",
    "proxy/exchange": "forward",
    "upstream/pool": "forward",
    "http/chunked": "answer",
    "proxy/relay": "answer",
    "http/response_head": "answer",
    "upstream/endpoint": "answer",
    "proxy/watch_seats": "answer",
    "proxy/log_lines": "observe",
    "proxy/request_log": "observe",
    "proxy/request_record": "observe",
}
"""Files of another step than their package."""

OF_PACKAGE = {
    "authn": "authenticate",
    "request": "attributes",
    "flowcontrol": "admit",
    "admin": "observe",
}

SHARED = frozenset({"objects/go_text", "base/faults"})
"""Files that work for whoever calls them."""

FILES = sorted(
    path.relative_to(ROOT / "apfproxy").with_suffix("").as_posix()
    for path in (ROOT / "apfproxy").rglob("*.py")
)

SYSTEM_CALLS = re.compile(
    r"(?:__)?(?:libc_)?(?:read|write|writev|send|sendto|sendmsg|recv|recvfrom|recvmsg|epoll_\w+|accept4?"
    r"|close|connect|syscall|socket|setsockopt|shutdown)(?:64)? \(libc"
)
TLS_FUNCTION = re.compile(r"\S+ \(lib(?:ssl|crypto)|\S*(?:SSLProtocol|sslproto|_ssl)")
FRAMES_FUNCTION = re.compile(r"\S+ \((?:libnghttp2|nghttp2)|\S*apfproxy_5proxy_5http2")
LOOP_FUNCTION = re.compile(
    r"(?:uv_|UV|__pyx_|loop_)|\S+ \((?:loop|unix/\w+|linux|stream|core|tcp|timer|epoll)\.[ch]:"
)
PYTHON_FUNCTION = re.compile(r"(.+) \((?:\S*/)?apfproxy/(\S+)\.py:\d+\)")
COMPILED_FUNCTION = re.compile(r"(?:CPy(?:Def|Py|Gen)_)?(\w+?___\w+) \(\S*apfproxy__mypyc")
COMPILED_FILES = {
    name: file for file in FILES for name in (file.rpartition("/")[2], file.replace("/", "___"))
}
"""What mypyc calls a file: by its own name, or with its package where that is not enough."""


def function_of(frame: str) -> tuple[str, str] | None:
    """The file and the function of apfproxy that a line of a stack names, if it names one."""
    if (found := PYTHON_FUNCTION.fullmatch(frame)) is not None:
        return found[2], found[1]
    if (found := COMPILED_FUNCTION.match(frame)) is None:
        return None
    parts = found[1].split("___")
    for length in (2, 1):
        file = COMPILED_FILES.get("___".join(parts[:length]))
        if file is not None and len(parts) > length:
            return file, ".".join(parts[length:])
    return None


def step_of(frames: Iterable[str]) -> tuple[str, str]:
    """The step of a stack, and the function that decided it.

    Args:
        frames: From the outermost on.
    """
    innermost_first = list(reversed(list(frames)))
    if innermost_first and SYSTEM_CALLS.match(innermost_first[0]):
        return KERNEL, innermost_first[0].partition(" ")[0]
    for frame in innermost_first:
        if frame.startswith("gc_collect"):
            return GARBAGE, "collect"
        if FRAMES_FUNCTION.match(frame):
            return FRAMES, frame.partition(" ")[0]
        if TLS_FUNCTION.match(frame):
            return TLS, frame.partition(" ")[0]
        if LOOP_FUNCTION.match(frame):
            return LOOP, frame.partition(" ")[0]
        if (found := function_of(frame)) is None or found[0] in SHARED:
            continue
        file, function = found
        step = (
            OF_FUNCTION.get(file, {}).get(function.rpartition(".")[2])
            or OF_FILE.get(file)
            or OF_PACKAGE.get(file.partition("/")[0], REST)
        )
        return step, f"{file.rpartition('/')[2]}.{function}"
    return REST, innermost_first[0].partition(" ")[0] if innermost_first else "nothing"


def count_steps(raw: str) -> dict[str, Counter[str]]:
    """Count the samples of each step, and of the functions in it.

    Args:
        raw: Lines of `frame;frame;frame COUNT`, which have threads besides the event loop's too.

    Returns:
        Step to function to samples.
    """
    counts: dict[str, Counter[str]] = {step: Counter() for step in STEPS}
    for line in raw.splitlines():
        stack, _, samples = line.rpartition(" ")
        if "Thread._bootstrap" in stack:
            continue
        step, function = step_of(stack.split(";"))
        counts[step][function] += int(samples)
    return counts
