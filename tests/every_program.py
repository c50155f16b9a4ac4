"""All programs of an adapter, and whether they run on what they import themselves."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections import defaultdict

from conformance.adapter import Adapter, Variant
from conformance.case import Case
from conformance.emit import Text
from conformance.programs import EmitFailure, texts
from conformance.runner import lacking
from tests.suite_cases import CASES

Written = dict[tuple[str, str], tuple[Case, Variant, Text]]
#: Looks names up in a process of its own, in which nothing but `imports` has been imported.
LOOK_UP = """
import json, sys
given, known = json.load(sys.stdin), {}
exec("\\n".join(given["imports"]), known)
for name in given["names"]:
    found = known[name.partition(".")[0]]
    try:
        for part in name.split(".")[1:]:
            found = getattr(found, part)
    except AttributeError as error:
        print(f"missing: {name}: {error}")
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
        assert not isinstance(text, EmitFailure), f"{key}: {text.message}\n{text.traceback}"
        found[key] = case, variant, text
    return found


def not_imported(adapter: Adapter) -> list[str]:
    """What programs of an adapter read of a module that importing what they import does not bring."""
    #: By the name that a program gives a module: the lines that import it, and what is read of it.
    read: dict[tuple[str, tuple[str, ...]], set[str]] = defaultdict(set)
    for _, _, text in every_program(adapter).values():
        tree = ast.parse(text.text)
        lines: dict[str, list[str]] = defaultdict(list)
        for node in tree.body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                for alias in node.names:
                    root = (alias.asname or alias.name).partition(".")[0]
                    lines[root].append(ast.unparse(node))
        for name in _dotted(tree):
            root = name.partition(".")[0]
            if root in lines:
                read[root, tuple(sorted(lines[root]))].add(name)
    found = []
    for (_, imports), names in sorted(read.items()):
        done = subprocess.run(
            [sys.executable, "-c", LOOK_UP],
            input=json.dumps({"imports": imports, "names": sorted(names)}),
            env={**os.environ, "PYTHONPATH": str(adapter.folder)},
            capture_output=True,
            text=True,
        )
        found += [line for line in done.stdout.splitlines() if line.startswith("missing: ")]
        found += [done.stderr] if done.returncode else []
    return found


def _dotted(tree: ast.Module) -> set[str]:
    """The dotted names of a program, each as long as it is written."""
    found, inner = set(), set()
    for node in ast.walk(tree):
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
