"""A page of behaviours: what implementations legitimately do differently, and what they get wrong.

Each behaviour is a question, and one or several cases with the check that answers it. The answers
come from results alone: for every case the variants are listed under what was seen there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from conformance.judge.checks.state import NOTES
from conformance.model.facts import Calls, Difference, Fact, State, Unoffered
from conformance.model.verdict import Status, Verdict
from conformance.report.markdown import escape
from conformance.results import Result, Results


@dataclass(frozen=True)
class Behaviour:
    """A question, and the cases (ids, or ids without axes) and check that answer it."""

    title: str
    question: str
    cases: tuple[str, ...]
    check: str


def _about(title: str, question: str, check: str, *cases: str) -> Behaviour:
    return Behaviour(title, question, cases, check)


BEHAVIOURS: tuple[Behaviour, ...] = (
    _about(
        "The last operation of a region",
        "No gradient inside the region needs the result of its last operation. Does it run again?",
        "executions",
        "basics/last-operation",
        "regions/single-operation",
    ),
    _about(
        "What a rerun costs in nested regions",
        "How often does an inner region run again: once, or once more for each region around it?",
        "executions",
        "regions/nested",
        "nested/depth-4-operation-first",
        "nested/depth-4-region-first",
    ),
    _about(
        "Outputs that nobody uses",
        "Does what leads to an unused output alone run again?",
        "executions",
        "structure/unused-output",
    ),
    _about(
        "Adjacent regions that are merged",
        "Is the value between two regions kept, or both regions run again as one?",
        "executions",
        "regions/adjacent-merged",
    ),
    _about(
        "Regions none of whose arguments asks for a gradient",
        "Do the parameters inside get their gradients, where the region's inputs are frozen or absent?",
        "gradient",
        "captures/frozen-input",
        "captures/frozen-input-nested",
        "structure/no-arguments",
    ),
    _about(
        "Captured tensors",
        "Does what a region reads by closure get its gradient?",
        "gradient",
        "captures/captured-parameter",
        "captures/captured-intermediate",
        "captures/captured-intermediate-nested",
    ),
    _about(
        "Tensors inside containers",
        "Do gradients reach tensors in nested tuples and dicts, taken or given?",
        "gradient",
        "structure/nested-arguments",
        "structure/nested-tuple-output",
        "structure/dict-output",
        "structure/none-output",
    ),
    _about(
        "Containers as they came",
        "Does what a region returns come back in the containers that it returned?",
        "structure",
        "structure/returned-tuple",
        "structure/returned-alone",
        "structure/returned-dict",
        "structure/returned-dict-captures-nothing",
    ),
    _about(
        "Outputs that no gradient can reach",
        "Does an output that the region has detached tell so?",
        "structure",
        "structure/detached-output-told",
    ),
    _about(
        "None, and a gradient of zeros",
        "Does what nothing depends on keep None for a gradient, where it has None without recompute?",
        "gradient",
        "captures/parameter-unused",
        "regions/adjacent-stopped",
    ),
    _about(
        "Arguments by name, and any number of them",
        "Which signatures may the function of a region have?",
        "gradient",
        "structure/keyword-argument",
        "structure/arguments-by-name-alone",
        "structure/variadic-arguments",
        "structure/variadic-keywords",
    ),
    _about(
        "The framework's own random numbers",
        "Does the rerun draw what the forward drew?",
        "gradient",
        "randomness/dropout-preserved",
        "nested/dropout",
        "randomness/reseeded-between",
    ),
    _about(
        "Random numbers from elsewhere",
        "Does the rerun draw what the forward drew from a generator of the program's own?",
        "gradient",
        "randomness/explicit-generator",
        "randomness/numpy-generator",
        "randomness/numpy-global",
        "randomness/python-random",
    ),
    _about(
        "Random state that need not be preserved",
        "Where preservation is switched off, what does the rerun draw?",
        "randomness",
        "randomness/dropout-not-preserved",
    ),
    _about(
        "Running statistics",
        "Does the rerun update the statistics of batch normalisation a second time?",
        "state",
        "state/batch-norm",
        "state/batch-norm-nested",
        "models/resnet-bottleneck",
    ),
    _about(
        "Side effects of the body",
        "How often does what the body does outside of the graph happen?",
        "state",
        "effects/note",
        "effects/note-nested",
        "effects/accumulate",
    ),
    _about(
        "Hooks on gradients",
        "Is a hook on a parameter's gradient called once for each backward pass?",
        "hooks",
        "hooks/parameter",
        "hooks/shared-parameter",
        "hooks/nested",
    ),
    _about(
        "A backward pass of another thread",
        "Does the rerun find what it needs where another thread has started backward?",
        "gradient",
        "procedures/another-thread",
        "procedures/another-thread-nested",
        "procedures/another-thread-dropout",
    ),
    _about(
        "A second backward pass",
        "Can gradients be taken twice over one retained graph, with a rerun each time?",
        "gradient",
        "procedures/second-backward",
        "procedures/per-output",
        "procedures/second-backward-policy",
    ),
    _about(
        "Gradients of gradients",
        "Are gradients of higher order right through a region?",
        "gradient",
        "procedures/second-order",
        "procedures/third-order",
        "nested/second-order",
    ),
    _about(
        "Transforms of functions",
        "Do function transforms (gradient, vectorising map) go through a region?",
        "gradient",
        "procedures/functional",
        "mapped/block",
    ),
    _about(
        "A rerun that does something else",
        "Is it noticed that the region does not do again what it did?",
        "gradient",
        "changes/unnoticed-values",
        "changes/unnoticed-operations",
    ),
    _about(
        "A rerun that does something else, where noticing is promised",
        "Is it an error that the region does not do again what it did?",
        "error",
        "changes/noticed",
        "changes/more-operations",
    ),
    _about(
        "Tensors that are written over",
        "What do gradients become where a tensor that the rerun needs has been changed?",
        "gradient",
        "in-place/inside",
        "in-place/argument",
        "in-place/captured",
        "in-place/after",
        "in-place/saved",
        "procedures/updated-between",
    ),
    _about(
        "Policies",
        "Is what a policy keeps not run again, and all else run again?",
        "executions",
        "policies/save-matmul",
        "policies/save-name",
        "policies/save-everything",
    ),
    _about(
        "Custom gradients",
        "Is a gradient that was written by hand used after the rerun?",
        "gradient",
        "custom/gradient",
        "custom/saved-read-twice",
    ),
    _about(
        "Low precision by autocast",
        "Is the rerun cast as the forward was?",
        "gradient",
        "autocast/block",
        "autocast/nested",
    ),
    _about(
        "Errors in a region",
        "Does an error reach the caller, and does a good run work afterwards?",
        "error",
        "errors/raised-in-region",
        "errors/raised-in-rerun",
        "errors/not-a-block",
    ),
    _about(
        "Memory of one large region",
        "How much of a chain that is one region is kept until backward?",
        "retained memory",
        "memory/chain-whole",
        "memory/chain-segments",
    ),
    _about(
        "Memory from step to step",
        "Is anything left over after backward?",
        "release",
        "release/block",
        "release/nested",
    ),
)
#: Where the programs of a run lay.
_FOLDERS = re.compile(r"(?:/[^/\s\"']+)+/(?=programs/)")
LONGEST = 160


def render(results: Sequence[Results]) -> str:
    """The page, in Markdown, made from the results of one or several adapters."""
    return "\n".join(_lines(results)) + "\n"


def _lines(results: Sequence[Results]) -> Iterator[str]:
    yield "# Behaviours"
    yield ""
    yield "What each implementation does, behaviour by behaviour, as it was seen in the runs below."
    yield "Made from their results by `conformance behaviours`, never by hand. A *known* deviation is"
    yield "wrong, and was known before; a *report* is of what is left to the implementation."
    yield ""
    for run in results:
        versions = ", ".join(f"{k} {v}" for k, v in run.header.versions.items() if k != "platform")
        yield f"- {escape(run.header.adapter)}: {escape(versions)}"
    yield ""
    for behaviour in BEHAVIOURS:
        yield from _section(behaviour, results)


def _section(behaviour: Behaviour, results: Sequence[Results]) -> Iterator[str]:
    yield f"## {behaviour.title}"
    yield ""
    yield behaviour.question
    yield ""
    asked = [r for run in results for r in run.results if _is_meant(r.case, behaviour.cases)]
    order = list(dict.fromkeys(result.case for result in asked))
    if not order:
        yield "No run has one of its cases."
        yield ""
        return
    yield "| case | what was seen | where |"
    yield "|---|---|---|"
    for case in sorted(order, key=lambda case: _place(case, behaviour.cases)):
        answers: dict[str, list[str]] = {}
        silent: list[str] = []
        for result in asked:
            if result.case == case and _is_silent(result):
                silent.append(result.variant)
            elif result.case == case:
                answers.setdefault(answer(result, behaviour.check), []).append(result.variant)
        if silent:
            answers["not offered, or not run"] = silent
        for text, variants in answers.items():
            yield f"| {escape(case)} | {text} | {escape(', '.join(variants))} |"
    yield ""


def _is_silent(result: Result) -> bool:
    """Whether the variant does not offer what the case needs, or is not run on it."""
    return {verdict.status for verdict in result.verdicts} == {Status.UNSUPPORTED}


def _is_meant(case: str, names: Sequence[str]) -> bool:
    return case in names or case.partition("[")[0] in names


def _place(case: str, names: Sequence[str]) -> int:
    return next(i for i, name in enumerate(names) if name in (case, case.partition("[")[0]))


def answer(result: Result, check: str) -> str:
    """What a result says, in Markdown: the verdict of a check, or how the run ended before it."""
    ended = next((v for v in result.verdicts if v.check == "error"), None)
    verdict = next((v for v in result.verdicts if v.check == check), ended)
    if verdict is None:
        return "no verdict"
    note = result.note(verdict.check)
    known = note is not None and verdict.status.deviates
    mark = "known" if known else str(verdict.status)
    text = f"*{mark}*: {escape(_reruns(result, verdict) or short(verdict))}"
    if known and note is not None and note.url.startswith("https://"):
        text += f" <{note.url}>"
    return text


def _reruns(result: Result, verdict: Verdict) -> str:
    """How often each statement of a region ran again, where that is as it should be."""
    seen = None if result.observation is None else result.observation.recomputed.executions
    if verdict.check != "executions" or verdict.status is not Status.PASS or not seen:
        return ""
    counts = [
        f"{e.statement} {e.count}" for e in seen if e.region and e.statement and e.phase == "rerun"
    ]
    return f"runs again: {', '.join(counts)}" if counts else ""


def short(verdict: Verdict) -> str:
    """What a verdict says, without the numbers that differ from variant to variant."""
    text = _FOLDERS.sub("", _of_state(verdict.facts) or _of_fact(verdict.facts) or verdict.message)
    if len(text) > LONGEST:
        text = text[:LONGEST].rsplit(" ", 1)[0] + " …"
    return text


def _of_state(facts: Sequence[Fact]) -> str:
    """How far state has moved, or how often an effect has happened."""
    times = {float(f.times) for f in facts if isinstance(f, State) and f.times is not None}
    if times:
        moved = " and ".join(sorted({f"{number:.2f}" for number in times}))
        return f"state moves {moved} times as far as without recompute"
    for fact in facts:
        if isinstance(fact, Calls) and fact.name == NOTES:
            observed = f"it happens {fact.observed} times"
            return f"{observed}, without recompute {fact.expected} time(s)"
    return ""


def _of_fact(facts: Sequence[Fact]) -> str:
    """What is said in the same words of many variants."""
    for fact in facts:
        if isinstance(fact, Difference):
            return fact.words(numbers=False)
        if isinstance(fact, Unoffered):  # the variant stands beside it
            return fact.words
    return ""
