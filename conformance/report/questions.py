"""Questions of users about recompute, and each variant's answers, from verdicts and measurements.

A question names the cases and the checks that answer it. The answer of a variant is its gravest outcome
among those cases, and names the case.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from conformance.judge.outcomes import SIGN, Outcome, gravest, of_result, of_verdict
from conformance.model.facts import Unoffered
from conformance.model.observation import Phase, Run
from conformance.model.result import Result, Results

_GRADIENTS = frozenset({"gradient", "value"})
#: The capability of regions inside regions.
NESTING = "nested-regions"
#: A count of executions or a share of bytes; `None` where it was not observed.
Measure = Callable[[Result], float | None]


@dataclass(frozen=True)
class Question:
    """A question: `title` is short, `asks` is the whole sentence.

    `cases` (ids, with or without axes) and `checks` answer it. With a `measure`, the answer is the worst
    number among the cases (the least if `least`, else the greatest), formatted with `shown`. `brief`
    questions are in README's table.
    """

    title: str
    asks: str
    cases: tuple[str, ...]
    checks: frozenset[str] = _GRADIENTS
    measure: Measure | None = None
    least: bool = False
    shown: str = "{}"
    brief: bool = False


@dataclass(frozen=True)
class Answer:
    """How a variant answers: the outcome, its words or a number, and the case that is the worst.

    `message` is what the check said there.
    """

    outcome: Outcome
    word: str
    case: str = ""
    message: str = ""

    @property
    def text(self) -> str:
        """The word with its sign."""
        return f"{SIGN[self.outcome]} {self.word}"


def _executions(run: Run, phase: Phase) -> int:
    """Executions of operations in regions; of whole regions, where operations were not observed."""
    in_regions = [e for e in run.executions or () if e.region and e.phase == phase]
    return sum(e.count for e in [e for e in in_regions if e.statement] or in_regions)


def reruns_per_operation(result: Result) -> float | None:
    """Executions of regions' operations in backward per execution in forward; `None` if unknown."""
    run = None if result.observation is None else result.observation.recomputed
    if run is None or run.executions is None or run.error is not None:
        return None
    forward = _executions(run, "forward")
    return _executions(run, "rerun") / forward if forward else None


def freed(result: Result) -> float | None:
    """The drop in retained bytes, in percent (0 to 100) of the expected one; `None` if unknown."""
    if result.observation is None or result.expected is None or result.expected.memory is None:
        return None
    plain, recomputed = result.observation.plain.retained, result.observation.recomputed.retained
    drop = result.expected.memory.drop
    if plain is None or recomputed is None or not drop:
        return None
    return min(100.0, max(0.0, 100 * (plain - recomputed) / drop))


def peak(result: Result) -> float | None:
    """The peak of memory, as a share of that of the plain run."""
    if result.observation is None:
        return None
    plain, recomputed = result.observation.plain.peak, result.observation.recomputed.peak
    return recomputed / plain if plain and recomputed is not None else None


def updates(result: Result) -> float | None:
    """The largest change of the running mean, divided by that of the plain run; `None` if unknown."""
    if result.observation is None or result.observation.recomputed.error is not None:
        return None
    plain, recomputed = result.observation.plain.state, result.observation.recomputed.state
    if "running_mean" not in plain or "running_mean" not in recomputed:
        return None
    moved = float(np.abs(plain["running_mean"]).max())
    return float(np.abs(recomputed["running_mean"]).max()) / moved if moved else None


QUESTIONS: tuple[Question, ...] = (
    Question(
        "Dropout keeps its mask",
        "Does the rerun drop what the forward dropped?",
        (
            "randomness/dropout-alone",
            "randomness/dropout-preserved",
            "randomness/two-dropouts",
            "randomness/dropout-around",
            "nested/dropout",
        ),
        _GRADIENTS | {"randomness"},
        brief=True,
    ),
    Question(
        "Other generators",
        "Does the rerun draw the same from a generator or key of one's own, from NumPy, from Python?",
        (
            "randomness/explicit-generator",
            "randomness/numpy-generator",
            "randomness/numpy-global",
            "randomness/python-random",
        ),
        _GRADIENTS | {"randomness"},
    ),
    Question(
        "Frozen first input",
        "Do the parameters of a region get gradients if its input requires none, or if it has no input?",
        (
            "captures/frozen-input",
            "captures/frozen-input-nested",
            "structure/no-arguments",
            "basics/embedding-lookup",
        ),
        brief=True,
    ),
    Question(
        "Captured tensors",
        "Do tensors that a region reads by closure get their gradients?",
        (
            "captures/captured-parameter",
            "captures/captured-intermediate",
            "captures/captured-intermediate-nested",
        ),
        brief=True,
    ),
    Question(
        "Tuples and dicts as arguments",
        "Do gradients reach tensors in tuples and dicts, nested ones included?",
        ("structure/tuple-argument", "structure/nested-arguments", "structure/dict-in-dict-out"),
        _GRADIENTS | {"structure"},
        brief=True,
    ),
    Question(
        "Tuples and dicts as results",
        "Are they returned as they are, with gradients, nested ones included?",
        (
            "structure/dict-output",
            "structure/returned-dict",
            "structure/nested-tuple-output",
            "structure/nested-tuple-dict-output",
        ),
        _GRADIENTS | {"structure"},
    ),
    Question(
        "Keyword arguments",
        "May tensors be passed by name?",
        (
            "structure/keyword-argument",
            "structure/arguments-by-name-alone",
            "structure/variadic-keywords",
        ),
        brief=True,
    ),
    Question(
        "Gradients of gradients",
        "Are they right through a region?",
        (
            "procedures/second-order",
            "procedures/second-order-of-output",
            "procedures/second-order-of-parameter",
            "procedures/third-order",
            "nested/second-order",
        ),
        brief=True,
    ),
    Question(
        "Backward twice",
        "Can gradients be taken twice over one retained graph?",
        (
            "procedures/second-backward",
            "procedures/second-backward-nested",
            "procedures/per-output",
        ),
        brief=True,
    ),
    Question(
        "Backward in another thread",
        "Are gradients right where another thread starts the backward pass?",
        (
            "procedures/another-thread",
            "procedures/another-thread-nested",
            "procedures/another-thread-dropout",
        ),
    ),
    Question(
        "An error inside",
        "Does an error in a region, or in its rerun, reach the caller, and does a good run work then?",
        ("errors/raised-in-region", "errors/raised-in-nested-region", "errors/raised-in-rerun"),
        frozenset({"error"}),
    ),
    Question(
        "A changed rerun is noticed",
        "Is an error raised if the rerun makes other tensors than the forward, where that is promised?",
        ("changes/noticed", "changes/more-operations"),
        frozenset({"error"}),
    ),
    Question(
        "In-place changes",
        "Are gradients right if a tensor of the region, or one that it reads, is overwritten?",
        ("in-place/inside", "in-place/argument", "in-place/captured", "in-place/after"),
        brief=True,
    ),
    Question(
        "Autocast",
        "Is the rerun cast as the forward was?",
        ("autocast/block", "autocast/nested", "autocast/dropout"),
        _GRADIENTS | {"structure"},
    ),
    Question(
        "BatchNorm's statistics",
        "How far do running statistics move in a step, in multiples of the step without recompute?",
        ("state/batch-norm", "state/batch-norm-nested"),
        frozenset({"state"}),
        measure=updates,
        shown="{:.1f}×",
        brief=True,
    ),
    Question(
        "Nested regions",
        "Are gradients right, and counts as they should be, for regions inside regions?",
        (
            "regions/nested",
            "nested/two-children",
            "nested/depth-3-operation-first",
            "nested/depth-3-region-first",
        ),
        _GRADIENTS | {"executions"},
        brief=True,
    ),
    Question(
        "Adjacent regions merged",
        "Are two regions run again as one, and the tensor between them not kept?",
        ("regions/adjacent-merged",),
        _GRADIENTS | {"executions"},
    ),
    Question(
        "Runs again",
        "How often does an operation of a region run again, on average, in a block of two layers?",
        ("basics/mlp-block",),
        frozenset({"executions"}),
        measure=reruns_per_operation,
        shown="{:.1f}×",
    ),
    Question(
        "Runs again, nested",
        "How often does an operation run again, on average, in regions nested three deep?",
        ("nested/depth-3-operation-first", "nested/depth-3-region-first"),
        frozenset({"executions"}),
        measure=reruns_per_operation,
        shown="{:.1f}×",
    ),
    Question(
        "Memory freed",
        "Which share of the bytes that recompute can free between forward and backward is freed?",
        ("memory/chain-each", "memory/chain-segments", "memory/chain-whole"),
        frozenset({"retained memory"}),
        measure=freed,
        least=True,
        shown="{:.0f} %",
        brief=True,
    ),
    Question(
        "Peak memory",
        "What is the peak of a step, as a share of the step without recompute?",
        ("memory/chain-segments",),
        frozenset({"peak memory"}),
        measure=peak,
        shown="{:.2f}",
        brief=True,
    ),
    Question(
        "Nothing left behind",
        "Is as little left after a step as without recompute?",
        ("release/block", "release/nested", "release/dropout", "release/kept-outputs"),
        frozenset({"release"}),
    ),
)


def answers(results: Sequence[Results]) -> dict[str, tuple[Answer, ...]]:
    """The answers of every variant that ran (full id), in the order of `QUESTIONS`."""
    by_variant: dict[str, dict[str, list[Result]]] = {}
    for run in results:
        for variant in run.header.variants:
            by_variant.setdefault(variant, {})
        for result in run.results:
            # A question names cases with their axes, or all expansions of a case.
            for name in {result.case, result.case.partition("[")[0]}:
                by_variant.setdefault(result.variant, {}).setdefault(name, []).append(result)
    return {
        variant: tuple(
            answer(question, [r for case in question.cases for r in of_variant.get(case, ())])
            for question in QUESTIONS
        )
        for variant, of_variant in by_variant.items()
    }


def answer(question: Question, results: Sequence[Result]) -> Answer:
    """The answer of a variant, from its results of the question's cases."""
    if not results:
        return Answer(Outcome.NOT_RUN, Outcome.NOT_RUN.value)
    # That regions inside regions are refused is the answer to one question, and not to each of them.
    candidates = [r for r in results if not _refuses_nesting(r)] or results
    outcomes = {r.case: of_result(r, question.checks) for r in candidates}
    outcome = gravest(outcomes.values())
    worst = [r for r in candidates if outcomes[r.case] is outcome]
    measure = question.measure or (lambda _: None)
    measured = [(number, r) for r in worst if (number := measure(r)) is not None]
    if not measured:
        message = _message(worst[0], outcome, question)
        return Answer(outcome, outcome.value, worst[0].case, message)
    choose = min if question.least else max
    number, chosen = choose(measured, key=lambda pair: pair[0])
    word = question.shown.format(number)
    return Answer(outcome, word, chosen.case, _message(chosen, outcome, question))


def _message(result: Result, outcome: Outcome, question: Question) -> str:
    """The message of the first verdict with the outcome of the answer."""
    asked = [v for v in result.verdicts if v.check in question.checks or v.check == "error"]
    asked.sort(key=lambda v: v.check not in question.checks)
    telling = [v for v in asked if of_verdict(v, result) is outcome]
    first = next(iter(telling or asked or result.verdicts), None)
    return "" if first is None else first.message


def _refuses_nesting(result: Result) -> bool:
    """Whether the variant refuses the case for its regions inside regions."""
    facts = (fact for verdict in result.verdicts for fact in verdict.facts)
    return any(
        isinstance(f, Unoffered) and f.how == "refuses" and f.capabilities == (NESTING,)
        for f in facts
    )
