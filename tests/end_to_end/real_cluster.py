"""A real Kubernetes API to compare with, where the environment names one.

`KUBECONFIG` names a kubeconfig; or `APFPROXY_REAL_APISERVER` a URL such as https://127.0.0.1:6443,
`APFPROXY_REAL_APISERVER_TOKEN` a bearer token and `APFPROXY_REAL_APISERVER_CA` a file with its CA.
The user must be allowed all: tests make objects there, and delete them again.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

URL, TOKEN, AUTHORITY = (
    "APFPROXY_REAL_APISERVER",
    "APFPROXY_REAL_APISERVER_TOKEN",
    "APFPROXY_REAL_APISERVER_CA",
)
KUBECONFIGS = [path for path in os.environ.get("KUBECONFIG", "").split(os.pathsep) if path][:1]

needs_real_cluster = pytest.mark.skipif(
    not KUBECONFIGS and not os.environ.get(URL),
    reason=f"neither KUBECONFIG nor {URL} names a Kubernetes API",
)


def kubeconfig(folder: Path) -> str:
    if not os.environ.get(URL):
        return KUBECONFIGS[0]
    parts = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "real",
        "contexts": [{"name": "real", "context": {"cluster": "real", "user": "real"}}],
        "clusters": [
            {
                "name": "real",
                "cluster": {
                    "server": os.environ[URL],
                    "certificate-authority": str(Path(os.environ[AUTHORITY]).resolve()),
                },
            }
        ],
        "users": [{"name": "real", "user": {"token": os.environ[TOKEN]}}],
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(parts))
    path.chmod(0o600)
    return str(path)
