"""What generated programs have shown of the reference, the emitters and the loader: a test a class."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from conformance.drivers.adapter import find_adapter
from conformance.emit.emitter import asked
from conformance.emit.programs import EmitFailure, Text, texts
from conformance.errors import CaseError
from conformance.fuzz.stable import KERNELS, cancels, extent, is_stable, vanishes
from conformance.language.features import features_of
from conformance.language.load import load_text
from conformance.model.case import Case, Ref
from conformance.model.observation import Allowed, Expected, RandomSample
from conformance.oracle.expected import expect
from conformance.oracle.interpreter import check_shapes
from conformance.oracle.reached import missing, reached

ADAPTERS = Path(__file__).parents[1] / "adapters"
HEAD = """\
family: fam
cases:
  one:
    title: A title
    source: Somewhere
    why: A reason
    inputs: {x: {shape: [3, 4], normal: 0.5}, y: {shape: [3, 4], normal: 0.5}}
    parameters: {w: {shape: [4, 4], normal: 0.5}, v: {shape: [4, 4], normal: 0.5}}
    program:
"""
#: Bytes of a tensor of these programs.
UNIT = 48


def case(*nodes: str, procedure: str = "backward") -> Case:
    lines = "".join(f"      - {node}\n" for node in nodes)
    return load_text(f"{HEAD}{lines}    procedure: {procedure}\n", "f.yaml")[0]


def region(name: str, takes: str, body: str, gives: str = "") -> str:
    given = f", gives: {gives}" if gives else ""
    return f"{{recompute: {name}, takes: {takes}, body: '{body}'{given}}}"


def reruns(found: Expected, region: str, statement: str = "") -> Allowed:
    return found.executions[region, statement, "rerun"]


def test_a_product_with_a_number_saves_nothing() -> None:
    one = case(region("r", "x", "t = multiply(x, 2.0)"), "z = multiply(t, t)")
    assert reruns(expect(one, "early-stop"), "r").counts == (0,)
    assert reruns(expect(one, "minimal"), "r", "t").counts == (0,)
    assert reruns(expect(one, "whole"), "r").counts == (1,)
    two = case(region("r", "x", "t = multiply(x, y)"), "z = multiply(t, t)")
    assert reruns(expect(two, "early-stop"), "r").counts == (1,)


def test_a_quotient_by_a_number_saves_nothing() -> None:
    """Paddle declares that a quotient keeps `a b out`: it does so where `b` is a tensor."""
    declared = {"divide": "a b out", "cumulative_sum": "x", "region": "asked"}
    one = case(region("r", "x", "t = divide(x, 2.0)"), "z = multiply(t, t)")
    assert reruns(expect(one, "whole", residuals=declared), "r").counts == (0,)
    two = case(region("r", "x", "t = divide(2.0, x)"), "z = multiply(t, t)")
    assert reruns(expect(two, "whole", residuals=declared), "r").counts == (1,)
    three = case(region("r", "x", "t = cumulative_sum(x)"), "z = multiply(t, t)")
    assert reruns(expect(three, "whole", residuals=declared), "r").counts == (1,)


def test_an_unused_argument_keeps_its_graph() -> None:
    """PyTorch keeps the dropout's mask: `a` is an argument, and keeps the node that made it."""
    used = region("r", "[x, a]", "s = sin(x); t = exp(s)")
    found = expect(case("a = dropout(x)", used, "z = multiply(t, t)"), "early-stop").memory
    assert found is not None
    least, most = found.recomputed
    assert least == UNIT  # t
    assert most == 2 * UNIT + UNIT  # a, and a mask of four bytes an element
    without = expect(
        case(region("r", "x", "s = sin(x); t = exp(s)"), "z = multiply(t, t)"), "whole"
    )
    assert without.memory is not None
    assert without.memory.recomputed == (UNIT, UNIT)


def test_what_a_loss_depends_on() -> None:
    body = "h = matmul(x, w); s = stop_gradient(h); t = multiply(s, y)"
    one = case(region("r", "x", body), "z = multiply(t, t)", procedure="second_order")
    assert one.loss is not None
    assert reached(one, one.loss) == {"y"}
    assert missing(one) == ({"x", "w", "v"}, {"x", "w", "v"})
    constant = case(
        region("r", "x", "t = stop_gradient(x)"), "z = add(t, y)", procedure="third_order"
    )
    assert missing(constant)[1:] == (set(constant.wrt), set(constant.wrt))


@pytest.mark.parametrize("adapter", ["torch", "tf", "paddle", "keras", "mindspore"])
@pytest.mark.parametrize(
    "procedure",
    [
        "backward",
        "part",
        "second_backward",
        "second_order",
        "{train: {steps: 2, learning_rate: 0.1}}",
    ],
)
@pytest.mark.parametrize("loss", ["z = multiply(t, t)", "z = stop_gradient(t)"])
def test_programs_in_which_tensors_have_no_gradient_are_written(
    adapter: str, procedure: str, loss: str
) -> None:
    one = case(region("r", "x", "t = matmul(x, w)"), loss, procedure=procedure)
    found = find_adapter(adapter, ADAPTERS)
    for text in texts(found, [(one, variant) for variant in found.variants[:2]]).values():
        if isinstance(text, EmitFailure):
            assert text.asked
        elif adapter in ("torch", "paddle") and "stop" in loss:
            assert "backward(" not in text.text


def test_each_pass_has_masks_of_its_own() -> None:
    one = case(
        region("r", "x", "d = dropout(x)"),
        "z = multiply(d, y)",
        procedure="{backward: {after: backward}}",
    )
    masks = [np.full((3, 4), 2.0), np.zeros((3, 4))]
    samples = [RandomSample("r", "d", "forward", mask) for mask in masks]
    found = expect(one, "whole", samples=samples)
    assert found.gradients is not None
    assert found.losses is not None
    assert len(found.losses) == 1
    assert found.losses[0] == 0  # the second pass drops everything
    gradient = found.gradients["x"]
    assert gradient is not None
    assert np.any(gradient)  # the first pass drops nothing


def test_a_draw_that_nothing_needs_may_be_left_out() -> None:
    one = case(region("r", "x", "d = dropout(x); t = sin(x)"), "z = multiply(t, t)")
    assert expect(one, "minimal", samples=[]).gradients
    needed = case(region("r", "x", "d = dropout(x)"), "z = multiply(d, d)")
    with pytest.raises(ValueError, match="no draw is left"):
        expect(needed, "minimal", samples=[])


def test_dead_code_may_run_in_one_call_and_not_in_another() -> None:
    one = case(region("r", "x", "d = sin(x); t = exp(x)"), "u = r(t)", "z = multiply(u, u)")
    counts = expect(one, "minimal").executions["r", "d", "forward"].counts
    assert set(counts) == {0, 1, 2}
    assert expect(one, "whole").executions["r", "d", "forward"].counts == (2,)


def test_three_contributions_may_be_added_up_in_another_order() -> None:
    body = "a = matmul(x, w); t = matmul(a, w)"
    twice = case(region("r", "x", body), "z = multiply(t, t)")
    assert not expect(twice, "whole").sums
    thrice = case(region("r", "x", body), "u = r(t)", "z = multiply(t, u)")
    assert expect(thrice, "whole").sums


def test_a_contribution_to_what_a_region_captures_may_go_on_alone() -> None:
    of_computed = ("a = exp(x)", "b = sin(a)", region("r", "b", "t = add(b, a)"), "z = sin(t)")
    assert expect(case(*of_computed), "whole").sums
    of_argument = (*of_computed[:2], region("r", "[b, a]", "t = add(b, a)"), "z = sin(t)")
    assert not expect(case(*of_argument), "whole").sums


def test_what_a_region_keeps_that_no_backward_pass_goes_through() -> None:
    nodes = region("r", "y", "s = sin(x)"), region("q", "y", "u = exp(w)"), "z = multiply(s, s)"
    one = case(*nodes)
    reached = expect(one, "early-stop").memory
    found = expect(replace(one, outputs=(Ref("z"), Ref("u"))), "early-stop").memory
    assert reached is not None
    assert found is not None
    assert reached.left == (0, 0)
    assert found.left == (2, UNIT + 64)  # y and w


def test_a_region_that_is_made_once_keeps_all_that_its_object_holds() -> None:
    once = "{train: {steps: 1, learning_rate: 0.1, made: once}}"
    nodes = region("r", "y", "u = exp(w)"), "z = multiply(x, x)"
    one = replace(case(*nodes, procedure=once), outputs=(Ref("z"), Ref("u")))
    found = expect(one, "early-stop").memory
    assert found is not None
    assert found.left == (4, 2 * UNIT + 2 * 64)


def test_a_region_keeps_what_leads_to_an_argument_that_is_frozen_at_first() -> None:
    thawed = "{train: {steps: 2, learning_rate: 0.1, between: [{unfreeze: y}]}}"
    text = HEAD.replace(
        "y: {shape: [3, 4], normal: 0.5}", "y: {shape: [3, 4], normal: 0.5, gradient: false}"
    )
    nodes = "h = sin(y)", region("r", "h", "t = sin(w)"), "z = multiply(x, x)"
    lines = "".join(f"      - {node}\n" for node in nodes)
    (one,) = load_text(f"{text}{lines}    procedure: {thawed}\n", "f.yaml")
    found = expect(replace(one, outputs=(Ref("z"), Ref("t"))), "early-stop").memory
    assert found is not None
    assert found.left == (3, 2 * UNIT + 64)  # h and w, and y for the gradient of h


def test_what_a_region_keeps_whose_gradients_are_not_asked_for() -> None:
    one = replace(case(region("r", "x", "z = sin(w)"), procedure="part"), wrt=("x",))
    asked = replace(one, wrt=("w",))
    for each, left in ((one, (2, UNIT + 64)), (asked, (0, 0))):
        found = expect(each, "early-stop").memory
        assert found is not None
        assert found.left == left


def test_a_region_keeps_the_graph_of_an_argument_that_no_gradient_reads() -> None:
    nodes = "h = exp(x)", region("r", "h", "t = sin(w)"), "z = multiply(y, y)"
    found = expect(replace(case(*nodes), outputs=(Ref("z"), Ref("t"))), "early-stop").memory
    assert found is not None
    assert found.left == (3, 2 * UNIT + 64)  # h and w, and x for the gradient of h


@pytest.mark.parametrize("error", ["ValueError, then: {v1: false}", "ValueError"])
def test_a_program_of_a_higher_order_that_raises_is_written(error: str) -> None:
    flag = HEAD.replace("inputs: {", "inputs: {v1: {value: true}, ")
    nodes = "      - {recompute: r, takes: x, body: 't = raise_if(x, v1)'}\n      - z = exp(t)\n"
    end = f"    procedure: second_order\n    error: {{type: {error}}}\n"
    (one,) = load_text(flag + nodes + end, "f.yaml")
    assert missing(one)[0] == {"w", "v", "y"}


def test_gradients_that_cancel() -> None:
    first = region("r", "x", "t = sin(x)")
    assert cancels(case(first, "z = softmax(t)"))
    assert not cancels(case(first, "z = softmax(t)", "u = multiply(z, y)"))


def test_what_is_lost_of_a_constant_does_not_show() -> None:
    first = region("r", "y", "s = softmax(x); t = mean(s)")
    assert vanishes(case(first, "u = multiply(t, y)", "z = multiply(u, x)"))
    part = region("r", "y", "c = to_complex(x, y); t = imag(c)")
    assert vanishes(case(part, "z = multiply(t, t)"))
    assert not vanishes(case(region("r", "x", "t = relu(x)"), "z = multiply(t, y)"))


def test_an_axis_without_elements_is_normalised() -> None:
    empty = HEAD.replace("v: {shape: [4, 4]", "v: {shape: [0]")
    nodes = "      - {recompute: r, takes: e, body: 't = layer_norm(e, v, v)'}\n"
    empty = empty.replace("inputs: {", "inputs: {e: {shape: [4, 0], normal: 0.5}, ")
    (one,) = load_text(f"{empty}{nodes}", "f.yaml")
    gradients = expect(one, "whole").gradients
    assert gradients is not None
    assert {name: None if g is None else g.shape for name, g in gradients.items()} == {
        "e": (4, 0),
        "x": None,
        "y": None,
        "w": None,
        "v": (0,),
    }


def test_what_is_given_by_name_and_by_position() -> None:
    node = "{define: r, takes: [a], kwargs: {k: b}, gives: t, body: [t = sin(%s)]}"
    call = "{call: r, takes: [x], kwargs: {k: x}, gives: u}"
    for read, by_name in (("a", False), ("b", True)):
        one = features_of(case(node % read, call, "z = multiply(u, y)"))
        assert any("gradient-by-name" in region for region in one.regions) is by_name


@pytest.mark.parametrize(("read", "reached"), [("h", False), ("t", True)])
def test_what_a_region_returns_as_it_is_has_another_name(read: str, reached: bool) -> None:
    returning = "{define: r, takes: [a], gives: [u, h], body: [u = sin(a)]}"
    call = "{call: r, takes: [x], gives: [u, t]}"
    found = features_of(case("h = exp(y)", returning, call, f"z = multiply({read}, y)"))
    for feature in ("reached-as-operation", "gradient-by-closure"):
        assert (feature in found.regions[0]) is reached


def test_what_is_captured_and_given_is_told_by_the_name_that_is_read() -> None:
    inner = "{recompute: q, takes: [y], gives: t, body: ['t = matmul(y, %s)']}"
    node = "{define: r, takes: [a], gives: t, body: [" + inner + "]}"
    for read, lost in (("a", True), ("w", False)):
        found = features_of(case(node % read, "{call: r, takes: [w], gives: u}", "z = exp(u)"))
        assert ("gradient-by-closure" in found.regions[1]) is lost


@pytest.mark.parametrize(("given", "lost"), [("w", False), ("e", True)])
def test_what_a_nested_region_returns_is_read_where_a_statement_reads_it(
    given: str, lost: bool
) -> None:
    inner = f"{{define: q, takes: x, gives: [t, {given}], body: ['t = sin(x)']}}"
    call = "{call: q, takes: x, gives: [p, h]}"
    node = f"{{recompute: r, takes: x, gives: u, body: [{inner}, {call}, 'u = sin(h)']}}"
    found = features_of(case("e = exp(w)", node, "z = exp(u)"))
    assert ("gradient-by-closure" in found.regions[0]) is lost


@pytest.mark.parametrize(("after", "zeros"), [("", True), ("t = sin(w)", False)])
def test_a_parameter_that_a_region_only_gives_back_is_not_read(after: str, zeros: bool) -> None:
    given = "t = raise_if(w, flag)" if not after else "h = raise_if(w, flag); t = sin(h)"
    node = region("r", "x", f"u = sin(x); {given}", "[u, t]")
    text = HEAD.replace("inputs: {", "inputs: {flag: {value: false}, ")
    (one,) = load_text(f"{text}      - {node}\n      - z = multiply(u, u)\n", "f.yaml")
    assert ("zeros-as-operation" in features_of(one).case) is not zeros


@pytest.mark.parametrize(("op", "written"), [("custom_sin", False), ("sin", True)])
def test_what_a_layer_of_paddle_has_saved_is_not_changed(op: str, written: bool) -> None:
    """A `PyLayer` does not notice, without recompute too."""
    text = HEAD + f"      - t = {op}(w)\n      - {region('r', '[t]', 'u = sin(t)')}\n"
    text += "      - z = sin(u)\n    procedure: {backward: {between: update}}\n"
    told = "    error: {as: plain}\n    differs: It is not promised to be seen.\n"
    (one,) = load_text(text + told, "f.yaml")
    paddle = find_adapter("paddle", ADAPTERS)
    hook = next(v for v in paddle.variants if v.name == "hook")
    (made,) = texts(paddle, [(one, hook)]).values()
    assert isinstance(made, Text) is written


@pytest.mark.parametrize(("left", "reached"), [("", True), (", left: [u]", False)])
def test_no_gradient_passes_through_what_a_region_leaves(left: str, reached: bool) -> None:
    first = f"{{recompute: r, takes: [x], gives: [t, u], body: [t = exp(x), u = sin(x)]{left}}}"
    found = features_of(case(first, region("s", "u", "v = sin(u)"), "z = multiply(v, y)"))
    assert all(("reached-as-operation" in one) is reached for one in found.regions)


def test_the_innermost_region_makes_a_bool() -> None:
    inner = "{recompute: q, takes: [x], gives: [t, b], body: [t = exp(x), b = is_unwrapped_by(s)]}"
    node = f"{{recompute: r, takes: [x], gives: [t, b], body: [{inner}]}}"
    found = features_of(case(region("s", "y", "v = sin(y)"), node, "z = multiply(t, v)"))
    assert ["returns-bool" in one for one in found.regions] == [False, False, True]


def test_a_loss_is_detached_where_it_depends_on_what_is_asked_for() -> None:
    node = "{recompute: r, takes: [x], gives: [t, u], body: [t = exp(x), u = sin(w)], left: [u]}"
    text = f"{HEAD}      - {node}\n      - z = sin(u)\n    gradients: {{wrt: [%s]}}\n"
    for wrt, detached in (("w", True), ("x", False)):
        (one,) = load_text(text % wrt, "f.yaml")
        assert ("left-detaches-loss" in features_of(one).case) is detached


@pytest.mark.parametrize(
    ("body", "zeros"), [("t = raise_if(x, flag)", True), ("t = exp(x)", False)]
)
def test_a_region_that_is_no_operation_returns_what_it_is_given_with_its_graph(
    body: str, zeros: bool
) -> None:
    first = f"{{recompute: r, takes: [], kwargs: {{x: x}}, gives: t, body: ['{body}']}}"
    node = region("s", "[t, v]", "u = sin(v)")
    text = HEAD.replace("inputs: {", "inputs: {flag: {value: false}, ")
    text += f"      - {first}\n      - {node}\n      - z = multiply(u, u)\n"
    (one,) = load_text(f"{text}    gradients: {{wrt: [x]}}\n", "f.yaml")
    assert ("zeros-as-operation" in features_of(one).case) is zeros


def test_a_part_of_the_gradients_reaches_regions_that_depend_on_it() -> None:
    node = region("r", "y", "t = matmul(y, w)")
    text = HEAD + f"      - {node}\n      - z = sin(t)\n    procedure: part\n"
    for wrt, comes in (("x", False), ("y", True)):
        (one,) = load_text(f"{text}    gradients: {{wrt: [{wrt}]}}\n", "f.yaml")
        assert ("reached-with-keywords" in features_of(one).case) is comes
        assert "reached-as-operation" in features_of(one).case


def test_training_asks_for_gradients_that_it_does_not_return() -> None:
    training = "{train: {steps: 2, learning_rate: 0.1}}\n    gradients: {wrt: %s}"
    for wrt, zeros in (("[v]", True), ("[w]", False)):
        node = region("r", "[x, v]", "t = matmul(x, w)")
        one = case(node, "z = multiply(t, t)", procedure=training % wrt)
        assert ("zeros-as-operation" in features_of(one).case) is zeros


def test_what_is_said_of_a_region_that_is_not_called_is_not_written() -> None:
    first, inner = "{define: r(x), contexts: true, body: [", "{recompute: q, mapped: true, takes: x"
    node = f"{first}'t = sin(x)', {inner}, body: 'u = sin(x)'}}]}}"
    assert asked(case(node, region("s", "x", "v = sin(x)"), "z = exp(v)")) == []
    assert asked(case(node, "v = r(x)", "z = exp(v)")) == ["mapped", "contexts"]


@pytest.mark.parametrize(("drawn", "stable"), [(0.0, True), (6.0, False)])
def test_numbers_are_stable_with_what_was_drawn(drawn: float, stable: bool) -> None:
    zero = ("a = multiply(x, 0.0)", "b = add(a, 3.0)", "d = dropout(b)", "s = subtract(d, 6.0)")
    one = case(*zero, region("r", "s", "t = divide(y, s)"), "z = multiply(t, t)")
    assert is_stable(one, [RandomSample("", "d", "forward", np.full((3, 4), drawn))]) is stable


@pytest.mark.parametrize("drawing", ["dropout(a)", "rrelu(a)"])
@pytest.mark.parametrize(("read", "stable"), [("d", False), ("e", True)])
def test_what_a_zero_has_drawn_is_not_seen(drawing: str, read: str, stable: bool) -> None:
    first = (
        "s = stop_gradient(x)",
        "a = subtract(s, x)",
        region("r", "a", f"d = {drawing}"),
        "e = exp(x)",
    )
    one = case(*first, f"z = multiply({read}, x)")
    assert is_stable(one, [RandomSample("r", "d", "forward", np.zeros((3, 4)))]) is stable


REFUSED = {
    "nothing": (
        region("r", "x", "t = sin(x)", "[]"),
        "found an empty list, expected a name",
    ),
    "number-inside": (region("r", "[[x, 2]]", "t = sin(x)"), "found 2, expected a name"),
    "twice": (region("r", "[x, x]", "t = sin(x)"), "'x' is an argument of region 'r' twice"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_arguments_that_no_program_can_write_are_refused(name: str) -> None:
    node, message = REFUSED[name]
    with pytest.raises(CaseError, match=message) as raised:
        case(node, "z = multiply(t, t)")
    assert raised.value.where


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        (
            ("h = sin(x)", "g = add_in_place(h, y)", "z = multiply(g, h)"),
            "'h' was changed in place",
        ),
        (
            (
                "h = sin(x)",
                "p = reshape(h, shape=[4, 3])",
                "g = add_in_place(p, 0.5)",
                "z = exp(h)",
            ),
            "'h' was changed in place",
        ),
    ],
    ids=["name", "view"],
)
def test_what_was_changed_in_place_is_read_by_its_new_name(
    nodes: tuple[str, ...], message: str
) -> None:
    first = region("r", "x", "s = sin(x)")
    with pytest.raises(CaseError, match=message):
        case(first, *nodes)


def test_a_call_has_the_containers_of_its_region() -> None:
    first = region("r", "[[x, y]]", "t = multiply(x, y)")
    with pytest.raises(CaseError, match="this call takes other lists and mappings than region 'r'"):
        case(first, "{call: r, takes: [x], gives: u}", "z = multiply(t, u)")


@pytest.mark.parametrize(
    ("procedure", "operation", "message"),
    [
        ("{backward: {between: switch}}", "sin", "nothing in this program reads what 'switch'"),
        ("inference", "slope_of_sin", "slope_of_sin takes a gradient where gradients are switched"),
        ("{backward: {after: inference}}", "slope_of_sin", "slope_of_sin takes a gradient where"),
    ],
)
def test_a_procedure_that_the_program_cannot_follow(
    procedure: str, operation: str, message: str
) -> None:
    with pytest.raises(CaseError, match=message):
        case(region("r", "x", f"t = {operation}(x)"), procedure=procedure)


def test_what_requires_no_gradient_has_no_slope() -> None:
    program = case("d = stop_gradient(x)", region("r", "d", "t = slope_of_sin(d)"))
    with pytest.raises(CaseError, match="its argument requires no gradient"):
        check_shapes([program])


@pytest.mark.parametrize(
    ("node", "line"),
    [
        (region("r", "x", "t = custom_sin(w)"), "custom_sin(w.value, 1)"),
        ("{recompute: r, takes: w, body: t = sin(w), mapped: true}", "vectorized_map(r, w.value)"),
    ],
)
def test_keras_gives_the_value_of_a_variable(node: str, line: str) -> None:
    one = case(node, "z = multiply(t, t)")
    (variant,) = (
        v for v in find_adapter("keras", ADAPTERS).variants if v.name == "remat-tensorflow"
    )
    (found,) = texts(find_adapter("keras", ADAPTERS), [(one, variant)]).values()
    assert not isinstance(found, EmitFailure)
    assert line in found.text


def test_keras_holds_a_layer_in_the_layer_around_it() -> None:
    inner = "{recompute: q, takes: [x], gives: u, granularity: module, body: ['u = matmul(x, w)']}"
    node = (
        f"{{recompute: r, takes: [x], gives: t, granularity: module, body: [{inner}, t = exp(u)]}}"
    )
    one = case(node, "z = multiply(t, t)")
    keras = find_adapter("keras", ADAPTERS)
    (variant,) = (v for v in keras.variants if v.name == "remat-tensorflow")
    (found,) = texts(keras, [(one, variant)]).values()
    assert isinstance(found, Text)
    plain, recomputed = found.text.split("def recomputed")
    assert "u = self.q(x)" in plain
    assert "remat_q = keras.remat(self.q)" in recomputed
    assert "u = remat_q(x)" in recomputed


def test_parameters_of_a_module_are_in_no_list() -> None:
    text = HEAD.replace(
        "parameters: {w:", "parameters: {w1: &w {shape: [4, 4], normal: 0.5}, w2: *w, w3:"
    )
    node = "{recompute: r, takes: [x], gives: t, granularity: %s, body: ['%s']}"
    body = "h = matmul(x, w1); g = matmul(h, w2); t = matmul(g, w3)"
    tf = find_adapter("tf", ADAPTERS)
    (variant,) = (v for v in tf.variants if v.name == "eager")
    for kind, listed in (("module", False), ("function", True)):
        program = f"      - {node % (kind, body)}\n      - z = matmul(t, w3)\n"
        (one,) = load_text(text.replace(", v: {", ", v: {gradient: false, ") + program, "f.yaml")
        (found,) = texts(tf, [(one, variant)]).values()
        assert isinstance(found, Text)
        assert ("x @ ws[0]" in found.text) is listed
        assert ("R(w1, w2, w3)" in found.text) is not listed


def test_what_is_mapped_is_the_argument_of_the_lambda() -> None:
    """A module around the mapped region has the parameter, whose name the lambda's argument has."""
    inner = "{recompute: q, takes: [w], gives: [u], body: [u = sin(w)], mapped: true}"
    one = case(f"{{recompute: r, takes: [x], gives: [t], body: [{inner}, 't = matmul(x, u)']}}")
    mlx = find_adapter("mlx", ADAPTERS)
    (module,) = (variant for variant in mlx.variants if variant.name == "module")
    (made,) = texts(mlx, [(one, module)]).values()
    assert isinstance(made, Text)
    assert "(q)(w))(r_module.w)" in made.text.replace("q_module, ", "")


def test_paddle_is_not_asked_for_what_it_gets_wrong_without_recompute() -> None:
    """Its gradient of a normalisation is wrong if the weights are frozen, a second backward pass
    through a PyLayer ends the process, and so does one gradient of `solve` alone. `paddle.grad` calls no
    hook of what it returns the gradient of."""
    paddle = find_adapter("paddle", ADAPTERS)
    (hook,) = (variant for variant in paddle.variants if variant.name == "hook")
    normed = "t = layer_norm(x, {}, y)"
    frozen = case("d = stop_gradient(v)", region("r", "x", normed.format("d")))
    trained = case(region("r", "x", normed.format("v")))
    custom = region("r", "x", "t = custom_sin(x)"), "z = multiply(t, t)"
    once, twice = case(*custom), case(*custom, procedure="second_backward")
    asked: list[str] = []
    solved = region("r", "x", "t = solve(w, v)")
    part = replace(case(solved, procedure="part"), wrt=("w",))
    freezing = "{train: {steps: 2, learning_rate: 0.1, between: [{freeze: v}]}}"
    later = case(solved, procedure=freezing)
    hooked = replace(case(region("r", "x", "t = matmul(w, v)"), procedure="part"), hooks=("w",))
    for one in (frozen, trained, once, twice, part, later, hooked):
        (found,) = texts(paddle, [(one, hook)]).values()
        asked.append(found.asked if isinstance(found, EmitFailure) else "")
    assert asked == [
        "gradients of layer_norm without that of gamma",
        "",
        "",
        "a second backward through custom_sin",
        "gradients of solve without that of b",
        "gradients of solve without that of b",
        "hooks where the procedure is part",
    ]


def test_a_program_raises_in_the_step_that_a_change_makes_raise() -> None:
    nodes = region("r", "x", "t = sin(w)"), "z = multiply(t, x)"
    training = "{{train: {{steps: 2, learning_rate: 0.1{}}}}}"
    for between, shown in (("", False), (", between: [{freeze: w}]", True)):
        one = case(*nodes, procedure=training.format(between))
        assert ("node-without-result" in features_of(one).case) is shown


def test_features_are_those_of_each_step() -> None:
    """The region's argument requires a gradient in the first step alone."""
    nodes = region("r", "w", "t = multiply(w, x)"), "z = multiply(t, x)"
    training = "{train: {steps: 2, learning_rate: 0.1, between: [{freeze: w}]}}"
    found = features_of(case(*nodes, procedure=training))
    word = "no-top-level-argument-requires-gradient"
    assert [word in region for region in found.regions] == [False, True]
    assert ["node-loses-gradient" in step.case for step in found.steps] == [False, True]
    assert "node-loses-gradient" in found.case


def test_what_is_frozen_later_is_differentiated_until_then() -> None:
    nodes = region("r", "x", "a = sin(x); t = exp(a)"), "z = matmul(t, w)"
    training = "{train: {steps: 3, learning_rate: 0.1, between: [{freeze: x}]}}"
    assert reruns(expect(case(*nodes, procedure=training), "whole"), "r").counts == (1,)


@pytest.mark.parametrize(
    ("body", "counts"),
    [("multiply(x, 2.0)", (1,)), ("divide(2.0, x)", (1,)), ("add(x, 2.0)", (0,))],
)
def test_a_number_that_is_a_tensor_is_kept(body: str, counts: tuple[int, ...]) -> None:
    one = case(region("r", "x", f"t = {body}"))
    numbers = expect(one, "early-stop", residuals={"region": "numbers"})
    assert reruns(numbers, "r").counts == counts
    if body.startswith("multiply"):
        assert reruns(expect(one, "early-stop"), "r").counts == (0,)


def test_a_captured_tensor_that_a_region_returns_loses_its_graph_in_a_pass_without_gradients() -> (
    None
):
    nodes = ("a = sin(x)", region("r", "a", "t = sin(a)", "[t, x]"), "z = multiply(t, x)")
    after = "{backward: {after: inference}}"
    for procedure, word in (("backward", "runs-endlessly"), (after, "detaches-loss")):
        assert f"node-{word}" in features_of(case(*nodes, procedure=procedure)).case


def test_a_rerun_that_saves_more_ends_earlier() -> None:
    body = "a = unsteady_sin(x, then='operations'); b = uniform(shape=[3, 4]); t = sin(a)"
    node = f'{{recompute: r, takes: x, body: "{body}", gives: t}}'
    text = f"{HEAD}      - {node}\n      - z = sin(t)\n    differs: It is not promised.\n"
    (one,) = load_text(text, "f.yaml")
    assert reruns(expect(one, "early-stop"), "r").counts == (1,)
    assert reruns(expect(one, "early-stop"), "r", "a").counts == (0,)
    assert reruns(expect(one, "whole"), "r", "a").counts == (1,)
    assert "draws-early:uniform" not in features_of(one).case


def test_what_a_region_leaves_may_depend_on_no_argument() -> None:
    for read, shown in (("y", False), ("a", True), ("w", True)):
        body = f"t = sin({read}); s = exp(a)"
        node = f"{{recompute: r, takes: a, body: '{body}', gives: [s, t], left: [t]}}"
        one = case("a = cos(x)", node, "z = multiply(t, s)")
        assert ("left-of-argument" in features_of(one).case) is shown


def test_a_gradient_does_not_read_what_is_drawn_beside_its_elements() -> None:
    for body, shown in (
        ("t = sin(c)", False),
        ("s = multiply(c, c); h = slice(s, start=1); t = multiply(h, 2.0)", False),
        ("s = cumulative_sum(c, axis=0); t = sin(s)", True),
        ("s = slice(c, stop=3); t = multiply(s, y)", True),
        ("s = add(x, d); t = sin(s)", True),
    ):
        drawing = "d = numpy_uniform(shape=[3, 4]); c = concat([x, d]); "
        node = f"{{recompute: r, takes: [x, y], body: '{drawing}{body}', gives: t}}"
        one = case(node, "z = sin(t)")
        assert ("gradient-reads-draw" in features_of(one).case) is shown


def test_indices_of_a_lookup_may_come_from_an_argument() -> None:
    for body, shown in (
        ("t = embedding(i, w)", True),
        ("j = reshape(i, shape=[3]); t = embedding(j, w)", True),
        ("j = stop_gradient(i); t = embedding(j, w)", False),
        ("t = embedding(k, w)", False),
        ("u = embedding(i, w); t = embedding(k, w)", False),
        ("t = embedding(i, y)", False),
    ):
        integers = "shape: [3], integers: [0, 3]"
        head = HEAD.replace("y: {", f"i: {{{integers}}}, k: {{{integers}}}, y: {{gradient: false, ")
        node = f"{{recompute: r, takes: [x, i], body: '{body}', gives: t}}"
        (one,) = load_text(f"{head}      - {node}\n      - z = multiply(t, x)\n", "f.yaml")
        assert ("looks-up-argument" in features_of(one).case) is shown


def test_a_region_is_in_the_graph_of_what_is_differentiated() -> None:
    inner, wrt = region("r", "a", "t = sin(a)"), "gradients: {wrt: [y]}"
    for first, shown in (
        ("a = cos(x)", False),
        ("a = multiply(x, y)", True),
        (region("q", "[x, y]", "a = cos(x); b = cos(y)", "[a, b]"), True),
        (region("q", "x", "a = cos(x); b = cos(y)", "[a, b]"), False),
    ):
        for procedure in ("part", "backward"):
            asked = f"{procedure}\n    {wrt}"
            one = case(first, inner, "z = multiply(t, y)", procedure=asked)
            found = "in-graph" in features_of(one).regions[-1]
            assert found is (shown or procedure == "backward")


def test_a_trained_gradient_that_is_lost_is_none_that_the_program_returns() -> None:
    training = "{train: {steps: 2, learning_rate: 0.1}}\n    gradients: {wrt: [%s]}"
    for wrt, shown in (("w", True), ("v", False)):
        nodes = "h = exp(w)", region("r", "v", "t = multiply(h, v)")
        (found,) = features_of(case(*nodes, "z = sin(t)", procedure=training % wrt)).regions
        assert "gradient-by-closure" in found
        assert ("bypassed-told" in found) is shown


def test_a_setting_changes_what_depends_on_it() -> None:
    changed = "{train: {steps: 2, learning_rate: 0.1, made: once, between: [{set: {q: false}}]}}"
    head = HEAD.replace("y: {", "q: {value: true}, y: {")
    both, read = {"captured-setting-shown", "captured-setting-read"}, "'a = sin_or_cos(x, q)'"
    never = f"{{define: i, takes: [], body: {read}, gives: a}}"
    for first, result, shown in ((read, "a", both), (read, "x", set()), (never, "x", set())):
        body = f"[{first}, t = sin({result})]"
        node = f"{{recompute: r, takes: x, body: {body}, gives: t}}"
        text = f"{head}      - {node}\n      - z = multiply(t, w)\n    procedure: {changed}\n"
        found = features_of(load_text(text, "f.yaml")[0]).regions[0]
        assert found & both == shown


def test_a_normalisation_gives_the_same_if_a_number_is_added() -> None:
    for body, number, shown in (
        ("t = softmax(a)", 0.5, False),
        ("t = softmax(a)", "y", True),
        ("b = reshape(a, shape=[4, 3]); t = softmax(b)", 0.5, False),
        ("t = exp(a)", 0.5, True),
        ("t = layer_norm(y, a, a)", 0.5, True),
    ):
        one = case(
            "a = sin(x)", region("r", "[]", body), f"u = add_in_place(a, {number})", "z = sin(t)"
        )
        assert ("overwritten-read" in features_of(one).case) is shown


def test_nothing_is_raised_where_no_gradient_is_taken() -> None:
    nodes = region("r", "[]", "t = sin(w)"), "z = multiply(t, t)"
    for procedure, shown in (("backward", True), ("jvp", False)):
        assert (
            "node-detaches-loss" in features_of(case(*nodes, procedure=procedure)).case
        ) is shown


def test_a_kernel_may_save_a_copy_of_part_of_a_complex_tensor() -> None:
    """The plain run keeps two copies then, and a region the complex tensor whose part it reads."""
    nodes = ("c = to_complex(x, y)", "i = imag(c)", region("r", "i", "h = exp(i); t = sin(h)"))
    memory = expect(case(*nodes), "whole").memory
    apart = expect(case("i = exp(x)", nodes[-1]), "whole").memory
    assert memory is not None
    assert apart is not None
    assert (apart.drop, memory.drop) == (UNIT, 0)


def test_an_argument_hides_what_the_object_around_it_holds() -> None:
    inner = "{recompute: q, takes: [x], kwargs: {k: [w]}, gives: u, body: ['u = matmul(x, w)']}"
    once = "{train: {steps: 1, learning_rate: 0.1, made: once}}"
    outer = f"{{recompute: r, takes: [x], gives: t, body: [{inner}, t = sin(u)]}}"
    one = case(outer, procedure=once)
    torch = find_adapter("torch", ADAPTERS)
    (found,) = texts(torch, [(one, torch.variants[0])]).values()
    assert isinstance(found, Text)
    assert "(w,) = k\n" in found.text
    assert "return x @ w\n" in found.text
    assert "k=(self.w,)" in found.text


def test_an_output_is_read_after_an_update() -> None:
    first = region("r", "x", "t = multiply(x, w)")
    for updating in (
        "{backward: {between: update}}",
        "{train: {steps: 1, learning_rate: 0.1}}",
    ):
        with pytest.raises(CaseError, match="an output shares memory with a parameter"):
            case(first, "z = reshape(w, shape=[-1])", procedure=updating)
        assert case(first, "z = multiply(w, t)", procedure=updating)


def test_tensorflow_reads_a_variable_before_a_rule_of_its_own_does() -> None:
    """The rule runs in backward, when the variable may have another value."""
    updating = "{backward: {between: update}}"
    one = case(region("r", "x", "t = custom_sin(w)"), "z = multiply(t, x)", procedure=updating)
    asked = {}
    for name in ("tf", "keras"):
        adapter = find_adapter(name, ADAPTERS)
        (found,) = texts(adapter, [(one, adapter.variants[0])]).values()
        asked[name] = found.asked if isinstance(found, EmitFailure) else ""
    assert asked == {"tf": "", "keras": "custom_sin of what is updated before backward"}


def test_keras_gives_a_layer_its_flags_by_keyword() -> None:
    head = HEAD.replace("inputs: {", "inputs: {flag: {value: true}, ")
    node = region("r", "[x, flag]", "t = sin_or_cos(x, flag)").replace(
        "}", ", granularity: module}"
    )
    (one,) = load_text(f"{head}      - {node}\n      - z = multiply(t, w)\n", "f.yaml")
    keras = find_adapter("keras", ADAPTERS)
    (found,) = texts(keras, [(one, keras.variants[0])]).values()
    assert not isinstance(found, EmitFailure)
    assert "remat_r(x, flag=flag)" in found.text


def test_a_region_that_would_raise_is_called() -> None:
    node = "{define: r, takes: a, body: t = sin(a), block: invalid}"
    told = "    error: {type: TypeError}\n"
    text = f"{HEAD}      - {node}\n      - z = multiply(x, y)\n{told}"
    with pytest.raises(CaseError, match="region 'r' would raise an error, and is never called"):
        load_text(text, "f.yaml")


def test_gradients_of_a_program_that_raises() -> None:
    first = region("r", "[x, bad]", "s = raise_if(x, bad); t = multiply(s, s)")
    head = HEAD.replace("inputs: {", "inputs: {bad: {value: true}, ")
    told = "    procedure: second_order\n    error: {type: ValueError, then: {bad: false}}\n"
    (one,) = load_text(f"{head}      - {first}\n{told}", "f.yaml")
    assert missing(one) == ({"y", "w", "v"}, {"y", "w", "v"})


def test_a_result_of_integers_asks_a_region_inside_for_its_gradient() -> None:
    inner = region("i", "x", 'n = astype(x, dtype="int32")')
    outer = f"{{recompute: r, takes: x, gives: [n, t], body: [{inner}, t = sin(x)]}}"
    one = case(outer, "z = sin(t)")
    assert "reached-only-as-operation" in features_of(one).regions[1]


def test_a_region_that_computes_nothing_of_its_own_need_not_be_seen() -> None:
    inner = "{recompute: inner, takes: t, gives: u, body: 's = sin(t); u = exp(s)'}"
    outer = f"{{recompute: outer, takes: t, gives: u, body: [{inner}]}}"
    one = case(region("r", "x", "t = reshape(x, shape=[4, 3])"), outer, "z = multiply(u, u)")
    found = expect(one, "minimal").executions
    assert found["r", "", "forward"].counts == (1, 0)
    assert ("outer", "", "forward") not in found
    assert found["inner", "", "forward"].counts == (1,)
    assert expect(one, "whole").executions["r", "", "forward"].counts == (1,)


def test_what_an_inner_policy_keeps_runs_again_with_the_outer_region() -> None:
    inner = "{recompute: inner, takes: x, gives: s, body: 's = exp(x)', save: [s]}"
    outer = f"{{recompute: outer, takes: x, gives: u, body: [{inner}, u = sin(x)]}}"
    for discipline in ("early-stop", "whole"):
        found = expect(case(outer, "z = multiply(u, u)"), discipline).executions
        assert found["inner", "s", "rerun"].counts == (1,)


def test_the_results_of_a_loop_s_iterations_may_be_kept_with_its_own_or_not() -> None:
    body = "t = loop_sin(x, times=3)"
    kept = f"{{recompute: r, takes: x, body: '{body}', gives: t, save: [t]}}"
    found = expect(case(kept, "z = multiply(t, t)"), "minimal")
    assert set(reruns(found, "r", "t").counts) == {0, 1}


def test_a_loop_keeps_a_factor_for_each_iteration() -> None:
    one = case("t = loop_sin(x, times=3)", region("r", "t", "s = sin(t)"), "z = add(s, y)")
    found = expect(one, "minimal", residuals={"region": "factors"}).memory
    assert found is not None
    assert found.recomputed == (4 * UNIT, 4 * UNIT)  # and t


def test_what_is_merged_into_a_region_that_reruns_does_so_too() -> None:
    first = "{define: r, takes: [a], gives: s, body: 's = sin(w)', merge_adjacent: true}"
    program = case(first, "t = r(x)", "u = r(t)", "z = sin(u)")
    assert reruns(expect(program, "whole"), "r").counts == (2,)


def test_what_a_region_passes_on_merges_it_into_nothing() -> None:
    first = "{recompute: p, takes: [x], gives: w, body: 'd = sin(x)', merge_adjacent: true}"
    program = case(first, region("r", "w", "s = sin(w)"), "z = sin(s)")
    assert reruns(expect(program, "whole"), "p").counts == (0,)


def test_a_bool_is_not_counted_where_only_what_is_read_runs_again() -> None:
    body = "told = asks_gradient(x); t = sin_or_cos(x, told)"
    one = case(region("r", "x", body), "z = multiply(t, t)")
    assert ("r", "told", "rerun") not in expect(one, "minimal").executions
    assert reruns(expect(one, "whole"), "r", "told").counts == (1,)


def test_a_region_that_only_returns_its_argument_computes_nothing_that_could_run_again() -> None:
    text = HEAD.replace("inputs: {", "inputs: {flag: {value: false}, ")
    inner = "{recompute: q, takes: s, gives: t, body: 't = raise_if(s, flag)'}"
    node = f"{{recompute: r, takes: x, gives: u, body: [s = sin(x), {inner}, u = exp(t)]}}"
    (one,) = load_text(
        f"{text}      - {node}\n      - z = multiply(u, u)\n    outputs: z\n", "f.yaml"
    )
    executions = expect(one, "minimal").executions
    assert ("r", "", "rerun") in executions
    assert ("q", "", "rerun") not in executions


def test_a_region_that_is_never_called_has_no_features() -> None:
    one = case("{define: r, takes: x, gives: t, body: t = sin(x)}", "z = multiply(x, x)")
    assert not features_of(one).regions


def test_a_region_that_its_own_rerun_comes_back_to() -> None:
    """The tensor that it reads in a list is written over with what it gave."""
    text = (
        HEAD
        + """\
      - t = sin(x)
      - {recompute: r, takes: [x, [t]], gives: [a, b], body: 'a = sin(x); b = exp(t)'}
      - u = add_in_place(t, a)
      - z = multiply(u, b)
    error: {as: plain}
    differs: What a program changes is not promised to be seen.
"""
    )
    (one,) = load_text(text, "f.yaml")
    assert "node-runs-endlessly" in features_of(one).case


def test_what_is_written_over_counts_where_its_gradient_is_asked_for() -> None:
    body = "a = sigmoid(w); b = add_in_place(a, v)"
    text = HEAD + f"      - {region('r', 'x', body)}\n      - z = multiply(b, b)\n"
    text += "    error: {as: plain}\n    differs: It is not promised to be seen.\n"
    (every,) = load_text(text, "f.yaml")
    (one,) = load_text(f"{text}    gradients: {{wrt: [v]}}\n", "f.yaml")
    assert "saved-changed" in features_of(every).case
    assert "saved-changed" not in features_of(one).case


def test_a_region_reads_what_it_captures_where_it_stands() -> None:
    inner = region("r", "x", "t = multiply(x, w)")
    outer = "{recompute: o, takes: w, gives: u, body: [{call: r, takes: [w], gives: u}]}"
    between = "{define: s, takes: [a], gives: v, body: [{call: r, takes: [a], gives: v}]}"
    with pytest.raises(CaseError, match="region 'r' captures 'w', which is another value here"):
        case(inner, outer, "z = sin(u)")
    with pytest.raises(CaseError, match="region 's' captures 'w', which is another value here"):
        case(inner, between, outer.replace("call: r", "call: s"), "z = sin(u)")


def test_a_keyword_that_no_call_gives_is_none_of_the_region() -> None:
    node = "{define: r, takes: [x], kwargs: {k: n}, gives: t, body: ['t = sin(x)']}"
    head = HEAD.replace("inputs: {", "inputs: {n: {value: true}, ")
    for given, named in (("", False), (", kwargs: {k: n}", True)):
        call = f"{{call: r, takes: [y], gives: u{given}}}"
        (one,) = load_text(f"{head}      - {node}\n      - {call}\n      - z = exp(u)\n", "f.yaml")
        assert all(("keyword:k" in of) == named for of in features_of(one).regions)


def test_a_default_is_the_same_value_wherever_it_is_left_out() -> None:
    text = HEAD.replace("inputs: {", "inputs: {n: {value: true}, m: {value: false}, ")
    inner = "{define: r, takes: [x], kwargs: {k: n}, gives: t, body: ['t = sin_or_cos(x, n)']}"
    call = "{call: r, takes: [x], gives: u}"
    outer = "{recompute: o, takes: [x], kwargs: {l: KEY}, gives: u, body: [INNER, CALL]}"
    outer = outer.replace("INNER", inner).replace("CALL", call)
    program = "      - {}\n      - z = multiply(u, x)\n"
    load_text(text + program.format(outer.replace("KEY", "m")), "f.yaml")
    with pytest.raises(CaseError, match="'n' is left out of a call, and is another value here"):
        load_text(text + program.format(outer.replace("KEY", "n")), "f.yaml")


@pytest.mark.parametrize(
    ("body", "one"),
    [
        ("t = add(x, y)", True),
        ("t = subtract(x, y)", False),
        ("s = subtract(x, y); t = add(s, v)", True),
        ("s = sin(x); t = add(s, y)", False),
        ("s = add(x, y); t = multiply(s, x)", False),
    ],
)
def test_two_tensors_have_one_gradient_where_sums_alone_lead_to_them(body: str, one: bool) -> None:
    found = features_of(case(region("r", "[x, y]", body), "z = sin(t)"))
    assert ("one-gradient" in found.regions[0]) is one


def test_a_region_reads_a_parameter_that_one_in_it_returns_or_takes_by_name() -> None:
    returned = "{define: r, takes: [y], gives: [s, w], body: ['s = sin(y)']}"
    call = "{call: r, takes: [y], gives: [p, q]}"
    outer = f"{{recompute: o, takes: [x], gives: t, body: [{returned}, {call}, t = sin(x)]}}"
    assert "zeros-as-operation" in features_of(case(outer, "z = sin(t)")).case
    named = "{recompute: r, takes: [y], kwargs: {k: w}, gives: s, body: ['s = sin(w)']}"
    outer = f"{{recompute: o, takes: [x], gives: t, body: [{named}, t = sin(x)]}}"
    assert "zeros-as-operation" in features_of(case(outer, "z = sin(t)")).case


def test_a_hook_is_called_for_an_argument_without_a_gradient() -> None:
    """PyTorch calls the hook of an argument of a node, with `None`."""
    text = HEAD + f"      - {region('r', '[x, w]', 't = sin(x)')}\n      - z = multiply(t, t)\n"
    (one,) = load_text(f"{text}    gradients: {{hooks: [w]}}\n", "f.yaml")
    assert "node-repeats-hook" in features_of(one).case
    (other,) = load_text(f"{text}    gradients: {{hooks: [v]}}\n", "f.yaml")
    assert "node-repeats-hook" not in features_of(other).case


def test_a_returned_argument_is_still_one_with_a_number_added() -> None:
    """A normalisation does not see the number, whether a region or the program has added it."""
    body = region("r", "[y]", "u = add_in_place(y, 0.5)")
    nodes = ["y = sin(x)", body, "z = layer_norm(u, w, w)"]
    assert "node-gives-other-values" not in features_of(case(*nodes)).case


def test_a_cast_that_changes_nothing_is_in_its_region() -> None:
    body = "{define: r, takes: [t], gives: u, body: \"u = astype(t, dtype='float32')\"}"
    assert "node-runs-otherwise" not in features_of(case(body, "z = r(x)")).case


def test_an_operation_may_keep_what_all_of_its_gradients_read() -> None:
    """Paddle keeps both factors of a product, also where the gradient of one is taken."""
    nodes = f"      - {region('r', 'x', 't = sin(x)')}\n      - z = matmul(t, v)\n"
    text = HEAD.replace("normal: 0.5}}\n    program", "normal: 0.5, gradient: false}}\n    program")
    (one,) = load_text(text + nodes, "f.yaml")
    apart, together = expect(one, "whole"), expect(one, "whole", residuals={"region": "together"})
    assert apart.memory is not None
    assert together.memory is not None
    assert (apart.memory.recomputed, together.memory.recomputed) == ((0, 0), (UNIT, UNIT))


def test_a_gradient_that_is_zeros_whatever_the_numbers_are_shows_no_other_numbers() -> None:
    text = HEAD.replace("inputs: {", "inputs: {s: {value: []}, ")
    body = "a = counted_sin(x, s); c = to_complex(y, a)"
    told = "    differs: A count is not promised to be the same.\n"
    for part, shows in (("imag", True), ("real", False)):
        nodes = (
            f"      - {region('r', '[x, s]', body)}\n      - t = {part}(c)\n      - z = sin(t)\n"
        )
        (one,) = load_text(text + nodes + told, "f.yaml")
        assert ("other-values-read" in features_of(one).case) == shows
    nodes = (
        f"      - {region('r', '[x, s]', 'a = counted_sin(x, s)')}\n      - z = subtract(a, a)\n"
    )
    (one,) = load_text(text + nodes + told, "f.yaml")
    assert "other-values-read" not in features_of(one).case


def test_a_quotient_that_is_written_over_may_be_read() -> None:
    told = "    error: {as: plain}\n    differs: It is not promised to be seen.\n"
    for first, second, shows in (("x", "y", True), ("x", "2.0", False)):
        body = f"a = divide({first}, {second}); b = add_in_place(a, y)"
        (one,) = load_text(
            f"{HEAD}      - {region('r', 'x', body)}\n      - z = sin(b)\n{told}", "f"
        )
        assert ("result-changed" in features_of(one).case) == shows


def test_what_a_region_has_saved_may_be_left_unread() -> None:
    two = region("r", "[x, y]", "a = sin(x); b = sin(y)", gives="[a, b]")
    some = case(two, "z = exp(a)", "u = exp(b)")
    both = case(two, "z = multiply(a, b)")
    assert "left-unread" not in features_of(both).case
    some = replace(some, outputs=(Ref("z"), Ref("b")), loss=replace(some.loss, name="z"))
    assert "left-unread" in features_of(some).case


def test_nothing_asks_for_a_gradient_where_gradients_are_off() -> None:
    (one,) = load_text(
        f"{HEAD}      - {region('r', 'x', 't = sin(x)')}\n      - z = asks_gradient(t)\n    outputs: z\n"
        "    procedure: inference\n",
        "f.yaml",
    )
    assert expect(one, "whole").outputs is False


def test_a_captured_tensor_that_is_given_back_and_not_read_takes_no_gradient() -> None:
    body = "t = sin(x)"
    before = case("a = sin(y)", "b = exp(a)", region("r", "x", body, gives="[t, a]"), "z = sin(b)")
    after = case("a = sin(y)", region("r", "x", body, gives="[t, a]"), "z = sin(a)")
    assert "gradient-by-closure" not in features_of(before).case
    assert "gradient-by-closure" in features_of(after).case


def test_a_region_runs_again_as_often_as_one_of_its_statements() -> None:
    """Layers give one name to the results of several operations."""
    layers = "[[t = sigmoid(t)], [t = sin(t)], [t = sin(t)]]"
    head, given = "t = multiply(x, y)", "z = multiply(t, t)"
    one = case(head, f"{{sequence: s, takes: t, segments: 1, layers: {layers}}}", given)
    found = expect(one, "minimal", residuals={"sin": "x"})
    assert reruns(found, "s1", "t").counts == (2,)
    assert reruns(found, "s1").counts == (1,)


def test_numbers_on_the_way_are_finite() -> None:
    for body, finite in (("t = relu(x)", True), ("t = relu(x); u = log(t)", False)):
        assert extent(case(region("r", "x", body, "t"), "z = multiply(y, t)"))[1] is finite


def test_numbers_on_the_way_are_finite_with_what_was_drawn() -> None:
    samples = [RandomSample("", "d", "forward", np.ones((3, 4)))]
    for dead, finite in (("u = log(y)", False), ("u = exp(y)", True)):
        one = case(
            "d = dropout(x)", region("r", "y", f"{dead}; t = sin(x)", "t"), "z = multiply(d, t)"
        )
        assert extent(one, samples)[1] is finite


def test_a_part_of_a_complex_tensor_may_have_no_gradient() -> None:
    parts = case(region("r", "x", "c = to_complex(x, y); t = real(c)", "t"), "z = multiply(t, t)")
    assert "constant-of-itself" in features_of(parts).case


def test_outputs_may_hold_a_graph_that_no_backward_pass_goes_through() -> None:
    before = "a = matmul(x, w)", region("q", "a", "u = exp(v)"), "z = sin(y)"
    for one, casts in ((case(*before), 0), (replace(case(*before), autocast="bfloat16"), 2)):
        found = expect(replace(one, outputs=(Ref("z"), Ref("u"))), "early-stop").memory
        assert found is not None
        assert found.left[0] == 4 + casts  # v, and x, w and a, which no gradient reads

    two = case("a = sin(y)", region("r", "x", "t = sin(x)"), "z = exp(t)")
    assert "graph-left" not in features_of(two).case
    assert "graph-left" in features_of(replace(two, outputs=(Ref("z"), Ref("a")))).case
    three = case(region("r", "x", "t = sin(x)"), "a = r(y)", "z = exp(t)")
    assert "graph-left" in features_of(replace(three, outputs=(Ref("z"), Ref("a")))).case


def test_a_loss_that_requires_no_gradient_is_passed_over() -> None:
    of = "per_output\n    outputs: [z, t]\n    gradients: {then: sum(t)}"
    one = case(region("r", "x", "t = stop_gradient(x)"), "z = multiply(t, x)", procedure=of)
    assert "node-without-result" in features_of(one).case


def test_a_jacobian_of_what_requires_no_gradient_is_zeros() -> None:
    nodes = "{recompute: r, body: 'z = sin(x)'}"
    assert "node-detaches-loss" in features_of(case(nodes)).case
    features = features_of(case(nodes, procedure="jacobian")).case
    assert "node-detaches-loss" not in features
    assert {"node-loses-gradient", "node-runs-otherwise"} <= features


def test_a_gradient_of_a_constant_tangent_is_none() -> None:
    torch = find_adapter("torch", ADAPTERS)
    variant = next(v for v in torch.variants if v.name == "non-reentrant")
    for node, constant in (("z = negative(t)", True), ("z = exp(t)", False)):
        one = case(region("r", "x", "t = negative(x)"), node, procedure="gradient_of_jvp")
        (made,) = texts(torch, [(one, variant)]).values()
        assert isinstance(made, Text)
        assert ("autograd.grad(" not in made.text) is constant


def test_what_gives_a_constant_tangent_need_not_run_again() -> None:
    nodes = [region("r", "x", "t = multiply(x, y)"), region("s", "[t, v]", "u = add(t, y)")]
    program = [*nodes, region("q", "y", "a = abs(y)"), "b = add(u, a)", "z = negative(b)"]
    one = case(*program, procedure="gradient_of_jvp")
    found, features = expect(one, "early-stop"), features_of(one)
    assert reruns(found, "r").counts[0] == 1
    assert 0 not in reruns(found, "r")
    assert 0 in reruns(found, "q")
    assert ["runs-again" in region for region in features.regions] == [True, False, False]
    two = features_of(case(*program, procedure="jvp"))
    assert not any("runs-again" in region for region in two.regions)


def test_torch_is_not_asked_for_second_derivatives_that_it_gets_wrong() -> None:
    torch = find_adapter("torch", ADAPTERS)
    variant = next(v for v in torch.variants if v.name == "non-reentrant")
    for kind, offered in (("gradient_of_jvp", False), ("jvp_of_gradient", True)):
        one = case(region("r", "x", "t = softmax(x)"), "z = exp(t)", procedure=kind)
        (made,) = texts(torch, [(one, variant)]).values()
        assert isinstance(made, Text) is offered


def test_a_matrix_near_a_singular_one_has_no_steady_solution() -> None:
    text = HEAD.replace("w: {shape: [4, 4], normal: 0.5}", "w: {shape: [2, 2], values: {}}")
    text = text.replace("v: {shape: [4, 4]", "v: {shape: [2, 2]")
    nodes = f"      - {region('r', '[w, v]', 't = solve(w, v)')}\n      - z = sin(t)\n"
    for last, steady in (("2.0", True), ("1.0001", False)):
        (one,) = load_text(text.replace("{}", f"[[1.0, 1.0], [1.0, {last}]]") + nodes, "f.yaml")
        assert is_stable(one) == steady


def test_a_singular_matrix_has_no_solution() -> None:
    text = HEAD.replace("w: {shape: [4, 4], normal: 0.5}", "w: {shape: [4, 4], full: 1.0}")
    (one,) = load_text(
        f"{text}      - {region('r', 'w', 't = solve(w, w)')}\n      - z = sin(v)\n", "f.yaml"
    )
    assert expect(one, "whole").gradients
    assert not extent(one)[1]


def test_rounding_errors_do_not_matter_where_a_gradient_is_infinite() -> None:
    text = HEAD.replace("x: {shape: [3, 4], normal: 0.5}", "x: {shape: [3, 4], arange: [0.0, 1.0]}")
    nodes = f"      - {region('r', 'x', 't = sqrt(x)')}\n      - z = multiply(t, y)\n"
    (one,) = load_text(text + nodes, "f.yaml")
    assert not extent(one)[1]
    assert is_stable(one)
    assert extent(one)[0]


def test_a_tensor_without_elements_never_holds_other_numbers() -> None:
    body = "a = unsteady_sin(x, then='values'); b = exp(a)"
    node = f'{{recompute: r, takes: x, body: "{body}"}}'
    text = f"{HEAD}      - {node}\n      - z = multiply(b, y)\n    differs: It is not promised.\n"
    (some,) = load_text(text, "f.yaml")
    (none,) = load_text(text.replace("[3, 4]", "[0, 4]"), "f.yaml")
    assert "other-values-read" in features_of(some).case
    assert "other-values-read" not in features_of(none).case


def test_what_leads_to_an_argument_that_is_not_read_may_keep_copies_of_views() -> None:
    residuals = {"to_complex": "a b"}
    nodes = ("c = to_complex(a, a)", region("r", "c", "t = sin(y)"), "z = sin(t)")
    for node, copies in (("a = permute_dims(x, axes=[1, 0])", 2), ("a = sin(x)", 1)):
        memory = expect(case(node, *nodes), "whole", residuals=residuals).memory
        assert memory is not None
        assert memory.recomputed[1] == (2 + 1 + copies) * UNIT  # c, t, and a or copies of it


def test_an_argument_may_be_kept_for_its_own_gradient_alone() -> None:
    one = case(
        "u = uniform(shape=[3, 4])", region("r", "x", "c = to_complex(x, u); z = real(c)", "z")
    )
    for words, kept in (("a b", UNIT), ("a b asked", 0)):
        memory = expect(one, "whole", residuals={"to_complex": words}).memory
        assert memory is not None
        assert memory.plain == (kept, kept)


def test_a_mask_may_have_the_dtype_of_what_it_masks() -> None:
    nodes = ("a = dropout(x)", region("r", "[a, y]", "t = sin(y)"), "z = sin(t)")
    one = case(*nodes)
    arrays = [replace(array, dtype="float64") for array in one.inputs]
    for program, nbytes in ((one, 4), (replace(one, inputs=tuple(arrays)), 8)):
        memory = expect(program, "whole").memory
        assert memory is not None
        assert memory.recomputed[1] == 3 * 12 * nbytes  # a, t and the mask


def test_a_mask_that_the_plain_run_does_not_keep_may_be_wide() -> None:
    head = HEAD.replace(
        "inputs: {x: {shape: [3, 4]", "inputs: {p: {shape: [4, 4, 4, 4]}, x: {shape: [3, 4]"
    )
    head = head.replace("p: {shape: [4, 4, 4, 4]}", "p: {shape: [4, 4, 4, 4], normal: 0.5}")
    head = head.replace("y: {shape: [3, 4]", "g: {shape: [4], normal: 0.5}, y: {shape: [3, 4]")
    nodes = f"      - t = max_pool2d(p, size=2)\n      - {region('r', 't', 'z = layer_norm(p, g, g)')}\n"
    (one,) = load_text(head + nodes, "f.yaml")
    memory = expect(one, "early-stop", residuals={"max_pool2d": "x mask"}).memory
    assert memory is not None
    assert memory.plain[0] == 2 * 64 * 4  # means and deviations
    assert memory.drop == 0
    assert memory.rise == 64 * 4 + 64 * 8 - 2 * 64 * 4  # t and its indices, instead


def test_torch_returns_tensors_alone_from_a_transform() -> None:
    torch = find_adapter("torch", ADAPTERS)
    variant = next(v for v in torch.variants if v.name == "reentrant")
    for gives, offered in (("[t, u]", True), ("[t, {object: {k: u}}]", False)):
        node = f"{{recompute: r, takes: x, gives: {gives}, body: 't = sin(x); u = exp(x)', returned: q}}"
        one = case(node, procedure="functional\n    outputs: [t, q]")
        (made,) = texts(torch, [(one, variant)]).values()
        assert isinstance(made, Text) is offered


def test_a_dropout_of_no_elements_returns_its_argument() -> None:
    text = (
        f"{HEAD}      - {region('r', 'x', 't = dropout(w)', '[t]')}\n      - z = multiply(t, t)\n"
    )
    (none,) = load_text(text.replace("w: {shape: [4, 4]", "w: {shape: [0, 4]"), "f.yaml")
    assert "node-runs-endlessly" in features_of(none).case
    assert "node-runs-endlessly" not in features_of(load_text(text, "f.yaml")[0]).case


def test_which_of_equal_elements_is_the_largest_is_open() -> None:
    one = case(region("r", "x", "t = maximum(x, y)"), "z = multiply(t, t)")
    full = [
        replace(array, fill=replace(array.fill, kind="full", numbers=(1.0,)))
        for array in one.inputs
    ]
    assert is_stable(one)
    assert not is_stable(replace(one, inputs=tuple(full)))


def test_the_slope_of_abs_at_zero_is_open() -> None:
    one = case(region("r", "x", "t = abs(x)"), "z = sin(t)")
    (x, *others) = one.inputs
    zeros = replace(x, fill=replace(x.fill, kind="full", numbers=(0.0,)))
    assert is_stable(one)
    assert not is_stable(replace(one, inputs=(zeros, *others)))


def test_which_of_a_tensor_and_itself_is_the_larger_is_open() -> None:
    nodes = ("s = stop_gradient(x)", region("r", "[s, x]", "t = maximum(s, x)"), "z = sin(t)")
    assert not is_stable(case(*nodes))


def test_a_function_keeps_what_a_function_in_it_reads_that_never_runs() -> None:
    inner = "{define: q, takes: [], body: 'u = sin(h)'}"
    body = f"{{recompute: r, takes: x, body: [t = sin(x), {inner}], gives: t}}"
    memory = expect(case("h = sin(y)", body, "z = sin(t)"), "whole").memory
    assert memory is not None
    assert memory.recomputed[1] == 2 * UNIT  # h and t


def test_a_gradient_is_laid_out_as_an_argument_with_permuted_axes_is() -> None:
    for node, found in (("h = permute_dims(x, axes=[1, 0])", True), ("h = sin(x)", False)):
        assert (
            expect(case(node, region("r", "h", "t = sin(h)"), "z = sin(t)"), "whole").sums is found
        )


def test_a_gradient_that_is_asked_for_comes_to_a_tensor_that_has_moved() -> None:
    nodes = ("h = sin(w)", region("r", "h", "t = sin(h)", "[t, x]"), "z = sin(x)")
    for kind, moved in (("backward", True), ("third_order", False)):
        features = features_of(case(*nodes, procedure=kind)).case
        assert ("node-runs-endlessly" in features) is moved


def test_a_region_moves_no_integers() -> None:
    inner = region("s", "[x, i]", "t = sin(x)")
    text = HEAD.replace("inputs: {", "inputs: {i: {shape: [3], integers: [0, 2]}, ")
    text += (
        f"      - {{recompute: r, takes: x, body: [{inner}], gives: [t, i]}}\n      - z = sin(t)\n"
    )
    assert "node-runs-endlessly" not in features_of(load_text(text, "f.yaml")[0]).case


def test_what_a_region_captures_has_no_gradient_that_is_asked_for() -> None:
    nodes = (region("r", "x", "t = multiply(x, w)"), "z = sin(t)", "    gradients: {wrt: [w]}")
    for kind, lost in (("backward", False), ("jvp_of_gradient", True)):
        head = "\n".join(f"      - {node}" for node in nodes[:2])
        text = f"{HEAD}{head}\n    procedure: {kind}\n{nodes[2]}\n"
        features = features_of(load_text(text, "f.yaml")[0]).case
        assert ("node-loses-gradient" in features) is lost


def test_autocast_keeps_casts_of_what_regions_keep() -> None:
    """PyTorch keeps `a` for the region, and a copy of it in half precision for the product."""
    text = f"{HEAD}      - a = sin(x)\n      - b = matmul(a, w)\n"
    text += f"      - {region('r', 'a', 't = matmul(a, v)')}\n      - z = multiply(t, b)\n"
    (one,) = load_text(text, "f.yaml")
    (low,) = load_text(f"{text}    autocast: bfloat16\n", "f.yaml")
    whole, half = expect(one, "whole").memory, expect(low, "whole").memory
    assert whole is not None
    assert half is not None
    assert half.recomputed[1] == whole.recomputed[1] + UNIT // 2


def test_a_region_that_computes_nothing_for_others_may_not_be_seen() -> None:
    """JAX computes neither what nothing reads nor a cast to the dtype that is there."""
    cast = case(region("r", "x", "d = sin(x); t = astype(x, dtype=''float32'')"), "z = sin(t)")
    kept = case(region("r", "x", "d = sin(x); t = cos(x)"), "z = sin(t)")
    assert 0 in expect(cast, "minimal").executions["r", "", "forward"]
    assert 0 not in expect(kept, "minimal").executions["r", "", "forward"]


def test_an_inner_region_reads_by_closure_what_the_outer_one_takes_or_what_it_reads() -> None:
    """JAX keeps the arrays of the second: those of the first are no arrays while it traces."""
    inner = region("i", "k", "s = sin(x)", "s")
    for takes, outer in (("[x, k]", False), ("k", True)):
        node = f"{{recompute: o, takes: {takes}, body: [{inner}], gives: s}}"
        text = f"{HEAD}      - {node}\n      - z = sin(s)\n".replace(
            "y: {", "k: {value: true}, y: {"
        )
        features = features_of(load_text(text, "f.yaml")[0])
        assert all("constant-argument" in one for one in features.regions)
        assert any({"reads-outer", "nested-inside"} <= one for one in features.regions) == outer


def test_a_key_that_a_region_reads_by_closure_is_an_array() -> None:
    """NumPy's generators hold no array of the framework."""
    for library, outer in (("framework", True), ("numpy", False)):
        node = region("r", "x", "t = uniform_from(g, shape=[3, 4])")
        text = f"{HEAD}      - {node}\n      - z = sin(t)\n"
        given = f"g: {{generator: {library}, seed: 3}}, y: {{"
        (features,) = features_of(load_text(text.replace("y: {", given), "f.yaml")[0]).regions
        assert ("reads-outer" in features) == outer


def test_an_operation_passes_zeros_to_an_argument_that_its_results_do_not_read() -> None:
    for body, zeros in (("t = sin(y)", True), ("t = add(s, y)", False)):
        one = case("s = sqrt(x)", region("r", "[s, y]", body), "z = exp(t)")
        assert ("zeros-passed-as-operation" in features_of(one).case) is zeros


def test_a_mapped_region_fits_one_row_of_what_it_is_given() -> None:
    """The captured `y` is no row, so that a row and `y` make a table of each."""
    for body, fits in (("t = matmul(x, w)", True), ("t = add(x, y)", False)):
        node = region("r", "x", body).replace("body", "mapped: true, body")
        if fits:
            check_shapes([case(node, "z = sin(t)")])
            continue
        with pytest.raises(CaseError, match="does not fit a row"):
            check_shapes([case(node, "z = sin(t)")])


def test_a_step_of_training_may_leave_out_what_another_one_runs() -> None:
    """JAX ran the second call, which nothing reads, in the first of two steps."""
    first = "{define: r, takes: h, body: 't = sin(h)', gives: t}"
    calls = "{call: r, takes: [w], gives: a}", "{call: r, takes: [w], gives: b}", "z = matmul(x, a)"
    one = case(first, *calls, procedure="{train: {steps: 2, learning_rate: 0.1}}")
    assert set(expect(one, "minimal").executions["r", "t", "forward"].counts) == {2, 3, 4}


def test_a_function_that_reads_an_argument_of_the_one_around_it_is_written_there() -> None:
    inner = region("i", "k", "s = sin(h)", "s")
    outer = f"{{define: o, takes: [h, k], body: [{inner}], gives: s}}"
    one = case(outer, "{call: o, takes: [x, y], gives: z}")
    jax = find_adapter("jax", ADAPTERS)
    (text,) = texts(jax, [(one, jax.variants[0])]).values()
    assert not isinstance(text, EmitFailure)
    assert text.text.index("def i(") > text.text.index("def plain(")


def test_a_dropout_of_no_elements_keeps_nothing_where_it_is_its_argument() -> None:
    empty = HEAD.replace("inputs: {", "inputs: {e: {shape: [0, 4], normal: 0.5}, ")
    body = region("r", "e", "t = dropout(e); u = negative(t)")
    (one,) = load_text(f"{empty}      - {body}\n      - z = add(u, u)\n", "f.yaml")
    declared = {"dropout": "mask early elements"}
    assert reruns(expect(one, "early-stop", residuals=declared), "r").counts == (0,)
    assert reruns(expect(one, "early-stop"), "r").counts == (1,)
    assert "runs-again" not in features_of(one).case


def test_a_normalisation_of_two_elements_loses_more_than_rounding() -> None:
    """Its gradient is a difference of nearly equal numbers, which a kernel does not round one by one."""
    pairs = "x: {shape: [24, 2], uniform: [0.5, 1.5]}"
    text = HEAD.replace("x: {shape: [3, 4], normal: 0.5}", pairs)
    text = text.replace("w: {shape: [4, 4]", "w: {shape: [2]")
    nodes = f"      - {region('r', 'x', 't = layer_norm(x, w, w)')}\n      - z = multiply(t, t)\n"
    (one,) = load_text(text + nodes, "f.yaml")
    assert is_stable(one)
    assert not is_stable(one, errors=KERNELS)


def test_an_inaccurate_kernel_loses_as_much_as_it_says() -> None:
    """MLX convolves in float32 whatever the dtype is; what is near zero beside it shows that."""
    wide = HEAD.replace("normal: 0.5}", "normal: 0.5, dtype: float64}")
    body = region("r", "x", "t = matmul(x, w); u = subtract(t, x)")
    nodes = f"      - {body}\n      - z = multiply(u, 1000.0)\n      - a = sin(z)\n"
    (one,) = load_text(wide + nodes, "f.yaml")
    assert is_stable(one, errors=KERNELS)
    assert not is_stable(one, errors=KERNELS, accuracy={"matmul": 1e-6})
    assert is_stable(one, errors=KERNELS, accuracy={"conv2d": 1e-6})


@pytest.mark.parametrize(("given", "drawn"), [("x", (0.25, 0.5)), ("h", (0.25, 0.75, 0.5))])
def test_what_a_region_does_not_return_may_be_left_out_of_it(
    given: str, drawn: tuple[float]
) -> None:
    """JAX traces a region that it differentiates, and leaves out the inner call, but runs the calls that
    nothing reads."""
    inner = "{define: r, takes: x, body: 't = uniform(shape=[3, 4])'}"
    body = "[{call: r, takes: a, gives: b}, u = sin(a)]"
    outer = [
        f"{{define: o, takes: a, gives: u, body: {body}}}",
        f"{{call: o, takes: {given}, gives: u}}",
    ]
    calls = [f"{{call: r, takes: x, gives: {name}}}" for name in "bc"]
    one = case("h = stop_gradient(x)", inner, calls[0], *outer, calls[1], "z = multiply(c, u)")
    draws = [RandomSample("r", "t", "forward", np.full((3, 4), n)) for n in drawn]
    found = expect(one, "minimal", samples=draws)
    u = expect(replace(one, outputs=(Ref("u"),)), "minimal", samples=draws).outputs
    assert found.outputs is not None
    np.testing.assert_allclose(found.outputs.array, 0.5 * u[0].array)


def test_a_gradient_taken_inside_keeps_its_factor_and_its_cotangent() -> None:
    """As JAX does: sin(x), and the ones that the sum has as its gradient."""
    one = case("s = slope_of_sin(x)", region("r", "s", "t = abs(s)"), "z = negative(t)")
    kept = [expect(one, "minimal", residuals={"region": words}).memory for words in ("factors", "")]
    assert [memory and memory.recomputed for memory in kept] == [(3 * UNIT, 3 * UNIT), (UNIT, UNIT)]


def test_an_absolute_value_may_keep_its_sign_alone() -> None:
    """As JAX does: a byte for each element, where the region keeps its argument."""
    one = case("s = sin(x)", region("r", "s", "t = abs(s)"), "z = negative(t)")
    memory = expect(one, "minimal", residuals={"region": "factors"}).memory
    assert memory is not None
    assert memory.plain == (UNIT + UNIT // 4,) * 2
    assert memory.recomputed == (2 * UNIT,) * 2


def test_an_output_without_a_loss_may_keep_nothing() -> None:
    """In JAX, what is put out beside the loss is no part of what is differentiated."""
    one = case("s = sin(x)", region("r", "y", "t = exp(y); u = sin(t)", "u"), "z = sin(s)")
    one = replace(one, outputs=(Ref("z"), Ref("u")))
    for words, drop in (("", UNIT), ("loss", 0)):
        memory = expect(one, "minimal", residuals={"region": words}).memory
        assert memory is not None
        assert memory.drop == drop


def test_a_quotient_of_a_tensor_and_a_multiple_of_it_is_constant() -> None:
    for first, found in (("a = divide(x, -1.0)", True), ("a = divide(1.0, x)", False)):
        one = case(first, region("r", "[x, a]", "t = divide(a, x)"), "z = multiply(t, x)")
        assert ("constant-of-itself" in features_of(one).case) is found


def test_a_number_divided_by_a_tensor_may_keep_the_tensor_s_inverse() -> None:
    one = case("d = divide(0.5, w)", region("r", "d", "s = sin(x)", "s"), "z = add(s, 1.0)")
    kept = expect(one, "early-stop").memory
    assert kept is not None
    assert kept.recomputed[1] == 2 * 4 * 4 * 4  # the argument, and 1 / w


def test_a_cast_to_the_dtype_that_a_parameter_has_is_the_parameter() -> None:
    """A framework gives the parameter back, whose new value a gradient then reads."""
    text = HEAD + "      - p = astype(w, dtype='DTYPE')\n"
    text += f"      - {region('r', 'x', 's = sin(x)')}\n      - z = matmul(s, p)\n"
    text += "    procedure: {backward: {between: update}}\n    error: {as: plain}\n"
    text += "    differs: It is not promised to be seen.\n"
    for dtype, overwritten in (("float32", True), ("float64", False)):
        (one,) = load_text(text.replace("DTYPE", dtype), "f.yaml")
        assert ("saved-overwritten" in features_of(one).case) is overwritten
