"""The files of `config/`, which an installed package carries: settings, manifests, the dashboard.

They lie in `config/` of a checkout; a wheel has them in the directory `shipped` of the package, as
`pyproject.toml` says.
"""

from __future__ import annotations

from pathlib import Path

INSTALLED = Path(__file__).parents[1] / "shipped"
CHECKOUT = Path(__file__).parents[2] / "config"
DIRECTORY = INSTALLED if INSTALLED.is_dir() else CHECKOUT


def shipped(path: str) -> Path:
    """The file or directory of a path within `config/`, such as `kubernetes/gateway`."""
    return DIRECTORY / path
