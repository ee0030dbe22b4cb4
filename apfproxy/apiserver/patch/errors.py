"""Why a patch cannot be applied, with the status that a client is answered with."""

from __future__ import annotations

REASONS = {400: "BadRequest", 413: "RequestEntityTooLarge", 422: "Invalid", 500: ""}
"""HTTP status to the `reason` of a Status."""

REJECTED = "the server rejected our request due to an error in our request"
"""All that Kubernetes says of a patch that does not fit the object."""


class PatchError(ValueError):
    """A patch that cannot be applied.

    Attributes:
        code: HTTP status: 400 for a patch that is none, 413 for one too large, 422 for one that
            does not fit the object; 500 where Kubernetes blames itself, though wrongly.
        reason: As a Status has it.
    """

    def __init__(self, code: int, message: str = REJECTED) -> None:
        super().__init__(message)
        self.code = code
        self.reason = REASONS[code]
