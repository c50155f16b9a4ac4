# ruff: noqa: E501 (a table reads best a row a line)
"""Which capabilities the text of a case shows it to need."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.drivers.adapter import all_adapters
from conformance.language.features import CAPABILITIES, required_by
from conformance.language.load import load_text
from conformance.language.operations import OPERATIONS
from tests.suite_cases import CASES

from .test_load import GOOD

ROOT = Path(__file__).parent.parent
#: What the good file needs as it is: a function that captures a parameter.
BASE = {"function", "captured-parameter", "single-call"}
REGION = GOOD[GOOD.index("      - recompute") : GOOD.index("      - z =")]
OF = "      of: sum(z)\n"
NESTED = """\
      - recompute: block
        takes: x
        gives: y
        body:
          - h = matmul(x, w)
          - {recompute: inner, takes: h, gives: y, body: [y = sin(h)]}
"""

#: Replacements in the good file, what it needs then beyond the base, and what it needs no longer.
TABLE: list[tuple[str, list[tuple[str, str]], set[str], set[str]]] = [
    ("as-it-is", [], set(), set()),
    ("parameter-taken", [("takes: x", "takes: [x, w]")], set(), {"captured-parameter"}),
    ("intermediate-captured", [(REGION, "      - q = exp(x)\n" + REGION), ("sin(h)", "multiply(h, q)")], {"captured-intermediate"}, set()),
    ("input-captured", [("takes: x", "takes: []")], {"no-tensor-gradient"}, set()),
    ("value-taken", [("takes: x", "takes: [x, flag]")], {"non-tensor-inputs"}, set()),
    ("value-by-name", [("takes: x", "takes: x\n        kwargs: {flag: flag}")], {"kwargs", "non-tensor-inputs"}, set()),
    ("by-name", [("takes: x", "takes: []\n        kwargs: {x: x}")], {"kwargs"}, set()),
    ("no-gradient", [("normal: 1.0}\n      flag", "normal: 1.0, gradient: false}\n      flag")], {"no-tensor-gradient"}, set()),
    ("nested-inputs", [("takes: x", "takes: [[x, w]]")], {"nested-inputs"}, {"captured-parameter"}),
    ("dict-input", [("takes: x", "takes: [{a: x}]")], {"nested-inputs"}, set()),
    ("tuple-by-name", [("takes: x", "takes: x\n        kwargs: {pair: [w]}")], {"kwargs", "nested-kwargs"}, {"captured-parameter"}),
    ("flat-outputs", [("gives: y", "gives: [y, h]")], set(), set()),
    ("nested-outputs", [("gives: y", "gives: [y, [h]]")], {"nested-outputs"}, set()),
    ("list", [("takes: x", "takes: [{list: [x]}]")], {"list", "nested-inputs"}, set()),
    ("named-tuple", [("takes: x", "takes: [{named: {a: x}}]")], {"named-tuple", "nested-inputs"}, set()),
    ("object-output", [("gives: y", "gives: {object: {a: y}}")], {"object", "nested-outputs"}, set()),
    ("default", [("takes: x", "takes: [x]\n        kwargs: {flag: flag}"), ("      - z =", "      - v = block(x)\n      - z =")], {"default", "kwargs", "non-tensor-inputs", "repeated-call"}, set()),
    ("dict-output", [("gives: y", "gives: {a: y}")], {"nested-outputs"}, set()),
    ("literal-output", [("gives: y", "gives: [y, null]")], {"non-tensor-outputs"}, set()),
    ("deep-literal", [("gives: y", "gives: [y, {n: 7}]")], {"non-tensor-outputs", "nested-outputs"}, set()),
    ("nested-regions", [(REGION, NESTED)], {"nested-regions"}, set()),
    ("module", [("takes: x", "takes: x\n        granularity: module")], {"module"}, {"function"}),
    ("operation", [("takes: x", "takes: x\n        granularity: operation")], {"operation"}, {"function"}),
    ("merged", [("takes: x", "takes: x\n        merge_adjacent: true")], {"merge-adjacent"}, set()),
    ("invalid", [("takes: x", "takes: x\n        block: invalid")], {"invalid-block"}, set()),
    ("called-again", [("      - z =", "      - {call: block, takes: x, gives: v}\n      - z =")], {"repeated-call"}, set()),
    ("called-in-a-chain", [("      - z =", "      - {call: block, takes: y, gives: y}\n      - z =")], {"repeated-call"}, {"single-call"}),
    ("one-round", [("takes: x", "takes: x\n        round: true")], set(), {"single-call"}),
    ("zero-size", [("x: {shape: [2, 3]", "x: {shape: [0, 3]")], {"zero-size"}, set()),
    ("random", [("sin(h)", "dropout(h)")], {"random"}, set()),
    ("unseeded", [("sin(h)", "dropout(h)"), ("    inputs:", "    seeded: false\n    inputs:"), (OF, OF + "      totals: {w: 1.0}\n"), ("w: {shape: [3, 3], normal: 1.0}", "w: {shape: [3, 3], full: 1.0}")], {"random", "unseeded"}, set()),
    ("random-outside", [("exp(y)", "dropout(y)")], set(), set()),
    ("rng-off", [("sin(h)", "dropout(h)"), ("takes: x", "takes: x\n        preserve_rng: false")], {"random", "preserve-rng-off"}, set()),
    ("rng-off-without-draws", [("takes: x", "takes: x\n        preserve_rng: false")], {"preserve-rng-off"}, set()),
    ("raises", [("sin(h)", "raise_if(h, flag)")], {"raise"}, set()),
    ("unwrapped", [("      - z =", "      - v = is_unwrapped_by(block)\n      - z =")], {"wrapped"}, set()),
    ("told", [("      - z =", "      - v = asks_gradient(y)\n      - z =")], {"gradient-flag"}, set()),
    ("asking", [("sin(h)", "asking_sin(h)")], {"gradient-flag"}, set()),
    ("gradient-inside", [("sin(h)", "slope_of_sin(h)")], {"gradient-inside"}, set()),
    ("bfloat16", [("[3, 3], normal: 1.0", "[3, 3], normal: 1.0, dtype: bfloat16")], {"bfloat16"}, set()),
    ("second-backward", [(OF, OF + "    procedure: second_backward\n")], {"second-backward"}, set()),
    ("second-order", [(OF, OF + "    procedure: second_order\n")], {"second-order"}, set()),
    ("train", [(OF, OF + "    procedure: {train: {steps: 1, learning_rate: 0.1}}\n")], {"train"}, set()),
    ("inference", [("    gradients:\n" + OF, "    procedure: inference\n")], {"inference"}, set()),
    ("policy", [("takes: x", "takes: x\n        save: [matmul]")], {"policy"}, set()),
    ("between", [(OF, OF + "    procedure: {backward: {between: draw}}\n")], {"between"}, set()),
    ("seeded", [("sin(h)", "dropout(h, seed=3)")], {"random", "seeded-random"}, set()),
    ("generator", [("flag: {value: true}", "g: {generator: framework}"), ("sin(h)", "uniform_from(g, shape=[2, 3])")], {"random", "generator"}, set()),
    ("numpy-generator", [("flag: {value: true}", "g: {generator: numpy}"), ("sin(h)", "uniform_from(g, shape=[2, 3])")], {"random", "numpy-generator"}, set()),
    ("numpy-random", [("sin(h)", "numpy_uniform(shape=[2, 3])")], {"random", "numpy-random"}, set()),
    ("python-random", [("sin(h)", "python_uniform()")], {"random", "python-random"}, set()),
    ("defined", [("      - z =", "      - {define: late, takes: v, gives: v, body: [v = sin(v)]}\n      - {call: late, takes: y, gives: y}\n      - z =")], {"repeated-call"}, set()),
    ("called-inside", [("      - recompute: block", "      - {define: late, takes: v, gives: v, body: [v = sin(v)]}\n      - recompute: block"), ("          - y = sin(h)", "          - {call: late, takes: h, gives: y}")], {"repeated-call", "nested-regions"}, set()),
    ("sequence", [("      - z =", "      - {sequence: part, segments: 1, takes: y, layers: [[y = sin(y)]]}\n      - z =")], {"segment"}, set()),
    ("accumulated", [("    program:", "    state:\n      t: {shape: [3], full: 0.0}\n    program:"), ("sin(h)", "accumulate_sin(h, t)")], {"accumulate"}, set()),
    ("autocast", [(OF, OF + "    autocast: bfloat16\n")], {"autocast", "autocast-bfloat16"}, set()),
    ("default-dtype", [("sin(h)", "to_default(h)")], {"default-dtype"}, set()),
    ("around", [("sin(h)", "to_default(h)"), (OF, OF + "    around: {forward: default-float64}\n")], {"default-dtype"}, set()),
    ("autocast-float16", [(OF, OF + "    autocast: float16\n")], {"autocast"}, set()),
    ("forward-rule", [("sin(h)", 'custom_sin(h, rule=\'forward\')')], {"forward-rule"}, set()),
    ("reverse-rule", [("sin(h)", "custom_sin(h)")], set(), set()),
    ("functional", [(OF, OF + "    procedure: functional\n")], {"functional"}, set()),
    ("part", [(OF, OF + "    procedure: part\n")], {"part"}, set()),
    ("zero-size", [("shape: [2, 3]", "shape: [0, 3]")], {"zero-size"}, set()),
    ("per-output", [(OF, OF + "      then: sum(z)\n    procedure: per_output\n")], {"per-output"}, set()),
    ("third-order", [(OF, OF + "    procedure: third_order\n")], {"third-order"}, set()),
    ("jvp", [(OF, OF + "    procedure: jvp\n")], {"jvp"}, set()),
    ("jvp-of-gradient", [(OF, OF + "    procedure: jvp_of_gradient\n")], {"jvp-of-gradient"}, set()),
    ("gradient-of-jvp", [(OF, OF + "    procedure: gradient_of_jvp\n")], {"gradient-of-jvp"}, set()),
    ("jacobian", [(OF, OF + "    procedure: jacobian\n")], {"jacobian"}, set()),
    ("hook-on-value", [("      - z =", "      - y = hooked(y)\n      - z =")], {"hook-on-value"}, set()),
    ("hooks", [(OF, OF + "      hooks: [w]\n")], {"hooks"}, set()),
    ("in-place", [("sin(h)", "add_in_place(h, 1.0)")], {"in-place"}, set()),
    ("rrelu", [("sin(h)", "rrelu(h)")], {"random", "rrelu"}, set()),
    ("solve", [("sin(h)", "solve(w, h)")], {"solve"}, set()),
    ("unsteady", [("sin(h)", "unsteady_sin(h, then='values')")], {"unsteady"}, set()),
    ("another-thread", [(OF, OF + "    procedure: {backward: {between: thread}}\n")], {"another-thread"}, set()),
    ("update-between", [(OF, OF + "    procedure: {backward: {between: update}}\n")], {"update-between"}, set()),
    ("switch-between", [("sin(h)", "switched_sin(h)"), (OF, OF + "    procedure: {backward: {between: switch}}\n")], {"switch-between"}, set()),
    ("backward-autocast", [(OF, OF + "    procedure: {backward: {between: autocast}}\n")], {"autocast", "autocast-bfloat16", "backward-autocast"}, set()),
    ("backward-no-gradients", [(OF, OF + "    procedure: {backward: {between: no-gradients}}\n")], {"backward-no-gradients"}, set()),
    ("autocast-inside", [("takes: x", "takes: x\n        autocast: bfloat16")], {"autocast", "autocast-bfloat16", "autocast-inside"}, set()),
    ("complex", [("sin(h)", "to_complex(h, h)")], {"complex"}, set()),
    ("list-changed", [("flag: {value: true}", "seen: {value: []}"), ("sin(h)", "counted_sin(h, seen)")], {"list-changed"}, set()),
    ("after-inference", [(OF, OF + "    procedure: {backward: {after: inference}}\n")], {"inference"}, set()),
    ("after-backward", [(OF, OF + "    procedure: {backward: {after: backward}}\n")], {"accumulated-gradients"}, set()),
    ("variadic", [("takes: x", "takes: x\n        signature: variadic")], {"variadic"}, set()),
    ("contexts", [("takes: x", "takes: x\n        contexts: true")], {"contexts"}, set()),
    ("left", [("gives: y\n", "gives: [y, h]\n        left: h\n")], {"left"}, set()),
    ("unknown-option", [("takes: x", "takes: x\n        option: unknown")], {"unknown-option"}, set()),
    ("wrong-option", [("takes: x", "takes: x\n        option: wrong")], {"wrong-option"}, set()),
    ("mapped", [("takes: x", "takes: x\n        mapped: true")], {"vmap"}, set()),
    ("ranks", [(OF, OF + "    ranks: 2\n")], {"ranks"}, set()),
    ("data-parallel", [(OF, OF + "    ranks: 2\n    parallel: data\n")], {"ranks", "data-parallel"}, set()),
    ("sharded-parallel", [(OF, OF + "    ranks: 2\n    parallel: sharded\n")], {"ranks", "sharded-parallel"}, set()),
    ("tensor-parallel", [(OF, OF + "    ranks: 3\n    parallel: {tensor: {w: columns, v: rows}}\n"), ("normal: 1.0}\n    program", "normal: 1.0}\n      v: {shape: [3, 3], normal: 1.0}\n      b: {shape: [3], normal: 1.0}\n    program"), ("matmul(x, w)", "linear(x, w, b)"), ("sin(h)", "linear(h, v, b)")], {"ranks", "tensor-parallel"}, set()),
    ("collective", [(OF, OF + "    ranks: 2\n"), ("sin(h)", "all_reduce(h)")], {"ranks"}, set()),
    ("named", [(OF, OF + "    needs: [wrapped]\n")], {"wrapped"}, set()),
]  # fmt: skip
#: Those that only a model of a batch shows, or that a case must name itself.
SHOWN_ELSEWHERE = {"batch-norm", "notices-change", "sequential", "made-once", "captured-setting"}
SHOWN_ELSEWHERE |= {word for word in CAPABILITIES if word.startswith("step-")}


@pytest.mark.parametrize(
    ("changes", "more", "less"), [r[1:] for r in TABLE], ids=[r[0] for r in TABLE]
)
def test_required_by(changes: list[tuple[str, str]], more: set[str], less: set[str]) -> None:
    text = GOOD
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    (case,) = load_text(text, "f.yaml")
    extra = {"several-operations"} & set(CAPABILITIES)
    assert required_by(case) - extra == (BASE | more) - less


def test_every_capability_is_tested() -> None:
    shown = BASE.union(*(row[2] for row in TABLE)) | SHOWN_ELSEWHERE | {"several-operations"}
    assert shown >= set(CAPABILITIES)
    assert {o.capability for o in OPERATIONS.values()} - {""} <= set(CAPABILITIES)


@pytest.mark.parametrize("word", CAPABILITIES)
def test_every_capability_has_a_case_and_words(word: str) -> None:
    assert len(CAPABILITIES[word]) > 10
    assert any(word in required_by(case) for case in CASES), word


def test_every_variant_offers_some_case() -> None:
    for adapter in all_adapters(ROOT / "adapters"):
        for variant in adapter.variants:
            assert any(not required_by(c) & set(variant.model.lacks) for c in CASES), variant.id
