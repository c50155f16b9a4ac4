"""The published JSON Schema of case files: fresh, met by all case files, and not by malformed ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from conformance.errors import CaseError
from conformance.language.load import FOUND, load_text, schema

from .test_load import ALL, GOOD, Wrong

CASES = Path(__file__).parent.parent / "cases"
PUBLISHED = CASES / "case.schema.json"
FILES = [file for file in sorted(CASES.rglob("*.yaml")) if file.parent.name != FOUND]
VALIDATOR = jsonschema.Draft202012Validator(schema())
#: What no schema can say: what stands elsewhere in the file, or how texts, shapes and numbers fit.
BEYOND = {
    "unseeded",
    "total-of-none",
    "total-of-drawn",
    *("values-shape", "two-fills", "no-fill", "no-shape", "ragged", "values-text"),
    *("int-gradient", "infinite", "word-as-key", "number-as-key", "duplicate-key", "a-date"),
}


def test_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())


def test_published_schema_is_fresh() -> None:
    assert json.loads(PUBLISHED.read_text("utf-8")) == schema(), (
        "run: conformance schema > cases/case.schema.json"
    )


@pytest.mark.parametrize("file", FILES, ids=[f.stem for f in FILES])
def test_case_files_validate(file: Path) -> None:
    text = file.read_text("utf-8")
    assert [e.message for e in VALIDATOR.iter_errors(yaml.safe_load(text))] == []
    first, _, _ = text.partition("\n")
    mark = "# yaml-language-server: $schema="
    assert first.startswith(mark)
    assert (file.parent / first.removeprefix(mark)).resolve() == PUBLISHED


def test_good_file_validates() -> None:
    VALIDATOR.validate(yaml.safe_load(GOOD))


def _malformed() -> list[Any]:
    """The malformed texts that say too much, too little or something of another kind."""
    end = next(i for i, w in enumerate(ALL) if w.id == "operation")
    files = ("no-cases", "a-list", "no-case", "case-list", "generator-kind", "between", "release")
    rows = [w for w in ALL[:end] if w.id not in BEYOND] + [w for w in ALL if w.id in files]
    return [pytest.param(w, id=f"{i}-{w.id}") for i, w in enumerate(rows)]


@pytest.mark.parametrize("wrong", _malformed())
def test_malformed_files_do_not_validate(wrong: Wrong) -> None:
    text = GOOD.replace(wrong.old, wrong.new, 1)
    with pytest.raises(CaseError):
        load_text(text, "f.yaml")
    assert list(VALIDATOR.iter_errors(yaml.safe_load(text)))


@pytest.mark.parametrize("model", ["CaseModel", "RegionModel", "CallModel", "ArrayModel"])
def test_keys_are_described(model: str) -> None:
    """An editor shows what a key means."""
    keys = schema()["$defs"][model]["properties"]
    assert [key for key, value in keys.items() if not {"description", "$ref"} & set(value)] == []
