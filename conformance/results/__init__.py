"""Results of one adapter: values, and the JSON-lines file that carries them without pickle."""

from conformance.results.files import read, result_from_dict, result_to_dict, write
from conformance.results.hashing import cases_hash
from conformance.results.lines import schema
from conformance.results.model import (
    FORMAT,
    SMOKE,
    STAGES,
    Footer,
    Header,
    KnownNote,
    Result,
    Results,
    make_footer,
)

__all__ = [
    "FORMAT",
    "SMOKE",
    "STAGES",
    "Footer",
    "Header",
    "KnownNote",
    "Result",
    "Results",
    "cases_hash",
    "make_footer",
    "read",
    "result_from_dict",
    "result_to_dict",
    "schema",
    "write",
]
