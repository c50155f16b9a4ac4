"""Checks the models of transformers that support gradient checkpointing; writes `docs/models.md`.

Each class of `MODELS` is made small, with random weights (`tools/model_program.py`), and checked in
both modes of `torch.utils.checkpoint`, each in a process of its own. Run it where PyTorch and
transformers are installed: `python -m tools.models`. `--only GPT2 Bert` checks the classes whose names
contain one of these words, and writes no page.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.metadata
import multiprocessing
import os
import re
import resource
import signal
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PROGRAM = ROOT / "tools" / "model_program.py"
PAGE = ROOT / "docs" / "models.md"
#: The mappings of transformers' automatic classes whose models are checked.
MODELS = (
    *("CAUSAL_LM", "MASKED_LM", "SEQ_TO_SEQ_CAUSAL_LM"),
    *("IMAGE_CLASSIFICATION", "AUDIO_CLASSIFICATION", "CTC", "SPEECH_SEQ_2_SEQ"),
)
MODES = ("non-reentrant", "reentrant")
STEPS = 3
#: Seconds of processor time for one model in one mode, and how often that much time it may take.
LIMIT, WAITING = 120, 10


class Outcome(NamedTuple):
    """What became of a model in a mode: `kind` is `right`, `wrong`, `rounding` (only the last digits
    differ), `not repeatable` or `not checked`, and `words` say more."""

    kind: str
    words: str = ""


def classes() -> list[str]:
    """The names of the classes, each once, that support gradient checkpointing."""
    import transformers
    from transformers.models.auto import modeling_auto

    found: dict[str, None] = {}
    for kind in MODELS:
        for names in getattr(modeling_auto, f"MODEL_FOR_{kind}_MAPPING_NAMES").values():
            found |= dict.fromkeys([names] if isinstance(names, str) else names)
    return [
        name
        for name in found
        if getattr(getattr(transformers, name, None), "supports_gradient_checkpointing", False)
    ]


def check(name: str, mode: str) -> Outcome:
    """Check one class in this process, which has imported the framework."""
    import torch

    from conformance.checking.judge import is_right, judge
    from conformance.drivers.modules import load_file, load_module
    from conformance.model.checked import Checked
    from conformance.model.verdict import Status
    from conformance.observe.worker.checking.session import Session, raised_by
    from conformance.observe.worker.checking.steps import check_training

    torch.set_num_threads(1)
    os.environ |= {"MODEL": name, "REENTRANT": str(int(mode == "reentrant"))}
    framework = load_module(ROOT / "adapters" / "torch", "checking").Framework()
    regions = framework.regions(str(PROGRAM))
    try:
        file = load_file(PROGRAM, "checked_program")
    except Exception as error:
        return Outcome("not checked", _raised(raised_by(error, str(PROGRAM), 0, "import").message))
    session = Session(framework, file, str(PROGRAM), regions)
    checked = check_training(session, Checked("torch", {}, unit="operations"), STEPS, False)
    lines = judge(checked)
    if checked.plain_raised is not None:
        return Outcome("not checked", _raised(checked.plain_raised.message))
    if not is_right(lines):
        wrong = [one for one in lines if one.status in (Status.FAIL, Status.CRASHED)]
        return Outcome("wrong", "; ".join(f"{one.check}: {one.message}" for one in wrong))
    noted = {one.check for one in lines if one.status is Status.REPORT} - {"time"}
    if "repeats" in noted:
        return Outcome("not repeatable")
    if noted:
        return Outcome("rounding", ", ".join(sorted(noted)))
    buffers = [one.message for one in lines if one.check == "buffers" and one.status is Status.WARN]
    return Outcome("right", *buffers)


def _raised(message: str) -> str:
    return re.sub(r"\s+", " ", message)[:160]


def _answer(connection: Connection, name: str, mode: str) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT))
    with Path(os.devnull).open("w") as nothing, contextlib.redirect_stdout(nothing):
        os.dup2(nothing.fileno(), 2)
        try:
            outcome = check(name, mode)
        except BaseException as error:
            outcome = Outcome("not checked", _raised(f"{type(error).__name__}: {error}"))
    connection.send(outcome)


def checked_apart(name: str, mode: str) -> Outcome:
    """Check a class in a copy of this process: one that dies or hangs takes nothing with it."""
    fork = multiprocessing.get_context("fork")
    ours, theirs = fork.Pipe()
    process = fork.Process(target=_answer, args=(theirs, name, mode))
    process.start()
    theirs.close()
    try:
        if not ours.poll(LIMIT * WAITING):
            return Outcome("not checked", f"no answer within {LIMIT * WAITING} s")
        outcome: Outcome = ours.recv()
    except EOFError:
        process.join()
        if process.exitcode == -signal.SIGXCPU:
            return Outcome("not checked", f"took more than {LIMIT} s of processor time")
        return Outcome("wrong", f"the process ended with status {process.exitcode}")
    finally:
        process.kill()
        process.join()
    return outcome


def page(found: Mapping[str, Mapping[str, Outcome]]) -> Iterator[str]:
    """The lines of the page."""
    version = {name: importlib.metadata.version(name) for name in ("transformers", "torch")}
    yield "# Models of transformers"
    yield ""
    yield f"`python -m tools.models` made this page with transformers {version['transformers']} and"
    yield f"torch {version['torch']}. It checks model classes that support gradient checkpointing, made"
    yield f"small and with random weights, for {STEPS} steps of training with dropout, as"
    yield "[`conformance check`](check.md) does: losses, gradients, parameters, buffers and random state"
    yield "with `gradient_checkpointing_enable()` are held to those without it. To see one result again:"
    yield ""
    yield "```console"
    yield "$ MODEL=GPT2LMHeadModel REENTRANT=0 conformance check tools/model_program.py"
    yield "```"
    yield ""
    kinds = ("right", "rounding", "wrong", "not repeatable", "not checked")
    yield f"| mode | {' | '.join(kinds)} |"
    yield f"|---|{'---:|' * len(kinds)}"
    for mode in MODES:
        counts = [sum(of[mode].kind == kind for of in found.values()) for kind in kinds]
        yield f"| {mode} | {' | '.join(map(str, counts))} |"
    yield ""
    yield "`rounding`: enabling gradient checkpointing also changes another setting, such as the cache,"
    yield "and only the last digits differ. `not repeatable`: two runs without recomputation differ."
    yield "`not checked`: the small model cannot be made, or does not run on the inputs that"
    yield "`tools/model_program.py` gives it."
    for title, kind in (
        ("Wrong", "wrong"),
        ("Only the last digits differ", "rounding"),
        ("Not repeatable", "not repeatable"),
        ("Not checked", "not checked"),
    ):
        groups = _groups(found, kind)
        if groups:
            yield from ("", f"## {title}", "", "| model | mode | what was seen |", "|---|---|---|")
        for (words, modes), names in groups.items():
            said = words.replace("|", "\\|").replace("<", "\\<") or "–"
            yield f"| {', '.join(names)} | {', '.join(modes)} | {said} |"
    right = sorted(
        name for name, of in found.items() if all(of[mode].kind == "right" for mode in MODES)
    )
    yield from ("", "## Right in both modes", "", ", ".join(right) + ".")
    yield from _buffers(found)


def _groups(
    found: Mapping[str, Mapping[str, Outcome]], kind: str
) -> Mapping[tuple[str, tuple[str, ...]], Sequence[str]]:
    """The names of the classes with an outcome, by its words and modes."""
    by_name: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, of in found.items():
        for mode in MODES:
            if of[mode].kind == kind:
                by_name[name, of[mode].words].append(mode)
    groups: dict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for (name, words), modes in by_name.items():
        groups[words, tuple(modes)].append(name)
    return groups


def _buffers(found: Mapping[str, Mapping[str, Outcome]]) -> Iterator[str]:
    named = (
        n for n, of in found.items() if any(o.kind == "right" and o.words for o in of.values())
    )
    names = sorted(named)
    if names:
        yield ""
        yield "Buffers, such as the statistics of a batch normalization, differ in these, as they do in"
        yield f"every framework where a region with one runs twice: {', '.join(names)}."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=[])
    only = parser.parse_args().only
    # What every process needs is imported before they part.
    for module in ("torch.utils.checkpoint", "transformers", "conformance.checking.judge"):
        importlib.import_module(module)

    found: dict[str, dict[str, Outcome]] = {}
    for name in classes():
        if only and not any(word in name for word in only):
            continue
        found[name] = {mode: checked_apart(name, mode) for mode in MODES}
        print(
            name,
            *(f"{m}: {o.kind} {o.words}" for m, o in found[name].items()),
            sep="\n  ",
            flush=True,
        )
    if not only:
        PAGE.write_text("\n".join(page(found)) + "\n", "utf-8")


if __name__ == "__main__":
    main()
