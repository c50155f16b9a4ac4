"""Shards: parts of one run for several machines.

What is divided is pairs of case and variant, by a checksum of their names: every machine computes the
same parts by itself. `conformance merge` puts the results of all shards together.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from zlib import crc32

from conformance.errors import ConformanceError

#: A case's id and a variant's.
Pair = tuple[str, str]
#: What a shard adds to the names of its files, as a pattern for any shard.
PATTERN = ".shard-*-of-*"
_SHARD = re.compile(r"([1-9]\d{0,3})/([1-9]\d{0,3})")


@dataclass(frozen=True)
class Shard:
    """The `number`-th (from 1) of `of` parts of a run."""

    number: int
    of: int

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    def has(self, pair: Pair) -> bool:
        """Whether a pair is in this part."""
        return crc32(" ".join(pair).encode()) % self.of == self.number - 1

    def stem(self, adapter: str) -> str:
        """What its files are named: `torch.shard-2-of-4`, to be followed by `.jsonl` or `.log`."""
        return f"{adapter}.shard-{self.number}-of-{self.of}"


def parse(text: str) -> Shard:
    """The shard that is written `2/4`. Raises `ConformanceError` for anything else."""
    match = _SHARD.fullmatch(text)
    if match is None or int(match[1]) > int(match[2]):
        raise ConformanceError(
            f"{text!r} is no shard",
            hint="write which of how many: --shard 2/4 is the second of four",
        )
    return Shard(int(match[1]), int(match[2]))


def pair_of(nodeid: str) -> Pair:
    """The case and the variant of an item's id: `….yaml::family/case[torch/eager] gradient`."""
    case, _, variant = nodeid.partition("::")[2].rpartition("] ")[0].rpartition("[")
    return case, variant
