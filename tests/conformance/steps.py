"""One request of a comparison, its answer, and a server to send it to."""

from __future__ import annotations

import http.client
import json
import re
import ssl
import urllib.parse
from dataclasses import dataclass, field
from typing import Any

import httpx
import yaml

REFERENCE = re.compile(r"\$\{([\w.-]+)\}")
JSON = "application/json"
YAML = "application/yaml"
TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Step:
    """One request.

    Attributes:
        id: Unique; says what is tried.
        method: Of HTTP.
        path: With the query; `${name}` stands for a saved value.
        body: As JSON; None for none.
        raw: The body as text, instead of `body`.
        content_type: Of the body; "" for none.
        accept: What the client takes; "" for no such field.
        save: Name to the path of a value in the answer, which later steps may name.
        is_watch: Whether the answer is a stream of events.
        is_settling: Whether to wait afterwards until the server's own writers have caught up.
    """

    id: str
    method: str
    path: str
    body: Any = None
    raw: str | None = None
    content_type: str = ""
    accept: str = JSON
    save: dict[str, str] = field(default_factory=dict)
    is_watch: bool = False
    is_settling: bool = False


@dataclass(frozen=True)
class Answer:
    """One response."""

    status: int
    content_type: str
    warnings: list[str]
    body: Any


class Server:
    """A server to compare.

    Args:
        url: Such as `https://127.0.0.1:6443`.
        token: For `Authorization: Bearer`; "" for none.
        authority: File with the certificates that sign the server's; "" for those of the system.
        user_agent: Of all requests; "" for none.
        is_http2: Whether HTTP/2 is spoken from the start, without TLS.
    """

    def __init__(
        self,
        url: str,
        token: str = "",
        authority: str = "",
        user_agent: str = "",
        *,
        is_http2: bool = False,
    ) -> None:
        self._url = url
        context = ssl.create_default_context(cafile=authority or None)
        self._version = "HTTP/2" if is_http2 else "HTTP/1.1"
        self._client = httpx.Client(
            http1=not is_http2, http2=is_http2, timeout=TIMEOUT_S, verify=context
        )
        self._headers = {"User-Agent": user_agent} if user_agent else {}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._saved: dict[str, str] = {}

    def answer(self, step: Step) -> Answer:
        named = {"Accept": step.accept, "Content-Type": step.content_type}
        headers = self._headers | {name: value for name, value in named.items() if value}
        text = json.dumps(step.body) if step.raw is None and step.body is not None else step.raw
        path = self._filled(step.path, is_path=True)
        body = None if text is None else self._filled(text).encode()
        status, content_type, warnings, data = self._send(step.method, path, body, headers)
        found: Any = data.decode(errors="replace")
        if step.is_watch and status == http.client.OK:
            found = [json.loads(line) for line in found.splitlines() if line.strip()]
        elif content_type.startswith(JSON):
            found = json.loads(found)
        elif content_type.startswith(YAML):
            found = yaml.load(found, Loader=yaml.BaseLoader)  # noqa: S506 - makes strings only
        for name, dotted in step.save.items():
            self._saved[name] = str(lookup(found, dotted))
        if step.is_settling:
            self._settle()
        return Answer(status, content_type, warnings, found)

    def close(self) -> None:
        self._client.close()

    def _filled(self, text: str, *, is_path: bool = False) -> str:
        def value(found: re.Match[str]) -> str:
            saved = self._saved.get(found[1], "")
            return urllib.parse.quote(saved, safe="") if is_path else saved

        return REFERENCE.sub(value, text)

    def _send(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> tuple[int, str, list[str], bytes]:
        # The target goes as it is, which it would not in a URL.
        extensions = {"target": path.encode()}
        response = self._client.send(
            httpx.Request(method, self._url, headers=headers, content=body, extensions=extensions)
        )
        assert response.http_version == self._version
        fields = response.headers
        content_type = fields.get("Content-Type", "")
        return response.status_code, content_type, fields.get_list("Warning"), response.content

    def _settle(self) -> None:
        """Wait until every FlowSchema has the status that the server gives it.

        Each look is an exchange with the server, in which it can do its own work.
        """
        path = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas"
        while True:
            _, _, _, data = self._send("GET", path, None, self._headers)
            items = json.loads(data)["items"]
            if all("conditions" in item["status"] for item in items):
                return


def lookup(value: Any, dotted: str) -> Any:  # noqa: ANN401 - JSON
    """The value at a path of names; "" where there is none."""
    for part in dotted.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return "" if value is None else value
