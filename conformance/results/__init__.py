"""Results of one adapter: values, and the files that carry them: JSON lines, and arrays beside them.

Imports `judge` and what that imports; writes and reads files, and judges nothing.
"""

from conformance.model.result import (
    FORMAT,
    SMOKE,
    STAGES,
    Footer,
    Header,
    Result,
    Results,
    make_footer,
)
from conformance.results.arrays import beside
from conformance.results.codec import Encoded, encode
from conformance.results.files import read, remove, write, write_merged
from conformance.results.hashing import cases_hash
from conformance.results.lines import schema
from conformance.results.written import ResultWriter, WrittenResults

__all__ = [
    "FORMAT",
    "SMOKE",
    "STAGES",
    "Encoded",
    "Footer",
    "Header",
    "Result",
    "ResultWriter",
    "Results",
    "WrittenResults",
    "beside",
    "cases_hash",
    "encode",
    "make_footer",
    "read",
    "remove",
    "schema",
    "write",
    "write_merged",
]
