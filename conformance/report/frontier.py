"""Memory against extra work: a point for each mode, the ideal in the lower left corner."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from string import ascii_uppercase

from conformance.report.costs import Cost

#: Both axes show this much; what lies beyond is drawn at the edge, with its number.
MOST = 1.1
#: Points nearer than this, as far as a mark is wide and high, share a letter.
_WIDE, _HIGH = 0.05, 0.09


@dataclass(frozen=True)
class Point:
    """Modes that cost nearly alike, each with its cost; the point lies where the first of them does.

    `peak` says that memory is that of the peak, for want of another.
    """

    letter: str
    costs: tuple[tuple[str, Cost], ...]
    again: float
    memory: float
    peak: bool

    @property
    def words(self) -> str:
        """Who, and the numbers: `eager (15%, 0.88×)`."""
        by_numbers: dict[str, list[str]] = {}
        for name, cost in self.costs:
            by_numbers.setdefault(f"({cost.memory:.0%}, {cost.reruns:.2f}×)", []).append(name)
        said = ", ".join(f"{', '.join(names)} {spent}" for spent, names in by_numbers.items())
        return f"{said}, beyond the edge" if max(self.again, self.memory) > MOST else said


class Drawing:
    """Where the points lie, in units of the SVG."""

    width, height, left, right, top, bottom = 460, 260, 52, 16, 12, 42
    ticks = (0.0, 0.25, 0.5, 0.75, 1.0)

    def __init__(self, costs: Iterable[tuple[str, Cost]]) -> None:
        points: list[tuple[float, float, bool, list[tuple[str, Cost]]]] = []
        unseen = []
        for name, cost in costs:
            if cost.memory is None or cost.reruns is None:
                unseen.append(name)
                continue
            again, memory, peak = cost.reruns, cost.memory, cost.retained is None
            near = (
                group
                for x, y, of_peak, group in points
                if of_peak is peak and abs(x - again) < _WIDE and abs(y - memory) < _HIGH
            )
            home = next(near, None)
            if home is None:
                points.append((again, memory, peak, [(name, cost)]))
            else:
                home.append((name, cost))
        points.sort(key=lambda item: (item[2], item[1], item[0]))
        self.unseen: Sequence[str] = tuple(unseen)
        self.points = tuple(
            Point(_letter(number), tuple(group), again, memory, peak)
            for number, (again, memory, peak, group) in enumerate(points)
        )

    def x(self, again: float) -> float:
        share = min(again, MOST) / MOST
        return round(self.left + share * (self.width - self.left - self.right), 1)

    def y(self, memory: float) -> float:
        share = min(memory, MOST) / MOST
        return round(self.height - self.bottom - share * (self.height - self.top - self.bottom), 1)


def _letter(number: int) -> str:
    """A, B, …, Z, A2, …"""
    round_, place = divmod(number, len(ascii_uppercase))
    return ascii_uppercase[place] + (str(round_ + 1) if round_ else "")
