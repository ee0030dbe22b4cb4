"""The section `clusters` of a settings file: each cluster with the whole settings that it has.

1. A setting that a cluster names replaces that of the top level; all others are as there.  Where
   only one of several may be given, such as `upstream.url` and `upstream.dns`, the one that a
   cluster names takes the place of the other.
2. A cluster that cannot be used is refused alone, with what is wrong; it keeps the hosts and the
   prefix that can be used, so that its requests are not taken for those of nobody.
3. Of two clusters with the same name, or the same host under the same prefix, the later is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import yaml

from apfproxy.settings import (
    OF_A_CLUSTER,
    AuthenticationSettings,
    ClusterSettings,
    FlowControlSettings,
    RequestSettings,
    Settings,
    TunnelSettings,
    UpstreamSettings,
    WatchSettings,
    bounded,
    path_setting,
    preset_setting,
)
from apfproxy.settings.reader import (
    CLUSTERS,
    SettingsReader,
    cluster_paths,
    describe,
    is_null,
)

MAX_CLUSTERS = 1000
"""Ten times as many as one process is meant for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """The proxy's own for the hosts of a cluster."""

    certificate_file: str | None = path_setting()
    key_file: str | None = path_setting()


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """What the file says of one cluster."""

    name: str | None = field(default=None, metadata={"form": "label"})
    hosts: tuple[str, ...] = field(default=(), metadata={"form": "host-pattern"})
    path_prefix: str | None = field(default=None, metadata={"form": "path-prefix"})
    max_connections: int | None = bounded(None, 1)
    tls: Certificate = field(default_factory=Certificate)
    preset: str = preset_setting()
    request: RequestSettings = field(default_factory=RequestSettings)
    upstream: UpstreamSettings = field(default_factory=UpstreamSettings)
    authentication: AuthenticationSettings = field(default_factory=AuthenticationSettings)
    tunnel: TunnelSettings = field(default_factory=TunnelSettings)
    watch: WatchSettings = field(default_factory=WatchSettings)
    flow_control: FlowControlSettings = field(default_factory=FlowControlSettings)


Claim = tuple[str | None, str | None]
"""A host and a prefix; None for any."""


def read_clusters(
    reader: SettingsReader, node: yaml.Node | None, base: Settings
) -> tuple[ClusterSettings, ...]:
    """Make the clusters of a list; a problem of one of them is its own."""
    if node is None or is_null(node):
        return ()
    if not isinstance(node, yaml.SequenceNode):
        reader.refuse(node, CLUSTERS, f"expected a list, not {describe(node)}")
        return ()
    if len(node.value) > MAX_CLUSTERS:
        reader.refuse(node, CLUSTERS, f"more than {MAX_CLUSTERS}")
        return ()
    names: set[str] = set()
    claims: dict[Claim, str] = {}
    found = []
    for index, (path, item) in enumerate(cluster_paths(node)):
        own = SettingsReader(reader.source, reader.directory)
        section = own.record(section_of(base), item, path)
        name, is_mapping = section.name, not own.problems or isinstance(item, yaml.MappingNode)
        if name in names:
            own.refuse(item, path, f"another cluster has the name {name}; choose another one")
        elif name is None and is_mapping and not own.has_refused(f"{path}.name"):
            own.refuse(item, path, "needs name")
        if name is None or name in names:
            name = f"#{index}"
        names.add(name)
        hosts: list[str] = []
        prefix: str | None = None
        for claim in _claims(own, section, item, path) if is_mapping else ():
            if (other := claims.setdefault(claim, name)) != name:
                own.refuse(item, path, f"{_written(claim)} is of the cluster {other} already")
                continue
            host, prefix = claim
            if host is not None:
                hosts.append(host)
        found.append(
            ClusterSettings(
                name=name,
                hosts=tuple(dict.fromkeys(hosts)),
                path_prefix=prefix,
                max_connections=section.max_connections,
                settings=None if own.problems else settings_of(section, base),
                problems=tuple(own.problems),
            )
        )
    return tuple(found)


def section_of(base: Settings) -> Section:
    """What a cluster has that says nothing of itself."""
    tls = base.downstream.tls
    return Section(
        tls=Certificate(certificate_file=tls.certificate_file, key_file=tls.key_file),
        **{name: getattr(base, name) for name in OF_A_CLUSTER},
    )


def settings_of(section: Section, base: Settings) -> Settings:
    """All settings of a cluster."""
    downstream = replace(
        base.downstream,
        tls=replace(
            base.downstream.tls,
            certificate_file=section.tls.certificate_file,
            key_file=section.tls.key_file,
        ),
    )
    return replace(
        base,
        downstream=downstream,
        **{name: getattr(section, name) for name in OF_A_CLUSTER},
    )


def _claims(own: SettingsReader, section: Section, item: yaml.Node, path: str) -> list[Claim]:
    """Whose requests are the cluster's, as far as it can be told."""
    if own.has_refused(f"{path}.pathPrefix"):
        return []
    if section.hosts:
        return [(host, section.path_prefix) for host in section.hosts]
    if own.has_refused(f"{path}.hosts"):
        return []
    if section.path_prefix is None:
        own.refuse(item, path, "needs hosts or pathPrefix, which say what requests are for it")
        return []
    return [(None, section.path_prefix)]


def _written(claim: Claim) -> str:
    host, prefix = claim
    if host is None:
        return f"the prefix {prefix}"
    return f"the host {host}" + ("" if prefix is None else f" with the prefix {prefix}")
