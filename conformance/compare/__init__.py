"""Results beside each other: variants of all adapters, two variants, or two and more runs.

- `variants.compare`: which variants agree on every number, case by case, and with the reference.
- `beside.side_by_side`: what differs between two variants. `run_by_run`: what changed between runs.

Cases are matched by id, never by their position in a file. Results of different sets of cases are
refused with `ComparisonError`. Imports `judge` and what that imports, and `store`.
"""

from conformance.compare.beside import side_of
from conformance.compare.model import Comparison, CrossVerdict
from conformance.compare.variants import compare, drop_of, region_count

__all__ = ["Comparison", "CrossVerdict", "compare", "drop_of", "region_count", "side_of"]
