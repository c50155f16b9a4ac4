"""A run on a cluster whose workers are in several environments, one of them killed in the middle:

    python -m tests.cluster_of_environments autograd=envs/autograd/bin/python mlx=envs/mlx/bin/python

Each framework has two workers in its environment, which needs `recompute-conformance[cluster]`. One of
the first framework's is killed by SIGKILL when a third of its pairs are stored. The process that submits
needs no framework. The verdicts have to be those of a run in the environment alone. Further words go to
`conformance run`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from conformance import store
from conformance.drivers.adapter import find_adapter
from conformance.model.result import Results
from conformance.model.verdict import Verdict
from tests.test_cluster import ROOT, Dask, read


def main() -> int:
    pythons = dict(word.split("=", 1) for word in sys.argv[1:] if "=" in word)
    more = [word for word in sys.argv[1:] if "=" not in word]
    with tempfile.TemporaryDirectory(prefix="conformance-environments-") as name:
        folder = Path(name)
        alone = {a: run(a, folder / "alone", python, more) for a, python in pythons.items()}
        for adapter, process in alone.items():
            print(f"{adapter} alone: exit code {process.wait()}")
        dask = Dask(folder)
        try:
            workers = [
                dask.worker(f"{adapter}-{release(adapter, python)}", python=python)
                for adapter, python in pythons.items()
                for _ in range(2)
            ]
            first, *_ = pythons
            planned = len(store.read(folder / "alone" / f"{first}.db").planned)
            options = [*more, "--scheduler", dask.address]
            runs = [run(a, folder / "cluster", sys.executable, options) for a in pythons]
            while runs[0].poll() is None:
                there = folder / "cluster" / f"{first}.db"
                stored = len(read(there).results) if there.is_file() else 0
                if 3 * stored > planned:
                    workers[0].kill()
                    print(f"a worker of {first} is killed after {stored} of {planned} pairs")
                    break
                time.sleep(0.2)
            for adapter, process in zip(pythons, runs, strict=True):
                print(f"{adapter} on the cluster: exit code {process.wait()}")
        finally:
            dask.close()
        differ = 0
        for adapter in pythons:
            files = [folder / part / f"{adapter}.db" for part in ("alone", "cluster")]
            differ += compared(adapter, *map(store.read, files))
        return min(differ, 1)


def run(adapter: str, reports: Path, python: str, more: list[str]) -> subprocess.Popen[bytes]:
    reports.mkdir(exist_ok=True)
    with (reports / f"{adapter}.txt").open("wb") as printed:
        command = [python, "-m", "conformance", "run", "--adapter", adapter, *more]
        return subprocess.Popen(
            [*command, "--reports", str(reports)],
            cwd=reports,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=printed,
            stderr=printed,
        )


def release(adapter: str, python: str) -> str:
    package = find_adapter(adapter, ROOT / "adapters").model.packages[0]
    code = f"import importlib.metadata as m; print(m.version({package!r}))"
    return subprocess.run([python, "-c", code], capture_output=True, text=True).stdout.strip()


def compared(adapter: str, alone: Results, cluster: Results) -> int:
    """Print how the results of a run on the cluster differ, and return in how many pairs. Numbers below
    what an observer resolves differ from run to run, here too, and are counted apart."""
    here, there = ({r.pair: r.verdicts for r in results.results} for results in (alone, cluster))
    differ = [pair for pair in here if _short(here[pair]) != _short(there.get(pair, ()))]
    twice = [pair for pair, n in Counter(r.pair for r in cluster.results).items() if n > 1]
    lost = [pair for pair in alone.planned if pair not in there]
    numbers = [pair for pair in here if pair in there and here[pair] != there[pair]]
    print(f"{adapter}: {len(here):,} pairs alone, {len(there):,} on the cluster")
    found = {"other verdicts": differ, "lost": lost, "twice": twice, "other numbers": numbers}
    for what, pairs in found.items():
        print(f"  {what}: {len(pairs)}", *pairs[:5])
    return len(differ) + len(lost) + len(twice)


def _short(verdicts: Sequence[Verdict]) -> list[tuple[object, ...]]:
    return [(v.check, v.status, v.level, v.known and v.known.cause) for v in verdicts]


if __name__ == "__main__":
    raise SystemExit(main())
