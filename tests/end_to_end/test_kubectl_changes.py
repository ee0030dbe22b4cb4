"""kubectl writes, to the API server behind the proxy over HTTP/2."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.end_to_end.manifests import (
    budget,
    flow_schema,
    level,
    listed,
    namespace,
    pod,
    resource_slice,
)

if TYPE_CHECKING:
    from tests.end_to_end.kubectl import Kubectl


LEVEL = "prioritylevelconfiguration.flowcontrol.apiserver.k8s.io"

EDITOR = r"""#!/bin/sh
# Makes a mistake first, and mends it when shown what is wrong.
if grep -q 'was not valid' "$1"; then
    cp "$1" "$HOME/seen"
    exec sed -i 's/Shares: -3/Shares: 3/' "$1"
fi
exec sed -i 's/Shares: 5/Shares: -3/' "$1"
"""


def test_create_and_delete(kubectl: Kubectl) -> None:
    """Objects of all kinds are created once, and deleted by name, by file and by label."""
    created = [
        namespace("made"),
        level("made"),
        flow_schema("made", "made"),
        resource_slice("made"),
        budget("made", "made", app="made"),
        *(pod(name, "made", app="made") for name in ("one", "two", "three", "four")),
    ]
    (kubectl.folder / "all.json").write_text(listed(*created))

    assert (
        "namespace/made created\n"
        "prioritylevelconfiguration.flowcontrol.apiserver.k8s.io/made created\n"
        "flowschema.flowcontrol.apiserver.k8s.io/made created\n"
        "resourceslice.resource.k8s.io/made created\n"
        "poddisruptionbudget.policy/made created\n"
        "pod/one created\npod/two created\npod/three created\npod/four created\n"
    ) == kubectl("create", "-f", "all.json")
    assert 9 == kubectl.fail("create", "-f", "all.json").count("(AlreadyExists)")
    inside = ("-n", "made")
    assert 'pod "one" deleted\n' == kubectl("delete", "pod", "one", *inside)
    assert '(NotFound): pods "one" not found' in kubectl.fail("delete", "pod", "one", *inside)
    assert "" == kubectl("delete", "pod", "one", "--ignore-not-found", *inside)
    assert 'pod "two" deleted\n' == kubectl(
        "delete", "pods", "-l", "app=made", "--field-selector=metadata.name=two", *inside
    )
    assert 'pod "three" force deleted\n' == kubectl(
        "delete", "pod", "three", "--force", "--grace-period=0", *inside
    )
    assert "pod/four\n" == kubectl(
        "delete", "pods", "--all", "--dry-run=server", "-o", "name", *inside
    )
    assert 'pod "four" deleted\n' == kubectl("delete", "pods", "--all", *inside)
    assert 'poddisruptionbudget.policy "made" deleted\n' == kubectl(
        "delete", "pdb", "-l", "app", *inside
    )
    words = kubectl("delete", "-f", "all.json", "--ignore-not-found")
    assert 4 == words.count(" deleted\n")
    assert "(NotFound)" in kubectl.fail("get", "ns", "made")


def test_apply(kubectl: Kubectl) -> None:
    first, second = level("applied", 5), level("applied", 7)
    first["metadata"]["labels"] = {"app": "applied", "before": "yes"}
    first["spec"]["limited"]["lendablePercent"] = 10
    second["metadata"]["labels"] = {"app": "applied", "added": "later"}
    for name, obj in (("first", first), ("second", second)):
        (kubectl.folder / f"{name}.json").write_text(json.dumps(obj))

    def apply(name: str, *arguments: str) -> str:
        return kubectl("apply", "-f", f"{name}.json", *arguments).partition("/")[2]

    target = ("prioritylevelconfiguration", "applied")
    assert "applied created (server dry run)\n" == apply("first", "--dry-run=server")
    assert "(NotFound)" in kubectl.fail("get", *target)
    assert "applied created\n" == apply("first")
    assert "applied unchanged\n" == apply("first")
    kubectl("label", *target, "other=hand")
    assert "applied configured (server dry run)\n" == apply("second", "--dry-run=server")
    assert "applied configured\n" == apply("second")
    live = kubectl.json("get", *target)
    assert {"app": "applied", "added": "later", "other": "hand"} == live["metadata"]["labels"]
    limited = live["spec"]["limited"]
    assert (7, 0) == (limited["nominalConcurrencyShares"], limited["lendablePercent"])
    last = json.loads(kubectl("apply", "view-last-applied", *target, "-o", "json"))
    assert second["spec"] == last["spec"]
    kubectl("delete", "-f", "first.json")


def test_apply_with_unserved_kinds(kubectl: Kubectl) -> None:
    ingress = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"name": "mixed"},
        "spec": {},
    }
    (kubectl.folder / "mixed.json").write_text(
        listed(level("mixed"), ingress, resource_slice("mixed"))
    )

    problem = kubectl.fail("apply", "-f", "mixed.json")
    assert 'no matches for kind "Ingress" in version "networking.k8s.io/v1"' in problem
    assert "CRDs: " not in problem
    for kind in ("prioritylevelconfiguration", "resourceslice"):
        assert kubectl("get", kind, "mixed", "-o", "name").endswith("/mixed\n")
        kubectl("delete", kind, "mixed")


def test_diff(kubectl: Kubectl) -> None:
    (kubectl.folder / "first.json").write_text(json.dumps(level("differing", 5)))
    (kubectl.folder / "second.json").write_text(json.dumps(level("differing", 7)))
    change = "-    nominalConcurrencyShares: 5\n+    nominalConcurrencyShares: 7\n"

    new = kubectl.run("diff", "-f", "first.json")
    assert 1 == new.code, new
    assert "+    nominalConcurrencyShares: 5\n" in new.out
    kubectl("apply", "-f", "first.json")
    assert "" == kubectl("diff", "-f", "first.json")
    different = kubectl.run("diff", "-f", "second.json")
    assert 1 == different.code, different
    assert change in different.out
    assert "-  generation: 1\n+  generation: 2\n" in different.out
    forced = kubectl.run("diff", "--server-side", "--force-conflicts", "-f", "second.json")
    assert 1 == forced.code, forced
    assert change in forced.out
    assert "" == kubectl("diff", "-f", "first.json")
    kubectl("delete", "-f", "first.json")


def test_edit(kubectl: Kubectl) -> None:
    """An edit that is wrong is shown again with what is wrong; one without a change is none."""
    editor = kubectl.folder / "editor"
    editor.write_text(EDITOR)
    editor.chmod(0o755)

    target = ("prioritylevelconfiguration", "edited")

    kubectl.create(level("edited"))
    done = kubectl.run("edit", *target, KUBE_EDITOR=str(editor))
    assert (0, f"{LEVEL}/edited edited\n") == (done.code, done.out)
    seen = (kubectl.home / "seen").read_text()
    assert (
        '# prioritylevelconfigurations.flowcontrol.apiserver.k8s.io "edited" was not valid:\n'
        "# * spec.limited.nominalConcurrencyShares: Invalid value: -3: must be a non-neg"
    ) in seen
    assert 3 == kubectl.json("get", *target)["spec"]["limited"]["nominalConcurrencyShares"]
    done = kubectl.run("edit", *target, KUBE_EDITOR="true")
    assert "Edit cancelled, no changes made.\n" in (done.out, done.err)
    kubectl("delete", *target)
