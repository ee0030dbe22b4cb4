"""Kinds of core/v1 that hold what programs are configured with.

Source: Kubernetes 1.36, `pkg/apis/core/validation`.
"""

from __future__ import annotations

from base64 import b64encode
from functools import partial
from typing import TYPE_CHECKING

from apfproxy.apiserver.core.structs import CORE
from apfproxy.apiserver.kind import Kind, Rules, Version, with_checks
from apfproxy.apiserver.metadata import IMMUTABLE_DETAIL
from apfproxy.apiserver.tables import AGE, NAME, Column
from apfproxy.objects.field_errors import forbidden, invalid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apfproxy.objects.field_errors import FieldError
    from apfproxy.objects.types import Object

NO_STATUS = Rules(reset_fields=())
IS_IMMUTABLE = "field is immutable when `immutable` is set"


def _changes_of_fixed(new: Object, old: Object, fields: Sequence[str]) -> list[FieldError]:
    if not old.get("immutable"):
        return []
    changed = [] if new.get("immutable") else ["immutable"]
    changed += [field for field in fields if new.get(field) != old.get(field)]
    return [forbidden(field, IS_IMMUTABLE) for field in changed]


def _changes_of_secret(new: Object, old: Object) -> list[FieldError]:
    errors = []
    if new["type"] != old["type"]:
        errors.append(invalid("type", new["type"], IMMUTABLE_DETAIL))
    return errors + _changes_of_fixed(new, old, ["data"])


def _complete_secret(obj: Object) -> None:
    """Give a Secret its type, and make what is sent as text part of its data."""
    if not obj.get("type"):
        obj["type"] = "Opaque"
    if texts := obj.pop("stringData", None):
        encoded = {key: b64encode(text.encode()).decode() for key, text in texts.items()}
        obj["data"] = {**(obj.get("data") or {}), **encoded}


def _entries_of(obj: Object, _now_s: float) -> int:
    return len(obj.get("data") or ()) + len(obj.get("binaryData") or ())


CONFIG_MAP = Kind(
    "",
    "ConfigMap",
    (Version("v1", CORE["ConfigMap"]),),
    with_checks(NO_STATUS, check_change=partial(_changes_of_fixed, fields=("data", "binaryData"))),
    columns=(NAME, Column("Data", _entries_of, "How many entries it has."), AGE),
    short_names=("cm",),
    has_status=False,
    storage_hash="qFsyl6wFWjQ=",
)

SECRET = Kind(
    "",
    "Secret",
    (Version("v1", CORE["Secret"], _complete_secret),),
    with_checks(NO_STATUS, check_change=_changes_of_secret),
    columns=(
        NAME,
        Column("Type", "type", "What the data is for."),
        Column("Data", _entries_of, "How many entries it has."),
        AGE,
    ),
    selectable_fields=("type",),
    has_status=False,
    storage_hash="S6u1pOWzb84=",
)

SERVICE_ACCOUNT = Kind(
    "",
    "ServiceAccount",
    (Version("v1", CORE["ServiceAccount"]),),
    with_checks(NO_STATUS),
    columns=(NAME, AGE),
    short_names=("sa",),
    has_status=False,
    answers_deleted=True,
    storage_hash="pbx9ZvyFpBE=",
)
