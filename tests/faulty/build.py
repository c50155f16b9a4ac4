"""Adapters with one fault each, made from a shipped adapter and a file with a faulty recompute."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import yaml

from conformance.adapter import Adapter, read_adapter

ROOT = Path(__file__).parents[2]
IMPLEMENTATIONS = Path(__file__).parent / "implementations"


@dataclass(frozen=True)
class Swap:
    """Where a framework's spelling names its recompute, what stands there instead, and for which
    variants."""

    named: str
    instead: str
    variants: tuple[str, ...]


SWAPS = {
    "torch": Swap(
        "from torch.utils.checkpoint import checkpoint",
        "from faulty import checkpoint",
        ("reentrant", "non-reentrant", "selective"),
    ),
    "reference": Swap("tape.recompute(", "faulty.recompute(", ("float64",)),
}


def build(framework: str, fault: str, folder: Path) -> Adapter:
    """The adapter of a framework with the faulty implementation in place of its recompute."""
    made = folder / f"{framework}-{fault}"
    shutil.copytree(ROOT / "adapters" / framework, made)
    swap = SWAPS[framework]
    spelling = made / "spelling.py"
    text = spelling.read_text("utf-8")
    assert swap.named in text, "the spelling no longer names its recompute this way"
    text = text.replace(swap.named, swap.instead)
    if framework == "reference":
        text = text.replace('"import tape")', '"import tape", "import faulty")')
        assert "import faulty" in text
    spelling.write_text(text, "utf-8")
    shutil.copy(IMPLEMENTATIONS / framework / f"{fault}.py", made / "faulty.py")
    manifest = yaml.safe_load((made / "adapter.yaml").read_text("utf-8"))
    manifest["name"] = f"{framework}-{fault.replace('_', '-')}"
    manifest["variants"] = {name: manifest["variants"][name] for name in swap.variants}
    manifest["beside"] = [*manifest.get("beside", []), "faulty.py"]
    (made / "adapter.yaml").write_text(yaml.safe_dump(manifest), "utf-8")
    (made / "known.yaml").write_text("[]\n", "utf-8")
    return read_adapter(made)
