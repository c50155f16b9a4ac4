"""A tape in one file: enough of a framework to recompute a region, or to fail at it on request."""

from __future__ import annotations

import os
import signal
import time

import numpy as np

recording = True
kept = []


class Tensor:
    """An array with the tensors that it came from, and how a cotangent goes back to them."""

    def __init__(self, data, parents=(), back=None):
        self.data = np.asarray(data)
        self.parents, self.back = (parents, back) if recording else ((), None)
        self.grad = None


def mul(a, b):
    return Tensor(a.data * b.data, (a, b), lambda d: (d * b.data, d * a.data))


def add(a, b):
    return Tensor(a.data + b.data, (a, b), lambda d: (d, d))


def sin(x):
    return Tensor(np.sin(x.data), (x,), lambda d: (d * np.cos(x.data),))


def total(x):
    return Tensor(x.data.sum(), (x,), lambda d: (np.broadcast_to(d, x.data.shape),))


def backward(result, cotangent):
    """Add the gradients of everything behind `result` to its `grad`."""
    order, seen = [], set()

    def visit(tensor):
        if id(tensor) not in seen:
            seen.add(id(tensor))
            for parent in tensor.parents:
                visit(parent)
            order.append(tensor)

    visit(result)
    found = {id(result): cotangent}
    for tensor in reversed(order):
        d = found.pop(id(tensor), None)
        if d is None:
            continue
        if tensor.back is None:
            tensor.grad = d if tensor.grad is None else tensor.grad + d
            continue
        for parent, part in zip(tensor.parents, tensor.back(d), strict=True):
            found[id(parent)] = found.get(id(parent), 0) + part


def recompute(function, way="right"):
    """`function` (of tensors, to one tensor), run again in backward instead of kept."""

    def call(*args, **kwargs):
        global recording
        if kwargs and way == "picky":
            raise ValueError("recompute takes no keyword arguments")
        inputs = (*args, *kwargs.values())
        recording, before = False, recording
        try:
            data = function(*args, **kwargs).data
        finally:
            recording = before

        def back(d):
            misbehave(way)
            fresh = [Tensor(x.data) for x in inputs]
            again = function(
                *fresh[: len(args)], **dict(zip(kwargs, fresh[len(args) :], strict=True))
            )
            backward(again, d * 2 if way == "wrong" else d)
            zeros = [np.zeros_like(x.data) for x in inputs]
            return [z if x.grad is None else x.grad for x, z in zip(fresh, zeros, strict=True)]

        return Tensor(data, inputs, back)

    return call


def misbehave(way):
    if way == "crashing":
        print("mini: about to die", flush=True)
        os.kill(os.getpid(), signal.SIGSEGV)
    elif way == "hanging":
        time.sleep(60)
    elif way == "hungry":
        np.ones(2**30)
    elif way == "keeping" and not kept:  # more than half of what it may
        kept.append(np.empty(2**27))
