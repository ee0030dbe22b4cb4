"""Requests in the words of kubectl."""

from __future__ import annotations

import pytest

from apfproxy.cli.kubectl_phrases import PhraseError, parse_path_request, parse_phrase
from apfproxy.request.attributes import parse_attributes

WORDS = """
list pods -n x                       | GET /api/v1/namespaces/x/pods
list pods                            | GET /api/v1/namespaces/default/pods
list po -A                           | GET /api/v1/pods
get no n1                            | GET /api/v1/nodes/n1
get ns x                             | GET /api/v1/namespaces/x
get deploy web                       | GET /apis/apps/v1/namespaces/default/deployments/web
update deployments.apps/scale web    | PUT /apis/apps/v1/namespaces/default/deployments/web/scale
create widgets.v1beta1.ex.org -n x   | POST /apis/ex.org/v1beta1/namespaces/x/widgets
get pods.v1 p                        | GET /api/v1/namespaces/default/pods/p
watch po p -A                        | GET /api/v1/pods?fieldSelector=metadata.name%3Dp&watch=true
watch cm                             | GET /api/v1/namespaces/default/configmaps?watch=true
create pods/exec p                   | POST /api/v1/namespaces/default/pods/p/exec
deletecollection jobs                | DELETE /apis/batch/v1/namespaces/default/jobs
patch sc a:ü                         | PATCH /apis/storage.k8s.io/v1/storageclasses/a%3A%C3%BC
get pod p                            | GET /api/v1/namespaces/default/pods/p
list ingress.networking.k8s.io -A    | GET /apis/networking.k8s.io/v1/ingresses
list service.example.org -A          | GET /apis/example.org/v1/service
list deviceclass                     | GET /apis/resource.k8s.io/v1/deviceclasses
list networkpolicy -A                | GET /apis/networking.k8s.io/v1/networkpolicies
delete pod p                         | DELETE /api/v1/namespaces/default/pods/p
list events -A                       | GET /api/v1/events
get /healthz                         | GET /healthz
"""
REFUSED = """
list                    | say what is asked for
fetch pods              | expected a verb of get, list
lst pods                | not 'lst'; did you mean list?
get pods a b            | not 'b' after that
get pods                | get pods needs the name of an object; without one it is list pods
get pod/web             | needs the name of an object; if web is that, write get pod web
create pods p           | create pods takes no name
deletecollection pods p | takes no name
list pods/log p         | list takes no subresource
get Pods p              | expected a resource such as pods
get pods.a..b/ p        | expected a subresource
get a.-b p              | expected a resource such as pods
get pods ..             | expected the name of an object
get pods a/b            | expected the name of an object
get pods a%2Fb          | expected the name of an object
list nodes -n x         | nodes are in no namespace
list pods -n            | expected the name of an object or namespace
list pods -A -n x       | give either
get /x -n x             | a path says everything
list /api/v1/pods/p     | is a get, not a list
"""


def rows(table: str) -> list[tuple[str, str]]:
    return [
        (left.strip(), right.strip())
        for left, _, right in (line.partition("|") for line in table.strip().splitlines())
    ]


def parsed(phrase: str) -> tuple[str, bytes, tuple[str, ...]]:
    phrase, flag, namespace = phrase.partition(" -n")
    words = [word for word in phrase.split() if word != "-A"]
    return parse_phrase(
        words, namespace=namespace.strip() if flag else None, is_cluster_wide="-A" in phrase
    )


@pytest.mark.parametrize(("phrase", "request_line"), rows(WORDS))
def test_words(phrase: str, request_line: str) -> None:
    """Words give the request that kubectl would send, and its verb is the one that was said."""
    method, target, _ = parsed(phrase)

    assert f"{method} {target.decode()}" == request_line
    assert phrase.split(maxsplit=1)[0] == parse_attributes(method, target).verb


@pytest.mark.parametrize(("phrase", "message"), rows(REFUSED))
def test_refused_words(phrase: str, message: str) -> None:
    """Words that name no request are refused with what would."""
    with pytest.raises(PhraseError) as caught:
        parsed(phrase)

    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("phrase", "doubt"),
    [
        ("list pods", ""),
        ("get po p", ""),
        ("get pod/log p", ""),
        ("list widgets.example.org", ""),
        ("list deployments.v1.apps", ""),
        ("get /podz", ""),
        ("list podz", "is called podz; did you mean pods?"),
        ("get deploymnet.v1 a", "is called deploymnet; did you mean deployments?"),
        ("list zzz", "is called zzz; one of another group is RESOURCE.GROUP"),
    ],
)
def test_doubts(phrase: str, doubt: str) -> None:
    """A resource without a group that Kubernetes does not have is doubted."""
    expected = (f"no resource of Kubernetes {doubt}",) if doubt else ()

    assert expected == parsed(phrase)[2]


@pytest.mark.parametrize(
    ("verb", "target", "expected"),
    [
        ("GET", "/a?b=c", "GET /a?b=c"),
        ("get", "/a", "GET /a"),
        ("head", "/a", "HEAD /a"),
        ("QUERY", "/a", "QUERY /a"),
        ("create", "/api/v1/nodes", "POST /api/v1/nodes"),
        ("watch", "/api/v1/nodes", "GET /api/v1/nodes?watch=true"),
        ("watch", "/api/v1/nodes?limit=1", "GET /api/v1/nodes?limit=1&watch=true"),
        ("watch", "/api/v1/nodes?watch=1", "GET /api/v1/nodes?watch=1"),
        ("GET", "/a b\n\udcff", "GET /a%20b%0A%FF"),
    ],
)
def test_path(verb: str, target: str, expected: str) -> None:
    """A verb and a path give the method and the bytes of a request line."""
    method, found = parse_path_request(verb, target)

    assert expected == f"{method} {found.decode()}"
