"""How the toy framework is checked."""

import gc

import numpy as np
import toy

from conformance.model.observation import Leaf
from conformance.observe.worker.checking import base
from conformance.observe.worker.checking.regions import Recompute
from conformance.observe.worker.observer import Observer as BaseObserver

KEPT: list[int] = []


class Observer(BaseObserver):
    resolution = 0

    def leaf(self, value):
        if isinstance(value, toy.Loss):
            return Leaf(value.value, "float32")
        return Leaf(np.array(value), str(value.dtype)) if isinstance(value, np.ndarray) else None

    def generator(self):
        return None

    def held(self):
        gc.collect()
        losses = (one for one in gc.get_objects() if isinstance(one, toy.Loss))
        return sum(KEPT) + sum(sum(array.nbytes for array in loss.kept) for loss in losses)


class Trained(base.Trained):
    def parameters(self):
        return dict(self.model.weights)

    def layers(self):
        return {"": self.model}

    def differentiate(self, batch):
        self.watch.starts("forward")
        returned = self.file.loss(self.model, batch)
        loss = returned[0] if isinstance(returned, tuple) else returned
        self.watch.starts("backward")
        return returned, loss.gradients() if isinstance(loss, toy.Loss) else {}

    def update(self, gradients):
        for name, gradient in gradients.items():
            if gradient is not None:
                self.model.weights[name] = self.model.weights[name] - 0.1 * gradient

    def start_as(self, other):
        self.model.weights = dict(other.model.weights)


class Framework(base.Framework):
    recomputes = (Recompute("toy", "recompute", "call", frozenset({"keep"})),)
    told = ("nested-inputs",)

    def __init__(self):
        super().__init__(Observer("plain"))

    def seed(self, number):
        pass

    def trained(self, file, model, watch):
        if not hasattr(model, "weights"):
            raise TypeError(f"`model` returned a {type(model).__name__}, not a model with weights")
        return Trained(file, model, watch)

    def features(self, function, args, kwargs):
        return {"nested-inputs"} if any(isinstance(a, list) for a in args) else set()
