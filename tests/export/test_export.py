"""Exported functions: written, read and called again; what cannot be written says so."""

import json
import struct
from typing import NamedTuple

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from tests.samples import all_samples
from weft import export, lax, random
from weft.base import knobs
from weft.export.encoding import MARK


def again(fun, *args, order=0):
    made = export.export(weft.jit(fun))(*args)
    return export.deserialize(made.serialize(vjp_order=order))


def one_of_each():
    seen, chosen = set(), []
    for sample in all_samples():
        if sample.prim not in seen and sample.axis is None:
            seen.add(sample.prim)
            chosen.append(sample)
    return chosen


# Primitives that act on the outside, or that carry functions of the user's own where they cannot
# be replaced by a program.
UNWRITABLE = {
    "after_all", "check", "create_token", "dce_sink", "debug_callback", "debug_print",
    "inspect_sharding", "io_callback", "pure_callback",
}  # fmt: skip


def test_one_sample_of_every_primitive_comes_back():
    rng = np.random.default_rng(0)
    refused = set()
    with knobs.scope(backend="interpret"):
        for sample in one_of_each():
            fun, args = sample.function(sample.dtypes[0]), sample.operands(sample.dtypes[0], rng)
            try:
                made = export.export(weft.jit(fun))(*args)
                blob = made.serialize()
            except ValueError:
                refused.add(sample.prim)
                continue
            expected = weft.tree.leaves(made.call(*args))
            found = weft.tree.leaves(export.deserialize(blob).call(*args))
            for a, b in zip(expected, found, strict=True):
                assert (a.dtype, a.shape, a.weak_type) == (b.dtype, b.shape, b.weak_type)
                if not weft.dtypes.issubdtype(a.dtype, weft.dtypes.extended):
                    np.testing.assert_array_equal(a, b, err_msg=sample.name)
    assert refused == UNWRITABLE


def test_trees_constants_and_control_flow():
    weight = jnp.arange(4.0)

    def fun(params, n, *, scale):
        def body(carry, x):
            return carry * 0.5 + x, lax.cond(x > 1, jnp.sin, jnp.cos, x)

        last, rows = lax.scan(body, params["w"][0], params["w"] * weight)
        return [last * scale, {"rows": rows, "n": n + 1}], None

    args = {"w": jnp.ones(4)}, 3
    made = export.export(weft.jit(fun))(*args, scale=2.0)
    found = export.deserialize(made.serialize()).call(*args, scale=2.0)
    expected = fun(*args, scale=2.0)
    assert weft.tree.structure(found) == weft.tree.structure(expected)
    for a, b in zip(weft.tree.leaves(found), weft.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_keys_and_static_arguments():
    draw = weft.jit(lambda key, shape: random.normal(key, shape), static_argnums=1)
    made = export.export(draw)(random.key(0), (3,))
    found = export.deserialize(made.serialize()).call(random.key(5))
    np.testing.assert_array_equal(found, random.normal(random.key(5), (3,)))


def test_calls_nest_in_other_functions():
    f = again(lambda x: jnp.sin(x) * 2, jnp.ones(3))
    x = jnp.arange(3.0)
    np.testing.assert_allclose(weft.jit(lambda x: f.call(x) + 1)(x), np.sin(x) * 2 + 1, rtol=1e-6)
    xs = jnp.stack([x, x + 1])
    np.testing.assert_allclose(weft.vmap(f.call)(xs), np.sin(xs) * 2, rtol=1e-6)


@weft.custom_jvp
def half_sloped(x):
    return x**2


half_sloped.defjvp(lambda primals, tangents: (primals[0] ** 2, primals[0] * tangents[0]))


def test_derivatives_are_those_of_the_function():
    fun = lambda x, n: half_sloped(x).sum() * n
    x = jnp.arange(3.0)
    made = export.export(weft.jit(fun))(x, 2)
    expected = weft.grad(fun)(x, 2)
    np.testing.assert_allclose(weft.grad(made.call)(x, 2), expected)
    with_vjp = export.deserialize(made.serialize(vjp_order=1))
    assert with_vjp.has_vjp()
    np.testing.assert_allclose(weft.grad(with_vjp.call)(x, 2), expected)
    without = export.deserialize(made.serialize())
    assert not without.has_vjp()
    with pytest.raises(ValueError, match="vjp_order"):
        weft.grad(without.call)(x, 2)


class Pair(NamedTuple):
    a: object
    b: object


class Box:
    def __init__(self, content, label):
        self.content, self.label = content, label


weft.tree_util.register_pytree_node(
    Box, lambda box: ((box.content,), box.label), lambda label, c: Box(c[0], label)
)


def test_registered_classes():
    fun = weft.jit(lambda p: Pair(p.b, p.a))
    with pytest.raises(ValueError, match="register_namedtuple_serialization"):
        export.export(fun)(Pair(1.0, 2.0)).serialize()
    export.register_namedtuple_serialization(Pair, serialized_name="tests.Pair")
    found = export.deserialize(export.export(fun)(Pair(1.0, 2.0)).serialize()).call(Pair(3.0, 4.0))
    assert type(found) is Pair and found == (4.0, 3.0)
    with pytest.raises(ValueError, match="already"):
        export.register_namedtuple_serialization(Pair, serialized_name="tests.Other")
    export.register_pytree_node_serialization(
        Box,
        serialized_name="tests.Box",
        serialize_auxdata=str.encode,
        deserialize_auxdata=bytes.decode,
        from_children=lambda label, c: Box(c[0], label),
    )
    out = again(lambda box: Box(box.content + 1, "out"), Box(1.0, "in")).call(Box(2.0, "in"))
    assert (float(out.content), out.label) == (3.0, "out")


def test_what_does_not_fit_is_refused():
    f = again(lambda x: x, jnp.ones(3))
    with pytest.raises(ValueError, match=r"float32\[3\], got float32\[4\]"):
        f.call(jnp.ones(4))
    with pytest.raises(ValueError, match="arguments like"):
        f.call(jnp.ones(3), 1.0)
    with pytest.raises(ValueError, match="result of jit"):
        export.export(lambda x: x)
    with pytest.raises(ValueError, match="platforms are"):
        export.export(weft.jit(lambda x: x), platforms=["abacus"])
    far = export.export(weft.jit(lambda x: x), platforms=["cuda"])(1.0)
    with pytest.raises(ValueError, match="exported for cuda"):
        far.call(1.0)
    anyway = export.export(
        weft.jit(lambda x: x),
        platforms=["cuda"],
        disabled_checks=[export.DisabledSafetyCheck.platform()],
    )(1.0)
    assert export.deserialize(anyway.serialize()).call(2.0) == 2.0
    printing = weft.jit(lambda x: weft.debug.print("{}", x))
    with pytest.raises(ValueError, match="side effects"):
        export.export(printing)(1.0).serialize()


def test_bytes_that_are_damaged_or_hostile_are_refused():
    blob = bytes(export.export(weft.jit(lambda x: x + jnp.arange(3.0)))(1.0).serialize())
    for bad in (b"", b"nonsense", blob[: len(MARK) + 4], blob[:-1], blob + b"x"):
        with pytest.raises(ValueError, match="exported function"):
            export.deserialize(bad)
    start = len(MARK) + 8
    (size,) = struct.unpack("<Q", blob[len(MARK) : start])

    def changed(change):
        held = json.loads(blob[start : start + size])
        change(held)
        text = json.dumps(held).encode()
        return MARK + struct.pack("<Q", len(text)) + text + blob[start + size :]

    def call_system(held):
        held["value"]["v"][1][1] = {"k": "record", "c": "os:system", "v": ["true"]}

    def call_weft(held):
        held["value"]["v"][1][1] = {"k": "record", "c": "weft.api.jit:jit", "v": []}

    def unknown_kind(held):
        held["value"]["v"][1][1] = {"k": "pickle", "v": ""}

    for change in (call_system, call_weft, unknown_kind):
        with pytest.raises(ValueError, match="exported function"):
            export.deserialize(changed(change))
