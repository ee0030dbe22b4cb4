"""JSON that every reader understands alike: neither names given twice, nor NaN or Infinity."""

from __future__ import annotations

import json
from typing import Any


class StrictJsonError(ValueError):
    """The text is no such JSON object.  Quotes no part of it."""


def read_object(data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(
            data.decode(), object_pairs_hook=_once_each, parse_constant=_refuse_constant
        )
    except StrictJsonError:
        raise
    except UnicodeDecodeError:
        # The causes have the data in them.
        raise StrictJsonError("not UTF-8") from None
    except RecursionError:
        raise StrictJsonError("nested too deep") from None
    except ValueError:
        raise StrictJsonError("not JSON") from None
    if not isinstance(value, dict):
        raise StrictJsonError("not an object")
    return value


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise StrictJsonError("a name twice in one object")
    return found


def _refuse_constant(_name: str) -> None:
    raise StrictJsonError("a number that JSON does not have")
