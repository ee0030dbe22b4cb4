"""Label selectors: the text of the parameter `labelSelector`, and LabelSelector objects.

A text is split into words and symbols, then read requirement by requirement:

    requirement = "!" key | key | key ("=" | "==" | "!=" | "<" | ">") [value]
                | key ("in" | "notin") "(" [value] {"," [value]} ")"

Sources: Kubernetes documentation, "Labels and Selectors"; apimachinery `pkg/labels/selector.go`,
for what it makes of odd input, and `pkg/apis/meta/v1/validation`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from apfproxy.objects.field_errors import FieldError, checked, forbidden, invalid, required
from apfproxy.objects.go_text import parse_int64
from apfproxy.objects.names import check_label_value, check_qualified_name
from apfproxy.objects.selectors import SelectorError
from apfproxy.objects.validation import validate_labels

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apfproxy.objects.types import Object

TOKEN = re.compile(r"[ \t\r\n]*(?:(==|!=|[=!(),<>])|([^\x00 \t\r\n=!(),<>]+))\x00?")
"""A symbol or a word.  A NUL ends the text where a token could begin, and else is passed over."""
END = ("", False)

EXISTS = "exists"
ABSENT = "!"
IN = "in"
NOT_IN = "notin"
COMPARISONS = {"=": IN, "==": IN, "!=": NOT_IN, "<": "<", ">": ">"}
BINARY_OPERATORS = (IN, NOT_IN, "=", "==", "!=", "gt", "lt")
"""As messages list them."""

OBJECT_OPERATORS = {"In": IN, "NotIn": NOT_IN, "Exists": EXISTS, "DoesNotExist": ABSENT}
"""Operator of a LabelSelector object to that of a requirement."""
WRONG_OPERATOR = "not a valid selector operator"


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on the labels of an object.

    Attributes:
        key: Of the label.
        operator: `in`, `notin`, `exists`, `!`, `<` or `>`.
        values: Of `in` and `notin`; sorted.
        bound: Of `<` and `>`.
    """

    key: str
    operator: str
    values: tuple[str, ...] = ()
    bound: int = 0

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether labels meet the condition."""
        value = labels.get(self.key)
        match self.operator:
            case "in":
                return value is not None and value in self.values
            case "notin":
                return value is None or value not in self.values
            case "exists":
                return value is not None
            case "!":
                return value is None
        if value is None:
            return False
        try:
            number = parse_int64(value)
        except ValueError:
            return False
        return number < self.bound if self.operator == "<" else number > self.bound


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """Conditions that all have to be met.

    Attributes:
        requirements: Sorted by key.
        is_nothing: Whether no labels match whatsoever.
    """

    requirements: tuple[Requirement, ...] = ()
    is_nothing: bool = False

    @property
    def is_everything(self) -> bool:
        """Whether all labels match."""
        return not self.requirements and not self.is_nothing

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether labels meet all conditions."""
        if self.is_nothing:
            return False
        return all(requirement.matches(labels) for requirement in self.requirements)


EVERYTHING = LabelSelector()
NOTHING = LabelSelector(is_nothing=True)


def parse_label_selector(text: str) -> LabelSelector:
    """Parse the text of a selector.

    Raises:
        SelectorError: Kubernetes cannot parse it.
    """
    tokens: list[tuple[str, bool]] = []  # text, and whether it is a word
    position = 0
    while match := TOKEN.match(text, position):
        tokens.append((match[1] or match[2], match[2] is not None))
        position = match.end()
    if not tokens:
        return EVERYTHING
    tokens.append(END)
    tokens.reverse()  # the next one is last
    _expect_requirement(tokens, "!, identifier, or 'end of string'")
    requirements = []
    while True:
        try:
            requirements.append(_take_requirement(tokens))
        except SelectorError as error:
            raise SelectorError(f"unable to parse requirement: {error}") from error
        token = tokens.pop()
        if token == END:
            break
        if token != (",", False):
            raise SelectorError(f"found '{token[0]}', expected: ',' or 'end of string'")
        _expect_requirement(tokens, "identifier after ','")
    requirements.sort(key=lambda requirement: requirement.key)
    return LabelSelector(tuple(requirements))


def _expect_requirement(tokens: list[tuple[str, bool]], wanted: str) -> None:
    """Refuse a token that no requirement begins with."""
    text, is_word = tokens[-1]
    if not is_word and text != "!":
        raise SelectorError(f"found '{text}', expected: {wanted}")


def _take_requirement(tokens: list[tuple[str, bool]]) -> Requirement:
    """Take one requirement from the end of the tokens."""
    key, is_word = tokens.pop()
    is_negated = key == "!" and not is_word
    if is_negated:
        key, is_word = tokens.pop()
    if not is_word:
        raise SelectorError(f"found '{key}', expected: identifier")
    if wrong := check_qualified_name(key):
        # Kubernetes has no path to show here.
        raise SelectorError(str(invalid("<nil>", key, "; ".join(wrong))))
    if tokens[-1] in {END, (",", False)}:
        return Requirement(key, ABSENT if is_negated else EXISTS)
    if is_negated:
        return Requirement(key, ABSENT)  # and the next token is refused
    operator, _ = tokens.pop()
    if operator in {IN, NOT_IN}:
        return _comparison(key, operator, _take_values(tokens))
    if operator in COMPARISONS:
        return _comparison(key, COMPARISONS[operator], {_take_value(tokens)})
    raise SelectorError(f"found '{operator}', expected: {', '.join(BINARY_OPERATORS)}")


def _comparison(key: str, operator: str, values: set[str]) -> Requirement:
    """The requirement that compares a label with values.

    Raises:
        SelectorError: A value cannot be that of a label, or no number where one is compared.
    """
    ordered = tuple(sorted(values))
    bound = 0
    errors: list[FieldError] = []
    if operator in {"<", ">"}:
        try:
            bound = parse_int64(ordered[0])
        except ValueError:
            detail = "for 'Gt', 'Lt' operators, the value must be an integer"
            errors.append(invalid("values[0]", ordered[0], detail))
    for index, value in enumerate(ordered):
        if wrong := check_label_value(value):
            errors.append(invalid(f"values[{index}][{key}]", value, "; ".join(wrong)))
    if errors:
        texts = [str(error) for error in errors]
        raise SelectorError(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")
    return Requirement(key, operator, () if operator in {"<", ">"} else ordered, bound)


def _take_value(tokens: list[tuple[str, bool]]) -> str:
    """Take the single value of a requirement; none stands for ""."""
    if tokens[-1] in {END, (",", False)}:
        return ""
    text, is_word = tokens.pop()
    if not is_word:
        raise SelectorError(f"found '{text}', expected: identifier")
    return text


def _take_values(tokens: list[tuple[str, bool]]) -> set[str]:
    """Take the values between parentheses; missing ones stand for ""."""
    token = tokens.pop()
    if token != ("(", False):
        raise SelectorError(f"found '{token[0]}' expected: '('")
    if tokens[-1] == (")", False):
        tokens.pop()
        return {""}
    if not tokens[-1][1] and tokens[-1][0] != ",":
        raise SelectorError(f"found '{tokens[-1][0]}', expected: ',', ')' or identifier")
    values: set[str] = set()
    while True:
        text, is_word = tokens.pop()
        following = tokens[-1] if tokens else END
        if is_word:
            values.add(text)
            if following not in {(",", False), (")", False)}:
                raise SelectorError(f"found '{following[0]}', expected: ',' or ')'")
        elif text == ",":
            if not values:
                values.add("")
            if following == (",", False):  # Kubernetes' parser takes commas in pairs,
                tokens.pop()
                values.add("")
                continue  # and wants more after a whole pair.
            if following == (")", False):
                values.add("")
        else:
            raise SelectorError(f"found '{text}', expected: ',', or identifier")
        if following == (")", False):
            tokens.pop()
            return values


def selector_of(label_selector: Object | None) -> LabelSelector:
    """The selector that a LabelSelector object describes, valid or not; None selects nothing.

    Raises:
        SelectorError: An operator is unknown or has no use for its values.
    """
    if label_selector is None:
        return NOTHING
    labels: dict[str, str] = label_selector.get("matchLabels") or {}
    expressions: list[Object] = label_selector.get("matchExpressions") or []
    requirements = [Requirement(key, IN, (value,)) for key, value in labels.items()]
    for expression in expressions:
        name = expression.get("operator", "")
        operator = OBJECT_OPERATORS.get(name)
        if operator is None:
            raise SelectorError(f'"{name}" is not a valid label selector operator')
        values = tuple(sorted(set(expression.get("values") or ())))
        if (operator in {IN, NOT_IN}) != bool(values):
            raise SelectorError(f"{name} has {len(values)} values")
        requirements.append(Requirement(expression.get("key", ""), operator, values))
    requirements.sort(key=lambda requirement: requirement.key)
    return LabelSelector(tuple(requirements)) if requirements else EVERYTHING


def selector_text(label_selector: Object | None) -> str:
    """A LabelSelector object as clients write selectors; "" for none, and for a wrong one.

    A label of `matchLabels` is `a=b`, where an expression with one value is `a in (b)`.
    """
    try:
        selector_of(label_selector)
    except SelectorError:
        return ""
    described = label_selector or {}
    labels: dict[str, str] = described.get("matchLabels") or {}
    words = [(key, f"{key}={value}") for key, value in labels.items()]
    for expression in described.get("matchExpressions") or ():
        key, operator = expression["key"], OBJECT_OPERATORS[expression["operator"]]
        word = f"!{key}" if operator == ABSENT else key
        if operator in {IN, NOT_IN}:
            word = f"{key} {operator} ({','.join(sorted(expression['values']))})"
        words.append((key, word))
    words.sort(key=lambda pair: pair[0])
    return ",".join(word for _, word in words)


def validate_label_selector(label_selector: Object | None, path: str) -> list[FieldError]:
    """All errors of a LabelSelector object in canonical form; None is right."""
    if label_selector is None:
        return []
    errors = validate_labels(label_selector.get("matchLabels", {}), f"{path}.matchLabels")
    for index, expression in enumerate(label_selector.get("matchExpressions", ())):
        errors += validate_expression(expression, f"{path}.matchExpressions[{index}]")
    return errors


def validate_expression(expression: Object, path: str) -> list[FieldError]:
    """All errors of one condition on a label, of a pod or of a node."""
    operator = expression.get("operator", "")
    values: list[str] = expression.get("values") or []
    errors: list[FieldError] = []
    if operator not in OBJECT_OPERATORS:
        errors.append(invalid(f"{path}.operator", operator, WRONG_OPERATOR))
    elif OBJECT_OPERATORS[operator] in {IN, NOT_IN}:
        if not values:
            detail = "must be specified when `operator` is 'In' or 'NotIn'"
            errors.append(required(f"{path}.values", detail))
    elif values:
        detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        errors.append(forbidden(f"{path}.values", detail))
    return errors + validate_words(expression, path)


def validate_words(expression: Object, path: str) -> list[FieldError]:
    """The errors of the key and the values of a condition."""
    errors = checked(f"{path}.key", expression.get("key", ""), check_qualified_name)
    for index, value in enumerate(expression.get("values") or ()):
        errors += checked(f"{path}.values[{index}]", value, check_label_value)
    return errors
