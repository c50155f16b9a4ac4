"""The store: what is written comes back, and what is damaged, foreign or hostile is one message."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sqlite3
import tempfile
import typing
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from conformance.errors import ComparisonError, ConformanceError, ResultsError
from conformance.model.facts import (
    Bytes,
    Calls,
    Count,
    Difference,
    Fact,
    Growth,
    Inert,
    Raised,
    Sampling,
    State,
    States,
    Unoffered,
)
from conformance.model.observation import (
    Allowed,
    ErrorSeen,
    Execution,
    Expected,
    ExpectedMemory,
    Leaf,
    Observation,
    RandomSample,
    RandomState,
    Run,
)
from conformance.model.result import Header, Result
from conformance.model.verdict import KnownNote, Level, Status, Verdict
from conformance.store import Store, file_of, read, read_folder
from tests import report_samples as samples

NAN, INF = float("nan"), float("inf")


def same(a: object, b: object) -> bool:
    """Equal in value and in type, all the way down; NaN equals NaN."""
    if isinstance(a, np.ndarray):
        return (
            isinstance(b, np.ndarray)
            and a.dtype == b.dtype
            and a.shape == b.shape
            and a.tobytes() == b.tobytes()
        )
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if dataclasses.is_dataclass(a):
        names = [f.name for f in dataclasses.fields(a)]
        return all(same(getattr(a, n), getattr(b, n)) for n in names)
    return a == b or (a != a and b != b)


def full() -> Result:
    """A result in which every field holds something that is easily lost."""
    run = Run(
        outputs=(
            {"z": Leaf(np.float32([[1, NAN]]), "bfloat16"), "a": [None, True, 1, 1.0, "s"]},
            (),
            [],
            {},
            NAN,
            -INF,
        ),
        losses=(1.0, NAN, INF, -INF),
        gradients={"x": None, "y": np.zeros((0, 3))},
        again={"x": np.float16([INF, -0.0])},
        parameters={"w": np.array(2.5)},
        state={"mean": np.arange(6).reshape(2, 3).T},
        executions=(Execution("r", "", "rerun", 2), Execution("", "h", "forward", 1)),
        samples=(RandomSample("r", "d", "rerun", np.array([True, False])),),
        generators={"implicit": np.array([2**63], np.uint64)},
        retained=-8,
        error=ErrorSeen("KeyError", ("KeyError", "LookupError"), "key\n'…'", "backward"),
        good_run_after_error=False,
    )
    expected = Expected(
        outputs={"z": Leaf(np.array([1.0]), "float64")},
        losses=(0.1,),
        gradients={"x": None},
        again=None,
        parameters={},
        state=None,
        executions={
            ("r", "", "rerun"): Allowed((1, 2), "either"),
            ("r", "h", "forward"): Allowed((1,)),
        },
        memory=ExpectedMemory((1, 2), (3, 4), 5, 6),
        error="KeyError",
    )
    facts: tuple[Fact, ...] = (
        Difference("gradient", "x", "elements", "plain run", place=(0, 1), observed="NaN"),
        Difference("value", "outputs", "shape", "reference", expected_shape=(2, 0)),
        Count("r", "h", "rerun", 2, (0, 1), "either"),
        Inert("r", "", (1,)),
        Bytes(2**40, 1, 0, None, 4),
        States(2, 10112, 1),
        Sampling("fresh", (("r", "d"), ("", "e")), ("implicit",)),
        Calls("hook of w", None, 1),
        State("mean", "(2,) [1, 2]", "(2,) [0, 0]", "-Infinity"),
        Growth("grows", "bytes", 0.5, 0.0),
        Raised("KeyError", "backward"),
        Unoffered("lacks", "policy (it has none)", ("policy",)),
    )
    assert {type(fact) for fact in facts} == set(typing.get_args(Fact))
    note = KnownNote("why", "https://example.org/1")
    verdict = Verdict("gradient", Status.FAIL, Level.MUST, "m\u2028", "e", "o", "how", facts, note)
    return Result(
        case="sample/block",
        variant="sample/one",
        verdicts=(verdict, samples.PASS),
        observation=Observation(run, Run(), {"value": "direct"}, {"executions": "no"}, 0.25),
        expected=expected,
        program="programs/sample/one/block.py",
    )


def as_kept(result: Result) -> Result:
    """A result without what neither a comparison nor a report reads."""

    def run(found: Run) -> Run:
        drew = found.samples is not None or bool(found.generators)
        return replace(
            found,
            samples=() if drew else None,
            generators={},
            held=None,
            alive=None,
            good_run_after_error=None,
        )

    seen = result.observation
    assert seen is not None
    kept = Observation(run(seen.plain), run(seen.recomputed), {}, seen.unobserved, seen.seconds)
    return replace(result, observation=kept)


HEADER = Header(
    suite="1.0",
    adapter="sample",
    variants=("sample/one", "sample/two"),
    disciplines={"sample/one": "whole", "sample/two": "minimal"},
    versions={"python": "3.11", "platform": "Linux"},
    cases="c" * 64,
    started="2026-01-01T00:00:00+00:00",
    accuracy={"sample/two": {"exp": 1e-3}},
    limits={"seconds": 3.0},
)


def other() -> Result:
    """A result of which nothing was observed."""
    verdict = Verdict("error", Status.CRASHED, Level.MUST, "the process died of SIGSEGV")
    return Result("sample/other", "sample/two", (verdict,), None, None, "")


def write(path: Path, *listed: Result, header: Header = HEADER, ends: str | None = "") -> None:
    """A run of these results; one that is killed if it never `ends`."""
    store = Store(path)
    store.begin(header, [result.pair for result in listed])
    for result in listed:
        store.put(result)
    store.add_seconds({"observing": 1.5})
    store.add_seconds({"observing": 0.5})
    if ends is not None:
        store.finish(ends)
    store.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "sample.db"
    write(file, full(), other())
    return file


def change(path: Path, *statements: str) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def test_everything_comes_back(path):
    found = read(path)
    assert same(found.results[0], as_kept(full()))
    assert found.results[1] == other()
    assert found.header == replace(HEADER, seconds={"observing": 2.0})
    assert (found.path, found.missing, found.lacks) == (path, (), "")
    assert found.planned == (full().pair, other().pair)


DTYPES = st.one_of(
    arrays.boolean_dtypes(),
    arrays.integer_dtypes(),
    arrays.unsigned_integer_dtypes(),
    arrays.floating_dtypes(sizes=(16, 32, 64)),
    arrays.complex_number_dtypes(sizes=(64, 128)),
)
ARRAYS = arrays.arrays(DTYPES, arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=3))
#: Control characters come back escaped.
WORDS = st.text(st.characters(exclude_categories=("C",)))
TREES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | WORDS
    | st.builds(Leaf, ARRAYS, st.sampled_from(["float32", "bfloat16"])),
    lambda parts: (
        st.lists(parts, max_size=3)
        | st.lists(parts, max_size=3).map(tuple)
        | st.dictionaries(WORDS, parts, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(ARRAYS, ARRAYS, TREES, st.lists(st.floats()), st.booleans())
def test_any_array_and_tree_come_back(array, another, tree, losses, equal):
    run = Run(
        outputs=tree,
        losses=tuple(losses),
        gradients={"x": array, "y": None},
        again={"x": another},
        state={"s": array.T},
        random_state=RandomState(5056, 2),
        executions=() if equal else None,
    )
    plain = run if equal else Run(outputs=1, state={"s": another}, gradients={"x": None})
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "sample.db"
        write(file, replace(full(), observation=Observation(plain, run)))
        seen = read(file).results[0].observation
    assert seen is not None
    for found, wanted in ((seen.recomputed, run), (seen.plain, plain)):
        assert same(found, _native(wanted))


def _native(tree):
    """A value as it comes back: with arrays in the byte order of the machine, in C order."""
    if isinstance(tree, Run):
        parts = {f.name: _native(getattr(tree, f.name)) for f in dataclasses.fields(tree)}
        return Run(**parts)
    if isinstance(tree, Leaf):
        return Leaf(_native(tree.array), tree.dtype)
    if isinstance(tree, np.ndarray):
        return np.array(tree, tree.dtype.newbyteorder("="), order="C")
    if isinstance(tree, dict):
        return {k: _native(v) for k, v in tree.items()}
    if isinstance(tree, tuple | list):
        return type(tree)(_native(v) for v in tree)
    return tree


def test_arrays_are_read_only_and_stored_once(path):
    observation = read(path).results[0].observation
    assert observation is not None
    with pytest.raises(ValueError, match="read-only"):
        observation.plain.gradients["y"][...] = 1
    with contextlib.closing(sqlite3.connect(path)) as connection:
        stored = connection.execute("SELECT count(*), count(DISTINCT digest) FROM array").fetchone()
    assert stored[0] == stored[1] > 0


@pytest.mark.parametrize("array", [np.array(["a"]), np.array([None]), np.array([1], "M8[s]")])
def test_objects_are_not_stored(tmp_path, array):
    result = replace(full(), observation=Observation(Run(gradients={"x": array}), Run()))
    with pytest.raises(ConformanceError, match="cannot be stored"):
        write(tmp_path / "sample.db", result)


def test_words_that_utf_8_does_not_have_are_escaped(tmp_path):
    run = Run(outputs="\ud800", error=ErrorSeen("E", (), "half \udfff", "forward"))
    write(tmp_path / "sample.db", replace(full(), observation=Observation(run, Run())))
    observation = read(tmp_path / "sample.db").results[0].observation
    assert observation is not None
    assert observation.plain.outputs == "\\ud800"
    assert observation.plain.error is not None
    assert observation.plain.error.message == "half \\udfff"


def test_an_expectation_of_random_numbers_comes_back(tmp_path):
    expected = Expected(None, None, None, None, None, None, {}, None, None)
    write(tmp_path / "sample.db", replace(full(), expected=expected))
    assert read(tmp_path / "sample.db").results[0].expected == expected


# -- runs -----------------------------------------------------------------------------------------------


def test_a_run_that_was_cut_off_is_gone_on_with(tmp_path):
    path = tmp_path / "sample.db"
    for ends in (None, "SIGTERM after 1 of 2 pairs"):
        path.unlink(missing_ok=True)
        store = Store(path)
        planned = [full().pair, other().pair]
        assert store.begin(HEADER, planned).message == ""
        store.put(full())
        if ends is not None:
            store.finish(ends)
        store.close()
        assert read(path).missing == (other().pair,)
        assert read(path).lacks.startswith("1 of 2 pairs missing")
        store = Store(path)
        begun = store.begin(replace(HEADER, started="later"), planned)
        assert begun.stored == {full().pair}
        assert begun.message == "continuing after 1 of 2 pairs (--fresh starts from the beginning)"
        assert same(store.result(full().pair), as_kept(full()))
        assert store.result(other().pair) is None
        store.put(other())
        store.finish("")
        store.close()
        assert len(read(path).results) == 2
        assert read(path).header.started == HEADER.started


@pytest.mark.parametrize(
    "changed",
    [
        {"suite": "2.0"},
        {"versions": {"python": "3.12", "platform": "Linux"}},
        {"cases": "d" * 64},
        {"implementation": "mine:checkpoint"},
        {"variants": ("sample/one",)},
        {"selection": "-k dropout"},
        {"limits": {}},
    ],
)
def test_a_run_that_is_not_the_same_begins_anew(tmp_path, changed):
    path = tmp_path / "sample.db"
    write(path, full(), ends=None)
    store = Store(path)
    begun = store.begin(replace(HEADER, **changed), [full().pair])
    assert begun.stored == frozenset()
    assert begun.message.startswith("an interrupted run had other ")
    store.close()
    # Until the new run has ended, what is read is what there was.
    assert len(read(path).results) in (0, 1)


def test_a_whole_run_is_read_until_a_new_one_has_ended(path):
    store = Store(path)
    assert store.begin(replace(HEADER, started="later"), [other().pair]).message == ""
    store.put(other())
    assert len(read(path).results) == 2
    store.finish("")
    store.close()
    assert read(path).results == (other(),)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        counts = [
            connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            for table in ("run", "pair", "array", "content", "number")
        ]
    assert counts == [1, 1, 0, 0, 0]


def test_two_runs_do_not_write_one_file(path):
    store = Store(path)
    store.begin(HEADER, [full().pair])
    second = Store(path)
    with pytest.raises(ComparisonError, match="another run is writing to this file"):
        second.begin(HEADER, [full().pair])
    second.close()
    store.close()


def test_parts_of_a_run_are_read_as_one(tmp_path):
    planned = [other().pair, full().pair]
    for number, result in enumerate((full(), other()), 1):
        shard = f"{number}/2"
        store = Store(file_of(tmp_path, "sample", shard))
        store.begin(replace(HEADER, shard=shard), planned)
        store.put(result)
        store.finish("")
        store.close()
        (found,) = read_folder(tmp_path)
        assert bool(found.lacks) == (number == 1)
    assert [result.pair for result in found.results] == planned
    assert found.header.shard == ""
    change(file_of(tmp_path, "sample", "2/2"), "UPDATE run SET suite = '0.9'")
    with pytest.raises(
        ComparisonError, match="parts of different runs, with other versions of the"
    ):
        read_folder(tmp_path)


# -- what is not as it should be ------------------------------------------------------------------------


def test_no_file_is_one_message(tmp_path):
    with pytest.raises(
        ResultsError, match="there is no such file of results\n  hint: write the results first"
    ):
        read(tmp_path / "sample.db")


def test_a_foreign_database_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "sample.db"
    change(path, "CREATE TABLE mine (a)")
    before = path.read_bytes()
    for use in (read, Store):
        with pytest.raises(ResultsError, match="found another database"):
            use(path)
    assert path.read_bytes() == before


def test_another_schema_is_refused_and_left_alone(path):
    change(path, "PRAGMA user_version = 7")
    before = path.read_bytes()
    for use in (read, Store):
        with pytest.raises(
            ResultsError, match=r"schema 7, expected schema 2 .*\n  hint: move the file away"
        ):
            use(path)
    assert path.read_bytes() == before


def test_what_is_no_database_is_refused(tmp_path):
    path = tmp_path / "sample.db"
    path.write_text("results\n" * 400)
    for use in (read, Store):
        with pytest.raises(
            ResultsError, match="the file of results is incomplete: file is not a database"
        ):
            use(path)


def test_a_file_cut_off_anywhere_is_refused(path):
    whole = path.read_bytes()
    for length in range(1, len(whole) - 1, 4096 * 3 + 7):
        path.write_bytes(whole[:length])
        with pytest.raises(ResultsError, match=r"incomplete|damaged|no run|another database"):
            read(path)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.data())
def test_any_damage_is_refused_or_harmless(data):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sample.db"
        write(path, full(), other())
        content = bytearray(path.read_bytes())
        for _ in range(data.draw(st.integers(1, 8))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
        path.write_bytes(content)
        with contextlib.suppress(ResultsError):
            read(path)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE verdict SET status = 'fine'",
        'UPDATE verdict SET facts = \'[{"fact": "rumour"}]\'',
        "UPDATE verdict SET facts = '['",
        "UPDATE pair SET variant = 'sample/three' WHERE outcome = 'raises'",
        "UPDATE content SET json = '{}'",
        'UPDATE content SET json = \'{"outputs": ["tensor", 99, "float32"], "losses": []}\'',
        "UPDATE content SET json = replace(json, '\"bfloat16\"', '7')",
        "UPDATE array SET dtype = 'object'",
        "UPDATE array SET shape = '[-1]'",
        "UPDATE array SET shape = '[9999999999]'",
        "UPDATE array SET shape = '[77]'",
        "UPDATE array SET elements = x'00'",
        "DELETE FROM array",
        "DELETE FROM run",
        "UPDATE run SET versions = '[]'",
    ],
)
def test_hostile_rows_are_refused(path, statement):
    change(path, statement)
    with pytest.raises(ResultsError, match=r"sample\.db: "):
        read(path)


def test_an_array_that_unpacks_to_more_than_it_says_is_refused(path):
    bomb = zlib.compress(bytes(10**7))
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE array SET elements = ?", (bomb,))
        connection.commit()
    with pytest.raises(ResultsError, match="does not have the elements of shape"):
        read(path)


def test_no_control_character_comes_back(path):
    hostile = "\x1b[2J\u202e\r\x00"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE verdict SET message = ?, reason = ?", (hostile, hostile))
        kept = json.dumps({"\x1b[2J": "\x1b"})
        connection.execute("UPDATE run SET versions = ?", (kept,))
        connection.commit()
    found = read(path)
    assert found.results[0].verdicts[0].message == "\\x1b[2J\\u202e\\r\\x00"
    assert found.header.versions == {"\\x1b[2J": "\\x1b"}


def test_it_is_read_from_a_folder_that_is_read_only(path, monkeypatch):
    monkeypatch.setattr("os.access", lambda *_: False)
    assert len(read(path).results) == 2
