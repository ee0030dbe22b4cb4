"""HTTP/1.1, as much of it as a server of streams needs: heads that arrive, answers that go."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    import asyncio

REASONS = {
    101: "Switching Protocols",
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
}


@dataclass(frozen=True)
class Request:
    """A request without a body, which is all that kubectl sends to such a server.

    Attributes:
        method: GET or POST.
        path: Decoded.
        query: Parameter to its values.
        fields: Name, in lower case, and value of its header fields, in their order.
    """

    method: str
    path: str
    query: dict[str, list[str]]
    fields: tuple[tuple[str, str], ...]

    def values(self, name: str) -> list[str]:
        """The values of all fields of a name, which is given in lower case."""
        return [value for found, value in self.fields if found == name]

    def value(self, name: str) -> str:
        """The value of the first field of a name, or "" where there is none."""
        return next(iter(self.values(name)), "")

    def elements(self, name: str) -> list[str]:
        """The elements of a field that is a list."""
        return [element.strip() for value in self.values(name) for element in value.split(",")]

    def is_set(self, parameter: str) -> bool:
        """Whether a parameter of the query is true."""
        return self.query.get(parameter, ["false"])[0] in {"true", "1"}


async def read_request(reader: asyncio.StreamReader) -> Request:
    """The next request.

    Raises:
        EOFError: There is none.
    """
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    line, *lines = head.removesuffix("\r\n\r\n").split("\r\n")
    method, target, _ = line.split(" ")
    split = urlsplit(target)
    fields = tuple(
        (name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines)
    )
    request = Request(method, split.path, parse_qs(split.query), fields)
    if length := int(request.value("content-length") or 0):
        await reader.readexactly(length)
    return request


def head(status: int, *fields: tuple[str, str]) -> bytes:
    """The head of an answer."""
    lines = [
        f"HTTP/1.1 {status} {REASONS[status]}",
        *(f"{name}: {value}" for name, value in fields),
    ]
    return "\r\n".join([*lines, "", ""]).encode()


def json_answer(value: Any, status: int = 200) -> bytes:  # noqa: ANN401  JSON
    """An answer that is JSON."""
    body = json.dumps(value).encode()
    length = ("Content-Length", str(len(body)))
    return head(status, ("Content-Type", "application/json"), length) + body


def problem(status: int, message: str) -> bytes:
    """An answer that says what is wrong, as Kubernetes does."""
    reason = REASONS[status].replace(" ", "")
    return json_answer(
        {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason,
            "code": status,
        },
        status,
    )


def chunk(data: bytes) -> bytes:
    """A chunk of a body; of b"" the last one."""
    return b"%x\r\n%b\r\n" % (len(data), data)
