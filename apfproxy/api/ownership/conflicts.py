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
        self.message = message_of(conflicts)
        super().__init__(self.message)

    def causes(self) -> list[dict[str, str]]:
        """The causes of the Status."""
        return [
            {"reason": "FieldManagerConflict", "message": f"conflict with {manager}", "field": path}
            for manager, path in self.conflicts
        ]


def message_of(conflicts: list[tuple[str, str]]) -> str:
    """What conflicts there are, by manager."""
    if len(conflicts) == 1:
        manager, path = conflicts[0]
        return f"Apply failed with 1 conflict: conflict with {manager}: {path}"
    by_manager: dict[str, list[str]] = {}
    for manager, path in conflicts:
        by_manager.setdefault(manager, []).append(path)
    lines = []
    for manager, owned in by_manager.items():
        lines.append(f"conflicts with {manager}:")
        lines += [f"- {path}" for path in owned]
    return f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)
