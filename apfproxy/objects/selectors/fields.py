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

from apfproxy.objects.selectors.errors import SelectorError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

TERM = re.compile(r"(?:[^\\,]++|\\.|\\\Z)+", re.DOTALL)
OPERATOR = re.compile(r"!=|==|=")
VALUE = re.compile(r"[^\\,=]*+(?:\\[\\,=][^\\,=]*+)*+")

SELECTOR = re.compile(
    # Of each term: what is before the first operator, escaped or not, that, and the value.
    r"(?:,++|(?:[^\\,=!]++|!(?!=)|\\(?:(?=!?=)|.))*+(?:!=|==?+)(?:[^\\,=]++|\\[\\,=])*+(?=,|\Z))*+",
    re.DOTALL,
)
"""All texts that `parse_field_selector` takes."""

NAME = "metadata.name"
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
        value = _unescaped(term[operator.end() :])
        field = term[: operator.start()]
        if not field and not value:
            continue  # Kubernetes takes it for a condition that everything meets.
        requirements.append(FieldRequirement(field, value, operator[0] == "!="))
    return FieldSelector(tuple(requirements))


def is_field_selector(text: str) -> bool:
    """Whether Kubernetes can parse the text, in a tenth of the time that it takes to parse it."""
    return SELECTOR.fullmatch(text) is not None


def required_value(text: str, field: str) -> str | None:
    """The value that a valid selector's first condition demands of a field; None for none."""
    ends = f",{text},"
    if "\\" in text:  # commas that end no term are hidden, at the same places
        ends = ends.replace("\\\\", "__").replace("\\,", "__")
    start, demands = f",{field}=", []
    at = ends.find(start)
    while at >= 0:
        end = ends.find(",", at + 1)
        demands.append(text[at + len(start) - 1 : end - 1])
        at = ends.find(start, end)
    return _unescaped(min(demands).removeprefix("=")) if demands else None


def _unescaped(value: str) -> str:
    """The value that is meant.

    Raises:
        SelectorError: A character has to be escaped, or must not be.
    """
    if VALUE.fullmatch(value):
        # With `\:` for an escaped backslash, which no value has, each backslash is of one escape.
        shown = value.replace("\\\\", "\\:").replace("\\,", ",").replace("\\=", "=")
        return shown.replace("\\:", "\\")
    position = len(VALUE.match(value)[0])  # type: ignore[index]  # it matches nothing, at least
    wrong = value[position : position + 2]
    if wrong[0] == "\\":
        raise SelectorError(f"invalid field selector: invalid escape sequence: {wrong}")
    # Kubernetes shows the character's number.
    raise SelectorError(f"invalid field selector: unescaped character in value: {ord(wrong[0])}")


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
