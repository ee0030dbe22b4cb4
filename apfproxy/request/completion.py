"""Completions: requests of LLM APIs, and the tokens that they take.

A completion is a POST to a path of OpenAI's, Anthropic's or Ollama's API.  Its body is JSON and
names the model and the most tokens that it may get.  A prompt is estimated by its bytes; how much a
model will say is learned from earlier responses, see `flowcontrol.costs`.

The body is read for the proxy's own use and forwarded as it came.  So one that cannot be read is
the server's to refuse: such a completion has no model.
"""

from __future__ import annotations

from typing import Final

import msgspec

PATHS: Final = (
    "/chat/completions",
    "/completions",
    "/responses",
    "/v1/messages",
    "/api/chat",
    "/api/generate",
)
"""Ends of paths, since servers have them below prefixes such as `/v1`, `/openai/v1` or nothing."""
BYTES_PER_TOKEN: Final = 4
"""English text has that many; OpenAI says so, too."""
LONGEST_MODEL: Final = 256
MOST_TOKENS: Final = 100_000_000
"""Numbers beyond it are taken for mistakes."""
MOST_CHOICES: Final = 128
"""OpenAI's own bound."""
NEVER_NS: Final = (1 << 63) - 1


class _Options(msgspec.Struct):
    num_predict: msgspec.Raw = msgspec.Raw()


class _Body(msgspec.Struct):
    """The fields that count, unread: servers ignore odd ones that their API does not have."""

    model: msgspec.Raw = msgspec.Raw()
    max_tokens: msgspec.Raw = msgspec.Raw()
    max_completion_tokens: msgspec.Raw = msgspec.Raw()
    max_output_tokens: msgspec.Raw = msgspec.Raw()
    n: msgspec.Raw = msgspec.Raw()
    options: msgspec.Raw = msgspec.Raw()


_body: Final = msgspec.json.Decoder(_Body)
_options: Final = msgspec.json.Decoder(_Options)
_number: Final = msgspec.json.Decoder(float)
_text: Final = msgspec.json.Decoder(str)
_ERRORS: Final = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)


class Completion:
    """One completion: what its body says, then the tokens that it had.

    Attributes:
        model: As the client names it; "" if it is not known.
        prompt_tokens: Estimated.
        most_output: Tokens of each choice at most; 0 if the client does not say.
        choices: Responses that it asks for at once.
        estimated: Tokens of prompt and output, as they were expected when it came to flow control.
        charged: Tokens that its flow's rate gave for it.
        whole_ns: When its body was whole; 0 if that was before flow control, `NEVER_NS` before.
        is_served: Whether it had a response, at least the begin of one, that was no error.
        counted_prompt, counted_output: Tokens by the response; -1 for unknown.
    """

    def __init__(
        self, prompt_bytes: int, model: str = "", most_output: int = 0, choices: int = 1
    ) -> None:
        self.model = model
        self.prompt_tokens = min(-(-prompt_bytes // BYTES_PER_TOKEN), MOST_TOKENS)
        self.most_output = most_output
        self.choices = choices
        self.estimated = 0
        self.charged = 0
        self.whole_ns = 0
        self.is_served = False
        self.counted_prompt = self.counted_output = -1

    def count(self, prompt_tokens: int, output_tokens: int) -> None:
        """Note what a response that was no error says, or was seen to have; -1 for unknown."""
        self.is_served = True
        self.counted_prompt = min(prompt_tokens, MOST_TOKENS)
        self.counted_output = min(output_tokens, MOST_TOKENS)

    @property
    def tokens(self) -> int:
        """Its tokens as far as the response says them, else as they were estimated."""
        if self.counted_output < 0:
            return self.estimated
        prompt = self.prompt_tokens if self.counted_prompt < 0 else self.counted_prompt
        return prompt + self.counted_output


def read_completion(body: bytes | bytearray, path: str) -> Completion:
    """Read a whole body for a path; one that is no JSON, or not as APIs have it, has no model."""
    try:
        found = _body.decode(body)
    except _ERRORS:
        return Completion(len(body))
    limits, choices = _limits(found, path), 1
    if path.endswith("/completions"):
        choices = min(_whole(found.n) or 1, MOST_CHOICES)
    # Servers differ in which one of two counts; the lesser would be one's word for a small cost.
    most_output = max(map(_whole, limits), default=0)
    return Completion(len(body), _model(found.model), most_output, choices)


def _limits(body: _Body, path: str) -> tuple[msgspec.Raw, ...]:
    """The bounds of the output that the path's API knows."""
    if path.endswith("/chat/completions"):
        return body.max_completion_tokens, body.max_tokens
    if path.endswith(("/completions", "/v1/messages")):
        return (body.max_tokens,)
    if path.endswith("/responses"):
        return (body.max_output_tokens,)
    try:
        return (_options.decode(body.options).num_predict,)
    except _ERRORS:
        return ()


def _model(field: msgspec.Raw) -> str:
    try:
        model = _text.decode(field)
    except _ERRORS:
        return ""
    return model if len(model) <= LONGEST_MODEL else ""


def _whole(field: msgspec.Raw) -> int:
    """The number of a field, or 0 if it is none that limits anything."""
    try:
        number = _number.decode(field)
    except _ERRORS:
        return 0
    return int(number) if 1 <= number <= MOST_TOKENS else 0
