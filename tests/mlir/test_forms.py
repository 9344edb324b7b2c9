"""StableHLO text: the forms that it is written in, and errors for text that cannot be read."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import export

F = np.float32


def module(body, takes="%x: tensor<2x3xf32>", gives="tensor<2x3xf32>", more=""):
    head = f"func.func public @main({takes}) -> ({gives}) {{"
    return f"module @m {{\n  {head}\n{body}\n  }}\n{more}}}\n"


X = np.arange(6, dtype=F).reshape(2, 3) - 2

FORMS = {
    "binary": ("%0 = stablehlo.add %x, %x : tensor<2x3xf32>", 2 * X),
    "generic": (
        '%0 = "stablehlo.add"(%x, %x) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>',
        2 * X,
    ),
    "compare": (
        (
            "%0 = stablehlo.compare LT, %x, %x, FLOAT : (tensor<2x3xf32>, tensor<2x3xf32>) ->"
            " tensor<2x3xi1>"
        ),
        X < X,
    ),
    "transpose": (
        "%0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>",
        X.T,
    ),
    "slice": (
        "%0 = stablehlo.slice %x [0:2, 0:3:2] : (tensor<2x3xf32>) -> tensor<2x2xf32>",
        X[:, ::2],
    ),
    "reverse": ("%0 = stablehlo.reverse %x, dims = [1] : tensor<2x3xf32>", X[:, ::-1]),
    "concatenate": (
        (
            "%0 = stablehlo.concatenate %x, %x, dim = 0 : (tensor<2x3xf32>, tensor<2x3xf32>) ->"
            " tensor<4x3xf32>"
        ),
        np.concatenate([X, X]),
    ),
    "dot": (
        (
            "%0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [1], precision = [DEFAULT,"
            " DEFAULT] : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x2xf32>"
        ),
        X @ X.T,
    ),
    "batched dot": (
        (
            "%0 = stablehlo.dot_general %x, %x, batching_dims = [0] x [0], contracting_dims = [1] x"
            " [1] : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2xf32>"
        ),
        (X * X).sum(1),
    ),
    "applies": (
        (
            "%c = stablehlo.constant dense<1.0> : tensor<f32>\n"
            "%0 = stablehlo.reduce(%x init: %c) applies stablehlo.add across dimensions = [0] :"
            " (tensor<2x3xf32>, tensor<f32>) -> tensor<3xf32>"
        ),
        X.sum(0) + 1,
    ),
    "reducer": (
        (
            "%c = stablehlo.constant dense<0.0> : tensor<f32>\n"
            "%0 = stablehlo.reduce(%x init: %c) across dimensions = [1] :"
            " (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>\n"
            " reducer(%a: tensor<f32>, %b: tensor<f32>)  {\n"
            "  %1 = stablehlo.add %a, %b : tensor<f32>\n  stablehlo.return %1 : tensor<f32>\n }"
        ),
        X.sum(1),
    ),
    "while": (
        (
            "%c = stablehlo.constant dense<0> : tensor<i32>\n"
            "%r:2 = stablehlo.while(%i = %c, %v = %x) : tensor<i32>, tensor<2x3xf32>\n"
            "cond {\n %l = stablehlo.constant dense<3> : tensor<i32>\n"
            " %g = stablehlo.compare LT, %i, %l, SIGNED : (tensor<i32>, tensor<i32>) ->"
            " tensor<i1>\n"
            " stablehlo.return %g : tensor<i1>\n} do {\n"
            " %o = stablehlo.constant dense<1> : tensor<i32>\n"
            " %n = stablehlo.add %i, %o : tensor<i32>\n"
            " %w = stablehlo.add %v, %v : tensor<2x3xf32>\n"
            " stablehlo.return %n, %w : tensor<i32>, tensor<2x3xf32>\n}\n"
            "%0 = stablehlo.reshape %r#1 : (tensor<2x3xf32>) -> tensor<6xf32>"
        ),
        (8 * X).reshape(6),
    ),
    "case": (
        (
            "%c = stablehlo.constant dense<7> : tensor<i32>\n"
            '%0 = "stablehlo.case"(%c) ({\n stablehlo.return %x : tensor<2x3xf32>\n}, {\n'
            " %n = stablehlo.negate %x : tensor<2x3xf32>\n"
            " stablehlo.return %n : tensor<2x3xf32>\n})"
            " : (tensor<i32>) -> tensor<2x3xf32>"
        ),
        -X,
    ),
    "pad": (
        (
            "%c = stablehlo.constant dense<5.0> : tensor<f32>\n"
            "%0 = stablehlo.pad %x, %c, low = [0, 1], high = [0, 0], interior = [0, 0] :"
            " (tensor<2x3xf32>, tensor<f32>) -> tensor<2x4xf32>"
        ),
        np.pad(X, ((0, 0), (1, 0)), constant_values=5),
    ),
    "iota": ("%0 = stablehlo.iota dim = 1 : tensor<2x3xi32>", np.indices((2, 3))[1].astype("i4")),
    "location": (
        '%0 = stablehlo.negate %x : tensor<2x3xf32> loc("f"("a.py":1:2))  // the end',
        -X,
    ),
    "top_k": (
        "%0, %1 = chlo.top_k(%x, k = 2) : tensor<2x3xf32> -> (tensor<2x2xf32>, tensor<2x2xi32>)",
        X[:, :0:-1],
    ),
    "tuple": (
        (
            "%t = stablehlo.tuple %x, %x : tuple<tensor<2x3xf32>, tensor<2x3xf32>>\n"
            "%0 = stablehlo.get_tuple_element %t[1] : (tuple<tensor<2x3xf32>, tensor<2x3xf32>>) ->"
            " tensor<2x3xf32>"
        ),
        X,
    ),
    "precision": ("%0 = stablehlo.reduce_precision %x, format = e8m23 : tensor<2x3xf32>", X),
}


def result_type(x):
    sizes = "".join(f"{n}x" for n in x.shape)
    return f"tensor<{sizes}{ {'float32': 'f32', 'int32': 'i32', 'bool': 'i1'}[x.dtype.name] }>"


@pytest.mark.parametrize("name", FORMS)
def test_forms(name):
    text, expected = FORMS[name]
    kind = result_type(expected)
    f = export.from_stablehlo(module(f"{text}\nreturn %0 : {kind}", gives=kind))
    (got,) = f(X)
    assert (f.out_avals[0].shape, f.out_avals[0].dtype) == (expected.shape, expected.dtype)
    np.testing.assert_array_equal(got, expected)


CONSTANTS = {
    "dense<[[1.0, -2.5e+00], [0x7F800000, 0x7FC00000]]> : tensor<2x2xf32>": np.array(
        [[1, -2.5], [np.inf, np.nan]], F
    ),
    "dense<3> : tensor<2x2xi8>": np.full((2, 2), 3, np.int8),
    'dense<"0x0000803F00000040"> : tensor<2xf32>': np.array([1, 2], F),
    "dense<[true, false]> : tensor<2xi1>": np.array([True, False]),
    "dense<(1.0,2.0)> : tensor<2xcomplex<f32>>": np.full(2, 1 + 2j, np.complex64),
    "dense<[(1.0,2.0), (3.0,-4.0)]> : tensor<2xcomplex<f32>>": np.array([1 + 2j, 3 - 4j], "c8"),
    "dense<> : tensor<0x3xui16>": np.zeros((0, 3), np.uint16),
    "dense<0x7FC0> : tensor<bf16>": np.asarray(np.nan).astype(jnp.bfloat16),
    "dense<[1.5, -0.0]> : tensor<2xf8E5M2>": np.array([1.5, -0.0]).astype(jnp.float8_e5m2),
    "dense<18446744073709551615> : tensor<ui64>": np.asarray(2**64 - 1, np.uint64),
    "dense<-1> : tensor<i64>": np.asarray(-1),
    'dense<"0x05"> : tensor<3xi1>': np.array([True, True, True]),
    'dense<"0x0503"> : tensor<16xi1>': np.array([1, 0, 1] + [0] * 5 + [1, 1] + [0] * 6, bool),
}


@pytest.mark.parametrize("text", CONSTANTS)
def test_constants(text):
    kind = text.partition(" : ")[2]
    body = f"%0 = stablehlo.constant {text}\nreturn %0 : {kind}"
    with weft.enable_x64(True):
        (got,) = export.from_stablehlo(module(body, gives=kind))(X)
    expected = CONSTANTS[text]
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    assert np.asarray(got).tobytes() == np.asarray(expected).tobytes()


LOOP = module(FORMS["while"][0] + "\nreturn %0 : tensor<6xf32>", gives="tensor<6xf32>")


def test_functions_are_transformed():
    f = export.from_stablehlo(LOOP)
    g = weft.grad(lambda x: (f(x)[0] ** 2).sum())
    np.testing.assert_allclose(g(X), 128 * X, rtol=1e-6)
    np.testing.assert_allclose(weft.jit(g)(X), 128 * X, rtol=1e-6)
    both = np.stack([X, X + 1])
    np.testing.assert_allclose(weft.vmap(lambda x: f(x)[0])(both), (8 * both).reshape(2, 6))


def test_wide_types_without_the_setting():
    kind = "tensor<2xf64>"
    text = module(f"%0 = stablehlo.add %x, %x : {kind}\nreturn %0 : {kind}", f"%x: {kind}", kind)
    (got,) = export.from_stablehlo(text)(np.array([1.0, 1e-300]))
    assert got.dtype == np.float64
    np.testing.assert_array_equal(got, [2.0, 2e-300])


def test_sizes_of_a_call():
    body = (
        "%n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x3xf32>) -> tensor<i32>\n"
        "%two = stablehlo.constant dense<2> : tensor<i32>\n"
        "%m = stablehlo.multiply %n, %two : tensor<i32>\n"
        "%s = stablehlo.reshape %m : (tensor<i32>) -> tensor<1xi32>\n"
        "%0 = stablehlo.dynamic_iota %s, dim = 0 : (tensor<1xi32>) -> tensor<?xi32>\n"
        "return %0 : tensor<?xi32>"
    )
    f = export.from_stablehlo(module(body, "%x: tensor<?x3xf32>", "tensor<?xi32>"))
    assert len(f.in_avals[0].shape) == 2 and f.in_avals[0].shape[1] == 3
    for n in (1, 4):
        np.testing.assert_array_equal(f(np.ones((n, 3), F))[0], np.arange(2 * n))


BAD = {
    "unknown operation": ("%0 = stablehlo.frobnicate %x : tensor<2x3xf32>", "frobnicate", 3),
    "other dialect": ("%0 = tosa.abs %x : (tensor<2x3xf32>) -> tensor<2x3xf32>", "legalize", 3),
    "no value": ("\n%0 = stablehlo.abs %y : tensor<2x3xf32>", "%y is used before", 4),
    "wrong type": ("%0 = stablehlo.abs %x : tensor<2x4xf32>", "result 0 is tensor<2x3xf32>", 3),
    "element type": ("%0 = stablehlo.abs %x : tensor<2x4xq7>", "'q7' is no element type", 3),
    "half": ("%0 = stablehlo.abs %x : tensor<2x", "is written tensor<2x3xf32>", 3),
    "shapes": (("%0 = stablehlo.dot %x, %x : (tensor<2x3xf32>, tensor<2x3xf32>) ->"
               " tensor<2x3xf32>"), "stablehlo.dot:", 3),
    "constant": ("%0 = stablehlo.constant dense<[1, 2]> : tensor<2x3xf32>", "nested 1 deep", 3),
    "call": ("%0 = call @g(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>", "no function @g", 3),
    "recursion": ("%0 = call @main(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>", "calls itself", 3),
    "custom call": ("%0 = stablehlo.custom_call @mine(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>",
                    "no custom call 'mine'", 3),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_errors_name_the_line(name):
    text, words, line = BAD[name]
    whole = module(f"{text}\nreturn %0 : tensor<2x3xf32>")
    with pytest.raises(export.StableHLOError, match=words) as caught:
        export.from_stablehlo(whole)
    assert caught.value.line == line and f"line {line}, column" in str(caught.value)


def test_errors_of_calls_and_texts():
    f = export.from_stablehlo(LOOP)
    with pytest.raises(export.StableHLOError, match=r"takes tensor<2x3xf32> as argument 0, got"):
        f(np.ones((2, 4), F))
    with pytest.raises(export.StableHLOError, match="takes 1 arguments, got 2"):
        f(X, X)
    with pytest.raises(export.StableHLOError, match="MLIR bytecode is damaged: the bytes end too"):
        export.from_stablehlo(b"ML\xefR\x0d")
    with pytest.raises(
        export.StableHLOError, match="bytecode of version 9; weft reads versions up"
    ):
        export.from_stablehlo(b"ML\xefR\x13\x00")
    with pytest.raises(export.StableHLOError, match="no function"):
        export.from_stablehlo("module {\n}")
    with pytest.raises(export.StableHLOError, match=r"line 2, column 1: expected a function"):
        export.from_stablehlo("module {\n#loc2 here\n}")


def test_files_and_functions(tmp_path):
    path = tmp_path / "module.mlir"
    path.write_text(LOOP)
    np.testing.assert_array_equal(export.from_stablehlo(path)(X)[0], (8 * X).reshape(6))
    np.testing.assert_array_equal(export.from_stablehlo(str(path))(X)[0], (8 * X).reshape(6))
    with pytest.raises(export.StableHLOError, match="function=: @main"):
        export.from_stablehlo(LOOP, function="other")
