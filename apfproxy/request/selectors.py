"""Field and label selectors, as far as classification and estimates ask.

Source: kubernetes/apimachinery pkg/fields/selector.go, pkg/labels/selector.go and
pkg/util/validation.
"""

from __future__ import annotations

import re

TERM_OPERATOR = re.compile(r"!=|==|=")
ESCAPED = re.compile(r"\\(.)", re.DOTALL)
FIELD_VALUE = re.compile(r"(?:[^\\,=]|\\[\\,=])*", re.DOTALL)
FIELD_TERM = re.compile(r"(?:[^\\,]|\\.|\\\Z)+", re.DOTALL)

LABEL_TOKEN = re.compile(r"[ \t\r\n]*(?:(==|!=|[=!(),<>])|([^\x00 \t\r\n=!(),<>]+))\x00?")
LABEL_NAME = re.compile(r"(?=.{1,63}\Z)(?:[A-Za-z0-9][A-Za-z0-9_.-]*)?[A-Za-z0-9]")
LABEL_PREFIX = re.compile(
    r"(?=.{1,253}\Z)[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*"
)
INTEGER = re.compile(r"([+-]?)0*([0-9]{1,19})")
END = ""


class SelectorError(ValueError):
    """A selector or number that Kubernetes refuses."""


def parse_int64(text: str) -> int:
    """Parse a decimal integer as Go's `strconv.ParseInt` does.

    Raises:
        SelectorError: It is not an integer of 64 bits.
    """
    match = INTEGER.fullmatch(text)
    if match is None:
        raise SelectorError(f"not an integer of 64 bits: {text[:40]!r}")
    value = int(match[1] + match[2])
    if not -(1 << 63) <= value < 1 << 63:
        raise SelectorError(f"not an integer of 64 bits: {text[:40]!r}")
    return value


def required_value(field_selector: str, field: str) -> str | None:
    """The value that a field selector requires of a field.

    Returns:
        The value of the first `=` or `==` term on the field, in Kubernetes' order, which sorts
        terms; None if there is none.

    Raises:
        SelectorError: Kubernetes cannot parse the selector.
    """
    required: str | None = None
    for term in sorted(FIELD_TERM.findall(field_selector)):
        operator = TERM_OPERATOR.search(term)
        if operator is None:
            raise SelectorError(f"field selector has no operator in {term[:40]!r}")
        value = term[operator.end() :]
        if not FIELD_VALUE.fullmatch(value):
            raise SelectorError(f"field selector has an invalid value in {term[:40]!r}")
        name = term[: operator.start()]
        if required is None and name == field and operator[0] != "!=":
            required = ESCAPED.sub(r"\1", value)
    return required


def check_label_selector(selector: str) -> None:
    """Check a label selector.

    Raises:
        SelectorError: Kubernetes cannot parse it.
    """
    tokens: list[tuple[str, bool]] = []  # text, and whether it is a word
    position = 0
    while match := LABEL_TOKEN.match(selector, position):
        tokens.append((match[1] or match[2], match[2] is not None))
        position = match.end()
    tokens.append((END, False))
    tokens.reverse()  # the next one is last
    if tokens[-1] == (END, False):
        return
    while True:
        _check_requirement(tokens)
        text, _ = tokens.pop()
        if text == END:
            return
        if text != ",":
            raise SelectorError(f"label selector has {text[:40]!r} after a requirement")


def _check_requirement(tokens: list[tuple[str, bool]]) -> None:
    """Take one requirement from the end of `tokens`."""
    key, is_word = tokens.pop()
    is_negated = key == "!" and not is_word
    if is_negated:
        key, is_word = tokens.pop()
    if not is_word or not _is_label_key(key):
        raise SelectorError(f"label selector has {key[:40]!r} for a key")
    if is_negated or tokens[-1] in {(END, False), (",", False)}:
        return
    operator, _ = tokens.pop()
    if operator in {"in", "notin"}:
        values = _take_values(tokens)
    elif operator in {"=", "==", "!=", "<", ">"}:
        values = [_take_value(tokens)]
    else:
        raise SelectorError(f"label selector has {operator[:40]!r} for an operator")
    if operator in {"<", ">"}:
        parse_int64(values[0])
    for value in values:
        if value and not LABEL_NAME.fullmatch(value):
            raise SelectorError(f"label selector has an invalid value {value[:40]!r}")


def _take_value(tokens: list[tuple[str, bool]]) -> str:
    """Take the single value of a requirement; none stands for ""."""
    if tokens[-1] in {(END, False), (",", False)}:
        return ""
    text, is_word = tokens.pop()
    if not is_word:
        raise SelectorError(f"label selector has {text!r} for a value")
    return text


def _take_values(tokens: list[tuple[str, bool]]) -> list[str]:
    """Take the values between parentheses; missing ones stand for ""."""
    if tokens.pop()[0] != "(":
        raise SelectorError("label selector has no '(' after in or notin")
    values: list[str] = []
    is_word_due = True
    commas = 0  # in a row
    while True:
        text, is_word = tokens.pop()
        if is_word and is_word_due:
            values.append(text)
            is_word_due = False
            commas = 0
        elif text == "," and not is_word:
            is_word_due = True
            commas += 1
        elif text == ")" and not is_word and (commas == 0 or commas % 2 == 1):
            # Kubernetes' parser takes commas in pairs and wants more after a whole pair.
            return values
        else:
            raise SelectorError(f"label selector has {text[:40]!r} among values")


def _is_label_key(key: str) -> bool:
    """Whether this is a qualified name: `[subdomain/]name`."""
    prefix, slash, name = key.rpartition("/")
    return LABEL_NAME.fullmatch(name) is not None and (
        not slash or LABEL_PREFIX.fullmatch(prefix) is not None
    )
