"""A case's program as a graph: operations from top to bottom, regions as boxes around theirs.

A small layered layout: a node lies below those that it reads from, nodes of one layer side by side. A
region is laid out by itself, and is then one node of the list around it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from conformance.drivers.adapter import DISCIPLINES
from conformance.model.case import (
    Again,
    Argument,
    Array,
    Case,
    FlatNode,
    Literal,
    Node,
    Ref,
    Region,
    Statement,
    flat,
    leaves,
    node_makes,
    node_reads,
    walk,
)
from conformance.oracle.fates import Fate, fates
from conformance.words import line

#: The most nodes of a program that is drawn.
MOST = 45
#: Units of the SVG: a character's width, the height of a node of one line and of two, gap, padding,
#: and the height of a region's title.
_LETTER, _LINE, _NOTE, _GAP, _PAD, _TITLE = 6.4, 24.0, 38.0, 18.0, 12.0, 20.0
_LONGEST = 46
#: Units between edges that run side by side.
_LANE = 9.0


@dataclass
class Box:
    """A rectangle: an operation, a call, an input, or a region with what is in it.

    `style` is a class of the style sheet: `input`, `op`, `again` (an operation that runs again),
    `region` or `call`. `kept` is whether the result is kept for backward, by `all` or by `some`
    disciplines, or empty. `note` stands below the text in small letters. Position and size are in
    units of the SVG.
    """

    text: str
    style: str
    note: str = ""
    kept: str = ""
    inside: list[Box] = field(default_factory=list)
    x: float = 0.0
    y: float = 0.0
    width: float = 0.0
    height: float = 0.0

    def move(self, x: float, y: float) -> None:
        """Shift the box and all boxes inside it by `x` and `y`."""
        self.x += x
        self.y += y
        for box in self.inside:
            box.move(x, y)

    def all(self) -> Iterable[Box]:
        """The box itself, then all boxes inside it, at any depth."""
        yield self
        for box in self.inside:
            yield from box.all()

    @property
    def middle(self) -> float:
        return self.x + self.width / 2


@dataclass(frozen=True)
class Graph:
    """A drawing: boxes (an outer one before its inner ones), SVG paths of edges, size, description."""

    boxes: tuple[Box, ...]
    edges: tuple[str, ...]
    width: float
    height: float
    words: str


def draw(case: Case) -> Graph | None:
    """The graph of a case's program; `None` for a program of more than `MOST` nodes."""
    if sum(1 for _ in walk(case.program)) > MOST:
        return None
    drawing = _Drawing(fates(case, tuple(DISCIPLINES)))
    return drawing.graph(case)


class _Drawing:
    def __init__(self, fates: Mapping[tuple[str, str], Fate]) -> None:
        self.fates = fates
        self.edges: list[tuple[Box, Box]] = []

    def graph(self, case: Case) -> Graph:
        producers: dict[str, Box] = {}
        inputs = [_sized(Box(i.name, "input")) for i in case.inputs if isinstance(i, Array)]
        producers |= {box.text: box for box in inputs}
        boxes = self._nodes(case.program, producers, "")
        height = _lay_out([*inputs, *boxes], self._above(inputs, boxes, case.program))
        losses = [loss for loss in (case.loss, case.then) if loss is not None]
        loss_boxes = []
        for loss in losses:
            text = loss.name if loss.reduction == "none" else f"{loss.reduction}({loss.name})"
            box = _sized(Box(f"loss: {text}", "input"))
            if loss.name in producers:
                self.edges.append((producers[loss.name], box))
            loss_boxes.append(box)
        low = min((box.x for box in (*inputs, *boxes)), default=0.0)
        high = max((box.x + box.width for box in (*inputs, *boxes)), default=0.0)
        x = (low + high) / 2 - (sum(b.width + _GAP for b in loss_boxes) - _GAP) / 2
        for box in loss_boxes:
            box.move(x, height + _GAP)
            x += box.width + _GAP
        low = min(low, *(box.x for box in loss_boxes), low)
        top_level = [*inputs, *boxes, *loss_boxes]
        for box in top_level:
            box.move(_PAD - low, _PAD)
        boxes_drawn = [inner for box in top_level for inner in box.all()]
        edges, right = _route(self.edges, boxes_drawn)
        return Graph(
            boxes=tuple(boxes_drawn),
            edges=edges,
            width=round(right + _PAD),
            height=round(max((box.y + box.height for box in boxes_drawn), default=0.0) + _PAD),
            words=_words(case),
        )

    def _nodes(self, nodes: Sequence[Node], producers: dict[str, Box], region: str) -> list[Box]:
        """The boxes of a list of nodes, with their sizes; boxes inside regions are laid out.

        `producers` maps each name to the box that computes it, and is updated.
        """
        return [self._node(node, producers, region) for node in flat(nodes)]

    def _node(self, node: FlatNode, producers: dict[str, Box], region: str) -> Box:
        if isinstance(node, Region):
            return self._region(node, producers)
        if isinstance(node, Again):
            box = Box(line(f"{node.region}({', '.join(leaves(node.takes))})", _LONGEST), "call")
            box.note = "the same region, called again"
        else:
            fate = self.fates.get((region, node.label), Fate((), ""))
            box = Box(
                _statement_text(node), "again" if fate.again else "op", _note(fate), fate.kept
            )
        _sized(box)
        for name in dict.fromkeys(node_reads(node)):
            if name in producers:
                self.edges.append((producers[name], box))
        producers.update(dict.fromkeys(node_makes(node), box))
        return box

    def _region(self, region: Region, producers: dict[str, Box]) -> Box:
        inner = dict(producers)
        box = Box(_title(region), "region")
        box.inside = self._nodes(region.body, inner, region.name)
        height = _lay_out(box.inside, self._above([], box.inside, region.body))
        low = min((b.x for b in box.inside), default=0.0)
        high = max((b.x + b.width for b in box.inside), default=0.0)
        for child in box.inside:
            child.move(_PAD - low, _TITLE + _PAD / 2)
        box.width = max(high - low, len(box.text) * _LETTER) + 2 * _PAD
        margin = (box.width - 2 * _PAD - (high - low)) / 2
        for child in box.inside:
            child.move(margin, 0)
        box.height = height + _TITLE + 1.5 * _PAD
        if region.called:
            outputs = leaves(region.gives)
            producers.update({name: inner[name] for name in outputs if name in inner})
            if region.returned and outputs and outputs[-1] in inner:
                producers[region.returned] = inner[outputs[-1]]
        return box

    def _above(
        self, inputs: Sequence[Box], boxes: Sequence[Box], nodes: Sequence[Node]
    ) -> list[list[int]]:
        """For each of the inputs and boxes, the indices of those that it reads from."""
        position = {
            id(part): i for i, target in enumerate((*inputs, *boxes)) for part in target.all()
        }
        above: list[list[int]] = [[] for _ in (*inputs, *boxes)]
        for one, other in self.edges:
            source, target = position.get(id(one)), position.get(id(other))
            if source is not None and target is not None and source != target:
                above[target].append(source)
        placed = list(enumerate(flat(nodes), len(inputs)))
        defined = {node.name: place for place, node in placed if isinstance(node, Region)}
        for place, node in placed:
            if isinstance(node, Again) and node.region in defined:  # below what it calls
                above[place].append(defined[node.region])
        return above


def _lay_out(boxes: Sequence[Box], above: Sequence[Sequence[int]]) -> float:
    """Move boxes into layers, centred on x = 0. Returns the height of all layers together."""
    layers: list[int] = []
    for parents in above:
        layers.append(1 + max((layers[p] for p in parents), default=-1))
    y = 0.0
    for number in range(max(layers, default=-1) + 1):
        row = [i for i, layer in enumerate(layers) if layer == number]

        def mean_parent_x(i: int) -> float:
            return sum(boxes[p].middle for p in above[i]) / len(above[i]) if above[i] else 0.0

        row.sort(key=mean_parent_x)
        width = sum(boxes[i].width for i in row) + _GAP * (len(row) - 1)
        x = -width / 2
        for i in row:
            boxes[i].move(x, y)
            x += boxes[i].width + _GAP
        y += max(boxes[i].height for i in row) + _GAP
    return max(0.0, y - _GAP)


def _sized(box: Box) -> Box:
    letters = max(len(box.text), 0.85 * len(box.note))
    box.width = letters * _LETTER + 2 * _PAD
    box.height = _NOTE if box.note else _LINE
    return box


def _route(edges: Iterable[tuple[Box, Box]], boxes: Sequence[Box]) -> tuple[tuple[str, ...], float]:
    """The SVG paths of the edges, and the x coordinate where the drawing ends on the right.

    An edge that would cross a node is routed in a lane to the right of all nodes in between.
    """
    right = max((box.x + box.width for box in boxes), default=0.0)
    nodes = [box for box in boxes if box.style != "region"]
    paths: list[str] = []
    lanes: list[tuple[float, float, float]] = []
    drawn: set[tuple[int, int]] = set()
    for one, other in edges:
        if (id(one), id(other)) in drawn:
            continue
        drawn.add((id(one), id(other)))
        between = [b for b in nodes if one.y + one.height < b.y + b.height / 2 < other.y]
        if not any(_meets(one, other, box) for box in between):
            paths.append(_curve(one, other))
            continue
        top, bottom = one.y + one.height / 2, other.y + other.height / 2
        lane = max(b.x + b.width for b in (one, other, *between)) + _LANE
        while any(abs(lane - x) < _LANE and top < low and high < bottom for x, high, low in lanes):
            lane += _LANE
        lanes.append((lane, top, bottom))
        right = max(right, lane)
        paths.append(
            f"M{one.x + one.width:.0f},{top:.0f}H{lane:.0f}V{bottom:.0f}H{other.x + other.width:.0f}"
            "l6,-3m-6,3l6,3"
        )
    return tuple(paths), right


def _meets(one: Box, other: Box, box: Box) -> bool:
    """Whether the straight line from `one` down to `other` runs through `box`."""
    start, end = one.y + one.height, other.y
    share = (box.y + box.height / 2 - start) / max(1.0, end - start)
    x = one.middle + share * (other.middle - one.middle)
    return box.x - 4 < x < box.x + box.width + 4


def _curve(one: Box, other: Box) -> str:
    x1, y1, x2, y2 = one.middle, one.y + one.height, other.middle, other.y
    lift = min(24.0, max(6.0, (y2 - y1) / 2))
    curve = (
        f"M{x1:.0f},{y1:.0f}C{x1:.0f},{y1 + lift:.0f} {x2:.0f},{y2 - lift:.0f} {x2:.0f},{y2:.0f}"
    )
    return f"{curve}l-3,-5m3,5l3,-5"


def _statement_text(statement: Statement) -> str:
    arguments = [_argument(argument) for argument in statement.arguments]
    arguments += [f"{name}={value!r}" for name, value in statement.options.items()]
    return line(
        f"{', '.join(statement.targets)} = {statement.op}({', '.join(arguments)})", _LONGEST
    )


def _argument(argument: Argument) -> str:
    if isinstance(argument, tuple):
        return f"[{', '.join(part.name for part in argument)}]"
    return argument.name if isinstance(argument, Ref) else _literal(argument)


def _literal(literal: Literal) -> str:
    return repr(literal.value)


def _title(region: Region) -> str:
    text = f"region {region.name}" + ("" if region.called else ", defined")
    if region.save:
        text += f", saves {', '.join(region.save)}"
    if not region.preserve_rng:
        text += ", random state not preserved"
    return line(text, 2 * _LONGEST)


def _note(fate: Fate) -> str:
    parts = []
    if fate.kept:
        parts.append("kept" if fate.kept == "all" else "kept by some")
    if fate.again:
        everywhere = len(fate.again) == len(DISCIPLINES)
        parts.append("runs again" if everywhere else f"runs again: {', '.join(fate.again)}")
    return ", ".join(parts)


def _words(case: Case) -> str:
    """A text description of the drawing, for screen readers."""
    regions = ", ".join(region.name for region in case.regions()) or "none"
    return f"The program as a graph of {len(case.statements())} operations; regions: {regions}."
