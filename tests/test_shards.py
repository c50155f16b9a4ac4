"""Shards: every pair in one part, parts of about the same length, the same on every machine."""

from __future__ import annotations

import random

import pytest

from conformance.drivers.adapter import all_adapters
from conformance.errors import ConformanceError
from conformance.language.load import load_folder
from conformance.paths import find_paths
from conformance.results.recorded import Recorded, read
from conformance.run.shards import START, UNSUPPORTED, Job, Shard, jobs, parse, seconds, split
from tests import mini, suite_cases


def made(lengths: dict[str, list[float]], workers: dict[str, str] | None = None) -> list[Job]:
    """Jobs of variants, so many seconds each."""
    return [
        Job((f"case-{i}", variant), (workers or {}).get(variant, "one"), length)
        for variant, found in lengths.items()
        for i, length in enumerate(found)
    ]


def sums(listed: list[Job], of: int) -> list[float]:
    length = {job.pair: job.seconds for job in listed}
    return [sum(length[pair] for pair in part) for part in split(listed, of)]


def test_written_as_number_of_how_many() -> None:
    assert parse("2/4") == Shard(2, 4)
    assert str(Shard(2, 4)) == "2/4"
    assert Shard(2, 4).stem("torch") == "torch.shard-2-of-4"
    for text in ("0/4", "5/4", "1", "a/b", "1/2/3", "-1/2", " 1/2", "1/0"):
        with pytest.raises(ConformanceError, match="is no shard"):
            parse(text)


@pytest.mark.parametrize("of", [1, 2, 3, 5, 8, 40])
def test_each_pair_is_in_one_part_whatever_the_order(of: int) -> None:
    numbers = random.Random(0)
    listed = made({v: [numbers.expovariate(1.0) for _ in range(9)] for v in "abc"})
    parts = split(listed, of)
    assert len(parts) == of
    assert sorted(pair for part in parts for pair in part) == sorted(job.pair for job in listed)
    for _ in range(5):
        numbers.shuffle(listed)
        assert split(listed, of) == parts


@pytest.mark.parametrize("of", [2, 3, 4])
def test_parts_differ_by_no_more_than_a_short_case(of: int) -> None:
    numbers = random.Random(1)
    listed = made({v: [numbers.expovariate(1.0) for _ in range(100)] for v in "abcd"})
    found = sums(listed, of)
    assert max(found) - min(found) < 0.1


def test_what_takes_longer_than_a_part_has_one_of_its_own() -> None:
    listed = made({"a": [1.0] * 6, "b": [1.0, 50.0, 1.0]})
    parts = split(listed, 3)
    assert parts[0] == {("case-1", "b")}
    assert [len(part) for part in parts[1:]] == [4, 4]


def test_variants_are_divided_only_where_a_part_ends() -> None:
    listed = made({v: [1.0] * 30 for v in "abcdef"})
    parts = split(listed, 4)
    assert [len(part) for part in parts] == [45] * 4
    assert sum(len({variant for _, variant in part}) for part in parts) <= 6 + 3


def test_a_worker_is_not_started_for_little() -> None:
    workers = {"a": "one", "b": "two"}
    listed = made({"a": [1.0] * 50, "b": [1.0] * 52}, workers)
    parts = split(listed, 2)
    assert [{variant for _, variant in part} for part in parts] == [{"a"}, {"b"}]
    assert START > 2


def test_more_parts_than_pairs_leave_some_empty() -> None:
    assert sorted(map(len, split(made({"a": [1.0, 2.0]}), 4))) == [0, 0, 1, 1]
    assert split([], 2) == (frozenset(), frozenset())


def test_what_is_not_supported_takes_no_time() -> None:
    recorded = Recorded({"picky": {"mini/twice": 9.0, "mini/square": 2.0}})
    assert seconds(recorded, mini.case("twice"), mini.variant("picky")) == UNSUPPORTED
    assert seconds(recorded, mini.case("square"), mini.variant("picky")) == 2.0


def test_variants_of_one_environment_are_one_worker() -> None:
    adapter = next(a for a in all_adapters(find_paths().adapters) if a.name == "keras")
    case = suite_cases.CASES[0]
    listed = jobs(adapter, Recorded(), [(case, variant) for variant in adapter.variants])
    workers = {job.worker for job in listed}
    assert len(workers) == 3


def test_the_suites_own_adapters_divide_evenly() -> None:
    paths = find_paths()
    cases = load_folder(paths.cases)
    for adapter in all_adapters(paths.adapters):
        recorded = read(adapter.folder)
        if recorded:
            pairs = [(case, variant) for case in cases for variant in adapter.variants]
            listed = list(jobs(adapter, recorded, pairs))
            longest = max(job.seconds for job in listed)
            found = sums(listed, 2)
            assert max(found) <= max(longest, 1.05 * sum(found) / 2 + START), adapter.name
