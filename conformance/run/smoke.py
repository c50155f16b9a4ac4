"""The smoke selection of an adapter: the pairs of case and variant that `--smoke` runs.

They are listed in `adapters/<name>/smoke.yaml`, which maps each variant to a list of case ids.
`conformance smoke --update` writes it; `conformance.run.smoke_cover` chooses what is in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from conformance.drivers.adapter import Adapter
from conformance.errors import SmokeError, nearest
from conformance.language import yaml_marks
from conformance.model.case import Case
from conformance.run.shards import Pair
from conformance.writing import write_text

FILE = "smoke.yaml"
_HEADER = """\
# The smoke selection: what `conformance run --adapter {name} --smoke` runs, by variant.
# Written by `conformance smoke --update --adapter {name}`, not by hand. These are the cheapest pairs of
# case and variant, found greedily by the seconds on record, that show every reason of known.yaml,
# catch every fault of caught.yaml (where there is one), and pass a gradient on every variant.
"""


@dataclass(frozen=True)
class Smoke:
    """A selection: the cases of each variant (by its bare name), each with its file and line."""

    file: Path
    listed: Mapping[str, Mapping[str, str]]

    @property
    def cases(self) -> tuple[str, ...]:
        """The ids of its cases, each once, whatever the variants."""
        return tuple(dict.fromkeys(case for cases in self.listed.values() for case in cases))

    def pairs(self, adapter: Adapter) -> tuple[Pair, ...]:
        """What runs on an adapter. One with somebody's own recompute in it has other variants than
        the file names: each of them runs all cases of the selection."""
        if adapter.implementation is not None:
            return tuple((case, v.id) for v in adapter.variants for case in self.cases)
        return tuple(
            (case, f"{adapter.name}/{variant}")
            for variant, cases in self.listed.items()
            for case in cases
        )

    def validate(self, adapter: Adapter, cases: Iterable[Case]) -> None:
        """Raise `SmokeError` for a case or a variant that is named and does not exist."""
        known = [case.id for case in cases]
        names = list(adapter.model.variants)
        for variant, listed in self.listed.items():
            if adapter.implementation is None and variant not in names:
                self._strange(f"no variant {variant!r}", variant, names, adapter)
            for case in listed:
                if case not in known:
                    self._strange(f"no case {case!r}", case, known, adapter, listed[case])

    def _strange(
        self, message: str, word: str, known: Iterable[str], adapter: Adapter, where: str = ""
    ) -> None:
        hint = f"{nearest(word, known)} Or choose anew: {update_command(adapter)}"
        raise SmokeError(message, where=where or self.file, hint=hint)


def update_command(adapter: Adapter) -> str:
    """The command that makes an adapter's selection."""
    return f"conformance smoke --update --adapter {adapter.folder}"


def find(adapter: Adapter) -> Smoke:
    """The selection of an adapter. Raises `SmokeError` where it has none, or a malformed one."""
    file = adapter.folder / FILE
    if not file.is_file():
        raise SmokeError(
            f"the adapter {adapter.folder.name!r} has no smoke selection",
            where=file,
            hint=f"make one from the results of a whole run: {update_command(adapter)}",
        )
    return read(file)


def read(file: Path) -> Smoke:
    """The selection in a file. Raises `SmokeError` with file and line for what is malformed."""
    node = yaml_marks.read(file, SmokeError, may_be_empty=True).node
    if not isinstance(node, yaml.MappingNode):
        raise SmokeError("expected variants, each with a list of cases", where=file)
    listed: dict[str, dict[str, str]] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode) or not isinstance(value, yaml.SequenceNode):
            raise SmokeError("expected a variant with a list of cases", where=_at(file, key))
        cases = listed[key.value] = {}
        for part in value.value:
            if not isinstance(part, yaml.ScalarNode):
                raise SmokeError("expected the id of a case", where=_at(file, part))
            if part.value in cases:
                raise SmokeError(f"case {part.value!r} is given twice", where=_at(file, part))
            cases[part.value] = _at(file, part)
    return Smoke(file, listed)


def write(adapter: Adapter, pairs: Iterable[Pair]) -> Path:
    """Write the selection of an adapter, in the order of its pairs, and give the file's path."""
    listed: dict[str, list[str]] = {}
    for case, variant in pairs:
        listed.setdefault(variant.removeprefix(f"{adapter.name}/"), []).append(case)
    file = adapter.folder / FILE
    dumped = yaml.safe_dump(listed, sort_keys=False, allow_unicode=True, width=1000)
    write_text(file, _HEADER.format(name=adapter.name) + dumped)
    return file


def _at(file: Path, node: yaml.Node) -> str:
    return f"{file}:{node.start_mark.line + 1}"
