"""StableHLO: every program's text is well formed; XLA runs it in tools/stablehlo_programs.py."""

import re

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from tools import stablehlo_programs
from weft.stablehlo import types

NAMES = sorted(stablehlo_programs.programs())
DEFINED = re.compile(r"^\s*(%\w+)(?::(\d+))? = ")
USED = re.compile(r"%\w+(?:#\d+)?")
SIGNATURE = re.compile(r" : \((.*)\) -> (.*)$")


def check(text):
    """Raise unless names are defined once and before their use, with one type each."""
    types_of: dict[str, str] = {}
    depth = 0
    for line in text.split("\n"):
        if "func.func" in line:
            types_of = dict(re.findall(r"(%arg\d+): ([^,)]+)", line))
        blocks = re.search(r"\^bb0\((.*)\):", line)
        if blocks:
            types_of |= dict(re.findall(r"(%in\d+): ([^,)]+)", blocks[1]))
            continue
        defined = DEFINED.match(line)
        body = line[defined.end() :] if defined else line
        if defined:
            assert defined[1] not in types_of, f"{defined[1]} is defined twice"
            types_of[defined[1]] = ""
        if "func.func" not in line:
            for name in USED.findall(body.split(" : ")[0]):
                assert name.split("#")[0] in types_of, (
                    f"{name} is used before it is defined: {line}"
                )
        depth += line.count("{") - line.count("}")
    assert depth == 0


@pytest.mark.parametrize("name", NAMES)
def test_text_is_well_formed(name):
    lowered = stablehlo_programs.lowered(name)
    text = lowered.as_text()
    assert text == str(lowered.compiler_ir("stablehlo"))
    check(text)
    hlo = lowered.compiler_ir("hlo").as_hlo_text()
    assert hlo.startswith("HloModule jit_") and "ENTRY main {" in hlo


def test_a_program_as_it_is_written():
    f = lambda x, w: jnp.maximum(x @ w, 0.0)
    text = weft.jit(f).lower(jnp.ones((2, 3)), jnp.ones((3, 4))).as_text()
    lines = [line.strip() for line in text.split("\n")]
    assert lines[1] == (
        "func.func public @main(%arg0: tensor<2x3xf32>, %arg1: tensor<3x4xf32>)"
        " -> (tensor<2x4xf32>) {"
    )
    assert [re.search(r"stablehlo\.(\w+)\"", s)[1] for s in lines if '"stablehlo.' in s] == [
        "dot_general",
        "constant",
        "broadcast_in_dim",
        "maximum",
    ]


def test_repeated_calls_are_one_function():
    layer = weft.jit(lambda x: jnp.sin(x) * 2)
    text = weft.jit(lambda x: layer(layer(layer(x)))).lower(1.0).as_text()
    assert text.count("func.func private") == 1
    assert text.count('"func.call"') == 3


def test_operations_are_counted_in_hlo():
    f = lambda x: jnp.dot(x, x, precision="highest")
    hlo = weft.jit(f).lower(jnp.ones((2, 2))).as_text("hlo")
    (line,) = [line for line in hlo.split("\n") if "dot(" in line]
    assert "operand_precision={highest,highest}" in line and "f32[2,2]" in line


def test_programs_that_call_python_have_no_stablehlo():
    shape = weft.ShapeDtypeStruct((), np.float32)
    f = weft.jit(lambda x: weft.pure_callback(np.sin, shape, x))
    with pytest.raises(NotImplementedError, match="pure_callback"):
        f.lower(1.0).compiler_ir("stablehlo")
    text = f.lower(1.0).as_text()
    assert text.startswith("// ") and "pure_callback" in text
    assert "lambda" in f.lower(1.0).as_text("jaxpr")
    with pytest.raises(ValueError, match="'stablehlo' or 'hlo'"):
        f.lower(1.0).compiler_ir("mhlo")


@pytest.mark.parametrize(
    "value, text",
    [
        (np.float32(-np.inf), "dense<0xFF800000>"),
        (np.int64(-3), "dense<-3>"),
        (np.array([1, 2], np.uint8), 'dense<"0x0102">'),
        (np.array([[True], [False]]), "dense<[[true], [false]]>"),
        (np.zeros((0, 2), np.float32), "dense<>"),
    ],
)
def test_constants(value, text):
    assert types.dense(value) == text


def test_dtypes_without_a_name_are_refused():
    with pytest.raises(NotImplementedError, match="int4"):
        weft.jit(lambda x: x).lower(jnp.zeros(2, "int4")).compiler_ir()


def test_squares_are_products_however_they_are_written():
    forms = (lambda x: x**2, lambda x: x * x, jnp.square)
    texts = {weft.jit(f).lower(jnp.ones(3)).as_text("hlo").split("ENTRY")[1] for f in forms}
    assert len(texts) == 1


# --- symbolic shapes ------------------------------------------------------------------------------


def symbolic_text(function, *texts):
    scope = weft.export.SymbolicScope()
    specs = [
        weft.ShapeDtypeStruct(weft.export.symbolic_shape(text, scope=scope), np.float32)
        for text in texts
    ]
    return weft.jit(function).lower(*specs).as_text("stablehlo")


def test_symbolic_dimensions_are_dynamic_and_given_first():
    text = symbolic_text(lambda x: x.reshape(-1) * x.shape[0], "b, 2*h")
    head = text.split("\n")[1]
    assert 'main(%arg0: tensor<i32> {jax.global_constant = "b"}, %arg1: tensor<i32>' in head
    assert "%arg2: tensor<?x?xf32>) -> (tensor<?xf32>)" in head
    assert "stablehlo.dynamic_reshape" in text and "stablehlo.multiply" in text


@pytest.mark.parametrize(
    ("function", "texts", "names"),
    [
        (lambda x: jnp.arange(x.shape[0]), ["b"], ["dynamic_iota"]),
        (lambda x: x[1:], ["b"], ["real_dynamic_slice"]),
        (lambda x: jnp.pad(x, (0, x.shape[0])), ["b"], ["dynamic_pad"]),
        (lambda x: x + x.sum(0), ["b, h"], ["dynamic_broadcast_in_dim", "reduce"]),
        (lambda x: x[::2] * 1.0, ["b"], ["divide", "remainder", "select"]),
        (lambda x, y: x[jnp.zeros(3, int)] @ y, ["b, h", "h, 2"], ["gather", "dot_general"]),
        (lambda x: weft.nn.softmax(x), ["b, h"], ["exponential"]),
    ],
)
def test_operations_of_symbolic_shapes_have_dynamic_forms(function, texts, names):
    text = symbolic_text(function, *texts)
    check(text)
    assert "?" in text
    for name in names:
        assert f"stablehlo.{name}" in text


def test_what_has_no_dynamic_form_says_so():
    with pytest.raises(NotImplementedError, match="needs a number"):
        symbolic_text(lambda x: jnp.cumsum(x), "b")


def test_functions_have_names_of_their_own():
    """Also where one of the user's is called as the second of another would be."""

    def named(name, k):
        def function(x):
            return x * k

        function.__name__ = name
        return weft.jit(function)

    called = [named("f", 2.0), named("f_1", 3.0), named("f", 4.0), named("f_1", 5.0)]
    text = weft.jit(lambda x: sum(f(x) for f in called)).lower(1.0).as_text()
    names = re.findall(r"func.func \w+ @(\w+)\(", text)
    assert len(names) == 5 and len(set(names)) == 5
    (y,) = weft.export.from_stablehlo(text)(np.float32(2))
    assert float(y) == 28
