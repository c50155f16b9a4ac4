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
    # The generator makes none of the containers, names and defaults that these read.
    **dict.fromkeys(
        (
            "drops_empty",
            "drops_false_in_rerun",
            "drops_false_keyword",
            "ignores_lists",
            "ignores_objects",
            "inert_without_first_tensor",
            "keywords_by_position",
            "list_to_tuple",
            "loses_tenth",
            "named_to_tuple",
            "second_result_stopped",
            "takes_debug",
            "transposes_square",
        ),
        "no generated program has such arguments or results yet (docs/fuzz.md)",
    ),
}


def test_nearly_all_faults_are_found(pools: Pools, tmp_path: Path) -> None:
    search = Search("reference", tmp_path, pools)
    faults = [fault for fault in faults_of("reference") if fault.name not in OUT_OF_REACH]
    missed = [fault.name for fault in faults if fault.check not in search.shown(fault)]
    assert len(missed) <= 0.05 * len(faults), missed
