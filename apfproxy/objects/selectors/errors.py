"""What all selectors are refused with."""

from __future__ import annotations


class SelectorError(ValueError):
    """A selector that Kubernetes refuses; the message is its own."""
