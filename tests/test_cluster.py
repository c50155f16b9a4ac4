"""A run and a campaign on a cluster of Dask: the same as here, whatever becomes of workers."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from conformance import store
from conformance.drivers.adapter import read_adapter
from conformance.errors import BrokenAdapterError, ClusterError
from conformance.exits import Exit
from conformance.model.result import Results
from conformance.run import cluster as clusters
from tests import commands, mini, unruly
from tests.test_pool import wait_for
from tests.test_robust_run import MAIN

pytest.importorskip("distributed")
ROOT = Path(__file__).parents[1]
CASES = ("--cases", str(mini.CASES))
VARIANTS = ("wrong", "picky", "slow")


class Dask:
    """A scheduler, and workers by their number."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []
        file = folder / "scheduler.json"
        self.start("scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(file))
        wait_for(lambda: file.is_file() and file.read_text().endswith("}"))
        self.address = json.loads(file.read_text())["address"]

    def start(
        self, kind: str, *arguments: str, python: str = sys.executable
    ) -> subprocess.Popen[bytes]:
        command = [python, "-m", f"distributed.cli.dask_{kind}", *arguments]
        with (self.folder / f"{len(self.processes)}.log").open("wb") as log:
            process = subprocess.Popen(
                [*command, "--no-dashboard"],
                cwd=self.folder,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdout=log,
                stderr=log,
            )
        self.processes.append(process)
        return process

    def worker(
        self, resource: str, nanny: str = "--no-nanny", python: str = sys.executable
    ) -> subprocess.Popen[bytes]:
        given = ("--nthreads", "1", "--resources", f"{resource}=1", nanny)
        return self.start("worker", self.address, *given, python=python)

    def close(self, first: int = 0) -> None:
        for process in self.processes[first:]:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dask]:
    running = Dask(tmp_path_factory.mktemp("dask"))
    yield running
    running.close()


@pytest.fixture
def dask(scheduler: Dask) -> Iterator[Dask]:
    """A scheduler without workers."""
    yield scheduler
    scheduler.close(first=1)
    left = clusters.Cluster(scheduler.address)
    wait_for(lambda: not left._places())
    left.close()


@pytest.fixture
def adapter(tmp_path: Path) -> Path:
    return unruly.make(tmp_path / "unruly", time_limit=20)


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CONNECT", "ARRIVE", "GONE"):
        monkeypatch.setattr(clusters, name, 0.5)


RESOURCE = f"unruly-{np.__version__}"


def words(adapter: Path, *variants: str) -> list[str]:
    given = [word for name in variants for word in ("--variant", name)]
    return ["run", "--adapter", str(adapter), *CASES, *given]


def content(folder: Path) -> list[object]:
    found = store.read(folder / "unruly.db")
    parts: list[object] = [found.missing, found.header.cases, found.header.versions["numpy"]]
    for r in found.results:
        plain = r.observation and repr(r.observation.plain)
        parts += [r.pair, *map(repr, r.verdicts), r.program, repr(r.expected), plain]
        assert not r.program or (folder / r.program).is_file()
    return parts


def test_as_here_with_a_worker_that_is_killed(dask, adapter, tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    command = [*words(adapter, *VARIANTS), "--reports"]
    code = commands.conformance(tmp_path, *command, str(here)).returncode
    assert code == Exit.UNEXPECTED
    doomed = dask.worker(RESOURCE)
    process = subprocess.Popen(
        [sys.executable, *MAIN, *command, str(there), "--scheduler", dask.address],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    wait_for(lambda: stored(there) > 0, 60)
    dask.worker(RESOURCE)
    doomed.kill()
    printed, _ = process.communicate(timeout=100)
    assert process.returncode == code, printed
    assert content(there) == content(here)
    assert sorted(p.name for p in (there / "programs").rglob("mini.py"))


def stored(folder: Path) -> int:
    file = folder / "unruly.db"
    return sum(1 for _ in read(file).results) if file.is_file() else 0


def read(file: Path) -> Results:
    try:
        return store.read(file)
    except Exception:  # it has no tables yet
        return Results(file, None, ())  # type: ignore[arg-type]


def test_an_interrupted_run_keeps_what_is_stored(dask, adapter, tmp_path):
    dask.worker(RESOURCE)
    command = [*words(adapter, "slow", "right"), "--scheduler", dask.address]
    process = subprocess.Popen(
        [sys.executable, *MAIN, *command],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    wait_for(lambda: stored(tmp_path / "reports") > 0, 60)
    process.send_signal(signal.SIGINT)
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == Exit.INTERRUPTED, printed
    kept = stored(tmp_path / "reports")
    assert kept > 0
    again = commands.conformance(tmp_path, *command)
    assert again.returncode == Exit.OK, again.stdout
    assert f"continuing after {kept} of" in again.stdout
    assert not store.read(tmp_path / "reports" / "unruly.db").missing


def test_generated_programs_are_those_of_a_campaign_here(dask, tmp_path):
    dask.worker(f"reference-{np.__version__}")
    told = []
    for n, more in enumerate([(), ("--scheduler", dask.address)]):
        cases = tmp_path / f"cases{n}"
        shutil.copytree(mini.CASES, cases)
        done = commands.conformance(
            tmp_path,
            *("fuzz", "--adapter", "reference", "--examples", "40", "--seed", "3"),
            *("--cases", str(cases), *more),
        )
        found = sorted(p.read_text() for p in cases.rglob("found/*"))
        told.append((done.returncode, done.stdout.replace(f"cases{n}", ""), found))
    assert told[0] == told[1]
    assert "reference/float64" in told[0][1]


def test_without_a_worker_for_it(dask, adapter, soon):
    dask.worker("torch-2.13.0")
    cluster = clusters.Cluster(dask.address)
    wait_for(lambda: cluster._places())
    with pytest.raises(ClusterError, match=r"unruly-RELEASE; resources of workers: torch-2\.13\.0"):
        cluster.release("unruly")
    with pytest.raises(ClusterError, match=r'--resources "unruly-1\.0=1"'):
        cluster.release("unruly", "1.0")
    assert cluster.release("torch") == "2.13.0"
    dask.worker("torch-2.12.0")
    wait_for(lambda: len(cluster._places()) == 2)
    with pytest.raises(ClusterError, match=r"torch-2\.12\.0, torch-2\.13\.0\n.*--release 2\.13\.0"):
        cluster.release("torch")
    assert cluster.release("torch", "2.12.0") == "2.12.0"


def started(dask: Dask, adapter: Path, resource: str = RESOURCE, *more: str) -> clusters.Cluster:
    """A cluster that has a worker, and was asked to start the adapter."""
    dask.worker(resource, *more)
    cluster = clusters.Cluster(dask.address)
    release = cluster.release("unruly")
    cluster.start(replace(read_adapter(adapter), on_cluster=release))
    return cluster


def test_workers_that_are_lost(dask, adapter, monkeypatch):
    cluster = started(dask, adapter)
    monkeypatch.setattr(clusters, "GONE", 0.5)
    dask.processes[-1].kill()
    with pytest.raises(ClusterError, match=f"no worker has the resource {RESOURCE}"):
        list(cluster.answers(clusters.describe, [()]))
    cluster.close()


def test_a_scheduler_that_is_lost(adapter, tmp_path):
    dask = Dask(tmp_path)
    cluster = started(dask, adapter)
    dask.close()
    with pytest.raises(ClusterError, match=f"the scheduler at {dask.address} is lost"):
        list(cluster.answers(clusters.describe, [()]))


@pytest.mark.parametrize("what", ["recompute-conformance", "adapter unruly"])
def test_a_worker_with_other_sources(dask, adapter, monkeypatch, what):
    own = clusters.sources
    monkeypatch.setattr(clusters, "sources", lambda adapter: {**own(adapter), what: "others"})
    with pytest.raises(
        ClusterError, match=f"the worker tcp://.* has {what} .*, and this run others"
    ):
        started(dask, adapter)


def test_a_worker_with_another_release(dask, adapter):
    with pytest.raises(ClusterError, match=rf"has unruly {np.__version__}, and this run 1\.0"):
        started(dask, adapter, "unruly-1.0")


def test_a_worker_with_a_nanny(dask, adapter):
    with pytest.raises(
        ClusterError, match="may start no process\n  hint: start it with --no-nanny"
    ):
        started(dask, adapter, RESOURCE, "--nanny")


def test_an_adapter_that_does_not_start(dask, adapter):
    (adapter / "observe.py").write_text("import a_framework_that_nobody_has")
    with pytest.raises(BrokenAdapterError, match="a_framework_that_nobody_has"):
        started(dask, adapter)


def test_what_cannot_begin(adapter, tmp_path, monkeypatch, soon):
    with pytest.raises(ClusterError, match="no scheduler of Dask answers at tcp://"):
        clusters.Cluster("tcp://127.0.0.1:9")
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ClusterError, match=r"pip install 'recompute-conformance\[cluster\]'"):
        clusters.Cluster("tcp://127.0.0.1:9")
    more = ("--scheduler", "tcp://127.0.0.1:9")
    done = commands.conformance(tmp_path, *words(adapter), *more, "-n", "2")
    assert done.returncode == Exit.BAD_INPUT
    assert "--scheduler and -n both divide the run" in done.stderr
