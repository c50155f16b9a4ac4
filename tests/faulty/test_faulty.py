"""Faulty implementations are caught, by the check that is meant to catch them.

They run through the same runner, worker process and checks as the real ones. Those of a framework share
a process, and the sound one comes last: what a fault left behind would be caught there, too.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Collection
from pathlib import Path

import pytest
from conformance.results import Result
from conformance.run.smoke_cover import read_caught

from conformance.language.operations import RANDOM
from conformance.model.case import Case
from conformance.model.verdict import Status
from tests.faulty.faults import (
    CASES,
    SOUND,
    Fault,
    Pools,
    faults_of,
    faulty_adapter,
    frameworks,
)
from tests.faulty.faults import run as run_on
from tests.faulty.record import UPDATE, Caught, adapter_of, alone, smoke_cases
from tests.faulty.table import Found, caught

#: Cases in which nothing is to be recomputed, so that doing nothing is right. Each with its reason.
NOTHING_TO_RECOMPUTE = {
    "captures/all-frozen": "no gradient needs anything of the region",
    "procedures/inference": "there is no backward pass",
    "nested/inference": "there is no backward pass",
    "errors/raised-in-region": "the forward pass raises",
    "errors/raised-in-nested-region": "the forward pass raises",
    "in-place/saved": "backward raises, without recompute too",
    "errors/not-a-block": "the forward pass raises",
    "errors/unknown-keyword": "the forward pass raises",
    "sequences/more-segments-than-layers": "the forward pass raises",
}
#: What a framework's own recompute is caught by, which the implementations call: no fault of theirs.
OWN = {"torch": {("nested/depth-4-operation-first", "retained memory")}}
#: Depths beyond this one show what smaller ones do, and take longer.
DEEPEST = 64
FAULTS = [fault for framework in frameworks() for fault in faults_of(framework)]
Run = Callable[[str, Callable[[Case], bool]], dict[str, Result]]


def _installed(framework: str) -> None:
    if framework != "reference" and importlib.util.find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed: run `tox run -e faulty`")


def _seen(
    framework: str,
    name: str,
    fault: Fault | None,
    folder: Path,
    pools: Pools,
    *,
    among: Collection[str] = (),
    backwards: bool = False,
) -> Found:
    """What cases find of one implementation: `among`, or else all that a framework's faults name. Those
    of the smoke selection come first, so that they find what they find in a smoke run."""
    named = set(among) or {fault.case for fault in faults_of(framework)}
    first = smoke_cases(framework)
    order = sorted(named, key=lambda case: (case not in first, case), reverse=backwards)
    results = run_on(faulty_adapter(framework, name), [CASES[n] for n in order], folder, pools)
    assert not [v for r in results.values() for v in r.verdicts if v.status is Status.BROKEN]
    own = OWN.get(framework, set())
    seen = {
        case: tuple(check for check in caught(result) if (case, check) not in own)
        for case, result in results.items()
    }
    return Found(framework, fault, seen)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.id)
def test_a_fault_is_caught_by_the_check_that_is_meant_to(
    fault: Fault,
    found: dict[str, Found],
    recorded: dict[str, Caught],
    pools: Pools,
    tmp_path: Path,
    pytestconfig: pytest.Config,
) -> None:
    _installed(fault.framework)
    update = pytestconfig.getoption("--update-caught")
    on_record = read_caught(adapter_of(fault.framework)).get(fault.name, {})
    # Those that have caught it are enough, where none is to be put on record.
    among = () if update else {fault.case, *on_record}
    found[fault.id] = _seen(fault.framework, fault.name, fault, tmp_path, pools, among=among)
    assert found[fault.id].as_meant, found[fault.id].caught
    if update:
        folder = tmp_path / "again"
        again = _seen(fault.framework, fault.name, fault, folder, pools, backwards=True)
        recorded[fault.id] = alone(found[fault.id], again)
        return
    # What a smoke selection is chosen from is seen again, and so is that it catches the fault.
    caught = found[fault.id].caught
    gone = [case for case in on_record if not set(on_record[case]) <= set(caught.get(case, ()))]
    assert on_record, f"{fault.id} is not on record: {UPDATE}"
    assert not gone, f"no longer caught as on record: {UPDATE}"
    smoke = smoke_cases(fault.framework)
    assert any(caught.get(case) for case in smoke), "the smoke selection does not catch it"


@pytest.mark.parametrize("framework", frameworks())
def test_nothing_is_caught_where_there_is_no_fault(
    framework: str, found: dict[str, Found], pools: Pools, tmp_path: Path
) -> None:
    _installed(framework)
    found[f"{framework}/{SOUND}"] = _seen(framework, SOUND, None, tmp_path, pools)
    assert not found[f"{framework}/{SOUND}"].by_check


@pytest.fixture(params=["reference", "torch"])
def run(request: pytest.FixtureRequest, pools: Pools, tmp_path: Path) -> Run:
    """Runs cases on a framework with a fault; keyed by case."""
    framework = str(request.param)
    _installed(framework)

    def run(fault: str, wanted: Callable[[Case], bool]) -> dict[str, Result]:
        cases = [case for case in CASES.values() if wanted(case)]
        return run_on(faulty_adapter(framework, fault), cases, tmp_path, pools)

    return run


def _deep(case: Case) -> bool:
    return case.law is not None and case.law.at > DEEPEST


def _is_left_open(case: Case) -> bool:
    """Whether the case only records what implementations do: it fails nobody."""
    return bool(case.differs)


def _statuses(result: Result) -> dict[str, Status]:
    return {verdict.check: verdict.status for verdict in result.verdicts}


def test_inert_fails_every_case_on_executions_or_memory(run: Run) -> None:
    def wanted(case: Case) -> bool:
        exempt = case.id in NOTHING_TO_RECOMPUTE or _is_left_open(case)
        return not exempt and not _deep(case) and case.id != "regions/many"

    results = run("inert", wanted)
    judged = 0
    passed = []
    for key, result in results.items():
        found = _statuses(result)
        if found.get("error") is Status.UNSUPPORTED:
            continue
        judged += 1
        caught = Status.FAIL in (found.get("executions"), found.get("retained memory"))
        # an error that is not raised
        expected = CASES[key].error is not None and found["error"] is Status.FAIL
        if not (caught or expected):
            passed.append((key, found))
    assert judged >= 30
    assert not passed


def test_inert_passes_where_nothing_is_to_be_recomputed(run: Run) -> None:
    """Keeps the list of exceptions honest: a case on it that catches the fault comes off it."""
    results = run("inert", lambda case: case.id in NOTHING_TO_RECOMPUTE)
    assert set(results) == set(NOTHING_TO_RECOMPUTE)
    for key, result in results.items():
        assert Status.FAIL not in _statuses(result).values() or "not-a-block" in key


def test_fresh_random_numbers_fail_every_case_that_asks_for_preservation(run: Run) -> None:
    def asks(case: Case) -> bool:
        preserving = {region.name: region for region in case.regions() if region.preserve_rng}
        # Early stop ends that rerun before it draws: what it then reads is nobody's draw.
        stops = case.id == "randomness/rrelu-last"
        return not (_deep(case) or stops or not case.seeded) and any(
            s.op in RANDOM and s.options.get("seed") is None and not preserving[region].saves(s)
            for region, s in case.statements()
            if region in preserving  # and what a policy keeps is not drawn again
        )

    results = run("fresh_random", asks)
    judged = 0
    for key, result in results.items():
        found = _statuses(result)
        if found.get("error") is Status.UNSUPPORTED:
            continue
        judged += 1
        assert found["randomness"] is Status.FAIL, key
        assert found["gradient"] is Status.FAIL, key
    assert judged >= 5


def test_one_tensor_left_behind_per_call_fails_every_case_about_release(run: Run) -> None:
    # Where outputs are kept, the reference's plain program grows by its residuals, which one tensor
    # a call stays below: its tape frees no graph in backward, as PyTorch does.
    results = run("leaky", lambda case: case.release > 0 and not case.keeps)
    statuses = {key: _statuses(result) for key, result in results.items()}
    found = {
        key: checks["release"]
        for key, checks in statuses.items()
        if checks["error"] is not Status.UNSUPPORTED
    }
    assert len(found) >= 5
    assert found == dict.fromkeys(found, Status.FAIL)


def test_activations_that_are_kept_fail_on_memory_alone(
    run: Run, request: pytest.FixtureRequest
) -> None:
    """What ran is right, and so are the gradients: only bytes tell."""
    if request.node.callspec.params["run"] == "reference":
        pytest.skip("its memory is what the graph keeps, which an implementation cannot add to")
    results = run("keeping", lambda case: case.family == "memory")
    assert set(results) == {case.id for case in CASES.values() if case.family == "memory"}
    for statuses in map(_statuses, results.values()):
        assert statuses["error"] is not Status.UNSUPPORTED
        assert statuses.pop("retained memory") is Status.FAIL
        assert statuses.pop("peak memory") in (Status.WARN, Status.REPORT)
        assert Status.FAIL not in statuses.values()
