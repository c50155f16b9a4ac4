"""The page about models of transformers, from outcomes that are made up here."""

from __future__ import annotations

import importlib.metadata

import pytest

from tools import models
from tools.models import Outcome


@pytest.fixture(autouse=True)
def versions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "1.2")


def test_the_page_lists_what_deviates_and_what_is_right() -> None:
    right, wrong = Outcome("right"), Outcome("wrong", "gradients: 1 of 2 differ, w|x: <none>")
    found = {
        "Good": {"non-reentrant": right, "reentrant": right},
        "Bad": {"non-reentrant": right, "reentrant": wrong},
        "Worse": {"non-reentrant": wrong, "reentrant": wrong},
        "Also": {"non-reentrant": wrong, "reentrant": wrong},
        "Norm": {"non-reentrant": Outcome("right", "1 of 2 differ"), "reentrant": right},
        "Odd": {mode: Outcome("not checked", "no size") for mode in models.MODES},
    }
    kinds = dict.fromkeys(found, "CAUSAL_LM") | {"Norm": "CTC"}
    page = "\n".join(models.page(found, kinds))
    assert "| causal language models (`…ForCausalLM`) | 2 of 4 | 1 of 4 | Good |" in page
    assert "| speech, with CTC (`…ForCTC`) | 1 of 1 | 1 of 1 | Norm |" in page
    assert (
        "- Bad (reentrant): gradients: 1 of 2 differ, w\\|x: \\<none\\>\n- Worse, Also: grad"
        in page
    )
    assert "made or run:\n\n- Odd: no size\n" in page
    assert "as in every framework: Norm." in page
