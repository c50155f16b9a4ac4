"""What other programs read of a report: CSV and badges."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from xml.etree import ElementTree

from conformance.model.observation import Run
from conformance.model.verdict import Status
from conformance.report.exports import badges, outcomes
from conformance.report.overview import frameworks
from tests.test_behaviours import RAN, ran, result, verdict

WRONG = verdict("gradient", Status.FAIL, '=HYPERLINK("x")\nw is "None", <b>')


def test_a_line_for_each_case_on_each_variant_and_no_formula() -> None:
    run = ran(result(RAN, WRONG, run=Run()), result(RAN, case="a/b", run=Run()))
    rows = list(csv.reader(io.StringIO(outcomes([run]))))
    assert rows[0] == ["adapter", "variant", "case", "outcome", "message"]
    assert rows[1] == [
        "mini",
        "mini/right",
        "captures/frozen-input",
        "silently wrong",
        '\'=HYPERLINK("x") w is "None", <b>',
    ]
    assert rows[2][2:] == ["a/b", "right", ""]


def test_a_badge_says_how_the_first_variant_does() -> None:
    run = ran(result(RAN, WRONG, run=Run()), result(RAN, case="a/b", run=Run()))
    found = badges(frameworks([run]))
    assert set(found) == {"mini.svg", "mini.json"}
    endpoint = json.loads(found["mini.json"])
    assert endpoint["message"] == "1 of 2 right, 1 silently wrong"
    assert endpoint["label"] == "recompute mini"
    assert "1 of 2 right" in "".join(ElementTree.fromstring(found["mini.svg"]).itertext())
    (good,) = (
        json.loads(t) for n, t in badges(frameworks([ran(run.results[1])])).items() if "json" in n
    )
    assert (good["message"], good["color"]) == ("1 of 1 right", "#1a7f37")


def test_an_adapter_of_a_hostile_name_stays_in_its_folder() -> None:
    run = ran(result(RAN, run=Run()))
    named = replace(run, header=replace(run.header, adapter='../<x onload="1">'))
    found = badges(frameworks([named]))
    assert all("/" not in name and "." not in name.rpartition(".")[0] for name in found)
    (svg,) = (text for name, text in found.items() if name.endswith("svg"))
    assert "onload" not in {
        key for node in ElementTree.fromstring(svg).iter() for key in node.attrib
    }
