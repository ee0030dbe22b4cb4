"""What `/version` answers: which Kubernetes this server behaves like, and what it is.

Source: the type `Info` of apimachinery's `version` package; clients want `major`, `minor` and a
semantic `gitVersion`, and kubectl warns where `minor` is far from its own.
"""

from __future__ import annotations

import platform
import sys

from apfproxy import __version__

MAJOR = "1"
MINOR = "36"
"""The release of Kubernetes whose behaviour this server has."""

GO_SYSTEMS = {"win32": "windows"}
"""System as Python names it to system as Go does, where they differ."""
GO_MACHINES = {"x86_64": "amd64", "AMD64": "amd64", "aarch64": "arm64", "i686": "386"}
"""Machine as Python names it to machine as Go does, where they differ."""


def version_document() -> dict[str, str]:
    """The document of `/version`.

    Nothing of it is made up: there is neither a commit nor a Go compiler to name.
    """
    machine = platform.machine()
    return {
        "major": MAJOR,
        "minor": MINOR,
        "emulationMajor": MAJOR,
        "emulationMinor": MINOR,
        "minCompatibilityMajor": MAJOR,
        "minCompatibilityMinor": str(int(MINOR) - 1),
        "gitVersion": f"v{MAJOR}.{MINOR}.0+apfproxy-{__version__}",
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "",
        "goVersion": "",
        "compiler": sys.implementation.name,
        "platform": f"{GO_SYSTEMS.get(sys.platform, sys.platform)}/"
        f"{GO_MACHINES.get(machine, machine)}",
    }
