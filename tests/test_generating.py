"""Generated programs: that they are valid, cover the language, and are judged, grouped and written."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import yaml

from conformance.errors import CaseError
from conformance.exits import Exit
from conformance.fuzz.programs import Generated, Vocabulary, loaded, written
from conformance.fuzz.regions import OPTIONS
from conformance.language.features import CAPABILITIES, required_by
from conformance.language.load import load_folder
from conformance.language.operations import COLLECTIVES, OPERATIONS
from conformance.oracle.expected import computed
from tests import commands, mini

#: Features that generated programs do not have, each with its reason.
LEFT_OUT = {
    "notices-change": "it says what a case promises, and is not derived from a program",
    "sequential": "it says how a framework divides layers, and is not derived from a program",
    "ranks": (ranks := "processes take seconds, and generated programs run by the thousand"),
    "data-parallel": ranks,
    "sharded-parallel": ranks,
    "tensor-parallel": ranks,
    **dict.fromkeys(COLLECTIVES, ranks),
    "step-rows": "all inputs would need rows of their own",
    "step-fail": "a flag that makes a step fail ends programs that train",
}
#: Features of a share of the programs that train.
RARE = {"captured-setting", *(word for word in CAPABILITIES if word.startswith("step-"))}
NUMBER = 2000
ALL = Vocabulary(frozenset(CAPABILITIES))


@pytest.fixture(scope="module")
def programs() -> list[Generated]:
    """The valid ones among programs of one seed that may have all features."""
    found: list[Generated] = []
    for number in range(NUMBER):
        try:
            found.append(loaded(written(ALL, 2, number), ALL.allowed))
        except CaseError:
            continue
    return found


def test_nearly_all_are_valid(programs):
    assert len(programs) >= 0.95 * NUMBER
    assert len({program.name for program in programs}) >= 0.95 * NUMBER


def test_each_word_of_the_language_appears(programs):
    appear: Counter[str] = Counter()
    for program in programs:
        operations = {statement.op for _, statement in program.case.statements()}
        appear.update(operations | required_by(program.case))
        appear[f"procedure {program.case.procedure.kind}"] += 1
    wanted = {*OPERATIONS, *CAPABILITIES} - set(LEFT_OUT)
    least = {word: (0.002 if word in RARE else 0.01) * NUMBER for word in wanted}
    rare = {word: appear[word] for word in wanted if appear[word] < least[word]}
    assert rare == {}
    assert not any(appear[word] for word in LEFT_OUT)


def test_some_gradients_are_infinite_or_undefined(programs):
    cases = (program.case for program in programs if program.case.error is None)
    from_zero = (case for case in cases if any(a.fill.kind == "arange" for a in case.arrays))
    gradients = [(computed(case).gradients or {}).values() for case in from_zero]
    infinite = [
        any(g is not None and not np.isfinite(g).all() for g in found) for found in gradients
    ]
    assert sum(infinite) >= 0.005 * NUMBER


def test_some_arguments_are_named_as_options(programs):
    named = [key for p in programs for r in p.case.regions() for key in r.kwargs if key[0] != "k"]
    assert len(named) >= 0.01 * NUMBER
    assert set(named) == set(OPTIONS)


def test_a_seed_gives_the_same_programs():
    first = [written(ALL, 7, number) for number in range(20)]
    assert first == [written(ALL, 7, number) for number in range(20)]
    assert first != [written(ALL, 8, number) for number in range(20)]


def test_programs_have_the_features_that_they_may_have_and_no_others():
    few = Vocabulary(frozenset({"function", "several-operations", "single-call"}))
    for number in range(60):
        try:
            program = loaded(written(few, 3, number), few.allowed)
        except CaseError:
            continue
        assert required_by(program.case) <= few.allowed


def small(program: list[str], **words: object) -> dict[str, object]:
    told = {"title": "Generated program", "source": "generated programs", "why": "A reason."}
    inputs = {"x": {"shape": [3, 4], "normal": 0.5}, "on": {"value": False}}
    parameters = {"w": {"shape": [3, 4], "normal": 0.5}}
    return told | {"inputs": inputs, "parameters": parameters, "program": program, **words}


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (
            small(
                [{"recompute": "r(x)", "body": "y = raise_if(x, on)"}], error={"type": "ValueError"}
            ),
            "nothing in it raises",
        ),
        (
            small(
                [{"recompute": "r(x)", "body": "t = slope_of_sin(x)"}, "y = multiply(t, w)"],
                procedure="functional",
                gradients={"wrt": ["w"]},
            ),
            "requires none",
        ),
        (
            small(
                [
                    "d = dropout(square)",
                    {"recompute": "r(d)", "body": "h = sin(d); t = solve(h, square)"},
                    "y = sum(t)",
                ],
                inputs={"square": {"shape": [3, 3], "normal": 0.5}},
            ),
            "may have no inverse",
        ),
    ],
)
def test_what_is_no_program_is_left_out(raw, reason):
    with pytest.raises(CaseError, match=reason):
        loaded({"outputs": "y", **raw}, ALL.allowed)


def fuzz(tmp_path: Path, *words: str):
    folder = tmp_path / "cases"
    folder.mkdir(exist_ok=True)
    (folder / "mini.yaml").write_text(next(mini.CASES.glob("*.yaml")).read_text())
    adapters = ("--adapters-folder", str(mini.ADAPTERS))
    return commands.conformance(
        tmp_path, "fuzz", "--adapter", "mini", "--cases", str(folder), *adapters, *words
    )


def test_what_is_unexpected_is_written_as_a_case_with_its_program(tmp_path):
    done = fuzz(tmp_path, "--variant", "wrong", "--examples", "8", "--seed", "2")
    assert "mini/wrong" in done.stdout, done.stderr
    written_to = sorted((tmp_path / "cases" / "found").glob("*.yaml"))
    assert done.returncode == (Exit.UNEXPECTED if written_to else Exit.OK)
    for file in written_to:
        assert file.with_suffix(".py").is_file()
        (case,) = yaml.safe_load(file.read_text())["cases"].values()
        assert case["source"] == "conformance fuzz"
    if written_to:
        assert "found" in {case.family for case in load_folder(tmp_path / "cases")}


def test_a_found_case_that_loads_no_longer_is_named_and_left_alone(tmp_path):
    cases = tmp_path / "cases"
    (cases / "found").mkdir(parents=True)
    old = cases / "found" / "old.yaml"
    old.write_text("family: found\ncases: {old: {title: x, gone: y}}\n")
    (cases / "mini.yaml").write_text(next(mini.CASES.glob("*.yaml")).read_text())
    before = old.read_text()
    adapters = ("--adapters-folder", str(mini.ADAPTERS))
    words = ("run", "--adapter", "mini", "--variant", "right", "--cases", str(cases))
    done = commands.conformance(tmp_path, *words, *adapters)
    assert done.returncode == Exit.OK, done.stderr
    assert "old.yaml" in done.stdout + done.stderr
    assert old.read_text() == before
