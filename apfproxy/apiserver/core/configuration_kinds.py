"""Kinds of core/v1 that hold what programs are configured with.

Source: Kubernetes 1.36, `api/core/v1/generated.proto`, `pkg/apis/core/validation`.
"""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING

from apfproxy.apiserver.core.structs import (
    BOOLEAN,
    OBJECT_REFERENCE,
    PACKAGE,
    STRING,
    keyed,
    struct,
)
from apfproxy.apiserver.kind import Column, Kind, Rules, Version
from apfproxy.apiserver.metadata import IMMUTABLE_DETAIL
from apfproxy.apiserver.plain import AGE, NAME, checks, named_cells, plain_struct
from apfproxy.apiserver.schema.types import Field, List, ListType, Map, Scalar, pointer
from apfproxy.objects.field_errors import forbidden, invalid

if TYPE_CHECKING:
    from apfproxy.objects.field_errors import FieldError
    from apfproxy.objects.types import Object

OPAQUE = "Opaque"
IS_IMMUTABLE = "field is immutable when `immutable` is set"
LOCAL_REFERENCE = struct(
    "LocalObjectReference",
    "Names an object of the same namespace.",
    Field("name", STRING, "Its name.", default="", number=1),
    is_atomic=True,
)


def changes_of_fixed(new: Object, old: Object, *fields: str) -> list[FieldError]:
    """What an update changes of an object that is not to change."""
    if not old.get("immutable"):
        return []
    changed = [] if new.get("immutable") else ["immutable"]
    changed += [field for field in fields if new.get(field) != old.get(field)]
    return [forbidden(field, IS_IMMUTABLE) for field in changed]


def changes_of_map(new: Object, old: Object) -> list[FieldError]:
    """What an update may not change of a ConfigMap."""
    return changes_of_fixed(new, old, "data", "binaryData")


def changes_of_secret(new: Object, old: Object) -> list[FieldError]:
    """What an update may not change of a Secret."""
    errors = []
    if new["type"] != old["type"]:
        errors.append(invalid("type", new["type"], IMMUTABLE_DETAIL))
    return errors + changes_of_fixed(new, old, "data")


def complete_secret(obj: Object) -> None:
    """Give a Secret its type, and make what is sent as text part of its data."""
    if not obj.get("type"):
        obj["type"] = OPAQUE
    if texts := obj.pop("stringData", None):
        encoded = {key: b64encode(text.encode()).decode() for key, text in texts.items()}
        obj["data"] = {**(obj.get("data") or {}), **encoded}


def entries_of(obj: Object) -> int:
    """How many entries a ConfigMap or a Secret has."""
    return len(obj.get("data") or ()) + len(obj.get("binaryData") or ())


VALIDATE_MAP, VALIDATE_MAP_UPDATE = checks(check_change=changes_of_map)
VALIDATE_SECRET, VALIDATE_SECRET_UPDATE = checks(check_change=changes_of_secret)
VALIDATE_ACCOUNT, VALIDATE_ACCOUNT_UPDATE = checks()

CONFIG_MAP = Kind(
    group="",
    name="ConfigMap",
    plural="configmaps",
    singular="configmap",
    is_namespaced=True,
    versions=(
        Version(
            "v1",
            plain_struct(
                "ConfigMap",
                PACKAGE,
                "Texts and bytes by which programs are configured.",
                pointer("immutable", BOOLEAN, "Whether the data can never change.", number=4),
                Field("data", Map(STRING), "Texts, by key.", number=2),
                Field("binaryData", Map(Scalar.BASE64), "Bytes in base64, by key.", number=3),
            ),
        ),
    ),
    rules=Rules(validate=VALIDATE_MAP, validate_update=VALIDATE_MAP_UPDATE, reset_fields=()),
    columns=(NAME, Column("Data", "string", "How many entries it has."), AGE),
    cells=named_cells(lambda obj: (entries_of(obj),)),
    short_names=("cm",),
    has_status=False,
    storage_hash="qFsyl6wFWjQ=",
)

SECRET = Kind(
    group="",
    name="Secret",
    plural="secrets",
    singular="secret",
    is_namespaced=True,
    versions=(
        Version(
            "v1",
            plain_struct(
                "Secret",
                PACKAGE,
                "Bytes that only some may see.",
                pointer("immutable", BOOLEAN, "Whether the data can never change.", number=5),
                Field("data", Map(Scalar.BASE64), "Bytes in base64, by key.", number=2),
                Field("stringData", Map(STRING), "Texts to add to the data.", number=4),
                Field("type", STRING, "What the data is for; Opaque unless given.", number=3),
            ),
            complete_secret,
        ),
    ),
    rules=Rules(validate=VALIDATE_SECRET, validate_update=VALIDATE_SECRET_UPDATE, reset_fields=()),
    columns=(
        NAME,
        Column("Type", "string", "What the data is for."),
        Column("Data", "string", "How many entries it has."),
        AGE,
    ),
    cells=named_cells(lambda obj: (obj.get("type", ""), entries_of(obj))),
    selectable=lambda obj: {"type": obj["type"]},
    selectable_fields=("type",),
    has_status=False,
    storage_hash="S6u1pOWzb84=",
)

SERVICE_ACCOUNT = Kind(
    group="",
    name="ServiceAccount",
    plural="serviceaccounts",
    singular="serviceaccount",
    is_namespaced=True,
    versions=(
        Version(
            "v1",
            plain_struct(
                "ServiceAccount",
                PACKAGE,
                "A user for the programs of pods.",
                Field("secrets", keyed(OBJECT_REFERENCE, "name"), "Its secrets.", number=2),
                Field(
                    "imagePullSecrets",
                    List(LOCAL_REFERENCE, ListType.ATOMIC),
                    "Secrets by which its images are pulled.",
                    number=3,
                ),
                pointer(
                    "automountServiceAccountToken",
                    BOOLEAN,
                    "Whether pods get a token of it.",
                    number=4,
                ),
            ),
        ),
    ),
    rules=Rules(
        validate=VALIDATE_ACCOUNT, validate_update=VALIDATE_ACCOUNT_UPDATE, reset_fields=()
    ),
    columns=(NAME, AGE),
    cells=named_cells(lambda _obj: ()),
    short_names=("sa",),
    has_status=False,
    answers_deleted=True,
    storage_hash="pbx9ZvyFpBE=",
)
