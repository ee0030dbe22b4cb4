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

Number = float | int | None


class _Options(msgspec.Struct):
    num_predict: Number = None


class _Body(msgspec.Struct):
    """The fields of a body that count, under all the names that APIs have for them."""

    model: str | None = None
    max_tokens: Number = None
    max_completion_tokens: Number = None
    max_output_tokens: Number = None
    n: Number = None
    options: _Options | None = None


_decoder = msgspec.json.Decoder(_Body)


class Completion:
    """One completion: what its body says, then the tokens that it had.

    Attributes:
        model: As the client names it; "" if it is not known.
        prompt_tokens: Estimated.
        most_output: Tokens of each choice at most; 0 if the client does not say.
        choices: Responses that it asks for at once.
        estimated: Tokens of prompt and output, as they were expected when it came to flow control.
        charged: Tokens that its flow's rate gave for it.
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


def read_completion(body: bytes | bytearray) -> Completion:
    """Read a whole body; one that is no JSON, or not as APIs have it, has no model."""
    try:
        found = _decoder.decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return Completion(len(body))
    model = found.model or ""
    limits = (
        found.max_tokens,
        found.max_completion_tokens,
        found.max_output_tokens,
        None if found.options is None else found.options.num_predict,
    )
    return Completion(
        len(body),
        model if len(model) <= LONGEST_MODEL else "",
        min(filter(None, map(_whole, limits)), default=0),
        min(_whole(found.n) or 1, MOST_CHOICES),
    )


def _whole(number: Number) -> int:
    """The number, or 0 if it is none that limits anything."""
    return int(number) if number is not None and 1 <= number <= MOST_TOKENS else 0
