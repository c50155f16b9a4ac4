"""What generated programs have found: a program of each group, as a case and as what was run."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import yaml

from conformance.drivers.adapter import Adapter
from conformance.emit.programs import Text, texts
from conformance.fuzz.campaign import Found
from conformance.language.load import FOUND
from conformance.writing import write_text


def file_of(found: Found, cases: Path) -> Path:
    """The file of a group below a folder of cases: the same one whenever it is found."""
    digest = hashlib.sha256("\n".join(found.key).encode()).hexdigest()[:8]
    return cases / FOUND / f"{found.key[0].replace('/', '-')}-{digest}.yaml"


def write(found: Found, cases: Path, adapter: Adapter) -> None:
    """Write the program of a group, as a case and as a program. Raises `WriteError`."""
    file = file_of(found, cases)
    variant, check, _ = found.key
    told = {
        "title": f"A generated program, {check} on {variant}",
        "source": "conformance fuzz",
        "why": found.message[:1000],
    }
    case = json.loads(json.dumps({**found.program.raw, **told}))  # as YAML has it, without aliases
    content = {"family": FOUND, "cases": {file.stem: case}}
    dumped = yaml.safe_dump(
        content, sort_keys=False, default_flow_style=None, allow_unicode=True, width=100
    )
    write_text(file, dumped)
    (text,) = texts(adapter, [(found.program.case, found.variant)]).values()
    if isinstance(text, Text):
        write_text(file.with_suffix(".py"), text.text)
