"""From an observation and what the oracle expects to verdicts: checks, tolerance, known deviations.

`arrays` and `memory` say whether arrays agree and bytes are right, for the comparison and the report,
too; `limits` has the numbers that verdicts depend on.

Imports `oracle`, `model` and what they import; pure functions.
"""
