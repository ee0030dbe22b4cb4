"""The objects that are there without configuration: those of Kubernetes 1.36 and for other APIs."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING

from apfproxy.objects.decode import decode_documents

if TYPE_CHECKING:
    from apfproxy.objects.types import FlowControlObject

INSTALLED = Path(__file__).parents[1] / "shipped" / "bootstrap"
CHECKOUT = Path(__file__).parents[2] / "config" / "bootstrap"
DIRECTORY = INSTALLED if INSTALLED.is_dir() else CHECKOUT

MANDATORY_FILE, SUGGESTED_FILE, HTTP_FILE = "mandatory.yaml", "suggested.yaml", "http.yaml"


def mandatory_objects() -> tuple[FlowControlObject, ...]:
    """The objects that always exist unchanged: levels and schemas `exempt` and `catch-all`."""
    return built_in(MANDATORY_FILE)


def suggested_objects() -> tuple[FlowControlObject, ...]:
    """The objects that make a good start for a Kubernetes API; a user may replace them."""
    return built_in(SUGGESTED_FILE)


def bootstrap_objects() -> tuple[FlowControlObject, ...]:
    """The mandatory objects and the suggested ones."""
    return mandatory_objects() + suggested_objects()


@functools.cache
def built_in(file: str, where: Path = DIRECTORY) -> tuple[FlowControlObject, ...]:
    """The objects of one of the files; a `ValueError` if it has problems, as only an edited one."""
    decoded = decode_documents((where / file).read_bytes(), file)
    if decoded.problems:
        raise ValueError("; ".join(str(problem) for problem in decoded.problems))
    return tuple(decoded.objects)
