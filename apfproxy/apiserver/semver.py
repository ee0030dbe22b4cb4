"""Semantic versions, strictly: three numbers, perhaps a pre-release, perhaps a build.

Source: semver.org, specification 2.0.0, items 2, 9 and 10.
"""

from __future__ import annotations

import re

SEMVER_RULE = "must be a string compatible with semver.org spec 2.0.0"

NUMBER = "(?:0|[1-9][0-9]*+)"
IDENTIFIER = "[0-9A-Za-z-]++"
# A pre-release's identifier of digits only has no leading zero.
PRE_RELEASE = rf"(?!0[0-9]++(?:[.+]|$)){IDENTIFIER}"
# Groups are not possessive: Python 3.11.2 matches them wrongly.
SEMVER_PATTERN = re.compile(
    rf"{NUMBER}\.{NUMBER}\.{NUMBER}"
    rf"(?:-{PRE_RELEASE}(?:\.{PRE_RELEASE})*)?"
    rf"(?:\+{IDENTIFIER}(?:\.{IDENTIFIER})*)?"
)


def is_semver(text: str) -> bool:
    """Whether the text is a semantic version; no `v` before it, no number left out."""
    return SEMVER_PATTERN.fullmatch(text) is not None
