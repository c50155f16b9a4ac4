"""Writing results: a run begins or goes on, stores each pair, and ends."""

import contextlib
import fcntl
import hashlib
import os
import sqlite3
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from conformance.errors import ComparisonError, WriteError
from conformance.judge.outcomes import of_result
from conformance.model.observation import Array, Expected, Run
from conformance.model.result import Header, Pair, Result, Results
from conformance.model.verdict import Verdict
from conformance.store import reading
from conformance.store.reading import APPLICATION, HEADER, SCHEMA, Reader
from conformance.store.values import elements_of, encode, to_json
from conformance.words import printable

#: The tables of a file of results, in SQL.
TABLES = Path(__file__).with_name("schema.sql")
#: How often it is tried to leave a single file behind, which nobody may be reading at that moment.
_ATTEMPTS = 200
#: Tables with rows of a pair.
_OF_PAIR = ("verdict", "number", "content", "array_of_pair")


class Begun(NamedTuple):
    """How a run began: the pairs that are stored already, of the run that it goes on with, and what the
    user should be told of an earlier run."""

    stored: frozenset[Pair]
    message: str = ""


class Store:
    """The file that the results of a run go into. Several processes may write one run: one of them has
    begun it, the others join.

    Raises `ResultsError` for a file that is not ours, and `WriteError` wherever something cannot be
    written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: int | None = None
        self._run = 0
        with self._writing():
            path.parent.mkdir(parents=True, exist_ok=True)
            is_new = not path.is_file() or path.stat().st_size == 0
            self._connection = sqlite3.connect(path, timeout=60, isolation_level=None)
        if not is_new:
            reading.check_kind(path, self._connection)
        with self._writing():
            if is_new:
                self._connection.executescript(
                    f"BEGIN; PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {SCHEMA};"
                    f"{TABLES.read_text('utf-8')} COMMIT;"
                )
            for pragma in ("journal_mode = WAL", "synchronous = NORMAL", "foreign_keys = ON"):
                self._connection.execute(f"PRAGMA {pragma}")

    def begin(self, header: Header, planned: Sequence[Pair], *, fresh: bool = False) -> Begun:
        """Begin a run of these pairs, or go on with one that was interrupted, if that had the same
        cases, versions and options and no `fresh` run is wanted.

        Raises `ComparisonError` while another process writes a run.
        """
        self._hold()
        message = ""
        with reading.translated(self.path):
            last = self._connection.execute("SELECT max(id) FROM run").fetchone()[0]
            earlier = None if last is None else Reader(self.path, self._connection, last).header()
        query = "SELECT ended IS NULL OR interrupted != '' FROM run WHERE id = ?"
        cut_off = last is not None and self._connection.execute(query, (last,)).fetchone()[0]
        if earlier is not None and not fresh and cut_off:
            differing = reading.difference(earlier, header)
            if not differing:
                self._run = last
                with self._transaction():
                    again = "UPDATE run SET ended = NULL, interrupted = '' WHERE id = ?"
                    self._connection.execute(again, (last,))
                    self._plan(planned)
                stored = self._judged()
                words = f"continuing after {len(stored):,} of {len(planned):,} pairs"
                return Begun(stored, f"{words} (--fresh starts from the beginning)")
            message = (
                f"an interrupted run had other {differing}; this run starts from the beginning"
            )
        with self._transaction():
            values = (getattr(header, name) for name in HEADER)
            cursor = self._connection.execute(
                f"INSERT INTO run ({', '.join(HEADER)}) VALUES ({', '.join('?' * len(HEADER))})",
                [value if isinstance(value, str) else encode(value) for value in values],
            )
            self._run = cursor.lastrowid or 0
            self._plan(planned)
        return Begun(frozenset(), message)

    def _judged(self) -> frozenset[Pair]:
        """The pairs of this run that are stored."""
        query = "SELECT case_id, variant FROM pair WHERE run_id = ? AND outcome IS NOT NULL"
        return frozenset(self._connection.execute(query, (self._run,)).fetchall())

    def _plan(self, planned: Sequence[Pair]) -> None:
        self._connection.executemany(
            "INSERT OR IGNORE INTO pair (run_id, position, case_id, variant) VALUES (?, ?, ?, ?)",
            [(self._run, position, *pair) for position, pair in enumerate(planned)],
        )

    def join(self) -> frozenset[Pair]:
        """Write into the run that another process has begun. Returns the pairs that are stored."""
        with self._writing():
            self._run = self._connection.execute("SELECT max(id) FROM run").fetchone()[0]
            return self._judged()

    def result(self, pair: Pair) -> Result | None:
        """What this run has stored of a pair."""
        with reading.translated(self.path):
            return Reader(self.path, self._connection, self._run).result(pair)

    def results(self) -> Results:
        with reading.translated(self.path):
            return Reader(self.path, self._connection, self._run).results()

    def put(self, result: Result) -> None:
        """Store a result in one transaction, in the place of an earlier one of its pair."""
        seen = result.observation
        observed: tuple[Any, ...] = (None, None, None)
        if seen is not None:
            observed = (round(seen.seconds, 6), seen.resolution, encode(seen.unobserved))
        with self._transaction():
            (pair_id,) = self._connection.execute(
                "UPDATE pair SET outcome = ?, program = ?, seconds = ?, resolution = ?, unobserved = ? "
                "WHERE run_id = ? AND case_id = ? AND variant = ? RETURNING id",
                (of_result(result).value, result.program, *observed, self._run, *result.pair),
            ).fetchall()[0]
            for table in _OF_PAIR:
                self._connection.execute(f"DELETE FROM {table} WHERE pair_id = ?", (pair_id,))
            self._connection.executemany(
                f"INSERT INTO verdict VALUES ({', '.join('?' * 15)})",
                [(pair_id, n, *_verdict_row(v)) for n, v in enumerate(result.verdicts)],
            )
            if seen is not None:
                self._put(pair_id, "plain", seen.plain)
                self._put(pair_id, "recomputed", seen.recomputed)
            if result.expected is not None:
                self._put(pair_id, "expected", result.expected)

    def _put(self, pair_id: int, name: str, value: Run | Expected) -> None:
        """Store a run or an expectation: numbers, arrays and the rest."""
        if isinstance(value, Run):
            self._connection.executemany(
                "INSERT INTO number VALUES (?, ?, ?, ?, ?, ?, ?)",
                [(pair_id, name, *row) for row in numbers_of(value)],
            )
        numbers: list[int] = []

        def put(array: Array) -> int:
            numbers.append(self._array(array))
            return numbers[-1]

        text = to_json(value, put)
        self._connection.execute("INSERT INTO content VALUES (?, ?, ?)", (pair_id, name, text))
        self._connection.executemany(
            "INSERT OR IGNORE INTO array_of_pair VALUES (?, ?)", [(pair_id, n) for n in numbers]
        )

    def _array(self, array: Array) -> int:
        """The number of an array, which is stored once."""
        dtype, shape, elements = elements_of(array)
        digest = hashlib.blake2b(f"{dtype}{shape}".encode() + elements, digest_size=16).hexdigest()
        query = "SELECT id FROM array WHERE digest = ?"
        row = self._connection.execute(query, (digest,)).fetchone()
        if row is not None:
            return int(row[0])
        cursor = self._connection.execute(
            "INSERT INTO array (digest, dtype, shape, elements) VALUES (?, ?, ?, ?)",
            (digest, dtype, shape, zlib.compress(elements)),
        )
        return cursor.lastrowid or 0

    def add_seconds(self, seconds: Mapping[str, float]) -> None:
        """Add to the wall time of this run's stages."""
        rows = [(self._run, *stage) for stage in seconds.items()]
        with self._transaction():
            self._connection.executemany("INSERT INTO stage VALUES (?, ?, ?)", rows)

    def finish(self, interrupted: str) -> None:
        """End the run. One that came to its end takes the place of all earlier ones."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        with self._transaction():
            end = "UPDATE run SET ended = ?, interrupted = ? WHERE id = ?"
            self._connection.execute(end, (now, interrupted, self._run))
            if not interrupted:
                self._connection.execute("DELETE FROM run WHERE id < ?", (self._run,))
                self._connection.execute(
                    "DELETE FROM array WHERE id NOT IN (SELECT array_id FROM array_of_pair)"
                )

    def close(self) -> None:
        """Let go of the file, which is then whole without the files that SQLite keeps beside it."""
        for _ in range(_ATTEMPTS if self._lock is not None else 0):
            with contextlib.suppress(
                sqlite3.Error
            ):  # another process reads it, or the disk is full
                mode = self._connection.execute("PRAGMA journal_mode = DELETE").fetchone()[0]
                if mode == "delete":
                    break
            time.sleep(0.01)
        self._connection.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _hold(self) -> None:
        """Keep other runs from this file for as long as this process lives."""
        # Opened before and closed after SQLite's own use: closing a file ends a process's locks on it.
        with self._writing():
            self._lock = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ComparisonError(
                "another run is writing to this file",
                where=self.path,
                hint="wait until it ends, or use another folder: --reports FOLDER",
            ) from None
        except OSError:
            return  # a file system without locks

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._writing():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):  # a full disk has ended it already
                    self._connection.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise WriteError(
                f"cannot be written: {error}",
                where=self.path,
                hint="free some space, or use another folder: --reports FOLDER; stored results are kept",
            ) from error


def _verdict_row(verdict: Verdict) -> tuple[Any, ...]:
    known = verdict.known
    words = (verdict.message, verdict.expected, verdict.observed, verdict.method)
    return (
        *(verdict.check, verdict.status.value, verdict.level.value),
        *(*map(printable, words), encode(verdict.facts)),
        *(
            (None,) * 5
            if known is None
            else (known.cause, known.reason, known.url, known.kind, known.instead)
        ),
    )


def numbers_of(run: Run) -> Iterator[tuple[str, str, str, str, int]]:
    """What was measured in a run: a quantity, region, statement, phase and value each."""
    for seen in run.executions or ():
        yield "executions", seen.region, seen.statement, seen.phase, seen.count
    state = run.random_state
    for quantity, value in (
        ("retained bytes", run.retained),
        ("random state bytes", None if state is None else state.nbytes),
        ("random state copies", None if state is None else state.copies),
        ("peak bytes", run.peak),
    ):
        if value is not None:
            yield quantity, "", "", "", int(value)
