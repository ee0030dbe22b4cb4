"""Requests in the words of kubectl, such as `list pods -n x`, or as a verb and a path.

    VERB RESOURCE[.VERSION][.GROUP][/SUBRESOURCE] [NAME]      list deployments.apps
    VERB /PATH                                                get /healthz

The built-in resources are known by their plural, singular and short names, with their group and
whether they are in namespaces.  Any other resource is in the group that is named, or in the core
group, and in a namespace unless told otherwise.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import quote

import click

from apfproxy.lint.known_resources import KNOWN_GROUPS
from apfproxy.objects.field_errors import closest
from apfproxy.request.attributes import METHOD_OF_VERB, TOKEN, AttributesError, parse_attributes

if TYPE_CHECKING:
    from collections.abc import Sequence

COLLECTION_VERBS = frozenset({"list", "watch", "create", "deletecollection"})
"""Verbs that need no name."""

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
VERSION = re.compile(r"v[1-9][0-9]*(?:(?:alpha|beta)[1-9][0-9]*)?")
KEPT = "/?&=%:@!$'()*+,;~-._[]|\"<>^`{}\\"
"""Characters of a path that are as they are on a request line."""
RESOURCE = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,251}[a-z0-9])?")
GROUP = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")

LISTED_SHORT_NAMES = (
    "cm=configmaps crd=customresourcedefinitions crds=customresourcedefinitions"
    " cj=cronjobs csr=certificatesigningrequests deploy=deployments ds=daemonsets"
    " ep=endpoints ev=events hpa=horizontalpodautoscalers ing=ingresses"
    " netpol=networkpolicies no=nodes ns=namespaces pc=priorityclasses"
    " pdb=poddisruptionbudgets po=pods pv=persistentvolumes pvc=persistentvolumeclaims"
    " rc=replicationcontrollers rs=replicasets sa=serviceaccounts sc=storageclasses"
    " sts=statefulsets svc=services"
)
SHORT_NAMES = dict(pair.split("=") for pair in LISTED_SHORT_NAMES.split())
"""As kubectl has them."""

IS_NAMESPACED = {
    (group, resource): known.is_namespaced is True
    for group, resources in KNOWN_GROUPS.items()
    for resource, known in resources.items()
} | {
    ("resource.k8s.io", "deviceclasses"): False,
    ("resource.k8s.io", "resourceclaims"): True,
    ("resource.k8s.io", "resourceclaimtemplates"): True,
    ("resource.k8s.io", "resourceslices"): False,
}
"""Built-in resources, by group and name, and whether they are in namespaces."""

GROUP_OF = {resource: group for group, resource in reversed(IS_NAMESPACED)}
"""The first group that has a resource of the name: events are those of the core group."""


def singular(plural: str) -> str:
    """A singular as kubectl has it."""
    if plural.endswith("ies"):
        return f"{plural.removesuffix('ies')}y"
    if plural.endswith(("sses", "uses")):
        return plural.removesuffix("es")
    return plural.removesuffix("s")


PLURAL_OF = {singular(resource): resource for resource in GROUP_OF}


class PhraseError(click.UsageError):
    """A phrase names no request; the message says what would."""


def parse_phrase(
    words: Sequence[str], *, namespace: str | None = None, is_cluster_wide: bool = False
) -> tuple[str, bytes, tuple[str, ...]]:
    """The method and target of a request, and doubts whether it is meant.

    The words are a verb, a resource or path, and perhaps a name.  In no namespace
    (`is_cluster_wide`) is across all of them, or of a resource that has none.  PhraseError if the
    words name no request.
    """
    if len(words) < 2:  # noqa: PLR2004 - a verb and a resource
        raise PhraseError("say what is asked for: VERB RESOURCE [NAME], such as list pods -n x")
    if namespace is not None and is_cluster_wide:
        raise PhraseError("give either --namespace or --all-namespaces")
    verb, what, *rest = words
    if what.startswith("/"):
        if rest or namespace is not None or is_cluster_wide:
            raise PhraseError(f"a path says everything; leave out what is beside {what!r}")
        return (*parse_path_request(verb, what), ())
    if verb not in METHOD_OF_VERB:
        close = closest(verb, METHOD_OF_VERB, likeness=0.6)
        hint = f"; did you mean {close}?" if close else ""
        raise PhraseError(f"expected a verb of {', '.join(METHOD_OF_VERB)}, not {verb!r}{hint}")
    if len(rest) > 1:
        raise PhraseError(f"expected VERB RESOURCE [NAME], not {rest[1]!r} after that")
    resource_text, slash, subresource = what.partition("/")
    version, group, resource = _resource_of(resource_text)
    is_cluster_scoped = IS_NAMESPACED.get((group, resource)) is False
    if slash and RESOURCE.fullmatch(subresource) is None:
        raise PhraseError(f"expected a subresource such as pods/log, not {what!r}")
    name = rest[0] if rest else ""
    _check_name(verb, what, name, subresource)
    path = f"/apis/{group}/{version}" if group else f"/api/{version}"
    if is_cluster_scoped and namespace is not None:
        raise PhraseError(f"{resource} are in no namespace; leave out --namespace")
    if not is_cluster_scoped and not is_cluster_wide:
        path += f"/namespaces/{_segment('default' if namespace is None else namespace)}"
    path += f"/{resource}"
    query = []
    if name and verb in {"list", "watch"}:
        query.append(f"fieldSelector={quote(f'metadata.name={name}', safe='')}")
    elif name:
        path += f"/{_segment(name)}"
        if subresource:
            path += f"/{subresource}"
    if verb == "watch":
        query.append("watch=true")
    target = f"{path}?{'&'.join(query)}" if query else path
    doubts: tuple[str, ...] = ()
    if not group and resource not in GROUP_OF:
        close = closest(resource, GROUP_OF, likeness=0.6)
        hint = f"did you mean {close}?" if close else "one of another group is RESOURCE.GROUP"
        doubts = (f"no resource of Kubernetes is called {resource}; {hint}",)
    return METHOD_OF_VERB[verb], target.encode(), doubts


def parse_path_request(verb: str, target: str) -> tuple[str, bytes]:
    """The method and target of a method, or a verb that the path must fit, and a path with a query.

    What no request line may hold is escaped.  PhraseError if they name no request.
    """
    if not target.startswith("/"):
        raise PhraseError(f"expected a path that begins with a slash, such as /api, not {target!r}")
    data = quote(target, safe=KEPT, errors="surrogateescape").encode()
    method = METHOD_OF_VERB.get(verb, verb.upper() if verb.upper() in METHODS else verb)
    if TOKEN.fullmatch(method) is None or method.islower():
        known = ", ".join((*METHODS, *METHOD_OF_VERB))
        raise PhraseError(f"expected a method or verb such as {known}, not {verb!r}")
    if verb == "watch" and b"watch=" not in data:
        data += b"&watch=true" if b"?" in data else b"?watch=true"
    try:
        attributes = parse_attributes(method, data)
    except AttributesError as error:
        raise PhraseError(f"{target!r} is no target of a request: {error}") from None
    if (
        verb in METHOD_OF_VERB.keys() - {"get"}
        and attributes.is_resource_request
        and attributes.verb != verb
    ):
        raise PhraseError(
            f"{method} {target!r} is a {attributes.verb}, not a {verb}; give --verb {method} or"
            " another path"
        )
    return method, data


def _resource_of(text: str) -> tuple[str, str, str]:
    """Version, group, and plural name."""
    resource, dot, rest = text.partition(".")
    resource = SHORT_NAMES.get(resource, resource)
    version, group = "v1", rest
    first, _, after = rest.partition(".")
    if VERSION.fullmatch(first) is not None:
        version, group = first, after
    plural = PLURAL_OF.get(resource, resource)
    if not dot:
        resource = plural
        group = GROUP_OF.get(resource, "")
    elif (group, plural) in IS_NAMESPACED:
        resource = plural
    if RESOURCE.fullmatch(resource) is None or (group and GROUP.fullmatch(group) is None):
        raise PhraseError(f"expected a resource such as pods or deployments.apps, not {text!r}")
    return version, group, resource


def _check_name(verb: str, what: str, name: str, subresource: str) -> None:
    if not name and (verb not in COLLECTION_VERBS or subresource):
        hint = f"; without one it is list {what}" if verb == "get" else ""
        if subresource:
            resource, _, _ = what.partition("/")
            hint = f"; if {subresource} is that, write {verb} {resource} {subresource}"
        raise PhraseError(f"{verb} {what} needs the name of an object{hint}")
    if not name:
        return
    if verb == "deletecollection" or (verb == "create" and not subresource):
        raise PhraseError(f"{verb} {what} takes no name; leave out {name!r}")
    if subresource and verb in {"list", "watch"}:
        raise PhraseError(f"{verb} takes no subresource; leave out /{subresource}")


def _segment(text: str) -> str:
    if not text or text in {".", ".."} or "/" in text or "%" in text:
        raise PhraseError(f"expected the name of an object or namespace, not {text!r}")
    return quote(text, safe="", errors="surrogateescape")
