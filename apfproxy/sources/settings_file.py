"""The settings file: YAML with camelCase keys, as Kubernetes' component configurations have them.

The records of `settings` are the schema: a key is a field's name in camelCase, without the unit of
a duration.  Every problem is reported, each with its line and path; an unknown key comes with the
likeliest known one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import types
from typing import TYPE_CHECKING, Any, TypeVar, Union, get_args, get_origin, get_type_hints

import yaml

from apfproxy.api.schema.mistakes import closest
from apfproxy.errors import OperatorError
from apfproxy.settings import UNSAID, Address, Bounds, Network, Settings
from apfproxy.sources.file_changes import open_regular
from apfproxy.sources.setting_values import (
    format_duration,
    is_text,
    parse_dns_origin,
    parse_duration,
    parse_header_name,
    parse_host_header,
    parse_label,
    parse_listen_address,
    parse_mode,
    parse_network,
    parse_origin,
    parse_path,
    parse_service_port,
    parse_size,
    parse_url,
)

if TYPE_CHECKING:
    from pathlib import Path

MAX_FILE_BYTES = 1 << 20
SETTING = re.compile(r"[A-Za-z]+(?:\.[A-Za-z]+|\[[0-9]+\])*")
"""A path such as `authentication.jwt[0].issuer`, or a word."""
"""Far more than any settings file; keeps a wrong path, such as a disk image, from being read."""

FORMS = {
    "header": parse_header_name,
    "host": parse_host_header,
    "label": parse_label,
    "port": parse_service_port,
    "target": parse_path,
    "url": parse_url,
}
"""The forms of texts, by the name that a field's metadata has."""

ADDRESS_FORMS = {"origin": parse_origin, "dns": parse_dns_origin}
"""As above, of addresses; any other is one to listen on."""

RENAMED = {"upstream.probeInterval": "upstream.healthCheck.interval"}
"""Settings that had another name."""

Record = TypeVar("Record")


class SettingsError(OperatorError):
    """The settings file cannot be used; the operator's fault.

    Attributes:
        problems: One line each, with file, line and path.
    """

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def load_settings(path: Path) -> Settings:
    """Read a settings file, or raise SettingsError; its relative paths begin at its directory."""
    try:
        with open_regular(path) as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise SettingsError((f"{path}: {error.strerror or error}",)) from error
    if len(data) > MAX_FILE_BYTES:
        raise SettingsError((f"{path}: larger than {MAX_FILE_BYTES} bytes; not a settings file?",))
    return relative_to(path.parent, parse_settings(data, str(path)))


def relative_to(directory: Path, record: Record) -> Record:
    """The record with all its paths relative to a directory, those of its sections included."""
    changes: dict[str, object] = {}
    for field in dataclasses.fields(record):  # type: ignore[arg-type]  # every record is a dataclass
        value = getattr(record, field.name)
        many = value if isinstance(value, tuple) else (value,)
        if field.metadata.get("form") == "path":
            words = (None, *field.metadata.get("words", ()))  # which are no paths
            many = tuple(each if each in words else str(directory / each) for each in many)
        else:
            many = tuple(
                relative_to(directory, each) if is_section(type(each)) else each for each in many
            )
        changes[field.name] = many if isinstance(value, tuple) else many[0]
    return dataclasses.replace(record, **changes)  # type: ignore[type-var]  # as above


def parse_settings(data: bytes, source: str) -> Settings:
    """Make settings of the bytes of a file named `source`; an empty one gives the defaults."""
    try:
        # Nodes rather than values: they know their lines, and keep a key that stands twice.
        root = yaml.compose(data, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        reason = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise SettingsError((f"{source}{line}: not YAML: {reason}",)) from error
    reader = SettingsReader(source)
    settings = Settings() if root is None else reader.record(Settings, root, "")
    if reader.problems:
        raise SettingsError(tuple(reader.problems))
    return settings


class SettingsLines:
    """Where the settings of a file stand, to say it with what is found out about them later.

    The file has been read once without a problem; one that has changed since has no lines.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines: dict[str, int] = {}
        """By path; those of sections and of items of lists, `a.b[0]`, are among them."""
        self._named: dict[str, str] = {}
        """What paths of files are written as, to the setting."""
        with contextlib.suppress(OSError, yaml.YAMLError, ValueError, RecursionError):
            root = yaml.compose(path.read_bytes()[:MAX_FILE_BYTES], Loader=yaml.SafeLoader)
            self._note(root, "")

    def _note(self, node: yaml.Node | None, prefix: str) -> None:
        if isinstance(node, yaml.MappingNode):
            for key_node, value_node in node.value:
                child = f"{prefix}.{key_node.value}".removeprefix(".")
                self._lines[child] = key_node.start_mark.line + 1
                self._note(value_node, child)
        elif isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                self._lines[f"{prefix}[{index}]"] = item.start_mark.line + 1
                self._note(item, f"{prefix}[{index}]")
        elif isinstance(node, yaml.ScalarNode) and node.value:
            self._named[str(self._path.parent / node.value)] = prefix

    def of_this_file(self, problem: str) -> str:
        """The problem with its line if it is of this file for sure, otherwise as it is.

        A setting that stands here is what it begins with, or names the file that is wrong; anything
        else may be of a flag.
        """
        if self._is_placed(problem):
            return problem
        own = SETTING.match(problem)
        if own is not None and own[0] in self._lines:
            return f"{self._path}:{self._lines[own[0]]}: {problem}"
        if self._line_of(problem.partition(": ")[0].partition(" ")[0]) is None:
            words = [word.removesuffix(":") for word in problem.split()]
            setting = next((self._named[word] for word in words if word in self._named), None)
            if setting is not None:
                return f"{self._path}:{self._lines[setting]}: {setting}: {problem}"
        return problem

    def located(self, problem: str) -> str:
        """The problem with the file, its line and its setting, as far as they can be told."""
        if self._is_placed(problem):
            return problem
        if (named := self.of_this_file(problem)) != problem:
            return named
        for path in SETTING.findall(problem):
            line = self._line_of(path)
            if line is not None:
                return f"{self._path}:{line}: {problem}"
        return f"{self._path}: {problem}"

    def _is_placed(self, problem: str) -> bool:
        """Whether the problem says where it is, in this file or in one that is named here."""
        if problem.startswith(f"{self._path}:"):
            return True
        own = re.match(r"(.+?):[0-9]+: ", problem)
        return own is not None and any(own[1].startswith(name) for name in self._named)

    def _line_of(self, path: str) -> int | None:
        """The line of a setting, or else of the section that it would be in."""
        while path and path not in self._lines:
            path = path.rpartition(".")[0]
        return self._lines.get(path)


def is_settings(data: bytes) -> bool:
    """Whether the bytes of a file are settings, rather than something else in YAML."""
    try:
        root = yaml.compose(data[: MAX_FILE_BYTES + 1], Loader=yaml.SafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError):
        return False
    if not isinstance(root, yaml.MappingNode) or not root.value:
        return False
    known = {setting_key(field) for field in dataclasses.fields(Settings)}
    return all(isinstance(key, yaml.ScalarNode) and key.value in known for key, _ in root.value)


def setting_key(field: dataclasses.Field[Any]) -> str:
    """The key of a field: `head_timeout_s` is `headTimeout`."""
    if "key" in field.metadata:
        return str(field.metadata["key"])
    first, *rest = field.name.removesuffix("_s").split("_")
    return first + "".join(word.capitalize() for word in rest)


def setting_paths(record: type[Any] = Settings, prefix: str = "") -> list[str]:
    """Every setting's path, such as `downstream.headTimeout`, in the order of the records."""
    paths = []
    hints = get_type_hints(record)
    for field in dataclasses.fields(record):
        path = f"{prefix}{setting_key(field)}"
        if is_section(hints[field.name]):
            paths += setting_paths(hints[field.name], f"{path}.")
        else:
            paths.append(path)
    return paths


def is_section(expected: object) -> bool:
    """Whether a field's type is a record with keys of its own."""
    return dataclasses.is_dataclass(expected) and expected is not Address


def item_type(expected: Any) -> Any:  # noqa: ANN401 - a type annotation may be anything
    """The type of the items of a tuple type; None of another."""
    return get_args(expected)[0] if get_origin(expected) is tuple else None


class SettingsReader:
    """Walks the nodes of one file along the records and keeps what is wrong."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.problems: list[str] = []

    def refuse(self, node: yaml.Node, path: str, problem: str) -> None:
        """Keep a problem with its place."""
        where = f"{self.source}:{node.start_mark.line + 1}: "
        self.problems.append(f"{where}{path}: {problem}" if path else f"{where}{problem}")

    def record(self, record: type[Record], node: yaml.Node, path: str) -> Record:
        """Make a record of a mapping; what is wrong or absent in it gets its default."""
        if is_null(node):
            return record()
        if not isinstance(node, yaml.MappingNode):
            self.refuse(node, path, f"expected a mapping of settings, not {describe(node)}")
            return record()
        fields = {setting_key(field): field for field in dataclasses.fields(record)}  # type: ignore[arg-type]  # every record is a dataclass
        hints = get_type_hints(record)
        values: dict[str, object] = {}
        for key_node, value_node in node.value:
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else "?"
            key_path = f"{path}.{key}" if path else key
            if key not in fields:
                self.refuse(key_node, key_path, f"unknown key{suggestion(key, list(fields), path)}")
                continue
            field = fields[key]
            if field.name in values:
                self.refuse(key_node, key_path, "given twice; keep one")
                continue
            expected = hints[field.name]
            if is_section(expected):
                values[field.name] = self.record(expected, value_node, key_path)
                continue
            if is_section(item_type(expected)):
                values[field.name] = self.records(item_type(expected), value_node, key_path)
                continue
            try:
                values[field.name] = read_value(field, expected, value_node)
            except ValueError as error:
                self.refuse(value_node, key_path, str(error))
                values[field.name] = field.default
        return record(**values)

    def records(self, record: type[Record], node: yaml.Node, path: str) -> tuple[Record, ...]:
        """Make records of a list of mappings."""
        if is_null(node):
            return ()
        if not isinstance(node, yaml.SequenceNode):
            self.refuse(node, path, f"expected a list, not {describe(node)}")
            return ()
        return tuple(
            self.record(record, child, f"{path}[{index}]") for index, child in enumerate(node.value)
        )


def suggestion(key: str, known: list[str], path: str) -> str:
    """Name the key that was likely meant: here, in another section, or else all of them."""
    if (new := RENAMED.get(f"{path}.{key}")) is not None:
        return f"; it is {new} by now"
    if close := closest(key, known, likeness=0.6):
        return f"; did you mean {close}?"
    for other in setting_paths():
        if other.rpartition(".")[2].lower() == key.lower():
            return f"; did you mean {other}?"
    where = f"in {path}" if path else "at the top"
    return f"; known {where}: {', '.join(known)}"


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


def read_value(field: dataclasses.Field[Any], expected: Any, node: yaml.Node) -> object:  # noqa: ANN401 - a type annotation may be anything
    """Make the value of a field of a node."""
    if get_origin(expected) in (Union, types.UnionType) and type(None) in get_args(expected):
        if is_null(node):
            return None
        (expected,) = (kind for kind in get_args(expected) if kind is not type(None))
    if get_origin(expected) is tuple:
        if not isinstance(node, yaml.SequenceNode):
            raise ValueError(f"expected a list, not {describe(node)}")
        item = get_args(expected)[0]
        return tuple(read_item(field, item, child) for child in node.value)
    return read_item(field, expected, node)


def read_item(field: dataclasses.Field[Any], expected: Any, node: yaml.Node) -> object:  # noqa: ANN401 - a type annotation may be anything
    """Make one value that is neither absent nor a list."""
    if expected is bool:
        text = scalar(node, ("bool",), "true or false")
        if text.lower() not in yaml.SafeLoader.bool_values:  # as of `!!bool maybe`
            raise ValueError(f"expected true or false, not {text!r}")
        return bool(yaml.SafeLoader.bool_values[text.lower()])
    if expected is float:
        number: float = parse_duration(scalar(node, ("str", "int", "float"), "a duration"))
        return checked(field, number)
    if expected is int and field.name.endswith("_bytes"):
        return checked(field, parse_size(scalar(node, ("str", "int"), "a size")))
    if field.metadata.get("form") == "mode":
        return parse_mode(scalar(node, ("str", "int"), "permissions such as 0660"))
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
    kinds = ("str", "int") if field.metadata.get("form") == "port" else ("str",)
    return read_text(field, scalar(node, kinds, "a text"))


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
        return format_duration(value) if field.name.endswith("_s") else str(int(value))

    if number < bounds.minimum:
        raise ValueError(f"must be at least {write(bounds.minimum)}, not {write(number)}")
    if bounds.maximum is not None and number > bounds.maximum:
        raise ValueError(f"must be at most {write(bounds.maximum)}, not {write(number)}")
    return number
