"""A campaign on a cluster: each task judges a few programs of the seed, by their numbers, so that the
programs are the same on any number of workers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any

from conformance.drivers.adapter import Adapter
from conformance.fuzz.campaign import Campaign, Found, Key
from conformance.fuzz.programs import Raw, loaded
from conformance.judge.known import Entry, in_release, read
from conformance.run.cluster import Cluster, held

#: Programs of one task.
_PROGRAMS = 16


class ClusterCampaign(Campaign):
    """A campaign whose programs run on the workers of `cluster`. Of each group, the program of the
    lowest number is kept, as in a campaign here."""

    def __init__(self, *arguments: Any, cluster: Cluster, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.cluster = cluster
        self._of = {tally.variant.name: tally for tally in self.tallies}

    def start(self) -> None:
        self.cluster.start(self.runner.adapter)

    def run(self) -> None:
        ends = time.monotonic() + self.seconds
        tasks = (
            (name, self.seed, range(first, min(first + _PROGRAMS, self.examples)))
            for first in range(0, self.examples, _PROGRAMS)
            for name in self._of
        )
        in_time = takewhile(lambda _: time.monotonic() < ends, tasks)
        places: dict[Key, tuple[int, int]] = {}
        for (name, _, numbers), told in self.cluster.answers(judge, in_time):
            tally = self._of[name]
            tally.outcomes.update(told["outcomes"])
            tally.causes.update(told["causes"])
            tally.wasted += told["wasted"]
            for n, (key, count, raw, message) in enumerate(told["found"]):
                place, before = (numbers.start, n), self.found.get(key)
                if before is None or place < places[key]:
                    program, seen = loaded(raw, tally.vocabulary.allowed), before and before.count
                    self.found[key] = Found(key, tally.variant, program, message, seen or 0)
                    places[key] = place
                    self.new(self.found[key])
                self.found[key].count += count
            self.told()
        self.found = {key: self.found[key] for key in sorted(self.found, key=places.__getitem__)}

    def shrink(self) -> None:
        tasks = ((f.variant.name, f.key, f.program.raw, f.message) for f in self.found.values())
        for (name, key, *_), (raw, message) in self.cluster.answers(smaller, tasks):
            found = self.found[key]
            found.program = loaded(raw, self._of[name].vocabulary.allowed)
            found.message = message
            self.new(found)
            self.told()


# In a worker of Dask:


def judge(
    adapter: Adapter, has: Mapping[str, str], variant: str, seed: int, numbers: range
) -> Mapping[str, Any]:
    """What became of these programs, in plain data."""
    with _campaign(adapter, has, variant, seed) as campaign:
        (tally,) = campaign.tallies
        campaign.judge(tally, numbers)
        found = campaign.found.values()
        return {
            "outcomes": dict(tally.outcomes),
            "causes": dict(tally.causes),
            "wasted": tally.wasted,
            "found": [(one.key, one.count, one.program.raw, one.message) for one in found],
        }


def smaller(
    adapter: Adapter, has: Mapping[str, str], variant: str, key: Key, raw: Raw, message: str
) -> tuple[Raw, str]:
    """A smaller program of a group, and the verdict on it."""
    with _campaign(adapter, has, variant) as campaign:
        (tally,) = campaign.tallies
        program = loaded(raw, tally.vocabulary.allowed)
        campaign.found[key] = found = Found(key, tally.variant, program, message)
        campaign.shrink()
        return found.program.raw, found.message


@cache
def _known(file: Path, release: str, device: str) -> tuple[Entry, ...]:
    return in_release(read(file), release, device)


@contextmanager
def _campaign(
    adapter: Adapter, has: Mapping[str, str], variant: str, seed: int = 0
) -> Iterator[Campaign]:
    with held(adapter, has) as runner:
        runner.known = _known(runner.adapter.known, adapter.release, adapter.device)
        yield Campaign(runner, [runner.adapter.variant(variant)], seed=seed)
