"""From an observation and what the oracle expects to verdicts: checks and known deviations.

`arrays` compares arrays and `memory` bytes, also for the comparison of variants and the report;
`limits` has the numbers that verdicts depend on. Pure functions.
"""
