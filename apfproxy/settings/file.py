"""The settings file: YAML with camelCase keys, as those of Kubernetes' components have.

The records of `settings` are the schema.  Every problem is kept, with its line and path; an unknown
key comes with the likeliest known one.

1. A setting that a cluster names replaces that of the top level; all others are as there.  Where
   only one of several may be given, such as `upstream.url` and `upstream.dns`, the one that a
   cluster names takes the place of the other.
2. A cluster that cannot be used is refused alone, with what is wrong; it keeps the hosts and the
   prefix that can be used, so that its requests are not taken for those of no one.
3. Of two clusters with the same name, or the same host under the same prefix, the later is refused.
"""

from __future__ import annotations

import contextlib
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, get_args, get_origin

import msgspec
import yaml
from msgspec import Meta, structs

from apfproxy.base.errors import OperatorError
from apfproxy.base.files import read_file
from apfproxy.objects.documents import UnreadableError, compose
from apfproxy.objects.field_errors import closest
from apfproxy.settings import (
    OF_A_CLUSTER,
    UNSAID,
    Certificate,
    ClusterSection,
    ClusterSettings,
    Record,
    Settings,
    with_values,
)
from apfproxy.settings.values import (
    BOOL,
    DNS_LABEL,
    DURATION,
    FILE,
    LOG_FILE,
    NUMBER,
    TEXT,
    WHOLE,
    Form,
    format_duration,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MAX_FILE_BYTES = 1 << 20
"""Far more than any settings file; keeps a wrong path, such as a disk image, from being read."""
MOST_VALUES, DEEPEST = 100_000, 20
"""With aliases written out; 200 clusters have 20 000, five levels deep."""
CLUSTERS = "clusters"
MAX_CLUSTERS = 1000
"""Ten times as many as one process is meant for."""
MOST_NAMED = 3
WORDS_FOR_NOTHING = ("none", "off", "no", "false", "never", "unlimited")
RENAMED = {"upstream.probeInterval": "upstream.healthCheck.interval"}
FORMS: dict[object, Form] = {bool: BOOL, int: WHOLE, float: NUMBER, str: TEXT}
BOUND = re.compile(r"Expected `\w+` ([<>]=) (\S+)")
"""Matches msgspec's message for a number that is out of bounds."""
TAG = "tag:yaml.org,2002:"
RESOLVER: Callable[..., str] = yaml.resolver.Resolver().resolve

SETTING = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:\.[A-Za-z][A-Za-z0-9]*|\[[a-z0-9-]+\])*")
"""A path such as `authentication.jwt[0].issuer` or `clusters[a].watch`, or a word."""

R = TypeVar("R", bound=Record)
Claim = tuple[str | None, str | None]
"""A host and a prefix; None for any."""


class SettingsError(OperatorError):
    """Each problem is a line with file, line and path."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class Setting(NamedTuple):
    """A field of a record; `kind` is the type of its values, of items where it is a list."""

    name: str
    kind: Any
    form: Form
    section: type[Record] | None
    default: object
    is_list: bool
    is_optional: bool


@cache
def settings_in(record: type[Record]) -> dict[str, Setting]:
    return {each.encode_name: _setting(each) for each in structs.fields(record)}


def _setting(field: structs.FieldInfo) -> Setting:
    kind = field.type
    if is_optional := type(None) in get_args(kind):
        (kind,) = (each for each in get_args(kind) if each is not type(None))
    if is_list := get_origin(kind) is tuple:
        kind = get_args(kind)[0]
    base, meta = kind, Meta()
    if hasattr(kind, "__metadata__"):
        base, (meta, *_) = get_args(kind)[0], kind.__metadata__
    is_section = isinstance(base, type) and issubclass(base, Record)
    return Setting(
        name=field.name,
        kind=kind,
        form=(meta.extra or {}).get("form") or FORMS.get(base, TEXT),
        section=base if is_section else None,
        default=field.default,
        is_list=is_list,
        is_optional=is_optional,
    )


def setting_paths(record: type[Record] = Settings, prefix: str = "") -> list[str]:
    paths = []
    for key, setting in settings_in(record).items():
        if setting.section is not None and not setting.is_list:
            paths += setting_paths(setting.section, f"{prefix}{key}.")
        else:
            paths.append(f"{prefix}{key}")
    return paths


def way_to(path: str) -> list[Setting]:
    record, found = Settings, []
    for key in path.split("."):
        found.append(settings_in(record)[key])
        record = found[-1].section or record  # type: ignore[assignment]  # a record, too
    return found


def field_path(path: str) -> str:
    return ".".join(each.name for each in way_to(path))


def load_settings(
    path: Path, over: Callable[[Settings], Settings] = lambda settings: settings
) -> Settings:
    """Read a settings file; its relative paths begin at its directory.

    `over` has what wins over the file, such as flags; a cluster has it where it does not say
    otherwise itself.  Problems of a cluster alone are in its `problems`, all others are a
    SettingsError.
    """
    try:
        data = read_file(path, MAX_FILE_BYTES)
    except OSError as error:
        raise SettingsError((f"{path}: {error.strerror or error}",)) from error
    return parse_settings(data, str(path), path.parent, over)


def parse_settings(
    data: bytes,
    source: str,
    directory: Path = Path(),
    over: Callable[[Settings], Settings] = lambda settings: settings,
) -> Settings:
    """An empty file gives the defaults."""
    try:
        # Nodes rather than values: they know their lines, and keep a key that stands twice.
        root = compose(data, MOST_VALUES, DEEPEST)
    except UnreadableError as error:
        line = f":{error.line}" if error.line else ""
        raise SettingsError((f"{source}{line}: {error}",)) from error
    if root is None:
        return over(Settings())
    reader = Reader(source, directory)
    # Clusters begin with the settings of the top level, wherever in the file these stand.
    settings = over(reader.record(Settings(), root, ""))
    clusters = _clusters(reader, settings)
    if reader.problems:
        problems = [problem for each in clusters for problem in each.problems]
        raise SettingsError((*reader.problems, *problems))
    return structs.replace(settings, clusters=clusters)


def is_settings(data: bytes) -> bool:
    """Whether the bytes are settings, rather than something else in YAML."""
    try:
        root = compose(data[:MAX_FILE_BYTES], MOST_VALUES, DEEPEST)
    except UnreadableError:
        return False
    if not isinstance(root, yaml.MappingNode) or not root.value:
        return False
    known = settings_in(Settings)
    return all(isinstance(key, yaml.ScalarNode) and key.value in known for key, _ in root.value)


class Reader:
    """Walks the nodes of one file along the records and keeps what is wrong.

    `wrong` has the paths of wrong settings, `clusters` the node of the clusters, read last.
    """

    def __init__(self, source: str, directory: Path) -> None:
        self.source = source
        self.directory = directory
        self.problems: list[str] = []
        self.wrong: set[str] = set()
        self.clusters: yaml.Node | None = None

    def refuse(self, node: yaml.Node, path: str, problem: str) -> None:
        where = f"{self.source}:{node.start_mark.line + 1}: "
        self.problems.append(f"{where}{path}: {problem}" if path else f"{where}{problem}")
        self.wrong.add(path)

    def record(self, base: R, node: yaml.Node, path: str) -> R:
        """Make a record of a mapping; what is wrong or absent in it is as in `base`."""
        if _is_null(node):
            return base
        known = settings_in(type(base))
        if not isinstance(node, yaml.MappingNode):
            some = ", ".join([*known][:MOST_NAMED]) + ", ..." * (len(known) > MOST_NAMED)
            problem = f"expected a mapping of settings ({some}), not {_described(node)}"
            self.refuse(node, path, problem)
            return base
        values: dict[str, object] = {}
        for key_node, value_node in node.value:
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else "?"
            key_path = f"{path}.{key}" if path else key
            setting = known.get(key)
            if setting is None:
                self.refuse(key_node, key_path, f"unknown key{_suggestion(key, known, path)}")
            elif setting.name in values:
                self.refuse(key_node, key_path, "given twice; keep one")
            else:
                value = old = getattr(base, setting.name)
                try:
                    value = self.value(setting, old, value_node, key_path)
                except ValueError as error:
                    self.refuse(value_node, key_path, str(error))
                values[setting.name] = value
        return with_values(base, values)

    def value(self, setting: Setting, old: object, node: yaml.Node, path: str) -> object:
        """The value of a setting, of a list the good items; ValueError if it is wrong."""
        if setting.section is ClusterSettings:
            self.clusters = node
            return ()
        if setting.section is not None and not setting.is_list:
            assert isinstance(old, Record)
            return self.record(old, node, path)
        if _is_null(node):
            if setting.is_optional:
                return None
            if setting.section is not None or setting.default == UNSAID:
                return setting.default
        if not setting.is_list:
            return self.item(setting, node)
        items: list[object] = []
        for index, child in enumerate(_items(node)):
            if setting.section is not None:
                items.append(self.record(setting.section(), child, f"{path}[{index}]"))
                continue
            try:
                items.append(self.item(setting, child))
            except ValueError as error:
                self.refuse(child, path, str(error))
        return tuple(items)

    def item(self, setting: Setting, node: yaml.Node) -> object:
        form = setting.form
        kind = node.tag.removeprefix(TAG)
        is_off = setting.is_optional and not setting.is_list and node.value in WORDS_FOR_NOTHING
        if is_off and not _reads(form, node.value):
            raise ValueError(f"expected {form.expected}, or null for none, not {node.value!r}")
        if not isinstance(node, yaml.ScalarNode) or kind not in form.kinds:
            raise ValueError(f"expected {form.expected}, not {_described(node)}{_hint(form, node)}")
        value = form.parse(node.value)
        if form is FILE or (form is LOG_FILE and value != "-"):
            return str(self.directory / value)
        if isinstance(value, int | float):
            return _bounded(value, setting)
        return value


def _bounded(number: float, setting: Setting) -> object:
    try:
        return msgspec.convert(number, setting.kind)
    except msgspec.ValidationError as error:
        bound = BOUND.match(str(error))
        assert bound is not None, "the form has its type"
        write = format_duration if setting.form is DURATION else "{:.12g}".format
        least = "at least" if bound[1] == ">=" else "at most"
        problem = f"must be {least} {write(float(bound[2]))}, not {write(number)}"
        raise ValueError(problem) from None


def _suggestion(key: str, known: dict[str, Setting], path: str) -> str:
    """Name the key that was likely meant: here, in another section, or else all of them."""
    if (new := RENAMED.get(f"{path}.{key}")) is not None:
        return f"; it is {new} by now"
    if re.fullmatch(rf"{CLUSTERS}\[[^.]*\]", path) is not None and key in settings_in(Settings):
        return " of a cluster; it is of the whole proxy, so set it at the top"
    own_path = re.sub(rf"^{CLUSTERS}\[[^.]*\]\.?", "", path)
    named_so = [each for each in setting_paths() if each.rpartition(".")[2].lower() == key.lower()]
    if len(named_so) > 1:  # one of other sections would be a guess: many have `enabled`
        named_so = [each for each in named_so if each.startswith(f"{own_path}.")]
    elsewhere = closest(f"{own_path}.{key}", named_so, likeness=0.5)
    if close := elsewhere or closest(key, known, likeness=0.6):
        return f"; did you mean {close}?"
    where = f"in {path}" if path else "at the top"
    return f"; known {where}: {', '.join(known)}"


def _hint(form: Form, node: yaml.Node) -> str:
    if not isinstance(node, yaml.ScalarNode):
        return ""
    plain = RESOLVER(yaml.ScalarNode, node.value, (True, False)).removeprefix(TAG)
    if node.style in ("'", '"') and plain in form.kinds:
        return f"; leave the quotes out: {node.value}"
    if node.style is None and "str" in form.kinds and not _is_null(node):
        return f'; put it in quotes: "{node.value}"' if _reads(form, node.value) else ""
    return ""


def _reads(form: Form, text: str) -> bool:
    try:
        form.parse(text)
    except ValueError:
        return False
    return True


def _is_null(node: yaml.Node) -> bool:
    return bool(node.tag == f"{TAG}null")


def _described(node: yaml.Node) -> str:
    if isinstance(node, yaml.MappingNode):
        return "a mapping"
    if isinstance(node, yaml.SequenceNode):
        return "a list"
    return "nothing" if _is_null(node) else repr(node.value)


def _items(node: yaml.Node) -> list[yaml.Node]:
    if not isinstance(node, yaml.SequenceNode):
        example = f" such as [{node.value}]" if isinstance(node, yaml.ScalarNode) else ""
        raise ValueError(f"expected a list{example}, not {_described(node)}")  # noqa: TRY004 - of a file
    return list(node.value)


def _clusters(reader: Reader, base: Settings) -> tuple[ClusterSettings, ...]:
    """The clusters of a file; a problem of one of them is its own."""
    node = reader.clusters
    if node is None or _is_null(node):
        return ()
    if not isinstance(node, yaml.SequenceNode) or len(node.value) > MAX_CLUSTERS:
        given = len(node.value) if isinstance(node, yaml.SequenceNode) else _described(node)
        problem = f"expected a list of at most {MAX_CLUSTERS} clusters, not {given}"
        reader.refuse(node, CLUSTERS, problem)
        return ()
    names: set[str] = set()
    claims: dict[Claim, str] = {}
    found = []
    for index, (path, item) in enumerate(cluster_paths(node)):
        own = Reader(reader.source, reader.directory)
        section = own.record(_section(base), item, path)
        name, is_mapping = section.name, not own.problems or isinstance(item, yaml.MappingNode)
        if name in names:
            own.refuse(item, path, f"another cluster has the name {name}; choose another one")
        elif name is None and is_mapping and f"{path}.name" not in own.wrong:
            own.refuse(item, path, "needs name")
        if name is None or name in names:
            name = f"#{index}"
        names.add(name)
        hosts: list[str] = []
        prefix: str | None = None
        for claim in _claims(own, section, item, path) if is_mapping else ():
            if (other := claims.setdefault(claim, name)) != name:
                own.refuse(item, path, f"{_written(claim)} is of the cluster {other} already")
                continue
            host, prefix = claim
            if host is not None:
                hosts.append(host)
        found.append(
            ClusterSettings(
                name=name,
                hosts=tuple(dict.fromkeys(hosts)),
                path_prefix=prefix,
                max_connections=section.max_connections,
                settings=None if own.problems else _whole(section, base),
                problems=tuple(own.problems),
            )
        )
    return tuple(found)


def cluster_paths(node: yaml.Node) -> Iterator[tuple[str, yaml.Node]]:
    """The items of `clusters`, each with its path: by its name, or else by its index."""
    seen: set[str] = set()
    for index, item in enumerate(node.value):
        pairs = item.value if isinstance(item, yaml.MappingNode) else ()
        names = [value.value for key, value in pairs if key.value == "name"]
        name = names[0] if names and isinstance(names[0], str) else ""
        is_good = DNS_LABEL.fullmatch(name) is not None and name not in seen
        seen.add(name)
        yield f"{CLUSTERS}[{name if is_good else index}]", item


def _section(base: Settings) -> ClusterSection:
    tls = base.downstream.tls
    return ClusterSection(
        tls=Certificate(certificate_file=tls.certificate_file, key_file=tls.key_file),
        **{name: getattr(base, name) for name in OF_A_CLUSTER},
    )


def _whole(section: ClusterSection, base: Settings) -> Settings:
    own: dict[str, object] = {name: getattr(section, name) for name in OF_A_CLUSTER}
    return with_values(base, own | {"downstream": {"tls": structs.asdict(section.tls)}})


def _claims(own: Reader, section: ClusterSection, item: yaml.Node, path: str) -> list[Claim]:
    if f"{path}.pathPrefix" in own.wrong:
        return []
    if section.hosts:
        return [(host, section.path_prefix) for host in section.hosts]
    if f"{path}.hosts" in own.wrong:
        return []
    if section.path_prefix is None:
        own.refuse(item, path, "needs hosts or pathPrefix, which say what requests are for it")
        return []
    return [(None, section.path_prefix)]


def _written(claim: Claim) -> str:
    host, prefix = claim
    if host is None:
        return f"the prefix {prefix}"
    return f"the host {host}" + ("" if prefix is None else f" with the prefix {prefix}")


class SettingsLines:
    """The lines of settings in a file that was read without a problem; none if it has changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines: dict[str, int] = {}
        self._named: dict[str, str] = {}
        with contextlib.suppress(OSError, UnreadableError):
            self._note(compose(read_file(path, MAX_FILE_BYTES), MOST_VALUES, DEEPEST), "")

    def _note(self, node: yaml.Node | None, prefix: str) -> None:
        if isinstance(node, yaml.MappingNode):
            for key_node, value_node in node.value:
                child = f"{prefix}.{key_node.value}".removeprefix(".")
                self._lines[child] = key_node.start_mark.line + 1
                self._note(value_node, child)
        elif isinstance(node, yaml.SequenceNode):
            items = ((f"{prefix}[{index}]", item) for index, item in enumerate(node.value))
            for path, item in cluster_paths(node) if prefix == CLUSTERS else items:
                self._lines[path] = item.start_mark.line + 1
                self._note(item, path)
        elif isinstance(node, yaml.ScalarNode) and node.value:
            self._named[str(self._path.parent / node.value)] = prefix

    def of_this_file(self, problem: str) -> str:
        """The problem with its line if it is of this file for sure, otherwise as it is.

        A setting that stands here is what it begins with, names the file that is wrong, or is
        named in full; anything else may be of a flag.
        """
        if self._is_placed(problem):
            return problem
        for named in SETTING.finditer(problem):
            item = named[0].rpartition(".")[0]  # of a list, which lacks the setting
            path = item if item.endswith("]") and named[0] not in self._lines else named[0]
            # A word within the text is a setting only with its section.
            if path in self._lines and ("." in named[0] or named.start() == 0):
                return f"{self._path}:{self._lines[path]}: {problem}"
        if self._line_of(problem.partition(": ")[0].partition(" ")[0]) is None:
            words = [word.removesuffix(":") for word in problem.split()]
            setting = next((self._named[word] for word in words if word in self._named), None)
            if setting is not None:
                return f"{self._path}:{self._lines[setting]}: {setting}: {problem}"
        return problem

    def located(self, problem: str) -> str:
        """The problem with the file, its line and its setting, if they can be told."""
        if self._is_placed(problem):
            return problem
        begins = SETTING.match(problem)
        if begins is not None and begins[0].startswith(f"{CLUSTERS}["):
            return f"{self._path}:{self._line_of(begins[0])}: {problem}"
        if (named := self.of_this_file(problem)) != problem:
            return named
        is_named = begins is not None and "." in begins[0]
        for path in SETTING.findall(problem):
            # Behind a setting, a word such as `request` is a word.
            if is_named and "." not in path:
                continue
            line = self._line_of(path)
            if line is not None:
                return f"{self._path}:{line}: {problem}"
        return f"{self._path}: {problem}"

    def _is_placed(self, problem: str) -> bool:
        if problem.startswith(f"{self._path}:"):
            return True
        own = re.match(r"(.+?):[0-9]+: ", problem)
        return own is not None and any(own[1].startswith(name) for name in self._named)

    def _line_of(self, path: str) -> int | None:
        """The line of a setting, or else of the section that it would be in."""
        while path and path not in self._lines:
            path = path.rpartition(".")[0]
        return self._lines.get(path)
