"""Faulty implementations are caught, by the check that is meant to catch them.

They run through the same runner, worker process and checks as the real ones. Those of a framework share
a process, and the sound one comes last: what a fault left behind would be caught there, too.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from conformance.language.operations import RANDOM
from conformance.model.case import Case
from conformance.model.result import Result
from conformance.model.verdict import Level, Status
from tests.faulty.faults import (
    CASES,
    CATCHES,
    SOUND,
    Fault,
    Pools,
    faults_of,
    faulty_adapter,
    frameworks,
)
from tests.faulty.faults import run as run_on

#: Cases in which nothing is to be recomputed, so that doing nothing is right. Each with its reason.
NOTHING_TO_RECOMPUTE = {
    "captures/all-frozen": "no gradient needs anything of the region",
    "procedures/inference": "there is no backward pass",
    "tangents/forward-mode": "there is no backward pass",
    "tangents/of-parameters": "there is no backward pass",
    "tangents/of-argument": "there is no backward pass",
    "nested/inference": "there is no backward pass",
    "errors/raised-in-region": "the forward pass raises",
    "errors/raised-in-nested-region": "the forward pass raises",
    "errors/raised-after-draw": "the forward pass raises",
    "in-place/saved": "backward raises, without recompute too",
    "in-place/after-in-list-read": "backward raises, without recompute too",
    "errors/not-a-block": "the forward pass raises",
    "ranks/after-an-error": "the forward pass raises",
    "errors/unknown-keyword": "the forward pass raises",
    "sequences/more-segments-than-layers": "the forward pass raises",
}
#: What a framework's own recompute is caught by, which the implementations call: no fault of theirs.
OWN = {"torch": {("nested/depth-4-operation-first", "retained memory")}}
#: Depths beyond this one show what smaller ones do, and take longer.
DEEPEST = 64
FAULTS = [fault for framework in frameworks() for fault in faults_of(framework)]
Run = Callable[[str, Callable[[Case], bool]], dict[str, Result]]

#: An argument of the region has the name of one of the function's own, and the call raises an error.
NAMED = {"arguments/named[word=function]"}


def _installed(framework: str) -> None:
    if framework != "reference" and importlib.util.find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed: run `tox run -e faulty`")


def _caught(
    framework: str, name: str, cases: Iterable[str], folder: Path, pools: Pools, variant: str
) -> dict[str, tuple[str, ...]]:
    """For each of these cases the checks that catch an implementation in it."""
    listed = [CASES[case] for case in cases]
    results = run_on(faulty_adapter(framework, name), listed, folder, pools, variant)
    verdicts = {case: result.verdicts for case, result in results.items()}
    assert not [v for of_case in verdicts.values() for v in of_case if v.status is Status.BROKEN]
    own = OWN.get(framework, set())
    return {
        case: tuple(
            dict.fromkeys(
                v.check
                for v in of_case
                if v.status in CATCHES and v.level is Level.MUST and (case, v.check) not in own
            )
        )
        for case, of_case in verdicts.items()
    }


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.id)
def test_a_fault_is_caught_by_the_check_that_is_meant_to(
    fault: Fault, found: dict[str, object], pools: Pools, tmp_path: Path
) -> None:
    _installed(fault.framework)
    caught = _caught(fault.framework, fault.name, [fault.case], tmp_path, pools, fault.variant)
    found[fault.id] = caught
    assert fault.check in caught[fault.case]


@pytest.mark.parametrize(
    ("framework", "variant"), sorted({(fault.framework, fault.variant) for fault in FAULTS})
)
def test_nothing_is_caught_where_there_is_no_fault(
    framework: str, variant: str, pools: Pools, tmp_path: Path
) -> None:
    _installed(framework)
    faults = [fault for fault in faults_of(framework) if fault.variant == variant]
    catching = {(fault.case, fault.check) for fault in faults}
    named = sorted({case for case, _ in catching})
    caught = _caught(framework, SOUND, named, tmp_path, pools, variant)
    assert [(case, check) for case, check in sorted(catching) if check in caught[case]] == []
    # A region inside another keeps a random state of its own, as PyTorch's does.
    assert [case for case, checks in caught.items() if checks] in (
        [],
        ["nested/dropout-three-deep"],
    )


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
        # an error that is not raised, or one that is
        expected = CASES[key].error is not None or key in NAMED
        expected = expected and found["error"] is Status.FAIL
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
        left_out = _deep(case) or stops or not case.seeded or case.error is not None
        return not left_out and any(
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
        # Where recompute does not lower the peak, what is kept does not raise it by much.
        assert statuses.pop("peak memory") in (Status.WARN, Status.REPORT, Status.PASS)
        assert Status.FAIL not in statuses.values()
