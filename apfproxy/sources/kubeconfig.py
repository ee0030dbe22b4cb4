"""How to reach a Kubernetes API: from a kubeconfig, or as the service account of the pod.

Paths in a kubeconfig are relative to its directory.  Contents (`...-data`) win over files, and a
token's file wins over a token, as in client-go.  A program that fetches credentials (`exec`) is run
without a terminal; `auth-provider`, which client-go has dropped, is refused.

Source: Kubernetes documentation, "Organizing Cluster Access Using kubeconfig Files" and "Accessing
the Kubernetes API from a Pod"; client-go's `tools/clientcmd`.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from apfproxy.base.errors import OperatorError
from apfproxy.base.files import MAX_PEM_BYTES, read_named
from apfproxy.objects.documents import split_documents
from apfproxy.objects.field_errors import one_line
from apfproxy.settings.values import is_text
from apfproxy.sources.exec_credential import API_VERSIONS, GROUP, ExecCommand

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_BYTES = 1 << 20
"""Of a kubeconfig; those with many clusters have tens of KiB."""

SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
HOST, PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"

IMPERSONATION = ("as", "as-uid", "as-groups", "as-user-extra")
"""Fields of a user that would make it another one."""


class KubeconfigError(OperatorError):
    """Access to the API that cannot be used; the operator's fault.  Quotes no secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pem:
    """Certificates or a key: in a file, which may change, or as data, which are in no repr."""

    path: str = ""
    data: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiAccess:
    """The address of an API and the client's credentials.

    Attributes:
        server: http or https URL, perhaps with a path, without a slash at its end.
        authorities: The server's CAs; the system's if None.
        server_name: In the server's certificate, if not that of the URL.
        is_unverified: Whether any server's certificate is accepted.
        token_file: The path of a token's file, which may change.
        username: For basic authentication; "" for none.
        program: Gives a token or a certificate instead.
    """

    server: str
    authorities: Pem | None = None
    server_name: str | None = None
    is_unverified: bool = False
    certificate: Pem | None = None
    key: Pem | None = None
    token: str | None = field(default=None, repr=False)
    token_file: str | None = None
    username: str = ""
    password: str = field(default="", repr=False)
    program: ExecCommand | None = None

    @property
    def paths(self) -> tuple[str, ...]:
        """The files that TLS is made of."""
        pems = (self.authorities, self.certificate, self.key)
        return tuple(pem.path for pem in pems if pem is not None and pem.path)


def in_cluster(
    environment: Mapping[str, str],
    directory: str = SERVICE_ACCOUNT,
    instead: str = "--kubeconfig FILE",
) -> ApiAccess:
    """How a pod reaches its cluster's API, with the service account in `directory`.

    KubeconfigError if this is no pod; `instead` says what names a kubeconfig.
    """
    host, port = environment.get(HOST, ""), environment.get(PORT, "")
    if not host or not port:
        raise KubeconfigError(
            f"not in a pod of Kubernetes ({HOST} is not set): say how to reach the API with"
            f" {instead}"
        )
    mount = Path(directory)
    try:
        has_token = (mount / "token").exists()
    except OSError as error:
        raise KubeconfigError(
            f"{mount / 'token'}: cannot be read: {error.strerror or error}"
        ) from error
    if not has_token:
        raise KubeconfigError(
            f"no token of a service account in {directory}: let the pod have one"
            f" (automountServiceAccountToken: true), or give {instead}"
        )
    shown = f"[{host}]" if ":" in host else host
    return ApiAccess(
        server=f"https://{shown}:{port}",
        authorities=Pem(path=str(mount / "ca.crt")),
        token_file=str(mount / "token"),
    )


def read_kubeconfig(path: str, context: str | None = None) -> ApiAccess:
    """How a context, by default the current one, reaches its API, or KubeconfigError."""
    return access(read_named(path, MAX_BYTES, KubeconfigError), path, context)


def access(data: bytes, path: str, context: str | None = None) -> ApiAccess:
    """How a context in the bytes of a kubeconfig reaches its API, or KubeconfigError."""
    documents, problem = split_documents(data)
    if problem is not None:
        # Without the error's text, which may have the line with it.
        place = f"{path}:{problem.line}" if problem.line else path
        raise KubeconfigError(f"{place}: is no YAML, or has a key twice")
    top = Fields(path, "", documents[0].content if documents else None)
    name = context or top.text("current-context")
    if not name:
        raise KubeconfigError(
            f"{path}: has no current-context: choose a context"
            f" ({one_line(', '.join(top.names('contexts'))) or 'it has none at all'})"
        )
    chosen = top.entry("contexts", name, "context", "choose another context")
    cluster_name, user_name = chosen.text("cluster"), chosen.text("user")
    if not cluster_name:
        raise chosen.error("cluster", "missing")
    cluster = top.entry("clusters", cluster_name, "cluster", "which the context names")
    if user_name:
        user = top.entry("users", user_name, "user", "which the context names")
    else:
        user = Fields(path, "users", {})
    return _access(cluster, user)


def _access(cluster: Fields, user: Fields) -> ApiAccess:
    if user.has("auth-provider"):
        raise user.error(
            "auth-provider",
            "is not done, by client-go neither any more; let the cluster's own tool write the"
            " kubeconfig anew, with exec, or give a token",
        )
    for name in IMPERSONATION:
        if user.has(name):
            problem = "impersonation is not done; use a context whose user has the rights"
            raise user.error(name, problem)
    if cluster.has("proxy-url"):
        problem = "not supported; use a cluster that can be reached without a proxy"
        raise cluster.error("proxy-url", problem)
    certificate, key = user.pem("client-certificate"), user.pem("client-key")
    if (certificate is None) != (key is None):
        missing = "client-key" if key is None else "client-certificate"
        raise user.error(missing, "missing: certificate and key go together")
    program = _program(user.part("exec"), cluster) if user.has("exec") else None
    if program is not None and certificate is not None:
        raise user.error("exec", "makes no sense with a client-certificate; remove one")
    is_unverified = cluster.truth("insecure-skip-tls-verify")
    authorities = cluster.pem("certificate-authority")
    if is_unverified and authorities is not None:
        problem = "makes no sense with a certificate-authority; remove one"
        raise cluster.error("insecure-skip-tls-verify", problem)
    return ApiAccess(
        server=cluster.server(),
        authorities=authorities,
        server_name=cluster.text("tls-server-name") or None,
        is_unverified=is_unverified,
        certificate=certificate,
        key=key,
        token=user.token(),
        token_file=user.path("tokenFile"),
        username=user.text("username"),
        password=user.text("password"),
        program=program,
    )


def _program(fields: Fields, cluster: Fields) -> ExecCommand:
    command, version = fields.text("command"), fields.text("apiVersion")
    if not command:
        raise fields.error("command", "missing")
    if version not in API_VERSIONS:
        raise fields.error("apiVersion", f"want {' or '.join(API_VERSIONS)}")
    if fields.text("interactiveMode") == "Always":
        problem = (
            "the program needs a terminal, and there is none; use a user who can be known without"
        )
        raise fields.error("interactiveMode", problem)
    return ExecCommand(
        # A name is looked for on the PATH, and a path begins at the kubeconfig.
        path=str(Path(fields.path("command") or "").absolute()) if "/" in command else command,
        arguments=fields.texts("args"),
        environment=fields.pairs("env"),
        api_version=version,
        hint=one_line(" ".join(fields.text("installHint").split())),
        cluster=_told(cluster) if fields.truth("provideClusterInfo") else None,
    )


def _told(cluster: Fields) -> dict[str, Any]:
    """`spec.cluster` of the ExecCredential that a program gets."""
    told: dict[str, Any] = {
        "server": cluster.server(),
        "tls-server-name": cluster.text("tls-server-name"),
        "insecure-skip-tls-verify": cluster.truth("insecure-skip-tls-verify"),
    }
    authorities = cluster.pem("certificate-authority")
    if authorities is not None:
        told["certificate-authority-data"] = base64.b64encode(content(authorities)).decode()
    config = cluster.extension(f"{GROUP}/exec")
    if config is not None:
        told["config"] = config
    return told


class Fields:
    """A mapping at the path `where` of a kubeconfig; its methods raise KubeconfigError."""

    def __init__(self, file: str, where: str, content: object) -> None:
        self._file = file
        self._where = where
        if not isinstance(content, dict):
            raise KubeconfigError(f"{file}{where and ': '}{where}: want a mapping of fields")
        self._content: dict[Any, Any] = content

    def error(self, name: str, problem: str) -> KubeconfigError:
        """The error that a field is, with its place."""
        where = f"{self._where}.{name}" if self._where else name
        return KubeconfigError(f"{self._file}: {where}: {problem}")

    def has(self, name: str) -> bool:
        """Whether a field has a value."""
        return self._content.get(name) not in (None, "", [], {})

    def text(self, name: str) -> str:
        """The text of a field; "" without one."""
        value = self._content.get(name)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.error(name, "want a string")
        return self._checked(name, value)

    def _checked(self, name: str, text: str) -> str:
        """The text, unless no file or program could be named by it."""
        if not is_text(text):
            raise self.error(name, "has a character that no text has")
        return text

    def texts(self, name: str) -> tuple[str, ...]:
        """The texts of a list."""
        values = self._list(name)
        if not all(isinstance(value, str) for value in values):
            raise self.error(name, "want a list of strings")
        return tuple(self._checked(name, value) for value in values)

    def pairs(self, name: str) -> tuple[tuple[str, str], ...]:
        """The names and values of a list of mappings of these."""
        parts = [
            Fields(self._file, f"{self._where}.{name}[{number}]", value)
            for number, value in enumerate(self._list(name))
        ]
        return tuple((part.text("name"), part.text("value")) for part in parts)

    def part(self, name: str) -> Fields:
        """The mapping in a field."""
        return Fields(self._file, f"{self._where}.{name}", self._content[name])

    def _list(self, name: str) -> list[Any]:
        values = self._content.get(name) or []
        if not isinstance(values, list):
            raise self.error(name, "want a list")
        return values

    def truth(self, name: str) -> bool:
        """The boolean of a field; False without one."""
        value = self._content.get(name)
        if value is not None and not isinstance(value, bool):
            raise self.error(name, "want true or false")
        return bool(value)

    def path(self, name: str) -> str | None:
        """The path in a field, relative to the kubeconfig's directory."""
        text = self.text(name)
        return str(Path(self._file).parent / text) if text else None

    def pem(self, name: str) -> Pem | None:
        """The data of a field `NAME-data`, or else the file of a field `NAME`."""
        encoded = self.text(f"{name}-data")
        if encoded:
            try:
                return Pem(data=base64.b64decode("".join(encoded.split()), validate=True))
            except (binascii.Error, ValueError):
                raise self.error(f"{name}-data", "is no base64") from None
        path = self.path(name)
        return None if path is None else Pem(path=path)

    def token(self) -> str | None:
        """The token in the field `token`."""
        text = self.text("token").strip()
        if text and not (text.isascii() and text.isprintable() and " " not in text):
            raise self.error("token", "is no bearer token")
        return text or None

    def server(self) -> str:
        """The URL in the field `server`."""
        url = self.text("server")
        if not url:
            raise self.error("server", "missing")
        problem = server_problem(url)
        if problem:
            raise self.error("server", problem)
        return urlsplit(url).geturl().rstrip("/")  # with the scheme in small letters

    def extension(self, wanted: str) -> object:
        """The content of an extension, which may be anything."""
        for each in self._list("extensions"):
            if isinstance(each, dict) and each.get("name") == wanted:
                return each.get("extension")
        return None

    def names(self, name: str) -> list[str]:
        """The names of the entries of a list."""
        return [
            each["name"]
            for each in self._list(name)
            if isinstance(each, dict) and isinstance(each.get("name"), str)
        ]

    def entry(self, name: str, wanted: str, field_name: str, hint: str) -> Fields:
        """The content of the first entry with a name in a list."""
        known = self.names(name)
        if wanted not in known:
            raise KubeconfigError(
                f"{self._file}: {name}: there is none named {wanted!r}, {hint};"
                f" there are: {one_line(', '.join(known)) or 'none'}"
            )
        number, found = next(
            (number, each)
            for number, each in enumerate(self._content[name])
            if isinstance(each, dict) and each.get("name") == wanted
        )
        where = f"{name}[{number}].{field_name}"
        return Fields(self._file, where, found.get(field_name) or {})


def content(pem: Pem) -> bytes:
    """The bytes of a PEM, or KubeconfigError."""
    return read_named(pem.path, MAX_PEM_BYTES, KubeconfigError) if pem.path else pem.data


def server_problem(url: str) -> str:
    """Why a URL cannot be an API's; "" if it can."""
    try:
        parts = urlsplit(url)
        host, _port = parts.hostname, parts.port
        (host or "").encode("idna")
    except ValueError:
        return "no URL"
    if not url.isprintable() or " " in url:
        return "no URL"
    if parts.scheme not in {"http", "https"} or not host:
        return "want https://HOST[:PORT] or http://HOST[:PORT]"
    if parts.username is not None or parts.password is not None:
        return "has a user or password, which would be shown in logs; they belong to the user"
    if parts.query or parts.fragment:
        return "has a query or fragment"
    return ""
