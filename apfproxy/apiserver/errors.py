"""Failures that a client is answered with, as Kubernetes' `Status` objects.

Source: Kubernetes API conventions, "Response Status Kind"; apimachinery's `api/errors`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apfproxy.objects.field_errors import FieldError

MOST_CAUSES = 10_000
"""Causes that a Status lists; a small body can have a million."""


class StatusError(Exception):
    """A failure with its HTTP status.

    Attributes:
        reason: A word for programs, such as `NotFound`; "" for none.
        details: As in the Status object, where Kubernetes writes it even if empty; None for none.
    """

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: dict[str, Any] | None = None,
        retry_after_s: int = 0,
        metadata: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.retry_after_s = retry_after_s
        self.metadata = metadata or {}

    def status(self) -> dict[str, Any]:
        details = self.details
        if self.retry_after_s:
            details = {**(details or {}), "retryAfterSeconds": self.retry_after_s}
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata,
            "status": "Failure",
            "message": self.message,
            **({"reason": self.reason} if self.reason else {}),
            **({} if details is None else {"details": details}),
            "code": self.code,
        }


def success(**parts: object) -> dict[str, Any]:
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", **parts}


def bad_request(message: str) -> StatusError:
    return StatusError(400, "BadRequest", message)


def object_details(group: str, resource: str, name: str) -> dict[str, Any]:
    """The details that name an object; `resource` is its plural, or its kind where Go has that."""
    details = {"name": name, "group": group, "kind": resource}
    return {key: value for key, value in details.items() if value}


def qualified(group: str, resource: str) -> str:
    return f"{resource}.{group}" if group else resource


def _of_object(
    code: int, reason: str, group: str, resource: str, name: str, what: str, retry_after_s: int = 0
) -> StatusError:
    message = f'{qualified(group, resource)} "{name}" {what}'
    return StatusError(code, reason, message, object_details(group, resource, name), retry_after_s)


def not_found(group: str, resource: str, name: str) -> StatusError:
    return _of_object(404, "NotFound", group, resource, name, "not found")


def already_exists(
    group: str, resource: str, name: str, *, is_generated: bool = False
) -> StatusError:
    what = "already exists"
    if is_generated:
        what += ", the server was not able to generate a unique name for the object"
    return _of_object(409, "AlreadyExists", group, resource, name, what, int(is_generated))


def conflict(group: str, resource: str, name: str, reason: str) -> StatusError:
    message = f'Operation cannot be fulfilled on {qualified(group, resource)} "{name}": {reason}'
    return StatusError(409, "Conflict", message, object_details(group, resource, name))


def invalid(group: str, kind: str, name: str, errors: Sequence[FieldError]) -> StatusError:
    """422: fields of an object, or of options of group `meta.k8s.io`, are refused.

    There is at least one error; no more than `MOST_CAUSES` are listed.
    """
    listed = list(dict.fromkeys(map(str, errors[:MOST_CAUSES])))  # once, if it is two causes, too
    if (more := len(errors) - MOST_CAUSES) > 0:
        listed.append(f"and {more} more")
    shown = listed[0] if len(listed) == 1 else f"[{', '.join(listed)}]"
    details = object_details(group, kind, name)
    details["causes"] = [
        {"reason": error.reason, "message": error.message, "field": error.field}
        for error in errors[:MOST_CAUSES]
    ]
    message = f'{qualified(group, kind)} "{name}" is invalid: {shown}'
    return StatusError(422, "Invalid", message, details)


def no_such_resource(why: str = "") -> StatusError:
    message = f"the server could not find the requested resource{why}"
    return StatusError(404, "NotFound", message, {})


def method_not_allowed() -> StatusError:
    message = "the server does not allow this method on the requested resource"
    return StatusError(405, "MethodNotAllowed", message, {})


def forbidden(
    group: str, resource: str, name: str, reason: str, causes: list[dict[str, str]] | None = None
) -> StatusError:
    error = _of_object(403, "Forbidden", group, resource, name, f"is forbidden: {reason}")
    if causes:
        error.details = {**object_details(group, resource, name), "causes": causes}
    return error


def internal_error(why: str) -> StatusError:
    return StatusError(500, "InternalError", f"Internal error occurred: {why}")


def expired(message: str) -> StatusError:
    return StatusError(410, "Expired", message)


def unknown_error(message: str) -> StatusError:
    """500: a failure without a reason, as in Kubernetes."""
    return StatusError(500, "", message)
