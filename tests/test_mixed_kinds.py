"""Variants in which regions inside others are of another kind than those around them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from conformance.drivers.adapter import find_adapter
from conformance.emit.programs import Text, texts
from tests.suite_cases import BY_ID

ADAPTERS = Path(__file__).resolve().parents[1] / "adapters"
#: Each variant: whether its outermost regions are reentrant, and whether those inside are.
MIXED = {
    "torch/reentrant-around-non-reentrant": (True, False),
    "torch/non-reentrant-around-reentrant": (False, True),
    "paddle/reentrant-around-hook": (True, False),
    "paddle/hook-around-reentrant": (False, True),
    "mindspore/pynative-reentrant-around-non-reentrant": (True, False),
    "mindspore/pynative-non-reentrant-around-reentrant": (False, True),
}


@pytest.mark.parametrize("name", MIXED)
@pytest.mark.parametrize("case", ["nested/depth-3-operation-first", "nested/depth-3-region-first"])
def test_the_outermost_region_is_of_one_kind_and_all_inside_of_the_other(
    name: str, case: str
) -> None:
    adapter = find_adapter(name.partition("/")[0], ADAPTERS)
    variant = adapter.variant(name.partition("/")[2])
    text = texts(adapter, [(BY_ID[case], variant)])[case, name]
    assert isinstance(text, Text)
    # Regions are defined before they are called: the innermost call is written first.
    kinds = [found == "True" for found in re.findall(r"use_reentrant=(\w+)", text.text)]
    outer, inner = MIXED[name]
    assert kinds == [inner, inner, outer]
