"""The parameters of requests: decoded and judged as Kubernetes does it.

The first value of a repeated parameter counts, except for `dryRun`; unknown parameters are ignored.
A value that cannot be decoded is refused with 400; one that is not allowed, alone or with another,
with 422.

Sources: apimachinery's `pkg/apis/meta/v1` (conversion), `pkg/apis/meta/v1/validation` and
`pkg/apis/meta/internalversion`; apiserver's `pkg/endpoints/handlers` and `pkg/storage`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from apfproxy.apiserver import errors, selectors
from apfproxy.apiserver.errors import bad_request, unknown_error
from apfproxy.apiserver.go_values import mismatch, not_registered, parse_uint64
from apfproxy.apiserver.metadata import LONGEST_MANAGER, validate_manager
from apfproxy.apiserver.outcomes import WARN, WriteOptions
from apfproxy.apiserver.registry import DeleteOptions
from apfproxy.apiserver.responses import META_GROUP
from apfproxy.apiserver.schema.reading import MismatchError, read
from apfproxy.apiserver.schema.shared_structs import DELETE_OPTIONS
from apfproxy.objects import field_errors
from apfproxy.objects.field_errors import FieldError, Reason, forbidden, invalid, not_supported
from apfproxy.objects.go_text import parse_int64
from apfproxy.objects.selectors import SelectorError
from apfproxy.request.attributes import first, parse_bool

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from apfproxy.apiserver.kind import Kind, Version
    from apfproxy.objects.types import Object

    Query = Mapping[str, tuple[str, ...]]

MATCH = "resourceVersionMatch"
EXACT = "Exact"
NOT_OLDER_THAN = "NotOlderThan"
ANY_VERSION = frozenset({"", "0"})

FIELD_VALIDATIONS = ("", "Ignore", "Strict", "Warn")
PROPAGATION_POLICIES = ("Foreground", "Background", "Orphan")
UNKNOWN_MANAGER = "unknown"
TRUTHS = frozenset({"1", "t", "T", "true", "TRUE", "True"})


@dataclass(frozen=True, slots=True)
class ListOptions:
    """The options of a LIST or WATCH.

    Attributes:
        limit: Objects of a page at most; 0 or less for no limit.
        resource_version: "", "0", or a number.
        resource_version_match: `Exact`, `NotOlderThan` or "".
        send_initial_events: Whether a WATCH begins with all objects; None for by version.
        timeout_s: Of a WATCH; 0 for the server's choice.
    """

    label_selector: selectors.LabelSelector | None = None
    field_selector: selectors.FieldSelector | None = None
    limit: int = 0
    continue_token: str = ""
    resource_version: str = ""
    resource_version_match: str = ""
    allow_watch_bookmarks: bool = False
    send_initial_events: bool | None = None
    timeout_s: int = 0


NO_LIST_OPTIONS = ListOptions()


def pretty(query: Query) -> bool | None:
    """Whether the response is to be laid out for people; None where nothing says so."""
    value = first(query, "pretty")
    return value in TRUTHS if value else None


def is_watch(query: Query) -> bool:
    return _boolean(query, "watch") or False


def asked_version(query: Query) -> int:
    """The resource version that a GET of one object asks for; 0 for any.

    StatusError if it asks for an export; or for no resource version: 500, as Kubernetes has it.
    """
    if _boolean(query, "export"):
        raise bad_request("the export parameter, deprecated since v1.14, is no longer supported")
    version = first(query, "resourceVersion") or "0"
    if wrong := _wrong_version(version):
        raise unknown_error(wrong)
    return int(version)


def list_options(query: Query, kind: Kind, version: Version, *, is_watch: bool) -> ListOptions:
    if not query and not is_watch:
        return NO_LIST_OPTIONS
    limit, timeout_s = _integer(query, "limit") or 0, _integer(query, "timeoutSeconds") or 0
    try:
        labels = selectors.parse_label_selector(first(query, "labelSelector"))
        fields = selectors.parse_field_selector(first(query, "fieldSelector"))
    except ValueError as error:
        raise bad_request(str(error)) from error
    since, match = first(query, "resourceVersion"), first(query, MATCH)
    initial = _boolean(query, "sendInitialEvents")
    token = first(query, "continue")
    if is_watch and initial is None and not match and since in ANY_VERSION:
        # Kubernetes' defaults, which make a WATCH that goes on from a token a bad one.
        initial, match = True, NOT_OLDER_THAN
    judge = _validate_watch if is_watch else _validate_list
    _refuse("ListOptions", judge(match, since, token, initial))
    # Events have Kubernetes' older, shorter text in either group.
    is_own = bool(kind.group) and kind.stored_as is None
    name = f"{kind.api_version(version.name)}, Kind={kind.name}" if is_own else ""
    try:
        known, is_namespaced = kind.selectable_fields, kind.is_namespaced
        selectors.check_fields(fields, known, is_namespaced=is_namespaced, kind=name)
    except SelectorError as error:
        raise bad_request(str(error)) from error
    # Beside a list's token the resource version is judged after the token.
    if (is_watch or not token) and (wrong := since and _wrong_version(since)):
        if is_watch:
            raise unknown_error(wrong)  # 500, as Kubernetes has it
        raise bad_request(f"invalid resource version: {wrong}")
    return ListOptions(
        None if labels.is_everything else labels,
        None if fields.is_everything else fields,
        limit,
        token,
        since,
        match,
        _boolean(query, "allowWatchBookmarks") or False,
        initial,
        timeout_s,
    )


def write_options(
    query: Query, user_agent: str, kind: str, *, is_apply: bool = False
) -> WriteOptions:
    """Decode the parameters of a write, which Kubernetes' messages call `kind`; or StatusError."""
    manager, validation = first(query, "fieldManager"), first(query, "fieldValidation")
    dry_run = query.get("dryRun", ())
    wrong: list[FieldError] = []
    if is_apply and not manager:
        wrong.append(field_errors.required("fieldManager", "is required for apply patch"))
    if kind == "PatchOptions" and not is_apply and "force" in query:
        wrong.append(forbidden("force", "may not be specified for non-apply patch"))
    wrong += [*validate_manager(manager), *_validate_dry_run(dry_run)]
    if validation not in FIELD_VALIDATIONS:
        wrong.append(not_supported("fieldValidation", validation, FIELD_VALIDATIONS))
    _refuse(kind, wrong)
    return WriteOptions(
        manager or manager_of(user_agent),
        bool(dry_run),
        field_validation=validation or WARN,
        force=_boolean(query, "force") or False,
    )


def _refuse(kind: str, wrong: Iterable[FieldError]) -> None:
    if found := list(wrong):
        raise errors.invalid(META_GROUP, kind, "", found)


def delete_options(query: Query, raw: object) -> DeleteOptions:
    """Decode how to delete: the parsed body, or the parameters if it is None; or StatusError."""
    options = _sent_delete_options(query) if raw is None else _read_delete_options(raw)
    policy, orphans = options.get("propagationPolicy"), options.get("orphanDependents")
    dry_run = options.get("dryRun") or ()
    wrong = []
    if policy is not None and orphans is not None:
        detail = "orphanDependents and deletionPropagation cannot be both set"
        wrong.append(invalid("propagationPolicy", policy, detail))
    if policy is not None and policy not in PROPAGATION_POLICIES:
        detail = 'supported values: "Foreground", "Background", "Orphan", "nil"'
        wrong.append(FieldError("propagationPolicy", Reason.NOT_SUPPORTED, detail, policy))
    _refuse("DeleteOptions", [*wrong, *_validate_dry_run(dry_run)])
    grace_period_s = options.get("gracePeriodSeconds")
    if grace_period_s is not None and grace_period_s < 0:
        grace_period_s = 1  # Kubernetes' reading
    if orphans is not None:
        policy = "Orphan" if orphans else "Background"
    preconditions = options.get("preconditions") or {}
    return DeleteOptions(
        is_dry_run=bool(dry_run),
        grace_period_s=grace_period_s,
        uid=preconditions.get("uid"),
        resource_version=preconditions.get("resourceVersion"),
        propagation=policy or "",
        is_cascading=orphans is False,
    )


@lru_cache(maxsize=256)
def manager_of(user_agent: str) -> str:
    """The field manager of a User-Agent: its first product, without the version."""
    shown = "".join(filter(str.isprintable, user_agent.partition("/")[0]))
    # A character that does not fit ends it, however short those behind are.
    name = shown.encode()[:LONGEST_MANAGER].decode(errors="ignore")
    return name or UNKNOWN_MANAGER


def _boolean(query: Query, key: str) -> bool | None:
    return parse_bool(query[key][0]) if query.get(key) else None


def _integer(query: Query, key: str) -> int | None:
    try:
        return parse_int64(query[key][0]) if query.get(key) else None
    except ValueError as error:
        raise bad_request(str(error)) from error


def _wrong_version(version: str) -> str:
    try:
        parse_uint64(version)
    except ValueError as error:
        return str(invalid("resourceVersion", version, str(error)))
    return ""


def _validate_list(
    match: str, version: str, token: str, initial: bool | None
) -> Iterator[FieldError]:
    if match and not version:
        yield _match_is_forbidden("unless resourceVersion is provided")
    if match and token:
        yield _match_is_forbidden("when continue is provided")
    if match not in {"", EXACT, NOT_OLDER_THAN}:
        detail = f'supported values: "{EXACT}", "{NOT_OLDER_THAN}", ""'
        yield FieldError(MATCH, Reason.NOT_SUPPORTED, detail, match)
    if match == EXACT and version == "0":
        yield forbidden(MATCH, f'{MATCH} "exact" is forbidden for resourceVersion "0"')
    if initial is not None:
        yield forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list")


def _validate_watch(
    match: str, _version: str, token: str, initial: bool | None
) -> Iterator[FieldError]:
    if initial is not None and match != NOT_OLDER_THAN:
        detail = f"sendInitialEvents requires setting resourceVersionMatch to {NOT_OLDER_THAN}"
        yield forbidden(MATCH, detail)
    if match and initial is None:
        yield _match_is_forbidden("for watch unless sendInitialEvents is provided")
    if match not in {"", NOT_OLDER_THAN}:
        yield not_supported(MATCH, match, (NOT_OLDER_THAN,))
    if match and token:
        yield _match_is_forbidden("when continue is provided")


def _match_is_forbidden(why: str) -> FieldError:
    return forbidden(MATCH, f"{MATCH} is forbidden {why}")


def _validate_dry_run(values: Sequence[str]) -> list[FieldError]:
    return [not_supported("dryRun", list(values), ("All",))] if set(values) - {"All"} else []


def _sent_delete_options(query: Query) -> Object:
    return {
        "gracePeriodSeconds": _integer(query, "gracePeriodSeconds"),
        "orphanDependents": _boolean(query, "orphanDependents"),
        "propagationPolicy": next(iter(query.get("propagationPolicy", ())), None),
        "dryRun": query.get("dryRun"),
        "preconditions": {"uid": first(query, "uid") or None},
    }


def _read_delete_options(raw: object) -> Object:
    if not isinstance(raw, dict):
        raise bad_request(f"couldn't get version/kind; json parse error: {mismatch(raw)}")
    try:
        options = read(DELETE_OPTIONS, raw).obj
    except MismatchError as error:
        raise bad_request(str(error)) from error
    kind = options.get("kind")
    if kind and kind != "DeleteOptions":
        place = "apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27"
        raise bad_request(not_registered(kind, options.get("apiVersion", ""), place))
    return options
