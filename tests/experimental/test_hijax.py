"""Types and operations that libraries define; the values are JAX's for the same programs."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import weft
import weft.extend.core
import weft.numpy as jnp
from weft.experimental import hijax
from weft.experimental.hijax import HiPrimitive, HiType, MutableHiType, ShapedArray, VJPHiPrimitive

F32 = np.dtype(np.float32)


@dataclass
class Quantized:
    """Numbers in eight bits, with a scale."""

    codes: Any
    scale: Any


@dataclass(frozen=True)
class QuantizedType(HiType):
    shape: tuple[int, ...]

    def lo_ty(self):
        return [ShapedArray(self.shape, np.dtype(np.int8)), ShapedArray((), F32)]

    def lower_val(self, value):
        return [value.codes, value.scale]

    def raise_val(self, codes, scale):
        return Quantized(codes, scale)

    def to_tangent_aval(self):
        return ShapedArray(self.shape, F32)

    doubled = hijax.aval_method(lambda self, factor: 2 * factor * decode(self))
    rank = hijax.aval_property(lambda self: len(self.aval.shape))

    def _getitem(self, tracer, index):
        return decode(tracer)[index]


hijax.register_hitype(Quantized, lambda q: QuantizedType(tuple(q.codes.shape)))


class Encode(HiPrimitive):
    def abstract_eval(self, x):
        return QuantizedType(x.shape), set()

    def to_lojax(self, x):
        scale = jnp.max(jnp.abs(x)) / 127
        return Quantized(jnp.round(x / scale).astype(jnp.int8), scale)

    def jvp(self, primals, tangents):
        return encode(*primals), tangents[0]


class Decode(HiPrimitive):
    def abstract_eval(self, q):
        return ShapedArray(q.shape, F32), set()

    def to_lojax(self, q):
        return q.codes.astype(F32) * q.scale

    def jvp(self, primals, tangents):
        return decode(*primals), tangents[0]


encode_p, decode_p = Encode("encode"), Decode("decode")


def encode(x):
    return encode_p.bind(x)


def decode(q):
    return decode_p.bind(q)


X = np.array([1.0, -2.0, 0.5], np.float32)
ROUNDED = np.array([64, -127, 32], np.float32) * np.float32(2 / 127)


def squared(x):
    return (decode(encode(x)) ** 2).sum()


def same(got, wanted):
    np.testing.assert_allclose(got, wanted, rtol=1e-6)


def test_values_pass_through_compiled_functions():
    x = jnp.array(X)
    assert weft.typeof(encode(x)) == QuantizedType((3,))
    same(decode(encode(x)), ROUNDED)
    same(weft.jit(lambda q: decode(q) * 2)(encode(x)), 2 * ROUNDED)
    q = weft.jit(encode)(x)
    assert type(q) is Quantized and q.codes.tolist() == [64, -127, 32]
    traces = []

    @weft.jit
    def counted(q, n):
        traces.append(n)
        return decode(q) * n

    for _ in range(4):
        same(counted(q, 3.0), 3 * ROUNDED)
    assert len(traces) == 1
    static = weft.jit(lambda q, n: decode(q) * n, static_argnums=1)
    same(static(q, 2), 2 * ROUNDED)


@pytest.mark.parametrize(
    "of",
    [weft.grad(squared), weft.jit(weft.grad(squared)), weft.grad(weft.jit(squared)),
     weft.grad(weft.jit(weft.jit(squared)))],
    ids=["grad", "jit of grad", "grad of jit", "nested"],
)  # fmt: skip
def test_operations_keep_their_derivatives(of):
    same(of(jnp.array(X)), 2 * ROUNDED)
    same(weft.jit(squared)(jnp.array(X)), (ROUNDED**2).sum())


def test_values_are_differentiated_by_the_tangents_of_their_type():
    q = encode(jnp.array(X))
    f = lambda q: (decode(q) ** 2).sum()
    same(weft.grad(f)(q), 2 * ROUNDED)
    same(weft.grad(weft.jit(f))(q), 2 * ROUNDED)
    _, tangent = weft.jvp(lambda q: decode(q) * 2, (q,), (jnp.ones(3),))
    same(tangent, [2, 2, 2])
    _, pull = weft.vjp(lambda q: decode(q) * 2, q)
    same(pull(jnp.ones(3))[0], [2, 2, 2])
    with pytest.raises(TypeError, match="tangent of type float32"):
        weft.jvp(decode, (q,), (jnp.ones(4),))


def test_traced_values_have_what_their_type_declares():
    q = encode(jnp.array(X))
    same(weft.grad(lambda q: q.doubled(2.0).sum() * q.rank)(q), [4, 4, 4])
    same(weft.grad(lambda q: q[1])(q), [0, 1, 0])
    with pytest.raises(AttributeError, match="no_such"):
        weft.grad(lambda q: q.no_such)(q)


def test_values_are_carried_by_loops_and_branches():
    q = encode(jnp.array(X))
    step = lambda q, _: (encode(decode(q) * 0.5), decode(q).sum())
    last, sums = weft.lax.scan(step, q, None, length=3)
    same(decode(last), ROUNDED / 8)
    same(sums, ROUNDED.sum() / np.array([1, 2, 4]))
    branch = weft.lax.cond(False, lambda q: q, lambda q: encode(-decode(q)), q)
    same(decode(branch), -ROUNDED)
    more = weft.lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1]), (0, q))
    same(decode(more[1]), ROUNDED)
    same(weft.vmap(lambda q, y: decode(q) * y, (None, 0))(q, jnp.arange(2.0))[1], ROUNDED)


def test_what_cannot_be_done_is_refused():
    q = encode(jnp.array(X))
    with pytest.raises(NotImplementedError, match="batching rule for encode"):
        weft.vmap(lambda x: decode(encode(x)))(jnp.array(X)[:, None])
    loop = lambda x: weft.lax.scan(lambda c, _: (decode(encode(c)), None), x, None, length=2)[0]
    with pytest.raises(NotImplementedError, match="inside a loop or a branch"):
        weft.grad(lambda x: loop(x).sum())(jnp.array(X))
    with pytest.raises(TypeError, match="being differentiated"):
        weft.grad(lambda q: decode(weft.lax.cond(True, lambda q: q, lambda q: q, q)).sum())(q)


class Box:
    """A place for an array."""

    def __init__(self, value):
        self.value = value

    def cur_qdd(self):
        return weft.typeof(self.value)


class BoxType(MutableHiType):
    __hash__ = lambda self: hash(BoxType)
    __eq__ = lambda self, other: isinstance(other, BoxType)

    def lo_ty_qdd(self, state):
        return [state]

    def new_from_loval(self, state, value):
        return Box(value)

    def read_loval(self, state, box):
        return [box.value]

    def update_from_loval(self, state, box, value):
        box.value = value


hijax.register_hitype(Box, lambda box: BoxType())


def test_mutable_values_change_in_compiled_functions():
    @weft.jit
    def add(box, x):
        box.value = box.value + x
        return box.value.sum()

    box = Box(jnp.ones(3))
    same(add(box, 2.0), 9)
    same(add(box, jnp.arange(3.0)), 12)
    same(box.value, [3, 4, 5])
    made = weft.jit(lambda x: Box(x * 2))(1.0)
    assert type(made) is Box and float(made.value) == 2
    assert weft.jit(lambda box: box)(made) is made

    @weft.jit
    def grow(box):
        box.value = jnp.concatenate([box.value, box.value])

    grow(box)
    grow(box)
    assert box.value.shape == (12,)


def test_mutable_values_are_refused_where_changes_would_be_lost():
    box = Box(jnp.ones(3))
    with pytest.raises(ValueError, match="passed twice"):
        weft.jit(lambda a, b: None)(box, box)
    with pytest.raises(TypeError, match="can only be an argument of jit"):
        weft.lax.cond(True, lambda b: 1, lambda b: 2, box)


class Sine(VJPHiPrimitive):
    """The sine, with a derivative that is wrong in a way that can be seen."""

    def __init__(self, aval, factor):
        self.in_avals, self.out_aval, self.params = (aval,), aval, {"factor": factor}
        super().__init__()

    def expand(self, x):
        return jnp.sin(x) * self.factor

    def vjp_fwd(self, nonzero, x):
        assert nonzero == (True,)
        return self(x), x

    def vjp_bwd_retval(self, x, cotangent):
        return (cotangent * 100 * jnp.cos(x),)

    def batch_dim_rule(self, axis, dims):
        return dims[0]


def sine(x, factor=1.0):
    return Sine(weft.typeof(x), factor)(x)


def test_operations_with_a_reverse_rule():
    x = jnp.array(X)
    total = lambda x: sine(x).sum()
    rows = lambda x: weft.lax.scan(lambda c, _: (sine(c), None), x, None, length=2)[0].sum()
    same(sine(x, 2.0), 2 * np.sin(X))
    same(weft.jit(sine)(x), np.sin(X))
    wanted = 100 * np.cos(X)
    for of in (weft.grad(total), weft.jit(weft.grad(total)), weft.grad(weft.jit(total))):
        same(of(x), wanted)
    same(weft.vmap(sine)(x), np.sin(X))
    same(weft.vmap(weft.grad(sine))(x), wanted)
    same(weft.grad(lambda x: weft.vmap(sine)(x).sum())(x), wanted)
    square = jnp.ones((2, 3)) * x
    twice = weft.vmap(weft.vmap(sine), 1, 1)
    same(weft.grad(lambda x: twice(x).sum())(square), np.stack([wanted, wanted]))
    same(weft.grad(rows)(x), wanted * 100 * np.cos(np.sin(X)))
    with pytest.raises(NotImplementedError, match="needs a method jvp"):
        weft.jvp(sine, (x,), (x,))
    text = str(weft.make_jaxpr(sine)(x))
    assert "call_hi_primitive[_prim=Sine[{'factor': 1.0}]] a" in text


class Product(VJPHiPrimitive):
    """A product of trees, with all rules."""

    def __init__(self, aval):
        self.in_avals, self.out_aval, self.params = (aval, {"y": aval}), {"z": aval, "w": aval}, {}
        super().__init__()

    def check(self, x, other):
        if x != other["y"]:
            raise TypeError("operands of different types")

    def expand(self, x, other):
        return {"z": x * other["y"], "w": x}

    def vjp_fwd(self, nonzero, x, other):
        return self(x, other), (x, other["y"])

    def vjp_bwd(self, residuals, cotangent, x_sum, other_sums):
        x, y = residuals
        x_sum.accum(cotangent["z"] * y)
        other_sums["y"].accum(cotangent["z"] * x)
        x_sum.accum(cotangent["w"])

    def jvp(self, primals, tangents):
        (x, other), (dx, other_dot) = primals, tangents
        dx, dy = map(hijax.instantiate_zeros, (dx, other_dot["y"]))
        return self(x, other), {"z": dx * other["y"] + x * dy, "w": dx}

    def batch(self, axis, args, dims):
        x, other = args
        assert axis.size == 3
        return {"z": x * other["y"], "w": x}, {"z": dims[0], "w": dims[0]}


def product(x, y):
    return Product(weft.typeof(x))(x, {"y": y})


def test_operations_with_all_rules():
    x = jnp.array(X)
    f = lambda x, y: product(x, y)["z"].sum() + product(x, y)["w"].sum()
    got = weft.grad(f, (0, 1))(x, 2 * x)
    same(got[0], 2 * X + 1)
    same(got[1], X)
    _, tangents = weft.jvp(lambda x: product(x, 2 * x), (x,), (x,))
    same(tangents["z"], 4 * X * X)
    same(weft.vmap(product)(x, x)["z"], X * X)
    same(weft.grad(lambda x: weft.vmap(product)(x, x)["z"].sum())(x), 2 * X)


def test_operations_say_what_they_lack():
    aval = weft.typeof(jnp.array(X))

    class Nothing(VJPHiPrimitive):
        def __init__(self):
            self.in_avals = (aval,)
            super().__init__()

    with pytest.raises(AttributeError, match=r"must set self\.out_aval"):
        Nothing()
    with pytest.raises(TypeError, match="was made for arguments of structure"):
        Sine(aval, 1.0)(X, X)
    with pytest.raises(TypeError, match="made for an operand float32"):
        weft.jit(Sine(aval, 1.0))(jnp.ones(4))
    assert Sine(aval, 1.0) == Sine(aval, 1.0) != Sine(aval, 2.0)
    assert hash(Sine(aval, 1.0)) == hash(Sine(aval, 1.0))
    with pytest.raises(TypeError, match="needs a method lo_ty"):
        HiType().lo_ty()


def test_effects_are_allowed_by_their_kind():
    class Writing(weft.extend.core.Effect):
        pass

    assert not hijax.control_flow_allowed_effects.contains(Writing())
    hijax.control_flow_allowed_effects.add_type(Writing)
    assert hijax.control_flow_allowed_effects.contains(Writing())
