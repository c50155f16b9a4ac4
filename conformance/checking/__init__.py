"""Checking a user's program: is it the same training with recomputation, and what is saved?"""

from conformance.checking.run import Result, check

__all__ = ["Result", "check"]
