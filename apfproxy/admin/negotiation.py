"""What a client accepts, as far as the admin pages need it."""

from __future__ import annotations

from apfproxy.http.grammar import accepted, weight_of

JSON = "application/json"
TEXT = "text/plain"


def qualities(header: str) -> dict[str, float]:
    """Each choice of an Accept or Accept-Encoding header, in lower case, with its weight."""
    return {
        name: weight_of(dict(parameters).get("q", "1"))
        for name, parameters in accepted(header.lower())
        if name
    }


def wants_json(accept: str) -> bool:
    """Whether JSON is named, and no less welcome than plain text; wildcards mean text."""
    weights = qualities(accept)
    weight = weights.get(JSON, 0.0)
    return weight > 0 and weight >= weights.get(TEXT, 0.0)


def accepts_gzip(accept_encoding: str) -> bool:
    """Whether the answer may be compressed by gzip."""
    weights = qualities(accept_encoding)
    return weights.get("gzip", weights.get("*", 0.0)) > 0
