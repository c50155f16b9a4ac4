"""Emitted programs: what they name, and hostile words in a case."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from conformance.emit.expressions import class_name
from conformance.emit.programs import EmitFailure, Text, texts
from conformance.errors import CaseError
from conformance.language.load import load_text
from conformance.model.case import Case, Ref, leaves

from .every_program import CASES, every_program
from .test_emit import ADAPTERS, _names, _ruff, _write
from .test_load import GOOD


def _forward(variant: str, changes: Mapping[str, str]) -> str:
    """`recomputed` in a variant, of the good file with changes."""
    text = GOOD
    for old, new in changes.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    adapter = ADAPTERS[variant.partition("/")[0]]
    chosen = next(v for v in adapter.variants if v.id == variant)
    (made,) = texts(adapter, [(load_text(text, "f.yaml")[0], chosen)]).values()
    assert isinstance(made, Text), made
    return made.text[made.text.index("def recomputed") : made.text.index("def run")]


PUT_OUT = {"outputs: z": "outputs: [z, whole]"}


def test_a_returned_tuple_is_named_and_then_unpacked() -> None:
    named = {"gives: y\n": "gives: [y, h]\n        returned: whole\n"} | PUT_OUT
    text = _forward("torch/non-reentrant", named)
    call = "    whole = checkpoint(block, x, use_reentrant=False)\n    y, h = whole\n"
    assert call in text
    assert text.rstrip().endswith("return z, whole")


def test_an_option_is_written_where_the_case_says_its_default() -> None:
    assert "preserve_rng" not in _forward("torch/non-reentrant", {})
    written = {
        "gives: y\n": "gives: y\n        preserve_rng: true\n        merge_adjacent: false\n"
    }
    call = "checkpoint(block, x, use_reentrant=False, preserve_rng_state=True)"
    assert call in _forward("torch/non-reentrant", written)
    assert "preserve_rng=True, merge_adjacent=False" in _forward("reference/float64", written)


def test_only_parameters_are_returned_where_one_is_trained_later() -> None:
    (case,) = load_text(
        """\
family: f
cases:
  one:
    title: A title
    source: Somewhere
    why: A reason
    procedure: {train: {steps: 2, learning_rate: 0.5, between: [{unfreeze: v}]}}
    inputs: {g: {generator: numpy, seed: 3}}
    parameters: {w: {shape: [2], normal: 0.5}, v: {shape: [2], normal: 0.5, gradient: false}}
    program: [{recompute: r, body: "u = uniform_from(g, shape=[2]); z = multiply(u, w)"}]
    outputs: z
""",
        "f.yaml",
    )
    for name in ("mlx", "jax"):
        adapter = ADAPTERS[name]
        (made,) = texts(adapter, [(case, adapter.variants[0])]).values()
        assert isinstance(made, Text), made
        assert '"parameters": {name: (values | wanted)[name] for name in ("w", "v")}' in made.text


def test_an_argument_that_is_not_declared_is_handed_over() -> None:
    named = {
        "gives: y\n": "gives: y\n        kwargs: {more: flag}\n        signature: undeclared\n"
    }
    text = _forward("torch/non-reentrant", named)
    assert "def block(x):" in text
    assert "checkpoint(block, x, more=flag, use_reentrant=False)" in text


def test_a_returned_dict_is_named_and_then_looked_into() -> None:
    named = {"gives: y\n": "gives: {a: y, n: 7}\n        returned: whole\n"} | PUT_OUT
    call = '    whole = recomputed_block(x)\n    y = whole["a"]\n    z = '
    assert call in _forward("reference/float64", named)


def test_a_further_call_names_what_it_returned() -> None:
    again = "- {call: block, takes: y, gives: [u, v], returned: whole}\n      - z = exp(u)"
    named = {"gives: y\n": "gives: [y, h]\n", "- z = exp(y)": again} | PUT_OUT
    assert "    whole = remat_block(y)\n    u, v = whole\n" in _forward("jax/eager", named)


def test_state_that_is_handed_through_is_no_part_of_what_is_returned() -> None:
    case = next(c for c in CASES if c.id == "state/batch-norm")
    (first,) = case.regions()
    region = replace(first, gives=(first.gives,), returned="whole")
    program = tuple(region if node is first else node for node in case.program)
    changed = replace(case, program=program, outputs=(case.outputs, Ref("whole")))
    (made,) = texts(ADAPTERS["jax"], [(changed, ADAPTERS["jax"].variants[0])]).values()
    assert isinstance(made, Text), made
    (name,) = leaves(first.gives)
    lines = [line.strip() for line in made.text.splitlines()]
    assert any(line.startswith("whole, (") and " = jax.checkpoint(" in line for line in lines)
    assert f"({name},) = whole" in lines


def test_the_classes_of_two_regions_have_two_names() -> None:
    assert [class_name(name) for name in ("my-block", "r1_1", "r11")] == ["MyBlock", "R1_1", "R11"]


# -- hostile words --------------------------------------------------------------------------------

HOSTILE = {
    "quotes": '""" + __import__("os").system("touch {mark}") + """',
    "many-quotes": 'a """"""" b """" c "" d "',
    "apostrophes": "''' + 1 + '''",
    "backslash-quotes": '\\""" \\\\""" \\',
    "backslash-at-end": "abc\\",
    "escapes": "\\N{BULLET} \\x00 \\u12 \\",
    "lines": 'a\n"""\nimport os\n"""\r\nb\u2028e\u2029f',
    "mark": "a  # pylint: s0",
    "marks": "a  # pylint: s999999\n  # pylint: s0\nb  # pylint: s0",
    "noqa": "# noqa # fmt: off # type: ignore # ruff: noqa",
    "braces": "{x} {0} {} %s",
    "long": "word " * 100,
    "unbroken": "w" * 300,
}


#: What does not even get into a case.
REFUSED = ("a\u202eb", "a\0b", "a\x85b", "a\x0bb", "a\x0cb", "a\x1b[31mb")


def _hostile(id: str, words: str) -> Case:
    document = yaml.safe_load(GOOD)
    case = document["cases"].pop("one")
    document["cases"][id] = case | {"title": words, "source": words, "why": words}
    case["inputs"]["flag"]["value"] = words
    case["program"][0] |= {"takes": [{words: "x"}], "gives": {words: "y", "more": ["h"]}}
    document["cases"][id]["outputs"] = {words: ["z"]}
    (loaded,) = load_text(yaml.safe_dump(document), "hostile.yaml")
    assert loaded.title == words
    return loaded


@pytest.mark.parametrize("words", REFUSED)
def test_words_with_control_characters_are_refused(words: str) -> None:
    with pytest.raises(CaseError, match="control character"):
        _hostile("refused", words)


@pytest.mark.parametrize("name", ADAPTERS)
def test_hostile_words_stay_words(name: str, tmp_path: Path) -> None:
    mark = tmp_path / "evaluated"
    hostile = {i: w.replace("{mark}", str(mark)) for i, w in HOSTILE.items()}
    cases = tuple(_hostile(id, words) for id, words in {"harmless": "words", **hostile}.items())
    written = every_program(ADAPTERS[name], cases)
    assert len({key for key, _ in written}) == len(cases)
    trees = {v: ast.parse(w[2].text) for (id, v), w in written.items() if id == "fam/harmless"}
    names = {variant: _names(tree) for variant, tree in trees.items()}
    for key, (_, variant, text) in written.items():
        tree = ast.parse(text.text)
        docstring, *body, last = tree.body
        words = ast.get_docstring(tree) or ""
        assert words.count("\n") == 3, key
        harmless = written["fam/harmless", variant.id][2]
        same = trees[variant.id].body[1:-1]
        assert [type(node) for node in body] == [type(node) for node in same], key
        assert isinstance(last, ast.If), key
        assert _names(tree) == names[variant.id], key
        assert "__import__" not in names[variant.id], key
        assert set(text.lines.values()) == set(harmless.lines.values()), key
        assert min(text.lines) > (docstring.end_lineno or 0), key
    _write(written, tmp_path)
    assert _ruff(tmp_path, "format", "--check") == ""
    assert not mark.exists()


def test_a_name_that_hides_an_import_is_refused() -> None:
    (case,) = load_text(GOOD.replace("h = ", "torch = ").replace("sin(h)", "sin(torch)"), "f.yaml")
    variant = ADAPTERS["torch"].variants[0]
    (failure,) = texts(ADAPTERS["torch"], [(case, variant)]).values()
    assert isinstance(failure, EmitFailure)
    assert "names a value 'torch', which is an import here" in failure.message
