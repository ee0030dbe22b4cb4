"""Tests of apfproxy.cli.kubectl_phrases."""

from __future__ import annotations

from typing import Any

import pytest

from apfproxy.cli.kubectl_phrases import (
    PLURAL_OF,
    PhraseError,
    doubts_about,
    parse_path_request,
    parse_phrase,
)
from apfproxy.request.attributes import METHOD_OF_VERB, parse_attributes


@pytest.mark.parametrize(
    ("words", "where", "method", "target"),
    [
        pytest.param(
            "list pods",
            {"namespace": "x"},
            "GET",
            "/api/v1/namespaces/x/pods",
            id="list",
        ),
        pytest.param("list pods", {}, "GET", "/api/v1/namespaces/default/pods", id="default"),
        pytest.param("list po", {"is_cluster_wide": True}, "GET", "/api/v1/pods", id="everywhere"),
        pytest.param("get no n1", {}, "GET", "/api/v1/nodes/n1", id="cluster-scoped"),
        pytest.param("get ns x", {}, "GET", "/api/v1/namespaces/x", id="namespace"),
        pytest.param(
            "get deploy web",
            {},
            "GET",
            "/apis/apps/v1/namespaces/default/deployments/web",
            id="apps",
        ),
        pytest.param(
            "update deployments.apps/scale web",
            {},
            "PUT",
            "/apis/apps/v1/namespaces/default/deployments/web/scale",
            id="subresource",
        ),
        pytest.param(
            "create widgets.v1beta1.example.org",
            {"namespace": "x"},
            "POST",
            "/apis/example.org/v1beta1/namespaces/x/widgets",
            id="version",
        ),
        pytest.param("get pods.v1 p", {}, "GET", "/api/v1/namespaces/default/pods/p", id="core"),
        pytest.param(
            "watch pods p",
            {},
            "GET",
            "/api/v1/namespaces/default/pods?fieldSelector=metadata.name%3Dp&watch=true",
            id="watch-one",
        ),
        pytest.param(
            "watch cm", {}, "GET", "/api/v1/namespaces/default/configmaps?watch=true", id="watch"
        ),
        pytest.param(
            "create pods/exec p", {}, "POST", "/api/v1/namespaces/default/pods/p/exec", id="exec"
        ),
        pytest.param(
            "deletecollection jobs",
            {},
            "DELETE",
            "/apis/batch/v1/namespaces/default/jobs",
            id="all",
        ),
        pytest.param(
            "patch sc a:ü",
            {},
            "PATCH",
            "/apis/storage.k8s.io/v1/storageclasses/a%3A%C3%BC",
            id="escaped",
        ),
        pytest.param("get pod p", {}, "GET", "/api/v1/namespaces/default/pods/p", id="singular"),
        pytest.param(
            "list ingress.networking.k8s.io",
            {},
            "GET",
            "/apis/networking.k8s.io/v1/namespaces/default/ingresses",
            id="singular-of-a-group",
        ),
        pytest.param(
            "list service.example.org",
            {},
            "GET",
            "/apis/example.org/v1/namespaces/default/service",
            id="no-singular",
        ),
        pytest.param(
            "list deviceclass", {}, "GET", "/apis/resource.k8s.io/v1/deviceclasses", id="beside"
        ),
        pytest.param(
            "list events", {}, "GET", "/api/v1/namespaces/default/events", id="core-first"
        ),
        pytest.param("get /healthz", {}, "GET", "/healthz", id="path"),
    ],
)
def test_words(words: str, where: dict[str, Any], method: str, target: str) -> None:
    """Words give the request that kubectl would send, and its verb is the one that was said."""
    found = parse_phrase(words.split(), **where)

    assert (method, target.encode()) == found
    assert words.split(maxsplit=1)[0] == parse_attributes(*found).verb


@pytest.mark.parametrize(
    ("singular", "plural"),
    [
        ("pod", "pods"),
        ("networkpolicy", "networkpolicies"),
        ("ingress", "ingresses"),
        ("storageclass", "storageclasses"),
        ("componentstatus", "componentstatuses"),
        ("endpointslice", "endpointslices"),
        ("lease", "leases"),
        ("csidriver", "csidrivers"),
        ("ipaddress", "ipaddresses"),
    ],
)
def test_singulars(singular: str, plural: str) -> None:
    """One object's name for a resource is known by its plural."""
    assert plural == PLURAL_OF[singular]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param("list pods", (), id="known"),
        pytest.param("get po p", (), id="short"),
        pytest.param("get pod/log p", (), id="singular"),
        pytest.param("list widgets.example.org", (), id="other-group"),
        pytest.param("list deployments.v1.apps", (), id="group-and-version"),
        pytest.param("get /podz", (), id="path"),
        pytest.param(
            "list podz",
            ("no resource of Kubernetes is called podz; did you mean pods?",),
            id="misspelt",
        ),
        pytest.param(
            "get deploymnet.v1 a",
            ("no resource of Kubernetes is called deploymnet; did you mean deployments?",),
            id="misspelt-singular",
        ),
        pytest.param(
            "list zzz",
            ("no resource of Kubernetes is called zzz; one of another group is RESOURCE.GROUP",),
            id="unlike-any",
        ),
    ],
)
def test_doubts(words: str, expected: tuple[str, ...]) -> None:
    """A resource without a group that Kubernetes does not have is doubted."""
    assert expected == doubts_about(words.split())


@pytest.mark.parametrize("verb", METHOD_OF_VERB)
def test_every_verb(verb: str) -> None:
    """Each verb of Kubernetes gives a request with that verb."""
    name = () if verb in {"list", "watch", "create", "deletecollection"} else ("p",)

    assert verb == parse_attributes(*parse_phrase((verb, "pods", *name))).verb


@pytest.mark.parametrize(
    ("words", "where", "message"),
    [
        pytest.param("list", {}, "say what is asked for", id="one-word"),
        pytest.param("fetch pods", {}, "expected a verb of get, list", id="verb"),
        pytest.param("get pods a b", {}, "not 'b' after that", id="four-words"),
        pytest.param(
            "get pods",
            {},
            "get pods needs the name of an object; without one it is list pods",
            id="no-name",
        ),
        pytest.param(
            "get pod/web",
            {},
            "get pod/web needs the name of an object; if web is that, write get pod web",
            id="subresource-of-nothing",
        ),
        pytest.param("create pods p", {}, "create pods takes no name", id="name"),
        pytest.param("deletecollection pods p", {}, "takes no name", id="name-of-all"),
        pytest.param("list pods/log p", {}, "list takes no subresource", id="list-subresource"),
        pytest.param("get Pods p", {}, "expected a resource such as pods", id="resource"),
        pytest.param("get pods.a..b/ p", {}, "expected a subresource", id="no-subresource"),
        pytest.param("get a.-b p", {}, "expected a resource such as pods", id="group"),
        pytest.param("get pods ..", {}, "expected the name of an object", id="dots"),
        pytest.param("get pods a/b", {}, "expected the name of an object", id="slash"),
        pytest.param("get pods a%2Fb", {}, "expected the name of an object", id="percent"),
        pytest.param("list nodes", {"namespace": "x"}, "nodes are in no namespace", id="scope"),
        pytest.param("list pods", {"namespace": ""}, "expected the name of", id="empty-namespace"),
        pytest.param(
            "list pods", {"namespace": "x", "is_cluster_wide": True}, "give either", id="both"
        ),
        pytest.param("get /x", {"namespace": "x"}, "a path says everything", id="path"),
        pytest.param("list /api/v1/pods/p", {}, "is a get, not a list", id="other-verb"),
    ],
)
def test_refused_words(words: str, where: dict[str, Any], message: str) -> None:
    """Words that name no request are answered with what would."""
    with pytest.raises(PhraseError) as caught:
        parse_phrase(words.split(), **where)

    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("verb", "target", "expected"),
    [
        pytest.param("GET", "/a?b=c", ("GET", b"/a?b=c"), id="method"),
        pytest.param("get", "/a", ("GET", b"/a"), id="small-letters"),
        pytest.param("head", "/a", ("HEAD", b"/a"), id="no-verb"),
        pytest.param("QUERY", "/a", ("QUERY", b"/a"), id="other-method"),
        pytest.param("create", "/api/v1/nodes", ("POST", b"/api/v1/nodes"), id="verb"),
        pytest.param("watch", "/api/v1/nodes", ("GET", b"/api/v1/nodes?watch=true"), id="watch"),
        pytest.param(
            "watch", "/api/v1/nodes?limit=1", ("GET", b"/api/v1/nodes?limit=1&watch=true"), id="and"
        ),
        pytest.param(
            "watch", "/api/v1/nodes?watch=1", ("GET", b"/api/v1/nodes?watch=1"), id="watch-twice"
        ),
        pytest.param("GET", "/a b\n\udcff", ("GET", b"/a%20b%0A%FF"), id="escaped"),
    ],
)
def test_path(verb: str, target: str, expected: tuple[str, bytes]) -> None:
    """A verb and a path give the method and the bytes of a request line."""
    assert expected == parse_path_request(verb, target)


@pytest.mark.parametrize(
    ("verb", "target", "message"),
    [
        pytest.param("GET", "a", "a path that begins with a slash", id="no-slash"),
        pytest.param("fetch", "/a", "expected a method or verb such as GET", id="verb"),
        pytest.param("G T", "/a", "expected a method or verb such as GET", id="no-token"),
        pytest.param("GET", "/%zz", "invalid percent escape", id="escape"),
        pytest.param("watch", "/api/v1/pods/p", "is a get, not a watch; give --verb GET", id="one"),
    ],
)
def test_refused_path(verb: str, target: str, message: str) -> None:
    """What is no request is answered with what would be one."""
    with pytest.raises(PhraseError) as caught:
        parse_path_request(verb, target)

    assert message in str(caught.value)
