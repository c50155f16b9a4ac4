"""Small cases and made-up results, for the tests of results, comparison and report."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from conformance.language.load import load_text
from conformance.model.case import Case
from conformance.model.observation import (
    Allowed,
    Execution,
    Expected,
    ExpectedMemory,
    Leaf,
    Observation,
    Run,
)
from conformance.model.result import Header, Result, Results
from conformance.model.verdict import KnownNote, Level, Status, Verdict
from conformance.store import Store, cases_hash

_CASE = """
  {name}:
    title: {title}
    source: made up for the tests
    why: There must be one.
    inputs:
      x: {{shape: [2, 3], normal: 1.0}}
    program:
      - recompute: block
        takes: x
        gives: y{option}
        body:
          - h = sin(x)
          - y = {call}
    outputs: y
    gradients: {{of: sum(y)}}
"""
_DROPS, _ANEW = "dropout(h, p=0.5)", "\n        preserve_rng: false"
TEXT = "family: sample\ncases:\n  # A comment that belongs to nobody." + "".join(
    _CASE.format(name=name, title=title, option=option, call=call)
    for name, title, option, call in (
        ("block", "A block", "", "exp(h)"),
        ("noise", "Dropout inside", "", _DROPS),
        ("noise-anew", "Dropout inside, random state not preserved", _ANEW, _DROPS),
    )
)
#: A case with an axis, for the tests of registers.
MINI = load_text(
    """
family: mini
cases:
  square:
    title: A square
    source: the test
    why: It is small.
    axes: {n: [1, 2]}
    inputs: {x: {shape: [$n], full: 2.0}}
    program: [{recompute: block, takes: x, gives: y, body: ["y = multiply(x, x)"]}]
    outputs: y
    gradients: {of: sum(y)}
""",
    "mini.yaml",
)
GRADIENT = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
UNIT = 1 << 20
PASS = Verdict("value", Status.PASS, Level.MUST, "as it should be")
FAIL = Verdict("gradient", Status.FAIL, Level.MUST, "gradient of x is wrong")


def cases(file: Path | None = None) -> tuple[Case, ...]:
    """The sample cases, written to a file where one is given."""
    if file is not None:
        file.write_text(TEXT, "utf-8")
    return load_text(TEXT, str(file or "sample.yaml"))


def run(
    gradients: Mapping[str, Any] | None = None,
    *,
    output: Any = GRADIENT,
    counts: tuple[int, int] = (1, 1),
    retained: int | None = None,
    **rest: Any,
) -> Run:
    """A run of the block: `counts` are its forward runs and its reruns."""
    found = {"x": GRADIENT} if gradients is None else gradients
    return Run(
        outputs=Leaf(np.asarray(output, np.float32), "float32"),
        losses=(float(np.sum(output)),),
        gradients={k: None if v is None else np.asarray(v, np.float32) for k, v in found.items()},
        executions=(
            Execution("block", "", "forward", counts[0]),
            Execution("block", "", "rerun", counts[1]),
        ),
        retained=retained,
        **rest,
    )


def expected(
    gradients: Mapping[str, Any] | None = None,
    *,
    reruns: Allowed = Allowed((1,)),  # noqa: B008
    unit: int = 64,
) -> Expected:
    """What the reference says of the block: recomputing frees two activations."""
    found = {"x": GRADIENT} if gradients is None else dict(gradients)
    return Expected(
        outputs=Leaf(GRADIENT, "float64"),
        losses=(float(GRADIENT.sum()),),
        gradients=found,
        again={},
        parameters={},
        state={},
        executions={("block", "", "forward"): Allowed((1,)), ("block", "", "rerun"): reruns},
        memory=ExpectedMemory((3 * unit, 3 * unit), (unit, unit), 2 * unit, unit),
        error=None,
    )


def result(
    variant: str,
    recomputed: Run | None = None,
    *,
    case: str = "sample/block",
    plain: Run | None = None,
    verdicts: Sequence[Verdict] = (PASS,),
    expects: Expected | None = None,
    program: str = "",
) -> Result:
    """A result with both runs as they should be, but for what is given."""
    return Result(
        case=case,
        variant=variant,
        verdicts=tuple(verdicts),
        observation=Observation(plain or run(), recomputed or run(), {"value": "direct"}),
        expected=expects or expected(),
        program=program,
    )


def known(verdict: Verdict, reason: str, url: str = "", cause: str = "", kind: str = "") -> Verdict:
    """A verdict that a known deviation describes."""
    return msgspec.structs.replace(verdict, known=KnownNote(reason, url, cause, kind))


def unobserved(variant: str, status: Status, message: str, case: str = "sample/block") -> Result:
    """A result that is one verdict and nothing else."""
    verdict = Verdict("error", status, Level.MUST, message)
    return Result(case, variant, (verdict,), None, None, "")


def results(
    adapter: str,
    found: Sequence[Result],
    *,
    disciplines: Mapping[str, str] | None = None,
    given: Sequence[Case] | None = None,
    path: Path | None = None,
) -> Results:
    """A results file of one adapter, in memory."""
    variants = tuple(dict.fromkeys(r.variant for r in found))
    header = Header(
        suite="0.1.0",
        adapter=adapter,
        variants=variants,
        disciplines=disciplines or dict.fromkeys(variants, "whole"),
        versions={"python": "3.11.7", "numpy": "2.4.6", adapter: "1.2.3", "platform": "Linux"},
        cases=cases_hash(cases() if given is None else given),
        started="2026-01-02T03:04:05Z",
        seconds={"import": 1.0, "observing": 2.5},
    )
    return Results(path or Path(f"{adapter}.db"), header, tuple(found))


def stored(path: Path, run: Results) -> None:
    """Store a run in a file of results."""
    with contextlib.closing(Store(path)) as store:
        store.begin(run.header, [result.pair for result in run.results])
        for result in run.results:
            store.put(result)
        store.finish("")
