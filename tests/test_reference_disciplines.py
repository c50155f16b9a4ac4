"""How often the reference says that things run, against counts measured in frameworks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from conformance.language.load import load_text
from conformance.model.case import Case
from conformance.oracle.expected import expect

HEAD = """
family: counts
cases:
  one:
    title: A case of the tests
    source: the tests
    why: Counts measured in frameworks.
    inputs:
      x: {shape: [4, 4], normal: 0.5}
      q: {shape: [2, 2, 4, 4], normal: 0.5}
      i: {values: [0, 2], dtype: int32}
    parameters:
      w$i: {shape: [4, 4], normal: 0.5, repeat: 6}
      b: {shape: [4], normal: 0.5}
      k: {shape: [2, 2, 3, 3], normal: 0.5}
      l: {shape: [2, 2, 3, 3], normal: 0.5}
"""


def case(program: str, outputs: str = "z", rest: str = "") -> Case:
    """A case whose program is written in a short form: a statement per line, `name(takes):` opens a
    region that gives the last name made in it; `!` after it merges it with the next one."""
    lines: list[str] = []
    _write(_parse(program), 6, lines)
    text = HEAD + "    program:\n" + "\n".join(lines) + f"\n    outputs: {outputs}\n"
    first = outputs.strip("[]").split(",")[0]
    text += rest or f"    gradients: {{of: sum({first})}}\n"
    return load_text(text, "test.yaml")[0]


Block = tuple[str, list[Any]]


def _parse(program: str) -> list[Any]:
    top: list[Any] = []
    stack: list[tuple[int, list[Any]]] = [(-1, top)]
    for line in program.strip("\n").split("\n"):
        depth = len(line) - len(line.lstrip())
        while stack[-1][0] >= depth:
            stack.pop()
        if line.strip().endswith((":", ":!")):
            block: Block = (line.strip(), [])
            stack[-1][1].append(block)
            stack.append((depth, block[1]))
        else:
            stack[-1][1].append(line.strip())
    return top


def _write(items: list[Any], indent: int, lines: list[str]) -> None:
    pad = " " * indent
    for item in items:
        if isinstance(item, str):
            lines.append(f"{pad}- {item}")
            continue
        head, body = item
        name, takes = head.rstrip(":!").rstrip(")").split("(")
        lines += [f"{pad}- recompute: {name}", f"{pad}  takes: [{takes}]"]
        lines.append(f"{pad}  gives: {_last(body)}")
        if head.endswith("!"):
            lines.append(f"{pad}  merge_adjacent: true")
        lines.append(f"{pad}  body:")
        _write(body, indent + 4, lines)


def _last(body: list[Any]) -> str:
    last = body[-1]
    return _last(last[1]) if isinstance(last, tuple) else last.split("=")[0].strip()


def region(*statements: str, takes: str = "x") -> str:
    """One region `r`, whose last name is then read by a sine outside it."""
    body = "\n".join(f"  {s}" for s in statements)
    name = statements[-1].split("=")[0].strip()
    return f"r({takes}):\n{body}\nz = sin({name})"


@dataclass(frozen=True)
class Row:
    """A program and, for each discipline, the reruns of regions (by name) and statements (by label;
    labels are unique in these programs). Disciplines that no measurement speaks of are left out."""

    name: str
    program: str
    whole: Mapping[str, int] | None = None
    early_stop: Mapping[str, int] | None = None
    minimal: Mapping[str, int] | None = None
    residuals: Mapping[str, str] = field(default_factory=dict)


def counts(text: str) -> dict[str, int]:
    """`a1 b0` as a mapping; a `:` stands before a count where the name ends in a digit."""
    found = {}
    for word in text.split():
        name, _, count = word.rpartition(":") if ":" in word else (word[:-1], "", word[-1])
        found[name] = int(count)
    return found


def _row(name: str, program: str, *columns: str | None, **residuals: str) -> Row:
    return Row(
        name, program, *(None if c is None else counts(c) for c in columns), residuals=residuals
    )


CONV = "c = conv2d(q, k, padding='same')"


def _conv(*statements: str) -> str:
    return region(*statements, takes="q")


def _deep(before: bool) -> str:
    """Four regions, one in the other, each with a tanh before or after the next one."""
    lines = []
    for level in (4, 3, 2, 1):
        pad = "  " * (4 - level)
        lines.append(f"{pad}l{level}({'x' if level == 4 or not before else f'y{level + 1}'}):")
        if before:
            lines.append(f"{pad}  y{level} = tanh({'x' if level == 4 else f'y{level + 1}'})")
    if not before:
        lines += [
            f"{'  ' * (5 - level)}y{level} = tanh({'x' if level == 1 else f'y{level - 1}'})"
            for level in (1, 2, 3, 4)
        ]
    return "\n".join(lines) + f"\nz = sin(y{1 if before else 4})"


BINARY = """
r0(x):
  r1(x):
    r2(x):
      a0 = tanh(x)
    a1 = tanh(a0)
  r3(a1):
    a2 = tanh(a1)
  a3 = tanh(a2)
r4(a3):
  r5(a3):
    a4 = tanh(a3)
  a5 = tanh(a4)
r6(a5):
  a6 = tanh(a5)
a7 = tanh(a6)
z = sin(a7)
"""
BINARY_COUNTS = "a0:3 a1:2 a2:2 a3:1 a4:2 a5:1 a6:1 a7:0"
PAIR = """
o(x):
  ra(x):
    a = tanh(x)
  rb(a):
    b = tanh(a)
z = sin(b)
"""
MLP = region("m1 = matmul(x, w1)", "h1 = relu(m1)", "m2 = matmul(h1, w2)", "h2 = relu(m2)")
SINE = region(
    "m1 = matmul(x, w1)", "h = relu(m1)", "m2 = matmul(h, w2)", "s = sin(m2)", "a = add(s, 1.0)"
)
SIX = region(
    *(
        line
        for n in range(1, 7)
        for line in (f"m{n} = matmul({f'h{n - 1}' if n > 1 else 'x'}, w{n})", f"h{n} = relu(m{n})")
    )
)
ROWS = [
    # one region, torch: reentrant, non-reentrant
    _row("conv", _conv(CONV), "c1 r1", "c0 r1", "c0 r0"),
    _row("conv relu", _conv(CONV, "e = relu(c)"), "c1 e1 r1", "c1 e1 r1"),
    _row("conv sin", _conv(CONV, "s = sin(c)"), "c1 s1 r1", "c1 s0 r1", "c1 s0 r1"),
    _row(
        "relu conv",
        _conv("e = relu(q)", "c = conv2d(e, k, padding='same')"),
        "e1 c1 r1",
        "e1 c0 r1",
        "e1 c0 r1",
    ),
    _row("conv gelu", _conv(CONV, "g = gelu(c)"), "c1 g1 r1", "c1 g0 r1", "c1 g0 r1"),
    _row("conv add", _conv(CONV, "a = add(c, 1.0)"), "c1 a1 r1", "c0 a0 r1", "c0 a0 r0"),
    _row(
        "conv conv",
        _conv(CONV, "d = conv2d(c, l, padding='same')"),
        "c1 d1 r1",
        "c1 d0 r1",
        "c1 d0 r1",
    ),
    _row("linear", region("y = linear(x, w1, b)"), "y1 r1", "y0 r1", "y0 r0"),
    *(
        _row(op, region(f"y = {op}(x)"), "y1 r1", "y1 r1")
        for op in ("tanh", "exp", "softmax", "sigmoid")
    ),
    _row("layer_norm", region("y = layer_norm(x, b, b)"), "y1 r1", "y1 r1"),
    _row("max_pool2d", _conv("y = max_pool2d(q, size=2)"), "y1 r1", "y1 r1"),
    _row("dropout", region("y = dropout(x)"), "y1 r1", "y1 r1", "y1 r1"),
    _row("sin", region("y = sin(x)"), "y1 r1", "y0 r1", "y0 r0"),
    _row("square", region("y = multiply(x, x)"), "y1 r1", "y0 r1", "y0 r0"),
    _row("nothing saved", region("y = add(x, 1.0)"), "y1 r1", "y0 r0", "y0 r0"),
    _row(
        "sin(relu(x @ w1) @ w2) + 1",
        SINE,
        "m1:1 m2:1 h1 s1 a1 r1",
        "m1:1 m2:1 h1 s0 a0 r1",
        "m1:1 m2:1 h1 s0 a0 r1",
    ),
    # a result saved by the framework only after its operation
    _row("conv, saved after", _conv(CONV), None, "c1 r1", region="after"),
    # jax: dead code in the middle and at the end
    _row(
        "linear tanh linear tanh linear",
        region(
            "a = matmul(x, w1)",
            "t = tanh(a)",
            "c = matmul(t, w2)",
            "u = tanh(c)",
            "e = matmul(u, w3)",
        ),
        "a1 t1 c1 u1 e1",
        "a1 t1 c1 u1 e0",
        "a1 t1 c1 u1 e0",
    ),
    _row(
        "all linear",
        region("a = add(x, x)", "n = negative(a)", "y = subtract(n, x)"),
        "a1 n1 y1 r1",
        "a0 n0 y0 r0",
        "a0 n0 y0 r0",
    ),
    # mindspore in graph mode: a block's result is at hand, relu reads its result
    _row(
        "two layers in graph mode",
        MLP,
        "m1:1 h1:1 m2:1 h2:1 r1",
        "m1:1 h1:1 m2:1 h2:1 r1",
        "m1:1 h1:1 m2:0 h2:0 r1",
        relu="out",
        region="out",
    ),
    _row(
        "six layers as one cell in graph mode",
        SIX,
        None,
        None,
        "m1:1 m2:1 m3:1 m4:1 m5:1 m6:0 h1:1 h2:1 h3:1 h4:1 h5:1 h6:0",
        relu="out",
        region="out",
    ),
    _row("one relu recomputed", region("e = relu(x)"), None, None, "e1 r1", relu="out"),
    _row("one matmul recomputed", region("m = matmul(x, w1)"), None, None, "m0 r0"),
    # tensorflow: a recomputed convolution, a plain relu
    _row("conv, relu outside", f"r(q):\n  {CONV}\nz = relu(c)", "c1 z0 r1"),
    # nesting
    _row(
        "head, inner, tail",
        "o(x):\n  h = tanh(x)\n  n(h):\n    i = tanh(h)\n  t = tanh(i)\nz = sin(t)",
        "h1 i2 t1 o1 n2",
        "h1 i2 t1 o1 n2",
        "h1 i2 t1",
        tanh="out",
    ),
    _row(
        "four deep, before",
        _deep(True),
        "y4:1 y3:2 y2:3 y1:4 l4:1 l3:2 l2:3 l1:4",
        "y4:1 y3:1 y2:1 y1:1 l4:1 l3:1 l2:1 l1:1",
        "y4:1 y3:1 y2:1 y1:1 l4:1 l3:1 l2:1 l1:1",
        tanh="out",
    ),
    _row(
        "four deep, after",
        _deep(False),
        "y4:1 y3:2 y2:3 y1:4 l4:1 l3:2 l2:3 l1:4",
        "y4:1 y3:2 y2:3 y1:4 l4:1 l3:2 l2:3 l1:4",
        "y4:1 y3:2 y2:3 y1:4 l4:1 l3:2 l2:3 l1:4",
        tanh="out",
    ),
    _row(
        "four deep, flattened",
        _deep(False),
        None,
        None,
        "y4:1 y3:1 y2:1 y1:1",
        tanh="out",
        region="flat",
    ),
    _row("a pair in one", PAIR, "a2 b2 ra2 rb2 o1", "a2 b1 ra2 rb1 o1", "a2 b1", tanh="out"),
    _row("a pair in one, flattened", PAIR, None, None, "a1 b1", tanh="out", region="flat"),
    # mindspore in graph mode: a mask is kept with its operation; a single operation's result is not
    _row("dropout, result at hand", region("y = dropout(x)"), None, None, "y0 r0", region="out"),
    _row("linear, made anew", region("y = linear(x, w1, b)"), None, None, "y1 r1", region="anew"),
    _row("a pair, results at hand", PAIR, None, None, "a1 b0", tanh="out", region="out flat"),
    _row("a pair, all at hand", PAIR, None, None, "a0 b0", tanh="out", region="out inner flat"),
    _row(
        "one inside, one after",
        "o(x):\n  ra(x):\n    a = tanh(x)\n  b = tanh(a)\nz = sin(b)",
        "a2 b1",
    ),
    _row(
        "one before, one inside",
        "o(x):\n  a = tanh(x)\n  rb(a):\n    b = tanh(a)\nz = sin(b)",
        "a1 b2",
    ),
    _row(
        "three times the same",
        "r1(x):\n  r2(x):\n    r3(x):\n      a = tanh(x)\nz = sin(a)",
        "a3 r1:1 r2:2 r3:3",
        None,
        "a1",
        tanh="out",
    ),
    _row("binary", BINARY, BINARY_COUNTS, BINARY_COUNTS, BINARY_COUNTS, tanh="out"),
    # adjacent
    _row(
        "adjacent",
        "ra(x):\n  a = tanh(x)\nrb(a):\n  b = tanh(a)\nz = sin(b)",
        "a1 b1 ra1 rb1",
        "a1 b1 ra1 rb1",
        "a1 b1 ra1 rb1",
        tanh="out",
    ),
    _row(
        "adjacent, merged",
        "ra(x):!\n  s = sin(x)\n  a = tanh(s)\nrb(a):\n  e = exp(a)\n  b = sigmoid(e)\nz = sin(b)",
        "s1 a1 e1 b1 ra1 rb1",
        "s1 a1 e1 b1 ra1 rb1",
        "s1 a1 e1 b1 ra1 rb1",
        tanh="out",
        exp="out",
        sigmoid="out",
    ),
    _row(
        "merged, the first one's result is wanted though its gradients are not",
        "ra(x):!\n  s = sin(x)\n  a = add(s, 1.0)\nrb(a):\n  e = sin(a)\nz = sin(e)",
        "s1 a1 e1",
        "s1 a1 e0",
        "s1 a1 e0",
    ),
    # parts that gradients do not pass through
    _row(
        "stopped",
        "r(x):\n  a = tanh(x)\ny = stop_gradient(a)\nz = multiply(y, x)",
        "a0 r0",
        "a0 r0",
        "a0 r0",
    ),
    _row(
        "unused region",
        "r(x):\n  a = tanh(x)\nz = sin(x)",
        "a0 r0",
        "a0 r0",
        "a0 r0",
    ),
    _row(
        "dead branch in a region",
        "r(x):\n  d = tanh(x)\n  a = exp(x)\nz = sin(a)",
        "d1 a1",
        None,
        "d0 a1",
        exp="out",
    ),
]


def _reruns(
    program: Case, discipline: str, residuals: Mapping[str, str]
) -> dict[str, tuple[int, ...]]:
    found = expect(program, discipline, residuals=residuals).executions
    return {
        label or name: allowed.counts
        for (name, label, phase), allowed in found.items()
        if phase == "rerun"
    }


MEASURED = [
    pytest.param(row, discipline, measured, id=f"{row.name}-{discipline}")
    for row in ROWS
    for discipline, measured in (
        ("whole", row.whole),
        ("early-stop", row.early_stop),
        ("minimal", row.minimal),
    )
    if measured is not None
]


@pytest.mark.parametrize(("row", "discipline", "measured"), MEASURED)
def test_measured_counts(row: Row, discipline: str, measured: Mapping[str, int]) -> None:
    found = _reruns(case(row.program), discipline, row.residuals)
    assert {name: found[name] for name in measured} == {n: (c,) for n, c in measured.items()}


def test_everything_runs_once_in_forward() -> None:
    for row in ROWS:
        found = expect(case(row.program), "whole").executions
        assert {a.counts for (_, _, phase), a in found.items() if phase == "forward"} == {(1,)}


def test_alternatives_are_all_allowed_and_explained() -> None:
    found = expect(case(region("m = matmul(x, w1)", "y = relu(m)")), "minimal").executions
    assert set(found["r", "y", "rerun"].counts) == {0, 1}
    assert found["r", "y", "rerun"].reason
    assert found["r", "m", "rerun"].counts == (1,)
    pinned = expect(
        case(region("m = matmul(x, w1)", "y = relu(m)")), "minimal", residuals={"relu": "x"}
    ).executions
    assert pinned["r", "y", "rerun"].counts == (0,)


def _saving(policy: str) -> Case:
    """A region inside another one, whose policies keep a result of the inner one, or not."""
    lines = "      - recompute: r\n        takes: x\n        gives: a\n        body:\n"
    lines += "          - recompute: s\n            takes: x\n            gives: a\n"
    lines += f"            body: [{policy}]\n            save: [m]\n      - z = sin(a)\n"
    text = HEAD + "    program:\n" + lines + "    outputs: z\n    gradients: {of: sum(z)}\n"
    return load_text(text, "test.yaml")[0]


def test_what_an_inner_policy_keeps_is_computed_again_in_the_region_around_it() -> None:
    """As counted in the jaxpr of `jax.checkpoint`."""
    found = _reruns(_saving("m = sin(x), a = sin(m)"), "minimal", {})
    assert (found["m"], found["a"]) == ((1,), (0,))
    # The mask as well: with the result, or once more in the inner region if it was not kept there.
    found = _reruns(_saving("h = sin(x), 'm = dropout(h)', a = sin(m)"), "minimal", {})
    assert set(found["m"]) == {1, 2}


def test_statistics_of_a_normalisation_do_not_depend_on_its_bias() -> None:
    found = _reruns(
        case(region("c = sin(b)", "h = sin(x)", "y = layer_norm(h, b, c)")), "minimal", {}
    )
    assert (found["h"], set(found["c"])) == ((1,), {0, 1})


def test_residuals_move_the_stop() -> None:
    program = case(region("m = matmul(x, w1)", "y = relu(m)"))
    assert _reruns(program, "early-stop", {})["y"] == (1,)
    assert _reruns(program, "early-stop", {"relu": "x"})["y"] == (0,)


def test_what_is_saved_depends_on_what_asks_for_a_gradient() -> None:
    frozen = "    inputs:\n      x: {shape: [4, 4], normal: 0.5, gradient: false}\n"
    text = """
family: counts
cases:
  one:
    title: A frozen input
    source: the tests
    why: A product saves the factor that the other one's gradient reads.
INPUTS    parameters:
      w: {shape: [4, 4], normal: 0.5, gradient: WEIGHT}
    program:
      - recompute: r
        takes: x
        gives: y
        body:
          - s = tanh(x)
          - y = matmul(s, w)
      - z = sin(y)
    outputs: z
    gradients: {of: sum(z)}
""".replace("INPUTS", frozen)
    (trained,) = load_text(text.replace("WEIGHT", "true"), "test.yaml")
    for discipline in ("whole", "early-stop", "minimal"):
        found = _reruns(trained, discipline, {})
        # w's gradient reads s; s itself has no gradient, so it saves nothing
        assert found["s"] == (1,)
        assert found["y"] == ((1,) if discipline == "whole" else (0,))


def test_training_takes_gradients_of_parameters_that_are_not_asked_for() -> None:
    program = case("r(x):\n  h = sin(w1)\n  y = sin(h)\nz = multiply(y, x)")
    asked = replace(program, wrt=("x",))
    training = replace(asked.procedure, kind="train", steps=1, learning_rate=0.1)
    assert _reruns(asked, "whole", {})["h"] == (1, 0)
    assert _reruns(replace(asked, procedure=training), "whole", {})["h"] == (1,)


ASKED = [
    ("nothing saved", "r(x):\n  a = add(x, 1.0)\nz = sin(a)", {"r": 0, "a": 0}),
    ("a sine", "r(x):\n  a = sin(x)\n  b = add(a, 1.0)\nz = sin(b)", {"r": 1, "a": 1, "b": 1}),
    ("one region inside", "o(x):\n  r(x):\n    a = tanh(x)\nz = sin(a)", {"o": 1, "r": 2, "a": 2}),
    (
        "nothing saved inside, before",
        "o(x):\n  r(x):\n    a = add(x, 1.0)\n  b = tanh(a)\nz = sin(b)",
        {"o": 1, "r": 1, "a": 1, "b": 1},
    ),
    (
        "nothing saved inside, after",
        "o(x):\n  b = tanh(x)\n  r(b):\n    a = add(b, 1.0)\nz = sin(a)",
        {"o": 1, "r": 1, "a": 1, "b": 1},
    ),
    ("nothing at all", "o(x):\n  r(x):\n    a = add(x, 1.0)\nz = sin(a)", {"o": 0, "r": 0}),
    ("pair", PAIR, {"o": 1, "ra": 2, "rb": 2}),
    ("deep before", _deep(True), {"l4": 1, "l3": 2, "l2": 3, "l1": 4}),
    ("deep after", _deep(False), {"l4": 1, "l3": 2, "l2": 3, "l1": 4}),
]


@pytest.mark.parametrize(("program", "counted"), [r[1:] for r in ASKED], ids=[r[0] for r in ASKED])
def test_whole_where_asked(program: str, counted: Mapping[str, int]) -> None:
    """Measured with torch's checkpoint, use_reentrant=False and early_stop=False."""
    found = _reruns(case(program), "whole", {"region": "asked", "tanh": "out"})
    assert {name: found[name] for name in counted} == {n: (c,) for n, c in counted.items()}


def test_what_is_kept_early_stops_before_its_end() -> None:
    """Measured with torch's dropout: the mask is kept before it is multiplied with."""
    program = case("r(x):\n  s = sin(x)\n  d = dropout(s)\n  y = add(d, x)\nz = sin(y)")
    found = _reruns(program, "early-stop", {})
    assert (found["s"], found["d"], found["y"]) == ((1,), (1,), (0,))
    found = _reruns(program, "early-stop", {"dropout": "mask early"})
    assert (found["r"], found["s"], found["d"], found["y"]) == ((1,), (1,), (0,), (0,))


def _procedure(rest: str) -> Case:
    return case(region("m = matmul(x, w1)", "s = tanh(m)"), rest=rest)


@pytest.mark.parametrize("discipline", ["whole", "early-stop", "minimal"])
def test_procedures(discipline: str) -> None:
    residuals = {"tanh": "out"}
    of = "    gradients: {of: sum(z)}\n    procedure: "

    def found(rest: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
        executions = expect(_procedure(rest), discipline, residuals=residuals).executions
        return executions["r", "m", "forward"].counts, executions["r", "m", "rerun"].counts

    assert found(of + "second_backward\n") == ((1,), (2,))
    assert found(of + "{train: {steps: 5, learning_rate: 0.1}}\n") == ((5,), (5,))
    assert found("    procedure: inference\n") == ((1,), (0,))
    forward, rerun = found(of + "second_order\n")
    assert forward == (1,)
    assert {1, 2} <= set(rerun)
    assert 0 not in rerun


def test_equal_operations_that_make_one_name_count_together_in_each_order() -> None:
    of = "    gradients: {of: sum(z)}\n    procedure: second_order\n"
    for names, most in (("ab", 3), ("aa", 6)):
        one, other = names
        body = region(f"{one} = exp(x)", f"{other} = exp({one})", f"z = sin({other})")
        rerun = expect(case(body, rest=of), "minimal").executions["r", "", "rerun"]
        assert max(rerun.counts) == most


def test_gradient_of_a_later_weight_alone_reruns_nothing() -> None:
    program = case(
        "r(x):\n  m = matmul(x, w1)\n  a = tanh(m)\nz = matmul(a, w2)",
        rest="    gradients: {of: sum(z), wrt: [w2]}\n",
    )
    for discipline in ("whole", "early-stop", "minimal"):
        # x and w1 ask for gradients too: who takes all of them reruns the region
        assert set(_reruns(program, discipline, {})["r"]) == {0, 1}


def test_repeated_calls_add_up() -> None:
    lines = "      - recompute: r\n        takes: x\n        gives: a\n        body:\n"
    lines += "          - a = tanh(x)\n      - {call: r, takes: [a], gives: c}\n"
    lines += "      - {call: r, takes: [c], gives: z}\n"
    text = HEAD + "    program:\n" + lines + "    outputs: z\n    gradients: {of: sum(z)}\n"
    (program,) = load_text(text, "test.yaml")
    for discipline in ("whole", "early-stop"):
        found = expect(program, discipline).executions
        for label in ("", "a"):
            assert found["r", label, "forward"].counts == (3,)
            assert found["r", label, "rerun"].counts == (3,)


def test_unused_statement_may_be_left_out_under_minimal_alone() -> None:
    program = case("r(x):\n  d = sin(x)\n  a = tanh(x)\nz = sin(a)")
    assert set(expect(program, "minimal").executions["r", "d", "forward"].counts) == {0, 1}
    assert expect(program, "early-stop").executions["r", "d", "forward"].counts == (1,)


def test_a_call_whose_result_is_dropped_may_be_left_out_under_minimal_alone() -> None:
    """It is one of two calls: none of the statements is without use in the other."""
    lines = "      - recompute: r\n        takes: x\n        gives: a\n        body:\n"
    lines += "          - s = sin(x)\n          - a = tanh(s)\n"
    lines += "      - {call: r, takes: [a], gives: _b}\n      - z = sin(a)\n"
    text = HEAD + "    program:\n" + lines + "    outputs: z\n    gradients: {of: sum(z)}\n"
    (program,) = load_text(text, "test.yaml")
    for label in ("", "s", "a"):
        least = expect(program, "minimal").executions
        assert set(least["r", label, "forward"].counts) == {1, 2}
        for discipline in ("whole", "early-stop"):
            found = expect(program, discipline).executions
            assert found["r", label, "forward"].counts == (2,)
            assert found["r", label, "rerun"].counts == (1,)


def test_a_dropped_call_may_be_left_out_of_a_pass_between_steps() -> None:
    lines = "      - recompute: r\n        takes: x\n        gives: a\n        body:\n"
    lines += "          - a = multiply(x, w1)\n      - {call: r, takes: [x], gives: b}\n"
    lines += "      - {call: r, takes: [b], gives: c}\n      - {call: r, takes: [c], gives: z}\n"
    steps = "    procedure: {train: {steps: 2, learning_rate: 0.1, between: [{run: inference}]}}\n"
    text = HEAD + "    program:\n" + lines + "    outputs: z\n" + steps
    (program,) = load_text(text, "test.yaml")
    for discipline, counts in (("minimal", {6, 7, 8, 9, 10, 11, 12}), ("whole", {8, 12})):
        assert set(expect(program, discipline).executions["r", "a", "forward"].counts) == counts
