"""Checking a program of one's own: is it the same training with recomputation, and what is saved?"""

from conformance.checking.run import Result, check

__all__ = ["Result", "check"]
