"""Which faults generated programs show, and how soon: `python -m tests.faulty.generated torch`.

Each implementation runs programs of one seed until the check that is meant to catch its fault fails on
it, and holds on the sound implementation. What is printed is the number of the program, or that none of
them shows the fault; then what else fails, and where first.
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import suppress
from functools import cache
from itertools import count
from pathlib import Path

import numpy as np

from conformance.drivers.adapter import Adapter
from conformance.errors import CaseError
from conformance.fuzz.programs import Generated, Vocabulary, loaded, written
from conformance.language.features import CAPABILITIES
from conformance.model.result import Result
from conformance.model.verdict import Level
from conformance.paths import find_paths
from conformance.run.runner import Runner
from tests.faulty.faults import CATCHES, SOUND, Fault, Pools, faults_of, faulty_adapter

#: How many programs there are for each fault, and how many are written together.
PROGRAMS, _TOGETHER = 500, 20
SEED = 0


class Search:
    """Looks for programs that show faults of one framework's implementations."""

    def __init__(self, framework: str, folder: Path, pools: Pools) -> None:
        self.framework, self.folder, self.pools = framework, folder, pools
        self._sound = _Judge(faulty_adapter(framework, SOUND), folder / SOUND, pools)
        lacked = set(self._sound.variant.model.lacks)
        self.vocabulary = Vocabulary(frozenset(CAPABILITIES) - lacked)
        self._on_sound = cache(lambda number: self._sound.caught(self._program(number)))
        self._program = cache(self._generated)

    def shown(self, fault: Fault) -> dict[str, int]:
        """The checks that fail because of a fault, until the one that is meant to catch it does, each
        with the number of the first program on which it fails."""
        name = fault.name
        judge = _Judge(faulty_adapter(self.framework, name), self.folder / name, self.pools)
        first_on: dict[str, int] = {}
        for first in range(0, PROGRAMS, _TOGETHER):
            numbers = range(first, first + _TOGETHER)
            judge.emit([self._program(number) for number in numbers])
            for number in numbers:
                caught = judge.caught(self._program(number))
                for check in sorted(caught - self._on_sound(number)) if caught else ():
                    first_on.setdefault(check, number)
                if fault.check in first_on:
                    return first_on
        return first_on

    def _generated(self, number: int) -> Generated:
        for attempt in count():
            with suppress(CaseError):
                raw = written(self.vocabulary, SEED, number, attempt)
                return loaded(raw, self.vocabulary.allowed)
        raise AssertionError("attempts do not end")


class _Judge:
    """Judges programs on an adapter's first variant."""

    def __init__(self, adapter: Adapter, folder: Path, pools: Pools) -> None:
        self.variant = adapter.variants[0]
        paths = find_paths(reports=folder / "reports")
        self.runner = Runner(adapter, paths, folder / "log.txt", pool=pools.of(adapter))
        self.runner.start([self.variant])

    def emit(self, programs: list[Generated]) -> None:
        """Write programs."""
        self.runner.emit([(program.case, self.variant) for program in programs])

    def caught(self, program: Generated) -> frozenset[str]:
        """The checks that must hold and do not."""
        with np.errstate(all="ignore"):
            result: Result = self.runner.run(program.case, self.variant)
        verdicts = (v for v in result.verdicts if v.level is Level.MUST)
        return frozenset(v.check for v in verdicts if v.status in CATCHES)


def main() -> None:
    """Print a line for each fault of the frameworks that are named."""
    with tempfile.TemporaryDirectory() as folder:
        pools = Pools(Path(folder) / "worker.txt")
        for framework in sys.argv[1:]:
            search = Search(framework, Path(folder) / framework, pools)
            for fault in faults_of(framework):
                shown = search.shown(fault)
                number = shown.pop(fault.check, None)
                others = ", ".join(f"{check} {first}" for check, first in shown.items())
                print(f"{fault.id}\t{fault.check}\t{number}\t{others}", flush=True)
        pools.close()


if __name__ == "__main__":
    main()
