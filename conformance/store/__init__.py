"""Results in SQLite: `reports/<adapter>.db`, a file for each adapter; `schema.sql` says what is in it.

A run plans its pairs of case and variant, and stores each when it is judged, in one transaction. What is
not stored yet is left to do: an interrupted run goes on, and a part is never taken for the whole. The
rows of earlier runs stay until a new one has ended.
"""

from conformance.language.hashing import cases_hash
from conformance.store.reading import file_of, read, read_folder, unite
from conformance.store.writing import TABLES, Begun, Store, numbers_of

__all__ = ["TABLES", "Begun", "Store", "cases_hash", "file_of", "numbers_of", "read", "read_folder"]
__all__ += ["unite"]
