"""Messages of the reference vectors, as inputs to begin with."""

from __future__ import annotations

import re
from typing import Any

from tests.conformance import vectors

STEP = re.compile(r"\{\{[^{}]*\}\}")


def raw_messages(*, of_upstreams: bool = False) -> list[bytes]:
    """What hostile clients send, or hostile upstreams; no pauses, and what is repeated once."""
    cases: list[dict[str, Any]] = vectors.load("hostile_http")
    key = "upstream_raw" if of_upstreams else "raw"
    texts = {STEP.sub("", str(case.get(key) or "")) for case in cases}
    return [text.encode("latin-1", "replace")[:2000] for text in sorted(texts) if text]
