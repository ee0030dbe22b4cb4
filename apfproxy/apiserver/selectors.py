r"""Selectors of objects: by labels, as a text or a LabelSelector object, and by fields.

The text of a label selector is split into words and symbols, then read by requirements:

    requirement = "!" key | key | key ("=" | "==" | "!=" | "<" | ">") [value]
                | key ("in" | "notin") "(" [value] {"," [value]} ")"

A field selector has terms such as `metadata.name=a` or `spec.nodeName!=b`, between commas; in
values, `\` comes before commas, equals signs and itself.

Sources: Kubernetes documentation, "Labels and Selectors" and "Field Selectors"; apimachinery's
`pkg/labels/selector.go` and `pkg/fields/selector.go`, for what they make of odd input, and
`pkg/apis/meta/v1/validation`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from apfproxy.objects.field_errors import FieldError, checked, forbidden, invalid, required
from apfproxy.objects.go_text import parse_int64
from apfproxy.objects.names import check_label_value, check_qualified_name
from apfproxy.objects.selectors import NAME, SelectorError, unescaped
from apfproxy.objects.validation import validate_labels

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from apfproxy.apiserver.store.entries import Entry
    from apfproxy.objects.types import Object

TOKEN = re.compile(r"[ \t\r\n]*(==|!=|[=!(),<>]|[^\x00 \t\r\n=!(),<>]+)\x00?")
"""A symbol or a word.  A NUL ends the text where a token could begin, and else is passed over."""
SYMBOLS = "=!(),<>"
END = ""

EXISTS, ABSENT, EQUALS, IN, NOT_IN = "exists", "!", "=", "in", "notin"
COMPARISONS = {"=": IN, "==": IN, "!=": NOT_IN, "<": "<", ">": ">"}
BINARY_OPERATORS = "in, notin, =, ==, !=, gt, lt"
OBJECT_OPERATORS = {"In": IN, "NotIn": NOT_IN, "Exists": EXISTS, "DoesNotExist": ABSENT}
WRONG_OPERATOR = "not a valid selector operator"

TERM = re.compile(r"(?:[^\\,]++|\\.|\\\Z)+", re.DOTALL)
FIELD_OPERATOR = re.compile(r"!=|==|=")
NAMESPACE = "metadata.namespace"


@dataclass(frozen=True, slots=True)
class Requirement:
    """A condition on labels; `in`, `=` and `notin` have sorted values, `<` and `>` a bound."""

    key: str
    operator: str
    values: tuple[str, ...] = ()
    bound: int = 0

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "in" | "=":
                return value in self.values
            case "notin":
                return value not in self.values
            case "exists":
                return value is not None
            case "!":
                return value is None
        try:
            number = parse_int64(value or "")
        except ValueError:
            return False
        return number < self.bound if self.operator == "<" else number > self.bound

    def __str__(self) -> str:
        match self.operator:
            case "in" | "notin":
                return f"{self.key} {self.operator} ({','.join(self.values)})"
            case "exists":
                return self.key
            case "!":
                return f"!{self.key}"
        return f"{self.key}{self.operator}{self.values[0] if self.values else self.bound}"


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """Conditions that all have to be met, sorted by key; no labels match if it `is_nothing`."""

    requirements: tuple[Requirement, ...] = ()
    is_nothing: bool = False

    @property
    def is_everything(self) -> bool:
        return not self.requirements and not self.is_nothing

    def matches(self, labels: Mapping[str, str]) -> bool:
        return not self.is_nothing and all(each.matches(labels) for each in self.requirements)


NOTHING = LabelSelector(is_nothing=True)


def _selector(requirements: list[Requirement]) -> LabelSelector:
    return LabelSelector(tuple(sorted(requirements, key=lambda requirement: requirement.key)))


def parse_label_selector(text: str) -> LabelSelector:
    """Parse a selector; SelectorError if Kubernetes cannot."""
    tokens: list[str] = []
    position = 0
    while match := TOKEN.match(text, position):
        tokens.append(match[1])
        position = match.end()
    if not tokens:
        return LabelSelector()
    tokens = [END, *reversed(tokens)]  # the next one is last
    requirements = []
    wanted = "!, identifier, or 'end of string'"
    while True:
        if tokens[-1] != "!" and not _is_word(tokens[-1]):
            raise _unexpected(tokens[-1], wanted)
        try:
            requirements.append(_take_requirement(tokens))
        except SelectorError as error:
            raise SelectorError(f"unable to parse requirement: {error}") from error
        piece = tokens.pop()
        if piece == END:
            return _selector(requirements)
        if piece != ",":
            raise _unexpected(piece, "',' or 'end of string'")
        wanted = "identifier after ','"


def _is_word(piece: str) -> bool:
    return piece[:1] not in SYMBOLS


def _unexpected(piece: str, wanted: str) -> SelectorError:
    return SelectorError(f"found '{piece}', expected: {wanted}")


def _take_requirement(tokens: list[str]) -> Requirement:
    if is_negated := tokens[-1] == "!":
        tokens.pop()
    key = tokens.pop()
    if not _is_word(key):
        raise _unexpected(key, "identifier")
    if wrong := check_qualified_name(key):
        # Kubernetes has no path to show here.
        raise SelectorError(str(invalid("<nil>", key, "; ".join(wrong))))
    if is_negated:
        return Requirement(key, ABSENT)  # and any further token but a comma is refused
    if tokens[-1] in {END, ","}:
        return Requirement(key, EXISTS)
    operator = tokens.pop()
    if operator in {IN, NOT_IN}:
        return _comparison(key, operator, _take_values(tokens))
    if operator in COMPARISONS:
        return _comparison(key, COMPARISONS[operator], {_take_value(tokens)})
    raise _unexpected(operator, BINARY_OPERATORS)


def _comparison(key: str, operator: str, values: set[str]) -> Requirement:
    ordered = tuple(sorted(values))
    is_numeric = operator in {"<", ">"}
    bound = 0
    errors: list[str] = []
    if is_numeric:
        try:
            bound = parse_int64(ordered[0])
        except ValueError:
            detail = "for 'Gt', 'Lt' operators, the value must be an integer"
            errors.append(str(invalid("values[0]", ordered[0], detail)))
    for index, value in enumerate(ordered):
        if wrong := check_label_value(value):
            errors.append(str(invalid(f"values[{index}][{key}]", value, "; ".join(wrong))))
    if errors:
        raise SelectorError(errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]")
    return Requirement(key, operator, () if is_numeric else ordered, bound)


def _take_value(tokens: list[str]) -> str:
    """Take the single value of a requirement; none stands for ""."""
    if tokens[-1] in {END, ","}:
        return ""
    piece = tokens.pop()
    if not _is_word(piece):
        raise _unexpected(piece, "identifier")
    return piece


def _take_values(tokens: list[str]) -> set[str]:
    """Take the values between parentheses; missing ones stand for ""."""
    piece = tokens.pop()
    if piece != "(":
        raise SelectorError(f"found '{piece}' expected: '('")
    if tokens[-1] == ")":
        tokens.pop()
        return {""}
    if tokens[-1] != "," and not _is_word(tokens[-1]):
        raise _unexpected(tokens[-1], "',', ')' or identifier")
    values: set[str] = set()
    while True:
        piece = tokens.pop()
        following = tokens[-1] if tokens else END
        if _is_word(piece):
            values.add(piece)
            if following not in {",", ")"}:
                raise _unexpected(following, "',' or ')'")
        elif piece != ",":
            raise _unexpected(piece, "',', or identifier")
        else:
            if not values or following in {",", ")"}:
                values.add("")
            if following == ",":  # Kubernetes' parser takes commas in pairs,
                tokens.pop()
                continue  # and wants more after a whole pair.
        if following == ")":
            tokens.pop()
            return values


def selector_of(label_selector: Object | None) -> LabelSelector:
    """Make the selector that an object describes, nothing for None; or SelectorError."""
    if label_selector is None:
        return NOTHING
    labels: dict[str, str] = label_selector.get("matchLabels") or {}
    requirements = [Requirement(key, EQUALS, (value,)) for key, value in labels.items()]
    for expression in label_selector.get("matchExpressions") or ():
        name = expression.get("operator", "")
        operator = OBJECT_OPERATORS.get(name)
        if operator is None:
            raise SelectorError(f'"{name}" is not a valid label selector operator')
        values = tuple(sorted(expression.get("values") or ()))
        if (operator in {IN, NOT_IN}) != bool(values):
            raise SelectorError(f"{name} has {len(set(values))} values")
        requirements.append(Requirement(expression.get("key", ""), operator, values))
    return _selector(requirements)


def selector_text(label_selector: Object | None) -> str:
    """Write a LabelSelector object as clients write selectors; "" for none, and a wrong one."""
    try:
        return ",".join(map(str, selector_of(label_selector).requirements))
    except SelectorError:
        return ""


def validate_label_selector(label_selector: Object, path: str) -> list[FieldError]:
    errors = validate_labels(label_selector.get("matchLabels", {}), f"{path}.matchLabels")
    for index, expression in enumerate(label_selector.get("matchExpressions", ())):
        errors += validate_expression(expression, f"{path}.matchExpressions[{index}]")
    return errors


def validate_expression(expression: Object, path: str) -> list[FieldError]:
    name, values = expression.get("operator", ""), expression.get("values")
    operator = OBJECT_OPERATORS.get(name)
    errors: list[FieldError] = []
    if operator is None:
        errors.append(invalid(f"{path}.operator", name, WRONG_OPERATOR))
    elif operator in {IN, NOT_IN} and not values:
        detail = "must be specified when `operator` is 'In' or 'NotIn'"
        errors.append(required(f"{path}.values", detail))
    elif operator in {EXISTS, ABSENT} and values:
        detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        errors.append(forbidden(f"{path}.values", detail))
    return errors + validate_words(expression, path)


def validate_words(expression: Object, path: str) -> list[FieldError]:
    errors = checked(f"{path}.key", expression.get("key", ""), check_qualified_name)
    for index, value in enumerate(expression.get("values") or ()):
        errors += checked(f"{path}.values[{index}]", value, check_label_value)
    return errors


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """Conditions that all have to be met: a field's path, a value, whether it must not have it.

    They are in Kubernetes' order, which sorts terms.
    """

    requirements: tuple[tuple[str, str, bool], ...] = ()

    @property
    def is_everything(self) -> bool:
        return not self.requirements

    def matches(self, entry: Entry) -> bool:
        fields = entry.fields
        for field, value, no in self.requirements:
            if field == NAME:
                found = entry.name
            else:
                found = entry.namespace if field == NAMESPACE else fields.get(field, "")
            if (found == value) == no:
                return False
        return True


def parse_field_selector(text: str) -> FieldSelector:
    """Parse a selector; SelectorError if Kubernetes cannot."""
    requirements = []
    for term in sorted([found[0] for found in TERM.finditer(text)]):
        operator = FIELD_OPERATOR.search(term)
        if operator is None:
            raise SelectorError(f"invalid selector: '{text}'; can't understand '{term}'")
        field, value = term[: operator.start()], unescaped(term[operator.end() :])
        if field or value:  # Kubernetes takes others for conditions that everything meets.
            requirements.append((field, value, operator[0] == "!="))
    return FieldSelector(tuple(requirements))


def check_fields(
    selector: FieldSelector, selectable: Collection[str], *, is_namespaced: bool, kind: str = ""
) -> None:
    """Check that a kind has all fields that a selector names; SelectorError if it has not."""
    known = {NAME, *selectable}
    if is_namespaced or not selectable:
        known.add(NAMESPACE)
    for field, _, _ in selector.requirements:
        if field in known:
            continue
        if selectable:
            raise SelectorError(f"field label not supported{kind and f' for {kind}'}: {field}")
        shown = json.dumps(field, ensure_ascii=False)
        raise SelectorError(f'{shown} is not a known field selector: only "{NAME}", "{NAMESPACE}"')
