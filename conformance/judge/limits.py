"""The numbers that verdicts depend on, and where each comes from.

Tolerances of values are the cases' own (`conformance.language.load.TOLERANCES`); `GROWTH` says how they
grow. Memory is in bytes, or in activations: an activation is the largest one of the case.
"""

from conformance.model.observation import RESOLUTION

#: How much an error of one operation may grow on its way through a program and its gradient.
GROWTH = 10.0
#: Sums of float32 gradients, relative: they are off by some 1e-7. Another mask moves one step's sum by
#: about a tenth, and those of many steps partly cancel: of thirty, some come within 2e-3 of what they
#: should be.
ROUNDING = 1e-5

#: Retained memory: the part of an activation by which bytes may miss what the reference counts. The
#: smallest fault is one activation; statistics and indices that operations keep for themselves are far
#: smaller.
SLACK = 1 / 4
#: Retained memory: an expected drop of fewer bytes may be outweighed by the few numbers that an
#: operation keeps for itself, and an observer that reads an allocator cannot tell it
#: (`Observation.resolution`).
SMALL = RESOLUTION

#: Peak memory: activations that an engine may hold beyond the reference's peak; up to 3.0 were seen.
PEAK_SLACK = 3.5
#: What operations outside of regions may keep in small cases, beyond what the reference counts, as a
#: multiple of their results: a batch normalisation of several operations keeps what each of them reads.
OUTSIDE = 3.5
#: Peak memory: activations by which the reference's peaks must differ to be judged, twice the slack and
#: one more.
PEAK_LEAST = 8
#: Peak memory: the share of the reference's drop that is required. A compiler that fuses needs less in
#: the plain run, so that recompute can save less.
PEAK_SHARE = 1 / 4
#: Peak memory: the check applies where a program's largest tensor has at least so many bytes.
PEAK_LARGE = 64 * 1024

#: Release: tensors per step. Live tensors are whole numbers, so half of one tells none from one.
TENSORS = 0.5
#: Release: the part of an activation by which bytes may differ from step to step.
STEP = 1 / 2
