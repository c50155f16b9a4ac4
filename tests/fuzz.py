"""Damaged files of every kind that the suite reads: each is read, or refused with an error of ours.

Half of the inputs are one of the seeds (files of the repository, and those in `fuzz_corpus/`, which once
ended in a traceback or took long) with bytes, words or lines changed; half are its values with some
replaced. The same number gives the same input. `tests/test_fuzz.py` runs a few; all of them:

    python tests/fuzz.py --inputs 100000
    python tests/fuzz.py --kind known --only 1234 --show    # one of them again
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import faulthandler
import json
import random
import resource
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import yaml

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from conformance import store
from conformance.compare import compare
from conformance.drivers.adapter import Adapter, find_adapter, read_adapter
from conformance.drivers.implementation import adapt, describe
from conformance.emit.programs import texts
from conformance.errors import ConformanceError
from conformance.judge import known
from conformance.judge.checks import applicable
from conformance.language.features import required_by
from conformance.language.load import load_file, load_folder
from conformance.model.case import Case
from conformance.model.result import Results
from conformance.model.verdict import Level, Status, Verdict
from conformance.report import Report, write_report
from tests import report_samples as samples
from tools import coverage, documents

ROOT = Path(__file__).parents[1]
ADAPTERS = ROOT / "adapters"
CORPUS = Path(__file__).parent / "fuzz_corpus"
SECONDS = 2.0
MIB = 512
#: When an input is given up.
ENDLESS = 30.0

WORDS = (
    *("null", "true", "yes", "-1", "0", "1e999", ".nan", "-.inf", "0x1F", "0o17", "1_000"),
    *("12:30:45", "2001-99-99", "2024-02-30T25:61:61Z", "0000-00-00", "9" * 60, "9" * 200),
    *("1e-400", '"\\0"', "''", "<<: *a", "*a", "&a ", "&a [*a]", "<<: [*a, *a]", "!!binary x"),
    *("!!python/object:os.system x", "!!set ", "? ", ": ", "- ", "---\n", "...\n", "%YAML 9.9\n"),
    *("|\n", ">-\n", *"{}[],#\t", "[" * 70, "{a: " * 70, "$n", "${x}", "../../x", "/", "a/b"),
    *("\u202e", "\x1b[31m", "\ufeff", "\x85", "family", "cases", "program", "recompute", "axes"),
    *("tensors", "variants", "title", "path", "known", "\\u0000", "\\ud800", '"', "NaN"),
    *("Infinity", "1e400", '{"type":', "\r\n", "\n", "  ", "\x00", "\u00e4"),
)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2**63, 10**40, 0.5, -0.0, 1e308, float("nan"), float("inf")),
    *("", " ", "\0", "a", "a b", "*", "?", "[", "../x", "/etc/passwd", "a/b", "\x1b[2J", "ä" * 300),
    *("$n", "y = sin(x)", "y = concat([x, x])", "sum(y)", "x, y", "2001-01-01", "None", "x" * 3000),
    *("0" * 16, [], {}, [[]], [None], {"": None}, {"a": {"b": {"c": []}}}, ["x"] * 50),
    *([1, "a", None, {}], [0] * 20),
)


class EndlessError(BaseException):
    """An input takes much too long. Nothing in between is to catch it."""


@dataclass(frozen=True)
class Kind:
    """A kind of file: where its seeds are, and what reads one that is given as a path."""

    name: str
    seeds: Sequence[Path]
    read: Callable[[Path], object]
    #: The file's name where it is read.
    file: str
    #: How its values are read and written again, to replace some; `None` where it has no such form.
    form: Callable[[random.Random, bytes], bytes] | None = None
    share: float = 1.0

    @cached_property
    def texts(self) -> Sequence[bytes]:
        """The seeds' contents: those of the repository, and what is kept."""
        kept = sorted((CORPUS / self.name).glob("*"))
        return [file.read_bytes() for file in (*self.seeds, *kept)]

    def input(self, number: int) -> bytes:
        """The input of that number; the first are the seeds themselves."""
        if number < len(self.texts):
            return self.texts[number]
        chance = random.Random(f"{self.name} {number}")
        text = chance.choice(self.texts)
        if self.form is not None and chance.random() < 0.5:
            with contextlib.suppress(Exception):  # what cannot be taken apart is cut up
                return self.form(chance, text)
        return mutated(chance, text, self.texts)


# -- changes ------------------------------------------------------------------------------------------


def mutated(chance: random.Random, text: bytes, others: Sequence[bytes]) -> bytes:
    """A text with a few bytes, words or lines changed."""
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
        text = chance.choice(_CHANGES)(chance, text, others)
    return text


def _place(chance: random.Random, text: bytes) -> int:
    return chance.randint(0, len(text))


def _span(chance: random.Random, text: bytes) -> tuple[int, int]:
    start = _place(chance, text)
    return start, min(len(text), start + int(chance.expovariate(1 / 20)))


def _flip(chance: random.Random, text: bytes, _: Sequence[bytes]) -> bytes:
    if not text:
        return text
    place = chance.randrange(len(text))
    return text[:place] + bytes([chance.randrange(256)]) + text[place + 1 :]


def _cut(chance: random.Random, text: bytes, _: Sequence[bytes]) -> bytes:
    start, end = _span(chance, text)
    return text[:start] + text[end:]


def _end(chance: random.Random, text: bytes, _: Sequence[bytes]) -> bytes:
    return text[: _place(chance, text)]


def _again(chance: random.Random, text: bytes, _: Sequence[bytes]) -> bytes:
    start, end = _span(chance, text)
    return text[:end] + text[start:end] * chance.choice((1, 1, 2, 200)) + text[end:]


def _word(chance: random.Random, text: bytes, _: Sequence[bytes]) -> bytes:
    start, end = _span(chance, text)
    if chance.random() < 0.5:
        end = start
    return text[:start] + chance.choice(WORDS).encode("utf-8", "surrogatepass") + text[end:]


def _line(chance: random.Random, text: bytes, others: Sequence[bytes]) -> bytes:
    lines = text.splitlines(keepends=True) or [b""]
    theirs = chance.choice(others).splitlines(keepends=True) or [b""]
    place = chance.randrange(len(lines))
    ways = ([], lines[place : place + 1] * 2, [chance.choice(theirs)], [chance.choice(lines)])
    lines[place : place + 1] = chance.choice(ways)
    return b"".join(lines)


def _shift(chance: random.Random, text: bytes, _: Sequence[bytes]) -> bytes:
    lines = text.splitlines(keepends=True) or [b""]
    place = chance.randrange(len(lines))
    lines[place] = b"  " + lines[place] if chance.random() < 0.5 else lines[place].lstrip(b" ")
    return b"".join(lines)


_CHANGES = (_flip, _cut, _end, _again, _word, _word, _line, _line, _shift)


def _nodes(value: Any) -> Iterator[tuple[Any, Any]]:
    """Each place in a value: what holds it, and its key there."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield value, key
            yield from _nodes(part)
    elif isinstance(value, list):
        for number, part in enumerate(value):
            yield value, number
            yield from _nodes(part)


def changed(chance: random.Random, value: Any) -> Any:
    """A value with parts replaced, taken away, doubled or given another key."""
    whole = [copy.deepcopy(value)]
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        places = list(_nodes(whole))
        holder, key = chance.choice(places)
        way = chance.randrange(6)
        other_holder, other = chance.choice(places)
        if way == 0 and len(places) > 1:
            del holder[key]
        elif way == 1 and isinstance(holder, dict):
            holder[chance.choice([*holder, "x", "", "$n", "title"])] = holder.pop(key)
        elif way == 2:
            holder[key] = copy.deepcopy(other_holder[other])
        elif way == 3 and isinstance(holder, list) and holder is not whole:
            holder.insert(chance.randint(0, len(holder)), copy.deepcopy(other_holder[other]))
        else:
            holder[key] = copy.deepcopy(chance.choice(VALUES))
    return whole[0]


def _yaml(chance: random.Random, text: bytes) -> bytes:
    value = changed(chance, _parsed(text))
    style = chance.choice((None, False, True))
    dumped: str = yaml.safe_dump(value, sort_keys=False, default_flow_style=style)
    return dumped.encode("utf-8", "surrogatepass")


@cache
def _parsed(text: bytes) -> Any:
    return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def _rows(chance: random.Random, text: bytes) -> bytes:
    """A file of results with other values in some rows, or with a table or a column of another name."""
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
        database.deserialize(text)
        database.execute("PRAGMA ignore_check_constraints = ON")
        for _ in range(chance.choice((1, 1, 2, 5))):
            with contextlib.suppress(sqlite3.Error, OverflowError):  # what no such file can hold
                chance.choice((_cell, _cell, _cell, _cell, _table))(chance, database)
        return database.serialize()


def _tables(database: sqlite3.Connection) -> list[str]:
    query = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name"
    return [name for (name,) in database.execute(query)]


def _cell(chance: random.Random, database: sqlite3.Connection) -> None:
    """Change a value: by one of `VALUES`, or within its JSON."""
    table = chance.choice(_tables(database))
    rows = database.execute(f"SELECT * FROM {table}")
    columns = [name for name, *_ in rows.description]
    row = chance.choice(rows.fetchall())
    place = chance.randrange(len(row))
    value = chance.choice(VALUES)
    if isinstance(row[place], bytes):
        value = mutated(chance, row[place], [row[place]])
    elif isinstance(row[place], str) and row[place][:1] in ("{", "["):
        value = json.dumps(changed(chance, json.loads(row[place])))
    where = " AND ".join(f"{name} IS ?" for name in columns)
    database.execute(f"UPDATE {table} SET {columns[place]} = ? WHERE {where}", (value, *row))


def _table(chance: random.Random, database: sqlite3.Connection) -> None:
    """Change more than a value."""
    table, other = chance.choice(_tables(database)), chance.choice(_tables(database))
    column = chance.choice([row[1] for row in database.execute(f"PRAGMA table_info({table})")])
    ways = (
        f"DELETE FROM {table}",
        f"DROP TABLE {table}",
        f"ALTER TABLE {table} RENAME TO {table}_",
        f"ALTER TABLE {table} RENAME COLUMN {column} TO {column}_",
        f"ALTER TABLE {table} ADD COLUMN more TEXT",
        f"DROP TABLE {table}; CREATE VIEW {table} AS SELECT * FROM {other}",
        f"PRAGMA user_version = {chance.choice((0, 2, -1, 2**31 - 1))}",
        f"PRAGMA application_id = {chance.choice((0, 1, -1))}",
    )
    database.executescript(f"PRAGMA foreign_keys = OFF; {chance.choice(ways)}")


def _csv(chance: random.Random, text: bytes) -> bytes:
    lines = text.split(b"\n")
    place = chance.randrange(len(lines))
    fields = lines[place].split(b",")
    words = [
        str(chance.choice(VALUES)).encode("utf-8", "replace"),
        chance.choice(fields),
        b'"',
        b"",
    ]
    fields[chance.randrange(len(fields))] = chance.choice(words)
    lines[place] = b",".join(fields)
    return b"\n".join(lines)


# -- what reads them ----------------------------------------------------------------------------------


@cache
def _cases() -> tuple[Case, ...]:
    return load_folder(ROOT / "cases")


@cache
def _adapter(name: str) -> Adapter:
    return find_adapter(name, ADAPTERS)


@cache
def _variants() -> tuple[str, ...]:
    names = (path.parent.name for path in ADAPTERS.glob("*/adapter.yaml"))
    return tuple(v.id for name in names for v in _adapter(name).variants)


def read_case(file: Path) -> None:
    """A file of cases, and the programs of the first of them."""
    found = load_file(file)
    store.cases_hash(found)
    for case in found[:3]:
        applicable(case)
        required_by(case)
        for name in ("reference", "torch"):
            texts(_adapter(name), [(case, _adapter(name).variants[0])])


def read_adapters_file(file: Path) -> None:
    """`adapter.yaml`, in a folder with nothing else."""
    adapter = read_adapter(file.parent)
    for variant in adapter.variants:
        for case in _cases()[:5]:
            required_by(case) & set(variant.model.lacks)
    list(adapter.beside)


_VERDICT = Verdict("gradient", Status.FAIL, Level.MUST, "gradient of x is None")


def read_known(file: Path) -> None:
    """Known deviations, used, and added to."""
    for entry in known.read(file):
        entry.covers("basics/conv-relu-gradient", "torch/reentrant", "gradient")
        entry.describes(_VERDICT)
    added = {"cause": "c", "cases": "a/b", "shows": {"value": "x"}, "says": "y"}
    known.append(file, [added])
    assert known.read(file)[-1].reason == "y"


def read_implementation(file: Path) -> None:
    """A description of somebody's own recompute, put into two adapters."""
    found = describe(str(file))
    for name in ("torch", "jax"):
        adapt(_adapter(name), found)


def read_results(file: Path) -> None:
    """A file of results, and the report on it."""
    found = [store.read(file)]
    cases = samples.cases()
    made = Report(found, cases, compare(found, cases))
    write_report(made, file.parent / "report", file.parent)


def begin_run(file: Path) -> None:
    """A file of results into which a run writes, one that goes on with it if it can."""
    run = _sample()
    with contextlib.closing(store.Store(file)) as opened:
        stored = opened.begin(run.header, [result.pair for result in run.results]).stored
        for result in run.results:
            if result.pair not in stored:
                opened.put(result)
        opened.results()
        opened.finish("")


def read_coverage(file: Path) -> None:
    """The list of tests and defects."""
    lines = coverage.read(file)
    coverage.validate(lines, _cases(), _variants())


def read_documents(file: Path) -> None:
    """The list of documents."""
    documents.validate(documents.read(file), _cases(), _variants())


@cache
def _work() -> Path:
    """A folder for all that is made here."""
    made = tempfile.TemporaryDirectory(prefix="fuzz-")
    _made.append(made)
    return Path(made.name)


_made: list[tempfile.TemporaryDirectory[str]] = []


@cache
def _sample() -> Results:
    """A small run."""
    return samples.results(
        "mine",
        [
            samples.result("mine/one", program="programs/mine/one/sample/block.py"),
            samples.result("mine/one", samples.run({"x": None}), case="sample/noise"),
            samples.unobserved("mine/one", Status.CRASHED, "the process died", "sample/noise-anew"),
        ],
    )


@cache
def _results() -> Path:
    """A small file of results, as it should be."""
    file = _work() / "whole" / "mine.db"
    samples.stored(file, _sample())
    return file


@cache
def _cut_off() -> Path:
    """What a run has left that was killed."""
    file = _work() / "cut-off" / "mine.db"
    with contextlib.closing(store.Store(file)) as opened:
        opened.begin(_sample().header, [result.pair for result in _sample().results])
        opened.put(_sample().results[0])
    return file


@cache
def kinds() -> Mapping[str, Kind]:
    """All kinds of files, by name."""

    def of_adapters(name: str) -> list[Path]:
        return sorted(ADAPTERS.glob(f"*/{name}"))

    made = (
        Kind("case", sorted((ROOT / "cases").rglob("*.yaml")), read_case, "a.yaml", _yaml, 3),
        Kind("adapter", of_adapters("adapter.yaml"), read_adapters_file, "adapter.yaml", _yaml, 2),
        Kind("known", sorted(ADAPTERS.rglob("*known.yaml")), read_known, "known.yaml", _yaml, 2),
        Kind(
            "implementation",
            [
                file
                for file in sorted(ADAPTERS.glob("*/implementations/*.yaml"))
                if not file.name.endswith(".known.yaml")
            ],
            read_implementation,
            "own.yaml",
            _yaml,
            2,
        ),
        Kind("results", [_results(), _cut_off()], read_results, "mine.db", _rows, 3),
        Kind("begun", [_results(), _cut_off()], begin_run, "mine.db", _rows, 2),
        Kind("coverage", [coverage.FILE], read_coverage, "coverage.csv", _csv),
        Kind("documents", [documents.FILE], read_documents, "documents.yaml", _yaml),
    )
    return {kind.name: kind for kind in made}


# -- trying -------------------------------------------------------------------------------------------


@dataclass
class Tried:
    """What came of one input: seconds of CPU, MiB beyond those before, and what is wrong with it."""

    seconds: float
    mib: float
    refused: bool
    problem: str = ""


def tried(kind: Kind, content: bytes) -> Tried:
    """Read an input, and see what comes of it."""
    folder = _work() / "inputs"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    file = folder / kind.file
    file.write_bytes(content)
    before = _reset_peak()
    start = time.process_time()
    refused, problem = False, ""
    signal.setitimer(signal.ITIMER_PROF, ENDLESS)
    try:
        kind.read(file)
    except ConformanceError:
        refused = True
    except (Exception, EndlessError):
        problem = traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    seconds = time.process_time() - start
    mib = _peak() - before
    if not problem and seconds > SECONDS:
        problem = f"took {seconds:.1f} s"
    if not problem and mib > MIB:
        problem = f"took {mib:.0f} MiB"
    return Tried(seconds, mib, refused, problem)


def _endless(*_: object) -> None:
    raise EndlessError


def _status(word: str) -> float:
    text = Path("/proc/self/status").read_text()
    return int(text.partition(f"{word}:")[2].split()[0]) / 1024


def _reset_peak() -> float:
    """MiB now, from which on the peak is taken."""
    with contextlib.suppress(OSError):  # without it, the peak is that of all inputs
        Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _peak() -> float:
    return _status("VmHWM")


def prepare() -> None:
    """Have inputs that take too long or too much end with an error."""
    faulthandler.enable()
    signal.signal(signal.SIGPROF, _endless)


def limit_memory() -> None:
    """From now on no more than `MIB` beside what there is."""
    _cases(), _variants(), _results()
    most = int(_status("VmData") + MIB) << 20
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def main() -> int:
    """Try inputs, and print figures of each kind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=1000, help="how many, of all kinds together")
    parser.add_argument("--kind", choices=list(kinds()), help="these alone")
    parser.add_argument("--first", type=int, default=0, help="the number of the first of each kind")
    parser.add_argument("--only", type=int, help="one input, by its number")
    parser.add_argument("--show", action="store_true", help="print it")
    chosen = parser.parse_args()
    prepare()
    limit_memory()
    wanted = [kind for kind in kinds().values() if chosen.kind in (None, kind.name)]
    if chosen.only is not None:
        content = wanted[0].input(chosen.only)
        if chosen.show:
            sys.stdout.buffer.write(content)
        print(tried(wanted[0], content))
        return 0
    shares = sum(kind.share for kind in wanted)
    failed = False
    for kind in wanted:
        numbers = range(chosen.first, chosen.first + round(chosen.inputs * kind.share / shares))
        found = [tried(kind, kind.input(number)) for number in numbers]
        seconds, refused = sum(t.seconds for t in found), sum(t.refused for t in found)
        print(f"{kind.name}: {len(found)} inputs, {refused} refused, {seconds:.0f} s", flush=True)
        for number, one in zip(numbers, found, strict=True):
            if one.problem:
                failed = True
                print(f"    {number}: {one.problem.strip().splitlines()[-1][:150]}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
