"""Which clusters cannot be used, because their settings do not go together."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING

from apfproxy.app.settings_checks import contradictions
from apfproxy.settings import OF_A_CLUSTER, Settings
from apfproxy.settings.lines import SettingsLines
from apfproxy.settings.reader import setting_key

if TYPE_CHECKING:
    from pathlib import Path

    from apfproxy.settings import ClusterSettings

OWN_TLS = re.compile(r"downstream\.tls(?:\.certificateFile|\.keyFile)?(?:: |$)")
"""A cluster's own certificate is `tls` in the file, and stands there in its settings."""

SECTIONS = frozenset(
    setting_key(field) for field in dataclasses.fields(Settings) if field.name in OF_A_CLUSTER
)


def checked_clusters(settings: Settings, path: Path) -> Settings:
    """The settings of a file, in which clusters whose own do not go together are refused."""
    wrong = {each.name: _problems(each, settings) for each in settings.clusters}
    if not any(wrong.values()):
        return settings
    lines = SettingsLines(path)

    def checked(cluster: ClusterSettings) -> ClusterSettings:
        if not wrong[cluster.name]:
            return cluster
        problems = [path_in(cluster.name, problem) for problem in wrong[cluster.name]]
        located = tuple(map(lines.located, problems))
        return dataclasses.replace(cluster, settings=None, problems=located)

    return dataclasses.replace(settings, clusters=tuple(map(checked, settings.clusters)))


def path_in(name: str, problem: str) -> str:
    """A problem with settings, said of those of a cluster."""
    if OWN_TLS.match(problem) is not None:
        return f"clusters[{name}].{problem.removeprefix('downstream.')}"
    return f"clusters[{name}]{'.' if begins_with_setting(problem) else ': '}{problem}"


def begins_with_setting(problem: str) -> bool:
    """Whether a text begins with the path of a setting that a cluster can have."""
    first = re.match(r"[A-Za-z]+", problem)
    return first is not None and first[0] in SECTIONS


def _problems(cluster: ClusterSettings, of_all: Settings) -> list[str]:
    settings = cluster.settings
    if settings is None:
        return []
    problems = contradictions(settings, is_cluster=True)
    tls = settings.downstream.tls
    if of_all.downstream.tls.certificate_file is None and tls.certificate_file is not None:
        problems.append(
            "downstream.tls: needs downstream.tls of the whole proxy, the certificate for clients"
            " that name no host"
        )
    if settings.flow_control.store is not None:
        # Nobody could edit it: the admin listener has the API of one store.
        problems.append(
            "flowControl.store: is for one cluster alone; name flowControl.objects or"
            " flowControl.kubernetes"
        )
    return problems
