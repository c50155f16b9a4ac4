"""Why implementations deviate: a program for each reason in the adapters' `known.yaml`.

A file `<adapter>/<name>.py` uses its framework alone. It names a reason by the words that this begins
with, and has a function that tells whether the difference appears, in the program as the reason has it
and with the one change that takes away what the reason blames:

    REASON = "The node of a concatenation is not marked"

    def differs(changed: bool) -> bool: ...

`ENVIRONMENT`, where a file has it, is set before the framework is imported. A program that ends its
process is run by `tests.reasons.ending.died`, in a process of its own.
"""
