"""Names of container images, as far as an API server reads them.

Source: the reference grammar of the OCI distribution specification.
"""

from __future__ import annotations

import re
from functools import lru_cache

LONGEST_NAME = 255
"""Characters of a name, registry included; Kubernetes' limit, too."""
LONGEST_IMAGE = 1_000
"""Longer ones have no valid name, tag and digest: they need no look."""

DOMAIN_LABEL = "[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
DOMAIN = rf"(?:{DOMAIN_LABEL}(?:\.{DOMAIN_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
COMPONENT = "[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
TAG = "[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"
DIGEST = "[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}"
IMAGE = re.compile(rf"((?:{DOMAIN}/)?{COMPONENT}(?:/{COMPONENT})*)(?::({TAG}))?(?:@({DIGEST}))?")
IDENTIFIER = re.compile("[a-f0-9]{64}")
"""An image's own digest, which is no name."""


@lru_cache(maxsize=1024)
def pull_policy(image: str) -> str:
    """When an image is pulled unless said otherwise: always if its tag is `latest`.

    That is the tag of a name without tag and digest.  What is no image name is not pulled always.
    """
    match = IMAGE.fullmatch(image) if len(image) <= LONGEST_IMAGE else None
    if match is None or len(match[1]) > LONGEST_NAME or IDENTIFIER.fullmatch(image):
        return "IfNotPresent"
    _, tag, digest = match.groups()
    is_latest = tag == "latest" or not (tag or digest)
    return "Always" if is_latest else "IfNotPresent"
