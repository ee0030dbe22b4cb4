"""Presets, one for each kind of API: how requests are read, and which objects are built in.

A preset is chosen once for a whole proxy, by name.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from apfproxy.objects.decode import (
    HTTP_FILE,
    LLM_FILE,
    SUGGESTED_FILE,
    built_in,
    mandatory_objects,
)
from apfproxy.request import rules
from apfproxy.request.attributes import RequestAttributes, parse_attributes, plain_attributes
from apfproxy.request.rules import RequestRules

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.objects.types import FlowControlObject


@dataclass(frozen=True, slots=True)
class Preset:
    """A kind of API.

    Attributes:
        is_plain: Whether it is not Kubernetes'.
        read: Makes attributes of a method and a target, by rules; AttributesError if they make no
            sense.
        file: Of `config/bootstrap/`: the objects beside the mandatory ones.
        timeout_s: Of requests, and of responses until they begin, where no setting says it: as in
            kube-apiserver; before model servers as OpenAI's clients wait.
    """

    name: str
    is_plain: bool
    read: Callable[[str, bytes, RequestRules], RequestAttributes]
    rules: RequestRules
    file: str
    timeout_s: float = 60.0

    def attributes_of(self, method: str, target: bytes) -> RequestAttributes:
        return self.read(method, target, self.rules)

    def with_rules(
        self,
        verbs: tuple[str, ...] | None,
        subresources: tuple[str, ...] | None,
        path_prefixes: tuple[str, ...] | None,
        api_prefixes: tuple[str, ...] = (),
    ) -> Preset:
        rules = RequestRules(
            self.rules.verbs if verbs is None else verbs,
            self.rules.subresources if subresources is None else subresources,
            self.rules.path_prefixes if path_prefixes is None else path_prefixes,
            api_prefixes,
        )
        return replace(self, rules=rules)

    def suggested_objects(self) -> tuple[FlowControlObject, ...]:
        return built_in(self.file)

    def objects(self) -> tuple[FlowControlObject, ...]:
        return mandatory_objects() + self.suggested_objects()


KUBERNETES = Preset("kubernetes", False, parse_attributes, rules.KUBERNETES, SUGGESTED_FILE)
HTTP = Preset("http", True, plain_attributes, rules.NONE, HTTP_FILE)
LLM = Preset("llm", True, plain_attributes, rules.NONE, LLM_FILE, 600.0)
PRESETS = {preset.name: preset for preset in (KUBERNETES, HTTP, LLM)}
