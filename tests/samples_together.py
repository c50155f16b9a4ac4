"""Many samples of operations in one program, each in a region of its own.

Starting, compiling and watching a program is most of what a sample takes, and is spent once here. Each
sample reads inputs of its own, and its gradients come from a term of its own in the loss, so that its
numbers are those that it has alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from conformance.language.load import load_text
from conformance.model.case import Array, Case, Fill
from conformance.model.observation import Run
from tests.operation_samples import written

#: Statements that make y, and the shapes of what they read.
Sample = tuple[Sequence[str], Mapping[str, tuple[int, ...]]]


def together(samples: Sequence[Sample], dtype: str = "float64") -> Case:
    """A case that runs each sample in a region and squares its y, as `operation_samples.written` does
    with one of them. The names of the sample at place n end in n."""
    inputs: dict[str, object] = {}
    state: dict[str, object] = {}
    program: list[object] = []
    for n, (statements, shapes) in enumerate(samples):
        for name, shape in shapes.items():
            inputs[f"{name}{n}"] = {"shape": shape, "uniform": [0.5, 2.0], "dtype": dtype}
        taken = [f"{name}{n}" for name in shapes]
        text = " ".join(statements)
        if "embedding" in text:
            inputs[f"i{n}"] = {"shape": [2, 5], "integers": [0, 3]}
            taken.append(f"i{n}")
        if "batch_norm" in text:
            of = {"shape": [3], "full": 1.0, "dtype": dtype}
            state |= {f"mean{n}": of, f"var{n}": of}
        body = _numbered(statements, shapes, n)
        program += [
            {"recompute": f"block{n}", "takes": taken, "gives": f"y{n}", "body": body},
            f"z{n} = multiply(y{n}, y{n})",
            f"s{n} = sum(z{n})",
        ]
        program += [f"t{n} = add({f't{n - 1}' if n > 1 else 's0'}, s{n})"] if n else []
    last = f"t{len(samples) - 1}" if len(samples) > 1 else "s0"
    case = {
        "title": "Operations, one after the other",
        "source": "the test",
        "why": "The adapter emits them.",
        "inputs": inputs,
        **({"state": state} if state else {}),
        "program": program,
        "outputs": [*(f"z{n}" for n in range(len(samples))), last],
        "gradients": {"of": last},
    }
    (loaded,) = load_text(json.dumps({"family": "written", "cases": {"together": case}}), "test")
    return loaded


def _numbered(
    statements: Sequence[str], shapes: Mapping[str, tuple[int, ...]], n: int
) -> list[str]:
    """The statements with the number behind each name of theirs, but those of operations and options."""
    names = set(shapes) | {
        name.strip()
        for statement in statements
        for name in statement.partition(" = ")[0].split(",")
    }
    text = " ".join(statements)
    names |= {"i"} if "embedding" in text else set()
    names |= {"mean", "var"} if "batch_norm" in text else set()
    name = re.compile(rf'(?<!")\b({"|".join(map(re.escape, sorted(names)))})\b(?![("]|=)')
    return [name.sub(rf"\g<1>{n}", statement) for statement in statements]


def alone(sample: Sample, n: int, numbers: Mapping[str, Any], dtype: str = "float64") -> Case:
    """The case of the sample at place n alone, which starts from the same numbers as all of them
    together: `numbers` are the reference's inputs of that case."""
    statements, shapes = sample
    case = written("one", list(statements), shapes, dtype)

    def filled(array: Any) -> Any:
        assert isinstance(array, Array)
        return replace(array, fill=Fill("values", values=numbers[f"{array.name}{n}"].data.tolist()))

    return replace(
        case, inputs=tuple(map(filled, case.inputs)), state=tuple(map(filled, case.state))
    )


def part(run: Run, n: int) -> Run:
    """What a run of all samples says of the one at place n, under the names that it has alone: outputs,
    gradients and state."""

    def own(of: Mapping[str, Any]) -> dict[str, Any]:
        found = {name: re.fullmatch(r"([a-z]+)(\d+)", name) for name in of}
        return {m[1]: of[name] for name, m in found.items() if m and int(m[2]) == n}

    assert isinstance(run.outputs, tuple)
    return Run(outputs=run.outputs[n], gradients=own(run.gradients), state=own(run.state))
