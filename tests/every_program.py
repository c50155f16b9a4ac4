"""All programs of an adapter, and whether they run on what they import themselves."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections import defaultdict
from functools import cache

from conformance.drivers.adapter import Adapter, Variant
from conformance.emit.programs import EmitFailure, Text, texts
from conformance.model.case import Case
from conformance.run.runner import lacking
from tests.suite_cases import CASES

#: What a formatted program has between its functions.
BETWEEN = "\n\n\n"
#: What variants do not write and no capability names.
APART = (
    "tangents of parameters",
    "a layer that takes an object by position",
    "a second backward through all_reduce",
    "a graph that asks for the number of its rank",  # MindSpore's
)
Written = dict[tuple[str, str], tuple[Case, Variant, Text]]
#: Looks names up, those of each group in a process of its own, in which nothing has been imported but
#: `imports`. Groups of one package have the import of the package itself in common, which takes longest
#: and comes first in any case: it is done once, and their processes are forked from there.
LOOK_UP = """
import json, os, sys

def apart(work):
    sys.stdout.flush()
    if not os.fork():
        code = 1
        try:
            work()
            code = 0
        finally:
            if code:
                import traceback
                traceback.print_exc()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    _, status = os.wait()
    if status:
        print("missing: a process ended with", status)

def look_up(group):
    known = {}
    exec("\\n".join(group["imports"]), known)
    for name in group["names"]:
        found = known[name.partition(".")[0]]
        try:
            for part in name.split(".")[1:]:
                found = getattr(found, part)
        except AttributeError as error:
            print(f"missing: {name}: {error}")

def package(name, groups):
    exec(f"import {name}", {})
    for group in groups:
        apart(lambda: look_up(group))

for name, groups in json.load(sys.stdin).items():
    apart(lambda: package(name, groups))
"""


def every_program(adapter: Adapter, cases: tuple[Case, ...] = CASES) -> Written:
    """The programs of an adapter by case and variant, written as one batch."""
    pairs = [
        (case, variant)
        for variant in adapter.variants
        for case in cases
        if lacking(case, variant) is None
    ]
    made, found = texts(adapter, pairs), Written()
    for case, variant in pairs:
        key = (case.id, variant.id)
        text = made[key]
        once = case.procedure.made == "once"
        if isinstance(text, EmitFailure) and (text.asked in APART or (once and text.asked)):
            continue  # not every region can be held by an object, and the variant says so
        assert not isinstance(text, EmitFailure), f"{key}: {text.message}\n{text.traceback}"
        found[key] = case, variant, text
    return found


def not_imported(adapter: Adapter) -> list[str]:
    """What programs of an adapter read of a module that importing what they import does not bring; of
    every fourth case, for they have the lines that import in common."""
    #: By the name that a program gives a module: the lines that import it, and what is read of it.
    read: dict[tuple[str, tuple[str, ...]], set[str]] = defaultdict(set)
    for _, _, text in every_program(adapter, CASES[::4]).values():
        lines: dict[str, list[str]] = defaultdict(list)
        dotted: set[str] = set()
        for part in text.text.split(BETWEEN):
            imported, names = _read(part)
            for root, line in imported:
                lines[root].append(line)
            dotted |= names
        for name in dotted:
            root = name.partition(".")[0]
            if root in lines:
                read[root, tuple(sorted(lines[root]))].add(name)
    groups: dict[str, list[dict[str, list[str]]]] = defaultdict(list)
    for (_, imports), names in sorted(read.items()):
        (package,) = {line.split()[1].partition(".")[0] for line in imports}
        groups[package].append({"imports": list(imports), "names": sorted(names)})
    done = subprocess.run(
        [sys.executable, "-c", LOOK_UP],
        input=json.dumps(groups),
        env={**os.environ, "PYTHONPATH": str(adapter.folder)},
        capture_output=True,
        text=True,
    )
    found = [line for line in done.stdout.splitlines() if line.startswith("missing: ")]
    return found + ([done.stderr] if done.returncode or found else [])


@cache
def _read(part: str) -> tuple[tuple[tuple[str, str], ...], frozenset[str]]:
    """Of some of a program's statements: the names that its imports give with the lines that import
    them, and the dotted names in the rest. Programs of one case have most parts in common."""
    imported: list[tuple[str, str]] = []
    dotted: set[str] = set()
    for node in ast.parse(part).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            line = ast.unparse(node)
            imported += [((a.asname or a.name).partition(".")[0], line) for a in node.names]
        else:
            dotted |= _dotted(node)
    return tuple(imported), frozenset(dotted)


def _dotted(statement: ast.stmt) -> set[str]:
    """The dotted names in a statement, each as long as it is written."""
    found, inner = set(), set()
    for node in ast.walk(statement):
        if not isinstance(node, ast.Attribute) or node in inner:
            continue
        parts: list[str] = []
        value: ast.expr = node
        while isinstance(value, ast.Attribute):
            inner.add(value)
            parts.append(value.attr)
            value = value.value
        if isinstance(value, ast.Name):
            found.add(".".join((value.id, *reversed(parts))))
    return found
