"""Events whose errors end what they are of."""

from __future__ import annotations

from apfproxy.base.faults import guarded


class Connection:
    """Divides.

    Attributes:
        errors: That ended it.
    """

    def __init__(self) -> None:
        self.errors: list[Exception] = []

    def fail(self, error: Exception) -> None:
        """Keep the error."""
        self.errors.append(error)

    @guarded
    def divide(self, by: int) -> float:
        """Have an event."""
        return 1 / by


def test_guarded() -> None:
    """What an event returns is returned; its error ends the connection, and no more."""
    connection = Connection()

    assert (0.5, None) == (connection.divide(2), connection.divide(0))
    assert [ZeroDivisionError] == [type(error) for error in connection.errors]
    assert "Have an event." == Connection.divide.__doc__
