"""A deviation as the text of an issue for the framework's maintainers.

Pure functions from values to Markdown. The text avoids terms that only this suite uses.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from conformance.judge.outcomes import Outcome
from conformance.model.facts import Raised
from conformance.model.verdict import Verdict

#: Terms that only this suite uses, as regular expressions, and what to write in their place.
_REPLACEMENTS: tuple[tuple[str, str], ...] = (
    (r"\s*[,;(]?\s*see the [\w ]+ of the same cases?\)?", ""),
    (r"\binert: ", ""),
    (r"\bAs in [\w-]+/[\w=,\[\]-]+, and (\w)", r"\1"),
    (r"\b([Rr])ecomputed regions?\b", r"\1ecomputed function"),
    (r"\bRegions\b", "Recomputed functions"),
    (r"\bregions\b", "recomputed functions"),
    (r"\bregion's\b", "recomputed function's"),
    (r"\bRegion\b", "Recomputed function"),
    (r"\bregion\b", "recomputed function"),
    (r"\brecomputed recomputed\b", "recomputed"),
    (r"\bin (that|this|the same) case\b", "there"),
    (r"\b(of|in) the same cases?\b", ""),
    (r"\bcases\b", "programs"),
    (r"\bcase\b", "program"),
    (r"\bvariants?\b", "way to call it"),
    (r"\b(the )?(conformance )?suite\b", "the program"),
)
#: What should happen, by the name of the check that fails.
_EXPECTED: Mapping[str, str] = {
    "gradient": "The gradients are those of the same program without recompute.",
    "value": "What the program computes is the same as without recompute.",
    "structure": "Outputs have the structure, dtypes and `requires_grad` that they have without "
    "recompute.",
    "state": "State is left as it is without recompute.",
    "randomness": "The rerun draws the numbers that the forward pass drew.",
    "executions": "What backward needs runs once more in backward, and nothing else does.",
    "retained memory": "Between forward and backward no more is kept than what the recomputed "
    "function is given.",
    "peak memory": "Recompute lowers the peak of memory by what it does not keep.",
    "release": "After backward, or after an error, nothing is left over.",
    "error": "The program runs as it does without recompute.",
    "hooks": "Hooks are called as often as without recompute.",
}
_WHY_IT_MATTERS: Mapping[Outcome, str] = {
    Outcome.WRONG: "No error says so: whoever uses recompute here gets results that differ from those "
    "without it, and may train with them unnoticed.",
    Outcome.RAISES: "A program that works without recompute stops when recompute is switched on.",
    Outcome.INERT: "Nothing is recomputed, so that the memory that recompute is used for is not freed.",
    Outcome.COSTS: "Results are right, but recompute costs more memory or work than it has to, which is "
    "what it is used to save.",
    Outcome.WARNS: "Results may depend on whether recompute is on.",
}
#: First words of sentences that lose their capital letter inside a sentence.
_LOWERED = frozenset(
    {"A", "After", "All", "An", "Arguments", "As", "At", "Before", "Beside", "Both", "By", "Each"}
    | {"Early", "Every", "For", "In", "It", "Neither", "No", "Nothing", "Of", "On", "One", "Only"}
    | {"Pooling", "Recomputed", "Steps", "That", "The", "There", "This", "Trained", "What", "When"}
    | {"Where", "With", "Without", "Wrong"}
)


@dataclass(frozen=True)
class Bug:
    """What an issue is made of.

    `api` is what users call to recompute, such as `torch.utils.checkpoint.checkpoint(...)`. `program`
    needs the framework alone, and runs with the variables of `environment`. `output` is what it
    printed here, empty where it has not run; `shows` is whether the program fails by itself, without
    an observer. `change` is what makes the deviation go away, `reason` the known deviation's reason;
    both may be empty.
    """

    title: str
    api: str
    verdict: Verdict
    outcome: Outcome
    program: str
    versions: Mapping[str, str]
    environment: Mapping[str, str]
    output: str = ""
    shows: bool = True
    change: str = ""
    reason: str = ""


def say(text: str) -> str:
    """The text with terms that only this suite uses replaced by those of the field."""
    words = " ".join(text.split()) if "\n" not in text else text
    for pattern, replacement in _REPLACEMENTS:
        words = re.sub(pattern, replacement, words)
    return words[:1].upper() + words[1:] if text[:1].isupper() else words


def title_of(verdict: Verdict, api: str) -> str:
    """A title where `known.yaml` has none: the API, and the beginning of the verdict's message."""
    start = re.split(r", but should| in \d+ of \d+ elements|, most at", verdict.message)[0]
    return f"{api}: {say(start)}"


def slug(title: str) -> str:
    """A file name for a title: its first nine words in lower case, joined by hyphens."""
    words = re.findall(r"[a-z0-9]+", title.lower())
    return "-".join(words[:9]) or "report"


def render(bug: Bug) -> str:
    """The issue, in Markdown."""
    parts = [f"# {bug.title}", *_called(bug), _fenced(bug.program, "python")]
    if bug.environment:
        variables = " ".join(f'{k}="{v}"' for k, v in bug.environment.items())
        parts.append(f"It runs with `{variables}` in the environment.")
    parts += ["## Expected", _expected(bug), "## Observed", _observed(bug)]
    if bug.change:
        without = (
            "the assertion holds" if "AssertionError" in bug.output else "that does not happen"
        )
        parts.append(f"With one change ({bug.change}) {without}.")
    why = _WHY_IT_MATTERS.get(bug.outcome)
    parts += ["## Why it matters", why] if why else []
    parts += ["## Possible cause", seems(bug.reason)] if bug.reason else []
    versions = "\n".join(f"- {name}: {version}" for name, version in bug.versions.items())
    parts += ["## Versions", versions]
    return "\n\n".join(parts) + "\n"


def _called(bug: Bug) -> list[str]:
    """A sentence that names the API; none where the program of a reason calls another one."""
    names = re.findall(r"[A-Za-z_][\w.]*(?=\()", bug.api)
    is_called = not names or any(_is_called(name, bug.program) for name in names)
    code = re.match(r"[\w.]+(\([^()]*\))?", bug.api)
    if not is_called or code is None:
        return []
    arguments = bug.api[code.end() :]
    return [f"With `{code[0]}`{' ' * arguments.startswith(' ')}{say(arguments.strip())}:"]


def _is_called(name: str, program: str) -> bool:
    """Whether a program uses a function: by its full name, imported, or of a module under an alias."""
    last = rf"(?<![\w.]){re.escape(name.rpartition('.')[2])}\b"
    after_module = name.partition(".")[2]
    qualified = rf"(?<![\w.])\w+\.{re.escape(after_module)}\b" if after_module else last
    return name in program or bool(re.search(f"{last}|{qualified}", program))


def seems(reason: str) -> str:
    """A reason as a guess: `It seems that ...`. Maintainers know the cause better than this suite."""
    words = say(reason)
    first, _, rest = words.partition(" ")
    lowered = first.lower() if first in _LOWERED or first.rstrip(",") in _LOWERED else first
    return f"It seems that {lowered} {rest}".strip()


def _expected(bug: Bug) -> str:
    by_check = _EXPECTED.get(bug.verdict.check, "The same as without recompute.")
    promised = next(
        (f.promised for f in bug.verdict.facts if isinstance(f, Raised) and f.promised), ""
    )
    return f"The program raises {promised}." if promised else by_check


def _observed(bug: Bug) -> str:
    message = say(bug.verdict.message)
    if bug.output and bug.shows:
        return f"The program prints:\n\n{_fenced(bug.output, 'text')}"
    if bug.shows:
        return f"In a program like this one: {message}."
    method = f" ({say(bug.verdict.method)})" if bug.verdict.method else ""
    return f"The program ends without an error; watched from outside{method}: {message}."


def _fenced(text: str, language: str) -> str:
    ticks = "`" * max(3, *(len(m) + 1 for m in re.findall(r"`{3,}", text)), 3)
    return f"{ticks}{language}\n{text.rstrip()}\n{ticks}"
