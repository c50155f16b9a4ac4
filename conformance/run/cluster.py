"""The programs of an adapter on a cluster of Dask, whose workers have the framework.

`Cluster` is the side of the command that submits, which needs no framework. Dask chooses the worker of
each task among those with a resource, the name of the adapter and its release (`jax-0.10.2`), and runs
again what a lost worker had. The functions after it run in such a worker.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import platform
import queue
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from conformance import __version__, store
from conformance.drivers.adapter import Adapter, Variant, find_adapter
from conformance.drivers.modules import searched
from conformance.errors import ClusterError, ConformanceError
from conformance.model.case import Case
from conformance.model.result import STAGES, Header, Results
from conformance.paths import Paths, find_paths
from conformance.run.programs import OwnProgram, judged, programs_of
from conformance.run.runner import Runner

#: Seconds that a scheduler has to answer, that workers have to arrive at the start, and for which all
#: of them may be gone later.
CONNECT, ARRIVE, GONE = 10.0, 10.0, 60.0
#: Seconds between two looks at the workers, and that a result may take to come.
_LOOK, _FETCH = 1.0, 10.0
#: Pairs of one task, and tasks that are submitted for each place of a worker.
_PAIRS, _AHEAD = 8, 3


class Cluster:
    """The workers of the scheduler at an address. Any method raises `ClusterError`: where they are not
    there, or are lost, or have other sources or versions than the first."""

    def __init__(self, address: str) -> None:
        self.address = address
        #: The adapter, and what each worker has to have, by name.
        self._adapter: Adapter | None = None
        self._has: Mapping[str, str] = {}
        self.resource = ""
        try:
            from distributed import Client
        except ImportError:
            hint = "pip install 'recompute-conformance[cluster]'"
            raise ClusterError("--scheduler needs the package `distributed`", hint=hint) from None
        try:
            self._client = Client(address, timeout=CONNECT, set_as_default=False)
        except Exception as error:
            hint = "`dask scheduler` starts one, and prints its address"
            message = f"no scheduler of Dask answers at {address}"
            raise ClusterError(message, hint=hint) from error

    def close(self) -> None:
        with suppress(Exception):  # the scheduler is lost
            self._client.close()

    def release(self, adapter: str, wanted: str = "") -> str:
        """The release of an adapter that workers have: the wanted one, or the only one."""
        end = time.monotonic() + ARRIVE
        while True:
            there = self._places()
            names = sorted(name for name in there if adapter in (name, name.rpartition("-")[0]))
            names = [name for name in names if not wanted or name == f"{adapter}-{wanted}"]
            if len(names) > 1:
                hint = f"choose one, such as --release {names[-1][len(adapter) + 1 :]}"
                raise ClusterError(f"workers have {', '.join(names)}", hint=hint)
            self.resource = names[0] if names else f"{adapter}-{wanted or 'RELEASE'}"
            if names:
                return self.resource[len(adapter) + 1 :]
            if time.monotonic() > end:
                raise self._absent(there)
            time.sleep(0.2)

    def start(self, adapter: Adapter) -> Mapping[str, str]:
        """The versions of the first worker, which all others have to have, too. Raises
        `BrokenAdapterError`."""
        self._adapter, self._has = adapter, sources(adapter)
        ((_, (has, system)),) = self.answers(describe, [()])
        versions = {name: version for name, version in has.items() if name not in self._has}
        self._has = has
        return {**versions, "platform": system}

    def judged(
        self, pairs: Sequence[tuple[Case | OwnProgram, Variant]]
    ) -> Iterator[tuple[Results, Mapping[str, bytes]]]:
        """The results of these pairs as they come, a few at a time, with the files of their programs."""
        parts = (pairs[n : n + _PAIRS] for n in range(0, len(pairs), _PAIRS))
        tasks = ([(subject, variant.name) for subject, variant in part] for part in parts)
        with tempfile.TemporaryDirectory(prefix="conformance-cluster-") as folder:
            for _, (database, programs) in self.answers(judge, ((task,) for task in tasks)):
                file = Path(folder, "results.db")
                file.write_bytes(database)
                yield store.read(file), programs

    def answers(
        self, function: Callable[..., Any], tasks: Iterable[tuple[Any, ...]]
    ) -> Iterator[tuple[tuple[Any, ...], Any]]:
        """The arguments of each task and what `function` returns for them, in the order in which they
        end. No more are submitted than the workers soon have room for."""
        left: Iterator[tuple[Any, ...]] | None = iter(tasks)
        running: dict[str, tuple[tuple[Any, ...], Any]] = {}
        ended: queue.SimpleQueue[Any] = queue.SimpleQueue()
        seen, looked, places = time.monotonic(), 0.0, 0
        try:
            while left is not None or running:
                if time.monotonic() > looked + _LOOK:
                    there, looked = self._places(), time.monotonic()
                    places = there[self.resource]
                    seen = looked if places else seen
                    if looked > seen + GONE:
                        raise self._absent(there)
                room = max(_AHEAD * places - len(running), 0) if left is not None else 0
                new = list(islice(left or (), room))
                left = None if len(new) < room else left
                for task in new:
                    asked = (self._adapter, self._has, *task)
                    needs = {self.resource: 1}
                    future = self._client.submit(function, *asked, resources=needs, pure=False)
                    running[future.key] = task, future
                    future.add_done_callback(ended.put)
                with suppress(queue.Empty):
                    future = ended.get(timeout=_LOOK)
                    try:
                        answer = future.result(timeout=_FETCH)
                    except TimeoutError:  # its worker was lost just now: it runs again
                        if future.status == "error":
                            raise
                        ended.put(future)
                        continue
                    yield running.pop(future.key)[0], answer
        except ConformanceError:
            raise
        except Exception as error:  # of Dask
            raise self._failed(error) from error
        finally:
            with suppress(Exception):
                self._client.cancel([future for _, future in running.values()])

    def _places(self) -> Counter[str]:
        """By resource, how many tasks the workers run at a time."""
        places: Counter[str] = Counter()
        try:
            workers = self._client.scheduler_info(n_workers=-1)["workers"]
        except Exception as error:
            raise self._failed(error) from error
        for worker in workers.values():
            places.update({name: int(number) for name, number in worker["resources"].items()})
        return places

    def _absent(self, there: Mapping[str, int]) -> ClusterError:
        hint = f'dask worker {self.address} --no-nanny --nthreads 1 --resources "{self.resource}=1"'
        names = ", ".join(sorted(there)) or "none"
        message = f"no worker has the resource {self.resource}; resources of workers: {names}"
        return ClusterError(message, hint=hint)

    def _failed(self, error: Exception) -> ClusterError:
        """What Dask says: of a scheduler that is lost, of a task whose workers all died."""
        if self._client.status != "running":
            return ClusterError(f"the scheduler at {self.address} is lost")
        hint = "scheduler and workers need the same recompute-conformance and Dask as this process"
        message = f"a task on {self.resource} failed: {type(error).__name__}: {error}"
        return ClusterError(message, hint=hint)


def sources(adapter: Adapter) -> Mapping[str, str]:
    """What has to be the same at the client and on each worker, and comes with no release of its own."""
    package = Path(__file__).parents[1]
    rooms = [path for path in package.iterdir() if path.name not in ("cases", "adapters")]
    others = [
        next(folder / name for folder in searched(adapter.folder) if (folder / name).is_dir())
        for name in adapter.model.builds_on
    ]
    return {
        "recompute-conformance": f"{__version__} ({_digest(rooms)})",
        f"adapter {adapter.name}": _digest([adapter.folder, *others]),
    }


def _digest(places: Iterable[Path]) -> str:
    """A hash of the sources in these folders and files, wherever they lie."""
    contents = [
        (str(file.relative_to(place.parent)), hashlib.sha256(file.read_bytes()).hexdigest())
        for place in places
        for file in (place, *place.rglob("*"))
        if file.suffix in (".py", ".yaml", ".sql")
    ]
    return hashlib.sha256(repr(sorted(contents)).encode()).hexdigest()[:8]


# In a worker of Dask:


class Held(Runner):
    """A runner of this process: for which adapter it was made, and what is here."""

    asked: Adapter
    has: Mapping[str, str]


_here: list[Held] = []
_lock = threading.Lock()


def describe(adapter: Adapter, has: Mapping[str, str]) -> tuple[Mapping[str, str], str]:
    """What is here, sources and versions; and the operating system."""
    with held(adapter, has) as runner:
        return runner.has, platform.platform()


def judge(
    adapter: Adapter, has: Mapping[str, str], pairs: Sequence[tuple[Case | OwnProgram, str]]
) -> tuple[bytes, Mapping[str, bytes]]:
    """A file of results with these pairs, and the files of their programs by path."""
    with held(adapter, has) as runner:
        adapter, reports = runner.adapter, runner.paths.reports
        runner.known, runner.seconds = (), dict.fromkeys(STAGES, 0.0)
        own = {program.id: program for program in programs_of(adapter)}
        on = [(subject, adapter.variant(variant)) for subject, variant in pairs]
        runner.emit([(case, variant) for case, variant in on if isinstance(case, Case)])
        results = [
            runner.run(subject, variant)
            if isinstance(subject, Case)
            else judged(own[subject.id], adapter, variant, reports)
            for subject, variant in on
        ]
        file = reports / "results.db"
        written = store.Store(file)
        variants = tuple(variant.id for variant in adapter.variants)
        header = Header(__version__, adapter.name, variants, {}, {}, cases="")
        written.begin(header, [result.pair for result in results])
        for result in results:
            written.put(result)
        written.add_seconds(runner.seconds)
        written.finish("")
        written.close()
        programs = [reports / result.program for result in results if result.program]
        programs += [program.parent / name for program in programs for name in adapter.beside]
        texts = {str(p.relative_to(reports)): p.read_bytes() for p in programs if p.is_file()}
        database = file.read_bytes()
        file.unlink()
        return database, texts


@contextmanager
def held(adapter: Adapter, has: Mapping[str, str]) -> Iterator[Held]:
    """The runner of this process, for one task at a time. Its processes stay for the next one."""
    with _lock:
        if _here and _here[0].asked != adapter:
            _here.pop().close()
        _here[:] = _here or [_made(adapter)]
        _compare(has, _here[0].has)
        yield _here[0]


def _made(asked: Adapter) -> Held:
    """A runner of the adapter that lies where it does at the client, or else of the installed one."""
    from distributed import get_worker

    if multiprocessing.current_process().daemon:
        hint = "start it with --no-nanny"
        raise ClusterError(f"the worker {get_worker().address} may start no process", hint=hint)
    is_there = (asked.folder / "adapter.yaml").is_file()
    adapter = find_adapter(str(asked.folder) if is_there else asked.name, find_paths().adapters)
    wanted, found = (one.release.partition("+")[0] for one in (asked, adapter))
    _compare({asked.name: wanted}, {asked.name: found})
    folder = Path(tempfile.mkdtemp(prefix=f"{asked.name}-", dir=get_worker().local_directory))
    paths = Paths(folder, adapter.folder.parent, folder)
    runner = Held(replace(asked, folder=adapter.folder), paths, folder / "log.txt")
    try:
        versions = runner.start(asked.variants[:1])
    except BaseException:
        runner.close()
        raise
    runner.asked, runner.has = asked, {**sources(adapter), **versions}
    return runner


def _compare(wanted: Mapping[str, str], found: Mapping[str, str]) -> None:
    from distributed import get_worker

    for name in wanted:
        if wanted[name] != found.get(name):
            it, has = f"the worker {get_worker().address}", found.get(name) or "none"
            hint = "every worker needs the same installation; --resources names its release"
            raise ClusterError(f"{it} has {name} {has}, and this run {wanted[name]}", hint=hint)
