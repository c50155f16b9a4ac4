"""Bad changes between steps are refused, with their place and a hint."""

import pytest

from conformance.errors import CaseError
from conformance.language.load import load_text

CASE = """
family: f
cases:
  c:
    title: A case of changes
    source: a test
    why: a test
    inputs: [x: {{shape: [3, 4], normal: 0.5}}, rate: {{value: 2.0}}]
    parameters: w: {{shape: [4, 4], normal: 0.5}}
    program:
      - {program}
    procedure: {{train: {{steps: 2, learning_rate: 0.1, {train}}}}}
"""
REGION = '{recompute: block(x), body: "h = matmul(x, w); y = tanh(h)"}'


def load(train: str, program: str = REGION) -> str:
    text = CASE.format(train=train, program=program)
    with pytest.raises(CaseError) as refused:
        load_text(text.replace("parameters: w:", "parameters:\n      w:"), "f.yaml")
    return str(refused.value)


@pytest.mark.parametrize(
    ("train", "words"),
    [
        ("between: [{freeze: v}]", ["f.yaml:13", "'v' is not a floating-point tensor"]),
        ("between: [{unfreeze: w}]", ["'w' requires a gradient already"]),
        ("between: [{assign: x}]", ["'x' is not a floating-point parameter"]),
        ("between: [{set: {rate: on}}]", ["expected a value like 2.0"]),
        ("between: [{rows: 4}]", ["an input has no 4 rows"]),
        ("between: [{copy: model}]", ["nothing that could be copied", "made: once"]),
        ("between: [{fail: rate}]", ["'rate' is not false"]),
        ("between: [{freeze: w}, {unfreeze: w}]", ["found 2 changes between 2 steps"]),
        ("between: [{melt: w}]", ["unknown key 'melt'"]),
    ],
)
def test_changes_are_refused(train: str, words: list[str]) -> None:
    message = load(train)
    assert all(word in message for word in words), message


def test_a_region_made_once_reads_nothing_that_a_step_makes() -> None:
    program = 'h = sin(x)\n      - {recompute: block(x), body: "y = matmul(h, w)"}'
    message = load("made: once", program)
    assert "reads 'h' by closure" in message
    assert "pass it: `block(x, h)`" in message


@pytest.mark.parametrize(
    ("train", "program", "words"),
    [
        (
            "between: [{freeze: w}]",
            '{recompute: block(w), body: "y = sin(w)"}',
            "requires no gradient after this change alone",
        ),
        (
            "between: [{freeze: w}]",
            '{recompute: block(w), body: "s = slope_of_sin(w); y = stop_gradient(s)"}',
            "requires no gradient after this change alone",
        ),
        (
            "between: [{run: inference}]",
            '{recompute: block(x), body: "y = slope_of_sin(x)"}',
            "and gradients are switched off",
        ),
        (
            "between: [{set: {rate: 3.0}}]",
            '{recompute: block, takes: [x], kwargs: {k: rate}, body: "y = multiply(x, rate)"}\n      '
            "- {call: block, takes: [y], gives: z}",
            "'rate' is the default of an argument",
        ),
        (
            "made: each-step",
            '{recompute: block(w), body: "y = reshape(w, shape=[16])"}',
            "an output shares memory with a parameter",
        ),
    ],
)
def test_a_change_leaves_a_program_that_runs(train: str, program: str, words: str) -> None:
    message = load(train, program)
    assert words in message, message
