"""From an observation and what the oracle expects to verdicts: checks, tolerance, known deviations.

Imports `oracle`, `model` and what they import; pure functions.
"""
