"""What a results file keeps of a result: of large arrays a `Part`, and of random samples those that
differ in the rerun. Fields that neither a comparison nor a report reads have no place in a line at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

import numpy as np

from conformance.judge.arrays import tensors
from conformance.model.facts import Sampling
from conformance.model.observation import (
    Array,
    Expected,
    Leaf,
    Observation,
    RandomSample,
    Run,
    Tree,
)
from conformance.model.result import Result
from conformance.results.parts import LARGE, part_of

Computed = TypeVar("Computed", Run, Expected)
_FIELDS = ("outputs", "gradients", "again", "parameters", "state")
_ABOUT_ARRAYS = frozenset({"value", "gradient", "structure", "randomness"})


def reduced(result: Result) -> Result:
    """A result as it stands in a file."""
    expected, observation = result.expected, result.observation
    if observation is not None:
        plain, recomputed = observation.plain, observation.recomputed
        # A comparison shows how arrays differ in which a check has found fault.
        whole = any(v.status.deviates and v.check in _ABOUT_ARRAYS for v in result.verdicts)
        observation = Observation(
            _sampled(_parts(plain, plain, None), ()),
            _sampled(_parts(recomputed, plain, expected, whole=whole), _fresh(result, recomputed)),
            {},
            observation.unobserved,
            round(observation.seconds, 6),
            observation.resolution,
        )
    if expected is not None:
        expected = _parts(expected, None, expected)
    return replace(result, observation=observation, expected=expected)


def _sampled(run: Run, samples: tuple[RandomSample, ...]) -> Run:
    """A run with these samples alone; with `None` where nothing was drawn."""
    drew = run.samples is not None or run.generators
    return replace(run, samples=samples) if drew else run


def _fresh(result: Result, run: Run) -> tuple[RandomSample, ...]:
    """Of statements whose rerun drew other numbers: the first sample in forward, and the first of
    the rerun that differs from it. Large ones are left out."""
    places = dict.fromkeys(
        place
        for verdict in result.verdicts
        for fact in verdict.facts
        if isinstance(fact, Sampling) and fact.kind == "fresh"
        for place in fact.where
    )
    return tuple(sample for place in places for sample in _differing(run.samples or (), place))


def _differing(samples: tuple[RandomSample, ...], place: tuple[str, str]) -> Iterator[RandomSample]:
    """The first sample of a statement (region and statement) in forward, and the first of its reruns
    that differs from it."""
    at_place = [sample for sample in samples if (sample.region, sample.statement) == place]
    forward = next((sample for sample in at_place if sample.phase == "forward"), None)
    if forward is None or forward.array.size > LARGE:
        return
    reruns = (sample for sample in at_place if sample.phase == "rerun")
    other = next((s for s in reruns if not np.array_equal(s.array, forward.array)), None)
    if other is not None and other.array.size <= LARGE:
        yield from (forward, other)


def _parts(
    source: Computed, plain: Run | None, expected: Expected | None, *, whole: bool = False
) -> Computed:
    """A run or an expectation with parts of its large arrays, with all of their elements if `whole`.
    `plain` and `expected` are what the arrays are measured against."""
    changed: dict[str, object] = {}
    for field in _FIELDS:
        arrays = _arrays(source, field)
        large = {n: a for n, a in arrays.items() if a is not None and a.size > LARGE}
        if large:
            sides = [_arrays(side, field) for side in (plain, expected)]
            parts = {
                name: part_of(array, *(side.get(name) for side in sides), all_of_it=whole)
                for name, array in large.items()
            }
            in_tree = field == "outputs"
            changed[field] = _with(source.outputs, parts) if in_tree else {**arrays, **parts}
    return replace(source, **changed) if changed else source  # type: ignore[arg-type]


def _arrays(side: Run | Expected | None, field: str) -> Mapping[str, Array | None]:
    """The arrays of a field by name, those of outputs by path."""
    if side is None:
        return {}
    return dict(tensors(side.outputs)) if field == "outputs" else getattr(side, field) or {}


def _with(tree: Tree, parts: Mapping[str, Array], path: str = "outputs") -> Tree:
    """An output tree with some of its arrays replaced, by path."""
    if isinstance(tree, Leaf):
        return Leaf(parts.get(path, tree.array), tree.dtype)
    if isinstance(tree, dict):
        return {key: _with(part, parts, f"{path}[{key!r}]") for key, part in tree.items()}
    if isinstance(tree, tuple | list):
        return type(tree)(_with(part, parts, f"{path}[{i}]") for i, part in enumerate(tree))
    return tree
