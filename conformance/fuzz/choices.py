"""Random choices. The same seed and number give the same program; the first choice is the simplest."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")


class Choices:
    """Choices for one program: the same for the same numbers."""

    def __init__(self, *seed: int) -> None:
        self._random = Random(repr(seed))

    def up_to(self, most: int) -> int:
        """A number from 0 to `most`."""
        return self._random.randint(0, most)

    def one(self, words: Sequence[T]) -> T:
        """One of these."""
        return words[self.up_to(len(words) - 1)]

    def chance(self, percent: float) -> bool:
        """True in so many of 100 cases."""
        return self._random.random() * 100 < percent

    def some(self, words: Sequence[T], least: int, most: int) -> list[T]:
        """Several of these, each at most once, in any order."""
        left: list[T] = list(words)
        number = min(least + self.up_to(most - least), len(left))
        return [left.pop(self.up_to(len(left) - 1)) for _ in range(number)]
