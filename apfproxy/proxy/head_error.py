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
