"""Malformed case files: where each error points, what it says, and that nothing is evaluated."""
# ruff: noqa: E501 (a table reads best a row a line)

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from conformance.errors import CaseError
from conformance.language.load import load_file, load_folder, load_text
from conformance.model.case import Tolerance

ROOT = Path(__file__).parent.parent
GOOD = """\
family: fam
cases:
  one:
    title: A title
    source: A source
    why: A reason
    inputs:
      x: {shape: [2, 3], normal: 1.0}
      flag: {value: true}
    parameters:
      w: {shape: [3, 3], normal: 1.0}
    program:
      - recompute: block
        takes: x
        gives: y
        body:
          - h = matmul(x, w)
          - y = sin(h)
      - z = exp(y)
    outputs: z
    gradients:
      of: sum(z)
"""


@dataclass(frozen=True)
class Wrong:
    """`old` in the good file becomes `new`; the error points at `at` and says `parts`.

    `at` is a piece of the changed text that stands there once, where the error must point.
    """

    id: str
    old: str
    new: str
    at: str
    parts: tuple[str, ...]


def _position(text: str, piece: str) -> tuple[int, int]:
    assert text.count(piece) == 1, f"{piece!r} stands {text.count(piece)} times in\n{text}"
    before = text[: text.index(piece)]
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1


def _error(text: str) -> CaseError:
    with pytest.raises(CaseError) as caught:
        load_text(text, "f.yaml")
    return caught.value


OF = "      of: sum(z)\n"
BODY = "          - h = matmul(x, w)\n"
Z = "      - z = exp(y)\n"
X = "{shape: [2, 3], normal: 1.0}"

UNKNOWN_KEYS = [
    Wrong("top", "family: fam", "famliy: fam", "famliy", ("unknown key 'famliy'", "'family'")),
    Wrong("case", "    outputs: z", "    output: z", "output:", ("key 'output'", "'outputs'")),
    Wrong("tensor", "{shape: [2, 3]", "{shap: [2, 3]", "shap:", ("key 'shap'", "'shape'")),
    Wrong("value", "{value: true}", "{value: true, shap: 3}", "shap:", ("key 'shap'", "value")),
    Wrong("parameter", "{shape: [3, 3]", "{sape: [3, 3]", "sape:", ("key 'sape'", "'shape'")),
    Wrong("region", "takes: x", "takess: x", "takess:", ("key 'takess'", "'takes'")),
    Wrong("region-word", "recompute: b", "recomput: b", "recomput:", ("'recomput'", "'recompute'")),
    Wrong("call", Z, f"{Z}      - {{call: block, gvies: q}}\n", "gvies:", ("'gvies'", "'gives'")),
    Wrong("repeat", Z, f"{Z}      - {{repeat: 2, bdy: []}}\n", "bdy:", ("'bdy'", "'body'")),
    Wrong("gradients", OF, f"{OF}      wtr: [x]\n", "wtr:", ("key 'wtr'", "'wrt'")),
    Wrong("expect", OF, f"{OF}    expect: {{execs: 1}}\n", "execs:", ("'execs'", "'executions'")),
    Wrong(
        "counts",
        OF,
        f"{OF}    expect: {{executions: {{block: {{forward: 1, reruns: 1}}}}}}\n",
        "reruns:",
        ("key 'reruns'", "'rerun'"),
    ),
    Wrong("error", OF, f"{OF}    error: {{typ: E}}\n", "typ:", ("key 'typ'", "'type'")),
    Wrong(
        "train",
        OF,
        f"{OF}    procedure: {{train: {{stps: 1, learning_rate: 1.0}}}}\n",
        "stps:",
        ("key 'stps'", "'steps'"),
    ),
    Wrong("tolerance", OF, f"{OF}    tolerance: {{rtl: 0}}\n", "rtl:", ("key 'rtl'", "'rtol'")),
]

SHAPES = [
    Wrong("no-title", "    title: A title\n", "", "one:", ("key 'title' is missing",)),
    Wrong("no-family", "family: fam\n", "", "cases:", ("key 'family' is missing",)),
    Wrong("title", "A title", "7", "7", ("found 7, expected a text",)),
    Wrong("why", "A reason", "no", "no\n    inputs", ("found False, expected a text",)),
    Wrong("inputs-list", f"      x: {X}\n      flag: {{value: true}}", "      - 7", "7", ("found 7, expected a name of `tensors` or a tensor by its name",)),
    Wrong("tensor", X, "7", "7", ("found 7, expected",)),
    Wrong("shape", "[2, 3]", "[2, many]", "many", ("found 'many', expected",)),
    Wrong("negative", "[2, 3]", "[2, -3]", "-3", ("found -3, expected at least 0",)),
    Wrong("dtype", X, "{shape: [2], full: 1.0, dtype: flaot32}", "flaot32", ("found 'flaot32'", "did you mean 'float32'?")),
    Wrong("infinite", X, "{shape: [2], full: .inf}", ".inf", ("found inf, expected a finite number",)),
    Wrong("granularity", "takes: x", "takes: x\n        granularity: modul", "modul", ("found 'modul'", "did you mean 'module'?")),
    Wrong("flag", "takes: x", "takes: x\n        preserve_rng: 3", "3\n        gives", ("found 3, expected",)),
    Wrong("empty-body", "body:\n          - h = matmul(x, w)\n          - y = sin(h)", "body: []", "body:", ("found an empty list", "expected at least a statement")),
    Wrong("node", "- z = exp(y)", "- 7", "7", ("found 7, expected",)),
    Wrong("procedure", OF, f"{OF}    procedure: backwards\n", "backwards", ("found 'backwards'", "did you mean 'backward'?")),
    Wrong("steps", OF, f"{OF}    procedure: {{train: {{steps: 0, learning_rate: 1.0}}}}\n", "0, learning", ("found 0, expected at least 1",)),
    Wrong("tolerance", OF, f"{OF}    tolerance: {{rtol: 0.5, atol: 0}}\n", "0.5", ("found 0.5, expected at most 0.1",)),
    Wrong("seed", OF, f"{OF}    seed: -1\n", "-1", ("found -1, expected at least 0",)),
    Wrong("family", "fam\n", "Fam\n", "Fam", ("found family 'Fam', expected lower-case",)),
    Wrong("name", "  one:", "  One:", "One", ("found case name 'One', expected lower-case",)),
    Wrong("two-fills", X, "{shape: [2], full: 1.0, normal: 2.0}", "x:", ("has full and normal, expected one of full, values",)),
    Wrong("no-fill", X, "{shape: [2]}", "x:", ("has no values, expected one of full, values", "normal")),
    Wrong("no-shape", X, "{full: 1.0}", "x:", ("'x' has no shape",)),
    Wrong("unseeded", OF, f"{OF}    seeded: false\n", "seeded:", ("`seeded: false` needs `totals`",)),
    Wrong("total-of-none", OF, f"{OF}      totals: {{v: 2.0}}\n", "v: 2.0", ("'v' is not a parameter filled by `full`",)),
    Wrong("total-of-drawn", OF, f"{OF}      totals: {{w: 2.0}}\n", "w: 2.0", ("'w' is not a parameter filled by `full`",)),
    Wrong("ragged", X, "{values: [[1, 2], [3]]}", "values:", ("lists of equal lengths",)),
    Wrong("values-shape", X, "{shape: [3], values: [1, 2]}", "values:", ("shape (2,), expected [3]",)),
    Wrong("values-text", X, "{values: [1, two]}", "two", ("found 'two', expected a finite number",)),
    Wrong("int-gradient", X, "{shape: [2], integers: [0, 3], gradient: true}", "x:", ("of dtype int32 cannot require a gradient",)),
]  # fmt: skip

NAMES = [
    Wrong("operation", "sin(h)", "sine(h)", "sine", ("unknown operation 'sine'", "did you mean 'sin'?")),
    Wrong("renamed", "sin(h)", "mul(h, h)", "mul(h", ("unknown operation 'mul'", "did you mean 'multiply'?")),
    Wrong("argument", "sin(h)", "sin(hh)", "hh", ("unknown name 'hh'", "did you mean 'h'?")),
    Wrong("argument-named-as-operation", "sin(h)", "sin(sin)", "sin)", ("unknown name 'sin'",)),
    Wrong("list-argument", "sin(h)", "concat([h, k])", "k]", ("unknown name 'k'",)),
    Wrong("too-few", "matmul(x, w)", "matmul(x)", "matmul", ("matmul takes 2 arguments, found 1", "matmul(a, b)")),
    Wrong("too-many", "sin(h)", "sin(h, h)", "sin", ("sin takes 1 argument, found 2", "sin(x)")),
    Wrong("results", "y = sin(h)", "y, k = sin(h)", "y, k", ("sin returns 1 result(s), found 2 names",)),
    Wrong("sections", "y = sin(h)", "y, k = split(h, sections=3)", "y, k", ("split returns 3 result(s), found 2",)),
    Wrong("same-result", "y = sin(h)", "y, y = split(h, sections=2)", "y, y", ("two results have the same name",)),
    Wrong("option", "sin(h)", "softmax(h, axes=1)", "axes", ("softmax has no option 'axes'", "did you mean 'axis'?")),
    Wrong("option-of-none", "sin(h)", "sin(h, p=1)", "p=1", ("sin has no option 'p'", "it has no options")),
    Wrong("option-type", "sin(h)", "softmax(h, axis=1.5)", "1.5", ("axis of softmax is 1.5, expected int",)),
    Wrong("option-bool", "sin(h)", "sum(h, keepdims=1)", "1)", ("keepdims of sum is 1, expected bool",)),
    Wrong("option-name", "sin(h)", "dropout(h, p=h)", "h)\n", ("p of dropout is h, expected float",)),
    Wrong("option-infinite", "sin(h)", "dropout(h, p=1e999)", "1e999", ("p of dropout is", "expected float")),
    Wrong("option-dtype", "sin(h)", "astype(h, dtype='half')", "'half'", ("dtype of astype is 'half'",)),
    Wrong("option-twice", "sin(h)", "softmax(h, axis=1, axis=0)", "axis=0", ("given twice",)),
    Wrong("option-missing", "sin(h)", "reshape(h)", "reshape", ("reshape needs its option 'shape'",)),
    Wrong("option-words", "sin(h)", "conv2d(h, w, padding='some')", "'some'", ("'valid', 'same'",)),
    Wrong("nested-call", "sin(h)", "sin(cos(h))", "cos(h)", ("found 'cos(h)', expected a name or a number",)),
    Wrong("not-a-call", "y = sin(h)", "y = h", "h\n      - z", ("expected a call of an operation", "expected a call")),
    Wrong("syntax", "sin(h)", "sin(h", "(h\n", ("not a statement", "never closed")),
    Wrong("umlaut-column", "y = sin(h)", "ä = sin(hh)", "hh", ("unknown name 'hh'",)),
    Wrong("takes", "takes: x", "takes: [x, v]", "v]", ("unknown name 'v'",)),
    Wrong("takes-literal", "takes: x", "takes: [x, 2]", "2]", ("found 2, expected a name", "{value: 2}")),
    Wrong("takes-alone", "takes: x", "takes: v", "v\n", ("unknown name 'v'",)),
    Wrong("kwargs-literal", "takes: x", "takes: x\n        kwargs: {k: 2}", "2}", ("found 2, expected a name",)),
    Wrong("kwargs-keyword", "takes: x", "takes: x\n        kwargs: {if: w}", "if:", ("found 'if', expected a name",)),
    Wrong("gives", "gives: y", "gives: [y, {aux: q}]", "q}", ("unknown name 'q'",)),
    Wrong("gives-tree", "gives: y", "gives: [y, 2020-01-01]", "2020", ("expected a name, a list or a mapping",)),
    Wrong("gives-text", "gives: y", "gives: a b", "a b", ("found 'a b', expected a name",)),
    Wrong("gives-infinite", "gives: y", "gives: [y, .nan]", ".nan", ("found nan, expected a name",)),
    Wrong("outputs", "outputs: z", "outputs: zz", "zz", ("unknown name 'zz'", "did you mean 'z'?")),
    Wrong("body-stays-inside", "outputs: z", "outputs: [z, h]", "h]", ("unknown name 'h'",)),
    Wrong("keyword", "      x: {", "      def: {", "def", ("found 'def', expected a name",)),
    Wrong("not-a-name", "      x: {", "      x-1: {", "x-1", ("found 'x-1', expected a name",)),
    Wrong("program's-own", "      x: {", "      rng: {", "rng", ("the name 'rng' is taken already",)),
    Wrong("program's-temporary", "- z = exp(y)", "- result1 = exp(y)", "result1", ("the name 'result1' is taken already",)),
    Wrong("twice", "      w: {", "      x: {", "x: {shape: [3, 3]", ("the name 'x' is taken already",)),
    Wrong("region-taken", "recompute: block", "recompute: x", "x\n        takes", ("the name 'x' is taken already",)),
    Wrong("region-keyword", "recompute: block", "recompute: if", "if", ("found 'if', expected a name",)),
    Wrong("region-unnumbered", "recompute: block", "recompute: b$i", "b$i", ("unknown axis '$i'", "the number in a `repeat`, and stands in none here")),
    Wrong("region-named-twice", Z, Z + "      - {recompute: block, takes: y, gives: q, body: [q = sin(y)]}\n", "block, takes", ("the name 'block' is taken already", "number the name")),
    Wrong("region-made", "- z = exp(y)", "- block = exp(y)", "block = exp", ("the name 'block' is taken already",)),
    Wrong("made-in-region", "- h = matmul(x, w)", "- block = matmul(x, w)", "block = ", ("the name 'block' is taken",)),
    Wrong("captured-and-remade", "y = sin(h)", "w = sin(h)\n          - y = sin(w)", "recompute:", ("region 'block' both captures and assigns 'w'", "make it an argument")),
    Wrong("captured-then-remade", "- z = exp(y)", "- w = exp(y)\n      - z = exp(w)", "w = exp", ("'w' is assigned again, and region 'block' captures it",)),
    Wrong("called-too-early", "    program:\n", "    program:\n      - {call: block, takes: x, gives: q}\n", "block, takes", ("no region 'block' before this call",)),
    Wrong("called-unknown", Z, Z + "      - {call: blok, takes: y, gives: q}\n", "blok", ("no region 'blok'", "did you mean 'block'?")),
    Wrong("called-otherwise", Z, Z + "      - {call: block, takes: [y, y], gives: q}\n", "{call:", ("takes 1 positional argument",)),
    Wrong("undeclared", "gives: y\n", "gives: y\n        kwargs: {more: x}\n        signature: undeclared\n", "undeclared", ("reads an argument that the function does not declare",)),
    Wrong("contexts", "y = sin(h)", "y = doubled_sin(h)", "recompute:", ("doubled_sin needs a region with contexts", "`contexts: true`")),
    Wrong("left-alone", "gives: y\n", "gives: y\n        left: y\n", "y\n        body", ("'y' is not one of several results", "`gives: [a, y]`")),
    Wrong("left-given", "gives: y\n", "gives: [y, x]\n        left: x\n", "x\n        body", ("'x' is not one of several results",)),
    Wrong("round", "gives: y\n", "gives: [y, h]\n        round: True\n", "True", ("has one tensor as argument and one as result",)),
    Wrong("unwrapped", Z, Z + "      - q = is_unwrapped_by(blok)\n", "blok", ("no region 'blok' before this", "'block'")),
    Wrong("capability", OF, f"{OF}    needs: [kwarg]\n", "kwarg", ("unknown capability 'kwarg'", "did you mean 'kwargs'?")),
    Wrong("loss-unknown", "sum(z)", "sum(zz)", "sum(zz)", ("'zz' is not among the outputs", "did you mean 'z'?")),
    Wrong("loss-not-an-output", "sum(z)", "sum(y)", "sum(y)", ("'y' is not among the outputs",)),
    Wrong("loss-form", "sum(z)", "max(z)", "max(z)", ("found 'max(z)', expected `sum(name)`, `mean(name)` or a name",)),
    Wrong("wrt", OF, f"{OF}      wrt: [w, v]\n", "v]", ("found 'v', expected an input or a parameter that requires a gradient",)),
    Wrong("inference", OF, f"{OF}    procedure: inference\n", "gradients:", ("`procedure: inference` has no gradients",)),
    Wrong("printed-name", OF, f"{OF}      expect: {{v: 1}}\n", "v: 1", ("the loss is not differentiated with respect to 'v'",)),
    Wrong("printed-shape", OF, f"{OF}      expect: {{x: [1, 2, 3]}}\n", "x: [1", ("printed gradient of 'x' is of shape (3,), expected (2, 3)",)),
    Wrong("printed-scalar", OF, f"{OF}      expect: {{x: 1}}\n", "x: 1", ("of shape (), expected (2, 3)",)),
    Wrong("printed-ragged", OF, f"{OF}      expect: {{x: [[1, 2, 3], [1, 2]]}}\n", "x: [[", ("expected (2, 3)",)),
    Wrong("printed-text", OF, f"{OF}      expect: {{x: [[1, 2, one], [1, 2, 3]]}}\n", "one]", ("found 'one', expected a finite number",)),
    Wrong("executions", OF, f"{OF}    expect: {{executions: {{blok: {{forward: 1, rerun: 1}}}}}}\n", "blok", ("no region is named 'blok'", "did you mean 'block'?")),
    Wrong("exception", OF, f"{OF}    error: {{type: ValueEror}}\n", "ValueEror", ("unknown exception 'ValueEror'", "did you mean 'ValueError'?")),
    Wrong("release-steps", OF, f"{OF}    release: {{keep: outputs}}\n", "release:", ("key 'steps' is missing",)),
    Wrong("release-keep", OF, f"{OF}    release: {{steps: 8, keep: all}}\n", "all}", ("'outputs'",)),
    Wrong("release-few", OF, f"{OF}    release: {{steps: 2, keep: outputs}}\n", "2, keep", ("found 2, expected at least 4",)),
    Wrong("as-plain", OF, f"{OF}    error: {{as: plan}}\n", "plan", ("'plain'",)),
    Wrong("as-plain-then", OF, f"{OF}    error: {{as: plain, then: {{x: 1}}}}\n", "then", ("unknown key 'then'",)),
    Wrong("as-plain-type", OF, f"{OF}    error: {{as: plain, type: ValueError}}\n", "type: ValueError", ("unknown key 'type'",)),
    Wrong("then", OF, f"{OF}    error: {{type: ValueError, then: {{flg: 1}}}}\n", "flg", ("'flg' is not an input with a value", "did you mean 'flag'?")),
    Wrong("then-tensor", OF, f"{OF}    error: {{type: ValueError, then: {{x: 1}}}}\n", "x: 1", ("'x' is not an input with a value",)),
    Wrong("axis", "A reason", "Of $deph\n    axes: {depth: [1, 2]}", "Of", ("unknown axis '$deph'", "did you mean 'depth'?")),
    Wrong("no-axes", "[2, 3]", "[$n, 3]", "$n", ("unknown axis '$n'", "the case has no axes")),
    Wrong("axes-form", OF, f"{OF}    axes: {{depth: 3}}\n", "3}\n", ("found 3, expected a list of the values of axis 'depth'",)),
    Wrong("axes-empty", OF, f"{OF}    axes: {{depth: []}}\n", "depth", ("found an empty list",)),
    Wrong("axes-text", OF, f'{OF}    axes: {{depth: ["a b"]}}\n', "a b", ("found 'a b', expected a word or a number",)),
    Wrong("no-region", "- recompute: block\n        takes: x\n        gives: y\n        body:\n          - h = matmul(x, w)\n          - y = sin(h)", "- y = sin(x)", "program:", ("the program has no region",)),
]  # fmt: skip

FILES = [
    Wrong("duplicate-key", "    why: A reason", "    why: A reason\n    why: Another", "why: Another", ("key 'why' is given twice",)),
    Wrong("duplicate-case", OF, f"{OF}  one: {{}}\n", "one: {}", ("key 'one' is given twice",)),
    Wrong("number-as-key", "      x: {", "      1: {", "1: {", ("found '1' as a key, expected text", '"1"')),
    Wrong("word-as-key", "      x: {", "      on: {", "on: {", ("found 'on' as a key, expected text", '"on"')),
    Wrong("list-as-key", "      x: {", "      ? [a]\n      : {", "[a]", ("found a list or mapping as a key",)),
    Wrong("not-yaml", "A title", "[A title", ": A source", ("not YAML",)),
    Wrong("tab", "  one:", "\tone:", "\tone:", ("not YAML",)),
    Wrong("no-cases", GOOD[GOOD.index("cases:") :], "cases: []\n", "cases:", ("found an empty list, expected a mapping of cases",)),
    Wrong("no-case", GOOD[GOOD.index("    title") :], "", "one:", ("found nothing, expected a mapping",)),
    Wrong("case-list", GOOD[GOOD.index("    title") :], "    - 1\n", "one:", ("found a list, expected a mapping",)),
    Wrong("a-list", GOOD, "- 1\n", "- 1", ("found a list, expected a mapping",)),
    Wrong("a-date", "A title", "2020-99-99", "2020-99-99", ("not YAML: found '2020-99-99'",)),
]  # fmt: skip

SEQUENCE = "      - sequence: part\n        segments: 2\n        takes: z\n        layers:\n          - [z = sin(z)]\n          - {repeat: 3, layer: ['p$i = cos(z)', 'z = sin(p$i)']}\n"
DEFINE = "      - define: later\n        takes: v\n        gives: v\n        body: [v = cos(v)]\n      - {call: later, takes: z, gives: z}\n"
AFTER = "      - z = exp(y)\n"
#: A region that is defined, and called with a name for what it returned as a whole.
PAIR = "      - {define: two, takes: a, gives: [b, c], body: [b = sin(a), c = cos(a)]}\n      - {call: two, takes: y, gives: [s, t], returned: pair}\n"
NEWER = [
    Wrong("number-in-shape", "w: {shape: [3, 3]", "w$i: {repeat: 2, shape: [$i, 3]", "$i, 3]", ("unknown axis '$i'", "stands in none here")),
    Wrong("segments", AFTER, AFTER + SEQUENCE.replace("2", "5"), "5\n        takes", ("4 layer(s) cannot make 5 segments", "names it under `error`")),
    Wrong("sequence-takes", AFTER, AFTER + SEQUENCE.replace("takes: z", "takes: zz"), "zz", ("unknown name 'zz'", "did you mean 'z'?")),
    Wrong("layer-hands-on", AFTER, AFTER + SEQUENCE.replace("[z = sin(z)]", "[u = sin(z)]"), "u = sin", ("a layer's last statement must make 'z'",)),
    Wrong("sequence-name", AFTER, AFTER + SEQUENCE.replace("part", "part").replace("sequence: part", "sequence: block") + "      - recompute: block1\n        takes: z\n        gives: z\n        body: [z = sin(z)]\n", "block1", ("the name 'block1' is taken already",)),
    Wrong("call-of-inner", AFTER, AFTER + "      - recompute: outer\n        takes: z\n        gives: z\n        body: [{define: within, takes: v, gives: v, body: [v = sin(v)]}, z = sin(z)]\n      - {call: within, takes: z, gives: z}\n", "within, takes: z", ("no region 'within' before this call",)),
    Wrong("call-before-define", AFTER, "      - {call: later, takes: y, gives: y}\n" + AFTER + DEFINE, "later, takes: y", ("no region 'later' before this call",)),
    Wrong("define-unknown", AFTER, AFTER + DEFINE.replace("cos(v)", "cos(vv)"), "vv", ("unknown name 'vv'",)),
    Wrong("policy", "        gives: y\n", "        gives: y\n        save: [matmull]\n", "matmull", ("neither an operation of the body nor a name that it makes", "did you mean 'matmul'?")),
    Wrong("policy-elsewhere", "        gives: y\n", "        gives: y\n        save: [z]\n", "z]", ("neither an operation of the body nor a name",)),
    Wrong("generator", AFTER, "      - z = uniform_from(g, shape=[2])\n", "g, shape", ("'g' is not a generator", "`g: {generator: framework}`")),
    Wrong("generator-tensor", AFTER, "      - z = uniform_from(x, shape=[2])\n", "x, shape", ("'x' is not a generator",)),
    Wrong("generator-kind", "flag: {value: true}", "g: {generator: torch}", "torch", ("found 'torch', expected",)),
    Wrong("after", OF, f"{OF}    procedure: {{backward: {{after: train}}}}\n", "train", ("found 'train', expected",)),
    Wrong("backward-of-nothing", OF, f"{OF}    procedure: {{backward: {{}}}}\n", "backward: {}", ("expected `between` or `after` in it", "write `procedure: backward` for one")),
    Wrong("around-nothing", OF, f"{OF}    around: {{forward: default-float64}}\n", "default-float64", ("nothing in this program reads what 'default-float64' changes", "to_default reads it")),
    Wrong("around-draws", Z, "      - d = to_default(y); u = uniform(shape=[2, 3]); z = add(d, u)\n    around: {forward: default-float64}\n", "around:", ("uniform draws float32, and frameworks draw the default dtype", "use dropout")),
    Wrong("around-another", OF, f"{OF}    around: {{forward: default-half}}\n", "default-half", ("found 'default-half', expected 'default-float64'",)),
    Wrong("around-backward", OF, f"{OF}    around: {{backward: default-float64}}\n", "backward", ("unknown key 'backward'",)),
    Wrong("between", OF, f"{OF}    procedure: {{backward: {{between: sleep}}}}\n", "sleep", ("found 'sleep', expected",)),
    Wrong("release", OF, f"{OF}    release: 2\n", "2\n", ("at least 4",)),
    Wrong("law", OF, f"{OF}    law: {{name: sqrt, at: 4}}\n", "sqrt", ("unknown law 'sqrt'",)),
    Wrong("law-constants", OF, f"{OF}    law: {{name: each-layer, at: 4}}\n", "law", ("depends on saved, found none",)),
    Wrong("law-counts", OF, f"{OF}    law: {{name: sqrt-segments, at: 4, counts: sinn}}\n", "sinn", ("unknown operation 'sinn'", "did you mean 'sin'?")),
    Wrong("follows", OF, f"{OF}    axes: {{n: [1, 2], m: {{follows: k, values: [1, 2]}}}}\n", "m: {", ("'m' follows 'k', which is not an axis",)),
    Wrong("returned-taken", "gives: y\n", "gives: [y, h]\n        returned: w\n", "w\n        body", ("the name 'w' is taken already",)),
    Wrong("returned-region", "gives: y\n", "gives: [y, h]\n        returned: block\n", "block\n        body", ("the name 'block' is taken already",)),
    Wrong("returned-given", "gives: y\n", "gives: [y, h]\n        returned: y\n", "y\n        body", ("the name 'y' is taken already",)),
    Wrong("returned-program's-own", "gives: y\n", "gives: [y, h]\n        returned: rng\n", "rng", ("the name 'rng' is taken already",)),
    Wrong("returned-of-a-tensor", "gives: y\n", "gives: y\n        returned: p\n", "p\n        body", ("'p' must be a tuple or a dict", "write `gives: [a]` for a tuple")),
    Wrong("returned-made", AFTER, PAIR + AFTER + "      - pair = cos(z)\n", "pair = cos", ("the name 'pair' is taken already", "the return value of a region")),
    Wrong("returned-then-region", AFTER, PAIR + AFTER + "      - {recompute: pair, takes: z, gives: u, body: [u = sin(z)]}\n", "pair, takes", ("the name 'pair' is taken already",)),
    Wrong("returned-twice", AFTER, PAIR + AFTER + "      - {call: two, takes: z, gives: [u, v], returned: pair}\n", "pair}\n    outputs", ("the name 'pair' is taken already",)),
    Wrong("returned-kept", AFTER, PAIR + AFTER, "pair}\n", ("`returned` names 'pair', which is not among the outputs", "add it: `outputs: [pair]`")),
    Wrong("returned-read", AFTER, PAIR + "      - z = exp(pair)\n", "pair)", ("'pair' is the whole return value of a region, and only `outputs` may name it", "by their names in `gives`")),
    Wrong("returned-taken-in", AFTER, PAIR + AFTER + "      - {call: two, takes: pair, gives: [u, v]}\n", "pair, gives: [u", ("'pair' is the whole return value of a region",)),
    Wrong("returned-given-on", AFTER, PAIR + AFTER + "      - {recompute: third, takes: z, gives: [u, pair], body: [u = sin(z)]}\n", "pair], body", ("'pair' is the whole return value of a region",)),
    Wrong("returned-captured", AFTER, PAIR + AFTER + "      - {recompute: third, takes: z, gives: u, body: ['u = multiply(z, pair)']}\n", "pair)", ("'pair' is the whole return value of a region",)),
    Wrong("returned-summed", f"{AFTER}    outputs: z\n    gradients:\n{OF}", f"{PAIR}{AFTER}    outputs: [z, pair]\n    gradients:\n      of: sum(pair)\n", "sum(pair)", ("'pair' is the whole return value of a region",)),
    Wrong("returned-inside", "- y = sin(h)", "- {recompute: inner, takes: h, gives: [y, q], returned: p, body: [y = sin(h), q = cos(h)]}", "p, body", ("found `returned` in a region inside another one", "it is for regions of the program itself")),
    Wrong("returned-by-a-definition", AFTER, AFTER + PAIR.replace("takes: a, ", "takes: a, returned: p, "), "returned: p, ", ("unknown key 'returned'",)),
    Wrong("follows-count", OF, f"{OF}    axes: {{n: [1, 2], m: {{follows: n, values: [1]}}}}\n", "m: {", ("axis 'n' has 2 values",)),
]  # fmt: skip

#: What is left out, named in a table or written as a call.
TABLE = (
    "cases:\n",
    "tensors:\n  x: {shape: [2, 3], normal: 1.0}\n  v$i: {repeat: 2, shape: [3], normal: 1.0}\ncases:\n",
)
SECTION = f"    inputs:\n      x: {X}\n      flag: {{value: true}}\n"
START = f"cases:\n  one:\n    title: A title\n    source: A source\n    why: A reason\n{SECTION}"


def _tabled(inputs: str, tensors: str = TABLE[1]) -> str:
    """The start of the good file, with a table and other inputs."""
    return START.replace("cases:\n", tensors).replace(SECTION, inputs)


SHORT = [
    Wrong("last-of-two", "y = sin(h)\n      - z = exp(y)\n    outputs: z\n", "y = sin(h)\n      - z, u = split(y, sections=2)\n", "z, u = split", ("makes 2 values, expected one",)),
    Wrong("last-in-body", "        gives: y\n        body:\n          - h = matmul(x, w)\n          - y = sin(h)", "        body:\n          - h = matmul(x, w)\n          - y, u = split(h, sections=2)", "y, u = split", ("makes 2 values, expected one", "name the results: `gives: [a, b]`")),
    Wrong("last-is-defined", f"{AFTER}    outputs: z\n", AFTER + DEFINE[: DEFINE.index("      - {call")], "define: later", ("makes 0 values, expected one",)),
    Wrong("no-first-output", f"{AFTER}    outputs: z\n    gradients:\n{OF}", f"{PAIR}{AFTER}    outputs: [pair, z]\n", "outputs:", ("the first output is not a floating-point tensor", "`procedure: inference`")),
    Wrong("first-output-a-bool", f"{AFTER}    outputs: z\n    gradients:\n{OF}", f"{AFTER}      - t = asks_gradient(z)\n    outputs: [t, z]\n", "outputs:", ("the first output is not a floating-point tensor",)),
    Wrong("last-value-a-bool", f"{AFTER}    outputs: z\n    gradients:\n{OF}", f"{AFTER}      - t = asks_gradient(z)\n", "program:", ("the first output is not a floating-point tensor",)),
    Wrong("first-output-a-value", f"    outputs: z\n    gradients:\n{OF}", "    outputs: [flag, z]\n", "outputs:", ("the first output is not a floating-point tensor",)),
    Wrong("loss-of-integers", f"    outputs: z\n    gradients:\n{OF}", "    state: {n: {shape: [2], integers: [0, 3]}}\n    outputs: [z, n]\n    gradients: {of: sum(n)}\n", "sum(n)", ("'n' is not a floating-point tensor",)),
    Wrong("loss-of-a-cast", "- z = exp(y)", "- z = astype(y, dtype='int32')", "sum(z)", ("'z' is not a floating-point tensor, and has no gradient",)),
    Wrong("second-statement", "- h = matmul(x, w)", "- h = matmul(x, w); k = sine(h)", "sine", ("unknown operation 'sine'",)),
    Wrong("second-argument", "- h = matmul(x, w)", "- h = matmul(x, w); k = sin(hh)", "hh)", ("unknown name 'hh'",)),
    Wrong("empty-statement", "- h = matmul(x, w)", "- h = matmul(x, w);", "\n          - y = ", ("found '', expected one assignment",)),
    Wrong("body-of-one-text", "body:\n          - h = matmul(x, w)\n          - y = sin(h)", "body: h = matmul(x, w); y = sine(h)", "sine", ("unknown operation 'sine'",)),
    Wrong("head-unknown", "recompute: block\n        takes: x", "recompute: block(xx)", "xx", ("unknown name 'xx'", "did you mean 'x'?")),
    Wrong("head-number", "recompute: block\n        takes: x", "recompute: block(x, 2)", "2)", ("found '2', expected a name", "`scale: {value: 2}`")),
    Wrong("head-twice", "recompute: block", "recompute: block(x)", "takes:", ("given in brackets and again under 'takes'",)),
    Wrong("head-open", "recompute: block\n        takes: x", "recompute: block(x", "block(x", ("found 'block(x'", "put the text in quotes")),
    Wrong("head-no-call", "recompute: block\n        takes: x", "recompute: block(x)(y)", "block(x)", ("not a region", "block(x, mask=m)")),
    Wrong("head-syntax", "recompute: block\n        takes: x", "recompute: block(x y)", "block(x", ("not a region", "block(x, mask=m)")),
    Wrong("head-word-twice", "recompute: block\n        takes: x", "recompute: block(x, m=x, m=w)", "m=w", ("argument 'm' is given twice",)),
    Wrong("call-arguments", AFTER, f"{AFTER}      - u = block(z, z)\n", "u = block", ("region 'block' takes 1 positional argument",)),
    Wrong("call-argument", AFTER, f"{AFTER}      - u = block(zz)\n", "zz", ("unknown name 'zz'", "did you mean 'z'?")),
    Wrong("call-mistyped", AFTER, f"{AFTER}      - u = blok(z)\n", "blok", ("unknown operation 'blok'", "did you mean 'block'?")),
    Wrong("call-inside-layer", AFTER, AFTER + SEQUENCE.replace("[z = sin(z)]", "z = block(z)"), "block(z)", ("unknown operation 'block'",)),
    Wrong("call-before", "      - recompute: block", "      - u = block(x)\n      - recompute: block", "block(x)", ("unknown operation 'block'",)),
    Wrong("number-outside", "- z = exp(y)", "- z$i = exp(y)", "z$i", ("unknown axis '$i'", "the number in a `repeat`")),
    Wrong("number-as-name", "- z = exp(y)", "- {repeat: 2, body: $i = exp(y)}", "$i", ("expected a name for the result",)),
    Wrong("number-in-number", "- z = exp(y)", "- {repeat: 2, body: 'z = add(y, 1$i)'}", "1$i", ("not a statement", "'z = add(y, 1$i)'")),
    Wrong("number-as-option", "- z = exp(y)", "- {repeat: 2, body: 'z = sum(y, keepdims=$i)'}", "$i", ("option keepdims of sum is $i, expected bool",)),
    Wrong("number-unknown", "- z = exp(y)", "- {repeat: 2, body: 't = exp(y); z = add(t, v$i)'}", "v$i", ("unknown name 'v1'",)),
    Wrong("number-of-times", "- z = exp(y)", "- {repeat: 2, body: [{repeat: $i, body: z = exp(y)}]}", "$i", ("found '$i', expected a number",)),
    Wrong("region-repeated", "- z = exp(y)", "- {repeat: 2, body: [{recompute: inner(y), body: z = exp(y)}]}", "inner(y)", ("the name 'inner' is taken already", "number the name: `block$i`")),
    Wrong("region-repeated-twice", "- z = exp(y)", "- {repeat: 2, body: [{recompute: b$i(y), body: u = exp(y)}, {recompute: b$i(u), body: z = exp(u)}]}", "b$i(u)", ("the name 'b1' is taken already",)),
    Wrong("region-repeated-later", "- z = exp(y)", "- {repeat: 2, body: [{recompute: b$i(y), body: z = exp(y)}]}\n      - z = b3(z)", "b3", ("unknown operation 'b3'", "did you mean 'b2'?")),
    Wrong("number-as-axis", OF, f"{OF}    axes: {{i: [1, 2]}}\n", "i: [1", ("the name 'i' is taken already", "the number in a `repeat`")),
    Wrong("table-unknown", START, _tabled("    inputs: [x, u, flag: {value: true}]\n"), "u, flag", ("no tensor 'u' in the file's `tensors`", "known words: v1, v2, x")),
    Wrong("table-none", SECTION, "    inputs: x\n", "x\n    parameters", ("no tensor 'x' in the file's `tensors`", "write it down: `inputs: {x: {shape: …}}`")),
    Wrong("table-unused", START, _tabled("    inputs: [x, flag: {value: true}]\n"), "v$i:", ("no case uses the tensor 'v1'",)),
    Wrong("table-list", START, _tabled(SECTION, "tensors: [x]\ncases:\n"), "tensors:", ("found a list, expected a mapping of tensors by name",)),
    Wrong("table-tensor", START, _tabled("    inputs: [x, flag: {value: true}]\n", "tensors: {x: 7}\ncases:\n"), "7", ("found 7, expected a mapping",)),
    Wrong("table-repeat", START, _tabled(SECTION, "tensors:\n  v$i: {repeat: many, shape: [3], full: 1.0}\ncases:\n"), "many", ("found 'many', expected a number from 1",)),
    Wrong("table-key", START, _tabled("    inputs: [x, flag: {value: true}]\n", "tensors:\n  x: {shap: [2, 3], normal: 1.0}\ncases:\n"), "shap:", ("unknown key 'shap'", "'shape'")),
    Wrong("table-axis", START, _tabled("    inputs: [x, flag: {value: true}]\n", "tensors:\n  x: {shape: [$n, 3], normal: 1.0}\ncases:\n"), "$n", ("unknown axis '$n'",)),
    Wrong("listed-twice", START, _tabled("    inputs: [x, x: {value: true}]\n"), "x: {value", ("the name 'x' is taken already",)),
    Wrong("smoke-unusual", OF, f"{OF}    smoke: true\n", "smoke:", ("a smoke case must be an everyday one, and this case is unusual", "`use: everyday`")),
    Wrong("use-unknown", OF, f"{OF}    use: daily\n", "daily", ("'everyday', 'unusual' or 'contract'",)),
    Wrong("listed-key", SECTION, f"    inputs: [x: {X}, flag: {{valu: true}}]\n", "valu:", ("unknown key 'valu'",)),
]  # fmt: skip

ALL = [*UNKNOWN_KEYS, *SHAPES, *NAMES, *NEWER, *SHORT, *FILES]


def test_the_good_file_is_good() -> None:
    (case,) = load_text(GOOD, "f.yaml")
    assert case.id == "fam/one"
    assert case.wrt == ("x", "w")
    assert case.regions()[0].captured() == ("w",)
    assert case.tolerance == Tolerance(1e-4, 1e-5)


@pytest.mark.parametrize("wrong", ALL, ids=[f"{i}-{w.id}" for i, w in enumerate(ALL)])
def test_error_points_at_what_is_wrong(wrong: Wrong) -> None:
    assert GOOD.count(wrong.old) >= 1
    text = GOOD.replace(wrong.old, wrong.new, 1)
    error = _error(text)
    assert error.where == "f.yaml:{}:{}".format(*_position(text, wrong.at)), str(error)
    for part in wrong.parts:
        assert part in str(error)


def test_case_in_two_files(tmp_path: Path) -> None:
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).write_text(GOOD, "utf-8")
    with pytest.raises(
        CaseError, match=r"b\.yaml:3:3: found case 'fam/one' in two files, the other time at"
    ):
        load_folder(tmp_path)


def test_folder_and_file_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(CaseError, match="no case files"):
        load_folder(tmp_path)
    with pytest.raises(CaseError, match="cannot be read"):
        load_file(tmp_path / "none.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"family: \xff\n")
    with pytest.raises(CaseError, match="cannot be read"):
        load_file(tmp_path / "latin.yaml")


# -- malice ---------------------------------------------------------------------------------------


def _bomb(levels: int) -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    for n in range(1, levels):
        lines.append(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]")
    return "\n".join(lines)


def _merge_bomb(levels: int) -> str:
    lines = ["a0: &a0 {k: 1}"]
    for n in range(1, levels):
        lines.append(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}")
    return "\n".join(lines)


def _chain(levels: int) -> str:
    return "\n".join(["a0: &a0 [1]", *(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, levels))])


MALICE = {
    "python-tag": "family: !!python/object/apply:os.system ['touch {mark}']\ncases: {}\n",
    "python-name": "family: !!python/name:os.system\ncases: {}\n",
    "alias-bomb": _bomb(12),
    "merge-bomb": _merge_bomb(12),
    "alias-chain": _chain(3000),
    "cycle": "family: &a [*a]\ncases: {}\n",
    "cycle-of-two": "family: &a {b: &b [*a]}\ncases: {}\n",
    "deep-list": "family: " + "[" * 100_000,
    "deep-balanced": "family: " + "[" * 500 + "]" * 500,
    "deep-block": "\n".join(" " * n + "a:" for n in range(400)),
    "huge-int": f"family: {'9' * 100_000}\ncases: {{}}\n",
    "huge-hex": f"family: 0x{'f' * 100_000}\ncases: {{}}\n",
    "huge-sexagesimal": f"family: {'59:' * 30_000}1\ncases: {{}}\n",
    "huge-repeat": GOOD.replace(Z, f"{Z}      - {{repeat: 1000000000, body: [q = sin(y)]}}\n"),
    "nested-repeat": GOOD.replace(
        Z,
        Z
        + "      - {repeat: 1000, body: [{repeat: 1000, body: [{repeat: 1000, "
        + "body: [q = sin(y)]}]}]}\n",
    ),
    "many-tensors": GOOD.replace("w: {", "w$i: {repeat: 1000000000, "),
    "many-cases": GOOD.replace(
        OF, f"{OF}    axes: {{{', '.join(f'{a}: [1, 2, 3, 4, 5]' for a in 'abcdefghijkl')}}}\n"
    ),
    "huge-shape": GOOD.replace("[2, 3]", "[100000, 100000, 100000]"),
    "many-arguments": GOOD.replace("sin(h)", f"concat([{'h, ' * 5_000}h])"),
    "huge-seed": GOOD.replace(OF, f"{OF}    seed: {'9' * 90}\n"),
    "huge-fill": GOOD.replace(X, f"{{values: [{'9' * 99}{'9' * 99}]}}"),
    "huge-printed": GOOD.replace(OF, f"{OF}      expect: {{x: 1e999}}\n"),
    "import": GOOD.replace("sin(h)", "__import__('os').system('touch {mark}')"),
    "lambda": GOOD.replace("sin(h)", "(lambda: open('{mark}', 'w'))()"),
    "in-option": GOOD.replace("sin(h)", "softmax(h, axis=open('{mark}', 'w'))"),
    "in-argument": GOOD.replace("sin(h)", "sin(open('{mark}', 'w'))"),
    "format": GOOD.replace("sin(h)", "sin(f\"{open('{mark}', 'w')}\")"),
    "two-statements": GOOD.replace("y = sin(h)", "y = sin(h); import os"),
    "walrus": GOOD.replace("sin(h)", "sin((h := w))"),
    "star": GOOD.replace("sin(h)", "sin(*h)"),
    "power": GOOD.replace("sin(h)", "softmax(h, axis=9**9**9**9)"),
    "deep-statement": GOOD.replace("sin(h)", f"sin({'(' * 100_000}"),
    "deep-unary": GOOD.replace("sin(h)", f"sin({'-' * 1_900}1)"),
    "long-statement": GOOD.replace("sin(h)", f"sin({'-' * 1_000_000}1)"),
    "nul": GOOD.replace("- y = sin(h)", '- "y = sin(h\\0)"'),
    "surrogate": GOOD.replace("- y = sin(h)", '- "y = sin(\\ud800)"'),
}


@pytest.mark.parametrize("text", MALICE.values(), ids=MALICE)
def test_malice_is_refused_quickly(text: str, tmp_path: Path) -> None:
    mark = tmp_path / "evaluated"
    start = time.process_time()  # of this process alone: others may keep the machine busy
    _error(text.replace("{mark}", str(mark)))
    assert time.process_time() - start < 3
    assert not mark.exists()
