"""Results files: what is written is read, and what is damaged is refused."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import replace
from pathlib import Path

import hypothesis.extra.numpy as arrays
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from conformance.case import Literal
from conformance.errors import MissingFooterError, ResultsError
from conformance.observation import (
    Allowed,
    Draw,
    ErrorSeen,
    Execution,
    Expected,
    ExpectedMemory,
    Leaf,
    Observation,
    Run,
)
from conformance.results import (
    KnownNote,
    Result,
    cases_hash,
    make_footer,
    read,
    result_from_dict,
    result_to_dict,
    schema,
    write,
)
from conformance.verdict import Level, Status, Verdict
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
        draws=(Draw("r", "d", "rerun", np.array([True, False])),),
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
    verdict = Verdict("gradient", Status.FAIL, Level.MUST, "m\u2028", "e", "o", "how")
    return Result(
        case="sample/block",
        variant="sample/one",
        verdicts=(verdict, samples.PASS),
        observation=Observation(run, Run(), {"value": "direct"}, {"executions": "no"}, 0.25),
        expected=expected,
        program="programs/sample/one/block.py",
        known=(KnownNote("gradient", "why", "https://example.org/1"),),
    )


def write_full(path: Path) -> None:
    listed = [full(), samples.result("sample/two")]
    file = samples.results("sample", listed)
    write(path, file.header, listed, file.footer)


def test_everything_comes_back(tmp_path):
    path = tmp_path / "reports" / "sample.jsonl"
    write_full(path)
    found = read(path)
    assert same(found.results[0], full())
    assert same(found.results[1], samples.result("sample/two"))
    written = samples.results("sample", found.results)
    assert found.header == written.header
    assert found.footer == written.footer
    assert found.footer.statuses == {Status.PASS: 2, Status.FAIL: 1}
    assert found.path == path


def test_one_result_comes_back():
    values = json.loads(json.dumps(result_to_dict(full()), allow_nan=False))
    assert same(result_from_dict(values), full())


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


@settings(max_examples=150, deadline=None)
@given(ARRAYS, TREES)
def test_any_array_and_tree_come_back(array, tree):
    given_run = Run(outputs=tree, gradients={"x": array}, state={"s": array.T})
    result = replace(full(), observation=Observation(given_run, given_run))
    back = result_from_dict(json.loads(json.dumps(result_to_dict(result), allow_nan=False)))
    assert back.observation is not None
    run = back.observation.recomputed
    native = array.astype(array.dtype.newbyteorder("="))
    assert same(run.gradients["x"], native)
    assert same(run.state["s"], np.array(native.T, order="C"))
    assert same(_native(run.outputs), _native(tree))


def _native(tree):
    if isinstance(tree, Leaf):
        return Leaf(tree.array.astype(tree.array.dtype.newbyteorder("=")), tree.dtype)
    if isinstance(tree, dict):
        return {k: _native(v) for k, v in tree.items()}
    if isinstance(tree, tuple | list):
        return type(tree)(_native(v) for v in tree)
    return tree


def test_arrays_are_read_only():
    back = result_from_dict(result_to_dict(full()))
    assert back.observation is not None
    with pytest.raises(ValueError, match="read-only"):
        back.observation.plain.parameters["w"][...] = 0


def test_objects_are_not_stored():
    run = Run(gradients={"x": np.array([object()])})
    with pytest.raises(ResultsError, match="dtype object cannot be stored"):
        result_to_dict(replace(full(), observation=Observation(run, run)))


def test_an_output_that_is_no_tree_is_not_stored():
    run = Run(outputs=object())  # type: ignore[arg-type]
    with pytest.raises(ResultsError, match="output of type object"):
        result_to_dict(replace(full(), observation=Observation(run, run)))


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
    path = damaged(tmp_path, 1, lambda v: v.update(format=1))
    refused(path, 1, "format 1, but this suite reads format 2")


def test_an_unknown_field_is_refused(tmp_path):
    refused(damaged(tmp_path, 2, lambda v: v.update(more=1)), 2, "more: Extra inputs")


def test_an_unknown_status_is_refused(tmp_path):
    path = damaged(tmp_path, 2, lambda v: v["verdicts"][0].update(status="good"))
    refused(path, 2, "verdicts.0.status")


def test_a_number_as_text_is_refused(tmp_path):
    path = damaged(tmp_path, 2, lambda v: v["observation"]["plain"].update(retained="8"))
    refused(path, 2, "retained")


@pytest.mark.parametrize(
    ("field", "value", "match"),
    [
        ("data", "AAAA", "has 3 bytes, not 8"),
        ("data", "!", "data"),
        ("shape", [2], "has 8 bytes, not 16"),
        ("shape", [-1], "shape"),
        ("shape", [0, 10**30], "bytes, not 0"),
        ("dtype", "object", "dtype"),
        ("dtype", "float128", "dtype"),
    ],
)
def test_an_array_that_does_not_add_up_is_refused(tmp_path, field, value, match):
    def change(values):
        values["observation"]["plain"]["parameters"]["w"][field] = value

    refused(damaged(tmp_path, 2, change), 2, match)


def test_an_impossible_empty_array_is_refused(tmp_path):
    def change(values):
        values["observation"]["plain"]["gradients"]["y"]["shape"] = [0, 10**30]

    refused(damaged(tmp_path, 2, change), 2, "cannot have shape")


def test_a_variant_that_the_header_does_not_name_is_refused(tmp_path):
    path = damaged(tmp_path, 3, lambda v: v.update(variant="sample/three"))
    refused(path, 3, "variant 'sample/three' is not in the header")


def test_one_result_twice_is_refused(tmp_path):
    path = damaged(tmp_path, 3, lambda v: v.update(variant="sample/one"))
    with pytest.raises(ResultsError, match="stands there twice"):
        read(path)


def test_a_footer_that_counts_otherwise_is_refused(tmp_path):
    refused(damaged(tmp_path, 4, lambda v: v.update(results=3)), 4, "3 results, the file has 2")
    path = damaged(tmp_path, 4, lambda v: v["statuses"].update({"pass": 3, "fail": 0}))
    refused(path, 4, "counts per status")


def test_lines_out_of_order_are_refused(tmp_path):
    path = tmp_path / "sample.jsonl"
    write_full(path)
    header, one, two, footer = path.read_text("utf-8").rstrip("\n").split("\n")
    for lines, number, match in (
        ([one, header, footer], 1, "first line is not a header"),
        ([header, header, footer], 2, "second header"),
        ([header, one, two, footer, one], 5, "after the footer"),
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
    before = path.read_bytes()

    def break_off():
        yield full()
        raise KeyboardInterrupt

    file = samples.results("sample", [full()])
    with pytest.raises(KeyboardInterrupt):
        write(path, file.header, break_off(), file.footer)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_something_else_is_not_a_result():
    with pytest.raises(ResultsError, match="not a result"):
        result_from_dict({"case": "sample/block"})


# -- schema ------------------------------------------------------------------------------------------


def test_schema_accepts_real_lines_and_nothing_else(tmp_path):
    Draft202012Validator.check_schema(schema())
    validator = Draft202012Validator(schema())
    path = tmp_path / "sample.jsonl"
    write_full(path)
    for line in path.read_text("utf-8").rstrip("\n").split("\n"):
        values = json.loads(line)
        validator.validate(values)
        for key in values:
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
