"""Reviews: who sends a request, and what a user may do; created only, and never stored.

The server authenticates no one and allows everything, so a user is who the request says: by the
fields of a front proxy, and before those by the fields of impersonation.

Source: Kubernetes 1.36, `api/{authentication,authorization}/v1/generated.proto`,
`pkg/registry/{authentication,authorization}`, `pkg/apis/authorization/validation`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apfproxy.apiserver.errors import bad_request
from apfproxy.apiserver.kind import Kind, Rules, Version, all_right
from apfproxy.apiserver.schema.shared_structs import META, SHARED
from apfproxy.apiserver.schema.types import structs
from apfproxy.apiserver.selectors import (
    OBJECT_OPERATORS,
    parse_field_selector,
    parse_label_selector,
    validate_expression,
)
from apfproxy.authn.impersonation import effective
from apfproxy.http import credential_fields
from apfproxy.objects.field_errors import FieldError, invalid, required
from apfproxy.objects.selectors import SelectorError
from apfproxy.request.attributes import ANONYMOUS, User, authenticated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from aiohttp import web

    from apfproxy.apiserver.kind import Check, Review
    from apfproxy.apiserver.schema.types import Struct
    from apfproxy.objects.types import Object

FRONT_PROXY = credential_fields.CredentialRules(
    *(("X-Remote-User",), ("X-Remote-Uid",), ("X-Remote-Group",), ("X-Remote-Extra-",)),
    key_header="",
    reads_basic=False,
    unverified=credential_fields.UnverifiedRules(),
)

AUTHENTICATION = structs(
    "io.k8s.api.authentication.v1",
    """
SelfSubjectReview +object: Asks who sends the request.
  2 status    SelfSubjectReviewStatus  Who sends the request.
SelfSubjectReviewStatus: Who sends a request.
  1 userInfo  UserInfo  The user, impersonated or not.
TokenReview +object: Asks whose token it is.
  2 spec      TokenReviewSpec +required  The token.
  3 status    TokenReviewStatus          Whose it is.
TokenReviewSpec: A token.
  1 token      string    The bearer token.
  2 audiences  []string  Servers that the token is to be for.
TokenReviewStatus: Whose token it is.
  1 authenticated  bool      Whether a user is known by it.
  2 user           UserInfo  Who that is.
  4 audiences      []string  Servers of the request that the token is for.
  3 error          string    Why the token could not be checked.
UserInfo: A user.
  1 username  string    The name, unique among all users.
  2 uid       string    Tells users of one name apart over time.
  3 groups    []string  Groups that the user is in.
  4 extra     map[string][]string +go=map[string]ExtraValue  Whatever else is known of the user.
""",
    SHARED,
)

REQUIREMENT = structs(
    META,
    """
FieldSelectorRequirement: A condition on one field.
  1 key       string +required  Path of the field.
  2 operator  string +required  In, NotIn, Exists or DoesNotExist.
  3 values    []string          What In and NotIn compare with; empty for the others.
""",
)

AUTHORIZATION = structs(
    "io.k8s.api.authorization.v1",
    """
SelfSubjectAccessReview +object: Asks whether the sender of the request may do something.
  2 spec      SelfSubjectAccessReviewSpec +required  The action.
  3 status    SubjectAccessReviewStatus  Whether it is allowed.
SelfSubjectAccessReviewSpec: An action, on a resource or on a path.
  1 resourceAttributes     *ResourceAttributes     An action on a resource.
  2 nonResourceAttributes  *NonResourceAttributes  An action on a path.
SubjectAccessReview +object: Asks whether a user may do something.
  2 spec      SubjectAccessReviewSpec +required  User and action.
  3 status    SubjectAccessReviewStatus  Whether it is allowed.
LocalSubjectAccessReview +object: Asks whether a user may do something in a namespace.
  2 spec      SubjectAccessReviewSpec +required  User and action.
  3 status    SubjectAccessReviewStatus  Whether it is allowed.
SubjectAccessReviewSpec: A user and an action, on a resource or on a path.
  1 resourceAttributes     *ResourceAttributes     An action on a resource.
  2 nonResourceAttributes  *NonResourceAttributes  An action on a path.
  3 user    string    Name of the user.
  4 groups  []string  Groups of the user.
  5 extra   map[string][]string +go=map[string]ExtraValue  Whatever else is known of the user.
  6 uid     string    Tells users of one name apart over time.
SubjectAccessReviewStatus: Whether an action is allowed.
  1 allowed          bool +required  Whether it is allowed.
  4 denied           bool            Whether it is denied, and no other rule can allow it.
  2 reason           string          Why.
  3 evaluationError  string          What went wrong, if anything.
ResourceAttributes: An action on a resource.
  1 namespace      string  Of the resource; empty for none, or for all.
  2 verb           string  What is done, or * for anything.
  3 group          string  API group, or * for all.
  4 version        string  API version, or * for all.
  5 resource       string  Plural of the resource, or * for all.
  6 subresource    string  Subresource, empty for none.
  7 name           string  Name of the object, empty for all.
  8 fieldSelector  *FieldSelectorAttributes  Objects by their fields.
  9 labelSelector  *LabelSelectorAttributes  Objects by their labels.
NonResourceAttributes: An action on a path.
  1 path  string  Path of the URL.
  2 verb  string  HTTP method in lower case.
FieldSelectorAttributes: Objects by their fields, in one of two forms.
  1 rawSelector   string  As a parameter of a query.
  2 requirements  []FieldSelectorRequirement  All have to hold.
LabelSelectorAttributes: Objects by their labels, in one of two forms.
  1 rawSelector   string                      As a parameter of a query.
  2 requirements  []LabelSelectorRequirement  All have to hold.
SelfSubjectRulesReview +object: Asks what the sender of the request may do in a namespace.
  2 spec      SelfSubjectRulesReviewSpec +required  The namespace.
  3 status    SubjectRulesReviewStatus  Everything that is allowed.
SelfSubjectRulesReviewSpec: A namespace.
  1 namespace  string  Name of the namespace, which is required.
SubjectRulesReviewStatus: Everything that a user may do.
  1 resourceRules     []ResourceRule +required     Actions on resources.
  2 nonResourceRules  []NonResourceRule +required  Actions on paths.
  3 incomplete        bool +required               Whether there may be more.
  4 evaluationError   string                       What went wrong, if anything.
ResourceRule: Actions on resources.
  1 verbs          []string +required  What may be done, * for anything.
  2 apiGroups      []string            API groups, * for all.
  3 resources      []string            Resources, * for all.
  4 resourceNames  []string            Names of objects; empty for all.
NonResourceRule: Actions on paths.
  1 verbs            []string +required  HTTP methods in lower case, * for all.
  2 nonResourceURLs  []string            Paths, * for all.
""",
    SHARED,
    REQUIREMENT,
)


SELECTORS: dict[str, tuple[Callable[[str], object], Callable[[Object], bool]]] = {
    "fieldSelector": (
        parse_field_selector,
        lambda each: each["operator"] in {"In", "NotIn"} and len(each["values"]) == 1,
    ),
    "labelSelector": (parse_label_selector, lambda each: each["operator"] in OBJECT_OPERATORS),
}
"""Holds what parses a selector's text, and whether one of its requirements means something."""


def user_of(request: web.Request) -> User:
    """The user that a request names; StatusError 400 if its fields contradict each other."""
    fields = [(name.lower(), value) for name, value in request.raw_headers]
    claims = [field for field in fields if FRONT_PROXY.is_claim(field[0])]
    impersonations = [each for each in fields if credential_fields.is_impersonation(each[0])]
    try:
        found = credential_fields.read_credentials(FRONT_PROXY, claims, [], impersonations)
    except credential_fields.CredentialsError as error:
        raise bad_request(str(error)) from error
    if found.impersonated is not None:
        return effective(found.impersonated)
    return ANONYMOUS if found.claimed is None else authenticated(found.claimed)


def _who(_obj: Object, user: User, now: str) -> Object:
    info: Object = {"username": user.name, "uid": user.uid, "groups": list(user.groups)}
    info["extra"] = {key: list(values) for key, values in user.extra}
    return {"metadata": {"creationTimestamp": now}, "status": {"userInfo": info}}


def _whose_token(obj: Object, _user: User, _now: str) -> Object:
    if not obj["spec"].get("token"):
        raise bad_request("token is required for TokenReview in authentication")
    return {**obj, "status": {"error": "invalid bearer token"}}


def _is_allowed(obj: Object, _user: User, _now: str) -> Object:
    error = "; ".join(_ignored(obj["spec"].get("resourceAttributes") or {}))
    return {**obj, "status": {"allowed": True, "evaluationError": error}}


def _ignored(attributes: Object) -> Iterator[str]:
    """Name the selectors that mean nothing in whole or in part, which is no error."""
    for name, (parse, is_known) in SELECTORS.items():
        selector = attributes.get(name) or {}
        requirements = selector.get("requirements") or ()
        known = sum(map(is_known, requirements))
        try:
            parse(selector.get("rawSelector", ""))
            is_ignored = known < len(requirements)
        except SelectorError:
            is_ignored = True
        if is_ignored:
            partly = "partially " if known else ""
            yield f"spec.resourceAttributes.{name} {partly}ignored due to parse error"


def _what_is_allowed(obj: Object, _user: User, _now: str) -> Object:
    if not obj["spec"].get("namespace"):
        raise bad_request("no namespace on request")
    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
    everywhere = {"verbs": ["*"], "nonResourceURLs": ["*"]}
    return {"status": {"resourceRules": [everything], "nonResourceRules": [everywhere]}}


def _check_selector(attributes: Object, name: str) -> list[FieldError]:
    path = f"spec.resourceAttributes.{name}"
    if (selector := attributes.get(name)) is None:
        return []
    raw, requirements = selector.get("rawSelector", ""), selector.get("requirements") or ()
    errors = []
    if raw and requirements:
        detail = "may not specified at the same time as requirements"
        errors.append(invalid(f"{path}.rawSelector", raw, detail))
    if not raw and not requirements:
        detail = f"when {path} is specified, requirements or rawSelector is required"
        errors.append(required(f"{path}.requirements", detail))
    for index, requirement in enumerate(requirements):
        at = f"{path}.requirements[{index}]"
        wrong = validate_expression(requirement, at)
        if name == "fieldSelector":
            if not requirement["key"]:
                errors.append(required(f"{at}.key", "must be specified"))
            wrong = [error for error in wrong if error.field == f"{at}.values"]
        # Kubernetes to come may know more operators.
        errors += [error for error in wrong if error.field != f"{at}.operator"]
    return errors


def _check_access(obj: Object) -> list[FieldError]:
    spec, metadata, errors = obj["spec"], {**obj["metadata"]}, []
    is_self, is_local = obj["kind"].startswith("Self"), obj["kind"].startswith("Local")
    attributes, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if path is not None:
        path = {"Path": path.get("path", ""), "Verb": path.get("verb", "")}  # as Go has them
    if attributes is not None and path is not None:
        detail = "cannot be specified in combination with resourceAttributes"
        errors.append(invalid("spec.nonResourceAttributes", path, detail))
    if attributes is None and path is None:
        detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        errors.append(invalid("spec.resourceAttributes", None, detail))
    if not is_self and not spec.get("user") and not spec.get("groups"):
        errors.append(invalid("spec.user", "", "at least one of user or group must be specified"))
    for name in SELECTORS:
        errors += _check_selector(attributes or {}, name)
    namespace = metadata.pop("namespace", "") if is_local else ""
    metadata.pop("managedFields", None)
    if metadata:
        detail = "must be empty except for namespace" if is_local else "must be empty"
        errors.append(invalid("metadata", obj["metadata"], detail))
    own = (attributes or {}).get("namespace", "")
    if is_local and attributes is not None and own != namespace:
        wrong = invalid("spec.resourceAttributes.namespace", own, "must match metadata.namespace")
        errors.append(wrong)
    if is_local and path is not None:
        detail = "disallowed on this kind of request"
        errors.append(invalid("spec.nonResourceAttributes", path, detail))
    return errors


def _kind(group: dict[str, Struct], name: str, review: Review, check: Check = all_right) -> Kind:
    rules = Rules(validate=check, reset_fields=())  # a client owns the status that it sends
    versions, is_local = (Version("v1", group[name]),), name.startswith("Local")
    group_name = f"{group[name].package.split('.')[-2]}.k8s.io"
    return Kind(group_name, name, versions, rules, is_namespaced=is_local, review=review)


REVIEWS = (
    _kind(AUTHENTICATION, "SelfSubjectReview", _who),
    _kind(AUTHENTICATION, "TokenReview", _whose_token),
    _kind(AUTHORIZATION, "LocalSubjectAccessReview", _is_allowed, _check_access),
    _kind(AUTHORIZATION, "SelfSubjectAccessReview", _is_allowed, _check_access),
    _kind(AUTHORIZATION, "SelfSubjectRulesReview", _what_is_allowed),
    _kind(AUTHORIZATION, "SubjectAccessReview", _is_allowed, _check_access),
)
