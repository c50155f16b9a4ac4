"""Evidence made by hand, for the checks: cases from small texts, runs and expectations as values.

The right answers below were worked out on paper: `x` is [[1, 2]], `w` the identity, so that
h = x @ w = [[1, 2]], y = 3 * h (`multiply(h, c)` with c = 3) and the loss is sum(y) = 9; the gradient
of x is [[3, 3]], and that of w is x.T @ [[3, 3]] = [[3, 3], [6, 6]].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from conformance.drivers.adapter import Variant, VariantModel
from conformance.judge.checks import Evidence
from conformance.language.load import load_text
from conformance.model.case import Case
from conformance.model.observation import (
    RESOLUTION,
    Allowed,
    Array,
    Execution,
    Expected,
    ExpectedMemory,
    Leaf,
    Observation,
    Phase,
    RandomSample,
    Run,
)

_TEXT = """\
family: made
cases:
  by-hand:
    title: Made by hand
    source: The suite's own tests
    why: Every number in it is known
    inputs:
      x: {values: [[1, 2]]}
      c: {values: [[3, 3]], gradient: false}
      flag: {value: true}
    parameters:
      w: {values: [[1, 0], [0, 1]]}
    state:
      count: {shape: [2], full: 0.0}
    program:
      - recompute: block
        takes: x
        gives: y
        body:
          - h = matmul(x, w)
          - y = multiply(h, c)
      - z = add(y, c)
    outputs: [y, {z: z}]
    gradients: {of: sum(y), wrt: [x, w]}
"""
_DROPOUT = ("y = multiply(h, c)", "y = dropout(h, p=0.5)")


def case(*changes: tuple[str, str]) -> Case:
    """The case with some of its text replaced."""
    text = _TEXT
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    (made,) = load_text(text, "made.yaml")
    return made


def procedure(text: str) -> tuple[str, str]:
    return ("    gradients:", f"    procedure: {text}\n    gradients:")


PLAIN = case()
RANDOM = case(_DROPOUT)
#: What is drawn is read by nothing.
UNREAD = case(("y = multiply(h, c)", "q = dropout(h, p=0.5)\n          - y = multiply(h, c)"))
SLOPES = case(("y = multiply(h, c)", "y = rrelu(h)"))
FREE = case(_DROPOUT, ("takes: x", "takes: x\n        preserve_rng: false"))
#: One region that must draw alike, one that need not.
BOTH = case(
    _DROPOUT,
    (
        "      - z = add(y, c)",
        "      - recompute: free\n        takes: y\n        gives: z\n        preserve_rng: false\n"
        "        body: [z = dropout(y)]",
    ),
)
STATELESS = case(("    state:\n      count: {shape: [2], full: 0.0}\n", ""))
TWICE = case(procedure("second_backward"))
ORDER = case(procedure("second_order"))
TRAIN = case(procedure("{train: {steps: 2, learning_rate: 0.1}}"))
#: The sum of all elements of the gradient of w, in multiples of the loss: 9 starts at 9.
_TOTAL = (("w: {values: [[1, 0], [0, 1]]}", "w: {shape: [2, 2], full: 1.0}"), _DROPOUT)
TOTAL = case(*_TOTAL, ("wrt: [x, w]}", "wrt: [x, w], totals: {w: 2.0}}"))
UNSEEDED = case(
    *_TOTAL,
    ("wrt: [x, w]}", "wrt: [x, w], totals: {w: 2.0}}"),
    ("    inputs:", "    seeded: false\n    inputs:"),
)
TRAINED_TOTAL = case(
    *_TOTAL,
    ("wrt: [x, w]}", "wrt: [x, w], totals: {w: 2.0}}"),
    procedure("{train: {steps: 2, learning_rate: 0.1}}"),
)
LARGE = case(("x: {values: [[1, 2]]}", "x: {shape: [8192, 2], full: 1.0}"))
ON_LAW = case(
    ("    gradients:", "    law: {name: each-layer, at: 1, constants: {saved: 1}}\n    gradients:")
)
_RELEASE = ("    gradients:", "    release: 6\n    gradients:")
REPEATED = case(_RELEASE)
REPEATED_LEFT = case(_RELEASE, ("gives: y\n", "gives: [y, h]\n        left: [h]\n"))
HOOKED = case(
    ("gradients: {of: sum(y), wrt: [x, w]}", "gradients: {of: sum(y), wrt: [x, w], hooks: [w]}")
)
NOTED = case(
    ("h = matmul(x, w)", "q = matmul(x, w)\n          - h = noted_sin(q)"),
    ("    state:\n      count: {shape: [2], full: 0.0}\n", ""),
)
INFERENCE = case(("    gradients: {of: sum(y), wrt: [x, w]}", "    procedure: inference"))
_GRADIENTS = "    gradients: {of: sum(y), wrt: [x, w]}\n"
ERROR = case((_GRADIENTS, f"{_GRADIENTS}    error: {{type: ValueError}}\n"))
AS_PLAIN = case((_GRADIENTS, f"{_GRADIENTS}    error: {{as: plain}}\n"))
AS_PLAIN_RANDOM = case(_DROPOUT, (_GRADIENTS, f"{_GRADIENTS}    error: {{as: plain}}\n"))
GOOD_AFTER = case(
    (_GRADIENTS, f"{_GRADIENTS}    error: {{type: ValueError, then: {{flag: false}}}}\n")
)


def array(*numbers: Any, dtype: str = "float32") -> Array:
    return np.array(numbers, dtype=dtype)


def leaf(*rows: Any, dtype: str = "float32") -> Leaf:
    return Leaf(array(*rows, dtype=dtype), dtype)


OUTPUTS: Any = (leaf([3, 6]), {"z": leaf([6, 9])})
GRADIENTS: dict[str, Array | None] = {"x": array([3, 3]), "w": array([3, 3], [6, 6])}


def executions(counts: Mapping[str, int]) -> tuple[Execution, ...]:
    """`{"block forward": 1, "block.y rerun": 1, ".z forward": 1}`"""
    found = []
    for key, count in counts.items():
        place, phase = key.split()
        region, _, statement = place.partition(".")
        found.append(Execution(region, statement, phase, count))  # type: ignore[arg-type]
    return tuple(found)


def draw(label: str, phase: Phase, *numbers: float, region: str = "block") -> RandomSample:
    return RandomSample(region, label, phase, array(*numbers))


FORWARD = {"block forward": 1, "block.h forward": 1, "block.y forward": 1, ".z forward": 1}
RERUN = {"block rerun": 1, "block.h rerun": 1}
DRAWN = draw("y", "forward", 2, 0)
CONTROL = Run(
    outputs=OUTPUTS,
    losses=(9.0,),
    gradients=GRADIENTS,
    state={"count": array(1, 1)},
    executions=executions(FORWARD),
    generators={"implicit": array(0.25)},
    retained=10 * 2**20,
    peak=30 * 2**20,
    held=(100, 200, 200, 200, 200, 200),
    alive=(3, 4, 4, 4, 4, 4),
)
SEEN = replace(
    CONTROL, executions=executions({**FORWARD, **RERUN}), retained=2 * 2**20, peak=12 * 2**20
)
COUNTS = {
    ("block", "", "forward"): Allowed((1,)),
    ("block", "", "rerun"): Allowed((1,)),
    ("block", "h", "forward"): Allowed((1,)),
    ("block", "h", "rerun"): Allowed((1,)),
    ("block", "y", "forward"): Allowed((1,)),
    ("block", "y", "rerun"): Allowed((0, 1), "its result may be kept"),
    ("", "z", "forward"): Allowed((1,)),
    ("", "z", "rerun"): Allowed((0,)),
}
#: In units of 1 MiB: 10 kept plain, 2 with recompute; at the peak 30 and 10.
MEMORY = ExpectedMemory(
    (10 * 2**20, 11 * 2**20),
    (2**20, 2 * 2**20),
    8 * 2**20,
    2**20,
    (30 * 2**20, 10 * 2**20),
)


def doubled(values: Mapping[str, Array | None]) -> dict[str, Array | None]:
    return {k: None if v is None else v.astype(np.float64) for k, v in values.items()}


EXPECTED = Expected(
    outputs=(Leaf(array([3, 6], dtype="float64"), "float64"), {"z": leaf([6, 9], dtype="float64")}),
    losses=(9.0,),
    gradients=doubled(GRADIENTS),
    again={},
    parameters={},
    state={"count": array(1, 1, dtype="float64")},
    executions=COUNTS,  # type: ignore[arg-type]
    memory=MEMORY,
    error=None,
)
#: What the reference says of a random case whose draws were not seen.
UNKNOWN = replace(
    EXPECTED, outputs=None, losses=None, gradients=None, again=None, parameters=None, state=None
)


def variant(**more: Any) -> Variant:
    return Variant("made", "up", VariantModel(title="Made up", discipline="early-stop", **more))


def evidence(
    case: Case = PLAIN,
    *,
    plain: Run = CONTROL,
    recomputed: Run = SEEN,
    expected: Expected = EXPECTED,
    methods: Mapping[str, str] | None = None,
    unobserved: Mapping[str, str] | None = None,
    resolution: int = RESOLUTION,
    **more: Any,
) -> Evidence:
    """Evidence in which all is well, but for what is given; `more` are the variant's fields."""
    seen = Observation(plain, recomputed, methods or {}, unobserved or {}, resolution=resolution)
    return Evidence(case, variant(**more), expected, seen)
