"""Questions of users about recompute, and each variant's answers, from verdicts and measurements.

A question names the cases and the checks that answer it. The answer of a variant is its gravest outcome
among those cases, and names the case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from conformance.judge.outcomes import SIGN, Outcome, gravest, of_result, of_verdict
from conformance.model.facts import Unoffered
from conformance.model.observation import Phase, Run
from conformance.model.verdict import Status, Verdict
from conformance.results import Result, Results

_GRADIENTS = frozenset({"gradient", "value"})
#: The capability of regions inside regions.
NESTING = "nested-regions"
#: A count of executions or a share of bytes; `None` where it was not observed.
Measure = Callable[[Result], float | None]


@dataclass(frozen=True)
class Question:
    """A question: `title` is short, `asks` is the whole sentence.

    `cases` (ids, with or without axes) and `checks` answer it. `words` replace the usual words of
    outcomes. With a `measure`, the answer is the worst number among the cases (the least if `least`,
    else the greatest), formatted with `shown`. `brief` questions are in README's table.
    """

    title: str
    asks: str
    cases: tuple[str, ...]
    checks: frozenset[str] = _GRADIENTS
    words: Mapping[Outcome, str] = field(default_factory=dict)
    measure: Measure | None = None
    least: bool = False
    shown: str = "{}"
    brief: bool = False


@dataclass(frozen=True)
class Answer:
    """How a variant answers: the outcome, a word or a number, and the case that is the worst.

    `message` is what the check said there, `others` are cases that the variant does not offer.
    """

    outcome: Outcome
    word: str
    case: str = ""
    message: str = ""
    others: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The word with its sign."""
        return f"{SIGN[self.outcome]} {self.word}"


WORDS: Mapping[Outcome, str] = {
    Outcome.BROKEN: "suite failed",
    Outcome.WRONG: "silently wrong",
    Outcome.RAISES: "raises",
    Outcome.INERT: "not recomputed",
    Outcome.COSTS: "costs more",
    Outcome.WARNS: "differs",
    Outcome.RIGHT: "yes",
    Outcome.UNSEEN: "not observed",
    Outcome.NOT_OFFERED: "not offered",
    Outcome.NOT_RUN: "not run",
}


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
        "Do the parameters of a region get gradients where its input asks for none, or it has none?",
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
        "Does what a region reads by closure get its gradient?",
        (
            "captures/captured-parameter",
            "captures/captured-intermediate",
            "captures/captured-intermediate-nested",
        ),
        brief=True,
    ),
    Question(
        "Tuples and dicts taken",
        "Do gradients reach tensors in tuples and dicts that a region takes, nested ones among them?",
        ("structure/tuple-argument", "structure/nested-arguments", "structure/dict-in-dict-out"),
        _GRADIENTS | {"structure"},
        brief=True,
    ),
    Question(
        "Tuples and dicts given",
        "Do they come back as they are, with gradients, nested ones among them?",
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
        "May tensors be handed over by name?",
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
        {Outcome.WRONG: "breaks"},
    ),
    Question(
        "A changed rerun is noticed",
        "Is it an error that a rerun makes other tensors than the forward, where that is promised?",
        ("changes/noticed", "changes/more-operations"),
        frozenset({"error"}),
    ),
    Question(
        "In-place changes",
        "Are gradients right where a tensor of the region, or one that it reads, is written over?",
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
        {Outcome.COSTS: "kept apart"},
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
        "How much of the bytes that could be freed between forward and backward is freed?",
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
        {Outcome.COSTS: "leaves behind"},
    ),
)


def answers(results: Sequence[Results]) -> dict[str, tuple[Answer, ...]]:
    """The answers of every variant that ran (full id), in the order of `QUESTIONS`."""
    by_variant: dict[str, dict[str, Result]] = {}
    for run in results:
        for variant in run.header.variants:
            by_variant.setdefault(variant, {})
        for result in run.results:
            by_variant.setdefault(result.variant, {})[result.case] = result
    return {
        variant: tuple(answer(question, of_variant.values()) for question in QUESTIONS)
        for variant, of_variant in by_variant.items()
    }


def answer(question: Question, results: Iterable[Result]) -> Answer:
    """The answer of a variant, from its results."""
    of_question = [r for r in results if _is_asked(r.case, question.cases)]
    if not of_question:
        return Answer(Outcome.NOT_RUN, WORDS[Outcome.NOT_RUN])
    # That regions inside regions are refused is the answer to one question, and not to each of them.
    candidates = [r for r in of_question if not _refuses_nesting(r)] or of_question
    outcomes = {r.case: of_result(r, question.checks) for r in candidates}
    outcome = gravest(outcomes.values())
    others = tuple(
        r.case
        for r in of_question
        if outcomes.get(r.case, Outcome.NOT_OFFERED) is Outcome.NOT_OFFERED
    )
    worst = [r for r in candidates if outcomes[r.case] is outcome]
    number, measured = _measured(question, worst)
    chosen = measured or worst[0]
    word = question.words.get(outcome, WORDS[outcome])
    if outcome is Outcome.RAISES and _refuses(chosen):
        word = "refuses"
    if number is not None:
        word = question.shown.format(number)
    return Answer(outcome, word, chosen.case, _message(chosen, outcome, question), others)


def _measured(question: Question, results: Sequence[Result]) -> tuple[float | None, Result | None]:
    """The worst number among the results, and the result that it is of."""
    if question.measure is None:
        return None, None
    pairs = [(n, r) for r in results if (n := question.measure(r)) is not None]
    if not pairs:
        return None, None
    choose = min if question.least else max
    return choose(pairs, key=lambda pair: pair[0])


def _message(result: Result, outcome: Outcome, question: Question) -> str:
    """The message of the first verdict with the outcome of the answer."""
    verdicts = [v for v in result.verdicts if v.check in question.checks]
    verdicts += [v for v in result.verdicts if v.check == "error" and v not in verdicts]
    telling: list[Verdict] = [v for v in verdicts if of_verdict(v, result) is outcome]
    first = next(iter(telling or verdicts or result.verdicts), None)
    return "" if first is None else first.message


def _refuses(result: Result) -> bool:
    """Whether the framework says that it does not do this, as its documentation does."""
    return any(v.check == "error" and v.status is Status.UNSUPPORTED for v in result.verdicts)


def _refuses_nesting(result: Result) -> bool:
    """Whether the variant refuses the case for its regions inside regions."""
    facts = (fact for verdict in result.verdicts for fact in verdict.facts)
    return any(
        isinstance(f, Unoffered) and f.how == "refuses" and f.capabilities == (NESTING,)
        for f in facts
    )


def _is_asked(case: str, cases: Sequence[str]) -> bool:
    return case in cases or case.partition("[")[0] in cases
