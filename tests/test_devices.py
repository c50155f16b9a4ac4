"""Devices: what an adapter changes for one, which causes hold on it, and what a program says."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.drivers.adapter import Adapter, find_adapter, read_adapter
from conformance.emit.programs import texts
from conformance.errors import AdapterError
from conformance.judge.known import in_release
from conformance.judge.known import read as read_known
from conformance.run.runner import lacking
from tests.commands import ROOT, conformance
from tests.suite_cases import BY_ID

CAUSES = """\
- cause: everywhere
  when: {case: inference}
  shows: {value: outputs}
  says: It is so.
- cause: on_cuda
  device: cuda
  when: {case: inference}
  shows: {value: outputs}
  says: It is so on CUDA.
"""


def on(device: str, adapter: str = "torch") -> Adapter:
    return find_adapter(adapter, ROOT / "adapters").on(device)


@pytest.mark.parametrize(
    ("device", "causes"),
    [("cpu", ["everywhere"]), ("cuda", ["everywhere", "on_cuda"]), ("", ["everywhere", "on_cuda"])],
)
def test_a_cause_holds_on_its_device(tmp_path: Path, device: str, causes: list[str]) -> None:
    file = tmp_path / "known.yaml"
    file.write_text(CAUSES)
    assert [entry.cause for entry in in_release(read_known(file), "1.0", device)] == causes


def test_a_program_names_its_device() -> None:
    case = BY_ID["randomness/explicit-generator"]
    for device, there in (("cpu", False), ("cuda", True)):
        adapter = on(device)
        text = texts(adapter, [(case, adapter.variant("reentrant"))])[case.id, "torch/reentrant"]
        assert ('torch.set_default_device("cuda")' in text.text) is there
        assert ('torch.Generator("cuda")' in text.text) is there
    adapter = on("cuda", "jax")
    assert (
        "cuda" not in texts(adapter, [(case, adapter.variant("eager"))])[case.id, "jax/eager"].text
    )


def test_a_device_changes_the_environment_and_what_is_offered() -> None:
    assert on("cpu").environment("reentrant")["CUDA_VISIBLE_DEVICES"] == ""
    assert on("cuda").environment("reentrant")["CUDA_VISIBLE_DEVICES"] == "0"
    assert (
        on("cpu").variant("reentrant").model.residuals
        != on("cuda").variant("reentrant").model.residuals
    )
    ranks = BY_ID["ranks/all-reduce"]
    assert lacking(ranks, on("cpu").variant("reentrant")) is None
    verdict = lacking(ranks, on("cuda").variant("reentrant"))
    assert verdict is not None
    assert "lacks ranks (the processes of ranks are forked" in verdict.message


def test_a_device_that_an_adapter_does_not_have_is_refused() -> None:
    with pytest.raises(AdapterError, match="adapter 'paddle' has no device 'cuda'") as raised:
        on("cuda", "paddle")
    assert "adapter.yaml" in str(raised.value)
    assert "it has cpu" in str(raised.value)


def test_a_device_names_capabilities_that_there_are(tmp_path: Path) -> None:
    text = (ROOT / "adapters" / "autograd" / "adapter.yaml").read_text()
    (tmp_path / "autograd").mkdir()
    file = tmp_path / "autograd" / "adapter.yaml"
    file.write_text(text + "devices: {gpu: {lacks: {rank: there is one}}}\n")
    with pytest.raises(AdapterError, match="device 'gpu' speaks of an unknown capability 'rank'"):
        read_adapter(file.parent)


def test_a_run_on_a_device_without_it_says_so(tmp_path: Path) -> None:
    done = conformance(tmp_path, "run", "--adapter", "reference", "--device", "cuda")
    assert done.returncode == 2
    assert "adapter 'reference' has no device 'cuda'" in done.stderr + done.stdout
