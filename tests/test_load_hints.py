"""What people get wrong in cases, and what the message says to write instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.errors import CaseError
from conformance.language.load import load_folder, load_text
from conformance.oracle.interpreter import check_shapes

_TOP = """family: bad
cases:
  one:
    title: A block
    source: my notes
    why: It is an example.
    inputs: {x: {shape: [3, 4], normal: 0.5}}
    parameters: {w: {shape: [4, 4], normal: 0.5}}
"""
_BODY = "matmul(x, w); y = tanh(h)"
QUOTES = "put the text in quotes"


def _text(program: str, rest: str = "") -> str:
    indented = "".join(f"      {line}\n" for line in program.splitlines())
    return f"{_TOP}    program:\n{indented}" + (f"    {rest}\n" if rest else "")


def _block(*keys: str, body: str = "y = matmul(x, w)", head: str = "block(x)") -> str:
    return "\n  ".join((f"- recompute: {head}", *keys, f"body: {body}"))


PLAIN = _block()


@pytest.mark.parametrize(
    ("program", "rest", "found", "instead"),
    [
        # A comma in flow style.
        ("- {recompute: block(x, w), body: y = matmul(x, w)}", "", "key 'w)'", QUOTES),
        ("- {recompute: block(x), body: y = dropout(x, p=0.5)}", "", "key 'p=0.5)'", QUOTES),
        ("- {recompute: block(x), body: h = " + _BODY + "}", "", "key 'w); y", QUOTES),
        (_block(body="[y = multiply(x, x)]"), "", "found 'x)'", QUOTES),
        # Granularity.
        (_block("granularity: layer"), "", "found 'layer'", "'module' or 'operation'"),
        (_block("granularity: Module"), "", "found 'Module'", "did you mean 'module'?"),
        (PLAIN, "granularity: module", "key 'granularity'", "is a key of a region"),
        # The name of a keyword argument.
        (
            _block(body="y = matmul(x, weight)", head="block(x, weight=w)"),
            *("", "unknown name 'weight'", "read the tensor by its name, 'w'"),
        ),
        (_block("keywords: {w: w}"), "", "key 'keywords'", "did you mean 'kwargs'?"),
        (_block(head="block(x, **w)"), "", "found '**'", "`block(x, mask=m)`"),
        (_block(head="block(x, *, w)"), "", "not a region", "block(x, mask=m)"),
        # Tuples.
        (_block("gives: (y, x)"), "", "found '(y, x)'", "write several names as a list: `[y, x]`"),
        (_block(head="block([x, x])"), "", "found '[x, x]'", "`takes: [[a, b]]`"),
        (f"{PLAIN}\n- z = sin(block)", "", "unknown name 'block'", "the names of its results"),
        (
            _block(body="h = sin(x); y = cos(h)") + "\n- z = add(y, h)",
            *("", "unknown name 'h'", "region 'block' makes 'h': add it to its `gives`"),
        ),
        # Empty containers.
        (_block("gives: []"), "", "found an empty list", "leave `gives` out"),
        (_block("takes: {}", head="block"), "", "found an empty mapping", "write `takes: []`"),
        # Lists, named tuples, objects, and arguments that are left out.
        (_block("takes: [{list: x}]", head="block"), "", "found 'x'", "write `{list: [a, b]}`"),
        (_block("gives: {named: [y]}"), "", "found a list", "write `{named: {q: a, k: b}}`"),
        (_block("gives: {object: {}}"), "", "found an empty mapping", "write `{object: {q: a"),
        (
            "- define: block(h, m=v)\n  body: y = matmul(h, v)\n- z = block(x)",
            *("", "leaves out 'm', which has no default", "`scale: {value: 2}`"),
        ),
        (_block(body="[]"), "", "found an empty list", "a statement such as `y = tanh(x)`"),
        # Hooks and `wrt`.
        (PLAIN, "hooks: [w]", "key 'hooks'", "is a key of `gradients`"),
        (f"{PLAIN}\n- z = hooked(y)", "", "'z' is another name", "write `y = hooked(y)`"),
        (
            f"{PLAIN}\n- z = sin(y)\n- y = hooked(y)",
            "",
            "not made by the statement",
            "write it first",
        ),
        (_block(body="x = hooked(x); y = tanh(x)"), "", "'x' is not made", "write it first"),
        (PLAIN, "gradients: {hooks: w}", "found 'w'", "write `[w]`"),
        (PLAIN, "gradients: {hooks: [y]}", "found 'y'", "an input or a parameter that requires"),
        (PLAIN, "gradients: [x, w]", "found a list", "write `gradients: {wrt: [x, w]}`"),
        (PLAIN, "gradients: {of: y}", "the loss has shape (3, 4)", "`gradients: {of: sum(y)}`"),
        # Statements.
        (_block(body="y = x @ w"), "", "found 'x @ w'", "write one operation per statement"),
        (_block(body="y = torch.tanh(x)"), "", "found 'torch.tanh'", "did you mean 'tanh'?"),
        (_block(body="return tanh(x)"), "", "found 'return tanh(x)'", "such as `y = tanh(x)`"),
        ("- y = tanh(x)", "", "the program has no region", "write one: `{recompute:"),
    ],
)
def test_a_message_says_what_to_write(program: str, rest: str, found: str, instead: str) -> None:
    with pytest.raises(CaseError) as raised:
        check_shapes(load_text(_text(program, rest), "f.yaml"))
    assert found in str(raised.value)
    assert instead in str(raised.value)


def test_a_tensor_without_a_gradient_is_no_loss() -> None:
    text = _text(_block(body="y = tanh(x)")).replace("shape: [3, 4], normal: 0.5", "values: [true]")
    text = text.replace("{values: [true]}", "{values: [true], dtype: bool}")
    with pytest.raises(CaseError, match="not a floating-point tensor") as raised:
        check_shapes(load_text(text, "f.yaml"))
    assert "use `astype` before" in str(raised.value)


def test_malformed_cases_are_left_out_where_somebody_asks_for_the_others(tmp_path: Path) -> None:
    good = _text(PLAIN)
    bad = _text(_block("gives: []")).partition("cases:\n")[2].replace("one:", "two:")
    (tmp_path / "a.yaml").write_text(good + bad, "utf-8")
    (tmp_path / "b.yaml").write_text("family: [", "utf-8")
    refused: list[CaseError] = []
    assert [case.id for case in load_folder(tmp_path, refused)] == ["bad/one"]
    assert [error.where.partition(":")[0][-6:] for error in refused] == ["a.yaml", "b.yaml"]
    with pytest.raises(CaseError):
        load_folder(tmp_path)
