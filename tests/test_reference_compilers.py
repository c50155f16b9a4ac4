"""What the reference says of variants that compile: measured in PyTorch's graphs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from conformance.drivers.adapter import Only, VariantModel
from conformance.judge.checks import CHECKS
from conformance.model.case import Region
from conformance.model.verdict import Status
from tests.evidence import CONTROL, FORWARD, SEEN, evidence, executions
from tests.test_reference_disciplines import case, expect

#: Each layer a region: the second one's results are read outside.
ADJACENT = (
    "ra(x):\n  h = matmul(x, w1)\n  a = tanh(h)\n"
    "rb(a):\n  g = matmul(a, w2)\n  b = tanh(g)\nz = multiply(b, b)"
)


def reruns(program: str, words: str, discipline: str = "minimal") -> dict[str, tuple[int, ...]]:
    found = expect(case(program), discipline, residuals={"tanh": "out", "region": words}).executions
    return {
        label: allowed.counts for (_, label, phase), allowed in found.items() if phase == "rerun"
    }


@pytest.mark.parametrize(
    ("words", "counted"),
    [
        # each region runs again up to the last value that its gradients read
        ("", {"h": (1,), "a": (1,), "g": (1,), "b": (1,), "z": (0,)}),
        # what the first gives the second is kept, and so it and what it comes from need no rerun
        ("passed", {"h": (0,), "a": (0,), "g": (1,), "b": (1,), "z": (0,)}),
        # nothing but x is kept of the whole program; z, which no gradient reads, is not made again
        ("program", {"h": (1,), "a": (1,), "g": (1,), "b": (1,), "z": (0,)}),
    ],
)
def test_words_on_regions(words: str, counted: Mapping[str, tuple[int, ...]]) -> None:
    assert {k: v for k, v in reruns(ADJACENT, words).items() if k} == counted


def test_the_program_is_one_region() -> None:
    outside = "h = matmul(x, w1)\ns = sin(h)\nr(s):\n  c = sin(s)\nz = sin(c)"
    assert reruns(outside, "")["h"] == (0,)
    assert reruns(outside, "program")["h"] == (1,)
    assert reruns(outside, "program")["c"] == (1,)
    assert reruns(outside, "program")["z"] == (0,)
    kept = expect(case(outside), "minimal", residuals={"region": "program"}).memory
    assert kept.recomputed == (0, 0)
    assert expect(case(outside), "minimal").memory.recomputed[1] == 3 * 64  # h, s, c


def test_what_is_cheap_may_run_again_and_what_is_costly_may_not() -> None:
    program = "h = matmul(x, w1)\ns = sin(h)\nr(s):\n  c = matmul(s, w2)\n  d = sin(c)\nz = sin(d)"
    strict, free = reruns(program, "flat anew"), reruns(program, "flat anew cheap")
    assert (strict["s"], free["s"]) == ((0,), (0, 1))
    assert (strict["z"], free["z"]) == ((0,), (0, 1))
    assert strict["h"] == free["h"] == (0,)
    assert strict["c"] == free["c"] == (1,)


def test_the_compiler_may_go_through_what_is_cheap() -> None:
    """`s` is read, and made again from the region's result; or it is kept."""
    program = "r(x):\n  y = matmul(x, w1)\ns = add(x, y)\nz = multiply(s, s)"
    assert reruns(program, "flat anew")["y"] == (0,)
    assert reruns(program, "flat anew cheap")["y"] == (0, 1)


def test_a_compiled_region_that_runs_again_has_a_backward_graph_of_its_own() -> None:
    """Measured in PyTorch: checkpoint runs the compiled function again, and its backward graph makes
    again what is cheap, and what it needs of a checkpoint inside."""
    program = (
        "ra(x):\n  h = matmul(x, w1)\n  a = sin(h)\n"
        "  rb(a):\n    g = matmul(a, w2)\n    b = sin(g)\n  c = cos(b)\nz = multiply(c, c)"
    )
    words = "asked flat cheap"
    found = reruns(program, words, "whole")
    assert {k: found[k] for k in "hagbcz"} == {
        **{"h": (1,), "a": (1, 2), "c": (1, 2), "z": (0,)},
        **{"g": (1, 2), "b": (1, 2)},
    }
    every = expect(case(program), "whole", residuals={"region": words}).executions
    assert every["ra", "", "rerun"].counts == every["rb", "", "rerun"].counts == (1,)
    assert reruns(program, "asked flat", "whole")["g"] == (1,)


def test_a_compiler_that_makes_anew_what_is_cheap_keeps_only_what_is_costly() -> None:
    program = "r(x):\n  h = matmul(x, w1)\n  s = sin(h)\n  y = sin(s)\nz = sum(y)"
    eager = expect(case(program), "minimal").memory
    cheap = expect(case(program), "minimal", residuals={"region": "flat cheap"}).memory
    assert eager.plain == (128, 128)
    assert cheap.plain == (64, 128)
    assert (eager.drop, cheap.drop) == (128, 64)


def test_a_plain_run_that_reruns_is_broken_unless_the_compiler_may() -> None:
    check = CHECKS["executions"]
    plain = replace(CONTROL, executions=executions({**FORWARD, "block.y rerun": 1}))
    (found,) = check.verdicts(evidence(plain=plain))
    assert found.status is Status.BROKEN
    (found,) = check.verdicts(evidence(plain=plain, residuals={"region": "cheap"}))
    assert found.status is Status.PASS
    assert "the compiler recomputes these in the plain run, too: y in region block" in found.message
    # what plain runs again too is no rerun of the region's
    inert = replace(SEEN, executions=plain.executions)
    (found,) = check.verdicts(
        evidence(plain=plain, recomputed=inert, residuals={"region": "cheap"})
    )
    assert found.status is Status.FAIL
    assert "inert" in found.message


def test_only_some_cases() -> None:
    only = Only(cases=["memory/*", "basics/precision[dtype=bfloat16]"], why="too long")
    assert not only.leaves_out("memory/chain-each")
    assert not only.leaves_out("basics/precision[dtype=bfloat16]")
    assert only.leaves_out("basics/precision[dtype=float64]")
    assert only.leaves_out("basics/precisiond")
    shallow = Only(cases=["*", "!growth/*256*", "growth/halving-256"], why="too long")
    assert not shallow.leaves_out("growth/each-layer[n=64]")
    assert shallow.leaves_out("growth/each-layer[n=256]")
    assert not shallow.leaves_out("growth/halving-256")
    assert VariantModel(title="made", discipline="whole").only is None


@pytest.mark.parametrize(("save", "again"), [((), (1,)), (("matmul",), (0,))])
def test_what_a_policy_keeps_is_not_made_again(
    save: tuple[str, ...], again: tuple[int, ...]
) -> None:
    made = case(ADJACENT)
    nodes = tuple(replace(n, save=save) if isinstance(n, Region) else n for n in made.program)
    found = expect(
        replace(made, program=nodes), "minimal", residuals={"tanh": "out", "region": "flat anew"}
    )
    assert found.executions["ra", "h", "rerun"].counts == again
    assert found.executions["rb", "g", "rerun"].counts == again
