"""What all rooms speak of, as frozen values: a case, a program, what was observed of it, a verdict.

Imports nothing of `conformance` but its errors and words.
"""
