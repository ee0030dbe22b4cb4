"""Tests of what changed of the settings of a process, and a change in two steps."""

from __future__ import annotations

import pytest
from msgspec import structs

from apfproxy.base.errors import OperatorError
from apfproxy.settings import (
    Address,
    DownstreamSettings,
    DownstreamTlsSettings,
    DrainSettings,
    FlowControlSettings,
    Settings,
)
from apfproxy.settings.change import NO_CHANGE, Change, changes, merged, prepare_all
from apfproxy.settings.file import parse_settings

ANY_PORT = Address(host="127.0.0.1", port=0)


class Part:
    def __init__(self, done: list[str], problems: str = "") -> None:
        self.done = done
        self.problems = problems

    async def prepare(self, settings: Settings) -> Change:
        assert settings == Settings()
        if self.problems:
            raise OperatorError(self.problems)
        return Change(lambda: self.done.append("commit"), lambda: self.done.append("discard"))


async def no_change(_settings: Settings) -> Change:
    return NO_CHANGE


@pytest.mark.parametrize("step", ["commit", "discard"])
async def test_all_change(step: str) -> None:
    """All parts come into force, or none does."""
    done: list[str] = []
    parts = (Part(done).prepare, no_change, Part(done).prepare)
    change = await prepare_all(parts, Settings(), lambda: done.append("then"))
    getattr(change, step)()
    assert {"commit": ["commit", "commit", "then"], "discard": ["discard"] * 2}[step] == done


async def test_all_parts_are_asked() -> None:
    """Everything that is wrong is said at once, and what was made is given up."""
    done: list[str] = []
    parts = (Part(done, "a\nb"), Part(done), Part(done, "c"))
    with pytest.raises(OperatorError) as raised:
        await prepare_all((each.prepare for each in parts), Settings())
    assert ("a\nb\nc", ["discard"]) == (str(raised.value), done)


def test_merged() -> None:
    before = Settings(flow_control=FlowControlSettings(objects=("a",)))
    read = Settings(
        downstream=DownstreamSettings(
            listen=ANY_PORT, head_timeout_s=1, tls=DownstreamTlsSettings(certificate_file="a")
        ),
        drain=DrainSettings(timeout_s=2),
        flow_control=FlowControlSettings(store="a.db", suggested_objects=False),
        admin=None,
        admin_token_file="token",  # noqa: S106 - a path
    )
    settings = merged(before, read)

    assert settings == structs.replace(
        before, downstream=DownstreamSettings(head_timeout_s=1), drain=DrainSettings(timeout_s=2)
    )
    assert ["downstream.headTimeout", "drain.timeout"] == changes(before, settings)
    assert [
        "downstream.listen",
        "downstream.tls.certificateFile",
        "flowControl.objects",
        "flowControl.store",
        "flowControl.suggestedObjects",
        "admin",
        "adminTokenFile",
    ] == changes(settings, read)


CLUSTERS = """
downstream:
  listen: 127.0.0.1:0
  tls: {certificateFile: all.crt, keyFile: all.key}
admin: null
watch: {limit: 1s}
clusters:
- {name: a, hosts: [a], upstream: {url: http://a}, watch: {silence: 1s}}
- {name: b, hosts: [b], upstream: {url: http://b}, flowControl: {store: s}}
"""


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param("http://a", "http://c", ["clusters[a].upstream.url"], id="setting"),
        (
            "url: http://a",
            "dns: http://c",
            ["clusters[a].upstream.url", "clusters[a].upstream.dns"],
        ),
        pytest.param("hosts: [a]", "hosts: [c]", ["clusters[a].hosts"], id="hosts"),
        (
            "hosts: [a]",
            "pathPrefix: /a, maxConnections: 3",
            [f"clusters[a].{each}" for each in ("hosts", "pathPrefix", "maxConnections")],
        ),
        ("hosts: [a]", "hosts: [a], tls: {keyFile: a.key}", ["clusters[a].tls.keyFile"]),
        pytest.param("name: a", "name: c", ["clusters[a]", "clusters[c]"], id="name"),
        ("name: a", "name: A", ["clusters[a]", "clusters[#0] (refused)"]),
        pytest.param("http://a", "a", ["clusters[a] (refused)"], id="refused"),
        pytest.param("limit: 1s", "limit: 2s", ["watch.limit"], id="of-all"),
        pytest.param("silence: 1s", "limit: 1s", ["clusters[a].watch.silence"], id="as-all"),
        ("store: s", "store: t", ["clusters[b].flowControl.store"]),
        pytest.param("- {name: a", "# {name: a", ["clusters[a]"], id="gone"),
    ],
)
def test_changes_of_clusters(old: str, new: str, expected: list[str]) -> None:
    """Each is named once: what changed of the whole proxy is not said of each cluster again."""
    changed = CLUSTERS.replace(old, new, 1).partition("#\n")[0]
    before, after = (parse_settings(text.encode(), "f") for text in (CLUSTERS, changed))
    assert [] == changes(before, before)
    assert expected == changes(before, after)
    assert expected == changes(before, merged(before, after))
    assert after == merged(before, after)


@pytest.mark.parametrize("is_first", [True, False], ids=["first", "last"])
def test_clusters_begin_and_end_with_a_restart(is_first: bool) -> None:
    """One server alone does not become several clusters, nor the other way: all stays."""
    several, one = (
        parse_settings(text.encode(), "f") for text in (CLUSTERS, "upstream: {url: 'http://a'}")
    )
    before, after = (one, several) if is_first else (several, one)
    settings = merged(before, after)

    assert (before.clusters, before.upstream) == (settings.clusters, settings.upstream)
    assert "clusters" in changes(settings, after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # No cluster has TLS while the listener has none, whatever certificate it names.
        (
            CLUSTERS.replace("  tls: {certificateFile: all.crt, keyFile: all.key}\n", ""),
            CLUSTERS.replace("hosts: [a]", "hosts: [a], tls: {certificateFile: a, keyFile: a}"),
        ),
        # Built-in objects are put into a store at the start.
        (
            "flowControl: {store: a.db}",
            "preset: http\nflowControl: {store: a.db, suggestedObjects: false}",
        ),
    ],
    ids=["tls", "built-in-objects"],
)
def test_what_takes_a_restart(before: str, after: str) -> None:
    old, new = (parse_settings(text.encode(), "f") for text in (before, after))
    assert old == merged(old, new)
