"""Reading records of settings from the nodes of a YAML file, with the place of what is wrong.

The records of `settings` are the schema: a key is a field's name in camelCase, without the unit of
a duration.  Every problem is kept, with its line and path; an unknown key comes with the likeliest
known one.
"""

from __future__ import annotations

import dataclasses
import re
import types
from typing import TYPE_CHECKING, Any, TypeVar, Union, get_args, get_origin, get_type_hints

import yaml

from apfproxy.objects.field_errors import closest
from apfproxy.settings import UNSAID, Address, Bounds, Network, Settings, with_values
from apfproxy.settings.store_address import parse_fleet_name, parse_member_name, parse_store
from apfproxy.settings.values import (
    DNS_LABEL,
    format_duration,
    is_text,
    parse_api_prefix,
    parse_collector_url,
    parse_dns_url,
    parse_duration,
    parse_header_name,
    parse_host_header,
    parse_host_pattern,
    parse_label,
    parse_listen_address,
    parse_mode,
    parse_network,
    parse_path,
    parse_path_pattern,
    parse_path_prefix,
    parse_paths_below,
    parse_service_port,
    parse_size,
    parse_subresource,
    parse_upstream_url,
    parse_url,
    parse_verb,
    parse_workers,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FORMS = {
    "api-prefix": parse_api_prefix,
    "collector": parse_collector_url,
    "fleet": parse_fleet_name,
    "header": parse_header_name,
    "host": parse_host_header,
    "host-pattern": parse_host_pattern,
    "label": parse_label,
    "member": parse_member_name,
    "path-pattern": parse_path_pattern,
    "path-prefix": parse_path_prefix,
    "paths-below": parse_paths_below,
    "port": parse_service_port,
    "store": parse_store,
    "subresource": parse_subresource,
    "target": parse_path,
    "url": parse_url,
    "verb": parse_verb,
}
"""The forms of texts, by the name that a field's metadata has."""

CLUSTERS = "clusters"

NUMBERED = ("label", "port")
"""Those that may look like a number."""

ADDRESS_FORMS = {"upstream": parse_upstream_url, "dns": parse_dns_url}
"""As above, of addresses; any other is one to listen on."""

RENAMED = {"upstream.probeInterval": "upstream.healthCheck.interval"}
"""Settings that had another name."""

MAX_FILE_BYTES = 1 << 20
"""Far more than any settings file; keeps a wrong path, such as a disk image, from being read."""

MOST_VALUES, DEEPEST = 100_000, 20
"""With aliases written out; 200 clusters have 20 000, five levels deep."""

Record = TypeVar("Record")

TYPES: dict[type[Any], dict[str, Any]] = {}
"""Of records the types of their fields; to find them for each cluster takes as long as the rest."""


def setting_key(field: dataclasses.Field[Any]) -> str:
    """The key of a field: `head_timeout_s` is `headTimeout`."""
    if "key" in field.metadata:
        return str(field.metadata["key"])
    first, *rest = field.name.removesuffix("_s").split("_")
    return first + "".join(word.capitalize() for word in rest)


def setting_paths(record: type[Any] = Settings, prefix: str = "") -> list[str]:
    """Every setting's path, such as `downstream.headTimeout`, in the order of the records."""
    paths = []
    hints = types_of(record)
    for field in dataclasses.fields(record):
        path = f"{prefix}{setting_key(field)}"
        if is_section(hints[field.name]):
            paths += setting_paths(hints[field.name], f"{path}.")
        else:
            paths.append(path)
    return paths


def types_of(record: type[Any]) -> dict[str, Any]:
    """The types of a record's fields."""
    if record not in TYPES:
        TYPES[record] = get_type_hints(record)
    return TYPES[record]


def is_section(expected: object) -> bool:
    """Whether a field's type is a record with keys of its own."""
    return dataclasses.is_dataclass(expected) and expected is not Address


def item_type(expected: Any) -> Any:  # noqa: ANN401 - a type annotation may be anything
    """The type of the items of a tuple type; None of another."""
    return get_args(expected)[0] if get_origin(expected) is tuple else None


class SettingsReader:
    """Walks the nodes of one file along the records and keeps what is wrong.

    Args:
        source: The file's name, as problems have it.
        directory: Where relative paths begin.

    Attributes:
        problems: What is wrong, a line each.
        apart: Nodes that are read otherwise, by the names of their fields.
    """

    def __init__(self, source: str, directory: Path) -> None:
        self.source = source
        self.directory = directory
        self.problems: list[str] = []
        self.apart: dict[str, yaml.Node] = {}

    def refuse(self, node: yaml.Node, path: str, problem: str) -> None:
        """Keep a problem with its place."""
        where = f"{self.source}:{node.start_mark.line + 1}: "
        self.problems.append(f"{where}{path}: {problem}" if path else f"{where}{problem}")

    def has_refused(self, path: str) -> bool:
        """Whether something is wrong with the setting of a path."""
        return any(f": {path}: " in problem for problem in self.problems)

    def record(self, base: Record, node: yaml.Node, path: str) -> Record:
        """Make a record of a mapping; what is wrong or absent in it is as in `base`."""
        if is_null(node):
            return base
        if not isinstance(node, yaml.MappingNode):
            self.refuse(node, path, f"expected a mapping of settings, not {describe(node)}")
            return base
        fields = {setting_key(field): field for field in dataclasses.fields(base)}  # type: ignore[arg-type]  # every record is a dataclass
        hints = types_of(type(base))
        values: dict[str, object] = {}
        seen: set[str] = set()
        for key_node, value_node in node.value:
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else "?"
            key_path = f"{path}.{key}" if path else key
            if key not in fields:
                self.refuse(key_node, key_path, f"unknown key{suggestion(key, list(fields), path)}")
                continue
            if key in seen:
                self.refuse(key_node, key_path, "given twice; keep one")
                continue
            seen.add(key)
            field = fields[key]
            expected = hints[field.name]
            if field.metadata.get("form") == "apart":
                self.apart[field.name] = value_node
            elif is_section(expected):
                if not is_null(value_node):
                    section = getattr(base, field.name)
                    values[field.name] = self.record(section, value_node, key_path)
            elif is_section(item_type(expected)):
                values[field.name] = self.records(item_type(expected), value_node, key_path)
            else:
                try:
                    values[field.name] = self.value(field, expected, value_node, key_path)
                except ValueError as error:
                    self.refuse(value_node, key_path, str(error))
        return with_values(base, values)

    def value(
        self,
        field: dataclasses.Field[Any],
        expected: Any,  # noqa: ANN401 - a type annotation may be anything
        node: yaml.Node,
        path: str,
    ) -> object:
        """Make the value of a field that is no record; of a list it is the items that can be used.

        Raises:
            ValueError: What is wrong with it.
        """
        if get_origin(expected) in (Union, types.UnionType) and type(None) in get_args(expected):
            if is_null(node):
                return None
            (expected,) = (kind for kind in get_args(expected) if kind is not type(None))
        item = item_type(expected)
        if item is None:
            return self.item(field, expected, node)
        if not isinstance(node, yaml.SequenceNode):
            self.refuse(node, path, f"expected a list, not {describe(node)}")
            return ()
        items = []
        for child in node.value:
            try:
                items.append(self.item(field, item, child))
            except ValueError as error:
                self.refuse(child, path, str(error))
        return tuple(items)

    def item(self, field: dataclasses.Field[Any], expected: Any, node: yaml.Node) -> object:  # noqa: ANN401 - as above
        """Make one value that is neither absent nor a list."""
        value = read_item(field, expected, node)
        if field.metadata.get("form") == "path" and value not in field.metadata.get("words", ()):
            return str(self.directory / str(value))
        return value

    def records(self, record: type[Record], node: yaml.Node, path: str) -> tuple[Record, ...]:
        """Make records of a list of mappings."""
        if is_null(node):
            return ()
        if not isinstance(node, yaml.SequenceNode):
            self.refuse(node, path, f"expected a list, not {describe(node)}")
            return ()
        return tuple(
            self.record(record(), child, f"{path}[{index}]")
            for index, child in enumerate(node.value)
        )


def suggestion(key: str, known: list[str], path: str) -> str:
    """Name the key that was likely meant: here, in another section, or else all of them."""
    if (new := RENAMED.get(f"{path}.{key}")) is not None:
        return f"; it is {new} by now"
    of_all = {setting_key(field) for field in dataclasses.fields(Settings)}
    if re.fullmatch(rf"{CLUSTERS}\[[^.]*\]", path) is not None and key in of_all:
        return " of a cluster; it is of the whole proxy, so set it at the top"
    if close := closest(key, known, likeness=0.6):
        return f"; did you mean {close}?"
    named_so = [each for each in setting_paths() if each.rpartition(".")[2].lower() == key.lower()]
    below = [each for each in named_so if each.startswith(f"{path}." if path else "")]
    # One of several in other sections would be a guess: many have `enabled`.
    if below or len(named_so) == 1:
        return f"; did you mean {(below or named_so)[0]}?"
    where = f"in {path}" if path else "at the top"
    return f"; known {where}: {', '.join(known)}"


def cluster_paths(node: yaml.SequenceNode) -> Iterator[tuple[str, yaml.Node]]:
    """The items of `clusters`, each with its path: by its name, or else by its place."""
    seen: set[str] = set()
    for index, item in enumerate(node.value):
        pairs = item.value if isinstance(item, yaml.MappingNode) else ()
        names = [value.value for key, value in pairs if key.value == "name"]
        name = names[0] if names and isinstance(names[0], str) else ""
        is_good = DNS_LABEL.fullmatch(name) is not None and name not in seen
        seen.add(name)
        yield f"{CLUSTERS}[{name if is_good else index}]", item


def is_null(node: yaml.Node) -> bool:
    """Whether a node is null: `~`, `null` or nothing."""
    return bool(node.tag == "tag:yaml.org,2002:null")


def describe(node: yaml.Node) -> str:
    """Say what a node is, for people."""
    if isinstance(node, yaml.MappingNode):
        return "a mapping"
    if isinstance(node, yaml.SequenceNode):
        return "a list"
    return "nothing" if is_null(node) else repr(node.value)


def scalar(node: yaml.Node, kinds: tuple[str, ...], expected: str) -> str:
    """The text of a scalar of one of the kinds (`str`, `int`, ...), or ValueError."""
    kind = node.tag.removeprefix("tag:yaml.org,2002:")
    if not isinstance(node, yaml.ScalarNode) or kind not in kinds:
        raise ValueError(f"expected {expected}, not {describe(node)}")
    return str(node.value)


def read_item(field: dataclasses.Field[Any], expected: Any, node: yaml.Node) -> object:  # noqa: ANN401 - a type annotation may be anything
    """Make one value that is neither absent nor a list."""
    if expected is bool:
        text = scalar(node, ("bool",), "true or false")
        if text.lower() not in yaml.SafeLoader.bool_values:  # as of `!!bool maybe`
            raise ValueError(f"expected true or false, not {text!r}")
        return bool(yaml.SafeLoader.bool_values[text.lower()])
    if expected is float:
        if not field.name.endswith("_s"):
            return checked(field, parse_number(scalar(node, ("int", "float"), "a number")))
        number: float = parse_duration(scalar(node, ("str", "int", "float"), "a duration"))
        return checked(field, number)
    if expected is int and (field.name.endswith("_bytes") or "_bytes_per_" in field.name):
        return checked(field, parse_size(scalar(node, ("str", "int"), "a size")))
    if field.metadata.get("form") == "mode":
        return parse_mode(scalar(node, ("str", "int"), "permissions such as 0660"))
    if field.metadata.get("form") == "workers":
        return parse_workers(scalar(node, ("str", "int"), "a number of workers, or auto"))
    if expected is int:
        text = scalar(node, ("int",), "a whole number")
        if not re.fullmatch(r"[+-]?[0-9]{1,19}", text):
            raise ValueError(f"expected a whole number in decimal digits, not {text!r}")
        return checked(field, int(text))
    if expected is Address:
        if is_null(node) and field.default == UNSAID:
            return UNSAID
        form = ADDRESS_FORMS.get(field.metadata.get("form", ""), parse_listen_address)
        wanted = "HOST:PORT in quotes" if form is parse_listen_address else "a URL"
        return form(scalar(node, ("str",), wanted))
    if expected == Network:
        return parse_network(scalar(node, ("str",), "an address or a CIDR"))
    kinds = ("str", "int") if field.metadata.get("form") in NUMBERED else ("str",)
    return read_text(field, scalar(node, kinds, "a text"))


def parse_number(text: str) -> float:
    """A number, with or without a fraction; ValueError for any other."""
    if not re.fullmatch(r"[+-]?[0-9]{1,9}(\.[0-9]{1,9})?", text):
        raise ValueError(f"expected a number such as 0.02, not {text!r}")
    return float(text)


def read_text(field: dataclasses.Field[Any], text: str) -> str:
    """Check a text against the form or the choices that its field has."""
    choices = field.metadata.get("choices", ())
    if choices and text not in choices:
        raise ValueError(f"expected one of {', '.join(choices)}, not {text!r}")
    if not text:
        raise ValueError("expected a text, not an empty one; leave the key out for the default")
    if not is_text(text):
        raise ValueError(f"has a character that no text has: {text!r}")
    form = FORMS.get(field.metadata.get("form", ""))
    return text if form is None else form(text)


def checked(field: dataclasses.Field[Any], number: float) -> float:
    """Check a number against the bounds of its field."""
    bounds = field.metadata.get("bounds", Bounds(minimum=0))

    def write(value: float) -> str:
        return format_duration(value) if field.name.endswith("_s") else f"{value:.12g}"

    if number < bounds.minimum:
        raise ValueError(f"must be at least {write(bounds.minimum)}, not {write(number)}")
    if bounds.maximum is not None and number > bounds.maximum:
        raise ValueError(f"must be at most {write(bounds.maximum)}, not {write(number)}")
    return number
