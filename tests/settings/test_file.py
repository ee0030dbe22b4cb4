"""The settings file."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from apfproxy.settings import (
    UNSAID,
    Settings,
)
from apfproxy.settings.file import (
    SettingsError,
    is_settings,
    load_settings,
    parse_settings,
)
from apfproxy.settings.reader import MAX_FILE_BYTES, setting_paths

ANNOTATED = Path(__file__).parents[2] / "config" / "apfproxy.yaml"


def problems_of(text: str) -> tuple[str, ...]:
    """The problems of a file `f` with this text."""
    with pytest.raises(SettingsError) as caught:
        parse_settings(text.encode(), "f")
    return caught.value.problems


def paths_in(node: object, prefix: str = "") -> list[str]:
    """The paths of all leaves of nested mappings."""
    if not isinstance(node, dict):
        return [prefix.removesuffix(".")]
    return [path for key, value in node.items() for path in paths_in(value, f"{prefix}{key}.")]


def test_annotated_file_gives_the_defaults() -> None:
    """The annotated file says of every setting what it is when nobody sets it.

    It has an example of the one without a default.
    """
    settings = load_settings(ANNOTATED)
    upstream = dataclasses.replace(settings.upstream, url=UNSAID)

    assert Settings() == dataclasses.replace(settings, upstream=upstream)
    assert settings.upstream.url != UNSAID


def test_annotated_file_has_every_setting() -> None:
    """No setting is missing from the annotated file, and their order is that of the records."""
    assert setting_paths() == paths_in(yaml.safe_load(ANNOTATED.read_text()))


def test_every_setting_of_the_annotated_file_has_a_comment() -> None:
    """Each section and setting has a comment above it, or stands right below one that has."""
    bare = []
    explained = False
    for line in ANNOTATED.read_text().splitlines():
        text = line.strip()
        explained = text.startswith("#") or (explained and bool(text))
        if text and not explained:
            bare.append(text)

    assert bare == ["flowControl:"]


@pytest.mark.parametrize("text", ["", "# nothing\n", "downstream:\n", "---\n"])
def test_nothing_gives_the_defaults(text: str) -> None:
    """An empty file, or an empty section, changes nothing."""
    assert Settings() == parse_settings(text.encode(), "f")


@given(st.binary(max_size=64) | st.text("{}[]:,-'\"# \nawtchlimi10s&*!|>?", max_size=64))
def test_any_bytes_give_settings_or_problems(data: bytes | str) -> None:
    """No file makes the reader fail in another way than by its own error."""
    try:
        parse_settings(data.encode() if isinstance(data, str) else data, "f")
    except SettingsError as error:
        problems = error.problems
    else:
        problems = ()

    assert all(problem.startswith("f:") for problem in problems)


def test_deep_nesting_is_refused() -> None:
    """A file nested too deeply to read is refused like any other that is no settings file."""
    assert ("f:1: nested too deeply",) == problems_of("[" * 1500)


def test_aliases_are_bounded() -> None:
    """Settings may repeat what an anchor names, but not without end."""
    bomb = "\n".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 11))
    good = "upstream: {url: 'http://a', tls: {caFile: &ca ca}}\nauthentication: {clientCaFile: *ca}"

    assert "ca" == parse_settings(good.encode(), "f").authentication.client_ca_file
    assert ("f:6: more than 100000 values, with aliases written out",) == problems_of(
        f"a0: &a0 x\n{bomb}"
    )
    assert ("f:1: alias *a is within what it stands for",) == problems_of("a: &a [*a]")


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    """The objects of a settings file are found wherever the process was started."""
    path = tmp_path / "settings.yaml"
    path.write_text("flowControl: {objects: [a.yaml, /etc/b]}")

    assert (str(tmp_path / "a.yaml"), "/etc/b") == load_settings(path).flow_control.objects


@pytest.mark.parametrize(("text", "expected"), [("a.log", "{}/a.log"), ('"-"', "-"), ("", None)])
def test_access_log(tmp_path: Path, text: str, expected: str | None) -> None:
    """It is by the settings file, unless it is standard output."""
    path = tmp_path / "settings.yaml"
    path.write_text(f"accessLog: {{path: {text}}}")

    assert load_settings(path).access_log.path == (expected and expected.format(tmp_path))


def test_missing_file(tmp_path: Path) -> None:
    """A file that is not there is named, with the system's reason."""
    path = tmp_path / "settings.yaml"
    with pytest.raises(SettingsError) as caught:
        load_settings(path)

    assert (f"{path}: No such file or directory",) == caught.value.problems


def test_large_file(tmp_path: Path) -> None:
    """A file far too large for settings is refused before it is parsed."""
    path = tmp_path / "settings.yaml"
    path.write_bytes(b"#" * (MAX_FILE_BYTES + 1))
    with pytest.raises(SettingsError) as caught:
        load_settings(path)

    assert (f"{path}: larger than 1048576 bytes; is it the right file?",) == caught.value.problems


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"upstream: {}\nlogLevel: x\n", True),
        (b"upstream: {}\nkind: x\n", False),
        (b"{}", False),
        (b"", False),
        (b"a: [", False),
        (b"[1]: 2", False),
    ],
)
def test_what_settings_look_like(data: bytes, expected: bool) -> None:
    """A mapping that has settings only."""
    assert expected == is_settings(data)
