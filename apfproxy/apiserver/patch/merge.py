"""Merge patches: an object of what is to be changed, with null for what is to go.

Source: RFC 7386.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apfproxy.apiserver.go_values import value_name
from apfproxy.apiserver.patch.errors import PatchError

if TYPE_CHECKING:
    from apfproxy.objects.types import Object

DEEPEST = 200
"""Levels of a patch: far more than any object has, far fewer than exhaust the stack."""


def merge_patch(obj: Object, patch: object) -> Object:
    """The object that a merge patch makes of another, which is not changed.

    It shares with both arguments what it has of only one of them.

    Raises:
        PatchError: The patch is no object (400), or too deep (400).
    """
    if patch is None:
        raise PatchError(400, "Invalid JSON Patch")
    if not isinstance(patch, dict):
        cannot = f"json: cannot unmarshal {value_name(patch)} into Go value of type"
        raise PatchError(400, f"error decoding patch: {cannot} map[string]interface {{}}")
    return _merged(obj, patch, DEEPEST)


def _merged(old: object, patch: Object, levels: int) -> Object:
    """The object that the patch makes of a value; one that is no object counts as an empty one."""
    if levels == 0:
        raise PatchError(400, f"the patch has more than {DEEPEST} levels")
    new: dict[str, Any] = dict(old) if isinstance(old, dict) else {}
    for name, value in patch.items():
        if value is None:
            new.pop(name, None)
        elif isinstance(value, dict):
            new[name] = _merged(new.get(name), value, levels - 1)
        else:
            new[name] = value
    return new
