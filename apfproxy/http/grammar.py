"""The grammar that several readers of HTTP share, and the errors that refuse what breaks it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

HOST: Final = re.compile(rb"(?:[0-9A-Za-z\-._~!$&'()*+,;=%]*|\[[0-9A-Fa-f:.]+\])(?::[0-9]*)?")
TOKEN: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_HYPHENATED: Final = re.sub(rb"[^0-9a-z]", b"-", bytes(range(256)))


def hyphenated(lower: bytes) -> bytes:
    """A name, in lower case, as servers read it that take any other character for the hyphen."""
    return lower.translate(_HYPHENATED)


def elements(values: Iterable[bytes]) -> list[bytes]:
    stripped = (item.strip(b" \t") for value in values for item in value.split(b","))
    return [item for item in stripped if item]


class Accepted(NamedTuple):
    """One of the things that a client accepts, such as a media type; RFC 9110, section 12.5."""

    name: str
    parameters: list[tuple[str, str]]


def accepted(field: str) -> list[Accepted]:
    """The elements of Accept or Accept-Encoding, in their order."""
    found = []
    for text in field.split(","):
        name, *parameters = (part.strip() for part in text.split(";"))
        pairs = (parameter.partition("=") for parameter in parameters)
        found.append(Accepted(name, [(key.strip(), value.strip()) for key, _, value in pairs]))
    return found


def weight_of(text: str) -> float:
    """The weight that a parameter `q` gives, any number as in Kubernetes; 0 for no number."""
    try:
        return float(text)
    except ValueError:
        return 0.0


class HeadError(Exception):
    """A request that gets a response of the proxy's own, after which its connection is closed."""

    def __init__(self, code: int, message: str, lines: bytes = b"") -> None:
        super().__init__(message)
        self.code = code
        self.lines = lines


class UnheldError(HeadError):
    def __init__(self, why: str) -> None:
        super().__init__(503, f"{why}; try again later", b"Retry-After: 1\r\n")


class GrpcError(HeadError):
    """A call of gRPC, which cannot be forwarded; its response is one that clients of gRPC show."""

    def __init__(self) -> None:
        super().__init__(
            200,
            "apfproxy does not forward gRPC, which needs HTTP/2 up to the server, while the proxy"
            " speaks HTTP/1.1 to servers: call the server itself",
        )


def head_too_long(max_bytes: int) -> HeadError:
    return HeadError(
        431, f"the request head is longer than {max_bytes} bytes (downstream.maxHeadBytes)"
    )
