"""One exception per way to fail. Each message says what was found, what was expected and what to do.

The command line shows them as one message and exits with `exit_code`.
"""

import difflib
from collections.abc import Iterable

from conformance.exits import Exit


class ConformanceError(Exception):
    """Base of all errors caused by input that the user can correct."""

    exit_code = Exit.BAD_INPUT

    def __init__(self, message: str, *, where: object = "", hint: str = "") -> None:
        self.message, self.where, self.hint = message, str(where), hint
        prefix = f"{self.where}: " if self.where else ""
        super().__init__(prefix + message + (f"\n  hint: {hint}" if hint else ""))


class CaseError(ConformanceError):
    """A case file is malformed."""


class AdapterError(ConformanceError):
    """An adapter folder is missing, malformed, or lacks a variant."""


class NotEmittedError(AdapterError):
    """An adapter's emitter does not support `asked`, an operation. The case is unsupported; this is no
    defect."""

    def __init__(self, variant: str, asked: str, kind: str = "the operation ") -> None:
        self.asked = asked
        super().__init__(f"{variant}: the adapter does not write {kind}{asked}")


class NotOfferedError(NotEmittedError):
    """The same of another part of a case (a procedure, an explicit generator, hooks), for which the
    adapter has no words (`conformance.emit.part.Words`) or no method."""

    def __init__(self, variant: str, asked: str) -> None:
        super().__init__(variant, asked, kind="")


class LackingError(AdapterError):
    """The installed release of a framework does not have what a program needs. An observer asks the
    framework, and not its version."""


class ImplementationError(ConformanceError):
    """An implementation is malformed, or the adapter cannot use it in place of its own recompute."""


class ResultsError(ConformanceError):
    """A results file cannot be read."""


class ComparisonError(ConformanceError):
    """Results do not belong together, for example because they come from different cases."""


class BrokenAdapterError(ConformanceError):
    """An adapter's framework is missing or does not start; `detail` is its traceback or log."""

    exit_code = Exit.BROKEN_ADAPTER

    def __init__(self, message: str, *, hint: str = "", detail: str = "") -> None:
        self.detail = detail
        super().__init__(message, hint=hint)


class ClusterError(ConformanceError):
    """A cluster is not there, or cannot run what it is asked."""

    exit_code = Exit.BROKEN_ADAPTER


class KnownError(ConformanceError):
    """A list of known deviations is malformed, or an entry has no reason."""


class WriteError(ConformanceError):
    """A file cannot be written."""

    exit_code = Exit.NOT_WRITTEN


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint for an unknown word: the most similar known word, a list of all known words, or nothing
    where none is known."""
    words = sorted(known)
    if not words:
        return ""
    close = difflib.get_close_matches(word, words, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"known words: {', '.join(words)}"
