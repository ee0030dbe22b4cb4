"""A server of a language model without the model: it speaks OpenAI's API, and Ollama's.

It has slots, in which it gives each request a token a round; further requests wait in the order of
their arrival.  A token is the time of its sending.  The model `thinker` takes some rounds before it
says anything.

    python -m tests.support.model_server --port 8000 --slots 8 --round-ms 20
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections import Counter
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SSE, NDJSON = "text/event-stream", "application/x-ndjson"
MODELS = ("talker", "thinker")
BYTES_OF_A_TOKEN = 4


class ModelServer:
    """A server in its user's event loop.

    Attributes:
        at_once: Requests that are there, in a slot or not.
        most: The most of them at once.
        tokens: Those of each tenant's prompts and responses, by its API key.
        started: How many requests of each tenant got a slot.
        ended: How many of them had their whole response.
        left: Is set when a client has gone before its response's end.
        is_loading: Whether it loads its model, and so is not well.
    """

    def __init__(self, slots: int, round_s: float = 0.001, thinking_rounds: int = 50) -> None:
        self._slots = asyncio.Semaphore(slots)
        self._round_s = round_s
        self._thinking_rounds = thinking_rounds
        self.at_once = self.most = 0
        self.tokens: Counter[str] = Counter()
        self.started: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()
        self.left = asyncio.Event()
        self.is_loading = False
        self.app = web.Application()
        self.app.router.add_get("/health", self._health)
        self.app.router.add_get("/v1/models", self._models)
        self.app.router.add_post("/v1/chat/completions", self._complete)
        self.app.router.add_post("/api/chat", self._complete)

    @asynccontextmanager
    async def serving(self, port: int = 0) -> AsyncIterator[int]:
        """Serve on the port, or on any: the port."""
        runner = web.AppRunner(self.app, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        try:
            yield runner.addresses[0][1]
        finally:
            await runner.cleanup()

    async def _rounds(self, count: int) -> None:
        await asyncio.sleep(count * self._round_s)

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response(status=503 if self.is_loading else 200)

    async def _models(self, _: web.Request) -> web.Response:
        models = [{"id": name, "object": "model", "owned_by": "tests"} for name in MODELS]
        return web.json_response({"object": "list", "data": models})

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        try:
            return await self._respond(request)
        except asyncio.CancelledError:
            self.left.set()
            raise
        except ConnectionError:
            self.left.set()
            return web.Response()  # which goes nowhere
        finally:
            self.at_once -= 1

    async def _respond(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        body, tenant = json.loads(raw), tenant_of(request)
        wire = Ollama(body, len(raw)) if request.path == "/api/chat" else OpenAI(body, len(raw))
        async with self._slots:
            self.started[tenant] += 1
            self.tokens[tenant] += wire.prompt
            if body["model"] == "thinker":
                await self._rounds(self._thinking_rounds)
            if not wire.is_stream:
                await self._rounds(wire.count)
                self.tokens[tenant] += wire.count
                self.ended[tenant] += 1
                return web.json_response(wire.whole())
            response = web.StreamResponse(headers={"Content-Type": wire.content_type})
            await response.prepare(request)
            for _ in range(wire.count):
                await self._rounds(1)
                await response.write(wire.token(str(time.monotonic_ns())))
                self.tokens[tenant] += 1
            await response.write(wire.end())
            await response.write_eof()
            self.ended[tenant] += 1
        return response


def tenant_of(request: web.Request) -> str:
    return request.headers.get("Authorization", "").removeprefix("Bearer ")


class OpenAI:
    """Chat completions, whole or as server-sent events."""

    content_type = SSE

    def __init__(self, body: dict[str, Any], size: int) -> None:
        self._model, self.prompt = body["model"], size // BYTES_OF_A_TOKEN
        self.is_stream = bool(body.get("stream"))
        self.count = int(body.get("max_completion_tokens") or body.get("max_tokens") or 16)
        self._has_usage = (body.get("stream_options") or {}).get("include_usage", False)

    @property
    def _usage(self) -> dict[str, int]:
        return {
            "prompt_tokens": self.prompt,
            "completion_tokens": self.count,
            "total_tokens": self.prompt + self.count,
        }

    def _object(self, kind: str, **fields: object) -> dict[str, object]:
        created = int(time.time())
        return {"id": "chat", "object": kind, "created": created, "model": self._model, **fields}

    def whole(self) -> dict[str, object]:
        message = {"role": "assistant", "content": "token " * self.count}
        choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
        return self._object("chat.completion", choices=choices, usage=self._usage)

    def _event(self, choices: list[dict[str, object]], **fields: object) -> bytes:
        chunk = self._object("chat.completion.chunk", choices=choices, **fields)
        return b"data: %s\n\n" % json.dumps(chunk).encode()

    def token(self, text: str) -> bytes:
        return self._event([{"index": 0, "delta": {"content": text}, "finish_reason": None}])

    def end(self) -> bytes:
        last = self._event([{"index": 0, "delta": {}, "finish_reason": "stop"}])
        usage = self._event([], usage=self._usage) if self._has_usage else b""
        return last + usage + b"data: [DONE]\n\n"


class Ollama:
    """Its chat, whole or as lines of JSON."""

    content_type = NDJSON

    def __init__(self, body: dict[str, Any], size: int) -> None:
        self._model, self.prompt = body["model"], size // BYTES_OF_A_TOKEN
        self.is_stream = bool(body.get("stream", True))
        self.count = int((body.get("options") or {}).get("num_predict", 16))

    def _object(self, text: str, **fields: object) -> dict[str, object]:
        message = {"role": "assistant", "content": text}
        return {"model": self._model, "message": message, **fields}

    def whole(self) -> dict[str, object]:
        counts = {"prompt_eval_count": self.prompt, "eval_count": self.count}
        return self._object("token " * self.count, done=True, **counts)

    def token(self, text: str) -> bytes:
        return json.dumps(self._object(text, done=False)).encode() + b"\n"

    def end(self) -> bytes:
        counts = {"prompt_eval_count": self.prompt, "eval_count": self.count}
        return json.dumps(self._object("", done=True, **counts)).encode() + b"\n"


async def serve(port: int, slots: int, round_s: float) -> None:
    async with ModelServer(slots, round_s).serving(port):
        await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--slots", type=int, default=8)
    parser.add_argument("--round-ms", type=float, default=20.0, help="between two tokens")
    options = parser.parse_args()
    with suppress(KeyboardInterrupt):
        asyncio.run(serve(options.port, options.slots, options.round_ms / 1e3))


if __name__ == "__main__":
    main()
