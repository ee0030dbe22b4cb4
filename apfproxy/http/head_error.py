"""What refuses a request, wherever in its head the reason is."""


class HeadError(Exception):
    """A request that gets an answer of the proxy's own, after which its connection is closed.

    Attributes:
        code: The status code.
        lines: Header lines that belong to that, each with its CRLF.
    """

    def __init__(self, code: int, message: str, lines: bytes = b"") -> None:
        super().__init__(message)
        self.code = code
        self.lines = lines


class UnheldError(HeadError):
    """A head for the rest of which there is no room to wait."""

    def __init__(self, why: str) -> None:
        super().__init__(503, f"{why}; try again later", b"Retry-After: 1\r\n")


class GrpcError(HeadError):
    """A call of gRPC, which cannot be forwarded; its answer is one that clients of gRPC show."""

    def __init__(self) -> None:
        super().__init__(
            200,
            "apfproxy does not forward gRPC, which needs HTTP/2 up to the server, while the proxy"
            " speaks HTTP/1.1 to servers: call the server itself",
        )


def head_too_long(max_bytes: int) -> HeadError:
    """Refuse a head that is longer than that."""
    return HeadError(
        431, f"the request head is longer than {max_bytes} bytes (downstream.maxHeadBytes)"
    )
