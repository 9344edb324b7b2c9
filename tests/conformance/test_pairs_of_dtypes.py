"""Dtypes that are held as one dtype and have tangents of another."""

import pickle

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import dtypes, export, lax
from weft.experimental import primal_tangent_dtype

SMALL = primal_tangent_dtype("float32", "bfloat16")
WHOLE = primal_tangent_dtype(np.int8, jnp.bfloat16)
COMPLEX = primal_tangent_dtype("complex64", "float32")
NARROW = primal_tangent_dtype("int4", "float16")
VALUES = {
    SMALL: np.array([0.5, -1.5, 3.0], "float32"),
    WHOLE: np.array([-3, 0, 7], "int8"),
    COMPLEX: np.array([1 + 2j, 0, -1j], "complex64"),
    NARROW: np.array([-8, 3, 7], "int4"),
}
to = lax.convert_element_type
WRAPS = pytest.mark.parametrize("wrap", [lambda f: f, weft.jit], ids=["eager", "jit"])


def test_names_and_equality():
    assert repr(SMALL) == str(SMALL) == SMALL.name == "PrimalTangentDType{f32/bf16}"
    assert repr(primal_tangent_dtype("int8", "float32", name="mine")) == "mine"
    assert primal_tangent_dtype(float, int).name == "PrimalTangentDType{f32/i32}"
    same = primal_tangent_dtype("float32", "bfloat16")
    assert SMALL == same and hash(SMALL) == hash(same) and pickle.loads(pickle.dumps(SMALL)) == same
    assert primal_tangent_dtype("float32", "bfloat16", "mine") != SMALL
    assert (SMALL.primal_dtype, SMALL.tangent_dtype) == (np.float32, dtypes.bfloat16)
    assert weft.dtypes.issubdtype(SMALL, weft.dtypes.extended)
    assert not weft.dtypes.issubdtype(SMALL, np.floating)
    assert not weft.dtypes.issubdtype(SMALL, weft.dtypes.prng_key)
    with pytest.raises(AttributeError):
        SMALL.name = "other"


@pytest.mark.parametrize(
    ("error", "args"),
    [
        (TypeError, ("no_such", "float32")),
        (ValueError, (None, None)),
        (TypeError, (SMALL, "float32")),
        (TypeError, ("float32", weft.random.key(0).dtype)),
    ],
)
def test_what_no_pair_is_made_of(error, args):
    with pytest.raises(error):
        primal_tangent_dtype(*args)


@WRAPS
@pytest.mark.parametrize("dtype", VALUES, ids=str)
def test_elements_are_moved_and_come_back(dtype, wrap):
    x, held = VALUES[dtype], dtype.primal_dtype
    for move in (
        lambda x: x,
        lambda x: x[::-1],
        lambda x: x[1],
        lambda x: x[np.array([0, 2, 0])],
        lambda x: jnp.concatenate([x, x[:1]]),
        lambda x: jnp.broadcast_to(x, (2, 3)),
        lambda x: jnp.where(np.array([True, False, True]), x, x[::-1]),
        lambda x: x.at[0].set(x[2]),
        lambda x: lax.scan(lambda c, y: (c, y), 0.0, x)[1],
        lambda x: lax.fori_loop(0, 3, lambda _, x: x[::-1], x),
        lambda x: weft.vmap(lambda x: x)(x),
    ):
        found = wrap(lambda x, move=move: to(move(to(x, dtype)), held))(x)
        assert found.dtype == held
        expected = wrap(move)(jnp.asarray(x))
        np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))
    assert wrap(lambda x: to(x, dtype) == to(x, dtype))(x).all()
    assert wrap(lambda x: x.astype(dtype).astype(held))(jnp.asarray(x)).dtype == held
    assert jnp.asarray(x, dtype).dtype == dtype


def test_programs_with_them():
    closed = weft.make_jaxpr(lambda x: to(to(x, SMALL), "float32"))(1.0)
    assert [(eqn.primitive.name, eqn.params) for eqn in closed.eqns] == [
        ("to_edtype", {"edtype": SMALL}),
        ("from_edtype", {"dtype": np.dtype("float32")}),
    ]
    struct = weft.eval_shape(lambda x: to(x, SMALL), weft.ShapeDtypeStruct((2,), "float32"))
    assert str(struct) == "ShapeDtypeStruct(shape=(2,), dtype=PrimalTangentDType{f32/bf16})"
    x = to(jnp.arange(2.0), SMALL)
    assert weft.typeof(x).str_short() == "PrimalTangentDType{f32/bf16}[2]"
    assert to(x, SMALL) is x
    text = weft.jit(lambda x: to(to(x, SMALL), "float32")).lower(1.0).as_text()
    assert "return %arg0 : tensor<f32>" in text
    assert pickle.loads(pickle.dumps(x)).dtype == SMALL


def test_programs_with_them_are_exported():
    held = to(jnp.array([1.0, 2.0]), SMALL)
    f = weft.jit(lambda x: to(jnp.concatenate([to(x, SMALL), held]), "float32"))
    made = export.export(f)(jnp.ones(2))
    np.testing.assert_array_equal(
        export.deserialize(made.serialize()).call(jnp.array([3.0, 4.0])), [3, 4, 1, 2]
    )


@pytest.mark.parametrize(
    ("have", "want"),
    [
        ("bfloat16", SMALL),
        ("int8", SMALL),
        (SMALL, "bfloat16"),
        (SMALL, "int8"),
        (SMALL, WHOLE),
        (SMALL, primal_tangent_dtype("float32", "bfloat16", "other")),
        (weft.random.key(0).dtype, SMALL),
    ],
    ids=str,
)
def test_conversions_that_are_refused(have, want):
    with pytest.raises(ValueError, match="cannot convert"):
        weft.eval_shape(lambda x: to(x, want), weft.ShapeDtypeStruct((2,), have))


@pytest.mark.parametrize(
    "fun",
    [
        lambda x: x + x,
        lambda x: -x,
        lambda x: x * 2.0,
        jnp.sin,
        jnp.sum,
        jnp.sort,
        lambda x: x @ x,
        lambda x: x < x,
    ],
)
@pytest.mark.parametrize("x", [to(jnp.arange(3.0), SMALL), weft.random.split(weft.random.key(0))])
@WRAPS
def test_there_is_no_arithmetic(fun, x, wrap):
    with pytest.raises(TypeError):
        wrap(fun)(x)


@WRAPS
def test_tangents_are_of_the_other_dtype(wrap):
    x, t = jnp.array([0.1, 1.0]), jnp.array([1.3, 2.0])
    rounded = np.array([1.296875, 2.0])  # in bfloat16
    there = wrap(lambda x, t: weft.jvp(lambda x: to(x, SMALL), (x,), (t,))[1])(x, t)
    assert there.dtype == dtypes.bfloat16
    np.testing.assert_array_equal(there.astype("float32"), rounded)
    out, found = wrap(lambda x, t: weft.jvp(lambda x: to(to(x, SMALL), "float32"), (x,), (t,)))(
        x, t
    )
    np.testing.assert_array_equal(out, x)
    np.testing.assert_array_equal(found, rounded)
    assert weft.typeof(to(x, SMALL)).to_tangent_aval().dtype == dtypes.bfloat16


@WRAPS
@pytest.mark.parametrize(
    "fun",
    [
        lambda x: to(x, "float32") ** 2,
        lambda x: to(x[::-1], "float32")[::-1] ** 2,
        weft.jit(lambda x: to(x, "float32") ** 2),
        weft.checkpoint(lambda x: to(x, "float32") ** 2),
        weft.vmap(lambda x: to(x, "float32") ** 2),
        lambda x: lax.scan(lambda c, x: (c, to(x, "float32") ** 2), None, x)[1],
    ],
    ids=["plain", "reversed", "jit", "checkpoint", "vmap", "scan"],
)
def test_cotangents_are_of_the_other_dtype(fun, wrap):
    x = jnp.array([0.5, 1.5, 3.0])
    pull = wrap(lambda x, ct: weft.vjp(fun, to(x, SMALL))[1](ct))
    (found,) = pull(x, jnp.array([1.0, 2.0, 0.25]))
    assert found.dtype == dtypes.bfloat16
    np.testing.assert_array_equal(found.astype("float32"), [1.0, 6.0, 1.5])


@WRAPS
def test_rules_give_gradients_of_what_has_none(wrap):
    f = weft.custom_vjp(lambda x: 2 * to(x, "int8").astype("float32"))
    f.defvjp(lambda x: (f(x), None), lambda _, ct: (5 * ct.astype("bfloat16"),))
    pull = wrap(lambda x, ct: weft.vjp(f, to(x, WHOLE))[1](ct))
    (found,) = pull(VALUES[WHOLE], jnp.arange(3.0))
    assert found.dtype == dtypes.bfloat16
    np.testing.assert_array_equal(found.astype("float32"), [0, 5, 10])
    (zero,) = wrap(lambda x: weft.vjp(lambda x: to(x, "int8"), to(x, WHOLE))[1](
        np.zeros(3, dtypes.float0)
    ))(VALUES[WHOLE])  # fmt: skip
    assert zero.dtype == dtypes.bfloat16 and not zero.any()


@WRAPS
def test_gradients_through_them_are_rounded(wrap):
    grad = wrap(weft.grad(lambda x: (to(to(x, SMALL), "float32") ** 2).sum()))
    np.testing.assert_array_equal(grad(jnp.array([0.1, 1.1])), np.float32([0.2001953125, 2.203125]))
    with pytest.raises(TypeError, match="real or complex"):
        weft.grad(lambda x: to(x, "float32"))(to(1.0, SMALL))


def test_numpy_is_told_how_to_read_them():
    x = lax.convert_element_type(jnp.ones(2), primal_tangent_dtype("float32", "bfloat16"))
    with pytest.raises(TypeError, match=r'convert_element_type\(x, "float32"\)'):
        np.asarray(x)
    with pytest.raises(TypeError, match=r"weft\.random\.key_data\(x\)"):
        np.asarray(weft.random.key(0))
