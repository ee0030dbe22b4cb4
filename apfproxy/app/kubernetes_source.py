"""What a Kubernetes API has, as settings name it: the parts of such sources put together."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from apfproxy.flowcontrol.preset import KUBERNETES
from apfproxy.settings import HTTPS
from apfproxy.sources.api_access import access_of
from apfproxy.sources.api_credentials import ApiCredentials
from apfproxy.sources.endpoint_slices import ServicePort
from apfproxy.sources.kubernetes import KubernetesObjects
from apfproxy.sources.kubernetes_api import KubernetesApi, no_others
from apfproxy.sources.servers_behind import OF_THE_API
from apfproxy.sources.service_endpoints import ServiceEndpoints

if TYPE_CHECKING:
    from apfproxy.flowcontrol.controller import Controller
    from apfproxy.flowcontrol.preset import Preset
    from apfproxy.settings import FlowControlSettings, ServiceSettings
    from apfproxy.sources.files import LoadObserver
    from apfproxy.sources.servers_behind import ServersBehind


def kubernetes_objects(
    settings: FlowControlSettings,
    controller: Controller,
    on_load: LoadObserver,
    preset: Preset = KUBERNETES,
    behind: ServersBehind | None = None,
) -> KubernetesObjects:
    """The source; reads the kubeconfig and what it names, but asks the API nothing yet.

    If the API is the one behind, any of the servers behind is asked.

    KubeconfigError if there is no way to the API.
    """
    kubernetes, others = settings.kubernetes, no_others
    access = access_of(
        kubernetes.kubeconfig,
        kubernetes.context,
        "the objects",
        "flowControl.kubernetes.kubeconfig (--kubeconfig FILE)",
    )
    if behind is not None:
        others = partial(behind.of_api, access.server, kubernetes.kubeconfig, kubernetes.context)
    return KubernetesObjects(
        KubernetesApi(access.server, ApiCredentials(access), others=others),
        controller,
        with_suggested=settings.suggested_objects,
        preset=preset,
        writes_status=kubernetes.write_status,
        on_load=on_load,
    )


def service_endpoints(settings: ServiceSettings) -> ServiceEndpoints:
    """The endpoints of a Service, which settings name; asks the API nothing yet.

    KubeconfigError if there is no way to the API.
    """
    name = settings.name
    assert name is not None, "settings name it"
    access = access_of(
        settings.kubeconfig, settings.context, "where requests go", "upstream.service.kubeconfig"
    )
    is_tls, server_name = settings.scheme == HTTPS, settings.address.host

    def others() -> dict[str, str | None]:
        return {each.address.url: server_name for each in endpoints.found.endpoints}

    # Nobody but the API itself may get the credentials for it.
    is_api = (settings.namespace, name) == OF_THE_API and is_tls
    api = KubernetesApi(
        access.server,
        ApiCredentials(access),
        others=others if is_api and access.server.startswith("https:") else no_others,
    )
    endpoints = ServiceEndpoints(
        api,
        settings.namespace,
        name,
        ServicePort(port=settings.port, is_tls=is_tls, server_name=server_name),
    )
    return endpoints
