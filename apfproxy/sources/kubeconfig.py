"""How to reach a Kubernetes API: from a kubeconfig, or as the service account of the pod.

Paths in a kubeconfig are relative to its directory.  Contents (`...-data`) win over files, and a
token's file wins over a token, as in client-go.  `auth-provider`, which client-go has dropped, is
refused.

Source: Kubernetes documentation, "Organizing Cluster Access Using kubeconfig Files" and "Accessing
the Kubernetes API from a Pod"; client-go's `tools/clientcmd`.
"""

from __future__ import annotations

import base64
import binascii
import logging
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from apfproxy.base.address import is_local
from apfproxy.base.errors import OperatorError
from apfproxy.base.files import read_named
from apfproxy.base.tls_files import Pem
from apfproxy.objects.documents import split_documents
from apfproxy.objects.field_errors import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_BYTES = 1 << 20  # kubeconfigs with many clusters have tens of KiB

SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
HOST, PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"

EXEC_GROUP = "client.authentication.k8s.io"
EXEC_VERSIONS = (f"{EXEC_GROUP}/v1", f"{EXEC_GROUP}/v1beta1")

# Fields of users and clusters that would be wrong to ignore.
REFUSED = {
    "auth-provider": "is not done, by client-go neither any more; let the cluster's own tool write"
    " the kubeconfig again, with exec, or give a token",
    **dict.fromkeys(
        ("as", "as-uid", "as-groups", "as-user-extra"),
        "impersonation is not done; use a context whose user has the rights",
    ),
    "proxy-url": "not supported; use a cluster that can be reached without a proxy",
}

T = TypeVar("T")
logger = logging.getLogger(__name__)


class Variable(msgspec.Struct, frozen=True):
    name: str
    value: str | None = None


class Program(msgspec.Struct, rename="camel", frozen=True):
    """The program of a user, `exec`; its arguments and variables may be secrets."""

    command: str | None = None
    api_version: str | None = None
    args: tuple[str, ...] | None = None
    env: tuple[Variable, ...] | None = None
    install_hint: str | None = None
    interactive_mode: str | None = None
    provide_cluster_info: bool | None = None

    def __repr__(self) -> str:
        return f"<Program {self.command}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiAccess:
    """The address of an API and the client's credentials.

    Attributes:
        server: http or https URL, perhaps with a path, without a slash at its end.
        authorities: The server's CAs; the system's if None.
        server_name: In the server's certificate, if not that of the URL.
        is_unverified: Whether any server's certificate is accepted.
        own: The client's certificate and its key.
        username: For basic authentication; "" for none.
        program: Gives a token or a certificate instead; `told` is `spec.cluster` of its input.
    """

    server: str
    authorities: Pem | None = None
    server_name: str | None = None
    is_unverified: bool = False
    own: tuple[Pem, Pem] | None = None
    token: str | None = field(default=None, repr=False)
    token_file: str | None = None
    username: str = ""
    password: str = field(default="", repr=False)
    program: Program | None = None
    told: dict[str, Any] | None = None

    @property
    def paths(self) -> tuple[str, ...]:
        """The files that TLS is made of."""
        return tuple(pem.path for pem in (self.authorities, *(self.own or ())) if pem and pem.path)


class User(msgspec.Struct, rename="kebab"):
    client_certificate: str | None = None
    client_certificate_data: str | None = None
    client_key: str | None = None
    client_key_data: str | None = None
    token: str | None = None
    token_file: str | None = msgspec.field(name="tokenFile", default=None)
    username: str | None = None
    password: str | None = None
    exec: Program | None = None


class Cluster(msgspec.Struct, rename="kebab"):
    server: str | None = None
    certificate_authority: str | None = None
    certificate_authority_data: str | None = None
    insecure_skip_tls_verify: bool | None = None
    tls_server_name: str | None = None
    extensions: list[Any] | None = None


class Context(msgspec.Struct):
    cluster: str | None = None
    user: str | None = None


class Entry(msgspec.Struct):
    """An entry of a list, which is decoded further if it is used."""

    name: str | None = None
    context: Any = None
    cluster: Any = None
    user: Any = None


class Config(msgspec.Struct, rename="kebab"):
    current_context: str | None = None
    contexts: list[Entry] | None = None
    clusters: list[Entry] | None = None
    users: list[Entry] | None = None


def access_of(kubeconfig: str | None, context: str | None, decided: str, setting: str) -> ApiAccess:
    """How to reach the API, by default as a pod; OperatorError if there is no way to it.

    `decided` is what its responses decide, `setting` what names a kubeconfig.
    """
    access = (
        in_cluster(os.environ, instead=setting)
        if kubeconfig is None
        else read_kubeconfig(kubeconfig, context)
    )
    parts = urlsplit(access.server)
    flaw = "insecure-skip-tls-verify" if access.is_unverified else ""
    if parts.scheme == "http" and not is_local(parts.hostname or ""):
        flaw = "not https"
    if flaw:
        text = "%s: %s: anyone on the way can read the credentials and decide %s"
        logger.warning(text, access.server, flaw, decided)
    return access


def in_cluster(
    environment: Mapping[str, str],
    directory: str = SERVICE_ACCOUNT,
    instead: str = "--kubeconfig FILE",
) -> ApiAccess:
    """How a pod reaches its cluster's API, with the service account in `directory`.

    OperatorError if this is no pod; `instead` says what names a kubeconfig.
    """
    host, port = environment.get(HOST, ""), environment.get(PORT, "")
    if not host or not port:
        raise OperatorError(
            f"not in a pod of Kubernetes ({HOST} is not set): say how to reach the API with"
            f" {instead}"
        )
    token = Path(directory) / "token"
    try:
        has_token = token.exists()
    except OSError as error:
        raise OperatorError(f"{token}: cannot be read: {error.strerror or error}") from error
    if not has_token:
        raise OperatorError(
            f"no token of a service account in {directory}: let the pod have one"
            f" (automountServiceAccountToken: true), or give {instead}"
        )
    shown = f"[{host}]" if ":" in host else host
    return ApiAccess(
        server=f"https://{shown}:{port}",
        authorities=Pem(path=str(Path(directory) / "ca.crt")),
        token_file=str(token),
    )


def read_kubeconfig(path: str, context: str | None = None) -> ApiAccess:
    """How a context, by default the current one, reaches its API, or OperatorError."""
    documents, problem = split_documents(read_named(path, MAX_BYTES, OperatorError))
    if problem is not None:
        # Without the error's text, which may have the line with it.
        place = f"{path}:{problem.line}" if problem.line else path
        raise OperatorError(f"{place}: is no YAML, or has a key twice")
    file = Kubeconfig(path, documents[0].content if documents else None)
    return file.access(context or file.config.current_context)


class Kubeconfig:
    """The content of a kubeconfig; its methods raise OperatorError."""

    def __init__(self, path: str, content: object) -> None:
        self._path = path
        self.config = self._converted("", content, Config)

    def _error(self, where: str, problem: str) -> OperatorError:
        return OperatorError(f"{self._path}: {where}{where and ': '}{problem}")

    def _converted(self, where: str, content: object, kind: type[T]) -> T:
        try:
            found = msgspec.convert(content, kind)
            if where and b"\\u0000" in msgspec.json.encode(found):
                raise self._error(where, "has a character that no text has")
        except msgspec.ValidationError as error:
            text, _, at = str(error).partition(" - at `$")
            raise self._error(f"{where}{at.rstrip('`')}".lstrip("."), text) from None
        return found

    def _entry(self, name: str, wanted: str, hint: str, kind: type[T]) -> tuple[str, T]:
        """The place and the content of the first entry of a name in a list: `contexts`, ..."""
        entries: list[Entry] = getattr(self.config, f"{name}s") or []
        for number, entry in enumerate(entries):
            if wanted and entry.name == wanted:
                where, content = f"{name}s[{number}].{name}", getattr(entry, name) or {}
                for refused, problem in REFUSED.items():
                    if isinstance(content, dict) and content.get(refused):
                        raise self._error(f"{where}.{refused}", problem)
                return where, self._converted(where, content, kind)
        names = one_line(", ".join(each.name for each in entries if each.name))
        if not wanted:
            raise self._error(
                "", f"has no current-context: choose a context ({names or 'it has none at all'})"
            )
        raise self._error(
            f"{name}s", f"there is none named {wanted!r}, {hint}; there are: {names or 'none'}"
        )

    def access(self, context: str | None) -> ApiAccess:
        place, chosen = self._entry("context", context or "", "choose another context", Context)
        if not chosen.cluster:
            raise self._error(f"{place}.cluster", "missing")
        by_context = "which the context names"
        at, cluster = self._entry("cluster", chosen.cluster, by_context, Cluster)
        where, user = "users", User()
        if chosen.user:
            where, user = self._entry("user", chosen.user, by_context, User)
        certificate = self._pem(where, "client-certificate", user)
        key = self._pem(where, "client-key", user)
        if (certificate is None) != (key is None):
            missing = "client-key" if key is None else "client-certificate"
            raise self._error(f"{where}.{missing}", "missing: certificate and key go together")
        authorities = self._pem(at, "certificate-authority", cluster)
        is_unverified = bool(cluster.insecure_skip_tls_verify)
        if is_unverified and authorities is not None:
            problem = "makes no sense with a certificate-authority; remove one"
            raise self._error(f"{at}.insecure-skip-tls-verify", problem)
        if certificate is not None and user.exec is not None:
            problem = "makes no sense with a client-certificate; remove one"
            raise self._error(f"{where}.exec", problem)
        token = (user.token or "").strip()
        if token and not (token.isascii() and token.isprintable() and " " not in token):
            raise self._error(f"{where}.token", "is no bearer token")
        url = cluster.server or ""
        if problem := server_problem(url):
            raise self._error(f"{at}.server", problem)
        server = urlsplit(url).geturl().rstrip("/")  # with the scheme in small letters
        program, told = None, None
        if user.exec is not None:
            program = self._program(f"{where}.exec", user.exec)
            if program.provide_cluster_info:
                told = _told(server, cluster, authorities)
        return ApiAccess(
            server=server,
            authorities=authorities,
            server_name=cluster.tls_server_name or None,
            is_unverified=is_unverified,
            own=None if certificate is None or key is None else (certificate, key),
            token=token or None,
            token_file=self._beside(user.token_file) if user.token_file else None,
            username=user.username or "",
            password=user.password or "",
            program=program,
            told=told,
        )

    def _program(self, where: str, given: Program) -> Program:
        if not given.command:
            raise self._error(f"{where}.command", "missing")
        if given.api_version not in EXEC_VERSIONS:
            raise self._error(f"{where}.apiVersion", f"want {' or '.join(EXEC_VERSIONS)}")
        if given.interactive_mode == "Always":
            raise self._error(
                f"{where}.interactiveMode",
                "the program needs a terminal, and there is none; use a user who can be known"
                " without",
            )
        if "/" not in given.command:  # a name is looked for on the PATH
            return given
        path = str(Path(self._beside(given.command)).absolute())
        return msgspec.structs.replace(given, command=path)

    def _beside(self, path: str) -> str:
        return str(Path(self._path).parent / path)

    def _pem(self, where: str, name: str, fields: User | Cluster) -> Pem | None:
        """The data of a field `NAME-data`, or else the file of a field `NAME`."""
        attribute = name.replace("-", "_")
        encoded: str | None = getattr(fields, f"{attribute}_data")
        if encoded:
            try:
                return Pem(data=base64.b64decode("".join(encoded.split()), validate=True))
            except (binascii.Error, ValueError):
                raise self._error(f"{where}.{name}-data", "is no base64") from None
        path: str | None = getattr(fields, attribute)
        return Pem(path=self._beside(path)) if path else None


def _told(server: str, cluster: Cluster, authorities: Pem | None) -> dict[str, Any]:
    """`spec.cluster` of the ExecCredential that a program gets; OperatorError."""
    told: dict[str, Any] = {
        "server": server,
        "tls-server-name": cluster.tls_server_name or "",
        "insecure-skip-tls-verify": bool(cluster.insecure_skip_tls_verify),
    }
    if authorities is not None:
        told["certificate-authority-data"] = base64.b64encode(authorities.content()).decode()
    for each in cluster.extensions or ():
        if isinstance(each, dict) and each.get("name") == f"{EXEC_GROUP}/exec":
            config = each.get("extension")
            return told if config is None else told | {"config": config}
    return told


def server_problem(url: str) -> str:
    """Why a URL cannot be an API's; "" if it can."""
    try:
        parts = urlsplit(url)
        host, _port = parts.hostname or "", parts.port
        host.encode("idna")
    except ValueError:
        return "no URL"
    flaws = {
        "missing": not url,
        "no URL": not url.isprintable() or " " in url,
        "want https://HOST[:PORT] or http://HOST[:PORT]": parts.scheme not in {"http", "https"}
        or not host,
        "has a user or password, which would be shown in logs; they belong to the user": "@"
        in parts.netloc,
        "has a query or fragment": bool(parts.query or parts.fragment),
    }
    return next((problem for problem, is_so in flaws.items() if is_so), "")
