"""Seconds that each case took on each variant of an adapter in an earlier run: `recorded.json`.

The file lies in the adapter's folder and is checked in: a table with a row per case and a column
per variant, in seconds of observation. Only the ratios are used, to split a run into parts of about
equal length and to estimate the time left. Absolute times differ between machines.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from conformance.errors import AdapterError
from conformance.model.verdict import Status
from conformance.results import Result
from conformance.writing import write_text

#: The file's name in an adapter's folder.
FILE = "recorded.json"
#: Seconds of a case on a variant where nothing at all has been recorded.
GUESS = 1.0

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class RecordedModel(BaseModel):
    """The file: in each row the seconds of a case, in the order of `variants`."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    variants: list[str] = Field(description="Names of variants, without the adapter's.")
    cases: dict[str, list[Seconds | None]] = Field(
        description="Null where nothing was observed: not supported, crashed, not run."
    )


@dataclass(frozen=True)
class Recorded:
    """Recorded seconds, by variant (its name without the adapter's) and case."""

    variants: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether anything is recorded."""
        return any(self.variants.values())

    def get(self, case: str, variant: str) -> float | None:
        """The recorded seconds of a case on a variant (named with or without its adapter)."""
        return self.variants.get(_bare(variant), {}).get(case)

    def seconds(self, case: str, variant: str) -> float:
        """The recorded seconds; where there are none, a guess: the median of the variant, else that
        of the adapter, else one second."""
        seconds = self.get(case, variant)
        if seconds is not None:
            return seconds
        return self._medians.get(_bare(variant), self._median or GUESS)

    @cached_property
    def _medians(self) -> Mapping[str, float]:
        return {
            name: median(by_case.values()) for name, by_case in self.variants.items() if by_case
        }

    @cached_property
    def _median(self) -> float:
        every = [value for by_case in self.variants.values() for value in by_case.values()]
        return median(every) if every else 0.0


def read(folder: Path) -> Recorded:
    """What is recorded in an adapter's folder; nothing where there is no file.

    Raises `AdapterError` for a file that is malformed.
    """
    file = folder / FILE
    hint = f"delete it, or write it anew: conformance recorded --adapter {folder.name} --update"
    try:
        model = RecordedModel.model_validate_json(file.read_bytes())
    except FileNotFoundError:
        return Recorded()
    except OSError as error:
        raise AdapterError(f"cannot be read: {error.strerror}", where=file) from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        message = f"{place}: {first['msg']}" if place else first["msg"]
        raise AdapterError(message, where=file, hint=hint) from error
    for case, row in model.cases.items():
        if len(row) != len(model.variants):
            message = f"{case}: {len(row)} numbers for {len(model.variants)} variants"
            raise AdapterError(message, where=file, hint=hint)
    return Recorded(
        {
            name: {c: seconds for c, row in model.cases.items() if (seconds := row[i]) is not None}
            for i, name in enumerate(model.variants)
        }
    )


def write(folder: Path, recorded: Recorded) -> Path:
    """Write the file, a line per case, two digits of each number. Returns its path."""
    variants = sorted(name for name, by_case in recorded.variants.items() if by_case)
    cases = sorted({case for name in variants for case in recorded.variants[name]})
    rows = [
        f"  {json.dumps(case)}: "
        + json.dumps([_rounded(recorded.get(case, name)) for name in variants])
        for case in cases
    ]
    file = folder / FILE
    head = f' "variants": {json.dumps(variants)},\n "cases": {{\n'
    write_text(file, "{\n" + head + ",\n".join(rows) + "\n }\n}\n")
    return file


def from_results(results: Iterable[Result], time_limit: float) -> Recorded:
    """The seconds of a run. What ran into the adapter's time limit took that long."""
    by_variant: dict[str, dict[str, float]] = {}
    for result in results:
        if result.observation is not None:
            seconds = result.observation.seconds
        elif any(verdict.status is Status.TIMEOUT for verdict in result.verdicts):
            seconds = time_limit
        else:
            continue
        by_variant.setdefault(_bare(result.variant), {})[result.case] = seconds
    return Recorded(by_variant)


def updated(
    old: Recorded, new: Recorded, cases: Sequence[str], variants: Sequence[str]
) -> Recorded:
    """What is recorded after another run: its seconds, and those of before for what it left out.

    `cases` and `variants` (names without the adapter's) are those that there are now.
    """
    every = {
        name: {**old.variants.get(name, {}), **new.variants.get(name, {})} for name in variants
    }
    current = set(cases)
    return Recorded(
        {
            name: {c: s for c, s in by_case.items() if c in current}
            for name, by_case in every.items()
        }
    )


def _bare(variant: str) -> str:
    return variant.rpartition("/")[2]


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else float(f"{seconds:.2g}")
