"""Faulty implementations of recompute: one small function in one file, with one fault.

The first line of a file's docstring says what its fault is, and `CAUGHT_BY` says which check of which
case must catch it, and on which variant, if it is not the first. All faults of a framework run through
the same adapter as any other implementation, see `implementation.yaml` in their folder; `sound.py` is
the control.

Some deviations of every eager framework are not faults here: a recomputation that reads updated
parameters, a flag that has been switched, or a list that forward has changed. They are known deviations
in `procedures/updated-between`, `procedures/switched-between` and `effects/counted-argument`. A
framework has no file for a fault that it cannot have: JAX has no `None` for a gradient, and torch has
one generator that a checkpoint restores.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from conformance.drivers.adapter import Adapter, read_adapter
from conformance.drivers.implementation import adapt, describe
from conformance.model.case import Case
from conformance.model.result import Result
from conformance.model.verdict import Status
from conformance.observe.pool import Pool
from conformance.paths import find_paths
from conformance.run.runner import Runner
from tests.suite_cases import BY_ID

ROOT = Path(__file__).parents[2]
FOLDER = Path(__file__).parent / "implementations"
SOUND = "sound"
#: The statuses with which a check catches a fault: those of a MUST that does not hold. Parts of it may
#: be a SHOULD.
CATCHES = (Status.FAIL, Status.WARN, Status.CRASHED, Status.TIMEOUT)
CASES: Mapping[str, Case] = BY_ID


@dataclass(frozen=True)
class Fault:
    """A fault in one framework; `check` of `case` must catch it, on `variant` of those that an
    implementation has, or on the first."""

    framework: str
    name: str
    title: str
    check: str
    case: str
    variant: str = ""

    @property
    def id(self) -> str:
        return f"{self.framework}/{self.name}"


def faults_of(framework: str) -> tuple[Fault, ...]:
    """The faults of a framework, by name."""
    files = sorted((FOLDER / framework).glob("*.py"))
    return tuple(_fault(file) for file in files if file.stem != SOUND)


def frameworks() -> tuple[str, ...]:
    """The frameworks that there are faults for."""
    return tuple(sorted(file.parent.name for file in FOLDER.glob("*/implementation.yaml")))


def _fault(file: Path) -> Fault:
    tree = ast.parse(file.read_text("utf-8"))
    title = (ast.get_docstring(tree) or "").partition("\n")[0]
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "CAUGHT_BY":
            caught_by = ast.literal_eval(node.value)
            assert title, f"{file}: a docstring says what the fault is"
            return Fault(file.parent.name, file.stem, title, *caught_by)
    raise AssertionError(f"{file}: CAUGHT_BY = (check, case) is missing")


def adapter_of(framework: str) -> Adapter:
    """The adapter that a framework's faulty implementations run in."""
    return read_adapter(ROOT / "adapters" / framework)


def faulty_adapter(framework: str, name: str) -> Adapter:
    """The adapter of a framework with one of the functions in place of its recompute."""
    described = describe(str(FOLDER / framework / "implementation.yaml"))
    model = described.model.model_copy(
        update={
            "function": f"{name}:checkpoint",
            "name": f"{framework}-{name.replace('_', '-')}",
        }
    )
    return adapt(adapter_of(framework), replace(described, model=model))


class Pools:
    """The worker processes of each framework, which its implementations share: most of what a run of
    one takes is the framework's import. Close it."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._pools: dict[Path, Pool] = {}

    def of(self, adapter: Adapter) -> Pool:
        """The pool that an adapter's programs run in."""
        if adapter.folder not in self._pools:
            self._pools[adapter.folder] = Pool(adapter, self._log)
        return self._pools[adapter.folder]

    def close(self) -> None:
        """Stop all of them."""
        for pool in self._pools.values():
            pool.close()


def run(
    adapter: Adapter, cases: Iterable[Case], folder: Path, pools: Pools, variant: str = ""
) -> dict[str, Result]:
    """The results of cases, by case, on a variant of an adapter, or on its first."""
    chosen = next(v for v in adapter.variants if variant in ("", v.name))
    paths = find_paths(reports=folder / "reports")
    runner = Runner(adapter, paths, folder / "log.txt", pool=pools.of(adapter))
    listed = list(cases)
    runner.start([chosen])
    runner.emit([(case, chosen) for case in listed])
    return {case.id: runner.run(case, chosen) for case in listed}
