# ruff: noqa: E501 (a table reads best a row a line)
"""Case files that load: what their short forms and what is left out mean."""

from __future__ import annotations

import pytest

from conformance.language.hashing import cases_hash
from conformance.language.load import load_text
from conformance.model.case import Again, Literal, Ref, Repeat, Statement, flat

from .test_load import (
    AFTER,
    DEFINE,
    GOOD,
    OF,
    PAIR,
    SEQUENCE,
    Z,
)


def test_axes_expand_in_order() -> None:
    text = GOOD.replace("[2, 3]", "[$n, 3]").replace("normal: 1.0}", "normal: 1.0, dtype: $d}")
    text = text.replace(OF, OF + "    axes: {n: [1, 2], d: [float32, float64]}\n")
    cases = load_text(text, "f.yaml")
    assert [c.id for c in cases] == [
        f"fam/one[n={n},d={d}]" for n in (1, 2) for d in ("float32", "float64")
    ]
    assert [c.arrays[0].shape for c in cases] == [(1, 3), (1, 3), (2, 3), (2, 3)]
    assert [c.tolerance.rtol for c in cases] == [1e-4, 1e-9, 1e-4, 1e-9]


def test_repeat_numbers_names() -> None:
    region = GOOD[GOOD.index("      - recompute") : GOOD.index("      - z")]
    inner = region.replace("block", "block$i").replace("\n      ", "\n          ")
    text = GOOD.replace(region, f"      - repeat: [2, 5]\n        body:\n    {inner.rstrip()}\n")
    (case,) = load_text(text, "f.yaml")
    assert [r.name for r in case.regions()] == ["block2", "block5"]


def test_what_is_repeated_is_one_node_with_its_iterations() -> None:
    chain = "      - {repeat: 3, body: h = sin(h)}\n      - z = exp(h)"
    text = GOOD.replace("      - z = exp(y)", f"      - h = exp(y)\n{chain}")
    (case,) = load_text(text, "f.yaml")
    (repeat,) = (node for node in case.program if isinstance(node, Repeat))
    assert [[s.op for s in flat(nodes)] for nodes in repeat.iterations] == [["sin"]] * 3
    ops = [node.op for node in flat(case.program) if isinstance(node, Statement)]
    assert ops == ["exp", *["sin"] * 3, "exp"]
    line = "h = sin(h)"
    written_out = text.replace(f"{{repeat: 3, body: {line}}}", "; ".join([line] * 3))
    assert cases_hash([case]) == cases_hash(load_text(written_out, "f.yaml"))


def test_a_repeat_holds_its_body_once() -> None:
    text = GOOD.replace(
        "- z = exp(y)",
        "- {repeat: [2, 4], body: 't$i = uniform(shape=[3], seed=$i); z = add(y, t$i); z = add(z, $i)'}",
    )
    (case,) = load_text(text, "f.yaml")
    (repeat,) = (node for node in case.program if isinstance(node, Repeat))
    assert repeat.numbers == (2, 4)
    assert [node.label for node in repeat.body if isinstance(node, Statement)] == ["t$i", "z", "z"]
    made = [node for node in flat((repeat,)) if isinstance(node, Statement)]
    assert [node.label for node in made] == ["t2", "z", "z", "t4", "z", "z"]
    assert [node.options["seed"] for node in made if node.op == "uniform"] == [2, 4]
    assert [node.arguments[1] for node in made if node.label == "z"] == [
        Ref("t2"),
        Literal(2),
        Ref("t4"),
        Literal(4),
    ]
    assert {str(node.where) for node in made if node.label != "z"} == {"f.yaml:19:33"}
    assert list(flat((repeat,))) == list(flat((repeat,)))


def test_what_is_repeated_once_is_no_repetition() -> None:
    (case,) = load_text(GOOD.replace("- z = exp(y)", "- {repeat: [4], body: z = exp(y)}"), "f.yaml")
    assert not any(isinstance(node, Repeat) for node in case.program)


def test_trees() -> None:
    text = GOOD.replace("gives: y", "gives: [y, {aux: [h, null], n: 7}]").replace(
        "outputs: z", "outputs: {z: z, more: [y, [h]]}"
    )
    (case,) = load_text(text, "f.yaml")
    aux = {"aux": (Ref("h"), Literal(None)), "n": Literal(7)}
    assert case.regions()[0].gives == (Ref("y"), aux)
    assert case.outputs == {"z": Ref("z"), "more": (Ref("y"), (Ref("h"),))}


def test_a_sequence_is_divided_into_segments() -> None:
    (case,) = load_text(
        GOOD.replace(AFTER, AFTER + SEQUENCE.replace("segments: 2", "segments: 3")), "f"
    )
    parts = case.regions()[1:]
    assert [r.name for r in parts] == ["part1", "part2", "part3"]
    assert [[s.op for s in r.body] for r in parts] == [["sin"], ["cos", "sin"], ["cos", "sin"] * 2]
    assert [len(r.segment.layers) for r in parts if r.segment] == [1, 1, 2]
    assert {r.granularity for r in parts} == {"segment"}
    assert [r.segment.last for r in parts if r.segment] == [False, False, True]


def test_a_defined_region_is_called_from_lists_below() -> None:
    inner = "      - recompute: outer\n        takes: z\n        gives: z\n        body: [{call: later, takes: z, gives: z}]\n"
    (case,) = load_text(GOOD.replace(AFTER, AFTER + DEFINE + inner), "f")
    later = next(r for r in case.regions() if r.name == "later")
    assert not later.called
    assert [leaf.name for leaf in later.takes if isinstance(leaf, Ref)] == ["v"]


def test_words_follow_an_axis_and_are_not_in_the_id() -> None:
    text = GOOD.replace("[2, 3]", "[$n, $m]").replace("[3, 3]", "[$m, 3]")
    axes = "    axes: {n: [1, 2], m: {follows: n, values: [5, 7]}}\n"
    cases = load_text(text.replace(OF, OF + axes), "f")
    assert [(c.id, c.arrays[0].shape) for c in cases] == [
        ("fam/one[n=1]", (1, 5)),
        ("fam/one[n=2]", (2, 7)),
    ]


#: The good file at its shortest, and the words that it leaves out.
SHORTEST = """\
family: fam
tensors:
  x: {shape: [2, 3], normal: 1.0}
cases:
  one:
    title: A title
    source: A source
    why: A reason
    inputs: [x, flag: {value: true}]
    parameters: {w: {shape: [3, 3], normal: 1.0}}
    program:
      - recompute: block(x)
        body: h = matmul(x, w); y = sin(h)
      - z = exp(y)
"""


def _same(one: str, other: str) -> bool:
    return cases_hash(load_text(one, "f")) == cases_hash(load_text(other, "f"))


def test_what_is_left_out_is_what_it_means_anyway() -> None:
    assert _same(GOOD, SHORTEST)
    (case,) = load_text(SHORTEST, "f.yaml")
    assert [str(s.where) for _, s in case.statements()] == [
        "f.yaml:13:15",
        "f.yaml:13:33",
        "f.yaml:14:9",
    ]


@pytest.mark.parametrize(
    ("long", "short"),
    [
        (f"{Z}      - {{call: block, takes: z, gives: z}}\n", f"{Z}      - z = block(z)\n"),
        (Z.replace("z = exp(y)", "{repeat: 2, body: [{call: block, takes: y, gives: y}, z = sin(y)]}"), Z.replace("z = exp(y)", "{repeat: 2, body: y = block(y); z = sin(y)}")),
        (Z + DEFINE.replace("takes: v, ", ""), Z + DEFINE.replace("define: later\n        takes: v\n        gives: v", "define: later(v)").replace("{call: later, takes: z, gives: z}", "z = later(z)")),
        (Z + SEQUENCE, Z + SEQUENCE.replace("[z = sin(z)]", "z = sin(z)").replace("['p$i = cos(z)', 'z = sin(p$i)']", "p$i = cos(z); z = sin(p$i)")),
        (PAIR.replace(", returned: pair", "") + Z, PAIR.replace("{call: two, takes: y, gives: [s, t], returned: pair}", "s, t = two(y)") + Z),
        (Z, f"{Z}    outputs: z\n    gradients: {{of: sum(z)}}\n"),
        (f"{Z}    outputs: [z, y]\n    gradients: {{of: sum(z), wrt: [w]}}\n", f"{Z}    outputs: [z, y]\n    gradients: {{wrt: [w]}}\n"),
        (f"{Z}    outputs: {{r: [y, z]}}\n    gradients: {{of: sum(y)}}\n", f"{Z}    outputs: {{r: [y, z]}}\n"),
    ],
)  # fmt: skip
def test_two_ways_of_saying_the_same(long: str, short: str) -> None:
    assert _same(SHORTEST.replace(Z, long), SHORTEST.replace(Z, short))


def test_named_arguments_in_brackets() -> None:
    text = SHORTEST.replace("block(x)", "block(x, m=w)")
    (case,) = load_text(text, "f")
    assert (case.regions()[0].takes, case.regions()[0].kwargs) == ((Ref("x"),), {"m": Ref("w")})
    again = text.replace(Z, f"{Z}      - z = block(z, m=w)\n")
    (case,) = load_text(again, "f")
    call = case.program[-1]
    assert isinstance(call, Again)
    assert (call.takes, call.kwargs, call.gives) == ((Ref("z"),), {"m": Ref("w")}, Ref("z"))


def test_a_case_without_a_loss_says_so() -> None:
    (case,) = load_text(SHORTEST + "    procedure: inference\n", "f")
    assert (case.loss, case.wrt) == (None, ())


def test_a_region_named_like_an_operation_is_called_by_its_key() -> None:
    text = SHORTEST.replace("block(x)", "tanh(x)").replace(Z, f"{Z}      - z = tanh(z)\n")
    (case,) = load_text(text, "f")
    assert isinstance(case.program[-1], Statement)


def test_numbered_tensors_of_a_table() -> None:
    table = "tensors:\n  w$i: {repeat: 3, shape: [3, 3], normal: 1.0}\n"
    text = SHORTEST.replace("tensors:\n", table).replace("matmul(x, w)", "matmul(x, w2)")
    text = text.replace(
        "    parameters: {w: {shape: [3, 3], normal: 1.0}}\n", "    parameters: [w3, w2, w1]\n"
    )
    (case,) = load_text(text, "f")
    assert [a.name for a in case.parameters] == ["w3", "w2", "w1"]
    assert {a.shape for a in case.parameters} == {(3, 3)}
