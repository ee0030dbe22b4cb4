"""kubectl writes: each scenario on a server direct and behind the proxy, with equal answers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

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
    from pathlib import Path

    from tests.end_to_end.kubectl import Kubectl, Targets

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

READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
"""A pod's status."""


def changed(obj: Object, **spec: object) -> Object:
    """An object with other fields in its spec; those that are None are left out."""
    fields = obj["spec"] | spec
    return {**obj, "spec": {key: value for key, value in fields.items() if value is not None}}


def test_transcripts_of_servers_that_count_for_themselves(targets: Targets, tmp_path: Path) -> None:
    """Servers with more writes behind them answer alike, those with other objects do not."""
    path = "/api/v1/namespaces/counted"
    first, *others = targets.clients(tmp_path)
    first.create(namespace("more"))
    first("delete", "namespace", "more")
    versions = set()

    def create(kubectl: Kubectl) -> None:
        kubectl.create(namespace("counted"))
        versions.add(kubectl.read(path)["metadata"]["resourceVersion"])
        for form in ("json", "yaml"):
            kubectl("get", "namespace", "counted", "-o", form)

    def get(kubectl: Kubectl) -> None:
        kubectl("get", "--raw", path)

    def delete(kubectl: Kubectl) -> None:
        kubectl("delete", "namespace", "counted")

    targets.play(create, tmp_path)
    targets.play(get, tmp_path)
    for client in others:
        client("label", "namespace", "counted", "a=b")
    with pytest.raises(AssertionError, match='"a": "b"'):
        targets.play(get, tmp_path)
    targets.play(delete, tmp_path)

    assert len(versions) > 1


def test_create_and_delete(targets: Targets, tmp_path: Path) -> None:
    """Objects of all kinds are created once, and deleted by name, by file and by label."""
    created = [
        namespace("made"),
        level("made"),
        flow_schema("made", "made"),
        resource_slice("made"),
        budget("made", "made", app="made"),
        *(pod(name, "made", app="made") for name in ("one", "two", "three", "four")),
    ]
    (tmp_path / "all.json").write_text(listed(*created))

    def scenario(kubectl: Kubectl) -> None:
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

    targets.play(scenario, tmp_path)


def test_delete_waits_for_finalizers(targets: Targets, tmp_path: Path) -> None:
    """What is held by a finalizer is there until that is taken off."""
    held = resource_slice("held")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    (tmp_path / "held.json").write_text(json.dumps(held))

    def scenario(kubectl: Kubectl) -> None:
        kubectl("create", "-f", "held.json")
        kubectl("delete", "resourceslice", "held", "--wait=false")
        held = kubectl.json("get", "resourceslice", "held")
        assert "deletionTimestamp" in held["metadata"]
        with kubectl.running("delete", "resourceslice", "held", "--timeout=20s") as words:
            assert 'resourceslice.resource.k8s.io "held" deleted\n' == words.readline()
            kubectl(
                "patch", "resourceslice", "held", "--type=json", "-p",
                '[{"op": "remove", "path": "/metadata/finalizers"}]',
            )  # fmt: skip
            assert "" == words.read()
        assert "(NotFound)" in kubectl.fail("get", "resourceslice", "held")

    targets.play(scenario, tmp_path)


def test_create_what_is_wrong(targets: Targets, tmp_path: Path) -> None:
    """What is wrong with an object is said, with the path of each field."""
    slice_ = resource_slice("Wrong")
    slice_["spec"]["devices"][0]["name"] = "GPU"
    wrong = changed(budget("wrong", "default"), minAvailable=-1, maxUnavailable=1)
    unknown = changed(budget("wrong", "default"), colour="red")
    misspelt = changed(pod("wrong", "default"), hostPid=True)

    def scenario(kubectl: Kubectl) -> None:
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

    targets.play(scenario, tmp_path)


def test_apply(targets: Targets, tmp_path: Path) -> None:
    """What is applied again is changed to what was added, changed and left out, and no more."""
    first, second = level("applied", 5), level("applied", 7)
    first["metadata"]["labels"] = {"app": "applied", "before": "yes"}
    first["spec"]["limited"]["lendablePercent"] = 10
    second["metadata"]["labels"] = {"app": "applied", "added": "later"}
    for name, obj in (("first", first), ("second", second)):
        (tmp_path / f"{name}.json").write_text(json.dumps(obj))

    def scenario(kubectl: Kubectl) -> None:
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

    targets.play(scenario, tmp_path)


def test_apply_with_unserved_kinds(targets: Targets, tmp_path: Path) -> None:
    """Of a kind that is not served it is said so, and the rest of the file is applied."""
    ingress = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"name": "mixed"},
        "spec": {},
    }
    (tmp_path / "mixed.json").write_text(listed(level("mixed"), ingress, resource_slice("mixed")))

    def scenario(kubectl: Kubectl) -> None:
        problem = kubectl.fail("apply", "-f", "mixed.json")
        assert 'no matches for kind "Ingress" in version "networking.k8s.io/v1"' in problem
        assert "CRDs: " not in problem
        for kind in ("prioritylevelconfiguration", "resourceslice"):
            assert kubectl("get", kind, "mixed", "-o", "name").endswith("/mixed\n")
            kubectl("delete", kind, "mixed")

    targets.play(scenario, tmp_path)


def test_apply_prunes(targets: Targets, tmp_path: Path) -> None:
    """What was applied before and is not in the files any more goes, if it has the label."""
    slices = [resource_slice(f"pruned-{n}", set="pruned") for n in range(3)]

    def scenario(kubectl: Kubectl) -> None:
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

    targets.play(scenario, tmp_path)


def test_apply_on_the_server(targets: Targets, tmp_path: Path) -> None:
    """Fields are owned by who applied them: others conflict, unless they force it."""
    (tmp_path / "ours.json").write_text(json.dumps(level("owned", 5)))
    (tmp_path / "theirs.json").write_text(json.dumps(level("owned", 7)))
    target = ("prioritylevelconfiguration", "owned")
    path = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations/owned"

    def shares(kubectl: Kubectl) -> int:
        return int(kubectl("get", *target, "-o", SHARES))

    def scenario(kubectl: Kubectl) -> None:
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

    targets.play(scenario, tmp_path)


def test_apply_on_the_server_what_was_applied_by_the_client(
    targets: Targets, tmp_path: Path
) -> None:
    """Who turns from one way of applying to the other has no conflicts with oneself."""
    target = ("prioritylevelconfiguration", "turned")

    def scenario(kubectl: Kubectl) -> None:
        kubectl("apply", "-f", "-", stdin=json.dumps(level("turned")))
        second = json.dumps(level("turned", 7))
        kubectl("apply", "--server-side", "-f", "-", stdin=second)
        last = json.loads(kubectl("apply", "view-last-applied", *target, "-o", "json"))
        assert 7 == last["spec"]["limited"]["nominalConcurrencyShares"]
        kubectl("apply", "-f", "-", stdin=json.dumps(level("turned")))
        assert "5" == kubectl("get", *target, "-o", SHARES)
        kubectl("delete", *target)

    targets.play(scenario, tmp_path)


def test_diff(targets: Targets, tmp_path: Path) -> None:
    """What would change is shown, and told by the exit code."""
    (tmp_path / "first.json").write_text(json.dumps(level("differing", 5)))
    (tmp_path / "second.json").write_text(json.dumps(level("differing", 7)))
    change = "-    nominalConcurrencyShares: 5\n+    nominalConcurrencyShares: 7\n"

    def scenario(kubectl: Kubectl) -> None:
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

    targets.play(scenario, tmp_path)


def test_edit(targets: Targets, tmp_path: Path) -> None:
    """An edit that is wrong is shown again with what is wrong; one without a change is none."""
    editor = tmp_path / "editor"
    editor.write_text(EDITOR)
    editor.chmod(0o755)

    target = ("prioritylevelconfiguration", "edited")

    def scenario(kubectl: Kubectl) -> None:
        kubectl.create(level("edited"))
        done = kubectl.run("edit", *target, KUBE_EDITOR=str(editor))
        assert (0, f"{LEVEL}/edited edited\n") == (done.code, done.out)
        seen = (kubectl.home / "seen").read_text()
        kubectl.record(seen)
        assert (
            '# prioritylevelconfigurations.flowcontrol.apiserver.k8s.io "edited" was not valid:\n'
            "# * spec.limited.nominalConcurrencyShares: Invalid value: -3: must be a non-neg"
        ) in seen
        assert 3 == kubectl.json("get", *target)["spec"]["limited"]["nominalConcurrencyShares"]
        done = kubectl.run("edit", *target, KUBE_EDITOR="true")
        assert "Edit cancelled, no changes made.\n" in (done.out, done.err)
        kubectl("delete", *target)

    targets.play(scenario, tmp_path)


def test_label_and_annotate(targets: Targets, tmp_path: Path) -> None:
    """Labels and annotations are added, changed only if meant, and taken off."""

    def scenario(kubectl: Kubectl) -> None:
        kubectl.create(level("labelled"))
        target = ("prioritylevelconfiguration", "labelled")
        assert "/labelled labeled\n" in kubectl("label", *target, "colour=red", "size=xl")
        assert "already has a value (red)" in kubectl.fail("label", *target, "colour=blue")
        kubectl("label", *target, "colour=blue", "size-", "--overwrite")
        assert "/labelled annotate" in kubectl("annotate", *target, "note=a b")
        metadata = kubectl.json("get", *target)["metadata"]
        assert ({"colour": "blue"}, {"note": "a b"}) == (
            metadata["labels"],
            metadata["annotations"],
        )
        assert 1 == metadata["generation"]
        assert "metadata.labels: Invalid value" in kubectl.fail(
            "patch", *target, "--type=merge", "-p", '{"metadata": {"labels": {"a": "b c"}}}'
        )
        kubectl("delete", *target)

    targets.play(scenario, tmp_path)


@pytest.mark.parametrize(
    ("kind", "patch", "expected"),
    [
        pytest.param("merge", {"metadata": {"finalizers": ["c.test/c"]}}, ["c.test/c"], id="merge"),
        pytest.param(
            "strategic",
            {"metadata": {"finalizers": ["c.test/c"]}},
            ["c.test/c", "a.test/a", "b.test/b"],
            id="strategic",
        ),
        pytest.param(
            "json",
            [
                {"op": "test", "path": "/metadata/finalizers/0", "value": "a.test/a"},
                {"op": "remove", "path": "/metadata/finalizers/0"},
                {"op": "add", "path": "/metadata/finalizers/-", "value": "c.test/c"},
            ],
            ["b.test/b", "c.test/c"],
            id="json",
        ),
    ],
)
def test_patch(
    targets: Targets, tmp_path: Path, kind: str, patch: object, expected: list[str]
) -> None:
    """Each type of patch treats a list in its own way."""
    name = f"patched-{kind}"
    before = resource_slice(name)
    before["metadata"]["finalizers"] = ["a.test/a", "b.test/b"]

    def scenario(kubectl: Kubectl) -> None:
        kubectl.create(before)
        command = ("patch", "resourceslice", name, f"--type={kind}", "-p")
        done = f"resourceslice.resource.k8s.io/{name} patched"
        assert f"{done}\n" == kubectl(*command, json.dumps(patch))
        live = kubectl.json("get", "resourceslice", name)
        assert expected == live["metadata"]["finalizers"]
        if kind == "json":
            assert "The request is invalid" in kubectl.fail(*command, json.dumps(patch))
        else:
            assert f"{done} (no change)\n" == kubectl(*command, json.dumps(patch))
        none = '[{"op": "remove", "path": "/metadata/finalizers"}]'
        kubectl("patch", "resourceslice", name, "--type=json", "-p", none)
        kubectl("delete", "resourceslice", name)

    targets.play(scenario, tmp_path)


def test_replace(targets: Targets, tmp_path: Path) -> None:
    """An object is replaced if it is still the one that was read, or by a new one."""

    def scenario(kubectl: Kubectl) -> None:
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

    targets.play(scenario, tmp_path)


def test_evict(targets: Targets, tmp_path: Path) -> None:
    """An eviction, as a drain asks for it, waits until the budget has room."""
    pods = "/api/v1/namespaces/evicted/pods"
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "one", "namespace": "evicted"},
    }
    (tmp_path / "eviction.json").write_text(json.dumps(eviction))

    def scenario(kubectl: Kubectl) -> None:
        def get_ready(name: str) -> None:
            obj = kubectl.read(f"{pods}/{name}")
            obj["status"] |= READY
            kubectl("replace", "--raw", f"{pods}/{name}/status", "-f", "-", stdin=json.dumps(obj))

        def wait(condition: str) -> None:
            kubectl(
                "wait", "pdb/evicted", *inside, f"--for=condition=DisruptionAllowed={condition}"
            )

        inside = ("-n", "evicted")
        kubectl.create(
            namespace("evicted"),
            budget("evicted", "evicted", app="evicted"),
            pod("one", "evicted", app="evicted"),
            pod("two", "evicted", app="evicted"),
        )
        get_ready("one")
        wait("False")
        evict = ("create", "--raw", f"{pods}/one/eviction", "-f", "eviction.json")
        assert (
            "Error from server (TooManyRequests):"
            " Cannot evict pod as it would violate the pod's disruption budget.\n"
        ) == kubectl.fail(*evict)
        get_ready("two")
        wait("True")
        answer = json.loads(kubectl(*evict))
        assert ("Status", "Success") == (answer["kind"], answer["status"])
        assert "pod/two\n" == kubectl("get", "pods", "-o", "name", *inside)
        wait("False")
        kubectl("delete", "ns", "evicted")

    targets.play(scenario, tmp_path)
