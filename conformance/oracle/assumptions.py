"""What an implementation may choose to save for backward, and what follows from it.

A correct implementation has choices: the gradient of `tanh` may read its argument or its result, and a
framework may compute gradients of parameters that nobody asked for. Each consistent combination of
choices is an `Assumption`. The oracle counts under every one; what any of them comes to is allowed.

A residual is a tensor of the forward pass that a gradient reads (what PyTorch calls a saved tensor). It
is named by a word: the name of an operation's argument, `out` for its result, or `mask` for what is no
tensor of the program (a dropout mask, indices of maxima, statistics of a normalisation).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from conformance.language.operations import OPERATIONS, RANDOM
from conformance.model.case import Case
from conformance.oracle.dataflow import Call, Dataflow, Step

#: Operations so costly, or random, that no compiler runs them again on its own.
COSTLY = frozenset({"matmul", "linear", "conv2d", "embedding", *RANDOM})


@dataclass(frozen=True)
class Assumption:
    """One consistent way to compute the gradients of a case, whose `dataflow` it is about.

    `alternatives` has, for an operation whose gradient can be written in several ways, the index into
    what `OPERATIONS` lists under `needs`. `declared` are the residuals that the variant declares for
    operations (`residuals` in its adapter.yaml, words separated by blanks), which take precedence.
    `active` are the tensors through which gradients flow, `differentiated` the steps whose gradients
    are taken. `mask_alone`: a dropout mask can be made again without the tensor that it masks.
    `merged_to_end`: a region with `merge_adjacent` that no other one follows runs again to its end.
    `through`: cheap statements outside of regions run again for the gradients that read their results.
    `mask_kept`: a policy that keeps the results of an operation keeps its mask, too.
    """

    dataflow: Dataflow
    alternatives: Mapping[str, int]
    declared: Mapping[str, str]
    active: frozenset[int]
    differentiated: frozenset[Step]
    mask_alone: bool
    merged_to_end: bool
    through: bool = False
    mask_kept: bool = True
    _residuals: dict[Step, frozenset[str]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @cached_property
    def regions(self) -> frozenset[str]:
        """The declarations about all regions, `residuals: {region: …}`: words of `REGION_RESIDUALS`."""
        return region_words(self.declared)

    def residuals(self, step: Step) -> frozenset[str]:
        """The words for what the gradients of a step read; none where no gradient flows through it."""
        if step not in self._residuals:
            op = step.statement.op
            words: set[str] = set()
            for name in self.dataflow.differentiable(step, self.active):
                needs = OPERATIONS[op].needs[name]
                words |= needs[min(self.alternatives.get(op, 0), len(needs) - 1)]
                if op in self.declared:
                    words = set(self.declared[op].split())
            self._residuals[step] = frozenset(words)
        return self._residuals[step]

    def read(self, step: Step) -> list[int]:
        """The numbers of the tensors that the gradients of a step read."""
        return [number for word in self.residuals(step) for number in step.named(word)]

    def runs_plainly(self, call: Call) -> bool:
        """Whether the variant does not recompute a call: it is the last segment of a sequence."""
        segment = call.region.segment
        return "last" in self.regions and segment is not None and segment.last


def region_words(declared: Mapping[str, str]) -> frozenset[str]:
    """What a variant declares of regions as a whole: words of `REGION_RESIDUALS`."""
    return frozenset(declared.get("region", "").split())


def assumptions(
    case: Case, dataflow: Dataflow, declared: Mapping[str, str], *, alternatives: bool
) -> Iterator[Assumption]:
    """Every consistent way to compute the gradients of a case.

    Without `alternatives`, only the first choice that `OPERATIONS` lists is used. Each comes in up to
    three forms: gradients are computed for all tensors that require one; only for those in `Case.wrt`;
    or only for the latter, but with residuals kept as for the former.
    """
    used = sorted({step.statement.op for step in dataflow.steps})
    ways: dict[str, range] = {}
    for op in used if alternatives else ():
        count = max((len(sets) for sets in OPERATIONS[op].needs.values()), default=1)
        if count > 1 and op not in declared:
            ways[op] = range(count)
    asking = [array.name for array in case.arrays if array.gradient]
    pairs = {(frozenset(asking), frozenset(case.wrt))}
    pairs |= {(frozenset(names), frozenset(names)) for names in (asking, case.wrt)}
    masks = (True, False) if alternatives and not RANDOM.isdisjoint(used) else (True,)
    merged = any(region.merge_adjacent for region in case.regions())
    ends = () if dataflow.loss is None else (dataflow.loss,)
    for kept, wanted in sorted(pairs, key=lambda p: (sorted(p[0]), sorted(p[1]))):
        active = dataflow.active(kept)
        differentiated = dataflow.differentiated(dataflow.active(wanted), ends)
        for indices, alone, to_end in itertools.product(
            itertools.product(*ways.values()), masks, (True, False) if merged else (False,)
        ):
            chosen = dict(zip(ways, indices, strict=True))
            made = Assumption(dataflow, chosen, declared, active, differentiated, alone, to_end)
            yield made
            if "cheap" in made.regions:
                yield replace(made, through=True)
            if len(masks) > 1 and any(step.kept for step in dataflow.steps):
                yield replace(made, mask_kept=False)
