"""Emitted programs, of every adapter, variant and case: formatted, complete, and the same each time."""

from __future__ import annotations

import ast
import gc
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

from conformance.drivers.adapter import all_adapters
from conformance.emit.programs import LINE_LENGTH, Text, program_path
from conformance.model.case import Again, Case, walk
from conformance.model.program import Site

from .every_program import BETWEEN, CASES, Written, every_program

ROOT = Path(__file__).parent.parent
ADAPTERS = {adapter.name: adapter for adapter in all_adapters(ROOT / "adapters")}
FUNCTIONS = ("inputs", "plain", "recomputed", "run")
PATHS = ("plain", "recomputed")
#: Keras' backends, for models that `fit` trains with the scope in either mode.
FITTED = [f"{m}{b}" for m in ("", "activations-") for b in ("tensorflow", "jax", "torch")]
#: Where one call does forward and backward, no line of `run` starts the backward pass.
ONE_CALL = {
    *("mindspore/graph-function", "mindspore/graph-cell", "mindspore/graph-primitive"),
    *("mindspore/graph-function-reentrant", "mindspore/graph-function-non-reentrant"),
    *("mindspore/graph-cell-communication", "mindspore/graph-layers", "mindspore/jit"),
    *("mindspore/jit-primitive", "mindspore/model-train-graph"),
    *(f"keras/fit-{name}" for name in FITTED),
}
#: Where a region is an operation, or layers, without a function: each call is a line of its own.
NO_FUNCTION = {
    *("mindspore/graph-primitive", "mindspore/jit-primitive"),
    *(f"keras/fit-{name}" for name in FITTED),
}


@pytest.fixture(scope="module", params=ADAPTERS)
def written(request: pytest.FixtureRequest) -> Iterator[Written]:
    gc.disable()  # it would look through all syntax trees again and again
    yield every_program(ADAPTERS[request.param])
    for known in (_tree, _names_by_definition, _inside, _rounds, _unparsed):
        known.cache_clear()
    gc.enable()


#: A statement of a program's, and how many lines stand before what its place is counted from.
Placed = tuple[int, ast.stmt]


@cache
def _tree(part: str) -> ast.Module:
    return ast.parse(part)


def _parts(text: str) -> Iterator[tuple[int, str]]:
    """The parts of a program, and how many lines stand before each. Most are in many programs, so that
    each is parsed once."""
    before = 0
    for part in text.split(BETWEEN):
        yield before, part
        before += (part + BETWEEN).count("\n")


def _body(text: str) -> Iterator[Placed]:
    """What stands at the top of a program."""
    for before, part in _parts(text):
        for node in _tree(part).body:
            yield before, node


def _ruff(folder: Path, *arguments: str) -> str:
    line = f"--config=line-length={LINE_LENGTH}"
    command = [sys.executable, "-m", "ruff", *arguments, "--isolated", "--no-cache", line]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    return done.stdout + done.stderr if done.returncode else ""


def _write(written: Written, folder: Path) -> None:
    for key, (_, _, text) in written.items():
        file = folder / program_path(*key)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.text, "utf-8")


def test_ruff_has_nothing_to_say(written: Written, tmp_path: Path) -> None:
    _write(written, tmp_path)
    assert _ruff(tmp_path, "check", "--output-format=concise") == ""
    assert _ruff(tmp_path, "format", "--check") == ""


def test_programs_have_the_functions(written: Written) -> None:
    for key, (_, _, text) in written.items():
        made = [n.name for _, n in _body(text.text) if isinstance(n, ast.FunctionDef)]
        found = [name for name in made if name in FUNCTIONS]
        assert found == list(FUNCTIONS), key
        assert "pylint" not in text.text, key


# -- sites ----------------------------------------------------------------------------------------


def test_a_name_of_the_module_is_given_once(written: Written) -> None:
    """Else what `plain` calls would be what was written last, for `recomputed`."""
    for key, (_, _, text) in written.items():
        given = Counter(
            node.name if isinstance(node, ast.FunctionDef | ast.ClassDef) else ast.unparse(target)
            for _, node in _body(text.text)
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Assign)
            for target in getattr(node, "targets", [node])
        )
        assert [name for name, times in given.items() if times > 1] == [], key


def _statements(nodes: Iterable[ast.AST]) -> Iterator[ast.stmt]:
    """Statements, and those inside them. Expressions are most of a tree, and hold none."""
    for node in nodes:
        if isinstance(node, ast.stmt):
            yield node
        for block in ("body", "handlers", "orelse", "finalbody", "cases"):
            inner = getattr(node, block, ())
            if isinstance(inner, list):  # and not the one expression of a lambda
                yield from _statements(inner)


def _names(node: ast.AST) -> set[str]:
    """The names that are read or made in a node."""
    found, waiting = set(), [node]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name):
            found.add(node.id)
            continue
        for field in node._fields:
            value = getattr(node, field)
            if isinstance(value, ast.AST):
                waiting.append(value)
            elif isinstance(value, list):
                waiting += [part for part in value if isinstance(part, ast.AST)]
    return found


@cache
def _names_by_definition(part: str) -> Mapping[str, set[str]]:
    """The names in each function, class and assignment of a part of a program."""
    found: dict[str, set[str]] = {}
    for node in _tree(part).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = _names_inside(node)
        elif isinstance(node, ast.Assign):
            found[ast.unparse(node.targets[0])] = _names(node.value)
    return found


def _names_inside(node: ast.FunctionDef | ast.ClassDef) -> set[str]:
    """The names in a definition; those of the classes that a class is derived from are no use of all
    that is in them (`_inherited`)."""
    if isinstance(node, ast.FunctionDef):
        return _names(node)
    return {name for part in node.body for name in _names_of_method(part)}


def _names_of_method(node: ast.stmt) -> set[str]:
    """The names in a statement of a class, its own arguments aside: they may have the names of what
    stands at the top."""
    if not isinstance(node, ast.FunctionDef):
        return _names(node)
    return _names(node) - {argument.arg for argument in node.args.args}


def _inherited(node: ast.stmt, made: Mapping[str, Placed]) -> list[Placed]:
    """What a class takes over from other classes of the program: methods that are not its own."""
    if not isinstance(node, ast.ClassDef):
        return []
    bases = [made[n] for n in map(ast.unparse, node.bases) if n in made]
    own = {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
    return [
        (before, part)
        for before, base in bases
        if isinstance(base, ast.ClassDef)
        for part in base.body
        if isinstance(part, ast.FunctionDef) and part.name not in own
    ]


def _reached(text: str, start: str) -> list[Placed]:
    """The definitions of a program that a function of it uses, itself first, and methods that its
    classes inherit."""
    names: dict[str, set[str]] = {}
    for _, part in _parts(text):
        names |= _names_by_definition(part)
    made = {n.name: (b, n) for b, n in _body(text) if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    made |= {ast.unparse(n.targets[0]): (b, n) for b, n in _body(text) if isinstance(n, ast.Assign)}
    found: dict[str, Placed] = {}
    waiting = [start]
    while waiting:
        name = waiting.pop()
        if name in made and name not in found:
            found[name] = made[name]
            methods = _inherited(made[name][1], made)
            found |= {f"{name}.{method.name}": (before, method) for before, method in methods}
            waiting += names[name].union(*(_names_of_method(method) for _, method in methods))
    return list(found.values())


@cache
def _inside(top: ast.stmt) -> tuple[ast.stmt, ...]:
    return tuple(_statements([top]))


#: The lists of a program, with their lengths.
Lengths = tuple[tuple[str, int], ...]


def _lengths(text: str) -> Lengths:
    """The lists that `inputs` of a program makes, each by a comprehension over a range."""
    (made,) = (n for _, n in _body(text) if getattr(n, "name", "") == "inputs")
    found: list[tuple[str, int]] = []
    for node in _inside(made):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.ListComp):
            over = node.value.generators[0].iter
            assert isinstance(over, ast.Call)
            numbers = range(*(ast.literal_eval(part) for part in over.args))
            found.append((ast.unparse(node.targets[0]), len(numbers)))
    return tuple(found)


def _length(listed: ast.expr, lengths: Lengths) -> int:
    """How many entries a tuple, a list of the program, or a part of one has."""
    if isinstance(listed, ast.Tuple):
        return len(listed.elts)
    if isinstance(listed, ast.Subscript):
        name, _, part = ast.unparse(listed).partition("[")
        start, _, end = part.removesuffix("]").partition(":")
        many = dict(lengths)[name.removeprefix("self.")]
        return len(range(many)[int(start or 0) : int(end or many)])
    return dict(lengths).get(ast.unparse(listed).removeprefix("self."), 1)


@cache
def _rounds(top: ast.stmt, lengths: Lengths) -> Mapping[ast.stmt, int]:
    """For each statement inside of a loop, how often the loop goes round."""
    found: dict[ast.stmt, int] = {}
    for loop in (node for node in _inside(top) if isinstance(node, ast.For)):
        over = loop.iter
        if isinstance(over, ast.Call) and isinstance(over.args[0], ast.Constant):
            often = int(str(over.args[0].value))  # range(n)
        else:
            listed = over.args[0] if isinstance(over, ast.Call) else over  # zip(…), or a tuple
            often = _length(listed, lengths)
        for node in loop.body:
            for inner in _inside(node):
                found[inner] = found.get(inner, 1) * often
    return found


def _marked(text: Text, nodes: Iterable[Placed]) -> Iterator[tuple[int, ast.stmt, Site]]:
    """The statements and definitions in `nodes` that have a site, and how many lines stand before
    what their places are counted from."""
    for before, top in nodes:
        for node in _inside(top):
            site = text.lines.get(before + node.lineno)
            if site is not None and isinstance(node, ast.FunctionDef) == (site.kind == "region"):
                yield before, node, site


def _is_invalid(case: Case) -> bool:
    return any(region.block == "invalid" for region in case.regions())


def _mentions(source: str, name: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\b", source) is not None


@pytest.mark.parametrize("path", PATHS)
def test_each_statement_has_one_site(written: Written, path: str) -> None:
    """In what `plain` reaches, and in what `recomputed` reaches: they may share definitions."""
    for key, (case, variant, text) in written.items():
        if path == "recomputed" and _is_invalid(case):
            continue  # what is handed over instead of a block has no statements
        lines_of = text.text.split("\n")
        wanted = Counter((region, s.label, s.op) for region, s in case.statements())
        if variant.id in NO_FUNCTION:
            calls = Counter(node.region for node in walk(case.program) if isinstance(node, Again))
            wanted += Counter({site: calls[site[0]] for site in wanted})
        found: Counter[tuple[str, str, str]] = Counter()
        reached = _reached(text.text, path)
        lengths = _lengths(text.text)
        rounds: dict[ast.stmt, int] = {}
        for _, top in reached:
            rounds |= _rounds(top, lengths)
        for before, node, site in _marked(text, reached):
            if site.kind != "statement" and not (site.kind == "layer" and site.label):
                continue
            found[site.region, site.label, site.op] += rounds.get(node, 1)
            lines = range(before + node.lineno, before + (node.end_lineno or 0) + 1)
            assert not hasattr(node, "body"), f"{key}: line {lines.start} holds more than {site}"
            source = "\n".join(lines_of[lines.start - 1 : lines.stop - 1])
            # What is written over keeps its name.
            unnamed = isinstance(node, ast.Return) or site.op == "add_in_place"
            made = site.kind == "layer" or unnamed
            made = made or _mentions(source, site.label.removeprefix("hook on "))
            assert made, f"{key}: {source!r} does not make {site.label}"
            assert all(text.lines[n] is site for n in lines), f"{key}: {source!r}"
        assert found == wanted, key


@pytest.mark.parametrize("path", PATHS)
def test_each_region_has_a_site(written: Written, path: str) -> None:
    for key, (case, variant, text) in written.items():
        if path == "recomputed" and _is_invalid(case):
            continue
        sites = [s for _, _, s in _marked(text, _reached(text.text, path))]
        found = Counter(
            s.region for s in sites if s.kind == "region" or (s.kind == "layer" and not s.label)
        )
        # A layer that is the whole region.
        found |= Counter({s.region for s in sites if s.kind == "layer"})
        wanted = Counter(r.name for r in case.regions())
        assert found == (Counter() if variant.id in NO_FUNCTION else wanted), key


def _run(text: Text) -> Placed:
    (found,) = (placed for placed in _body(text.text) if getattr(placed[1], "name", "") == "run")
    return found


def test_run_has_its_phases(written: Written) -> None:
    for key, (case, variant, text) in written.items():
        phases = [
            (s.path, s.label) for _, _, s in _marked(text, _body(text.text)) if s.kind == "phase"
        ]
        forward_mode = case.procedure.kind == "jvp" and ("run", "backward") not in phases
        # What a transform is given has a line for either phase, in a graph too.
        transformed = case.procedure.kind in ("jvp", "jacobian")
        apart = (variant.id not in ONE_CALL or transformed) and not forward_mode
        both = case.loss is not None and apart
        wanted = {("run", "forward")} | ({("run", "backward")} if both else set())
        assert set(phases) == wanted, key
        forwards = phases.count(("run", "forward"))
        wanted_forwards = 2 if case.procedure.after == "backward" else 1
        changes = [c for every in case.procedure.changes for c in every]
        wanted_forwards += sum(change.kind in ("run", "fail") for change in changes)
        assert forwards == wanted_forwards or (variant.id in ONE_CALL and forwards), key
        inside: set[int] = set()
        for before, top in _reached(text.text, "run"):  # a function that it calls may have them
            inside |= set(range(before + top.lineno, before + (top.end_lineno or 0) + 1))
        assert all(n in inside for n, site in text.lines.items() if site.kind == "phase"), key


def test_another_thread_runs_the_line_that_starts_backward(written: Written) -> None:
    for key, (case, _, text) in written.items():
        before, run = _run(text)
        started = {
            before + line
            for node in _inside(run)
            if isinstance(node, ast.With) and "ThreadPoolExecutor" in ast.unparse(node.items[0])
            for line in range(node.body[0].lineno, (node.body[-1].end_lineno or 0) + 1)
        }
        backward = {n for n, site in text.lines.items() if site.label == "backward"}
        assert started == (backward if case.procedure.between == "thread" else set()), key


# -- the same each time, and the same on both paths -----------------------------------------------


def test_emission_is_deterministic(written: Written) -> None:
    """A program is the same whatever was written before it."""
    (adapter,) = {v.adapter for _, v, _ in written.values()}
    again = every_program(ADAPTERS[adapter], tuple(reversed(CASES[::4])))
    assert {k: w[2] for k, w in again.items()} == {k: written[k][2] for k in again}


RECOMPUTE = ("tape.recompute", "checkpoint", "jax.checkpoint", "tf.recompute_grad", "recompute")
OPTIONS = (
    *("use_reentrant", "preserve_rng", "preserve_rng_state", "merge_adjacent", "early_stop"),
    *("context_fn", "prevent_cse", "policy"),
)
#: Variants whose programs differ in the calls of regions and in nothing else.
DIRECT = {
    *("reference/float64", "torch/reentrant", "torch/non-reentrant", "torch/non-reentrant-whole"),
    *("jax/eager", "jax/jit", "tf/eager", "tf/function", "paddle/reentrant", "paddle/hook"),
}


class _Direct(ast.NodeTransformer):
    """`recomputed` with every region called directly."""

    def __init__(self) -> None:
        self.names: dict[str, ast.expr] = {}
        self.removed = 0

    def visit_Assign(self, node: ast.Assign) -> ast.AST | None:
        value, target = node.value, node.targets[0]
        if self._recompute(value) and self._makes(value) and isinstance(target, ast.Name):
            assert isinstance(value, ast.Call)
            self.names[target.id] = value.args[0]
            self.removed += 1
            return None
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in self.names:
            node.func = self.names[node.func.id]
        elif self._recompute(node) and not self._makes(node):
            self.removed += 1
            kept = [k for k in node.keywords if k.arg not in OPTIONS]
            return ast.Call(node.args[0], node.args[1:], kept)
        elif self._recompute(node) and ast.unparse(node.func) == "jax.checkpoint":
            self.removed += 1
            return node.args[0]
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """`f.__wrapped__ is g` is `True` in `plain`, as the operation says."""
        return ast.Constant(True) if "__wrapped__" in ast.unparse(node) else node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        """So is `not hasattr(f, "variables")`."""
        return ast.Constant(True) if "hasattr" in ast.unparse(node) else self.generic_visit(node)

    @staticmethod
    def _recompute(node: ast.expr) -> bool:
        return isinstance(node, ast.Call) and ast.unparse(node.func) in RECOMPUTE

    @staticmethod
    def _makes(node: ast.expr) -> bool:
        """Whether the call returns a callable, and calls nothing itself."""
        assert isinstance(node, ast.Call)
        return ast.unparse(node.func) not in ("checkpoint", "recompute")


def test_recomputed_differs_in_calls_of_regions_alone(written: Written) -> None:
    for key, (case, variant, text) in written.items():
        # A policy is no part of `plain`, and the context of a region is around its call there. Regions
        # made once, and spread ones, are in a class, and a keyword of the region's own may have the
        # name of an option.
        in_class = case.procedure.made == "once" or case.parallel in ("sharded", "tensor")
        more = in_class or any(
            region.save or region.contexts or {*region.kwargs} & {*OPTIONS}
            for region in case.regions()
        )
        if variant.id not in DIRECT or more or _is_invalid(case):
            continue
        made = {n.name: n for _, n in _body(text.text) if isinstance(n, ast.FunctionDef)}
        direct = _Direct()
        # A tree of its own: what visits it changes it.
        recomputed = direct.visit(_anew(text.text, "recomputed"))
        recomputed.name = "plain"
        assert _numbered(ast.unparse(recomputed)) == _unparsed(made["plain"]), key
        assert direct.removed >= 1, key


def _anew(text: str, name: str) -> ast.FunctionDef:
    """A function of a program, parsed anew."""
    (part,) = (part for _, part in _parts(text) if name in _names_by_definition(part))
    (found,) = (n for n in ast.parse(part).body if getattr(n, "name", "") == name)
    assert isinstance(found, ast.FunctionDef)
    return found


@cache
def _unparsed(function: ast.FunctionDef) -> str:
    return _numbered(ast.unparse(function))


def _numbered(text: str) -> str:
    """A text with its temporaries numbered from 1."""
    numbers: dict[str, str] = {}
    named = re.compile(r"(?<!')\bresult\d*\b(?!')")  # and no key of a dict
    return named.sub(lambda m: numbers.setdefault(m[0], f"r{len(numbers)}"), text)
