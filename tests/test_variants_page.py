"""docs/variants.md names every variant, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from conformance.drivers.adapter import all_adapters

ROOT = Path(__file__).resolve().parents[1]
#: An adapter and a variant in a table's second column.
_NAMED = re.compile(r"`([a-z]+/[a-z0-9-]+)`")


def _named(page: str) -> set[str]:
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| ")]
    return {name for row in rows for name in _NAMED.findall(row[1])}


def test_the_page_names_every_variant_and_no_other() -> None:
    page = (ROOT / "docs" / "variants.md").read_text("utf-8")
    there = {v.id for a in all_adapters(ROOT / "adapters") for v in a.variants}
    assert _named(page) == there


def test_a_variant_that_is_not_named_is_found() -> None:
    assert _named("| way | `torch/reentrant`, `torch/x` | see `torch/other` |") == {
        "torch/reentrant",
        "torch/x",
    }
