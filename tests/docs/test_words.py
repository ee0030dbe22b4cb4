"""Words: documents are plain English."""

from __future__ import annotations

import re

from tests.docs.pages import pages

REFUSED = re.compile(r"\b(nobody|anew|whoever|so far as|the like)\b", re.IGNORECASE)


def test_documents() -> None:
    found = {each.name: REFUSED.findall(each.text) for each in pages()}

    assert {} == {name: words for name, words in found.items() if words}
