"""Results beside each other: variants of all adapters, two variants, or two and more runs.

- `compare`: which variants agree on every number, case by case, and with the reference.
- `side_by_side`: what differs between two variants. `run_by_run`: what changed between runs.

Cases are matched by id, never by their position in a file. Results of different sets of cases are
refused with `ComparisonError`. Imports `judge` and what that imports, and `store`.
"""

from __future__ import annotations

from conformance.compare.beside import (
    Measured,
    Row,
    Side,
    SideBySide,
    belong_together,
    of_variant,
    run_by_run,
    side_by_side,
    side_of,
)
from conformance.compare.executions import region_count
from conformance.compare.memory import drop_of, drop_range
from conformance.compare.model import (
    EXPECTATION,
    Agreement,
    Comparison,
    CrossVerdict,
    Disagreement,
    Group,
)
from conformance.compare.variants import compare

__all__ = [
    "EXPECTATION",
    "Agreement",
    "Comparison",
    "CrossVerdict",
    "Disagreement",
    "Group",
    "Measured",
    "Row",
    "Side",
    "SideBySide",
    "belong_together",
    "compare",
    "drop_of",
    "drop_range",
    "of_variant",
    "region_count",
    "run_by_run",
    "side_by_side",
    "side_of",
]
