"""Checks manifests against the types of the Kubernetes client for Python."""

from __future__ import annotations

import importlib
import re
from typing import Any

client: Any = importlib.import_module("kubernetes.client")

COLLECTION = re.compile(r"(list|dict)[\[(](?:str, )?(\w+)[\])]", re.IGNORECASE)
"""Such as `list[V1Container]` and `Dict[str, str]`, as releases of the client write them."""
SCALARS: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "bytes": (str,),
    "int": (int,),
    "bool": (bool,),
    "object": (str, int),
    "float": (int, float),
}
"""`object` is what may be a number or a text, as a port; `bytes` are Base64."""


def problems_of(manifest: dict[str, Any]) -> list[str]:
    group = manifest["apiVersion"].rpartition("/")[0].removesuffix(".k8s.io").partition(".")[0]
    version = manifest["apiVersion"].rpartition("/")[2].capitalize()
    names = (f"{version}{manifest['kind']}", f"{group.capitalize()}{version}{manifest['kind']}")
    model = next(name for name in names if hasattr(client, name))
    return list(_problems(manifest, model, manifest["kind"]))


def _problems(value: Any, kind: str, path: str) -> list[str]:  # noqa: ANN401 - YAML
    collection = COLLECTION.fullmatch(kind)
    if collection is not None:
        items = value
        if collection[1].lower() == "list" and isinstance(value, list):
            items = dict(enumerate(value))
        if not isinstance(items, dict):
            return [f"{path} is no {collection[1]}"]
        return [
            problem
            for key, item in items.items()
            for problem in _problems(item, collection[2], f"{path}[{key}]")
        ]
    if kind in SCALARS:
        return [] if type(value) in SCALARS[kind] else [f"{path} is no {kind}: {value!r}"]
    model = getattr(client, kind)
    if not isinstance(value, dict):
        return [f"{path} is no {kind}"]
    names = {name: attribute for attribute, name in model.attribute_map.items()}
    found = [f"{path}.{name}: unknown field" for name in value.keys() - names.keys()]
    known = {names[name]: item for name, item in value.items() if name in names}
    for attribute, item in known.items():
        name = model.attribute_map[attribute]
        found += _problems(item, model.openapi_types[attribute], f"{path}.{name}")
    try:
        model(**known)
    except ValueError as error:
        found.append(f"{path}: {error}")
    return found
