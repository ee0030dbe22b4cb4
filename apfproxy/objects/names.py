"""The forms of names, labels and keys; each check returns what is wrong, lengths count bytes.

Sources: RFC 1123 section 2.1 with RFC 1035 section 2.3.4 (lengths); Kubernetes documentation,
"Object Names and IDs" and "Labels and Selectors".
"""

from __future__ import annotations

import re

EXEMPT = "exempt"
CATCH_ALL = "catch-all"
"""Mandatory objects of both kinds have these names."""
LONGEST_LABEL = 63
LONGEST_SUBDOMAIN = 253
DNS_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
DNS_SUBDOMAIN = rf"{DNS_LABEL}(\.{DNS_LABEL})*"
QUALIFIED_PART = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
LABEL_VALUE = f"({QUALIFIED_PART})?"

# Repetitions over disjoint classes, so that no input makes matching slow: a subdomain is split at
# its dots instead.
DNS_LABEL_PATTERN = re.compile(DNS_LABEL)
QUALIFIED_PART_PATTERN = re.compile(QUALIFIED_PART)
DNS_LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must"
    " start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for"
    f" validation is '{DNS_LABEL}')"
)
DNS_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.',"
    " and must start and end with an alphanumeric character (e.g. 'example.com', regex used for"
    f" validation is '{DNS_SUBDOMAIN}')"
)
QUALIFIED_PART_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an"
    " alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for"
    f" validation is '{QUALIFIED_PART}')"
)
LABEL_KEY_RULE = (
    f"a valid label key {QUALIFIED_PART_RULE} with an optional DNS subdomain prefix and '/'"
    " (e.g. 'example.com/MyName')"
)
LABEL_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.',"
    " and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or"
    f" '12345', regex used for validation is '{LABEL_VALUE}')"
)


def _too_long(value: str, limit: int, unit: str = "characters") -> list[str]:
    return [f"must be no more than {limit} {unit}"] if len(value.encode()) > limit else []


def _is_dns_subdomain(value: str) -> bool:
    return all(DNS_LABEL_PATTERN.fullmatch(label) for label in value.split("."))


def check_dns_subdomain(value: str, unit: str = "characters") -> list[str]:
    """Find what keeps the value from being a DNS subdomain, as most objects' names are."""
    wrong = _too_long(value, LONGEST_SUBDOMAIN, unit)
    if not _is_dns_subdomain(value):
        wrong.append(DNS_SUBDOMAIN_RULE)
    return wrong


def check_dns_label(value: str) -> list[str]:
    """Find what keeps the value from being a DNS label, as a namespace's name is."""
    wrong = _too_long(value, LONGEST_LABEL)
    if not DNS_LABEL_PATTERN.fullmatch(value):
        wrong.append("must not contain dots" if _is_dns_subdomain(value) else DNS_LABEL_RULE)
    return wrong


def check_qualified_name(value: str) -> list[str]:
    """Find what keeps the value from being a label key, with or without a domain before a slash."""
    prefix, slash, name = value.rpartition("/")
    if "/" in prefix:
        return [LABEL_KEY_RULE]
    wrong = []
    if slash and not prefix:
        wrong.append("prefix part must be non-empty")
    elif slash:
        wrong.extend(f"prefix part {message}" for message in check_dns_subdomain(prefix, "bytes"))
    if not name:
        wrong.append("name part must be non-empty")
    wrong.extend(f"name part {message}" for message in _too_long(name, LONGEST_LABEL, "bytes"))
    if not QUALIFIED_PART_PATTERN.fullmatch(name):
        wrong.append(f"name part {QUALIFIED_PART_RULE}")
    return wrong


def check_label_value(value: str) -> list[str]:
    wrong = _too_long(value, LONGEST_LABEL, "bytes")
    if value and not QUALIFIED_PART_PATTERN.fullmatch(value):
        wrong.append(LABEL_VALUE_RULE)
    return wrong


def well_formed(text: str) -> str:
    """The text with each lone surrogate replaced by U+FFFD, as decoders in Go do it."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
