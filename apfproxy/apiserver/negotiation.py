"""In which form a client wants its answer.

Source: Kubernetes documentation, "API Concepts", "Resource representations", "Receiving resources
as Tables"; RFC 9110, 12.5.1.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from functools import lru_cache

from apfproxy.apiserver.errors import StatusError

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
AVAILABLE = f"{JSON}, {YAML}, {PROTOBUF}"
"""As Kubernetes words it; protobuf is only read here, so that clients get their next choice."""

META_GROUP = "meta.k8s.io"
META_VERSIONS = ("v1", "v1beta1")


class Shape(enum.Enum):
    """What is made of an object."""

    OBJECT = ""
    TABLE = "Table"
    METADATA = "PartialObjectMetadata"
    METADATA_LIST = "PartialObjectMetadataList"


@dataclass(frozen=True, slots=True)
class Form:
    """A form of answers.

    Attributes:
        media_type: `application/json` or `application/yaml`.
        shape: What is made of an object.
        meta_version: The version of `meta.k8s.io` that the shape has.
        group: `g` of the media type, for discovery; "" for none.
        version: `v` of it.
        kind: `as` of it.
    """

    media_type: str = JSON
    shape: Shape = Shape.OBJECT
    meta_version: str = "v1"
    group: str = ""
    version: str = ""
    kind: str = ""

    @property
    def is_yaml(self) -> bool:
        """Whether the answer is YAML."""
        return self.media_type == YAML


AS_JSON = Form()


def not_acceptable() -> StatusError:
    """406: no form that the client accepts is available."""
    message = f"406: Not Acceptable\n\nAvailable representations: {AVAILABLE}"
    return StatusError(406, "NotAcceptable", message, {})


@lru_cache(maxsize=256)
def forms(accept: str) -> tuple[Form, ...]:
    """The forms that a client accepts and this server can write, best first.

    Args:
        accept: The field's value; "" for any form.
    """
    if not accept.strip():
        return (AS_JSON,)
    found = []
    for position, clause in enumerate(accept.split(",")):
        media_type, *parameters = [part.strip() for part in clause.split(";")]
        values = {
            name.strip().lower(): value.strip().strip('"')
            for name, _, value in (each.partition("=") for each in parameters)
        }
        quality = quality_of(values.pop("q", "1"))
        form = form_of(media_type.lower(), values)
        if form is not None and quality > 0:
            found.append((-quality, position, form))
    found.sort(key=lambda each: each[:2])
    return tuple(form for _, _, form in found)


def quality_of(text: str) -> float:
    """The weight of a choice; 0 where it cannot be read."""
    try:
        return float(text)
    except ValueError:
        return 0.0


def form_of(media_type: str, values: dict[str, str]) -> Form | None:
    """The form of one choice; None if this server cannot write it."""
    if media_type in {"*/*", "application/*", JSON}:
        media_type = JSON
    elif media_type != YAML:
        return None
    kind, group, version = values.get("as", ""), values.get("g", ""), values.get("v", "")
    shape = Shape.OBJECT
    if kind and group == META_GROUP:
        if version not in META_VERSIONS:
            return None
        try:
            shape = Shape(kind)
        except ValueError:
            return None
    return Form(media_type, shape, version or "v1", group, version, kind)


def chosen(accept: str, *, shapes: frozenset[Shape]) -> Form:
    """The form of an answer that may have some shapes.

    Raises:
        StatusError: 406, none of what the client accepts is available.
    """
    for form in forms(accept):
        if form.shape in shapes and (form.shape is not Shape.OBJECT or not form.kind):
            return form
    raise not_acceptable()
