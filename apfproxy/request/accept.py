"""What a client accepts: the elements of Accept and Accept-Encoding (RFC 9110, section 12.5)."""

from __future__ import annotations

from typing import NamedTuple


class Element(NamedTuple):
    """One of the things that a client accepts, such as a media type, with its parameters."""

    name: str
    parameters: list[tuple[str, str]]


def elements(field: str) -> list[Element]:
    """The elements of a field's value, in their order."""
    found = []
    for text in field.split(","):
        name, *parameters = (part.strip() for part in text.split(";"))
        pairs = (parameter.partition("=") for parameter in parameters)
        found.append(Element(name, [(key.strip(), value.strip()) for key, _, value in pairs]))
    return found


def weight_of(text: str) -> float:
    """The weight that a parameter `q` gives, any number as in Kubernetes; 0 for no number."""
    try:
        return float(text)
    except ValueError:
        return 0.0
