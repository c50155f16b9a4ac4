"""What generated programs have found: the smallest program of each group, as a case with its program."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import yaml

from conformance.drivers.adapter import Adapter
from conformance.emit.programs import EmitFailure, texts
from conformance.fuzz.campaign import Campaign, Found, Key
from conformance.paths import Paths
from conformance.writing import write_bytes


def write(campaign: Campaign, paths: Paths, adapter: Adapter) -> dict[Key, Path]:
    """Write the program of each group below the cases' folder. Raises `WriteError`."""
    files: dict[Key, Path] = {}
    for found in campaign.found.values():
        folder = paths.cases / "found"
        folder.mkdir(exist_ok=True)
        name = name_of(found.key)
        file = folder / f"{name}.yaml"
        write_bytes(file, as_yaml(name, found).encode())
        variant = next(t.variant for t in campaign.tallies if t.variant.id == found.key[0])
        (text,) = texts(adapter, [(found.program.case, variant)]).values()
        if not isinstance(text, EmitFailure):
            write_bytes(folder / f"{name}.py", text.text.encode())
        files[found.key] = file
    return files


def name_of(key: Key) -> str:
    """The name of a group's file, and of its case."""
    digest = hashlib.sha256("\n".join(key).encode()).hexdigest()[:8]
    return f"{key[0].replace('/', '-')}-{digest}"


def as_yaml(name: str, found: Found) -> str:
    """A file of cases with the program of a group."""
    told = {
        "title": f"A generated program, {found.key[1]} on {found.key[0]}",
        "source": "conformance fuzz",
        "why": f"{found.shown.verdict.status}: {found.shown.verdict.message}"[:500],
    }
    case: dict[str, Any] = json.loads(json.dumps({**found.program.raw, **told}))
    file = {"family": "found", "cases": {name: case}}
    text: str = yaml.safe_dump(file, sort_keys=False, default_flow_style=None, width=100)
    return text
