"""Shards: every pair in one part, the same part on every machine."""

from __future__ import annotations

from itertools import product

import pytest

from conformance.errors import ConformanceError
from conformance.run.shards import Shard, parse


def test_written_as_number_of_how_many() -> None:
    assert parse("2/4") == Shard(2, 4)
    assert str(Shard(2, 4)) == "2/4"
    assert Shard(2, 4).stem("torch") == "torch.shard-2-of-4"
    for text in ("0/4", "5/4", "1", "a/b", "1/2/3", "-1/2", " 1/2", "1/0"):
        with pytest.raises(ConformanceError, match="is no shard"):
            parse(text)


@pytest.mark.parametrize("of", [1, 2, 3, 8])
def test_each_pair_is_in_one_part_of_about_the_same_size(of: int) -> None:
    pairs = list(product([f"family/case-{i}" for i in range(200)], ["torch/a", "torch/b"]))
    sizes = [sum(Shard(i, of).has(pair) for pair in pairs) for i in range(1, of + 1)]
    assert sum(sizes) == len(pairs)
    assert min(sizes) > 0.7 * len(pairs) / of


def test_the_part_of_a_pair_hangs_on_its_name_alone() -> None:
    assert [i for i in range(1, 8) if Shard(i, 7).has(("basics/mlp-block", "torch/a"))] == [1]
