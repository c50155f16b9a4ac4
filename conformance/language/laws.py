"""Laws of growth: published formulas for how memory and executions grow, for instance with depth.

A case names a law and the value of its variable (`law: {name: …, at: $n}`). Memory is in activations
of the case, or in bytes; work is in executions of statements, in forward and backward. The report shows
the law beside the measurements. Verdicts go by what the reference counts; the suite's tests compare that
to the law.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal as OneOf

Quantity = OneOf["retained", "peak", "executions"]
QUANTITIES: tuple[Quantity, ...] = ("retained", "peak", "executions")
Formula = Callable[[int, Mapping[str, int]], float]


@dataclass(frozen=True)
class Growth:
    """A law: formulas for plain and recomputed runs, by quantity; it may have none for some.

    `at` names the law's variable, `unit` the unit of memory. `words` are the formulas as text.
    """

    title: str
    source: str
    at: str
    unit: OneOf["activations", "bytes"]
    plain: Mapping[Quantity, Formula]
    recomputed: Mapping[Quantity, Formula]
    words: Mapping[Quantity, str]
    constants: tuple[str, ...] = ()


_CHEN = "Chen et al. 2016, Training Deep Nets with Sublinear Memory Cost"


def _depth(n: int, _: Mapping[str, int]) -> float:
    return n


def _logarithm(n: int, _: Mapping[str, int]) -> float:
    return math.log2(n) + 1


def _layer(s: int, c: Mapping[str, int]) -> float:
    """Bytes of a transformer layer (Korthikanti et al.). Per element of its input: 16 values and 2 masks
    (34 bytes with 2-byte values); per attention score: 2 values and a mask (5 bytes). Here values have
    the width of the dtype."""
    b, h, a, width = c["b"], c["h"], c["a"], c["width"]
    return s * b * h * (16 * width + 2) + a * s * s * b * (2 * width + 1)


LAWS: Mapping[str, Growth] = {
    "sqrt-segments": Growth(
        title="A chain of n in √n segments",
        source=_CHEN,
        at="n",
        unit="activations",
        plain=dict.fromkeys(QUANTITIES, _depth),
        recomputed={
            "retained": lambda n, _: math.sqrt(n),
            "peak": lambda n, _: 2 * math.sqrt(n) - 1,
            "executions": lambda n, _: 2 * n - n / math.sqrt(n),
        },
        words={
            "retained": "n plain, √n recomputed",
            "peak": "n plain, 2√n − 1 recomputed",
            "executions": "n plain, 2n − n/√n recomputed",
        },
    ),
    "recursive-halving": Growth(
        title="A chain of n, each half recomputed from its start, recursively",
        source=_CHEN,
        at="n",
        unit="activations",
        plain=dict.fromkeys(QUANTITIES, _depth),
        recomputed={
            "retained": _logarithm,
            "peak": _logarithm,
            "executions": lambda n, _: n * (math.log2(n) + 2) / 2,
        },
        words={
            "retained": "n plain, log₂ n + 1 recomputed",
            "peak": "n plain, log₂ n + 1 recomputed",
            "executions": "n plain, n (log₂ n + 2) / 2 recomputed",
        },
    ),
    "each-layer": Growth(
        title="A chain of n layers, each of them recomputed",
        source=_CHEN,
        at="n",
        unit="activations",
        plain={"retained": lambda n, c: n * c["saved"]},
        recomputed={"retained": _depth},
        words={"retained": "n × (what a layer saves) plain, n recomputed"},
        constants=("saved",),
    ),
    "transformer-layer": Growth(
        title="A transformer layer over sequence length s",
        source="Korthikanti et al. 2022, Reducing Activation Recomputation in Large Transformer Models",
        at="s",
        unit="bytes",
        plain={"retained": _layer},
        recomputed={"retained": lambda s, c: c["width"] * s * c["b"] * c["h"]},
        words={
            "retained": "s·b·h·(16w + 2 + (2w + 1)·a·s/h) plain, w·s·b·h recomputed: "
            "s·b·h·(34 + 5·a·s/h) and 2·s·b·h at a width w of 2 bytes"
        },
        constants=("b", "h", "a", "width"),
    ),
}
