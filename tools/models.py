"""Checks the models of transformers that support gradient checkpointing; writes `docs/models.md`.

Each class of `MODELS` is made small, with random weights (`tools/model_program.py`), and checked in
both modes of `torch.utils.checkpoint`, each in a process of its own. Run it where PyTorch and
transformers are installed: `python -m tools.models`. `--only GPT2 Bert` checks the classes whose names
contain one of these words, and writes no page. `--results FILE` keeps each outcome in a file and takes
those that are there, so that a run can be continued; `--processes 2` checks two models at once.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import importlib.metadata
import json
import multiprocessing
import os
import re
import resource
import signal
import time
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import NamedTuple

from conformance.words import escape

ROOT = Path(__file__).parents[1]
PROGRAM = ROOT / "tools" / "model_program.py"
PAGE = ROOT / "docs" / "models.md"
#: The mappings of transformers' automatic classes whose models are checked, with what they are for and
#: how the names of most of their classes end.
MODELS = {
    "CAUSAL_LM": ("causal language models", "ForCausalLM"),
    "MASKED_LM": ("masked language models", "ForMaskedLM"),
    "SEQ_TO_SEQ_CAUSAL_LM": ("encoders with decoders", "ForConditionalGeneration"),
    "IMAGE_CLASSIFICATION": ("image classification", "ForImageClassification"),
    "AUDIO_CLASSIFICATION": ("audio classification", "ForSequenceClassification"),
    "CTC": ("speech, with CTC", "ForCTC"),
    "SPEECH_SEQ_2_SEQ": ("speech to text", "ForConditionalGeneration"),
}
MODES = ("non-reentrant", "reentrant")
STEPS = 3
#: Seconds of processor time for one model in one mode, and how often that much time it may take.
LIMIT, WAITING = 120, 10
#: What comes before the models of an outcome that is not right.
SAID = {
    "wrong": "Wrong:",
    "rounding": "Gradient checkpointing also changes another setting, such as the cache; only the last "
    "digits differ:",
    "right, more left": "Right, but more memory is left after each step than without recomputation:",
    "not repeatable": "Two runs without recomputation differ, and the rest is right within that:",
    "not checked": "Not checked, because the small model cannot be made or run:",
}
#: Why models with relative embeddings that are normalized once for all layers are not right.
_SHARED = (
    "RuntimeError in backward: the normalized relative embeddings, which layers are given by keyword, "
    "are differentiated for each layer anew. So are DebertaV2's with norm_rel_ebd='layer_norm'"
)
#: Why backward of WavLM does not end.
_RETURNED = (
    "backward does not end: layers return the position bias that they are given by keyword, and its "
    "gradient is then that of the layer itself, which calls itself again and again"
)
#: Why some classes are not right or not checked, where the words of the error do not tell.
REASONS = {
    "RecurrentGemmaForCausalLM": "the recurrent state that the model keeps holds the graph of the step",
    "Dots3NoteForCausalLM": "it has no number of heads that is the same for all layers",
    "Gemma3nForConditionalGeneration": "it needs timm",
    "Gemma4AssistantForCausalLM": "it reads the keys and values of another model",
    "Gemma4UnifiedAssistantForCausalLM": "it reads the keys and values of another model",
    "GitForCausalLM": "without labels, RuntimeError in backward: the model keeps its cache, and the "
    "recomputation extends it once more. It is right with labels or with use_cache=False",
    "PvtV2ForImageClassification": "all gradients but the head's are missing, without an error: the "
    "first region has the pixels as its only input, which need no gradient",
    "SEWDForCTC": _SHARED,
    "SEWDForSequenceClassification": _SHARED,
    "SpeechT5ForSpeechToText": "RuntimeError in backward: the encoder's relative positions, which "
    "layers are given by keyword, are differentiated for each layer anew",
    "WavLMForCTC": _RETURNED,
    "WavLMForSequenceClassification": _RETURNED,
    "VoxtralRealtimeForConditionalGeneration": "it needs audio beside token ids",
}


class Outcome(NamedTuple):
    """What became of a model in a mode: `kind` is `right`, `wrong`, `rounding` (only the last digits
    differ), `right, more left` (memory after a step), `not repeatable` or `not checked`, and `words` say
    more."""

    kind: str
    words: str = ""


def classes() -> Mapping[str, str]:
    """The classes that support gradient checkpointing, by name, and the mapping of each."""
    import transformers
    from transformers.models.auto import modeling_auto

    found: dict[str, str] = {}
    for kind in MODELS:
        for names in getattr(modeling_auto, f"MODEL_FOR_{kind}_MAPPING_NAMES").values():
            for name in [names] if isinstance(names, str) else names:
                found.setdefault(name, kind)
    return {
        name: kind
        for name, kind in found.items()
        if getattr(getattr(transformers, name, None), "supports_gradient_checkpointing", False)
    }


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
    if noted == {"growth"}:
        return Outcome("right, more left")
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


class Running(NamedTuple):
    """A class that a copy of this process checks: one that dies or hangs takes nothing with it."""

    name: str
    mode: str
    process: ForkProcess
    answers: Connection
    until: float

    def outcome(self) -> Outcome:
        """What became of it. Ends the process."""
        try:
            if not self.answers.poll():
                return Outcome("wrong", f"no answer within {LIMIT * WAITING} s")
            outcome: Outcome = self.answers.recv()
            return outcome
        except EOFError:
            self.process.join()
            if self.process.exitcode == -signal.SIGXCPU:
                return Outcome("not checked", f"took more than {LIMIT} s of processor time")
            return Outcome("wrong", f"the process ended with status {self.process.exitcode}")
        finally:
            self.process.kill()
            self.process.join()
            self.answers.close()


def _start(name: str, mode: str) -> Running:
    fork = multiprocessing.get_context("fork")
    ours, theirs = fork.Pipe()
    process = fork.Process(target=_answer, args=(theirs, name, mode))
    process.start()
    theirs.close()
    return Running(name, mode, process, ours, time.monotonic() + LIMIT * WAITING)


def checked_apart(
    wanted: Iterable[tuple[str, str]], processes: int
) -> Iterator[tuple[str, str, Outcome]]:
    """Check classes in modes, so many at once, and give the outcome of each when it is there."""
    waiting, running = deque(wanted), list[Running]()
    while waiting or running:
        while waiting and len(running) < processes:
            running.append(_start(*waiting.popleft()))
        left = min(one.until for one in running) - time.monotonic()
        ready = wait([one.answers for one in running], max(0, left))
        for one in list(running):
            if one.answers in ready or one.until <= time.monotonic():
                running.remove(one)
                yield one.name, one.mode, one.outcome()


def page(found: Mapping[str, Mapping[str, Outcome]], kinds: Mapping[str, str]) -> Iterator[str]:
    """The lines of the page: `found` has the outcomes of each class by mode, `kinds` its mapping."""
    version = {name: importlib.metadata.version(name) for name in ("transformers", "torch")}
    yield "# Models of transformers"
    yield ""
    yield (
        f"`python -m tools.models` makes this page (transformers {version['transformers']}, torch "
        f"{version['torch']}). It checks each model that supports gradient checkpointing, small, with "
        f"random weights and dropout, {STEPS} training steps, as [`conformance check`](check.md) does. "
        "One: `MODEL=GPT2LMHeadModel REENTRANT=0 conformance check tools/model_program.py`."
    )
    yield ""
    yield f"| models | {' | '.join(f'right, {mode}' for mode in MODES)} | right in both modes |"
    yield f"|---|{'---:|' * len(MODES)}---|"
    for kind, (title, end) in MODELS.items():
        of = {name: found[name] for name in found if kinds[name] == kind}
        counts = (_share([modes[mode] for modes in of.values()]) for mode in MODES)
        right = (
            n for n, modes in of.items() if all(o.kind.startswith("right") for o in modes.values())
        )
        names = ", ".join(sorted(name.removesuffix(end) for name in right))
        yield f"| {title} (`…{end}`) | {' | '.join(counts)} | {names} |"
    for kind, title in SAID.items():
        groups = _groups(found, kind)
        if groups:
            yield from ("", title, "")
        for (words, modes), alike in groups.items():
            where = "" if len(modes) == len(MODES) else f" ({modes[0]})"
            yield f"- {', '.join(alike)}{where}{f': {escape(words)}' if words else ''}"
    names = ", ".join(sorted(n for n, of in found.items() if any(map(_has_buffers, of.values()))))
    if names:
        yield ""
        yield f"Statistics of batch normalizations differ, as in every framework: {names}."


def _share(outcomes: Sequence[Outcome]) -> str:
    """How many outcomes are right, of those that were checked."""
    kinds = [outcome.kind for outcome in outcomes if outcome.kind != "not checked"]
    return f"{sum(kind.startswith('right') for kind in kinds)} of {len(kinds)}"


def _has_buffers(outcome: Outcome) -> bool:
    return outcome.kind == "right" and bool(outcome.words)


def _groups(
    found: Mapping[str, Mapping[str, Outcome]], kind: str
) -> Mapping[tuple[str, tuple[str, ...]], Sequence[str]]:
    """The names of the classes with an outcome, by its words and modes."""
    by_name: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, of in found.items():
        for mode in MODES:
            if of[mode].kind == kind:
                words = REASONS.get(name, of[mode].words)
                by_name[name, words].append(mode)
    groups: dict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for (name, words), modes in by_name.items():
        groups[words, tuple(modes)].append(name)
    return groups


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--results", type=Path)
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    # What every process needs is imported before they part.
    for module in ("torch.utils.checkpoint", "transformers", "conformance.checking.judge"):
        importlib.import_module(module)
    kinds = classes()
    gc.collect()
    gc.freeze()  # a check collects garbage often

    chosen = [n for n in kinds if not options.only or any(word in n for word in options.only)]
    found: dict[str, dict[str, Outcome]] = {name: {} for name in chosen}
    with contextlib.ExitStack() as stack:
        kept = None
        if options.results:
            kept = stack.enter_context(options.results.open("a+", encoding="utf-8"))
            kept.seek(0)
            for name, mode, *outcome in map(json.loads, kept):
                if name in found:
                    found[name][mode] = Outcome(*outcome)
        wanted = ((n, mode) for n, of in found.items() for mode in MODES if mode not in of)
        for name, mode, outcome in checked_apart(wanted, options.processes):
            found[name][mode] = outcome
            print(f"{name}, {mode}: {outcome.kind} {outcome.words}", flush=True)
            if kept is not None:
                print(json.dumps([name, mode, *outcome]), file=kept, flush=True)
    if not options.only:
        PAGE.write_text("\n".join(page(found, kinds)) + "\n", "utf-8")


if __name__ == "__main__":
    main()
