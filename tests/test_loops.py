"""What repeats in a program is a loop, and does the same."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from conformance.drivers.adapter import all_adapters
from conformance.emit import lists
from conformance.emit.lists import Item
from conformance.emit.programs import EmitFailure, texts
from conformance.language.load import load_folder, load_text

ROOT = Path(__file__).parent.parent
#: Variants in which Python runs the program eagerly, beside the first one of each adapter.
EAGER = {
    *("torch/reentrant", "torch/non-reentrant-whole", "torch/selective", "torch/wrapper"),
    *("mindspore/pynative-non-reentrant", "paddle/hook", "paddle/layers"),
    *("keras/remat-jax", "keras/remat-torch"),
}
VARIANTS = [
    (adapter, variant)
    for adapter in all_adapters(ROOT / "adapters")
    for number, variant in enumerate(adapter.variants)
    if number == 0 or variant.id in EAGER
]
ADAPTERS = all_adapters(ROOT / "adapters")
TENSORS = ["x", *(f"w{n}" for n in range(1, 6)), *(f"b{n}" for n in range(1, 6))]


def _loop(line: str, numbers: Sequence[int] = (1, 2, 3), taken: Sequence[str] = ()) -> list[str]:
    """The loop of iterations that are these lines, with `$i` for the number; empty if there is none."""
    names = [name for name in ("w$i", "b$i") if name in line]
    series = [[name.replace("$i", str(n)) for n in numbers] for name in names]
    given = [line.replace("$i", str(n)).splitlines() for n in numbers]
    return lists.loop(given, series, [*TENSORS, *taken]) or []


def test_equal_iterations_are_one_loop() -> None:
    assert _loop("h = f(h)") == ["for _ in range(3):", "    h = f(h)"]
    assert _loop("    h = f(h)") == ["    for _ in range(3):", "        h = f(h)"]


def test_a_loop_goes_over_the_tensors_that_differ() -> None:
    assert _loop("h = f(h, w$i)") == ["for w in (w1, w2, w3):", "    h = f(h, w)"]
    assert _loop("h = f(h, b$i, x, self.w$i, b$i)") == [
        "for b, w in zip((b1, b2, b3), (self.w1, self.w2, self.w3)):",
        "    h = f(h, b, x, w, b)",
    ]


def test_an_iteration_may_be_several_lines() -> None:
    written = ["for w in (w1, w2, w3):", "    p = h @ w", "    h = sin(p)"]
    assert _loop("p = h @ w$i\nh = sin(p)") == written


def test_the_variable_hides_no_other_name() -> None:
    assert _loop("h = f(h, w$i)", taken=["w"])[0] == "for w_i in (w1, w2, w3):"
    assert _loop("h = f(h, w$i)", taken=["w", "w_i"]) == []


@pytest.mark.parametrize(
    "line",
    [
        "h = checkpoint(lambda h: f(h, w$i), h)",  # called in backward, when the loop is over
        "h = f(h, w1, w$i)",  # in the first iteration, both have one name
        "h = f(self.w$i, w$i)",
        "p$i = f(h)",  # each of these names may be read later
    ],
)
def test_what_a_loop_would_change_stays(line: str) -> None:
    assert _loop(line) == []


def test_tensors_made_alike_are_a_list() -> None:
    lines, entries = lists.series(
        ["    x = new(3)", *(f'    w{n} = new(2, name="w{n}")' for n in (1, 2, 3))], ["x"]
    )
    assert lines == ["    x = new(3)", '    ws = [new(2, name=f"w{i}") for i in range(1, 4)]']
    assert set(entries.values()) == {'**{f"w{i}": w for i, w in enumerate(ws, 1)}'}
    assert sorted(entries) == ["w1", "w2", "w3"]


@pytest.mark.parametrize(
    "lines",
    [
        ["w1 = new(2)", "w2 = new(2)"],
        ["w1 = new(2)", "w2 = new(3)", "w3 = new(2)"],
        ["w2 = new(2)", "w3 = new(2)", "w4 = new(2)"],
    ],
)
def test_others_stay_as_they_are(lines: list[str]) -> None:
    assert lists.series(lines, []) == (lines, {})


REPEATED = """
family: made
cases:
  chain:
    title: A chain of calls
    source: made up
    why: It is written as a loop, or not.
    inputs: {x: {shape: [64, 64], normal: 1.0}}
    parameters: {w$i: {repeat: 4, shape: [64, 64], normal: 0.1}}
    program:
      - define: layer(h, w)
        body: p = matmul(h, w); h = sin(p)
      - h = negative(x)
      - BODY
"""


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ('{repeat: 4, body: "h = layer(h, w$i)"}', "    for w in ws:"),
        ('{repeat: [2, 3, 4], body: "h = layer(h, w$i)"}', "    for w in ws[1:]:"),
        ('{repeat: 3, body: "h = layer(h, w1); h = cos(h)"}', "    for _ in range(3):"),
        ('{repeat: 2, body: "h = layer(h, w$i)"}', ""),  # two lines are as short as a loop
        ("h = layer(h, w1); h = layer(h, w2); h = layer(h, w3)", ""),  # the case has no loop
        # Each name may be read later, what is assigned to a loop variable not.
        ('{repeat: 3, body: "p$i = layer(h, w$i); h = cos(p$i)"}', ""),
        ('{repeat: 3, body: "w$i = cos(w$i); h = layer(h, w$i)"}', ""),
    ],
)
def test_a_loop_is_written_where_the_case_has_one(body: str, line: str) -> None:
    (case,) = load_text(REPEATED.replace("BODY", body), "made.yaml")
    adapter = next(a for a in ADAPTERS if a.name == "torch")
    written = texts(adapter, [(case, adapter.variant("non-reentrant"))])
    (program,) = written.values()
    assert not isinstance(program, EmitFailure)
    plain = program.text.partition("def plain(")[2].partition("def recomputed(")[0].splitlines()
    assert [each for each in plain if each.lstrip().startswith("for ")] == ([line] if line else [])


@pytest.mark.parametrize(("adapter", "variant"), VARIANTS, ids=[v.id for _, v in VARIANTS])
def test_a_chain_of_eight_layers_is_short(adapter, variant) -> None:  # type: ignore[no-untyped-def]
    """A layer is written once for each path at most, and called in a loop over a list of weights."""
    (case,) = (c for c in load_folder(ROOT / "cases") if c.id == "memory/chain-each")
    written = texts(adapter, [(case, variant)])[case.id, variant.id]
    assert not isinstance(written, EmitFailure)
    assert written.text.count("for w in ws:") == 2
    assert not re.search(r"\bw[1-8]\b(?!\")", written.text), "a weight by its own name"
    (docstring, *_) = ast.parse(written.text).body
    code = [line for line in written.text.splitlines()[docstring.end_lineno :] if line.strip()]
    assert len(code) <= 45


@pytest.mark.parametrize("variant", ["torch/non-reentrant", "paddle/hook", "autograd/arguments"])
def test_a_region_that_reads_nothing_around_it_is_one_function(variant: str) -> None:
    adapter = next(a for a in ADAPTERS if a.name == variant.partition("/")[0])
    chosen = next(v for v in adapter.variants if v.id == variant)
    (case,) = (c for c in load_folder(ROOT / "cases") if c.id == "memory/chain-each")
    written = texts(adapter, [(case, chosen)])[case.id, variant]
    assert not isinstance(written, EmitFailure)
    assert written.text.count("def layer(") == 1
    assert "\ndef layer(h, w):\n" in written.text
    inside = {s.path for s in written.lines.values() if s.region == "layer"}
    assert inside == {"both"}


def test_a_region_that_reads_what_is_around_it_is_one_function_for_each_path() -> None:
    adapter = next(a for a in ADAPTERS if a.name == "torch")
    chosen = next(v for v in adapter.variants if v.id == "torch/non-reentrant")
    (case,) = (c for c in load_folder(ROOT / "cases") if c.id == "basics/conv-relu-gradient")
    written = texts(adapter, [(case, chosen)])[case.id, chosen.id]
    assert not isinstance(written, EmitFailure)
    assert written.text.count("    def conv(x):\n") == 2


IN_LISTS = {
    **{f"w{n}": Item("ws", n - 1, 3) for n in (1, 2, 3)},
    **{f"b{n}": Item("bs", n - 1, 3) for n in (1, 2, 3)},
}


@pytest.mark.parametrize(
    ("line", "written"),
    [
        ("def plain(x, w1, w2, w3, b1, b2, b3):", "def plain(x, ws, bs):"),
        ("h = x @ w2 + b1", "h = x @ ws[1] + bs[0]"),
        ("for w in (w1, w2, w3):", "for w in ws:"),
        ("for w, b in zip((w1, w2), (b2, b3)):", "for w, b in zip(ws[:2], bs[1:]):"),
        ("for w in (w1, w3):", "for w in (ws[0], ws[2]):"),
        ("for w in (self.w1, self.w2, self.w3):", "for w in self.ws:"),
        ('h = block(h, "w1", module.w1, w1)', 'h = block(h, "w1", module.w1, ws[0])'),
        ("h = h @ w1  # pylint: s1", "h = h @ ws[0]  # pylint: s1"),
    ],
)
def test_a_parameter_in_a_list_is_read_out_of_it(line: str, written: str) -> None:
    assert lists.replaced([line], IN_LISTS, "{}") == [written]


def test_a_module_holds_a_list_as_one_attribute() -> None:
    lines = [f"    self.w{n} = w{n}" for n in (1, 2, 3)]
    assert lists.replaced(lines, IN_LISTS, "List({})") == ["    self.ws = List(ws)"]


def test_only_parameters_that_no_region_takes_by_name_are_in_a_list() -> None:
    cases = {case.id: case for case in load_folder(ROOT / "cases")}
    chain = lists.items(cases["memory/chain-each"], (), captured=False)
    assert [str(chain[f"w{n}"]) for n in range(1, 9)] == [f"ws[{n}]" for n in range(8)]
    assert lists.items(cases["memory/chain-each"], {"ws"}, captured=False) == {}
    assert lists.items(cases["memory/chain-whole"], (), captured=False) == {}  # captured
    assert set(lists.items(cases["memory/chain-whole"], (), captured=True)) == {
        f"w{n}" for n in range(1, 5)
    }
