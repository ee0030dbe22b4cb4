"""The forms of names that ResourceSlices use.

Source: Kubernetes API reference, "ResourceSlice"; the names that kube-apiserver 1.36 refuses.
"""

from __future__ import annotations

import re

from apfproxy.objects.field_errors import FieldError, checked, invalid, limited, required
from apfproxy.objects.names import LONGEST_SUBDOMAIN, check_dns_subdomain

LONGEST_DRIVER = 63
"""Bytes; also of the domain of an attribute."""
LONGEST_IDENTIFIER = 32
"""Bytes of an attribute's name without its domain."""
LONGEST_KEY = LONGEST_DRIVER + 1 + LONGEST_IDENTIFIER
"""Bytes of an attribute's name that a path shows; of more, the middle is left out."""
ELLIPSIS = "..."

IDENTIFIER = "[A-Za-z_][A-Za-z0-9_]*"
IDENTIFIER_RULE = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of"
    " alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for"
    f" validation is '{IDENTIFIER}')"
)
IDENTIFIER_PATTERN = re.compile(IDENTIFIER)


def validate_driver(name: str, path: str) -> list[FieldError]:
    """All errors of a driver's name, or of the domain of an attribute; case does not matter."""
    if not name:
        return [required(path)]
    errors = limited(path, name, LONGEST_DRIVER)
    return errors + [invalid(path, name, rule) for rule in check_dns_subdomain(name.lower())]


def validate_pool_name(name: str, path: str) -> list[FieldError]:
    """All errors of a pool's name: DNS subdomains with slashes between."""
    if not name:
        return [required(path)]
    errors = limited(path, name, LONGEST_SUBDOMAIN)
    for part in name.split("/"):
        errors += checked(path, part, check_dns_subdomain)
    return errors


def validate_key(key: str, path: str) -> list[FieldError]:
    """All errors of the name of an attribute or a capacity: an identifier, perhaps with a domain.

    A name with several slashes is let through without any check, as in Kubernetes 1.36, and what
    is blamed is the map that it is a key of.
    """
    domain, slash, identifier = key.rpartition("/")
    if "/" in domain:
        return []
    errors: list[FieldError] = []
    if domain:
        errors += validate_driver(domain, path)
    elif slash:
        errors.append(invalid(path, "", "the domain must not be empty"))
    if slash and not identifier:
        return [*errors, invalid(path, "", "the name must not be empty")]
    errors += limited(path, identifier, LONGEST_IDENTIFIER)
    if not IDENTIFIER_PATTERN.fullmatch(identifier):
        errors.append(invalid(path, identifier, IDENTIFIER_RULE))
    return errors


def shortened(key: str) -> str:
    """A key as paths show it: without its middle if it is too long."""
    data = key.encode()
    if len(data) <= LONGEST_KEY:
        return key
    remaining = LONGEST_KEY - len(ELLIPSIS)
    head, tail = data[: (remaining + 1) // 2], data[len(data) - remaining // 2 :]
    return head.decode(errors="replace") + ELLIPSIS + tail.decode(errors="replace")
