"""Generated programs show faults of implementations.

Only the reference's are looked for here; `python -m tests.faulty.generated` looks for the others.
"""

from __future__ import annotations

from pathlib import Path

from tests.faulty.faults import Pools, faults_of
from tests.faulty.generated import Search

#: Faults that no generated program shows, each with its reason.
OUT_OF_REACH = {
    "leaks_on_error": "no generated program is repeated that ends in an error",
    "swallows_error": "what raises in the rerun alone is left to implementations",
    "list_to_tuple": "few of 500 generated programs return a list as a whole and put it out",
}


def test_nearly_all_faults_are_found(pools: Pools, tmp_path: Path) -> None:
    search = Search("reference", tmp_path, pools)
    faults = [fault for fault in faults_of("reference") if fault.name not in OUT_OF_REACH]
    missed = [fault.name for fault in faults if fault.check not in search.shown(fault)]
    assert len(missed) <= 0.05 * len(faults), missed
