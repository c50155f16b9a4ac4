"""Features of how tensors go in and out of regions, and of what gradients read: a small case for
each."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from conformance.language.features import features_of
from conformance.language.load import load_text

SIN = {"recompute": "r(x)", "body": "y = sin(x)"}
RAISES = {"recompute": "r(x)", "body": "y = raise_if(x, on)"}
TWICE = {"recompute": "r(x)", "gives": ["y", "u"], "body": "y = sin(x); u = cos(x)"}
NAMED = {**SIN, "takes": [], "kwargs": {"x": "x"}, "recompute": "r"}
LEAVES = {**SIN, "gives": ["y", "q"], "left": "q", "body": "y = sin(x); q = exp(y)"}
LEAVES_GIVEN = {**LEAVES, "body": "y = sin(x); q = raise_if(x, on)"}
BESIDE = {"recompute": "s(x)", "body": "v = sin(x)"}
RETURNS_BOOL = {**SIN, "gives": ["y", "told"], "body": "y = sin(x); told = is_unwrapped_by(s)"}
OF_ONE = {"recompute": "r", "takes": [{"a": "x"}], "body": "y = sin(x)"}
OF_H = {"recompute": "r", "takes": [{"a": "h"}], "body": "y = sin(h)"}
CHANGES_H = {**OF_H, "gives": [["y"]], "body": "y = add_in_place(h, w)"}
OF_OBJECT = {
    "recompute": "r",
    "takes": [{"object": {"a": "x", "b": "w"}}],
    "body": "y = multiply(x, w)",
}
OF_DICT = {"recompute": "r", "takes": [{"a": "x", "b": "w"}], "body": "y = multiply(x, w)"}
CHANGED = "h = sin(x); s = cos(h); g = add_in_place(h, 0.5); y = multiply(s, g)"

NESTED = {
    "recompute": "r(x)",
    "body": ["h = sin(x)", {"recompute": "i(h)", "body": "a = exp(h)"}, "y = tanh(a)"],
}
BY_CLOSURE = {
    "recompute": "r(x)",
    "body": ["h = sin(x)", {"recompute": "i(x)", "body": "a = multiply(x, h)"}, "y = tanh(a)"],
}
BOTH_WAYS = {
    "recompute": "r(x)",
    "body": [
        "h = sin(x)",
        {"define": "i", "takes": ["t"], "kwargs": {"k": "u"}, "gives": "v", "body": "v = tanh(w)"},
        {"call": "i", "takes": ["h"], "kwargs": {"k": "h"}, "gives": "y"},
    ],
}
INNER_CHANGES = {
    "recompute": "r(x)",
    "body": [
        "h = negative(x)",
        {"recompute": "i(h)", "gives": "y", "body": "g = add_in_place(h, w); y = square(g)"},
        "y = exp(y)",
    ],
}
GIVES_CAPTURED = {"recompute": "r(x)", "gives": ["y", "w"], "body": "y = sin(x)"}
GIVES_DETACHED = {"recompute": "r", "gives": ["y", "w"], "body": "y = sin(x)"}
GIVES_COMPUTED = {"recompute": "r", "gives": ["y", "h"], "body": "y = sin(x)"}
GIVES_TWICE = {"define": "r(t)", "gives": ["y", ["y"]], "body": "y = sin(t)"}
CALLED = {"call": "r", "takes": ["x"], "gives": ["u", ["v"]]}
DEEP = {
    "recompute": "r(x)",
    "body": [
        "h = sin(x)",
        {"recompute": "i", "body": [{"recompute": "j", "body": "a = exp(h)"}]},
        "y = tanh(a)",
    ],
}
ASKS = {"recompute": "r(x)", "body": "h = exp(x); told = asks_gradient(h); y = sin_or_cos(h, told)"}
ASKS_ARGUMENT = {**ASKS, "body": "told = asks_gradient(x); y = sin_or_cos(x, told)"}
BOTH_DRAW = {
    "recompute": "r(x)",
    "body": "u = uniform(shape=[2, 3]); m = multiply(x, u); d = dropout(m); y = sin(d)",
}
OVERWRITES = {"recompute": "r(x)", "body": "g = add_in_place(h, x); y = sin(g)"}
ZEROS = {"recompute": "r(x, w)", "gives": ["y", "u"], "body": "y = sin(x); u = cos(w)"}
STOPS = {"recompute": "r(x)", "body": "y = stop_gradient(x)"}
STOPS_FIRST = {"recompute": "r(x)", "gives": ["u", "y"], "body": "y = sin(x); u = stop_gradient(x)"}
STOPS_VIEW = {**STOPS_FIRST, "body": "y = sin(x); t = stop_gradient(x); u = reshape(t, shape=[6])"}
DOUBLED = {"recompute": "r(x)", "body": "y = doubled_sin(x)", "contexts": True}
VIEWED = {"recompute": "r", "body": "y = permute_dims(x, axes=[1, 0])"}
FREE = {
    "recompute": "r(x)",
    "body": [
        {"recompute": "i(x)", "body": "u = numpy_uniform(shape=[2, 3]); m = multiply(x, u)"},
        "y = sin(m)",
    ],
}
SAVES_SHAPE = {
    "recompute": "r(x)",
    "body": ["h = sin(w)", {"recompute": "i(x)", "body": "a = sin(h); y = to_complex(x, x)"}],
}
CASTS = {
    "recompute": "r(x)",
    "body": [
        "a = matmul(w, x)",
        {"recompute": "i(x)", "body": "y = matmul(x, w)", "autocast": "float16"},
    ],
    "autocast": "bfloat16",
}
CASTS_BESIDE = {
    "recompute": "r(x)",
    "body": [
        {"recompute": "i(x)", "body": "a = matmul(x, w)", "autocast": "bfloat16"},
        {"recompute": "j(x)", "body": "b = matmul(x, w)", "autocast": "float16"},
        "y = add(a, b)",
    ],
}
FREES = {"recompute": "r(a)", "body": "y = multiply(a, h)"}
GIVES_INPUT = {"define": "i(t)", "gives": ["y", "x"], "body": "y = sin(t)"}
CALLS_I = {"call": "i", "takes": ["w"], "gives": ["u", "v"]}
MODULE = {**SIN, "granularity": "module"}
LATER = {"call": "r", "takes": ["w"], "gives": "u"}
CALLS_LATER = {"recompute": "s(x)", "gives": "v", "body": ["v = exp(x)", {**LATER, "gives": "k"}]}
GIVES_CONSTANT = {"recompute": "r(x)", "gives": ["y", "i"], "body": "y = multiply(x, w)"}
FREES_TRAINED = {"recompute": "r(a)", "body": "b = multiply(a, h); y = multiply(b, w)"}


def drawn(operation: str, *, last: bool = False) -> dict[str, str]:
    """A region that multiplies with random numbers, or adds them at its end."""
    draw = f"u = {operation}(shape=[2, 3])"
    body = (
        f"h = sin(x); {draw}; y = add(h, u)" if last else f"{draw}; m = multiply(x, u); y = sin(m)"
    )
    return {"recompute": "r(x)", "body": body}


def unsteady(then: str) -> dict[str, str]:
    """A region that does something else when it is called again."""
    return {"recompute": "r(x)", "body": f"h = unsteady_sin(x, then='{then}'); y = exp(h)"}


#: A feature, and the programs that have it and that lack it; the last statement's result is the output.
TABLE = [
    ("dict-of-several", [OF_DICT, "z = sin(y)"], [OF_ONE, "z = sin(y)"]),
    ("dict-of-several", [OF_DICT, "z = sin(y)"], [OF_OBJECT, "z = sin(y)"]),
    ("gradient-in-dict", [OF_DICT, "z = sin(y)"], [OF_DICT, "z = multiply(x, w)"]),
    ("gradient-reads-result", [SIN, "z = multiply(y, y)"], [SIN, "z = multiply(y, 2.0)"]),
    ("reached", [RAISES, "z = multiply(x, y)"], [RAISES, "z = multiply(x, x)"]),
    ("result-is-argument", [RAISES, "z = sin(y)"], [SIN, "z = sin(y)"]),
    ("gradient-by-closure", [{**RAISES, "recompute": "r(w)"}, "z = sin(y)"],
     ["u = uniform(shape=[2, 3])", {**RAISES, "recompute": "r(u)"}, "z = sin(y)"]),
    ("result-without-loss", [TWICE, "z = sin(y)"], [TWICE, "z = add(y, u)"]),
    (
        "changed-after-read",
        [{**SIN, "body": CHANGED}, "z = sin(y)"],
        [{**SIN, "body": CHANGED.replace("s = cos(h); ", "").replace("(s, g)", "(g, g)")}, "z = sin(y)"],
    ),
    ("keeps-last:exp", [{**SIN, "body": "h = sin(x); e = exp(h); y = negative(e)"}, "z = sin(y)"],
    [SIN, "z = exp(y)"]),
    ("runs-again", [SIN, "z = sin(y)"], [{**SIN, "body": "y = add(x, w)"}, "z = sin(y)"]),
    ("inner-regions-save", [NESTED, "z = sin(y)"], [SIN, "z = sin(y)"]),
    ("global-draw-read", [drawn("uniform"), "z = sin(y)"], [drawn("numpy_uniform"), "z = sin(y)"]),
    ("global-draw-read", [drawn("uniform"), "z = sin(y)"],
     [{**SIN, "body": "u = dropout(x, seed=3); y = sin(u)"}, "z = sin(y)"]),
    ("other-draw-read", [drawn("numpy_uniform"), "z = sin(y)"], [drawn("uniform"), "z = sin(y)"]),
    ("other-draw-decides", [drawn("numpy_uniform"), "z = sin(y)"], [drawn("uniform"), "z = sin(y)"]),
    ("node-draws-again", [drawn("numpy_uniform"), "z = sin(y)"], [drawn("uniform"), "z = sin(y)"]),
    ("node-draws-again", [drawn("numpy_uniform"), "z = sin(y)"],
     [{**drawn("numpy_uniform"), "preserve_rng": False}, "z = sin(y)"]),
    ("other-draw-again", [drawn("numpy_uniform", last=True), "z = sin(y)"], [SIN, "z = sin(y)"]),
    ("other-draw-again", [FREE, "z = sin(y)"], [{**FREE, "preserve_rng": False}, "z = sin(y)"]),
    ("draws-anew", [{**FREE, "preserve_rng": False}, "z = sin(y)"],
     [FREE, {"recompute": "s(y)", "body": "z = sin(y)", "preserve_rng": False}]),
    ("other-draw-early", [drawn("numpy_uniform"), "z = sin(y)"],
     [drawn("numpy_uniform", last=True), "z = sin(y)"]),
    ("draw-after-kept-draw", [{**BOTH_DRAW, "save": ["u"]}, "z = sin(y)"], [BOTH_DRAW, "z = sin(y)"]),
    ("other-values-read", [unsteady("values"), "z = sin(y)"], [unsteady("operations"), "z = sin(y)"]),
    ("other-operations-read", [unsteady("operations"), "z = sin(y)"], [unsteady("shape"), "z = sin(y)"]),
    ("saved-after-others", [unsteady("operations"), "z = sin(y)"],
     [{**SIN, "body": "y = unsteady_sin(x, then='operations')"}, "z = sin(y)"]),
    ("inner-operations-read",
     [{"recompute": "r(x)", "body": [
         {"recompute": "s(x)", "body": "h = unsteady_sin(x, then='operations')"}, "y = exp(h)"]},
      "z = sin(y)"],
     [unsteady("operations"), "z = sin(y)"]),
    ("switch-read", [{**SIN, "body": "y = switched_sin(x)"}, "z = sin(y)"], [SIN, "z = sin(y)"]),
    ("op:to_default", [{**SIN, "body": "y = to_default(x)"}, "z = sin(y)"], [SIN, "z = sin(y)"]),
    ("captured-parameter-read", [{**SIN, "body": "h = add(x, w); y = sin(h)"}, "z = sin(y)"],
     [{**SIN, "body": "h = sin(x); y = add(h, w)"}, "z = sin(y)"]),
    ("overwritten-read", ["h = sin(x)", OVERWRITES, "z = sin(y)"], ["h = sin(x)", SIN, "z = sin(y)"]),
    ("after-last-saved", [{**SIN, "body": "h = sin(x); y = negative(h)"}, "z = sin(y)"],
     [SIN, "z = sin(y)"]),
    ("after-last-saved",
     [{**NESTED, "body": [{"recompute": "i(x)", "body": "y = exp(x)"}]}, "z = sin(y)"],
     [NESTED, "z = sin(y)"]),
    ("saved-changed", [{**SIN, "body": CHANGED}, "z = sin(y)"], [SIN, "z = sin(y)"]),
    ("saved-changed-decides", [{**SIN, "body": CHANGED.replace("cos", "abs")}, "z = sin(y)"],
     [{**SIN, "body": CHANGED}, "z = sin(y)"]),
    ("saved-changed", [INNER_CHANGES, "z = sin(y)"], [NESTED, "z = sin(y)"]),
    ("saved-changed-early", [INNER_CHANGES, "z = sin(y)"],
     [{**INNER_CHANGES, "body": INNER_CHANGES["body"][:2]}, "z = sin(y)"]),
    ("saved-changed-early", [{**SIN, "body": CHANGED}, "z = sin(y)"],
     [{**SIN, "gives": "y", "body": "h = negative(x); y = sin(h); g = add_in_place(h, w)"},
      "z = sin(y)"]),
    ("saved-changed-early-decides", [{**SIN, "body": CHANGED.replace("cos", "abs")}, "z = sin(y)"],
     [{**SIN, "body": CHANGED}, "z = sin(y)"]),
    ("saved-overwritten", [{**SIN, "body": CHANGED}, "z = sin(y)"], [SIN, "z = sin(y)"]),
    ("saved-read-twice", [{**SIN, "body": "y = custom_sin(x, reads=2)"}, "z = sin(y)"],
     [{**SIN, "body": "y = custom_sin(x)"}, "z = sin(y)"]),
    ("saves-view", [{**SIN, "body": "h = reshape(x, shape=[6]); y = custom_sin(h)"}, "z = sin(y)"],
     [{**SIN, "body": "h = reshape(x, shape=[6]); y = sin(h)"}, "z = sin(y)"]),
    ("saves-view",
     [{**SIN, "body": "c = to_complex(x, x); h = real(c); y = custom_sin(h)"}, "z = sin(y)"],
     [{**SIN, "body": "h = reshape(x, shape=[6]); g = exp(h); y = custom_sin(g)"}, "z = sin(y)"]),
    ("given-by-reference", [BY_CLOSURE, "z = sin(y)"], [NESTED, "z = sin(y)"]),
    ("given-by-reference", [DEEP, "z = sin(y)"], [NESTED, "z = sin(y)"]),
    ("given-by-reference", [BOTH_WAYS, "z = sin(y)"], [NESTED, "z = sin(y)"]),
    ("mapped-argument-read", [{**SIN, "mapped": True}, "z = sin(y)"],
     [{**SIN, "mapped": True, "body": "y = negative(x)"}, "z = sin(y)"]),
    ("last-saved:rrelu", [{**SIN, "body": "h = sin(x); y = rrelu(h)"}, "z = sin(y)"],
     [{**SIN, "body": "h = rrelu(x); y = sin(h)"}, "z = sin(y)"]),
    ("draws-early:uniform", [drawn("uniform"), "z = sin(y)"],
     [drawn("uniform", last=True), "z = sin(y)"]),
    ("runs-again", [SIN, "z = sin(y)"],
     [{"recompute": "r(x, on)", "body": "y = multiply(x, on)"}, "z = sin(y)"]),
    ("gradient-in-object", [{**OF_ONE, "takes": [{"object": {"a": "x"}}]}, "z = sin(y)"],
     [{**OF_ONE, "takes": [["w", {"object": {"a": "x"}}]], "body": "y = sin(w)"}, "z = sin(y)"]),
    ("node-hooks-nothing", [TWICE, "u = hooked(u, scale=2.0)", "z = sin(y)"],
     [TWICE, "u = hooked(u, scale=2.0)", "z = multiply(y, u)"]),
    # What is changed in place where nothing is recorded stays in the graph that it was in.
    ("node-detaches-loss", ["h = sin(x)", OF_H, "z = sin(y)"], ["h = sin(x)", CHANGES_H, "z = sin(y)"]),
    ("node-detaches-loss", [OF_ONE, "z = sin(y)"], [SIN, "z = sin(y)"]),
    ("node-detaches-loss", [OF_ONE, "s = slope_of_sin(y)", "z = sin(w)"],
     [SIN, "s = slope_of_sin(y)", "z = sin(w)"]),
    ("node-detaches-saved", ["h = sin(w)", "s = sin(h)", GIVES_COMPUTED, "z = add(y, s)"],
     ["h = sin(w)", "s = exp(h)", GIVES_COMPUTED, "z = add(y, s)"]),
    ("node-loses-gradient", [OF_ONE, "h = sin(w)", "z = multiply(y, h)"], [SIN, "z = sin(y)"]),
    ("node-runs-otherwise", [OF_ONE, "h = sin(w)", "z = multiply(y, h)"], [SIN, "z = sin(y)"]),
    ("node-detaches-loss", [{**SIN, "gives": [["y"]]}, "z = sin(y)"],
     [GIVES_TWICE, CALLED, "z = sin(v)"]),
    ("left-loses-gradient", [LEAVES, "z = multiply(y, q)"], [LEAVES, "z = sin(y)"]),
    ("left-loses-gradient", [LEAVES, "z = multiply(y, q)"], [LEAVES_GIVEN, "z = multiply(y, q)"]),
    ("left-runs-otherwise", [LEAVES, BESIDE, "z = multiply(q, v)"], [LEAVES, "z = multiply(y, q)"]),
    ("left-detaches-loss", [LEAVES, "z = sin(q)"], [LEAVES, "z = multiply(y, q)"]),
    ("later-call-unreached", [SIN, LATER, "z = sin(y)"], [SIN, LATER, "z = sin(u)"]),
    ("returns-bool", [BESIDE, RETURNS_BOOL, "z = sin(y)"],
     [BESIDE, {**RETURNS_BOOL, "gives": "y"}, "z = sin(y)"]),
    ("node-loses-gradient", [LEAVES, "z = multiply(y, q)"], [LEAVES, "z = sin(y)"]),
    ("node-gives-zeros", [ZEROS, "z = sin(y)"], [SIN, "z = sin(y)"]),
    ("node-without-result", [STOPS, "h = sin(w)", "z = multiply(y, h)"], [SIN, "z = sin(y)"]),
    ("node-loses-gradient", [ASKS, "z = sin(y)"], [ASKS_ARGUMENT, "z = sin(y)"]),
    ("node-gives-other-values", [ASKS, "z = sin(y)"], [ASKS_ARGUMENT, "z = sin(y)"]),
    ("node-gives-other-values", [ASKS, "z = sin(y)"], [ASKS, "z = sin(x)"]),
    ("node-gives-other-answers", [{**ASKS, "gives": ["y", "told"]}, "z = sin(y)"],
     [{**ASKS_ARGUMENT, "gives": ["y", "told"]}, "z = sin(y)"]),
    ("node-runs-other-operations", [ASKS, "z = sin(y)"], [ASKS_ARGUMENT, "z = sin(y)"]),
    ("node-runs-endlessly", [GIVES_CAPTURED, "z = sin(y)"], [TWICE, "z = sin(y)"]),
    ("node-passes-nothing",
     ["h = sin(w)", {"recompute": "r(x, h)", "body": "y = sin(x)"}, "z = sin(y)"],
     ["h = sin(w)", {"recompute": "r(x, h)", "body": "y = add(x, h)"}, "z = sin(y)"]),
    ("node-detaches-captured", [GIVES_DETACHED, "z = sin(w)"], [GIVES_CAPTURED, "z = sin(y)"]),
    ("stopped-before-result", [STOPS_FIRST, "z = sin(y)"],
     [{**STOPS_FIRST, "gives": ["y", "u"]}, "z = sin(y)"]),
    ("stopped-before-result", [STOPS_VIEW, "z = sin(y)"], [VIEWED, "z = sin(y)"]),
    ("node-loses-gradient", [VIEWED, "z = sin(y)"], [SIN, "z = sin(y)"]),
    ("node-detaches-loss", [OF_ONE, "z = sin(y)"], [VIEWED, "z = sin(y)"]),
    ("node-detaches-loss", [{**LEAVES, "body": "y = sin(x); q = sin(w)"}, "z = sin(q)"],
     [{**LEAVES, "body": "y = sin(x); q = reshape(y, shape=[6])"}, "z = sin(q)"]),
    ("node-behind-output", [{**SIN, "body": "y = uniform(shape=[2, 3])"}, "z = add(y, w)"],
     [SIN, "z = sin(y)"]),
    ("node-detaches-loss", [{**LEAVES, "body": "y = sin(x); v = permute_dims(x, axes=[1, 0]); "
                             "q = reshape(v, shape=[6])"}, "z = sin(q)"],
     [{**LEAVES, "body": "y = sin(x); v = reshape(x, shape=[6]); q = reshape(v, shape=[2, 3])"},
      "z = sin(q)"]),
    ("cast-before", [CASTS, "z = sin(y)"], [{**CASTS, "autocast": "float16"}, "z = sin(y)"]),
    ("cast-beside", [CASTS_BESIDE, "z = sin(y)"], [CASTS, "z = sin(y)"]),
    ("given-by-reference", [SAVES_SHAPE, "z = real(y)"], [NESTED, "z = sin(y)"]),
    ("node-moves-captured", [GIVES_CAPTURED, "z = sin(x)"], [GIVES_DETACHED, "z = sin(w)"]),
    ("node-moves-leaf", ["h = sin(w)", GIVES_CAPTURED, "z = sin(h)"], [GIVES_CAPTURED, "z = sin(y)"]),
    ("contexts-shown", [DOUBLED, "z = sin(y)"], [DOUBLED, "z = sin(x)"]),
    ("captures-trained", [{**SIN, "body": "y = multiply(x, w)"}, "z = sin(y)"], [SIN, "z = sin(y)"]),
    ("trains-captured", [{**SIN, "body": "y = multiply(x, w)"}, "z = sin(y)"],
     [{**SIN, "body": "h = sin(w); y = sin(x)"}, "z = sin(y)"]),
    ("asked-read", [SIN, "z = negative(y)"], [{**SIN, "body": "y = relu(x)"}, "z = negative(y)"]),
    ("given-not-put-out", [SIN, "z = sin(y)"],
     ["z = sin(x)", {"recompute": "r(z)", "body": "y = sin(z)"}]),
    ("returns-view", [VIEWED, "z = sin(y)"], [SIN, "z = sin(y)"]),
    ("returns-leaf", [GIVES_CAPTURED, "z = sin(y)"], [SIN, "z = sin(y)"]),
    ("first-result-complex",
     [{**TWICE, "body": "q = to_complex(x, x); y = negative(q); u = cos(x)"}, "z = sin(u)"],
     [{**TWICE, "body": "u = to_complex(x, x); y = real(u)"}, "z = sin(y)"]),
    ("not-reached-as-operation", [NAMED, "z = sin(y)"], [SIN, "z = sin(y)"]),
    ("reached-with-keywords", [NAMED, "z = sin(y)"], [NAMED, "z = sin(x)"]),
    ("node-frees-graph", ["h = sin(x)", "a = exp(h)", FREES, "z = sin(y)"], [SIN, "z = sin(y)"]),
    ("whole-frees-graph", ["a = sin(x)", "h = exp(w)", FREES_TRAINED, "z = multiply(y, h)"],
     ["a = sin(x)", "h = exp(x)", FREES_TRAINED, "z = multiply(y, h)"]),
    ("whole-returns-parameter", [GIVES_CAPTURED, "z = sin(y)"],
     [{"recompute": "r(w)", "gives": ["y", "w"], "body": "y = sin(w)"}, "z = sin(y)"]),
    ("whole-returns-parameter",
     [{"recompute": "r(w)", "gives": ["y", ["w"]], "body": "y = sin(w)"}, "z = sin(y)"],
     [{"recompute": "r(w)", "gives": ["y", ["u"]], "body": "y = sin(w); u = cos(w)"}, "z = sin(y)"]),
    ("whole-returns-parameter",
     [GIVES_INPUT, {"recompute": "r(w)", "gives": "u", "body": [CALLS_I]}, "z = sin(u)"],
     [GIVES_INPUT, CALLS_I, "z = sin(u)"]),
    ("whole-returns-input",
     [{"recompute": "r(x)", "gives": ["y", ["x"]], "body": "y = sin(x)"}, "z = sin(y)"],
     [{"recompute": "r(x)", "gives": {"a": "y", "b": "x"}, "body": "y = sin(x)"}, "z = sin(y)"]),
    ("whole-takes-others", [MODULE, LATER, "z = sin(y)"],
     [MODULE, {**LATER, "takes": ["x"]}, "z = sin(y)"]),
    ("whole-takes-others", [{**MODULE, "body": "y = relu(x)"}, LATER, "z = sin(y)"],
     [{**MODULE, "body": "y = negative(x)"}, LATER, "z = sin(y)"]),
    ("whole-takes-others", [MODULE, CALLS_LATER, "z = multiply(y, v)"],
     [SIN, CALLS_LATER, "z = multiply(y, v)"]),
    ("of-model", [{**SIN, "body": "y = multiply(x, w)"}, "z = sin(y)"],
     [{"recompute": "r", "body": "y = multiply(x, w)"}, "z = sin(y)"]),
    ("of-model", [{**SIN, "body": [BESIDE, "y = multiply(v, w)"]}, "z = sin(y)"],
     ["h = sin(w)", {**SIN, "body": [BESIDE, "y = multiply(v, h)"]}, "z = sin(y)"]),
    ("call-missed", [SIN, LATER, "z = sin(y)"], [SIN, LATER, "z = multiply(y, u)"]),
    ("whole-runs-endlessly", ["i = exp(w)", GIVES_CONSTANT, "z = sin(y)"],
     ["i = exp(w)", {**GIVES_CONSTANT, "body": "y = sin(x)"}, "z = sin(y)"]),
    ("whole-runs-otherwise",
     [{**SIN, "body": "y = multiply(x, w)"}, {"recompute": "s(y)", "body": "v = stop_gradient(y)"},
      "z = multiply(v, x)"],
     [SIN, "z = sin(y)"]),
    ("node-frees-graph", ["h = multiply(x, 3)", "a = negative(h)", FREES, "z = sin(y)"],
     ["h = add(x, 3)", "a = negative(h)", FREES, "z = sin(y)"]),
    ("overwritten-decides",
     ["h = exp(x)", {"recompute": "r", "body": "g = add(h, w); y = abs(g)"},
      "k = add_in_place(h, w)", "z = sin(y)"],
     ["h = exp(x)", {"recompute": "r", "body": "y = abs(h)"}, "z = sin(y)"]),
    ("switched-decides", [{**SIN, "body": "h = switched_sin(x); y = abs(h)"}, "z = sin(y)"],
     [{**SIN, "body": "h = abs(x); y = switched_sin(h)"}, "z = sin(y)"]),
    ("saved-changed", [{**SIN, "body": "h = tanh(x); h = hooked(h); y = add_in_place(h, w)"},
                       "z = sin(y)"],
     [{**SIN, "body": "h = negative(x); h = hooked(h); y = add_in_place(h, w)"}, "z = sin(y)"]),
]  # fmt: skip


def features(
    program: list[object],
    outputs: object = "z",
    dtype: str = "float32",
    shape: Sequence[int] = (2, 3),
    **words: object,
) -> frozenset[str]:
    case = {
        "title": "A title",
        "source": "A source",
        "why": "A reason",
        "inputs": {"x": {"shape": shape, "normal": 1.0, "dtype": dtype}, "on": {"value": False}},
        "parameters": {"w": {"shape": [2, 3], "normal": 1.0}},
        "program": program,
        "outputs": outputs,
        **words,
    }
    (loaded,) = load_text(json.dumps({"family": "fam", "cases": {"one": case}}), "a case")
    return features_of(loaded).case


@pytest.mark.parametrize(("feature", "has", "lacks"), TABLE, ids=[row[0] for row in TABLE])
def test_a_case_has_a_feature(feature: str, has: list[object], lacks: list[object]) -> None:
    outputs = ["z", "told"] if feature == "node-gives-other-answers" else "z"
    assert feature in features(has, outputs)
    assert feature not in features(lacks, outputs)


def test_numbers_are_compared_as_those_of_half_precision() -> None:
    assert "coarse" in features([SIN, "z = sin(y)"], dtype="bfloat16")
    assert "coarse" not in features([SIN, "z = sin(y)"])


@pytest.mark.parametrize(("shape", "uneven"), [([2, 6], False), ([2, 7], True), ([3], False)])
def test_tensors_are_of_uneven_sizes(shape: list[int], uneven: bool) -> None:
    assert ("uneven" in features([SIN, "z = sin(y)"], shape=shape)) is uneven


def test_a_program_returns_a_dict() -> None:
    assert "dict-output" in features([SIN, "z = sin(y)"], {"result": "z"})
    assert "dict-output" not in features([SIN, "z = sin(y)"])


def test_an_output_leads_to_a_region_that_does_not_run_again() -> None:
    assert "whole-behind-output" in features([SIN, "z = exp(w)"], ["z", "y"])
    assert "whole-behind-output" not in features([SIN, "z = exp(y)"], ["z", "y"])


def test_a_frozen_parameter_that_a_region_returns_stays_one() -> None:
    program = [GIVES_CONSTANT, "z = sin(y)"]
    frozen = {"shape": [2, 3], "normal": 1.0, "gradient": False}
    trained = {"w": {"shape": [2, 3], "normal": 1.0}}
    word = "whole-runs-endlessly"
    assert word not in features(program, parameters={**trained, "i": frozen})
    given = {"x": {"shape": [2, 3], "normal": 1.0}, "i": frozen}
    assert word in features(program, inputs=given)


def test_a_program_returns_not_all_gradients() -> None:
    assert "gradient-not-told" in features([SIN, "z = sin(y)"], gradients={"wrt": ["x"]})
    assert "gradient-not-told" not in features([SIN, "z = sin(y)"])
