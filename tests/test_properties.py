"""Features of how tensors go in and out of regions, and of what gradients read: a small case for
each."""

from __future__ import annotations

import json

import pytest

from conformance.language.features import features_of
from conformance.language.load import load_text

SIN = {"recompute": "r(x)", "body": "y = sin(x)"}
TWICE = {"recompute": "r(x)", "gives": ["y", "u"], "body": "y = sin(x); u = cos(x)"}
OF_ONE = {"recompute": "r", "takes": [{"a": "x"}], "body": "y = sin(x)"}
OF_DICT = {"recompute": "r", "takes": [{"a": "x", "b": "w"}], "body": "y = multiply(x, w)"}
CHANGED = "h = sin(x); s = cos(h); g = add_in_place(h, 0.5); y = multiply(s, g)"

#: A feature, and the programs that have it and that lack it; the last statement's result is the output.
TABLE = [
    ("dict-of-several", [OF_DICT, "z = sin(y)"], [OF_ONE, "z = sin(y)"]),
    ("gradient-in-dict", [OF_DICT, "z = sin(y)"], [OF_DICT, "z = multiply(x, w)"]),
    ("gradient-reads-result", [SIN, "z = multiply(y, y)"], [SIN, "z = multiply(y, 2.0)"]),
    ("result-without-loss", [TWICE, "z = sin(y)"], [TWICE, "z = add(y, u)"]),
    (
        "changed-after-read",
        [{**SIN, "body": CHANGED}, "z = sin(y)"],
        [{**SIN, "body": CHANGED.replace("s = cos(h); ", "").replace("(s, g)", "(g, g)")}, "z = sin(y)"],
    ),
    ("keeps-last:exp", [{**SIN, "body": "h = sin(x); e = exp(h); y = negative(e)"}, "z = sin(y)"],
    [SIN, "z = exp(y)"]), ]  # fmt: skip


def features(program: list[object], outputs: object = "z") -> frozenset[str]:
    case = {
        "title": "A title",
        "source": "A source",
        "why": "A reason",
        "inputs": {"x": {"shape": [2, 3], "normal": 1.0}},
        "parameters": {"w": {"shape": [2, 3], "normal": 1.0}},
        "program": program,
        "outputs": outputs,
    }
    (loaded,) = load_text(json.dumps({"family": "fam", "cases": {"one": case}}), "a case")
    return features_of(loaded).case


@pytest.mark.parametrize(("feature", "has", "lacks"), TABLE, ids=[row[0] for row in TABLE])
def test_a_case_has_a_feature(feature: str, has: list[object], lacks: list[object]) -> None:
    assert feature in features(has)
    assert feature not in features(lacks)


def test_a_program_returns_a_dict() -> None:
    assert "dict-output" in features([SIN, "z = sin(y)"], {"result": "z"})
    assert "dict-output" not in features([SIN, "z = sin(y)"])
