"""What was observed of a program, judged: a line for each thing that recomputation promises."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from conformance.model.checked import Checked, Compared, Differs, Place, Raised
from conformance.model.verdict import Level, Status
from conformance.words import counted, line

#: What a comparison is called in a report.
TITLES = {
    "loss": "loss",
    "outputs": "outputs",
    "gradients": "gradients",
    "parameters": "parameters",
    "buffers": "buffers",
    "random state": "random state",
}
#: How many times what rounding explains arrays may differ for which switching recomputation on, and no
#: region, is to blame.
_NEAR = 10.0
#: What is said where the program deviates, too, if every region is called plainly.
_ALSO = (
    "With every region called plainly it deviates, too: look at what else recomputation switches in "
    "this program, or at what is around the framework's recompute function."
)
_ROUNDED = (
    "With every region called plainly it differs, too, and in the last digits only: recomputation "
    "switches something else in this program, such as a cache."
)
_UNSEEDED = (
    "With every region called plainly it differs, too, and so do two runs without recomputation."
)
#: How much more than plain the peak may be before it is worth a warning.
_MORE = 1.05
#: What is compared after the last step only.
_LAST = ("parameters", "buffers")
#: How many layers that did not run again are named.
_NAMED = 4


class Line(NamedTuple):
    """One line of the result: what was checked, the outcome, and what was observed."""

    check: str
    status: Status
    level: Level
    message: str
    details: tuple[str, ...] = ()


def judge(checked: Checked) -> tuple[Line, ...]:
    """The lines of the result, with errors first."""
    if checked.plain_raised is not None:
        said = f"without recomputation the program raised {_raised(checked.plain_raised)}"
        return (Line("error", Status.BROKEN, Level.MUST, said),)
    lines = [*_errors(checked)]
    if any(one.number for one in checked.compared):
        lines += _comparisons(checked)
    lines += _ran_again(checked)
    if checked.raised is None and not any(one.status is Status.FAIL for one in lines):
        lines += _costs(checked)
    return tuple(lines)


def is_right(lines: Sequence[Line]) -> bool:
    """Whether nothing that must hold is violated."""
    return not any(
        one.level is Level.MUST and one.status in (Status.FAIL, Status.BROKEN, *_ENDED)
        for one in lines
    )


_ENDED = (Status.CRASHED, Status.TIMEOUT)


def _errors(checked: Checked) -> Iterator[Line]:
    if checked.raised is None:
        return
    said = f"raised {_raised(checked.raised).rstrip('.')}; without recomputation it runs"
    also = (_ALSO,) if checked.through_raised is not None else ()
    yield Line("error", Status.FAIL, Level.MUST, said, also)
    yield from _of_regions(checked)


def _comparisons(checked: Checked) -> Iterator[Line]:
    besides = any(one.wrong for one in checked.through)
    must = [one for one in checked.compared if one.wrong and one.what != "buffers"]
    rounding = besides and all(_is_near(one) for one in must)
    for what in TITLES:
        of = [one for one in checked.compared if one.what == what]
        if not any(one.number or one.wrong for one in of):
            continue
        wrong = next((one for one in of if one.wrong), None)
        if wrong is None:
            yield Line(what, Status.PASS, Level.MUST, _equal(what, of, checked))
            continue
        said, details = _different(what, wrong, checked), _listed(wrong)
        off = [one.name for one in checked.regions if "preserve-rng-off" in one.features]
        if off and what == "random state":
            details += (f"regions that are told not to preserve it: {', '.join(off[:_NAMED])}",)
        if rounding:
            yield Line(
                what,
                Status.REPORT,
                Level.REPORT,
                said,
                (*details, _UNSEEDED if checked.control else _ROUNDED),
            )
        else:
            also = (_ALSO,) if besides else ()
            status, level = (Status.FAIL, Level.MUST)
            if what == "buffers":  # as batch statistics do in every framework
                status, level = (Status.WARN, Level.SHOULD)
            yield Line(what, status, level, said, (*details, *also))
    if checked.raised is None and must and not rounding:
        yield from _of_regions(checked)
    if checked.control:
        first = checked.control[0]
        name = first.differs[0].name if first.differs else first.what
        told = (
            f"two runs without recomputation differ, first in {name} at step {first.step}: "
            "something is not seeded; the rest is judged within that spread"
        )
        yield Line("repeats", Status.REPORT, Level.REPORT, told, _listed(first))


def _is_near(one: Compared) -> bool:
    """Whether arrays differ in the last digits, at most."""
    return all(
        worst.kind == "values" and worst.distance <= _NEAR * worst.allowed for worst in one.differs
    )


def _equal(what: str, of: Sequence[Compared], checked: Checked) -> str:
    number = of[-1].number
    if what == "random state":
        return "the same after each step"
    several = counted(number, {"gradients": "parameter"}.get(what, "array"))
    where = "in all steps" if checked.steps > 1 and what not in _LAST else ""
    largest = max(one.largest for one in of)
    varies = any(one.what == what for one in checked.control)
    near = "as near as two plain runs" if varies else "equal up to rounding"
    words = f"{near} ({largest:.1e} of the largest element)" if largest or varies else "equal"
    told = [words, where, f"({several})" if what != "loss" else ""]
    return " ".join(word for word in told if word)


def _different(what: str, wrong: Compared, checked: Checked) -> str:
    first = wrong.differs[0]
    at = f" in step {wrong.step}" if checked.steps > 1 or wrong.step else ""
    if what == "random state":
        names = " and ".join(one.name for one in wrong.differs)
        return f"not where it is without recomputation{at}: {names}"
    if what == "loss":
        return f"{first.recomputed}, but {first.plain} without recomputation{at}"
    return f"{wrong.wrong} of {wrong.number} differ{at}, most {_one(first)}"


def _one(one: Differs) -> str:
    """How one array differs, in words."""
    match one.kind:
        case "missing":
            return f"{one.name}: none, but {one.plain} without recomputation"
        case "extra":
            return f"{one.name}: {one.recomputed}, but none without recomputation"
        case "shape" | "dtype":
            return f"{one.name}: {one.kind} {one.recomputed}, but {one.plain} without recomputation"
        case "zeros":
            return f"{one.name}: all zero, but {one.plain} at {_place(one)} without recomputation"
        case _:
            return f"{one.name}{_at(one)}: {one.recomputed}, but {one.plain} without recomputation"


def _place(one: Differs) -> str:
    return f"[{', '.join(map(str, one.place))}]"


def _at(one: Differs) -> str:
    return _place(one) if one.place else ""


def _listed(wrong: Compared) -> tuple[str, ...]:
    return tuple(_one(one) for one in wrong.differs[1:])


def _of_regions(checked: Checked) -> Iterator[Line]:
    if checked.smallest:
        said = f"the deviation needs {', '.join(checked.smallest)}; all others may be recomputed"
        yield Line("regions", Status.REPORT, Level.REPORT, said)
    elif checked.not_bisected:
        yield Line("regions", Status.UNSUPPORTED, Level.REPORT, checked.not_bisected)


def _ran_again(checked: Checked) -> Iterator[Line]:
    if checked.raised is not None or not (checked.places or checked.uncounted):
        return
    if checked.uncounted:
        yield Line("ran again", Status.UNSUPPORTED, Level.SHOULD, checked.uncounted)
        return
    leaves = [place for place in checked.places if place.plain]
    first = sum(place.plain for place in leaves)
    again = sum(min(max(0, p.recomputed - p.plain), p.plain) for p in leaves)
    more = [place for place in leaves if place.recomputed > 2 * place.plain]
    if not again:
        said = f"inert: none of {first} {checked.unit} ran again, so nothing is recomputed"
        yield Line("ran again", Status.FAIL, Level.MUST, said)
        return
    calls = sum(region.calls for region in checked.regions)
    regions = f", in {counted(calls, 'region')}" if calls else ""
    part = f"{100 * again / first:.0f} % of the forward pass"
    said = f"{part} ({again} of {first} {checked.unit}){regions}"
    never = _outermost([p for p in leaves if p.recomputed <= p.plain], leaves)
    details = []
    if never:
        rest = f" and {len(never) - _NAMED} more" if len(never) > _NAMED else ""
        details.append(f"not recomputed: {', '.join(never[:_NAMED])}{rest}")
    if more:
        names = ", ".join(place.name for place in more[:_NAMED])
        details.append(f"ran again more than once: {names}")
    status = Status.WARN if more else Status.PASS
    yield Line("ran again", status, Level.SHOULD, said, tuple(details))


def _outermost(never: Sequence[Place], all_places: Sequence[Place]) -> list[str]:
    """The names of layers of which nothing ran again, without those inside one that is named."""
    again = {place.name for place in all_places} - {place.name for place in never}
    names: list[str] = []
    for place in never:
        parts = place.name.split(".")
        for end in range(1, len(parts) + 1):
            outer = ".".join(parts[:end])
            if not any(name == outer or name.startswith(f"{outer}.") for name in again):
                if outer not in names:
                    names.append(outer)
                break
    return names


def _costs(checked: Checked) -> Iterator[Line]:
    plain, recomputed = checked.memory_plain, checked.memory_recomputed
    told = []
    if plain.kept and recomputed.kept is not None:
        told.append(f"kept until backward {_share(recomputed.kept, plain.kept)} of plain")
    if plain.peak and recomputed.peak is not None:
        told.append(f"peak {_peak(recomputed.peak, plain.peak, checked.peak_varies)}")
    if told:
        saves = not plain.peak or (recomputed.peak or 0) <= _MORE * plain.peak
        status = Status.PASS if saves else Status.WARN
        yield Line("memory", status, Level.SHOULD, ", ".join(told))
    elif checked.unmeasured:
        yield Line("memory", Status.UNSUPPORTED, Level.SHOULD, checked.unmeasured)
    yield from _growth(checked)
    if checked.seconds_plain:
        ratio = checked.seconds_recomputed / checked.seconds_plain
        yield Line("time", Status.REPORT, Level.REPORT, f"{ratio:.2f} × plain")


def _growth(checked: Checked) -> Iterator[Line]:
    if not checked.grown:
        return
    grown, plain = _per_step(checked.grown), _per_step(checked.grown_plain)
    if grown <= checked.resolution or grown <= plain + checked.resolution:
        left = (checked.memory_recomputed.left or 0) - (checked.memory_plain.left or 0)
        if left <= checked.resolution:
            yield Line("growth", Status.PASS, Level.SHOULD, "nothing grows over steps")
            return
        said = f"nothing grows over steps, but {left:,} bytes more than plain are left after each"
        yield Line("growth", Status.REPORT, Level.REPORT, said)
        return
    said = f"{grown:,.0f} bytes more are held after each step, {plain:,.0f} without recomputation"
    yield Line("growth", Status.FAIL, Level.SHOULD, said)


def _per_step(grown: Sequence[int]) -> float:
    """The least growth from one step to the next: what fills once does not grow."""
    return float(min((second - first for first, second in pairwise(grown)), default=0))


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %"


def _peak(part: int, whole: int, varies: bool) -> str:
    """The peak, of plain: only whether it is lower where it differs from run to run."""
    if not varies:
        return _share(part, whole)
    if part > _MORE * whole:
        return "higher than plain"
    return "lower than plain" if part * _MORE < whole else "like plain"


def _raised(raised: Raised) -> str:
    where = f" (line {raised.where})" if raised.where else ""
    phase = f" in {raised.phase}" if raised.phase else ""
    step = f" of step {raised.step}" if raised.step else ""
    return f"{raised.type}{phase}{step}{where}: {line(raised.message)}"


def conclusion(name: str, checked: Checked, lines: Sequence[Line]) -> str:
    """The result in one sentence."""
    if any(one.status is Status.BROKEN for one in lines):
        return f"{name} cannot be checked: it does not run without recomputation."
    if any(one.status in _ENDED for one in lines):
        return f"{name} was not checked to its end."
    if not is_right(lines):
        wrong = [
            one.check for one in lines if one.level is Level.MUST and one.status is not Status.PASS
        ]
        if wrong == ["ran again"]:
            return f"{name} recomputes nothing."
        return f"{name} is not right with recomputation: {', '.join(wrong)}."
    plain, recomputed = checked.memory_plain, checked.memory_recomputed
    if plain.peak and recomputed.peak is not None and recomputed.peak < plain.peak:
        if not checked.peak_varies:
            saved = _share(plain.peak - recomputed.peak, plain.peak)
            return f"{name} is right, and saves {saved} of the peak."
        if recomputed.peak * _MORE < plain.peak:
            return f"{name} is right, and lowers the peak."
    return f"{name} is right."
