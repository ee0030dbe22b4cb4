"""The form of an answer, chosen from the client's Accept field.

Kubernetes looks at `Accept` twice.  What routes a request knows whole media types only and no
weights: neither `application/*` nor other cases of letters.  What answers it then takes the first
of the choices, by weight, that it can write in the shape that is asked for.

Sources: Kubernetes documentation, "API Concepts", "Resource representations", "Receiving resources
as Tables"; go-restful's `matchesAccept`; apiserver's `endpoints/handlers/negotiation`; goautoneg.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from apfproxy.apiserver.errors import StatusError
from apfproxy.http.grammar import accepted, weight_of

if TYPE_CHECKING:
    from apfproxy.http.grammar import Accepted

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
AVAILABLE = (JSON, YAML, PROTOBUF)
"""As Kubernetes names them; protobuf is only read here, so clients get their next choice."""
EVENTS = (f"{JSON};stream=watch", f"{PROTOBUF};stream=watch")
"""Media types of the events of a watch."""
STREAMED = (*AVAILABLE, *EVENTS)
"""Media types where a request may be a watch."""
WRITTEN = (JSON, YAML)
"""Media types that this server writes."""

META_GROUP = "meta.k8s.io"
META_VERSIONS = ("v1", "v1beta1")
META_PREFERRED = "v1"
MOST_SORTED_BY_INSERTION = 12
"""Choices; Go sorts more of them by another algorithm."""


class Shape(enum.Enum):
    """What is made of an object."""

    OBJECT = ""
    TABLE = "Table"
    METADATA = "PartialObjectMetadata"
    METADATA_LIST = "PartialObjectMetadataList"


NO_SHAPES: frozenset[Shape] = frozenset()
ALL_SHAPES = frozenset(Shape)
WITHOUT_TABLE = ALL_SHAPES - {Shape.TABLE}


@dataclass(frozen=True, slots=True)
class Form:
    """A form of answers: JSON or YAML, of a shape in a version of `meta.k8s.io`."""

    media_type: str = JSON
    shape: Shape = Shape.OBJECT
    meta_version: str = META_PREFERRED

    @property
    def is_yaml(self) -> bool:
        """Whether the answer is YAML."""
        return self.media_type == YAML


AS_JSON = Form()


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the choices of a client; type and subtype are `*` for any."""

    type: str
    subtype: str
    quality: float = 1.0
    parameters: dict[str, str] = field(default_factory=dict)

    def written(self) -> tuple[str, ...]:
        """The media types that this server writes and the choice stands for, the best first."""
        if self.subtype == "*" and self.type in {"*", "application"}:
            return WRITTEN
        name = f"{self.type}/{self.subtype}"
        return (name,) if name in WRITTEN else ()

    @property
    def converts_to(self) -> tuple[str, str, str] | None:
        """Group, version and kind that objects are to be converted to; None for none."""
        values = self.parameters
        if not values.keys() & {"g", "v", "as"}:
            return None
        return values.get("g", ""), values.get("v", ""), values.get("as", "")


def check_route(accept: str, available: tuple[str, ...] = AVAILABLE) -> None:
    """Raise 406 unless a client accepts one of the available media types by name."""
    for choice in (accept or "*/*").split(","):
        name = choice.partition(";")[0].strip(" ")
        if name == "*/*" or name in available:
            return
    message = f"406: Not Acceptable\n\nAvailable representations: {', '.join(available)}"
    raise StatusError(406, "NotAcceptable", message, {})


@lru_cache(maxsize=256)
def choices(accept: str) -> tuple[Choice, ...]:
    """The choices of a client, best first."""
    found = [choice for each in accepted(accept) if (choice := choice_of(each)) is not None]
    if len(found) > MOST_SORTED_BY_INSERTION:
        found.sort(key=lambda choice: (-choice.quality, choice.type == "*", choice.subtype == "*"))
        return tuple(found)
    # The comparison is no order: a may come before b and b before a.  So the result depends on the
    # algorithm, which is Go's insertion sort.
    for end in range(1, len(found)):
        place = end
        while place and is_better(found[place], found[place - 1]):
            found[place - 1], found[place] = found[place], found[place - 1]
            place -= 1
    return tuple(found)


def choice_of(element: Accepted) -> Choice | None:
    """One choice; None for one that is no media type."""
    type_, slash, subtype = (each.strip() for each in element.name.partition("/"))
    if not slash or not subtype:
        if type_ != "*" or subtype:
            return None
        subtype = "*"
    if "/" in subtype:
        return None
    parameters = {key: value for key, value in element.parameters if value and "=" not in value}
    return Choice(type_, subtype, weight_of(parameters.pop("q", "1")), parameters)


def is_better(one: Choice, other: Choice) -> bool:
    """Whether Go's comparison puts a choice before another."""
    return (
        one.quality > other.quality
        or (one.type != "*" and other.type == "*")
        or (one.subtype != "*" and other.subtype == "*")
    )


def form_of(media_type: str, choice: Choice, shapes: frozenset[Shape]) -> Form | None:
    """The form of a choice, which stands for a media type; None if it cannot be written."""
    stream = choice.parameters.get("stream")
    if stream and (stream != "watch" or media_type == YAML):
        return None
    if choice.parameters.get("sv", "") not in {"", *(META_VERSIONS[:1] if shapes else ())}:
        return None
    wanted = choice.converts_to
    if wanted is None:
        return Form(media_type)
    group, version, kind = wanted
    if group != META_GROUP or version not in META_VERSIONS or not kind:
        return None
    shape = next((shape for shape in shapes if shape.value == kind), None)
    return None if shape is None else Form(media_type, shape, version)


def chosen(accept: str, *, shapes: frozenset[Shape] = NO_SHAPES, streams: bool = False) -> Form:
    """The form of an answer.

    Args:
        accept: The field's value; "" for any form.
        shapes: Of `meta.k8s.io`, which objects can be converted to here.
        streams: Whether the answer is a stream of events, which is never YAML.

    Raises:
        StatusError: 406, none of what the client accepts can be written.
    """
    if not accept:
        return AS_JSON
    for choice in choices(accept):
        for media_type in choice.written():
            form = form_of(media_type, choice, shapes)
            if form is not None and not (streams and form.is_yaml):
                return form
    available = ", ".join(EVENTS if streams else AVAILABLE)
    message = f"only the following media types are accepted: {available}"
    raise StatusError(406, "NotAcceptable", message)
