"""Results files: what is written is read, and what is damaged is refused."""

from __future__ import annotations

import dataclasses
import json
import tempfile
import tracemalloc
import typing
from dataclasses import replace
from pathlib import Path

import hypothesis.extra.numpy as arrays
import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from safetensors.numpy import load_file

from conformance.errors import MissingFooterError, ResultsError, WriteError
from conformance.model.case import Literal
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
    Run,
)
from conformance.model.verdict import KnownNote, Level, Status, Verdict
from conformance.results import (
    Footer,
    Result,
    beside,
    cases_hash,
    codec,
    files,
    make_footer,
    parts,
    read,
    schema,
    write,
)
from conformance.results.arrays import stored, write_arrays
from conformance.results.written import ResultWriter, WrittenResults
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


def write_all(path: Path, *listed: Result) -> None:
    file = samples.results("sample", listed)
    write(path, file.header, listed, file.footer)


def write_full(path: Path) -> None:
    write_all(path, full(), samples.result("sample/two"))


def back(path: Path, result: Result) -> Result:
    """A result, written and read."""
    write_all(path, result)
    return read(path).results[0]


def test_everything_comes_back(tmp_path):
    path = tmp_path / "reports" / "sample.jsonl"
    write_full(path)
    found = read(path)
    assert same(found.results[0], as_kept(full()))
    assert same(found.results[1], as_kept(samples.result("sample/two")))
    written = samples.results("sample", found.results)
    assert found.header == written.header
    assert found.footer == written.footer
    assert found.footer.statuses == {Status.PASS: 2, Status.FAIL: 1}
    assert found.path == path


DTYPES = st.one_of(
    arrays.boolean_dtypes(),
    arrays.integer_dtypes(),
    arrays.unsigned_integer_dtypes(),
    arrays.floating_dtypes(sizes=(16, 32, 64)),
    arrays.complex_number_dtypes(sizes=(64, 128)),
)
ARRAYS = arrays.arrays(DTYPES, arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=3))
TREES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.builds(Leaf, ARRAYS, st.sampled_from(["float32", "bfloat16"])),
    lambda parts: (
        st.lists(parts, max_size=3)
        | st.lists(parts, max_size=3).map(tuple)
        | st.dictionaries(st.text(), parts, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(ARRAYS, ARRAYS, TREES, st.lists(st.floats()), st.booleans())
def test_any_array_and_tree_come_back(array, other, tree, losses, equal):
    run = Run(
        outputs=tree,
        losses=tuple(losses),
        gradients={"x": array, "y": None},
        again={"x": other},
        state={"s": array.T},
    )
    plain = run if equal else Run(outputs=other.ndim, state={"s": other}, gradients={"x": None})
    result = replace(full(), observation=Observation(plain, run))
    with tempfile.TemporaryDirectory() as folder:
        seen = back(Path(folder) / "sample.jsonl", result).observation
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


def test_arrays_are_read_only(tmp_path):
    found = back(tmp_path / "sample.jsonl", full()).observation
    assert found is not None
    with pytest.raises(ValueError, match="read-only"):
        found.plain.parameters["w"][...] = 0


@pytest.mark.parametrize("dtype", [object, "datetime64[s]", "U3", np.longdouble])
def test_objects_are_not_stored(tmp_path, dtype):
    run = Run(gradients={"x": np.zeros(2, dtype)})
    with pytest.raises(ResultsError, match="cannot be stored"):
        write_all(tmp_path / "s.jsonl", replace(full(), observation=Observation(run, run)))
    assert list(tmp_path.iterdir()) == []


def test_an_output_that_is_no_tree_is_not_stored(tmp_path):
    run = Run(outputs=object())  # type: ignore[arg-type]
    with pytest.raises(ResultsError, match="output of type object"):
        write_all(tmp_path / "s.jsonl", replace(full(), observation=Observation(run, run)))


def test_words_that_utf_8_does_not_have_are_written_in_others(tmp_path):
    verdict = msgspec.structs.replace(samples.PASS, message="a path \udcff of bytes")
    found = back(tmp_path / "s.jsonl", replace(full(), verdicts=(verdict,)))
    assert found.verdicts[0].message == "a path \\udcff of bytes"


def test_equal_arrays_are_stored_once_and_read_as_one(tmp_path):
    path = tmp_path / "sample.jsonl"
    write_all(path, samples.result("sample/one"), samples.result("sample/two"))
    assert len(load_file(beside(path))) == 2  # float32 as observed, float64 as expected
    one, two = read(path).results
    assert one.expected is two.expected
    assert one.observation is not None
    assert two.observation is not None
    assert one.observation.plain is two.observation.plain
    assert one.observation.plain.gradients["x"] is two.observation.recomputed.gradients["x"]


def test_a_second_writing_is_the_same_to_the_byte(tmp_path):
    first, second = tmp_path / "sample.jsonl", tmp_path / "again" / "sample.jsonl"
    large = np.arange(10_000.0).reshape(100, 100)
    recomputed = samples.run({"x": large + 1e-9})
    result = samples.result("sample/two", recomputed, plain=samples.run({"x": large}))
    write_all(first, full(), result)
    found = read(first)
    write(second, found.header, found.results, found.footer)
    assert second.read_bytes() == first.read_bytes()
    assert beside(second).read_bytes() == beside(first).read_bytes()


# -- parts of large arrays ---------------------------------------------------------------------------


def test_a_large_array_is_kept_in_part_with_what_was_measured_over_all_of_it(tmp_path):
    plain = np.linspace(-3.0, 2.0, 128 * 512).reshape(128, 512)
    recomputed, expected = plain.copy(), plain.copy()
    recomputed[77, 76] += 0.25
    expected[0, 5] += 0.5
    result = samples.result(
        "sample/one",
        Run(gradients={"x": recomputed}, outputs={"y": [Leaf(recomputed, "float64")]}),
        plain=Run(gradients={"x": plain}, outputs={"y": [Leaf(plain, "float64")]}),
        expects=samples.expected({"x": expected}),
    )
    found = back(tmp_path / "s.jsonl", result)
    assert found.observation is not None
    assert found.expected is not None
    kept = found.observation.recomputed.gradients["x"]
    assert isinstance(kept, parts.Part)
    assert kept.size < 1.1 * parts.KEPT
    assert (kept == recomputed.ravel()[parts.positions(recomputed.size)]).all()
    assert (kept.whole, kept.peak) == ((128, 512), 3.0)
    assert kept.from_plain == parts.Furthest(0.25, 77 * 512 + 76)
    assert kept.from_expected == parts.Furthest(0.5, 5)
    output = found.observation.recomputed.outputs["y"][0].array
    assert (output.from_plain, output.from_expected) == (kept.from_plain, None)
    wanted = found.expected.gradients["x"]
    assert isinstance(wanted, parts.Part)
    assert wanted.from_expected == parts.Furthest(0.0, 0)
    control = found.observation.plain.gradients["x"]
    assert isinstance(control, parts.Part)
    assert control.from_plain == parts.Furthest(0.0, 0)
    assert (tmp_path / "s.safetensors").stat().st_size < plain.nbytes / 10


def test_a_large_array_that_is_wrong_is_kept_whole(tmp_path):
    large = np.linspace(-3.0, 2.0, 100 * 70).reshape(100, 70)
    wrong = large[::-1].copy()
    expects = samples.expected({"x": large})
    ran = {"plain": samples.run({"x": large}), "expects": expects}
    result = samples.result("sample/one", samples.run({"x": wrong}), verdicts=[samples.FAIL], **ran)
    found = back(tmp_path / "s.jsonl", result)
    assert found.observation is not None
    kept = found.observation.recomputed.gradients["x"]
    assert isinstance(kept, parts.Part)
    assert kept.complete
    assert (kept.reshape(kept.whole) == wrong.astype(np.float32)).all()
    plain = found.observation.plain.gradients["x"]
    assert isinstance(plain, parts.Part)
    assert not plain.complete
    assert [array.size for array in parts.aligned(kept, plain)] == [plain.size] * 2


@pytest.mark.parametrize("shape", [(64, 65), (128, 512), (1024, 64), (8, 32, 32), (4097,)])
def test_a_part_leaves_out_no_row_and_no_column(shape):
    size = int(np.prod(shape))
    kept = parts.positions(size)
    assert kept[:4].tolist() == [0, 1, 2, 3]
    assert len(set(kept.tolist())) == len(kept) <= 1.1 * parts.KEPT
    for axis, place in enumerate(np.unravel_index(kept, shape)):
        if shape[axis] < parts.KEPT:
            assert set(place.tolist()) == set(range(shape[axis]))


def test_differences_of_what_is_not_finite():
    nan, inf = float("nan"), float("inf")
    large = np.zeros(5000)
    odd = large.copy()
    odd[7] = nan
    assert parts.furthest(odd, large) == parts.Furthest(inf, 7, ("nan", "0"))
    assert parts.furthest(odd, odd) == parts.Furthest(0.0, 0)
    assert parts.magnitude(odd) == 0.0
    assert parts.furthest(large, large[1:]) is None


# -- several processes -------------------------------------------------------------------------------


def test_results_of_several_processes_are_put_together_by_number(tmp_path):
    listed = [samples.result("sample/one", case=f"sample/{n}") for n in range(5)]
    stems = [tmp_path / "a", tmp_path / "b", tmp_path / "c"]
    writers = [ResultWriter(stem) for stem in stems]
    for number in (3, 0, 4, 2, 1):
        writers[number % 2].put(number, codec.encode(listed[number]), b"%d" % number)
    # A process that died while it wrote, and one result that another process ran again.
    writers[2].put(3, codec.encode(replace(listed[3], program="again.py")), b"3")
    for writer in writers:
        writer.close()
    with (tmp_path / "a.index").open("ab") as file:
        file.write(b"[7,[0,")
    merged = WrittenResults.of(stems)
    assert list(merged.notes) == [b"0", b"1", b"2", b"3", b"4"]
    file = samples.results("sample", listed)
    path = tmp_path / "sample.jsonl"
    files.write_merged(path, file.header, merged, file.footer)
    found = read(path)
    assert [r.case for r in found.results] == [f"sample/{n}" for n in range(5)]
    assert found.results[3].program == "again.py"
    for kind in ("expected", "plain"):
        assert path.read_text().count(f'"type":"{kind}"') == 1
    assert len(load_file(beside(path))) == 2


# -- damage ------------------------------------------------------------------------------------------


def test_a_file_cut_off_anywhere_has_no_footer(tmp_path):
    path = tmp_path / "sample.jsonl"
    write_full(path)
    whole = path.read_bytes()
    ends = [i + 1 for i, byte in enumerate(whole) if byte == ord("\n")]
    cuts = [0, *ends[:-1], *(end - 5 for end in ends), *(end + 3 for end in ends[:-1])]
    for cut in cuts:
        path.write_bytes(whole[:cut])
        with pytest.raises(MissingFooterError, match="did not finish") as caught:
            read(path)
        assert str(path) in str(caught.value)
        assert "hint: run the adapter again" in str(caught.value)


#: Lines of the sample file: a result stands below its expectation and its plain run.
EXPECTED, PLAIN, RESULT, SECOND, FOOTER = 2, 3, 4, 7, 8


def damaged(tmp_path: Path, number: int, change) -> Path:
    """The sample file with one line (from 1) changed as JSON."""
    path = tmp_path / "sample.jsonl"
    write_full(path)
    lines = path.read_text("utf-8").split("\n")
    values = json.loads(lines[number - 1])
    change(values)
    lines[number - 1] = json.dumps(values)
    path.write_text("\n".join(lines), "utf-8")
    return path


def refused(path: Path, number: int, match: str) -> None:
    with pytest.raises(ResultsError, match=match) as caught:
        read(path)
    assert caught.value.where == f"{path}:{number}"
    assert caught.value.hint


def test_another_format_is_refused(tmp_path):
    path = damaged(tmp_path, 1, lambda v: v.update(format=2))
    refused(path, 1, "format 2, but this suite reads format 5")


def test_a_header_of_another_format_needs_no_field_of_this_one(tmp_path):
    path = tmp_path / "old.jsonl"
    path.write_text('{"type":"header","format":2,"suite":"0.0.9","adapter":"torch"}\n')
    refused(path, 1, "format 2, but this suite reads format 5\n.*version 0.0.9 of the suite")


def test_an_unknown_field_is_refused(tmp_path):
    refused(damaged(tmp_path, RESULT, lambda v: v.update(more=1)), RESULT, "unknown field `more`")
    refused(damaged(tmp_path, 1, lambda v: v.update(more=1)), 1, "unknown field `more`")


def test_an_unknown_status_is_refused(tmp_path):
    path = damaged(tmp_path, RESULT, lambda v: v["verdicts"][0].update(status="good"))
    refused(path, RESULT, r"verdicts\[0\]\.status")


def test_a_number_as_text_is_refused(tmp_path):
    path = damaged(tmp_path, RESULT, lambda v: v["recomputed"].update(retained="8"))
    refused(path, RESULT, "retained")


def test_an_endless_nesting_is_refused(tmp_path):
    path = tmp_path / "sample.jsonl"
    write_full(path)
    lines = path.read_bytes().split(b"\n")
    deep = b'["tuple",[' * 50_000 + b"]]" * 50_000
    lines[RESULT - 1] = (
        b'{"type":"result","case":"c","variant":"sample/one","verdicts":[],"recomputed":'
    )
    lines[RESULT - 1] += b'{"outputs":' + deep + b"}}"
    path.write_bytes(b"\n".join(lines))
    refused(path, RESULT, "nested too deeply")


@pytest.mark.parametrize("number", ["1" * 5000, "1e999"])
def test_a_number_of_too_many_digits_is_refused(tmp_path, number):
    path = damaged(tmp_path, RESULT, lambda v: v.update(seconds=123.25))
    path.write_text(path.read_text().replace("123.25", number))
    refused(path, RESULT, "digits|range")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda v: v["gradients"].update(x="0" * 16), "no array 0000000000000000"),
        (lambda v: v["gradients"].update(x="../../etc"), "gradients"),
        (lambda v: v["gradients"].update(x=7), "gradients"),
        (lambda v: _part(v, [128, 512]), r"has shape \(\), but of an array of shape \(128, 512\)"),
        (lambda v: _part(v, [2, 2]), r"of an array of shape \(2, 2\), no part is kept"),
        (lambda v: _part(v, [10**30]), "no part is kept"),
        (lambda v: _complex(v, "complex128"), "no pairs for complex128"),
        (lambda v: _complex(v, "complex256"), "parameters"),
    ],
)
def test_an_array_that_does_not_add_up_is_refused(tmp_path, change, match):
    refused(damaged(tmp_path, PLAIN, lambda line: change(line["run"])), PLAIN, match)


def _part(run, shape):
    run["parameters"] = {"w": [run["parameters"]["w"], shape, 1.0, None, None]}


def _complex(run, dtype):
    run["parameters"]["w"] += f":{dtype}"


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda v: v.update(expected="0" * 16), "no expectation 0000000000000000 above"),
        (lambda v: v.update(plain="0" * 16), "no plain run 0000000000000000 above"),
        (lambda v: v.pop("plain"), "there is one alone"),
        (lambda v: v.pop("recomputed"), "there is one alone"),
    ],
)
def test_a_result_that_lacks_a_line_above_it_is_refused(tmp_path, change, match):
    refused(damaged(tmp_path, RESULT, change), RESULT, match)


@pytest.mark.parametrize(("number", "name"), [(EXPECTED, "expectation"), (PLAIN, "plain run")])
def test_a_shared_line_twice_is_refused(tmp_path, number, name):
    path = tmp_path / "sample.jsonl"
    write_full(path)
    lines = path.read_bytes().split(b"\n")
    lines.insert(number, lines[number - 1])
    path.write_bytes(b"\n".join(lines))
    refused(path, number + 1, f"^.*{name} [0-9a-f]{{16}}: it is there a second time")


@pytest.mark.parametrize(
    ("number", "change", "match"),
    [
        (EXPECTED, lambda v: v["expected"].update(more=1), "unknown field `more`"),
        (EXPECTED, lambda v: v["expected"].update(memory={"plain": [1]}), r"expected\.memory"),
        (PLAIN, lambda v: v["run"].update(more=1), "unknown field `more`"),
        (PLAIN, lambda v: v["run"]["error"].update(more=1), "unknown field `more`"),
        (PLAIN, lambda v: v["run"].update(losses=["1e5"]), r"run\.losses"),
        (
            3,
            lambda v: v["run"].update(parameters={"w": "0" * 16}),
            "plain run .*: there is no array",
        ),
    ],
)
def test_damage_to_a_shared_line_is_refused(tmp_path, number, change, match):
    refused(damaged(tmp_path, number, change), number, match)


# -- damage to the arrays ----------------------------------------------------------------------------


def refused_arrays(path: Path, match: str) -> None:
    with pytest.raises(ResultsError, match=match) as caught:
        read(path)
    assert caught.value.where == str(beside(path))
    assert caught.value.hint


def test_missing_arrays_are_refused(tmp_path):
    path = tmp_path / "sample.jsonl"
    write_full(path)
    beside(path).unlink()
    refused_arrays(path, "arrays of these results cannot be read: No such file")


def test_arrays_of_another_run_are_refused(tmp_path):
    path, other = tmp_path / "sample.jsonl", tmp_path / "other.jsonl"
    write_full(path)
    write_all(other, samples.result("sample/one"))
    beside(other).replace(beside(path))
    refused_arrays(path, "of another run")


def test_arrays_cut_off_anywhere_are_refused(tmp_path):
    path = tmp_path / "sample.jsonl"
    write_full(path)
    whole = beside(path).read_bytes()
    for cut in (0, 1, 7, 8, 9, 100, len(whole) // 2, len(whole) - 1):
        beside(path).write_bytes(whole[:cut])
        refused_arrays(path, "not a whole safetensors file")


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.data())
def test_any_damage_to_the_arrays_is_refused_or_harmless(data):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sample.jsonl"
        write_full(path)
        before = read(path).results
        content = bytearray(beside(path).read_bytes())
        place = data.draw(st.integers(0, len(content) - 1))
        content[place] = data.draw(st.integers(0, 255))
        beside(path).write_bytes(content)
        try:
            after = read(path).results
        except ResultsError as error:
            told = bool(error.where and error.hint)
        else:
            told = all(same(a, b) for a, b in zip(after, before, strict=True))
        assert told


@pytest.mark.parametrize(
    "header",
    [
        b'{"a":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]}}',
        b'{"a":{"dtype":"F32","shape":[3],"data_offsets":[0,2]}}',
        b'{"a":{"dtype":"U8","shape":[%s],"data_offsets":[0,2]}}' % b",".join([b"1"] * 69 + [b"2"]),
        b'{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,99999999999]}}',
        b'{"a\\ud800":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}',
        b"[]",
        b'["' * 20_000,
    ],
)
def test_hostile_arrays_are_refused(tmp_path, header):
    path = tmp_path / "sample.jsonl"
    write_full(path)
    padded = header.ljust(-(-len(header) // 8) * 8)
    beside(path).write_bytes(len(padded).to_bytes(8, "little") + padded + b"ab")
    refused_arrays(path, "not a whole safetensors file|of another run")


@pytest.mark.parametrize(
    "other", [np.float32([[1, 2, 3], [4, 5, 7]]), np.ones((3, 2)), np.ones(2, int)]
)
def test_an_array_that_is_not_its_name_is_refused(tmp_path, other):
    path = tmp_path / "sample.jsonl"
    write_all(path, samples.result("sample/one"))
    held = dict(load_file(beside(path)))
    name = stored(samples.GRADIENT.astype(np.float32))[0]
    write_arrays(beside(path), held | {name: other})
    refused(
        path, 3, "not the one that was written: it has other elements, another shape or another"
    )


def test_a_variant_that_the_header_does_not_name_is_refused(tmp_path):
    path = damaged(tmp_path, SECOND, lambda v: v.update(variant="sample/three"))
    refused(path, SECOND, "variant 'sample/three' is not in the header")


def test_one_result_twice_is_refused(tmp_path):
    path = damaged(tmp_path, SECOND, lambda v: v.update(variant="sample/one"))
    with pytest.raises(ResultsError, match="stands there twice"):
        read(path)


def test_a_footer_that_counts_otherwise_is_refused(tmp_path):
    refused(
        damaged(tmp_path, FOOTER, lambda v: v.update(results=3)),
        FOOTER,
        "3 results, the file has 2",
    )
    path = damaged(tmp_path, FOOTER, lambda v: v["statuses"].update({"pass": 3, "fail": 0}))
    refused(path, FOOTER, "counts per status")


def test_lines_out_of_order_are_refused(tmp_path):
    path = tmp_path / "sample.jsonl"
    write_full(path)
    header, said, plain, one, *_, footer = path.read_text("utf-8").rstrip("\n").split("\n")
    for lines, number, match in (
        ([one, header, footer], 1, "first line is not a header"),
        ([header, header, footer], 2, "second header"),
        ([header, plain, one, said, footer], 3, "no expectation .* above"),
        ([header, said, one, plain, footer], 3, "no plain run .* above"),
        ([header, said, plain, one, footer, one], 6, "after the footer"),
        ([header, "{}", footer], 2, "type"),
        ([header, "not JSON", footer], 2, "JSON"),
    ):
        path.write_text("\n".join(lines) + "\n", "utf-8")
        refused(path, number, match)


def test_no_file_is_refused(tmp_path):
    with pytest.raises(ResultsError, match="No such file"):
        read(tmp_path / "none.jsonl")


def test_a_failed_write_leaves_what_was_there(tmp_path):
    path = tmp_path / "sample.jsonl"
    write_full(path)
    before = path.read_bytes(), beside(path).read_bytes()

    def break_off():
        yield samples.result("sample/two")
        raise KeyboardInterrupt

    file = samples.results("sample", [full()])
    with pytest.raises(KeyboardInterrupt):
        write(path, file.header, break_off(), file.footer)
    assert (path.read_bytes(), beside(path).read_bytes()) == before
    assert sorted(tmp_path.iterdir()) == [path, beside(path)]


@pytest.mark.parametrize("again", [True, False])
def test_where_one_file_cannot_get_its_name_neither_does(tmp_path, again):
    path = tmp_path / "sample.jsonl"
    if again:
        write_full(path)
        before = beside(path).read_bytes()
        path.unlink()
    path.mkdir()  # a folder in the way of the lines
    with pytest.raises(WriteError, match="directory"):
        write_all(path, samples.result("sample/two"))
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []
    if again:
        assert beside(path).read_bytes() == before
    else:
        assert not beside(path).exists()


def test_memory_does_not_grow_with_the_number_of_results(tmp_path):
    writer = ResultWriter(tmp_path / "all")
    path = tmp_path / "sample.jsonl"
    header = samples.results("sample", [full()]).header

    def results():
        for number in range(1500):
            run = samples.run({"x": np.full((2, 3), number)})
            verdict = msgspec.structs.replace(samples.PASS, message=f"{number}: {'m' * 8000}")
            yield samples.result("sample/one", run, case=f"c/{number}", verdicts=[verdict])

    def work():
        for number, result in enumerate(results()):
            writer.put(number, codec.encode(result))
        writer.close()
        files.write_merged(
            path, header, WrittenResults.of([tmp_path / "all"]), Footer(1500, {Status.PASS: 1500})
        )

    tracemalloc.start()
    work()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert path.stat().st_size > 10_000_000
    assert peak < 4_000_000


# -- schema ------------------------------------------------------------------------------------------


def test_schema_accepts_real_lines_and_nothing_else(tmp_path):
    Draft202012Validator.check_schema(schema())
    validator = Draft202012Validator(schema())
    path = tmp_path / "sample.jsonl"
    write_full(path)
    for line in path.read_text("utf-8").rstrip("\n").split("\n"):
        values = json.loads(line)
        validator.validate(values)
        for key in {"type", "case", "variant", "verdicts", "cases", "arrays", "results"} & set(
            values
        ):
            less = {k: v for k, v in values.items() if k != key}
            assert not validator.is_valid(less), f"{key} is missing in {values['type']}"
        assert not validator.is_valid({**values, "more": 1})


# -- hash --------------------------------------------------------------------------------------------


def test_hash_does_not_depend_on_place_and_order(tmp_path):
    first = samples.cases()
    elsewhere = samples.cases(tmp_path / "elsewhere.yaml")
    assert first[0].where != elsewhere[0].where
    assert cases_hash(first) == cases_hash(elsewhere[::-1])
    assert len(cases_hash(first)) == 64


@pytest.mark.parametrize(
    "change",
    [
        {"title": "Another"},
        {"seed": 7},
        {"outputs": Literal(1)},
        {"needs": frozenset({"random"})},
        {"printed_gradients": {"x": ((1.0,),)}},
        {"printed_gradients": {"x": ((1,),)}},
    ],
)
def test_hash_depends_on_every_value(change):
    first, *rest = samples.cases()
    assert cases_hash([replace(first, **change), *rest]) != cases_hash([first, *rest])


def test_hash_keeps_types_apart():
    first = samples.cases()[0]
    seen = {
        cases_hash([replace(first, outputs=Literal(value))]) for value in (1, 1.0, True, "1", None)
    }
    assert len(seen) == 5


def test_hash_refuses_what_it_does_not_know():
    with pytest.raises(TypeError, match="no canonical form"):
        cases_hash([replace(samples.cases()[0], printed_gradients={"x": object()})])


def test_footer_counts_verdicts():
    found = make_footer([full(), full()], {"judging": 1.5})
    assert (found.results, found.statuses) == (2, {Status.PASS: 2, Status.FAIL: 2})
    assert found.seconds == {"judging": 1.5}
