"""Where the settings of a file stand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from apfproxy.settings.lines import SettingsLines

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("problem", "located"),
    [
        ("upstream.url: wrong", "~:1: upstream.url: wrong"),
        ("upstream.tokenFile: lacking", "~:1: upstream.tokenFile: lacking"),
        ("jwt[0].keysFile: wrong", "~: jwt[0].keysFile: wrong"),
        ("authentication.jwt[0].caFile: x", "~:4: authentication.jwt[0].caFile: x"),
        ("@/keys: is no JWKS", "~:4: authentication.jwt[0].keysFile: @/keys: is no JWKS"),
        ("the file @/keys is", "~:4: authentication.jwt[0].keysFile: the file @/keys is"),
        ("@/keys:7: broken", "@/keys:7: broken"),
        ("give either admin or drain", "~:5: give either admin or drain"),
        ("flowControl.seats: no admin", "~: flowControl.seats: no admin"),
        ("nothing known", "~: nothing known"),
    ],
)
def test_where_a_problem_is(tmp_path: Path, problem: str, located: str) -> None:
    """What is found out later has the line of its setting, of its section, or of the file."""
    path = tmp_path / "settings.yaml"
    path.write_text(
        "upstream: {url: 'http://a'}\nauthentication:\n  jwt:\n  - {keysFile: keys}\nadmin: ~\n"
    )
    given, expected = (
        text.replace("~", str(path)).replace("@", str(tmp_path)) for text in (problem, located)
    )

    assert expected == SettingsLines(path).located(given)


@pytest.mark.parametrize(
    ("problem", "placed"),
    [
        ("upstream.url: wrong", "~:1: upstream.url: wrong"),
        ("upstream.identity (--x): needs", "upstream.identity (--x): needs"),
        ("@/keys: is no JWKS", "~:2: authentication.tokenFile: @/keys: is no JWKS"),
        ("@/keys:7: broken", "@/keys:7: broken"),
        ("~:2: wrong", "~:2: wrong"),
        ("cannot listen; give another admin", "cannot listen; give another admin"),
        ("only one of upstream.dns, upstream.url", "~:1: only one of upstream.dns, upstream.url"),
    ],
)
def test_what_a_flag_may_have_said(tmp_path: Path, problem: str, placed: str) -> None:
    """Only what is surely of the file has a line there."""
    path = tmp_path / "settings.yaml"
    path.write_text("upstream: {url: 'http://a'}\nauthentication: {tokenFile: keys}\nadmin: ~\n")
    given, expected = (
        text.replace("~", str(path)).replace("@", str(tmp_path)) for text in (problem, placed)
    )

    assert expected == SettingsLines(path).of_this_file(given)
