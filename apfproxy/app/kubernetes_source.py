"""The objects of a Kubernetes API as the settings name it: the parts of that source together."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from apfproxy.flowcontrol.preset import KUBERNETES
from apfproxy.loopback import is_local
from apfproxy.sources.api_credentials import ApiCredentials
from apfproxy.sources.kubeconfig import in_cluster, read_kubeconfig
from apfproxy.sources.kubernetes import KubernetesObjects
from apfproxy.sources.kubernetes_api import KubernetesApi

if TYPE_CHECKING:
    from apfproxy.flowcontrol.controller import Controller
    from apfproxy.flowcontrol.preset import Preset
    from apfproxy.settings import FlowControlSettings
    from apfproxy.sources.files import LoadObserver

logger = logging.getLogger(__name__)


def kubernetes_objects(
    settings: FlowControlSettings,
    controller: Controller,
    on_load: LoadObserver,
    preset: Preset = KUBERNETES,
) -> KubernetesObjects:
    """The source; reads the kubeconfig and what it names, but asks the API nothing yet.

    KubeconfigError if there is no way to the API.
    """
    kubernetes = settings.kubernetes
    if kubernetes.kubeconfig is None:
        access = in_cluster(os.environ)
    else:
        access = read_kubeconfig(kubernetes.kubeconfig, kubernetes.context)
    parts = urlsplit(access.server)
    if parts.scheme == "http" and not is_local(parts.hostname or ""):
        logger.warning(
            "%s: not https: whoever is on the way reads the credentials and decides the objects",
            access.server,
        )
    if access.is_unverified:
        logger.warning(
            "%s: insecure-skip-tls-verify: whoever is on the way can read the credentials and"
            " decide the objects",
            access.server,
        )
    return KubernetesObjects(
        KubernetesApi(access.server, ApiCredentials(access)),
        controller,
        with_suggested=settings.suggested_objects,
        preset=preset,
        writes_status=kubernetes.write_status,
        on_load=on_load,
    )
