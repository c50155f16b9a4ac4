"""What is run of a program, and in which order.

Three models are trained beside each other: without recomputation, once more without it (the control),
and with it. Each step of theirs is compared and forgotten before the next. Where the third one differs,
it is run again with every region called plainly, which tells whether recomputation is to blame.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, TypeVar

from msgspec.structs import replace

from conformance.model.checked import Bytes, Checked, Compared, Place, Raised
from conformance.observe.worker.checking.base import Trained
from conformance.observe.worker.checking.session import Given, ProgramError, Session, sizes

T = TypeVar("T")
#: Steps after the first of which memory is read again, where it seems to grow.
_GROWTH_STEPS = 4
#: Steps in which it is watched whether anything runs again: one may drop all layers that could.
_TRIES = 3


def check_training(session: Session, checked: Checked, steps: int, bisect: bool) -> Checked:
    """Check a program that has `model`, `batch` and `loss`."""
    told = replace(checked, tolerance=session.tolerance, tolerance_why=session.why)
    try:
        plain, control = session.made(False), session.made(False)
        control.start_as(plain)
        told = _counted(session, told, plain)
    except ProgramError as error:
        return replace(told, plain_raised=error.raised)
    try:
        recomputed = session.made(True)
        recomputed.start_as(plain)
    except ProgramError as error:
        return replace(told, raised=error.raised)
    told = _stepped(session, told, (plain, control, recomputed), steps)
    if told.plain_raised is not None:
        return told
    deviates = told.raised is not None or _deviates(told.compared)
    del control
    if told.raised is None:
        try:
            told = _measured(session, told, plain, recomputed, steps)
        except ProgramError as error:
            why = f"the program raises {error.raised.type} while the check watches what runs"
            told = replace(told, uncounted=why, unmeasured=why)
    del plain, recomputed
    gc.collect()
    return _explained(session, told, bisect) if deviates else told


def _counted(session: Session, checked: Checked, plain: Trained) -> Checked:
    trained = session.framework.leaves(plain.parameters())
    return replace(checked, size=sizes(trained), parameters=len(trained))


def _stepped(
    session: Session, checked: Checked, models: tuple[Trained, Trained, Trained], steps: int
) -> Checked:
    """The steps, until one is found to differ."""
    plain, control, recomputed = models
    compared: list[Compared] = []
    differs: tuple[Compared, ...] = ()
    seconds: list[tuple[float, float]] = []
    for step in range(steps):
        last = step == steps - 1
        try:
            first, second = session.step(plain, step), session.step(control, step)
            if last:
                first.given.update(session.state(plain))
                second.given.update(session.state(control))
        except ProgramError as error:
            return replace(checked, plain_raised=error.raised)
        if not differs:
            differs = tuple(
                one
                for one in session.compare(step, first.given, second.given, None)
                if one.wrong or one.largest
            )
        session.note(step == 0)
        try:
            third = session.step(recomputed, step)
            if last:
                third.given.update(session.state(recomputed))
        except ProgramError as error:
            checked = replace(checked, raised=error.raised)
            break
        finally:
            if step == 0:
                checked = replace(checked, regions=session.regions.taken())
        seconds.append((first.seconds, third.seconds))
        compared += session.compare(step, first.given, third.given, second.given)
        if _deviates(compared):
            break
    fastest = [min(column) for column in zip(*(seconds[1:] or seconds), strict=True)] or [0.0, 0.0]
    return replace(
        checked,
        steps=len(seconds),
        compared=tuple(compared),
        control=differs,
        seconds_plain=fastest[0],
        seconds_recomputed=fastest[1],
    )


def _deviates(compared: Sequence[Compared]) -> bool:
    """Whether something differs that must not."""
    return any(one.wrong and one.what != "buffers" for one in compared)


def _explained(session: Session, checked: Checked, bisect: bool) -> Checked:
    """What deviates, told from what switching recomputation on changes besides."""
    names = [region.name for region in checked.regions]
    if not names:
        why = f"no recompute function of {checked.framework} was called"
        return replace(checked, not_bisected=why)
    last = max(
        [one.step for one in checked.compared] + [checked.raised.step if checked.raised else 0]
    )

    def run(plainly: Callable[[str], bool]) -> tuple[tuple[Compared, ...], Raised | None]:
        session.through(plainly)
        try:
            return _compared_until(session, last), None
        except ProgramError as error:
            return (), error.raised
        finally:
            session.through(lambda name: False)
            gc.collect()

    through, raised = run(lambda name: True)
    checked = replace(checked, through=through, through_raised=raised)
    if not bisect or raised is not None or _deviates(through):
        return checked

    def deviates(recomputed: Sequence[str]) -> bool:
        found, error = run(lambda name: name not in recomputed)
        return error is not None or _deviates(found)

    return replace(checked, smallest=tuple(smallest(names, deviates)))


def _compared_until(session: Session, last: int) -> tuple[Compared, ...]:
    """Steps of a model without recomputation and of one with it, up to one that differs."""
    plain, recomputed = session.made(False), session.made(True)
    recomputed.start_as(plain)
    compared: list[Compared] = []
    for step in range(last + 1):
        first, second = session.step(plain, step), session.step(recomputed, step)
        compared = session.compare(step, first.given, second.given, None)
        if _deviates(compared):
            break
    return tuple(compared)


def smallest(whole: Sequence[T], holds: Callable[[Sequence[T]], bool]) -> Sequence[T]:
    """A subset, of the elements of a set for which something holds, that holds and of which no element
    can be left out. Fewer are tried at a time, first half of them."""
    size = (len(whole) + 1) // 2
    while size and len(whole) > 1:
        for start in range(0, len(whole), size):
            rest = [*whole[:start], *whole[start + size :]]
            if rest and holds(rest):
                whole = rest
                size = min(size, (len(whole) + 1) // 2)
                break
        else:
            size //= 2
    return whole


def _measured(
    session: Session, checked: Checked, plain: Trained, recomputed: Trained, steps: int
) -> Checked:
    """What runs again, and memory: steps of their own, in which these are watched."""
    framework = session.framework
    hidden = framework.hidden()
    if hidden:
        return replace(checked, uncounted=hidden, unmeasured=hidden)
    for watched in range(steps, steps + _TRIES):
        before, counts, _ = _watched(session, plain, watched, 1)
        after, again, held = _watched(session, recomputed, watched, 2)
        if any(number > counts.get(name, 0) for name, number in again.items()):
            break
    for _ in range(framework.peak_steps - 1):
        before = _larger(before, _watched(session, plain, steps, 1)[0])
        after = _larger(after, _watched(session, recomputed, steps, 1)[0])
    if checked.regions and any(number > 2 * counts.get(n, 0) for n, number in again.items()):
        through = _called_through(session, steps)
        # What a place does more than plain, and does as well if it is called plainly, is no rerun.
        counts = {**counts, **{n: m for n, m in again.items() if through.get(n) == m}}
    grown_plain: Sequence[int] = ()
    resolution = framework.observer.resolution
    if len(held) > 1 and held[-1] - held[0] > resolution:  # once may be a cache that fills
        _, _, held = _watched(session, recomputed, steps + 2, _GROWTH_STEPS)
        _, _, grown_plain = _watched(session, plain, steps + 1, _GROWTH_STEPS)
    names = {**counts, **again}
    places = (Place(name, counts.get(name, 0), again.get(name, 0)) for name in names)
    return replace(
        checked,
        places=tuple(places),
        uncounted=framework.uncounted,
        memory_plain=before,
        memory_recomputed=after,
        peak_varies=framework.peak_steps > 1,
        unmeasured=framework.unmeasured,
        grown=tuple(one - held[0] for one in held),
        grown_plain=tuple(one - grown_plain[0] for one in grown_plain),
        resolution=resolution,
    )


def _larger(first: Bytes, second: Bytes) -> Bytes:
    """The bytes of two steps alike, with the larger peak."""
    return first if (first.peak or 0) >= (second.peak or 0) else second


def _called_through(session: Session, step: int) -> Mapping[str, int]:
    """The counts of a model with recomputation and every region called plainly: switching it on may have
    changed something besides, such as a cache that is switched off. Empty where that raises."""
    session.through(lambda name: True)
    try:
        return _watched(session, session.made(True), step, 1)[1]
    except ProgramError:
        return {}
    finally:
        session.through(lambda name: False)


def _watched(
    session: Session, trained: Trained, first: int, number: int
) -> tuple[Bytes, Mapping[str, int], list[int]]:
    """Memory and counts of a step, and the bytes held after each of `number` steps."""
    framework, observer = session.framework, session.framework.observer
    held: dict[str, int | None] = {}
    counts: Mapping[str, int] = {}
    after: list[int] = []
    peak: int | None = None

    def on_phase(phase: str, holds: Any) -> None:
        if phase in held:
            return
        observer.settle()
        now = observer.held()
        if phase == "backward" and now is not None:
            distinct = {observer.identity(t): observer.nbytes(t) for t in _flat(holds)}
            now -= sum(distinct.values())
        held[phase] = now
        if phase == "forward":
            observer.reset_peak()

    with ExitStack() as stack:
        stack.enter_context(framework.watching())
        for index in range(number):
            session.watch.on_phase = on_phase if index == 0 else lambda phase, holds: None
            session.watch.reading = index == 0
            try:
                if index == 0:
                    with framework.counting(trained) as counting:
                        session.step(trained, first, read=False)
                    counts, peak = counting(), observer.peak()
                else:
                    session.step(trained, first + index, read=False)
            finally:
                session.watch.on_phase = lambda phase, holds: None
                session.watch.reading = False
            observer.settle()
            now = observer.held()
            if now is not None:
                after.append(now)
    start, kept = held.get("forward"), held.get("backward")
    if start is None:
        return Bytes(), counts, after
    batch = session.file.batch
    beyond = framework.peak_of(trained, batch(first)) if peak is None else peak - start
    left = after[0] - start if after else None
    return Bytes(None if kept is None else kept - start, beyond, left), counts, after


def _flat(value: Any) -> list[Any]:
    if isinstance(value, tuple | list):
        return [leaf for part in value for leaf in _flat(part)]
    if isinstance(value, Mapping):
        return [leaf for part in value.values() for leaf in _flat(part)]
    return [value]


def check_program(session: Session, checked: Checked, steps: int, bisect: bool) -> Checked:
    """Check a program that has `plain`, `recomputed` and `run`: hold what `run` returns for both."""

    def run(path: str) -> Given:
        session.seed(1)
        session.tell("with recomputation" if path == "recomputed" else "without recomputation")
        session.watch.phase = "run"
        with session.catching(0):
            returned = session.file.run(getattr(session.file, path))
            return {"outputs": session.values(returned), "random state": session.framework.drawn()}

    told = replace(checked, tolerance=session.tolerance, tolerance_why=session.why)
    try:
        plain, control = run("plain"), run("plain")
    except ProgramError as error:
        return replace(told, plain_raised=error.raised)
    differs = session.compare(0, plain, control, None)
    told = replace(told, control=tuple(one for one in differs if one.wrong or one.largest))
    session.note(True)
    try:
        recomputed = run("recomputed")
    except ProgramError as error:
        return replace(told, raised=error.raised, regions=session.regions.taken())
    told = replace(told, regions=session.regions.taken(), steps=1)
    session.note(False)
    compared = session.compare(0, plain, recomputed, control)
    return replace(told, compared=tuple(compared), uncounted="a program of this form has no layers")
