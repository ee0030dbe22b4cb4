"""kubectl writes, to the API server behind the proxy over HTTP/2."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.end_to_end.manifests import (
    Object,
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

PRUNES = 27
"""From this minor version on what may be pruned is an allow list by that name."""
STRICT = 25
"""From this minor version on the server says which fields are unknown, and kubectl asks it to."""

LEVEL = "prioritylevelconfiguration.flowcontrol.apiserver.k8s.io"

SHARES = "jsonpath={.spec.limited.nominalConcurrencyShares}"

EDITOR = r"""#!/bin/sh
# Makes a mistake first, and mends it when shown what is wrong.
if grep -q 'was not valid' "$1"; then
    cp "$1" "$HOME/seen"
    exec sed -i 's/Shares: -3/Shares: 3/' "$1"
fi
exec sed -i 's/Shares: 5/Shares: -3/' "$1"
"""


def changed(obj: Object, **spec: object) -> Object:
    fields = obj["spec"] | spec
    return {**obj, "spec": {key: value for key, value in fields.items() if value is not None}}


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


def test_create_what_is_wrong(kubectl: Kubectl) -> None:
    slice_ = resource_slice("Wrong")
    slice_["spec"]["devices"][0]["name"] = "GPU"
    wrong = changed(budget("wrong", "default"), minAvailable=-1, maxUnavailable=1)
    unknown = changed(budget("wrong", "default"), colour="red")
    misspelt = changed(pod("wrong", "default"), hostPid=True)

    words = kubectl.fail("create", "-f", "-", stdin=json.dumps(slice_))
    assert 'The ResourceSlice "Wrong" is invalid: \n* metadata.name: Invalid value' in words
    assert '* spec.devices[0].name: Invalid value: "GPU"' in words
    words = kubectl.fail("create", "-f", "-", stdin=json.dumps(wrong))
    assert "spec.minAvailable: Invalid value: -1: must be greater than or equal to 0" in words
    assert "minAvailable and maxUnavailable cannot be both set" in words
    words = kubectl.fail("create", "-f", "-", stdin=json.dumps(unknown))
    assert 'unknown field "spec.colour"' in words or 'unknown field "colour"' in words
    words = kubectl.run(
        "create", "-f", "-", "--dry-run=server", "--validate=false", stdin=json.dumps(unknown)
    ).out
    assert "poddisruptionbudget.policy/wrong created (server dry run)\n" == words
    if kubectl.minor >= STRICT:
        warned = kubectl.run(
            "create", "-f", "-", "--dry-run=server", "--validate=warn",
            stdin=json.dumps(unknown),
        )  # fmt: skip
        assert (0, 'Warning: unknown field "spec.colour"\n') == (warned.code, warned.err)
        words = kubectl.fail("apply", "-f", "-", stdin=json.dumps(misspelt))
        assert 'strict decoding error: unknown field "spec.hostPid"' in words
    assert "(NotFound)" in kubectl.fail("get", "pdb", "wrong")


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


def test_apply_prunes(kubectl: Kubectl) -> None:
    slices = [resource_slice(f"pruned-{n}", set="pruned") for n in range(3)]

    def apply(*objects: Object) -> str:
        allow = "--prune-allowlist" if kubectl.minor >= PRUNES else "--prune-whitelist"
        return kubectl(
            "apply", "-f", "-", "-l", "set=pruned", "--prune",
            f"{allow}=resource.k8s.io/v1/ResourceSlice", stdin=listed(*objects),
        )  # fmt: skip

    assert 3 == apply(*slices).count(" created\n")
    words = apply(*slices[:1])
    assert ["unchanged", "pruned", "pruned"] == [line.split()[1] for line in words.splitlines()]
    assert "resourceslice.resource.k8s.io/pruned-0\n" == kubectl(
        "get", "resourceslices", "-l", "set=pruned", "-o", "name"
    )
    kubectl("delete", "resourceslice", "pruned-0")


def test_apply_on_the_server(kubectl: Kubectl) -> None:
    """Fields are owned by who applied them: others conflict, unless they force it."""
    (kubectl.folder / "ours.json").write_text(json.dumps(level("owned", 5)))
    (kubectl.folder / "theirs.json").write_text(json.dumps(level("owned", 7)))
    target = ("prioritylevelconfiguration", "owned")
    path = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations/owned"

    def shares(kubectl: Kubectl) -> int:
        return int(kubectl("get", *target, "-o", SHARES))

    apply = ("apply", "--server-side", "-f")
    assert f"{LEVEL}/owned serverside-applied\n" == kubectl(*apply, "ours.json")
    assert 'conflict with "kubectl": .spec.limited.nominalConcurrencyShares' in kubectl.fail(
        *apply, "theirs.json", "--field-manager=them"
    )
    dry = ("--dry-run=server", "--force-conflicts")
    assert f"{LEVEL}/owned serverside-applied (server dry run)\n" == kubectl(
        *apply, "theirs.json", "--field-manager=them", *dry
    )
    assert 5 == shares(kubectl)
    kubectl(*apply, "theirs.json", "--field-manager=them", "--force-conflicts")
    assert 7 == shares(kubectl)
    assert 'conflict with "them": .spec.limited.nominalConcurrencyShares' in kubectl.fail(
        *apply, "ours.json"
    )
    kubectl(*apply, "theirs.json")
    managed = json.loads(kubectl("get", "--raw", path))["metadata"]["managedFields"]
    assert ["kubectl", "them"] == [
        each["manager"] for each in managed if each["operation"] == "Apply"
    ]
    kubectl("delete", "-f", "ours.json")


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


def test_replace(kubectl: Kubectl) -> None:
    """An object is replaced if it is still the one that was read, or by a new one."""
    kubectl.create(resource_slice("replaced"))
    live = kubectl.read("/apis/resource.k8s.io/v1/resourceslices/replaced")
    live["spec"]["devices"][0]["attributes"]["model"]["string"] = "b200"
    replace = ("replace", "-f", "-")
    done = "resourceslice.resource.k8s.io/replaced replaced\n"
    assert done == kubectl(*replace, stdin=json.dumps(live))
    assert "the object has been modified; please apply" in kubectl.fail(
        *replace, stdin=json.dumps(live)
    )
    moved = json.dumps(resource_slice("replaced", "node-b"))
    assert "spec.nodeName: Invalid value" in kubectl.fail(*replace, stdin=moved)
    words = kubectl(*replace, "--force", stdin=moved)
    assert f'resourceslice.resource.k8s.io "replaced" deleted\n{done}' == words
    live = kubectl.json("get", "resourceslice", "replaced")
    assert ("node-b", 1) == (live["spec"]["nodeName"], live["metadata"]["generation"])
    kubectl("delete", "resourceslice", "replaced")
    assert "(NotFound)" in kubectl.fail(*replace, stdin=moved)
