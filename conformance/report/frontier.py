"""A chart of memory against reruns, with a point for each mode; lower left is best."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from string import ascii_uppercase

from conformance.report.costs import Cost

#: Where both axes end; points beyond are drawn at the edge.
LIMIT = 1.1
#: Points nearer than this on both axes share a mark, since their marks would overlap.
_NEAR_X, _NEAR_Y = 0.05, 0.09


@dataclass(frozen=True)
class Point:
    """A mark for modes that cost nearly the same, at the cost of the first of them.

    `reruns` and `memory` are its coordinates (see `Cost`). `peak` is whether memory is that of the
    peak, where retained memory was not observed.
    """

    letter: str
    costs: tuple[tuple[str, Cost], ...]
    reruns: float
    memory: float
    peak: bool

    @property
    def words(self) -> str:
        """The modes with their memory and reruns: `eager (15%, 0.88×)`."""
        by_numbers: dict[str, list[str]] = {}
        for name, cost in self.costs:
            by_numbers.setdefault(f"({cost.memory:.0%}, {cost.reruns:.2f}×)", []).append(name)
        text = ", ".join(f"{', '.join(names)} {spent}" for spent, names in by_numbers.items())
        return f"{text}, beyond the edge" if max(self.reruns, self.memory) > LIMIT else text


class Drawing:
    """The chart: its size and axes in units of the SVG, its points, and the modes that have none."""

    width, height, left, right, top, bottom = 460, 260, 52, 16, 12, 42
    ticks = (0.0, 0.25, 0.5, 0.75, 1.0)

    def __init__(self, costs: Iterable[tuple[str, Cost]]) -> None:
        points: list[tuple[float, float, bool, list[tuple[str, Cost]]]] = []
        not_observed = []
        for name, cost in costs:
            if cost.memory is None or cost.reruns is None:
                not_observed.append(name)
                continue
            reruns, memory, peak = cost.reruns, cost.memory, cost.retained is None
            neighbours = (
                group
                for x, y, of_peak, group in points
                if of_peak is peak and abs(x - reruns) < _NEAR_X and abs(y - memory) < _NEAR_Y
            )
            home = next(neighbours, None)
            if home is None:
                points.append((reruns, memory, peak, [(name, cost)]))
            else:
                home.append((name, cost))
        points.sort(key=lambda item: (item[2], item[1], item[0]))
        self.not_observed: Sequence[str] = tuple(not_observed)
        self.points = tuple(
            Point(_letter(number), tuple(group), reruns, memory, peak)
            for number, (reruns, memory, peak, group) in enumerate(points)
        )

    def x(self, reruns: float) -> float:
        """The x coordinate of a number of reruns."""
        fraction = min(reruns, LIMIT) / LIMIT
        return round(self.left + fraction * (self.width - self.left - self.right), 1)

    def y(self, memory: float) -> float:
        """The y coordinate of a share of memory."""
        fraction = min(memory, LIMIT) / LIMIT
        return round(
            self.height - self.bottom - fraction * (self.height - self.top - self.bottom), 1
        )


def _letter(number: int) -> str:
    """A, B, …, Z, A2, …"""
    round_, index = divmod(number, len(ascii_uppercase))
    return ascii_uppercase[index] + (str(round_ + 1) if round_ else "")
