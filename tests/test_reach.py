"""Features of what gradients reach and read: a program that has each, and one that lacks it."""

from __future__ import annotations

import json

import pytest

from conformance.language.features import features_of
from conformance.language.load import load_text

SIN = "{recompute: r(x), body: y = sin(x)}"
TWO = "{recompute: r(x), body: h = cos(x); y = sin(h)}"
HELD = "{recompute: r(c), body: 'y = multiply(c, w)'}"
#: A feature, the node of a program that has it, and the one that lacks it.
TABLE = [
    ("through:sin", SIN, "{recompute: r(x), body: h = sin(x); y = cos(x)}"),
    ("needs-rerun", TWO, SIN),
    ("needs-rerun", TWO, "{recompute: r(x), save: [cos], body: h = cos(x); y = sin(h)}"),
    ("needs-inner-value", TWO, "{recompute: r(x), body: y = exp(x)}"),
    ("in-graph", SIN, "{recompute: r(c), body: y = sin(c)}"),
    ("in-graph", HELD, "{recompute: r(c), body: y = sin(x)}"),
    ("no-argument-requires-gradient", HELD, SIN),
    (
        "unseeded-draw",
        "{recompute: r(x), body: y = dropout(x)}",
        "{recompute: r(x), body: 'y = dropout(x, seed=1)'}",
    ),
    (
        "saved-read-twice",
        "{recompute: r(x), body: 'y = custom_sin(x, reads=2)'}",
        "{recompute: r(x), body: y = custom_sin(x)}",
    ),
    (
        "keeps-what-its-own-gradient-reads",
        "{recompute: r(x), save: [exp], body: y = exp(x)}",
        "{recompute: r(x), save: [sin], body: h = sin(x); y = exp(h)}",
    ),
]  # fmt: skip


def features(node: str) -> frozenset[str]:
    text = json.dumps(
        {
            "family": "fam",
            "cases": {
                "one": {
                    "title": "A title",
                    "source": "A source",
                    "why": "A reason",
                    "inputs": {
                        "x": {"shape": [2, 3], "normal": 1.0},
                        "c": {"shape": [2, 3], "normal": 1.0, "gradient": False},
                    },
                    "parameters": {"w": {"shape": [2, 3], "normal": 1.0}},
                    "program": ["NODE", "z = multiply(y, y)"],
                }
            },
        }
    )
    (case,) = load_text(text.replace('"NODE"', node), "a case")
    return features_of(case).case


@pytest.mark.parametrize(("feature", "has", "lacks"), TABLE)
def test_a_region_has_a_feature(feature: str, has: str, lacks: str) -> None:
    assert feature in features(has)
    assert feature not in features(lacks)
