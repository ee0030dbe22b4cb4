"""The mix `cluster`: what the clients of a Kubernetes cluster send, a connection for each client.

There are 2 000 users, half of them nodes, and 20 000 paths.  A connection belongs to one user,
drawn by Zipf's law: the k-th is k times as rare as the first.  Each request has a path drawn again,
which gives its method.  Heads are those of client-go in Go's order of fields, with a bearer token
of 900 bytes; responses are those of `contenders.py`, 1 to 20 KB.  Over HTTP/2 a connection still
belongs to one user, which has several requests in flight on it.

All of it is drawn from seeds, so that a run can be repeated.
"""

from __future__ import annotations

import base64
import random
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

USERS = 2_000
PATHS = 20_000
NAMESPACES = 100
CONNECTIONS = 256
TOKEN_CHARACTERS = 900
TOKENS_SEED = 14

AGENTS = (
    "kube-controller-manager/v1.36.0 (linux/amd64) kubernetes/24a394e/leader-election",
    "kube-scheduler/v1.36.0 (linux/amd64) kubernetes/24a394e/scheduler",
    "coredns/v0.0.0 (linux/amd64) kubernetes/$Format",
    "argocd-application-controller/v0.0.0 (linux/amd64) kubernetes/$Format",
    "cert-manager-controller/v1.19.1 (linux/amd64) cert-manager/38e33f8",
    "cluster-autoscaler/v1.36.0 (linux/amd64) kubernetes/24a394e",
)
MACHINES_ACCEPT = "application/vnd.kubernetes.protobuf,application/json"
PEOPLES_ACCEPT = "application/json"
TABLES_ACCEPT = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"

TEAM = "/namespaces/team-{namespace}"
GETS = (
    "/api/v1" + TEAM + "/pods/web-{number}",
    "/api/v1" + TEAM + "/configmaps/settings-{number}",
    "/api/v1" + TEAM + "/secrets/key-{number}",
    "/api/v1" + TEAM + "/serviceaccounts/worker-{number}",
    "/api/v1/nodes/node-{number}?resourceVersion=0&timeout=10s",
    "/apis/apps/v1" + TEAM + "/replicasets/web-{number}",
    "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node-{number}?timeout=10s",
    "/apis/coordination.k8s.io/v1" + TEAM + "/leases/leader-{number}",
    "/apis/discovery.k8s.io/v1" + TEAM + "/endpointslices/web-{number}",
    "/apis/cert-manager.io/v1" + TEAM + "/certificates/web-{number}",
)
LISTS = (
    "/api/v1" + TEAM + "/pods?labelSelector=app%3Dweb-{number}&limit=500&resourceVersion=0",
    "/api/v1/pods?fieldSelector=spec.nodeName%3Dnode-{number}&limit=500&resourceVersion=0",
    "/apis/apps/v1" + TEAM + "/replicasets?labelSelector=app%3Dweb-{number}",
)
PUTS = (
    "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node-{number}?timeout=10s",
    "/apis/coordination.k8s.io/v1" + TEAM + "/leases/leader-{number}",
    "/apis/apps/v1" + TEAM + "/deployments/web-{number}/status",
    "/api/v1" + TEAM + "/configmaps/settings-{number}",
)
PATCHES = (
    "/api/v1" + TEAM + "/pods/web-{number}/status",
    "/api/v1/nodes/node-{number}/status?timeout=10s",
    "/api/v1" + TEAM + "/events/web-{number}.18a2b3c4d5e6f708",
)
TEMPLATES = (
    *((b"GET", path) for path in (*GETS, *LISTS)),
    *((b"PUT", path) for path in PUTS),
    *((b"PATCH", path) for path in PATCHES),
)
"""Method and path of each twentieth of the paths: half read an object, 15 % list, 35 % write."""

BODY_TYPES = {
    b"PUT": b"application/vnd.kubernetes.protobuf",
    b"PATCH": b"application/strategic-merge-patch+json",
}
BODY_BYTES = range(200, 4001)


class User(NamedTuple):
    name: str
    groups: tuple[str, ...]
    token: str
    agent: str
    accept: str


class Request(NamedTuple):
    line: bytes
    """Method and target."""

    body_bytes: int
    """0 for methods without a body."""


class Heads:
    """The heads of a user, in the order in which Go writes fields: its own, then client-go's."""

    def __init__(self, user: User) -> None:
        self._start = (
            f" HTTP/1.1\r\nHost: kubernetes.default.svc\r\nUser-Agent: {user.agent}\r\n".encode()
        )
        self._middle = f"Accept: {user.accept}\r\nAuthorization: Bearer {user.token}\r\n".encode()
        self._end = b"Accept-Encoding: gzip\r\n\r\n"
        self._plain = self._start + self._middle + self._end

    def of(self, request: Request) -> bytes:
        if not request.body_bytes:
            return request.line + self._plain
        return b"%s%sContent-Length: %d\r\n%sContent-Type: %s\r\n%s" % (
            request.line,
            self._start,
            request.body_bytes,
            self._middle,
            BODY_TYPES[request.line.partition(b" ")[0]],
            self._end,
        )


class Http2Fields:
    """The fields of a user's requests over HTTP/2, as Go writes them.

    Pseudo fields come first and what Go adds comes last; what the program has set stands between,
    in the order of Go's maps, which is any.
    """

    def __init__(self, user: User, scheme: str) -> None:
        self._authority = (b":authority", b"kubernetes.default.svc")
        self._scheme = (b":scheme", scheme.encode())
        self._own = [
            (b"user-agent", user.agent.encode()),
            (b"accept", user.accept.encode()),
            (b"authorization", b"Bearer " + user.token.encode()),
        ]

    def of(self, request: Request, rng: random.Random) -> list[tuple[bytes, bytes]]:
        method, _, target = request.line.partition(b" ")
        own, added = self._own.copy(), [(b"accept-encoding", b"gzip")]
        if request.body_bytes:
            own.append((b"content-type", BODY_TYPES[method]))
            added.insert(0, (b"content-length", b"%d" % request.body_bytes))
        rng.shuffle(own)
        pseudo = [self._authority, (b":method", method), (b":path", target), self._scheme]
        return [*pseudo, *own, *added]


def users() -> list[User]:
    rng = random.Random(TOKENS_SEED)  # noqa: S311 - the tokens of a test
    return [_user(number, rng) for number in range(USERS)]


def _user(number: int, rng: random.Random) -> User:
    token = _token(rng)
    if number % 2 == 0:
        agent = "kubelet/v1.36.0 (linux/amd64) kubernetes/24a394e"
        return User(f"system:node:node-{number}", ("system:nodes",), token, agent, MACHINES_ACCEPT)
    if number % 10 == 9:
        accept = rng.choice((PEOPLES_ACCEPT, TABLES_ACCEPT))
        agent = "kubectl/v1.36.0 (linux/amd64) kubernetes/24a394e"
        return User(f"user-{number}@example.com", ("developers",), token, agent, accept)
    namespace = f"team-{number % NAMESPACES}"
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    name = f"system:serviceaccount:{namespace}:controller-{number}"
    return User(name, groups, token, AGENTS[number % len(AGENTS)], MACHINES_ACCEPT)


def _token(rng: random.Random) -> str:
    header = base64.urlsafe_b64encode(b'{"alg":"RS256","kid":"Zm9vYmFyYmF6cXV4"}').rstrip(b"=")
    rest = base64.urlsafe_b64encode(rng.randbytes(TOKEN_CHARACTERS)).decode()
    payload_end = TOKEN_CHARACTERS - 342
    text = f"{header.decode()}.{rest}"
    return f"{text[:payload_end]}.{text[payload_end:]}"[:TOKEN_CHARACTERS]


def write_token_file(path: Path, of: Iterable[User]) -> None:
    path.write_text(
        "".join(
            f'{user.token},{user.name},{number},"{",".join(user.groups)}"\n'
            for number, user in enumerate(of)
        )
    )
    path.chmod(0o600)


def draw_user(rng: random.Random, of: Sequence[User]) -> User:
    return of[int(len(of) ** rng.random()) - 1]


def draw_request(rng: random.Random) -> Request:
    number = rng.randrange(PATHS)
    method, template = TEMPLATES[number % len(TEMPLATES)]
    target = template.format(namespace=number % NAMESPACES, number=number)
    return Request(
        b"%s %s" % (method, target.encode()), rng.choice(BODY_BYTES) if method in BODY_TYPES else 0
    )
