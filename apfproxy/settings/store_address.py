"""Where the record of a fleet lives, as people write it.

```
redis://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE]    rediss:// for TLS, and so below
redis+unix:/PATH[?db=DATABASE]
redis+sentinel://[USER[:PASSWORD]@]HOST[:PORT],.../SERVICE[/DATABASE]
redis+cluster://[USER[:PASSWORD]@]HOST[:PORT],...
kubernetes:NAMESPACE/NAME
parent:link                                         what workers are told; no one writes it
```

Passwords are in no message and no repr.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, field, replace
from urllib.parse import unquote

from apfproxy.settings.values import (
    LABEL,
    Form,
    is_text,
    matching,
    parse_address,
    parse_socket_path,
    shown,
    unlike,
)

MAX_DATABASE = 65535
MAX_NODES = 64

SERVICE_NAME = re.compile(r"[A-Za-z0-9._-]{1,128}")
CONFIG_MAP = re.compile(r"(?=.{1,253}$)[a-z0-9](?:[-.a-z0-9]*[a-z0-9])?")

A_STORE = (
    "the URL of a store: redis://HOST, rediss://HOST, redis+unix:/PATH,"
    " redis+sentinel://HOST,HOST/NAME, redis+cluster://HOST or kubernetes:NAMESPACE/NAME"
)


class Kind(enum.StrEnum):
    """The begin of a store's URL."""

    REDIS = "redis"
    SOCKET = "redis+unix"
    SENTINEL = "redis+sentinel"
    CLUSTER = "redis+cluster"
    KUBERNETES = "kubernetes"
    PARENT = "parent"

    @property
    def is_redis(self) -> bool:
        return self not in {Kind.KUBERNETES, Kind.PARENT}


NETWORKED = {Kind.REDIS: 6379, Kind.SENTINEL: 26379, Kind.CLUSTER: 6379}
PARTS = re.compile(
    r"(?:(?P<user>[^/?#]*)@)?(?P<places>[^/?#@]*)(?P<path>/[^?#]*)?(?:\?(?P<query>[^#]*))?"
)
"""Matches what is behind the scheme; urlsplit takes a list of IPv6 addresses for a wrong one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreAddress:
    """The parts of a store's address; those that its kind does not have are empty.

    `nodes` are hosts and ports, of Sentinels where `service` is their name for the server; `path`
    is of a Unix socket, `namespace` and `name` of a ConfigMap.
    """

    kind: Kind
    is_tls: bool = False
    nodes: tuple[tuple[str, int], ...] = ()
    path: str = ""
    service: str = ""
    database: int = 0
    user: str = ""
    password: str = field(default="", repr=False)
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        """As people write it, without user and password."""
        if self.kind is Kind.PARENT:
            return "the parent process"
        if self.kind is Kind.KUBERNETES:
            return f"{self.kind}:{self.namespace}/{self.name}"
        if self.kind is Kind.SOCKET:
            return f"{self.kind}:{self.path}" + (f"?db={self.database}" if self.database else "")
        scheme = self.kind.replace("redis", "rediss", 1) if self.is_tls else self.kind
        nodes = ",".join(
            f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.nodes
        )
        service = f"/{self.service}" if self.service else ""
        database = f"/{self.database}" if self.database else ""
        return f"{scheme}://{nodes}{service}{database}"


def parse_store(text: str) -> str:
    if store_address(text).kind is Kind.PARENT:
        raise _no_store(text)
    return text


def store_address(text: str) -> StoreAddress:
    """ValueError says what was expected."""
    scheme, _, rest = text.partition(":")
    plain = scheme.replace("rediss", "redis", 1)
    if not is_text(text) or not rest:
        raise _no_store(text)
    if scheme == Kind.PARENT:
        return StoreAddress(kind=Kind.PARENT)
    if scheme == Kind.KUBERNETES:
        namespace, _, name = rest.partition("/")
        if CONFIG_MAP.fullmatch(name) is None:
            raise ValueError(
                "expected kubernetes:NAMESPACE/NAME, of a ConfigMap, such as"
                f" kubernetes:apfproxy/fleet, not {shown(text)}"
            )
        return StoreAddress(kind=Kind.KUBERNETES, namespace=LABEL.parse(namespace), name=name)
    if scheme == Kind.SOCKET or (plain in NETWORKED and rest.startswith("//")):
        return _redis(Kind(plain), text, rest.removeprefix("//"), is_tls=plain != scheme)
    raise _no_store(text)


def _no_store(text: str) -> ValueError:
    return ValueError(f"expected {A_STORE}, not {shown(text)}")


def _redis(kind: Kind, text: str, rest: str, *, is_tls: bool) -> StoreAddress:
    found = PARTS.fullmatch(rest)
    if found is None or "@" in (found["path"] or ""):
        raise ValueError(
            "expected a URL without # and with one @ at most; in a password # is %23 and / is %2F,"
            " or rather have it in fleet.passwordFile"
        )
    user, _, password = (found["user"] or "").partition(":")
    address = StoreAddress(kind=kind, is_tls=is_tls, user=unquote(user), password=unquote(password))
    places, path, query = found["places"], found["path"] or "", found["query"]
    if kind is Kind.SOCKET:
        key, _, number = (query or "db=0").partition("=")
        if key != "db":
            raise ValueError(f"expected redis+unix:/PATH?db=NUMBER, not {shown(text)}")
        if places:
            raise ValueError("expected redis+unix:/PATH, with the whole path and without a host")
        path = parse_socket_path(unquote(path))
        return replace(address, path=path, database=_database(number))
    scheme, nodes = "rediss" if is_tls else "redis", places.split(",")
    if not places:
        raise _no_store(text)
    if query:
        raise ValueError(
            f"expected a URL without a query, not {shown(text)}?...; the section fleet has all else"
        )
    if kind is Kind.REDIS and len(nodes) > 1:
        raise ValueError(
            f"expected one host; several are {scheme}+sentinel:// or {scheme}+cluster://"
        )
    if len(nodes) > MAX_NODES:
        raise ValueError(f"expected at most {MAX_NODES} hosts")
    parts = [unquote(each) for each in path.split("/") if each]
    service = parts.pop(0) if kind is Kind.SENTINEL and parts else ""
    if kind is Kind.SENTINEL and SERVICE_NAME.fullmatch(service) is None:
        raise ValueError(
            f"expected {scheme}+sentinel://HOST,HOST/NAME, with the name of the server that"
            f" the Sentinels watch, such as mymaster, not {shown(text)}"
        )
    if len(parts) > (kind is not Kind.CLUSTER):
        what = "a database: a cluster has only one" if kind is Kind.CLUSTER else "more of a path"
        raise ValueError(f"expected a URL without {what}")
    return replace(
        address,
        nodes=tuple(_node(each, NETWORKED[kind]) for each in nodes),
        service=service,
        database=_database(parts[0]) if parts else 0,
    )


def _node(text: str, port: int) -> tuple[str, int]:
    has_port = ":" in text.rpartition("]")[2]
    address = parse_address(text if has_port else f"{text}:{port}")
    if not address.port:
        raise unlike("a port from 1 to 65535", "0")
    return address.host, address.port


def _database(text: str) -> int:
    if re.fullmatch(r"[0-9]{1,5}", text) is None or int(text) > MAX_DATABASE:
        raise unlike("the number of a database, such as 0", text)
    return int(text)


STORE = Form(parse_store, A_STORE, metavar="URL")
# Neither `/` nor `_`, which part it from the name of a cluster in keys.
FLEET = matching(
    r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,61}[A-Za-z0-9])?",
    "at most 63 letters, digits and between them . and -, such as apfproxy",
)
MEMBER = matching(
    r"[A-Za-z0-9](?:[A-Za-z0-9._:-]{0,198}[A-Za-z0-9])?",
    "at most 200 letters, digits and between them . _ : and -, such as proxy-1",
)
