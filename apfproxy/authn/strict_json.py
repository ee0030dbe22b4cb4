"""JSON from strangers: one meaning, or an error.

Two readers of a token must not see two tokens in it, so a name that is there twice is an error, and
so is what JSON does not have (NaN, Infinity).
"""

from __future__ import annotations

import json
from typing import Any


class StrictJsonError(ValueError):
    """The text is no JSON object, or not one with one meaning.  Says no part of it."""


def read_object(data: bytes) -> dict[str, Any]:
    """The object that the text is.

    Raises:
        StrictJsonError: It is none.
    """
    try:
        value = json.loads(
            data.decode(), object_pairs_hook=once_each, parse_constant=refuse_constant
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


def once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these names and values.

    Raises:
        StrictJsonError: A name is there twice.
    """
    found = dict(pairs)
    if len(found) != len(pairs):
        raise StrictJsonError("a name twice in one object")
    return found


def refuse_constant(_name: str) -> None:
    """Refuse NaN and Infinity.

    Raises:
        StrictJsonError: Always.
    """
    raise StrictJsonError("a number that JSON does not have")
