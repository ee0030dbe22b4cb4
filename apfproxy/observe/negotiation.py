"""What a client accepts, by RFC 9110 section 12.5, as far as the admin pages need it."""

from __future__ import annotations

JSON = "application/json"
TEXT = "text/plain"


def qualities(header: str) -> dict[str, float]:
    """Each choice of an Accept or Accept-Encoding header, in lower case, with its weight.

    A weight that is no number counts as 0: what cannot be understood is not asked for.
    """
    weights = {}
    for element in header.split(","):
        choice, *parameters = (part.strip().lower() for part in element.split(";"))
        weight = 1.0
        for parameter in parameters:
            name, _, value = parameter.partition("=")
            if name.strip() == "q":
                try:
                    weight = float(value)
                except ValueError:
                    weight = 0.0
        if choice:
            weights[choice] = weight
    return weights


def wants_json(accept: str) -> bool:
    """Whether JSON is named, and no less welcome than plain text; wildcards mean text."""
    weights = qualities(accept)
    weight = weights.get(JSON, 0.0)
    return weight > 0 and weight >= weights.get(TEXT, 0.0)


def accepts_gzip(accept_encoding: str) -> bool:
    """Whether the answer may be compressed by gzip."""
    weights = qualities(accept_encoding)
    return weights.get("gzip", weights.get("*", 0.0)) > 0
