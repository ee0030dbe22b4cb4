"""Where the record of a fleet lives, as people write it.

```
redis://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE]    rediss:// for TLS, and so below
redis+unix:/PATH[?db=DATABASE]
redis+sentinel://[USER[:PASSWORD]@]HOST[:PORT],.../SERVICE[/DATABASE]
redis+cluster://[USER[:PASSWORD]@]HOST[:PORT],...
kubernetes:NAMESPACE/NAME
parent:link                                         what workers are told; nobody writes it
```

Passwords are in no message and no repr.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, field
from urllib.parse import SplitResult, unquote

from apfproxy.settings.values import (
    LABEL,
    Form,
    is_text,
    matching,
    parse_host,
    parse_socket_path,
    shown,
    split_url,
)

REDIS_PORT = 6379
SENTINEL_PORT = 26379
MAX_DATABASE = 65535
MAX_NODES = 64

SERVICE_NAME = re.compile(r"[A-Za-z0-9._-]{1,128}")
"""What Sentinel takes for the name of a server that it watches."""
CONFIG_MAP = re.compile(r"(?=.{1,253}$)[a-z0-9](?:[-.a-z0-9]*[a-z0-9])?")

A_STORE = (
    "the URL of a store: redis://HOST, rediss://HOST, redis+unix:/PATH,"
    " redis+sentinel://HOST,HOST/NAME, redis+cluster://HOST or kubernetes:NAMESPACE/NAME"
)


class Kind(enum.StrEnum):
    """What a store is, as the begin of its URL says."""

    REDIS = "redis"
    SOCKET = "redis+unix"
    SENTINEL = "redis+sentinel"
    CLUSTER = "redis+cluster"
    KUBERNETES = "kubernetes"
    PARENT = "parent"

    @property
    def is_redis(self) -> bool:
        """Whether it speaks Redis' protocol."""
        return self not in {Kind.KUBERNETES, Kind.PARENT}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreAddress:
    """Where a store is; what its kind does not have is empty.

    Attributes:
        nodes: Hosts, IPv6 without brackets, and ports; of Sentinels, where these are.
        path: Of a Unix socket.
        service: What Sentinels call the server.
        namespace, name: Of a ConfigMap.
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
    """Check the URL of a store, as settings and flags have it."""
    if store_address(text).kind is Kind.PARENT:
        raise ValueError(f"expected {A_STORE}, not {shown(text)}")
    return text


def store_address(text: str) -> StoreAddress:
    """Read where a store is; ValueError with what was expected."""
    scheme, _, rest = text.partition(":")
    if not is_text(text) or not rest:
        raise ValueError(f"expected {A_STORE}, not {shown(text)}")
    if scheme == Kind.KUBERNETES:
        return _config_map(rest)
    if scheme == Kind.PARENT:
        return StoreAddress(kind=Kind.PARENT)
    plain = scheme.replace("rediss", "redis", 1)
    if plain == Kind.SOCKET == scheme:
        return _socket(text)
    if plain not in {Kind.REDIS, Kind.SENTINEL, Kind.CLUSTER} or not rest.startswith("//"):
        raise ValueError(f"expected {A_STORE}, not {shown(text)}")
    return _redis(Kind(plain), text, is_tls=plain != scheme)


def _config_map(rest: str) -> StoreAddress:
    namespace, slash, name = rest.partition("/")
    if not slash or CONFIG_MAP.fullmatch(name) is None:
        raise ValueError(
            "expected kubernetes:NAMESPACE/NAME, of a ConfigMap, such as"
            f" kubernetes:apfproxy/fleet, not {shown(f'kubernetes:{rest}')}"
        )
    return StoreAddress(kind=Kind.KUBERNETES, namespace=LABEL.parse(namespace), name=name)


def _socket(text: str) -> StoreAddress:
    # The user may stand where a URL with a host has it.
    url = _split(text, Kind.SOCKET)
    key, _, number = url.query.partition("=")
    if url.query and key != "db":
        raise ValueError(f"expected redis+unix:/PATH?db=NUMBER, not {shown(text)}")
    if url.hostname:
        raise ValueError("expected redis+unix:/PATH, with the whole path and without a host")
    user, password = _user(url.netloc.rpartition("@")[0])
    return StoreAddress(
        kind=Kind.SOCKET,
        path=parse_socket_path(unquote(url.path)),
        database=_database(number) if url.query else 0,
        user=user,
        password=password,
    )


def _redis(kind: Kind, text: str, *, is_tls: bool) -> StoreAddress:
    scheme = "rediss" if is_tls else "redis"
    url = _split(text, kind)
    if url.query:
        raise ValueError(
            f"expected a URL without a query, not {shown(text)}?...; the section fleet has all else"
        )
    before, _, places = url.netloc.rpartition("@")
    user, password = _user(before)
    port = SENTINEL_PORT if kind is Kind.SENTINEL else REDIS_PORT
    nodes = tuple(_node(each, port) for each in places.split(","))
    if kind is Kind.REDIS and len(nodes) > 1:
        raise ValueError(
            f"expected one host; several are {scheme}+sentinel:// or {scheme}+cluster://"
        )
    if len(nodes) > MAX_NODES:
        raise ValueError(f"expected at most {MAX_NODES} hosts")
    parts = [unquote(each) for each in url.path.split("/") if each]
    service = parts.pop(0) if kind is Kind.SENTINEL and parts else ""
    if kind is Kind.SENTINEL and SERVICE_NAME.fullmatch(service) is None:
        raise ValueError(
            f"expected {scheme}+sentinel://HOST,HOST/NAME, with the name of the server that"
            f" the Sentinels watch, such as mymaster, not {shown(text)}"
        )
    if len(parts) > (kind is not Kind.CLUSTER):
        what = "a database: a cluster has only one" if kind is Kind.CLUSTER else "more of a path"
        raise ValueError(f"expected a URL without {what}")
    return StoreAddress(
        kind=kind,
        is_tls=is_tls,
        nodes=nodes,
        service=service,
        database=_database(parts[0]) if parts else 0,
        user=user,
        password=password,
    )


def _split(text: str, kind: Kind) -> SplitResult:
    """The parts of a URL; its port is not checked, as there may be several hosts."""
    try:
        url = split_url(text) if kind is Kind.SOCKET else SplitResult(*_parts(text))
    except ValueError:
        raise ValueError(f"expected {A_STORE}, not {shown(text)}") from None
    if url.fragment:
        raise ValueError(
            "expected a URL without #; a # in a password is %23, or rather fleet.passwordFile"
        )
    return url


def _parts(text: str) -> tuple[str, str, str, str, str]:
    # Not urlsplit, which takes a list of IPv6 addresses for a wrong one.
    scheme, _, rest = text.partition("://")
    rest, _, fragment = rest.partition("#")
    rest, _, query = rest.partition("?")
    netloc, slash, path = rest.partition("/")
    return scheme, netloc, slash + path, query, fragment


def _node(text: str, port: int) -> tuple[str, int]:
    host, colon, number = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, number = text, str(port)
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError("expected an IPv6 address in brackets, such as [::1]:6379")
    if re.fullmatch(r"[0-9]{1,5}", number) is None or not 0 < int(number) < 1 << 16:
        raise ValueError(f"expected a port from 1 to 65535, not {number!r}")
    return parse_host(host), int(number)


def _database(text: str) -> int:
    if re.fullmatch(r"[0-9]{1,5}", text) is None or int(text) > MAX_DATABASE:
        raise ValueError(f"expected the number of a database, such as 0, not {text!r}")
    return int(text)


def _user(text: str) -> tuple[str, str]:
    """User and password, as they stand in front of the host; empty ones without."""
    user, _, password = text.partition(":")
    return unquote(user), unquote(password)


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
