"""Kubernetes' own schemas of the objects that a pilot sends and reads: kubernetes-1.37.json.

They are those of Kubernetes' API specification (Apache License 2.0), as the package kubernetes-validate 1.37.0 has
them in ``v1.37.0-local-strict/_definitions.json``: no other field than these is allowed. ``python schemas.py FILE``
makes the part that is here of that file, without descriptions.
"""

from __future__ import annotations

import functools
import json
import re
import sys
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("kubernetes-1.37.json")
NAMES = {
    "Job": "io.k8s.api.batch.v1.Job",
    "Service": "io.k8s.api.core.v1.Service",
    "Secret": "io.k8s.api.core.v1.Secret",
    "PodList": "io.k8s.api.core.v1.PodList",
    "Role": "io.k8s.api.rbac.v1.Role",
    "Status": "io.k8s.apimachinery.pkg.apis.meta.v1.Status",
}


@functools.cache
def _validator(kind: str) -> Any:
    from jsonschema import Draft7Validator

    definitions = json.loads(FILE.read_text())["$defs"]
    return Draft7Validator({"$ref": f"#/$defs/{NAMES[kind]}", "$defs": definitions})


def complaints(document: dict[str, Any]) -> list[str]:
    """What is wrong with an object; none if it is as its schema says."""
    if document.get("kind") not in NAMES:
        return [f"no schema of {document.get('kind')!r}"]
    errors = _validator(document["kind"]).iter_errors(document)
    return [f"{'.'.join(map(str, it.absolute_path))}: {it.message:.200}" for it in errors]


def _part(definitions: dict[str, Any]) -> dict[str, Any]:
    """The definitions that those of `NAMES` need."""
    found: dict[str, Any] = {}
    todo = [*NAMES.values()]
    while todo:
        if (name := todo.pop()) in found:
            continue
        text = json.dumps(_plain(definitions[name])).replace('"/api/_definitions.json#/$defs/', '"#/$defs/')
        found[name] = json.loads(text)
        todo += re.findall(r'"#/\$defs/([^"]+)"', text)
    return {"$defs": found}


def _plain(node: Any, *, is_properties: bool = False) -> Any:
    """Without descriptions and extensions."""
    if isinstance(node, list):
        return [_plain(it) for it in node]
    if not isinstance(node, dict):
        return node
    kept = {k: v for k, v in node.items() if is_properties or not (k == "description" or k.startswith("x-kubernetes"))}
    return {k: _plain(v, is_properties=k == "properties" and not is_properties) for k, v in kept.items()}


if __name__ == "__main__":
    part = _part(json.loads(Path(sys.argv[1]).read_text())["$defs"])
    FILE.write_text(json.dumps(part, sort_keys=True, separators=(",", ":")) + "\n")
