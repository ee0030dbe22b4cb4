"""What an apply would change although others own it."""

from __future__ import annotations


class OwnershipConflicts(Exception):  # noqa: N818  what the caller asks for is right in itself
    """Others own what an apply would change.  An answer of code 409 and reason `Conflict`.

    Attributes:
        conflicts: Manager as messages name it, and path such as `.spec.matchingPrecedence`.
        message: For the Status.
    """

    def __init__(self, conflicts: list[tuple[str, str]]) -> None:
        self.conflicts = conflicts
        if len(conflicts) == 1:
            manager, path = conflicts[0]
            self.message = f"Apply failed with 1 conflict: conflict with {manager}: {path}"
        else:
            lines: dict[str, list[str]] = {}
            for manager, path in conflicts:
                lines.setdefault(manager, [f"conflicts with {manager}:"]).append(f"- {path}")
            listed = "\n".join(line for of_one in lines.values() for line in of_one)
            self.message = f"Apply failed with {len(conflicts)} conflicts: {listed}"
        super().__init__(self.message)

    def causes(self) -> list[dict[str, str]]:
        """The causes of the Status."""
        return [
            {"reason": "FieldManagerConflict", "message": f"conflict with {manager}", "field": path}
            for manager, path in self.conflicts
        ]
