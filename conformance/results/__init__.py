"""Results of one adapter: values, and the files that carry them: JSON lines, and arrays beside them.

Imports `judge` and what that imports; writes and reads files, and judges nothing.
"""

from conformance.results.arrays import beside
from conformance.results.codec import Encoded, encode
from conformance.results.files import bind, read, remove, write
from conformance.results.hashing import cases_hash
from conformance.results.lines import schema
from conformance.results.model import (
    FORMAT,
    SMOKE,
    STAGES,
    Footer,
    Header,
    Result,
    Results,
    make_footer,
)
from conformance.results.sheaf import Bound, Sheaf

__all__ = [
    "FORMAT",
    "SMOKE",
    "STAGES",
    "Bound",
    "Encoded",
    "Footer",
    "Header",
    "Result",
    "Results",
    "Sheaf",
    "beside",
    "bind",
    "cases_hash",
    "encode",
    "make_footer",
    "read",
    "remove",
    "schema",
    "write",
]
