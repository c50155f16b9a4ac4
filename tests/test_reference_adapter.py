"""The reference as an adapter: what its programs do is what it says should be seen."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conformance.drivers.adapter import read_adapter
from conformance.emit.programs import write_programs
from conformance.judge.ranks import samples_of
from conformance.language.features import required_by
from conformance.language.load import load_text
from conformance.language.operations import OF_CALLABLES
from conformance.model.case import Case
from conformance.model.observation import Observation, RandomSample
from conformance.model.program import Program
from conformance.observe.worker.loaded import load_program
from conformance.observe.worker.trace import Trace
from conformance.oracle.expected import check_printed, expect
from tests import suite_cases
from tests.equal_runs import differences

ROOT = Path(__file__).parent.parent
ADAPTER = read_adapter(ROOT / "adapters" / "reference")
VARIANT = ADAPTER.variant("float64")
#: The deepest show what the others do, and take longer.
CASES = {
    case.id: case
    for case in suite_cases.CASES
    if not required_by(case) & set(VARIANT.model.lacks) and (case.law is None or case.law.at <= 128)
    # The reference does not write modules that are made once.
    if case.procedure.made != "once" or all(r.granularity != "module" for r in case.regions())
}


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Program]:
    folder = tmp_path_factory.mktemp("reports")
    written = write_programs(ADAPTER, [(case, VARIANT) for case in CASES.values()], folder)
    for program in written.values():
        assert isinstance(program, Program), program
    return {program.case: program for program in written.values() if isinstance(program, Program)}


@pytest.fixture(scope="session")
def observer() -> Any:
    return ADAPTER.load("observe").Observer("float64")


def _observed(programs: dict[str, Program], observer: Any, name: str) -> Observation:
    found: Observation = observer.observe(programs[name])
    return found


def _same(found: Any, expected: Any, what: str) -> None:
    assert set(found) == set(expected), what
    for name, array in expected.items():
        assert (found[name] is None) == (array is None), f"{what} of {name}"
        if array is not None:
            np.testing.assert_allclose(found[name], array, rtol=1e-10, atol=1e-13, err_msg=name)


#: Where the rerun does something else by design, no one thing is expected of it.
STEADY = [n for n, c in CASES.items() if c.error is None and not c.differs]
#: Operations whose sine a program writes itself.
WRITTEN = {"noted_sin", "unsteady_sin", "raise_in_rerun"}
#: Cases in which a gradient is too small for a tolerance to tell it from zero.
FAINT = {
    *(
        n for n in CASES if n.startswith("growth/")
    ),  # deep chains, in which counts and memory matter
    *("regions/many", "models/mixture-of-experts", "ranks/tensor-parallel-attention"),
}


def _faint(gradients: dict[str, Any]) -> bool:
    largest = [np.abs(g).max(initial=0.0) for g in gradients.values() if g is not None]
    return any(0 < size < 1e-5 for size in largest)


@pytest.mark.parametrize("name", STEADY)
def test_programs_do_what_is_expected(
    name: str, programs: dict[str, Program], observer: Any
) -> None:
    case, seen = CASES[name], _observed(programs, observer, name)
    # Without a seed the run that is watched draws other numbers than the one whose values are read.
    samples = samples_of(seen) if case.seeded else None
    expected = expect(case, "whole", samples=samples)
    for path, run in (("plain", seen.plain), ("recomputed", seen.recomputed)):
        assert run.error is None
        if expected.losses is not None:
            np.testing.assert_allclose(run.losses, expected.losses, rtol=1e-10)
        if expected.gradients is not None:
            assert not _faint(expected.gradients) or name in FAINT
            _same(run.gradients, expected.gradients, f"{path} gradient")
            _same(run.again, expected.again, f"{path} second gradient")
            _same(run.parameters, expected.parameters, f"{path} parameter")
    counts = Counter(
        {(e.region, e.statement, e.phase): e.count for e in seen.recomputed.executions or ()}
    )
    wrong = {k: (counts[k], str(a)) for k, a in expected.executions.items() if counts[k] not in a}
    assert not wrong
    assert set(counts) <= set(expected.executions)
    if expected.memory is not None:
        memory = expected.memory
        plain, recomputed = seen.plain.retained, seen.recomputed.retained
        assert plain is not None
        assert recomputed is not None
        assert memory.plain[0] <= plain <= memory.plain[1]
        assert memory.recomputed[0] <= recomputed <= memory.recomputed[1]
        assert memory.drop == 0 or plain - recomputed >= memory.drop


@pytest.mark.parametrize("name", [n for n, c in CASES.items() if c.error is not None])
def test_programs_raise_what_is_expected(
    name: str, programs: dict[str, Program], observer: Any
) -> None:
    seen, expected = _observed(programs, observer, name), expect(CASES[name], "whole")
    assert seen.recomputed.error is not None
    assert expected.error in (seen.recomputed.error.type, *seen.recomputed.error.bases)
    if CASES[name].error.then:  # type: ignore[union-attr]
        assert seen.recomputed.good_run_after_error


@pytest.mark.parametrize("name", [n for n, c in CASES.items() if c.printed_gradients])
def test_printed_gradients(name: str) -> None:
    assert check_printed(CASES[name], expect(CASES[name], "whole")) == []


def test_printed_numbers_are_compared() -> None:
    case = CASES["basics/conv-relu-gradient"]
    expected = expect(case, "whole")
    assert case.printed_gradients
    object.__setattr__(expected, "gradients", {"x": expected.gradients["x"] + 1e-4})
    (message,) = check_printed(case, expected)
    assert message.startswith("gradient of x is")
    printed = next(c for c in CASES.values() if c.printed_executions)
    found = expect(printed, "whole")
    assert check_printed(printed, found) == []
    object.__setattr__(found, "executions", {})
    assert check_printed(printed, found)


# Programs write `doubled_sin` with three operations of the tape.
@pytest.mark.parametrize("name", [n for n in STEADY if not CASES[n].uses({"doubled_sin"})])
def test_tape_counts_what_the_line_trace_counts(
    name: str, programs: dict[str, Program], observer: Any
) -> None:
    program = programs[name]
    module = load_program(program)
    log = module.tape.executions()
    before = len(log)
    trace = Trace(program)
    with trace.active():
        module.run(module.recomputed)
    own = Counter((region, op, phase) for region, op, phase in log[before:] if region)
    lines: Counter[tuple[str, str, str]] = Counter()
    for (site, phase), count in trace.completed.items():
        if site.region and site.op not in OF_CALLABLES:
            op = "sin" if site.op in WRITTEN else site.op
            lines[site.region.replace("-", "_"), op, phase] += count
    for (site, phase), count in trace.entered.items():
        lines[site.region.replace("-", "_"), "", phase] += count
    assert own == lines


@pytest.mark.parametrize("name", [n for n, c in CASES.items() if c.seeded])
def test_one_run_tells_what_separate_runs_tell(
    name: str, programs: dict[str, Program], observer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values, executions and bytes are read from one run: neither following the lines nor the walk over
    the graph changes anything."""
    at_once = observer.observe(programs[name])
    monkeypatch.setattr(observer, "at_once", False)
    monkeypatch.setattr(observer, "counts_and_reads", lambda *_: False)
    apart = observer.observe(programs[name])
    assert differences(at_once.plain, apart.plain) == []
    assert differences(at_once.recomputed, apart.recomputed) == []


def test_program_runs_alone(programs: dict[str, Program]) -> None:
    program = programs["basics/conv-relu-gradient"]
    done = subprocess.run(
        [sys.executable, "-I", "-c", _ALONE, program.file],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "recomputed" in done.stdout
    assert "[2., 4.]" in done.stdout


#: What `python FILE` does, where the suite cannot be imported.
_ALONE = """
import runpy, sys
from pathlib import Path
sys.path.insert(0, str(Path(sys.argv[1]).parent))
sys.modules["conformance"] = None
runpy.run_path(sys.argv[1], run_name="__main__")
"""


def test_programs_are_formatted(programs: dict[str, Program]) -> None:
    files = [program.file for program in programs.values()]
    ruff = [sys.executable, "-m", "ruff"]
    for command in (["check"], ["format", "--check"]):
        done = subprocess.run(
            [*ruff, *command, "--isolated", "--no-cache", *files],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stdout


# -- the engine ------------------------------------------------------------------------------------


@pytest.fixture
def tape(observer: Any) -> Any:
    return sys.modules["tape"]


def test_a_region_lets_go_of_what_it_computes(tape: Any) -> None:
    inside: list[weakref.ref[Any]] = []

    def block(x: Any) -> Any:
        s = tape.sin(x)
        inside.append(weakref.ref(s.data))
        return tape.sin(s)

    x = tape.tensor(np.ones(5), gradient=True)
    for call, alive in ((block, True), (tape.recompute(block), False)):
        inside.clear()
        loss = tape.sum(call(x))
        gc.collect()
        assert (inside[0]() is not None) == alive
        assert tape.gradient(loss, [x])[0] is not None


def test_a_merged_region_lets_go_of_its_result(tape: Any) -> None:
    for merge, kept in ((False, True), (True, False)):
        first = tape.recompute(lambda x: tape.sin(x), merge_adjacent=merge)
        second = tape.recompute(lambda a: tape.sin(a))
        x = tape.tensor(np.ones(5), gradient=True)
        a = first(x)
        between = weakref.ref(a.data)
        loss = tape.sum(second(a))
        del a
        gc.collect()
        assert (between() is not None) == kept
        start = len(tape.executions())
        (g,) = tape.gradient(loss, [x])
        assert [op for _, op, _ in tape.executions()[start:]] == ["", "sin", "", "sin"]
        np.testing.assert_allclose(g.data, np.cos(np.sin(1.0)) * np.cos(1.0) * np.ones(5))


def test_rerun_draws_what_forward_drew_unless_told_otherwise(tape: Any) -> None:
    for preserve in (True, False):
        samples: list[Any] = []

        def block(x: Any, samples: list[Any] = samples) -> Any:
            d = tape.dropout(x)
            samples.append(d.data)
            return tape.sin(d)

        tape.seed(4)
        x = tape.tensor(np.ones(64), gradient=True)
        loss = tape.sum(tape.recompute(block, preserve_rng=preserve)(x))
        before = tape.random_state()
        tape.gradient(loss, [x])
        assert np.array_equal(*samples) == preserve
        assert (tape.random_state()[0] == before[0]) == preserve


def test_a_captured_tensor_that_is_also_taken_gets_both_gradients(tape: Any) -> None:
    x = tape.tensor(np.array([2.0]), gradient=True)
    block = tape.recompute(lambda y: tape.multiply(y, x))
    (g,) = tape.gradient(tape.sum(block(x)), [x])
    assert g.data.tolist() == [4.0]


def test_a_region_that_gives_its_argument_or_a_captured_tensor_back(tape: Any) -> None:
    w = tape.tensor(np.array([3.0]), gradient=True)
    x = tape.tensor(np.array([2.0]), gradient=True)
    same, outer = tape.recompute(lambda y: (y, w))(x)
    assert [g.data.tolist() for g in tape.gradient(tape.sum(same), [x])] == [[1.0]]
    assert [g.data.tolist() for g in tape.gradient(tape.sum(outer), [w])] == [[1.0]]


def test_a_region_that_gives_other_tensors_in_its_rerun_is_an_error(tape: Any) -> None:
    runs: list[int] = []

    def block(x: Any) -> Any:
        runs.append(1)
        return (tape.sin(x),) if len(runs) == 1 else (tape.sin(x), tape.cos(x))

    x = tape.tensor(np.ones(2), gradient=True)
    (y,) = tape.recompute(block)(x)
    with pytest.raises(RuntimeError, match="gave other tensors"):
        tape.gradient(tape.sum(y), [x])


# -- random numbers given --------------------------------------------------------------------------

DROPOUT = """
family: draws
cases:
  one:
    title: Dropout in a region
    source: the tests
    why: The reference takes the mask that a framework drew.
    inputs:
      x: {values: [1.0, 2.0, 4.0, 8.0]}
    program:
      - recompute: r
        takes: x
        gives: d
        preserve_rng: PRESERVE
        body:
          - d = dropout(x, p=0.75)
      - z = multiply(d, d)
    outputs: z
    gradients: {of: sum(z)}
"""


def _dropout(preserve: bool = True) -> Case:
    return load_text(DROPOUT.replace("PRESERVE", str(preserve).lower()), "test.yaml")[0]


def _drawn(*numbers: float, phase: Any = "forward") -> RandomSample:
    return RandomSample("r", "d", phase, np.array(numbers, np.float32))


def test_draws_give_the_mask() -> None:
    samples = [_drawn(4, 0, 0, 32), _drawn(0, 0, 0, 32, phase="rerun")]
    expected = expect(_dropout(), "whole", samples=samples)
    assert expected.losses == (16 + 32 * 32,)
    assert expected.gradients["x"].tolist() == [2 * 4 * 4, 0, 0, 2 * 32 * 4]


def test_without_draws_values_are_unknown_and_counts_are_not() -> None:
    expected = expect(_dropout(), "whole")
    assert expected.outputs is None
    assert expected.losses is None
    assert expected.gradients is None
    assert expected.executions["r", "d", "rerun"].counts == (1,)


def test_gradients_are_unknown_where_the_rerun_draws_anew() -> None:
    expected = expect(_dropout(False), "whole", samples=[_drawn(4, 0, 0, 32)])
    assert expected.losses == (16 + 32 * 32,)
    assert expected.gradients is None


def test_draws_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="no draw is left for statement 'd' of region 'r'"):
        expect(_dropout(), "whole", samples=[])
    with pytest.raises(ValueError, match=r"has shape \(1,\), should be \(4,\)"):
        expect(_dropout(), "whole", samples=[_drawn(1)])
