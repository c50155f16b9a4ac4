"""The options of a run, declared once, in `options.yaml`: for pytest, and for `conformance run`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec


def _told(written: Mapping[str, Any]) -> Mapping[str, Any]:
    """What pytest is told of an option."""
    named = {"type": {"Path": Path, "float": float}[written["type"]]} if "type" in written else {}
    empty: Mapping[str, Any] = {"default": []} if written.get("action") == "append" else {}
    return {**written, **named, **empty}


#: By name, what pytest is told of an option.
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    name: _told(written)
    for name, written in msgspec.yaml.decode(
        Path(__file__).with_suffix(".yaml").read_bytes()
    ).items()
}


def listed() -> str:
    """The options as `--help` shows them, a line or more for each."""
    lines = []
    for name, told in OPTIONS.items():
        left = f"{name} {told['metavar']}" if "metavar" in told else name
        lines.append(f"  {left}\n      {told['help']}")
    return "\n".join(lines)
