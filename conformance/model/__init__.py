"""The frozen values that all other packages pass on: case, program, observation and verdict.

Imports nothing of `conformance` but its errors and words.
"""
