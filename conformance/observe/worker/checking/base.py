"""What an adapter writes so that users' programs can be checked: its `checking.py`.

That file has a class `Framework(conformance.observe.worker.checking.base.Framework)`. It makes models
out of what the program's file defines and trains them, step by step, in a worker process of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np

from conformance.model.observation import Leaf
from conformance.observe.worker.checking import calls
from conformance.observe.worker.checking.arrays import Values
from conformance.observe.worker.checking.regions import Recompute, Regions
from conformance.observe.worker.observer import Observer, error_text

#: The learning rate of the steps, where the file says nothing about the optimizer.
LEARNING_RATE = 0.01


@dataclass
class Watch:
    """Reads memory at the two moments of a step that a model's `differentiate` names with `starts`."""

    #: Called with the phase, `forward` or `backward`, and what the program holds then besides the model.
    on_phase: Callable[[str, Any], None] = lambda phase, holds: None
    #: Told the phase that starts.
    tell: Callable[[str], object] = lambda phase: None
    #: Whether memory is read in this step.
    reading: bool = False
    phase: str = field(default="", init=False)

    def starts(self, phase: str, holds: Any = ()) -> None:
        """To be called where a phase starts. `holds` are results that live beyond it, like the loss."""
        self.enters(phase)
        self.on_phase(phase, holds)

    def enters(self, phase: str) -> None:
        """To be called where a phase starts before and after which memory is not read."""
        self.phase = phase
        self.tell(phase)


class Trained(ABC):
    """A model that is trained. `model` is what the program's function `model` returned."""

    def __init__(self, file: ModuleType, model: Any, watch: Watch) -> None:
        self.file, self.model, self.watch = file, model, watch
        make = getattr(file, "optimizer", None)
        #: What the program's function `optimizer` returned; `None` where it has none.
        self.optimizer: Any = None if make is None else make(model)

    @abstractmethod
    def parameters(self) -> Mapping[str, Any]:
        """The tensors that are trained, by name."""

    def buffers(self) -> Mapping[str, Any]:
        """The tensors that are state and are not trained, by name."""
        return {}

    def layers(self) -> Mapping[str, Any]:
        """The layers, by name; the model itself is `""`."""
        return {}

    @abstractmethod
    def differentiate(self, batch: Any) -> tuple[Any, Mapping[str, Any]]:
        """What the program's `loss` returned, and the gradient of each parameter, `None` where there is
        none. Calls `watch.starts("forward")` before the forward pass and `"backward"` after it."""

    @abstractmethod
    def update(self, gradients: Mapping[str, Any]) -> None:
        """One step of the optimizer: the file's, or gradient descent with `LEARNING_RATE`. Gradients of
        this step are forgotten."""

    @abstractmethod
    def start_as(self, other: Trained) -> None:
        """Take the parameters and buffers of another model over, by name."""


class Framework(ABC):
    """A framework in which programs are checked. Made once, before the program's file is imported."""

    #: The variant of the adapter whose observer reads arrays and memory.
    variant: str
    #: The framework's recompute functions.
    recomputes: Sequence[Recompute] = ()
    #: The features, in the words of causes, that `features` can see of a region.
    told: Sequence[str] = ()
    #: In how many steps the peak is read, of which the largest counts; more than one where the framework
    #: frees memory in a thread of its own, so that the peak differs from step to step.
    peak_steps = 1
    #: What `counting` counts.
    unit = "calls of layers and functions"
    #: Why memory or reruns cannot be told, if they cannot.
    unmeasured = ""
    uncounted = ""

    def __init__(self, observer: Observer) -> None:
        self.observer = observer

    @abstractmethod
    def seed(self, number: int) -> None:
        """Seed the framework's global generators."""

    @abstractmethod
    def trained(self, file: ModuleType, model: Any, watch: Watch) -> Trained:
        """A model of the program, ready to be trained. Raises `TypeError` with what is expected where
        it is of a kind that cannot be."""

    def features(self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> set[str]:
        """What can be seen of a region's call, in the words of causes."""
        return set()

    def variants_of(self, options: Mapping[str, Any]) -> tuple[str, ...]:
        """The variants of the adapter that call recompute with these options; empty for any of them."""
        return ()

    def counting(self, trained: Trained) -> AbstractContextManager[Callable[[], Mapping[str, int]]]:
        """Count what runs inside the `with`, by layer or function."""
        layers = {id(layer): name for name, layer in trained.layers().items()}
        file, watch = str(trained.file.__file__), trained.watch
        return calls.counted(layers, file, when=lambda: watch.phase in ("forward", "backward"))

    def hidden(self) -> str:
        """Why nothing inside the steps that ran can be observed; empty if it can."""
        return ""

    def peak_of(self, trained: Trained, batch: Any) -> int | None:
        """The peak of a step where the observer cannot read it while the step runs."""
        return None

    def scalar(self, loss: Any) -> Leaf:
        """The loss as a leaf. Raises `TypeError` where it is no scalar."""
        leaf = self.leaf(loss)
        if leaf is None or leaf.array.size != 1:
            found = type(loss).__name__ if leaf is None else f"a tensor of shape {leaf.array.shape}"
            raise TypeError(f"`loss` returned {found}, not a scalar of the framework")
        return leaf

    def said(self, error: BaseException) -> str:
        """What an error says, without what the framework puts around it."""
        return error_text(error)

    def leaf(self, value: Any) -> Leaf | None:
        return self.observer.leaf(value)

    def leaves(self, tensors: Mapping[str, Any]) -> Values:
        return {name: None if t is None else self.leaf(t) for name, t in tensors.items()}

    def drawn(self) -> Values:
        """Numbers that each generator draws next, which tell where it stands."""
        draws: dict[str, Any] = {"the framework's generator": self.observer.generator()}
        draws["NumPy's generator"] = np.random.uniform(size=4)
        import random

        draws["Python's generator"] = np.array([random.random() for _ in range(4)])
        return {n: Leaf(np.array(a), str(a.dtype)) for n, a in draws.items() if a is not None}

    def regions(self, file: str) -> Regions:
        """The regions of the program in a file, whose recompute functions are replaced from now on."""
        regions = Regions(file, self.features, self.variants_of)
        regions.replace(self.recomputes)
        return regions

    @contextmanager
    def watching(self) -> Iterator[None]:
        """The context in which the observer measures memory."""
        with self.observer.watching():
            yield
