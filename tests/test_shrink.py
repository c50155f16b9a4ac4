"""The search for a smaller case, with predicates that no framework answers."""

from __future__ import annotations

from conformance.language.load import load_text
from conformance.model.case import Repeat, flat, leaves, node_makes, node_reads, walk
from conformance.run.shrink import candidates, shrink

TEXT = """
family: made
cases:
  up:
    title: A program with more than it needs
    source: made up
    why: There is something to take away.
    inputs:
      x: {shape: [3, 5], normal: 1.0}
    parameters:
      w: {shape: [5, 4], normal: 1.0}
      u: {shape: [4, 4], normal: 1.0}
    program:
      - h = sin(x)
      - recompute: block
        takes: h
        gives: y
        body:
          - a = matmul(h, w)
          - b = exp(a)
          - y = sin(b)
      - z = matmul(y, u)
      - v = multiply(z, z)
    outputs: [v, y]
    gradients: {of: sum(v)}
"""


def _case():
    (case,) = load_text(TEXT, "made.yaml")
    return case


def _operations(case):
    return [statement.op for _, statement in case.statements()]


def test_a_case_shrinks_to_what_the_failure_needs():
    small = shrink(_case(), lambda case: "exp" in _operations(case))
    assert _operations(small) == ["exp"]
    assert [region.name for region in small.regions()] == ["block"]
    assert max(size for array in small.arrays for size in array.shape) == 2
    assert {array.name for array in small.arrays} == {"x"}
    assert not isinstance(small.outputs, tuple)


def test_what_the_failure_needs_stays():
    small = shrink(_case(), lambda case: "w" in case.wrt and "matmul" in _operations(case))
    assert _operations(small) == ["matmul"]
    assert "w" in small.wrt


def test_a_case_that_fails_in_no_smaller_form_is_given_back():
    case = _case()
    assert shrink(case, lambda _: False) == case


def test_tries_and_seconds_are_limits():
    asked = []

    def fails(case):
        asked.append(case)
        return True

    shrink(_case(), fails, tries=3)
    assert len(asked) == 3
    times = iter(range(100))
    asked.clear()
    shrink(_case(), fails, seconds=4, clock=lambda: next(times))
    assert len(asked) <= 4


def test_iterations_are_taken_away_one_by_one():
    text = TEXT.replace(
        "      - v = multiply(z, z)",
        "      - {repeat: 5, body: z = sin(z)}\n      - v = multiply(z, z)",
    )
    (case,) = load_text(text, "made.yaml")
    small = shrink(case, lambda case: _operations(case).count("sin") >= 5, tries=500)
    assert _operations(small).count("sin") == 5
    (repeat,) = (node for node in small.program if isinstance(node, Repeat))
    assert len(repeat.iterations) in (3, 4, 5)


def test_nothing_is_asked_twice():
    asked = []

    def fails(case):
        assert case not in asked
        asked.append(case)
        return len(asked) % 3 == 0

    shrink(_case(), fails)


def test_a_candidate_reads_no_name_that_is_not_there():
    for case in candidates(_case()):
        known = set(case.names())
        for node in flat(case.program):
            assert known.issuperset(node_reads(node))
            known |= set(node_makes(node))
        assert known.issuperset(leaves(case.outputs))
        assert any(node in case.regions() for node in walk(case.program))
