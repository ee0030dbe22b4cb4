"""Types of flags that say in one line what they expect, and flags of several commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from apfproxy.sources.setting_values import (
    parse_address,
    parse_network,
    parse_origin,
    parse_url,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from apfproxy.settings import Address

    ParamType = click.ParamType[Any]
else:
    # Generic since click 8.4 only.
    ParamType = click.ParamType

NOWHERE = "none"
"""Stands for an address where nothing is to listen."""


class Parsed(ParamType):
    """A flag whose text one of the functions of `setting_values` reads."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401 - as click has it
        """Read the text; another value has been read already."""
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def parse_address_or_none(text: str) -> Address | str:
    """Read an address, or `none`."""
    return NOWHERE if text == NOWHERE else parse_address(text)


ADDRESS = Parsed("host:port", parse_address)
ADDRESS_OR_NONE = Parsed("host:port|none", parse_address_or_none)
ORIGIN = Parsed("url", parse_origin)
URL = Parsed("url", parse_url)
NETWORK = Parsed("cidr", parse_network)

output_option = click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Text for people, or one JSON document.",
)
admin_option = click.option(
    "--admin",
    type=ORIGIN,
    metavar="URL",
    help="Ask a running proxy by its admin listener, such as http://127.0.0.1:8081.",
)
suggested_objects_option = click.option(
    "--suggested-objects/--no-suggested-objects",
    default=None,
    help="Whether the objects that Kubernetes suggests are built in. [default: yes]",
)
