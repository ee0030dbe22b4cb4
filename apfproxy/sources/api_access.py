"""The way to a Kubernetes API that settings name: by a kubeconfig, or as the pod."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from apfproxy.base.address import is_local
from apfproxy.sources.kubeconfig import in_cluster, read_kubeconfig

if TYPE_CHECKING:
    from apfproxy.sources.kubeconfig import ApiAccess

logger = logging.getLogger(__name__)


def access_of(kubeconfig: str | None, context: str | None, decided: str, setting: str) -> ApiAccess:
    """How to reach the API, by default as a pod.

    `decided` is what its answers decide, `setting` what names a kubeconfig.

    KubeconfigError if there is no way to it.
    """
    access = (
        in_cluster(os.environ, instead=setting)
        if kubeconfig is None
        else read_kubeconfig(kubeconfig, context)
    )
    parts = urlsplit(access.server)
    if parts.scheme == "http" and not is_local(parts.hostname or ""):
        logger.warning(
            "%s: not https: whoever is on the way reads the credentials and decides %s",
            access.server,
            decided,
        )
    if access.is_unverified:
        logger.warning(
            "%s: insecure-skip-tls-verify: whoever is on the way can read the credentials and"
            " decide %s",
            access.server,
            decided,
        )
    return access
