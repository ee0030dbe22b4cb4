"""Tests of which resource a path means."""

from __future__ import annotations

import pytest

from apfproxy.apiserver.errors import StatusError
from apfproxy.apiserver.kind import Kind, Rules, Version, nothing
from apfproxy.apiserver.paths import Paths
from apfproxy.apiserver.schema.types import Struct

SCHEMA = Struct("Thing", ())


def kind_of(group: str, plural: str, *, is_namespaced: bool, rules: Rules | None = None) -> Kind:
    """A kind of which only the names matter."""
    return Kind(
        group,
        plural[:-1].title(),
        (Version("v1", SCHEMA), Version("v1beta1", SCHEMA)),
        rules or Rules(),
        is_namespaced=is_namespaced,
        has_status=plural != "slices",
    )


PATHS = Paths(
    (
        kind_of(
            "",
            "namespaces",
            is_namespaced=False,
            rules=Rules(prepare_finalize=nothing),
        ),
        kind_of("", "pods", is_namespaced=True),
        kind_of("g.io", "slices", is_namespaced=False),
    ),
)


@pytest.mark.parametrize(
    ("path", "plural", "namespace", "name", "subresource", "methods"),
    [
        pytest.param("api/v1/pods", "pods", "", "", "", "GET", id="all-namespaces"),
        pytest.param(
            "api/v1/namespaces/a/pods", "pods", "a", "", "", "DELETE GET POST", id="collection"
        ),
        pytest.param(
            "api/v1/namespaces/a/pods/b", "pods", "a", "b", "", "DELETE GET PATCH PUT", id="object"
        ),
        pytest.param(
            "api/v1/namespaces/a/pods/b/status",
            "pods",
            "a",
            "b",
            "status",
            "GET PATCH PUT",
            id="status",
        ),
        pytest.param(
            "api/v1/namespaces/a/pods/b/eviction", "pods", "a", "b", "eviction", "POST", id="evict"
        ),
        pytest.param("api/v1/namespaces", "namespaces", "", "", "", "GET POST", id="namespaces"),
        pytest.param(
            "api/v1/namespaces/a", "namespaces", "", "a", "", "DELETE GET PATCH PUT", id="namespace"
        ),
        pytest.param(
            "api/v1/namespaces/a/status",
            "namespaces",
            "",
            "a",
            "status",
            "GET PATCH PUT",
            id="status-of-a-namespace",
        ),
        pytest.param(
            "api/v1/namespaces/a/finalize", "namespaces", "", "a", "finalize", "PUT", id="finalize"
        ),
        pytest.param(
            "apis/g.io/v1beta1/slices", "slices", "", "", "", "DELETE GET POST", id="group"
        ),
        pytest.param("apis/g.io/v1/watch/slices", "slices", "", "", "", "GET", id="watch"),
        pytest.param(
            "api/v1/watch/namespaces/a/pods/b", "pods", "a", "b", "", "GET", id="watch-one"
        ),
    ],
)
def test_target(
    path: str, plural: str, namespace: str, name: str, subresource: str, methods: str
) -> None:
    """A path names a resource, an object or a part of it, and has its methods."""
    target = PATHS.target(path.split("/"))

    assert (plural, namespace, name, subresource) == (
        target.kind.plural,
        target.namespace,
        target.name,
        target.subresource,
    )
    assert methods.split() == sorted(target.methods)
    assert ("watch" in path.split("/")) == target.is_watch


@pytest.mark.parametrize(
    "path",
    [
        "api",
        "api/v2/pods",
        "apis/other.io/v1/slices",
        "api/v1/nodes",
        "api/v1/pods/b",
        "api/v1/namespaces/a/nodes",
        "api/v1/namespaces//pods",
        "api/v1/namespaces/a/pods/b/log",
        "api/v1/namespaces/a/pods/b/status/more",
        "api/v1/namespaces/a/slices",
        "apis/g.io/v1/namespaces/a/slices",
        "apis/g.io/v1/slices/a/status",
        "apis/g.io/v1/slices/a/finalize",
        "api/v1/watch/namespaces/a/pods/b/status",
        "api/v1/watch",
    ],
)
def test_nothing_there(path: str) -> None:
    """What is not served is 404."""
    with pytest.raises(StatusError) as caught:
        PATHS.target(path.split("/"))

    assert 404 == caught.value.code


@pytest.mark.parametrize("name", [".", "..", "a%b"])
def test_names_that_cannot_be(name: str) -> None:
    """400, as Kubernetes answers names that are no part of a path."""
    with pytest.raises(StatusError, match="Name parameter invalid") as error:
        PATHS.target(["apis", "g.io", "v1", "slices", name])

    assert 400 == error.value.code
