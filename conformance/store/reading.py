"""Reading results: one file, a folder of them, the parts of a divided run."""

import contextlib
import gc
import os
import re
import sqlite3
import typing
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from conformance.errors import ComparisonError, ResultsError
from conformance.model.facts import Fact
from conformance.model.observation import Array, Execution, Expected, Observation, RandomState, Run
from conformance.model.result import Header, Pair, Result, Results
from conformance.model.verdict import KnownNote, Level, Status, Verdict
from conformance.store.values import array_from, decode, from_json
from conformance.words import printable

#: What marks a SQLite file as ours ("RCON"), and the number of the schema; any other is refused.
APPLICATION, SCHEMA = 0x52434F4E, 2
#: The columns of the table `run` that are fields of a header.
HEADER = tuple(f.name for f in fields(Header) if f.name != "seconds")
#: What two runs have in common where one goes on with the other, or both are parts of one.
_SHARED: Mapping[str, str] = {
    "suite": "versions of the suite",
    "versions": "versions",
    "cases": "cases",
    "implementation": "implementations",
    "variants": "variants",
    "selection": "selections",
    "disciplines": "disciplines",
    "accuracy": "accuracies",
    "limits": "limits",
}
_PART = re.compile(r"(?P<adapter>.+)\.\d+-of-\d+")
_RUN_AGAIN = "run the adapter again"


def file_of(reports: Path, adapter: str, shard: str = "") -> Path:
    """The file of an adapter's results: `torch.db`, or `torch.2-of-4.db` for the shard `2/4`."""
    part = f".{shard.replace('/', '-of-')}" if shard else ""
    return reports / f"{adapter}{part}.db"


def read_folder(folder: Path, names: Sequence[str] = ()) -> list[Results]:
    """The results of every adapter in a folder, or of those named; the parts of a divided run united.

    Raises `ResultsError` for a file that cannot be read, and `ComparisonError` for parts of different
    runs.
    """
    by_adapter: dict[str, list[Results]] = defaultdict(list)
    for path in sorted(folder.glob("*.db")):
        part = _PART.fullmatch(path.stem)
        adapter = part["adapter"] if part else path.stem
        if not names or adapter in names:
            by_adapter[adapter].append(read(path))
    found = []
    for files in by_adapter.values():
        newest = max(files, key=lambda results: results.header.started)
        parts = [results for results in files if results.header.shard]
        found.append(unite(parts) if newest.header.shard else newest)
    return found


def read(path: Path) -> Results:
    """The newest run in a file, in the order of its plan; one that was killed only if there is no other.

    Raises `ResultsError` for a file that is missing, truncated, foreign or of another schema.
    """
    if not path.is_file():
        hint = "write the results first: `conformance run --adapter NAME`"
        raise ResultsError("there is no such file of results", where=path, hint=hint)
    # A folder that is read-only has no room for what SQLite shares between processes.
    immutable = "" if os.access(path.parent, os.W_OK) else "&immutable=1"
    with translated(path):
        uri = f"{path.absolute().as_uri()}?mode=ro{immutable}"
        with contextlib.closing(sqlite3.connect(uri, uri=True, timeout=60)) as connection:
            check_kind(path, connection)
            connection.execute("BEGIN")  # one state of the file, whatever is written meanwhile
            newest = connection.execute(
                "SELECT id FROM run ORDER BY ended IS NULL, id DESC LIMIT 1"
            ).fetchone()
            if newest is None:
                raise ResultsError("the file contains no run", where=path, hint=_RUN_AGAIN)
            with _without_collecting():
                return Reader(path, connection, newest[0]).results()


@contextlib.contextmanager
def _without_collecting() -> Iterator[None]:
    """Inside the `with`, garbage is not collected: nothing that is read becomes garbage, and each
    collection would look through all of it."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@contextlib.contextmanager
def translated(path: Path) -> Iterator[None]:
    """Inside the `with`, what comes of a damaged file becomes a `ResultsError`."""
    try:
        yield
    except sqlite3.Error as error:
        message = f"the file of results is incomplete: {error}"
        raise ResultsError(message, where=path, hint=_RUN_AGAIN) from error
    except (ValueError, TypeError, LookupError, OverflowError, RecursionError, zlib.error) as error:
        raise ResultsError(
            f"the file of results is malformed: {error}", where=path, hint=_RUN_AGAIN
        ) from error


def check_kind(path: Path, connection: sqlite3.Connection) -> None:
    """Raise `ResultsError` unless a database is whole, ours, and of this schema."""
    with translated(path):
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        schema = connection.execute("PRAGMA user_version").fetchone()[0]
        if application != APPLICATION:
            raise ResultsError("found another database, expected a file of results", where=path)
        if schema != SCHEMA:
            raise ResultsError(
                f"found schema {schema}, expected schema {SCHEMA} (of another version)",
                where=path,
                hint=f"move the file away and {_RUN_AGAIN}, or read it with the version that wrote it",
            )
        problem = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if problem != "ok":
        raise ResultsError(f"the file is damaged: {problem}", where=path, hint=_RUN_AGAIN)


def unite(parts: Sequence[Results]) -> Results:
    """The results of a divided run as one; each part names all pairs that were planned.

    Raises `ComparisonError` for parts of different runs, and for two with the same result.
    """
    first = parts[0]
    found: dict[Pair, Result] = {}
    hint = "delete the parts of the earlier run"
    for part in parts:
        # Machines of one kind differ in their platform from week to week.
        differing = difference(first.header, part.header, ignored="platform")
        if not differing and part.planned != first.planned:
            differing = f"plans: {len(first.planned)} and {len(part.planned)} pairs"
        if differing:
            words = f"found parts of different runs, with other {differing}"
            raise ComparisonError(words, where=f"{first.path}, {part.path}", hint=hint)
        for result in part.results:
            if found.setdefault(result.pair, result) is not result:
                words = f"found {result.case} on {result.variant} in two parts of a run"
                raise ComparisonError(words, where=part.path, hint=hint)
    lacking = [pair for pair in first.planned if pair not in found]
    headers = [part.header for part in parts]
    header = replace(
        first.header,
        shard=", ".join(header.shard for header in headers) if lacking else "",
        started=min(header.started for header in headers),
        interrupted=next((header.interrupted for header in headers if header.interrupted), ""),
        seconds={
            stage: sum(header.seconds.get(stage, 0.0) for header in headers)
            for stage in first.header.seconds
        },
    )
    ordered = tuple(found[pair] for pair in first.planned if pair in found)
    return Results(first.path, header, ordered, first.planned)


def difference(a: Header, b: Header, ignored: str = "") -> str:
    """What differs between two headers that runs which belong together share, in words that follow
    "other"; empty for nothing. `ignored` is a name among versions."""
    for name, words in _SHARED.items():
        old, new = getattr(a, name), getattr(b, name)
        if isinstance(old, Mapping):
            names = (n for n in sorted({*old, *new}) if old.get(n) != new.get(n) and n != ignored)
            key = next(names, None)
            if key is not None:
                return f"{words}: {key} {old.get(key, 'none')} and {new.get(key, 'none')}"
        elif old != new:
            return f"{words}: {_shown(name, old)} and {_shown(name, new)}"
    return ""


def _shown(name: str, value: Any) -> str:
    """A field of a header in words."""
    words = value if isinstance(value, str) else ", ".join(value)
    return words[:12] if name == "cases" else words or "none"


class Reader:
    """Makes values from the rows of one run."""

    def __init__(self, path: Path, connection: sqlite3.Connection, run: int) -> None:
        self._path, self._run = path, run
        self._cursor = connection.cursor()
        # Most texts are one of a few: names of regions, phases, quantities.
        connection.text_factory = lru_cache(65536)(_text)
        #: Rows that are equal make one verdict.
        self._verdicts: dict[tuple[Any, ...], Verdict] = {}

    def results(self) -> Results:
        header = self.header()
        results, planned = self._results("run_id = ?", self._run)
        strange = next((r for r in results if r.variant not in header.variants), None)
        if strange is not None:
            raise ResultsError(f"{strange.variant!r} is no variant of this run", where=self._path)
        return Results(self._path, header, results, planned)

    def result(self, pair: Pair) -> Result | None:
        """The result of one pair; `None` where it is not judged yet."""
        results, _ = self._results("run_id = ? AND case_id = ? AND variant = ?", self._run, *pair)
        return results[0] if results else None

    def header(self) -> Header:
        """Who ran, what, and on what."""
        hints = typing.get_type_hints(Header)
        row = self._select(f"{', '.join(HEADER)} FROM run WHERE id = ?", self._run)[0]
        values = {
            name: text if hints[name] is str else decode(text, hints[name])
            for name, text in zip(HEADER, row, strict=True)
        }
        stages = "name, sum(seconds) FROM stage WHERE run_id = ? GROUP BY name ORDER BY min(rowid)"
        return Header(**values, seconds=dict(self._select(stages, self._run)))

    def _select(self, query: str, *values: object) -> list[Any]:
        return self._cursor.execute(f"SELECT {query}", values).fetchall()

    def _results(self, where: str, *values: object) -> tuple[tuple[Result, ...], tuple[Pair, ...]]:
        """The results of chosen pairs, as far as they are judged, and these pairs."""
        of_pairs = f"pair_id IN (SELECT id FROM pair WHERE {where})"
        arrays = {
            id_: array_from(*row)
            for id_, *row in self._select(
                "id, dtype, shape, elements FROM array WHERE id IN "
                f"(SELECT array_id FROM array_of_pair WHERE {of_pairs})",
                *values,
            )
        }
        verdicts: dict[int, list[Verdict]] = defaultdict(list)
        for id_, _, *row in self._select(
            f"* FROM verdict WHERE {of_pairs} ORDER BY pair_id, position", *values
        ):
            verdicts[id_].append(self._verdict(*row))
        numbers: dict[tuple[int, str], list[Any]] = defaultdict(list)
        for id_, run, *row in self._select(
            f"* FROM number WHERE {of_pairs} ORDER BY rowid", *values
        ):
            numbers[id_, run].append(row)
        contents = {
            (id_, run): text
            for id_, run, text in self._select(f"* FROM content WHERE {of_pairs}", *values)
        }
        results, planned = [], []
        for id_, case, variant, outcome, program, seconds, resolution, unobserved in self._select(
            "id, case_id, variant, outcome, program, seconds, resolution, unobserved FROM pair "
            f"WHERE {where} ORDER BY position",
            *values,
        ):
            planned.append((case, variant))
            if outcome is None:
                continue
            observation = None
            if (id_, "plain") in contents:
                plain, recomputed = (
                    _run(contents[id_, name], numbers[id_, name], arrays)
                    for name in ("plain", "recomputed")
                )
                why = decode(unobserved, dict[str, str])
                observation = Observation(plain, recomputed, {}, why, seconds, resolution)
            text = contents.get((id_, "expected"))
            expected = None if text is None else from_json(text, Expected, arrays)
            found = tuple(verdicts[id_])
            results.append(Result(case, variant, found, observation, expected, program))
        return tuple(results), tuple(planned)

    def _verdict(self, *row: Any) -> Verdict:
        if row not in self._verdicts:
            check, status, level, message, expected, observed, method = row[:7]
            facts, cause, reason, url, kind, instead = row[7:]
            judged = check, Status(status), Level(level), message, expected, observed, method
            known = None if reason is None else KnownNote(reason, url, cause, kind, instead)
            self._verdicts[row] = Verdict(*judged, decode(facts, tuple[Fact, ...]), known)
        return self._verdicts[row]


def _text(stored: bytes) -> str:
    return printable(stored.decode("utf-8", "replace"))


def _run(text: str, numbers: Sequence[Sequence[Any]], arrays: Mapping[int, Array]) -> Run:
    """A run from its JSON and its numbers."""
    counts = tuple(Execution(*row) for quantity, *row in numbers if quantity == "executions")
    counted = {"executions": counts} if counts else {}
    values = {quantity: value for quantity, *_, value in numbers}
    copies = values.get("random state copies")
    return from_json(
        text,
        Run,
        arrays,
        **counted,
        retained=values.get("retained bytes"),
        random_state=None if copies is None else RandomState(values["random state bytes"], copies),
        peak=values.get("peak bytes"),
    )
