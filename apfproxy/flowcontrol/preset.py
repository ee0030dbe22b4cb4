"""What kind of API the server behind has: how requests are read, and which objects are built in.

A preset is chosen once for a whole proxy, by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from apfproxy.api.flowcontrol.bootstrap import (
    HTTP_FILE,
    SUGGESTED_FILE,
    built_in,
    mandatory_objects,
)
from apfproxy.request.attributes import parse_attributes
from apfproxy.request.plain_attributes import plain_attributes

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.api.flowcontrol.types import FlowControlObject
    from apfproxy.request.attributes import RequestAttributes


@dataclass(frozen=True, slots=True)
class Preset:
    """A kind of API.

    Attributes:
        name: As the setting `preset` has it.
        is_plain: Whether it is not Kubernetes'.
        attributes_of: Reads a method and a target; AttributesError if they make no sense.
        file: Of `config/bootstrap/`: the objects beside the mandatory ones.
    """

    name: str
    is_plain: bool
    attributes_of: Callable[[str, bytes], RequestAttributes]
    file: str

    def suggested_objects(self) -> tuple[FlowControlObject, ...]:
        """The objects that are built in beside the mandatory ones; a user may replace them."""
        return built_in(self.file)

    def objects(self) -> tuple[FlowControlObject, ...]:
        """All objects that are built in."""
        return mandatory_objects() + self.suggested_objects()


KUBERNETES = Preset("kubernetes", False, parse_attributes, SUGGESTED_FILE)
HTTP = Preset("http", True, plain_attributes, HTTP_FILE)
PRESETS = {preset.name: preset for preset in (KUBERNETES, HTTP)}
