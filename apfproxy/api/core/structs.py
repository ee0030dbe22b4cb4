"""How the tables of core/v1 write their structs, and structs that several of them use."""

from __future__ import annotations

from apfproxy.api.schema.types import Field, List, ListType, Map, Scalar, Struct, Type, Union

PACKAGE = "io.k8s.api.core.v1"
"""As OpenAPI names it."""

BOOLEAN = Scalar.BOOLEAN
INT32 = Scalar.INT32
INT64 = Scalar.INT64
QUANTITY = Scalar.QUANTITY
STRING = Scalar.STRING

STRINGS = List(STRING)
STRING_MAP = Map(STRING)
RESOURCE_LIST = Map(QUANTITY)
"""Resource name to quantity."""


SIGNAL_NAMES = (
    "ABRT ALRM BUS CHLD CLD CONT FPE HUP ILL INT IO IOT KILL PIPE POLL PROF PWR QUIT RTMAX RTMIN"
    " SEGV STKFLT STOP SYS TERM TRAP TSTP TTIN TTOU URG USR1 USR2 VTALRM WINCH XCPU XFSZ"
)
SIGNALS = tuple(
    sorted(
        [f"SIG{name}" for name in SIGNAL_NAMES.split()]
        + [f"SIGRTMAX-{number}" for number in range(1, 15)]
        + [f"SIGRTMIN+{number}" for number in range(1, 16)]
    )
)
"""What may tell a container to end."""


def chosen(name: str, choices: tuple[str, ...], description: str, *, is_pointer: bool) -> Field:
    """A string that OpenAPI names the values of: an optional one, or one that is required."""
    return Field(
        name,
        STRING,
        description,
        is_pointer=is_pointer,
        is_always_written=not is_pointer,
        is_required=not is_pointer,
        enum=choices,
    )


def struct(
    name: str,
    description: str,
    *fields: Field,
    is_atomic: bool = False,
    union: Union | None = None,
) -> Struct:
    """A struct of core/v1."""
    return Struct(name, fields, PACKAGE, description, is_atomic, union)


def keyed(item: Struct, *keys: str, retains_keys: bool = False) -> List:
    """A list whose items are identified by fields; patches merge by the first of them."""
    return List(item, ListType.MAP, keys, keys[0], is_merged=True, retains_keys=retains_keys)


def time_field(name: str, description: str) -> Field:
    """A time that Go has no pointer for, and thus writes as null where it is not set."""
    return Field(name, Scalar.TIME, description, is_always_written=True)


def required_if_empty_absent(name: str, type_: Type, description: str = "") -> Field:
    """A field that OpenAPI requires, but that Go leaves out where it is empty."""
    return Field(name, type_, description, is_required=True)


REFERENT_NAME = Field("name", STRING, "Name of the object referred to.", default="")

LOCAL_OBJECT_REFERENCE = struct(
    "LocalObjectReference",
    "Names an object of the same namespace.",
    REFERENT_NAME,
    is_atomic=True,
)
