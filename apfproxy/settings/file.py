"""The settings file: YAML with camelCase keys, as those of Kubernetes' components have."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from apfproxy.base.errors import OperatorError
from apfproxy.base.files import read_file
from apfproxy.objects.documents import UnreadableError, compose
from apfproxy.settings import Settings
from apfproxy.settings.cluster_reader import read_clusters
from apfproxy.settings.reader import (
    CLUSTERS,
    DEEPEST,
    MAX_FILE_BYTES,
    MOST_VALUES,
    SettingsReader,
    setting_key,
)

if TYPE_CHECKING:
    from collections.abc import Callable


class SettingsError(OperatorError):
    """The settings file cannot be used; the operator's fault.

    Attributes:
        problems: One line each, with file, line and path.
    """

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def unchanged(settings: Settings) -> Settings:
    """The settings as the file has them."""
    return settings


def load_settings(path: Path, over: Callable[[Settings], Settings] = unchanged) -> Settings:
    """Read a settings file; its relative paths begin at its directory.

    Args:
        path: Of the file.
        over: What wins over the file, such as flags.  A cluster has it where it does not say
            otherwise itself.

    Raises:
        SettingsError: It cannot be used.  What is wrong with a cluster alone is in its `problems`.
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
    over: Callable[[Settings], Settings] = unchanged,
) -> Settings:
    """Make settings of the bytes of a file named `source`; an empty one gives the defaults."""
    try:
        # Nodes rather than values: they know their lines, and keep a key that stands twice.
        root = compose(data, MOST_VALUES, DEEPEST)
    except UnreadableError as error:
        line = f":{error.line}" if error.line else ""
        raise SettingsError((f"{source}{line}: {error}",)) from error
    if root is None:
        return over(Settings())
    reader = SettingsReader(source, directory)
    # Clusters begin with the settings of the top level, wherever in the file these stand.
    settings = over(reader.record(Settings(), root, ""))
    clusters = read_clusters(reader, reader.apart.get(CLUSTERS), settings)
    if reader.problems:
        problems = [problem for each in clusters for problem in each.problems]
        raise SettingsError((*reader.problems, *problems))
    return dataclasses.replace(settings, clusters=clusters)


def is_settings(data: bytes) -> bool:
    """Whether the bytes of a file are settings, rather than something else in YAML."""
    try:
        root = compose(data[:MAX_FILE_BYTES], MOST_VALUES, DEEPEST)
    except UnreadableError:
        return False
    if not isinstance(root, yaml.MappingNode) or not root.value:
        return False
    known = {setting_key(field) for field in dataclasses.fields(Settings)}
    return all(isinstance(key, yaml.ScalarNode) and key.value in known for key, _ in root.value)
