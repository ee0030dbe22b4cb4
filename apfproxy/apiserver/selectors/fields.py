r"""Field selectors: the text of the parameter `fieldSelector`.

Terms such as `metadata.name=a` or `spec.nodeName!=b`, between commas; in values, `\` comes before
commas, equals signs and itself.

Sources: Kubernetes documentation, "Field Selectors"; apimachinery `pkg/fields/selector.go`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from apfproxy.objects.selectors import NAME, SelectorError, unescaped

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

TERM = re.compile(r"(?:[^\\,]++|\\.|\\\Z)+", re.DOTALL)
OPERATOR = re.compile(r"!=|==|=")

NAMESPACE = "metadata.namespace"


@dataclass(frozen=True, slots=True)
class FieldRequirement:
    """One condition on a field of an object.

    Attributes:
        field: Its path.
        value: To compare it with.
        is_negated: Whether the field must not have it.
    """

    field: str
    value: str
    is_negated: bool = False


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """Conditions that all have to be met; in Kubernetes' order, which sorts terms."""

    requirements: tuple[FieldRequirement, ...] = ()

    @property
    def is_everything(self) -> bool:
        """Whether all objects match."""
        return not self.requirements

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Whether fields meet all conditions; one that is absent has the value ""."""
        return all(
            (fields.get(requirement.field, "") == requirement.value) != requirement.is_negated
            for requirement in self.requirements
        )


EVERYTHING = FieldSelector()


def parse_field_selector(text: str) -> FieldSelector:
    """Parse the text of a selector.

    Raises:
        SelectorError: Kubernetes cannot parse it.
    """
    if not text:
        return EVERYTHING
    requirements = []
    for term in sorted(TERM.findall(text)):
        operator = OPERATOR.search(term)
        if operator is None:
            raise SelectorError(f"invalid selector: '{text}'; can't understand '{term}'")
        value = unescaped(term[operator.end() :])
        field = term[: operator.start()]
        if not field and not value:
            continue  # Kubernetes takes it for a condition that everything meets.
        requirements.append(FieldRequirement(field, value, operator[0] == "!="))
    return FieldSelector(tuple(requirements))


def check_fields(
    selector: FieldSelector, selectable: Collection[str], *, is_namespaced: bool, kind: str = ""
) -> None:
    """Check that a kind has all fields that a selector names.

    Raises:
        SelectorError: It does not have one of them.
    """
    for requirement in selector.requirements:
        field = requirement.field
        if field == NAME or field in selectable:
            continue
        if field == NAMESPACE and (is_namespaced or not selectable):
            continue
        if not selectable:
            shown = json.dumps(field, ensure_ascii=False)
            raise SelectorError(
                f'{shown} is not a known field selector: only "{NAME}", "{NAMESPACE}"'
            )
        raise SelectorError(f"field label not supported{f' for {kind}' if kind else ''}: {field}")
