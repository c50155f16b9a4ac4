"""From an observation and what the oracle expects to verdicts: checks, tolerance, known deviations.

`arrays` compares arrays and `memory` bytes, also for the comparison of variants and the report;
`limits` has the numbers that verdicts depend on.

Imports `oracle`, `model` and what they import; pure functions.
"""
