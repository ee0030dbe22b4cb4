"""Checks of single values that several parts of a pod's validation share.

Sources: Kubernetes documentation, "Object Names and IDs"; RFC 6335 section 5.1 (port names);
RFC 9110 section 5.6.2 (header names).
"""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING

from apfproxy.api.field_errors import (
    FieldError,
    checked,
    invalid,
    not_supported,
    required,
)
from apfproxy.api.names import LONGEST_SUBDOMAIN, too_long

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.api.kind import Object

HIGHEST_PORT = 65535
LONGEST_PORT_NAME = 15
PORT_NAME = re.compile("[-a-z0-9]+")
HEADER_NAME = re.compile("[-A-Za-z0-9]+")
VARIABLE_NAME = re.compile("[ -<>-~]+")
"""Printable ASCII without the equals sign."""
KEY = re.compile("[-._a-zA-Z0-9]+")
UNDERSCORED = re.compile("[a-z0-9_]([-_a-z0-9]*[a-z0-9])?")
LARGEST_MODE = 0o777
LARGEST_INT32 = 2**31 - 1

NOT_POSITIVE = "must be greater than zero"
MODE_RULE = "must be a number between 0 and 0777 (octal), both inclusive"


def in_range(lowest: int, highest: int) -> str:
    """The rule that a number is in a range."""
    return f"must be between {lowest} and {highest}, inclusive"


def number_in(field: str, value: int, lowest: int, highest: int) -> list[FieldError]:
    """The error of a number that is not in a range."""
    if lowest <= value <= highest:
        return []
    return [invalid(field, value, in_range(lowest, highest))]


def filled(obj: Object, name: str, path: str, detail: str = "") -> list[FieldError]:
    """The error of a field that must not be empty."""
    return [] if obj.get(name) else [required(f"{path}.{name}", detail)]


def named(obj: Object, name: str, path: str, check: Callable[[str], list[str]]) -> list[FieldError]:
    """The errors of a field that must be there and pass a check."""
    value = obj.get(name, "")
    field = f"{path}.{name}"
    return checked(field, value, check) if value else [required(field)]


def one_of(
    obj: Object, name: str, path: str, choices: tuple[str, ...], *, is_required: bool = False
) -> list[FieldError]:
    """The error of a field that has none of the values that it may have."""
    value = obj.get(name)
    if value in choices or (value is None and not is_required):
        return []
    if not value and is_required:
        return [required(f"{path}.{name}")]
    return [not_supported(f"{path}.{name}", value, choices)]


def file_mode(obj: Object, name: str, path: str) -> list[FieldError]:
    """The error of permission bits."""
    value = obj.get(name)
    if value is None or 0 <= value <= LARGEST_MODE:
        return []
    return [invalid(f"{path}.{name}", value, MODE_RULE)]


def check_port_name(value: str) -> list[str]:
    """What keeps the value from being the name of a port."""
    wrong = []
    if len(value) > LONGEST_PORT_NAME:
        wrong.append(f"must be no more than {LONGEST_PORT_NAME} characters")
    if not PORT_NAME.fullmatch(value):
        wrong.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not any("a" <= character <= "z" for character in value):
        wrong.append("must contain at least one letter (a-z)")
    if "--" in value:
        wrong.append("must not contain consecutive hyphens")
    if value.startswith("-") or value.endswith("-"):
        wrong.append("must not begin or end with a hyphen")
    return wrong


def port(field: str, value: int | str) -> list[FieldError]:
    """The errors of a port's number or name."""
    if isinstance(value, str):
        return checked(field, value, check_port_name)
    return number_in(field, value, 1, HIGHEST_PORT)


def check_variable_name(value: str) -> list[str]:
    """What keeps the value from being the name of an environment variable."""
    if VARIABLE_NAME.fullmatch(value):
        return []
    rule = "a valid environment variable name must consist only of printable ASCII characters"
    return [f"{rule} other than '='"]


def check_header_name(value: str) -> list[str]:
    """What keeps the value from being the name of a header."""
    if HEADER_NAME.fullmatch(value):
        return []
    rule = "a valid HTTP header must consist of alphanumeric characters or '-'"
    return [f"{rule} (e.g. 'X-Header-Name', regex used for validation is '{HEADER_NAME.pattern}')"]


def check_key(value: str) -> list[str]:
    """What keeps the value from being a key of a ConfigMap or Secret."""
    wrong = too_long(value, LONGEST_SUBDOMAIN)
    if not KEY.fullmatch(value):
        wrong.append(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g."
            " 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is"
            f" '{KEY.pattern}')"
        )
    if value in {".", ".."}:
        wrong.append(f"must not be '{value}'")
    elif value.startswith(".."):
        wrong.append("must not start with '..'")
    return wrong


def check_search_domain(value: str) -> list[str]:
    """What keeps the value from being a domain to search, which may have underscores."""
    wrong = too_long(value, LONGEST_SUBDOMAIN)
    if not all(UNDERSCORED.fullmatch(label) for label in value.split(".")):
        wrong.append(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters,"
            " '_', '-' or '.', and must start and end with an alphanumeric character (e.g."
            " 'example.com', regex used for validation is"
            r" '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')"
        )
    return wrong


def check_ip(value: str) -> list[str]:
    """What keeps the value from being an address; leading zeros of IPv4 are let through."""
    text = value
    if ":" not in text:
        text = ".".join(part.lstrip("0") or part[:1] for part in text.split("."))
    try:
        if "%" not in text:
            ipaddress.ip_address(text)
            return []
    except ValueError:
        pass
    return ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]


def backsteps(field: str, value: str) -> list[FieldError]:
    """The error of a path that goes up."""
    if ".." in value.split("/"):
        return [invalid(field, value, "must not contain '..'")]
    return []


def descending(field: str, value: str) -> list[FieldError]:
    """The errors of a path that has to stay below where it starts."""
    errors = []
    if value.startswith("/"):
        errors.append(invalid(field, value, "must be a relative path"))
    return errors + backsteps(field, value)


def unreserved(field: str, value: str) -> list[FieldError]:
    """The errors of a path that has to stay below and may not begin with two dots."""
    errors = descending(field, value)
    if value.startswith("..") and not value.startswith("../"):
        errors.append(invalid(field, value, "must not start with '..'"))
    return errors
