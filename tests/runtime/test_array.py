"""The concrete array: conversion, export, ownership, immutability."""

import copy
import gc
import pickle
import weakref

import ml_dtypes
import numpy as np
import pytest

import weft
import weft.numpy as jnp


def test_numpy_view_is_read_only_and_shares_memory():
    x = jnp.arange(6.0)
    view = np.asarray(x)
    assert not view.flags.writeable
    assert view.ctypes.data == x.unsafe_buffer_pointer()


def test_numpy_input_is_copied():
    source = np.arange(3, dtype=np.float32)
    x = jnp.asarray(source)
    source[0] = 9
    assert x[0] == 0


def test_a_function_never_returns_the_callers_memory():
    source = np.arange(3, dtype=np.float32)
    for function in (weft.jit(lambda x: x), lambda x: weft.lax.reshape(x, (3, 1))):
        out = function(source)
        source[0] += 1
        assert np.asarray(out).ravel()[0] == source[0] - 1


def test_item_assignment_says_what_to_write():
    with pytest.raises(TypeError, match=r"x\.at\[index\]\.set"):
        jnp.zeros(3)[0] = 1.0


def test_buffer_protocol():
    x = jnp.arange(6, dtype=jnp.int32).reshape(2, 3)
    view = memoryview(x)
    assert (view.shape, view.readonly) == ((2, 3), True)
    assert bytes(x) == np.arange(6, dtype=np.int32).tobytes()
    del x
    gc.collect()
    assert view[1, 2] == 5


def test_dlpack_both_ways():
    x = jnp.arange(4.0)
    assert np.array_equal(np.from_dlpack(x), np.arange(4, dtype=np.float32))
    y = jnp.from_dlpack(np.arange(4, dtype=np.int32))
    assert isinstance(y, weft.Array) and y.dtype == jnp.int32


def test_copies_and_pickles_keep_value_and_weak_type():
    for x in (jnp.arange(3.0), jnp.asarray(2.0), jnp.ones(2, jnp.bfloat16)):
        for y in (pickle.loads(pickle.dumps(x)), copy.copy(x), copy.deepcopy(x)):
            assert y.aval is x.aval
            assert np.array_equal(np.asarray(x), np.asarray(y))


def test_weak_references_and_lifetime():
    x = jnp.ones(3)
    reference = weakref.ref(x)
    del x
    gc.collect()
    assert reference() is None


def test_deleted_arrays_say_so():
    x = jnp.ones(3)
    x.delete()
    assert x.is_deleted()
    with pytest.raises(RuntimeError, match="deleted"):
        x + 1


def test_donated_arguments_are_deleted():
    f = weft.jit(lambda x: x + 1, donate_argnums=0)
    x = jnp.ones(3)
    f(x)
    assert x.is_deleted()


def test_an_array_donated_and_passed_again_is_refused():
    f = weft.jit(lambda x, y: x + y, donate_argnums=0)
    x = jnp.ones(3)
    with pytest.raises(weft.errors.JaxRuntimeError, match="as x and as y"):
        f(x, x)
    assert not x.is_deleted()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (jnp.array([1.0, 2.0]), "Array([1., 2.], dtype=float32)"),
        (jnp.array(1), "Array(1, dtype=int32, weak_type=True)"),
        (jnp.zeros((0, 3)), "Array([], shape=(0, 3), dtype=float32)"),
        (jnp.array(True), "Array(True, dtype=bool)"),
        (jnp.array([[1, 2], [3, 4]]), "Array([[1, 2],\n       [3, 4]], dtype=int32)"),
    ],
)
def test_repr(value, text):
    assert repr(value) == text


def test_scalars_convert():
    x = jnp.asarray(3)
    assert (int(x), float(x), complex(x), bool(x), [0, 1, 2, 3][x]) == (3, 3.0, 3 + 0j, True, 3)
    assert f"{jnp.asarray(1.5):.2f}" == "1.50"
    with pytest.raises(TypeError):
        float(jnp.ones(2))
    with pytest.raises(ValueError):
        bool(jnp.ones(2))


def test_arrays_are_unhashable_and_tracers_are_arrays():
    with pytest.raises(TypeError):
        hash(jnp.ones(2))
    seen = []
    weft.jit(lambda x: seen.append(isinstance(x, weft.Array)) or x)(1.0)
    assert seen == [True]


def test_place():
    x = jnp.ones(3)
    (device,) = weft.devices()[:1]
    assert x.devices() == {device}
    assert x.sharding.device_set == {device}
    assert weft.device_put(x, device).device == device


@pytest.mark.parametrize("dtype", ["int4", "uint2", "bfloat16", "float8_e4m3fn", "complex64"])
def test_small_and_unusual_dtypes(dtype):
    kind = getattr(ml_dtypes, dtype, None) or np.dtype(dtype)
    x = jnp.asarray([0, 1], kind)
    assert x.dtype == np.dtype(kind)
    assert np.asarray(x).tolist() == [0, 1]


def test_iteration_gives_arrays():
    rows = list(jnp.arange(4).reshape(2, 2))
    assert [r.tolist() for r in rows] == [[0, 1], [2, 3]]
    with pytest.raises(TypeError):
        iter(jnp.asarray(1))


def test_float0_results_can_be_read_after_many_calls():
    x = np.ones((7, 4), np.float32)
    for k in range(50):  # from here on results are native blocks
        weft.jit(lambda x, k=k: x * 2 + k)(x)
    tangents = lambda x: weft.jvp(lambda y: (jnp.sin(y), jnp.argmax(y, 0)), (x,), (x,))[1]
    out = weft.jit(tangents)(x)[1]
    assert type(out) is np.ndarray and out.dtype == weft.dtypes.float0 and out.shape == (4,)
    assert out.tobytes() == b"" and repr(out)


def test_buffers_that_cannot_be_had_are_refused_by_the_right_error():
    keys = weft.random.split(weft.random.key(0), 3)
    for look in (memoryview, bytes, bytearray):
        with pytest.raises(TypeError):
            look(keys)
    gone = jnp.arange(3)
    gone.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        memoryview(gone)
    for _ in range(3):  # the error of before leaves nothing behind
        with pytest.raises(TypeError):
            memoryview(keys)
        assert memoryview(jnp.arange(3))[1] == 1
    with pytest.raises((TypeError, BufferError)):
        np.frombuffer(keys, np.uint8)


# --- notebooks ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "phrases"),
    [
        (jnp.arange(6.0).reshape(2, 3), ["[[0. 1. 2.]", "float32", "shape (2, 3)", "cpu:0"]),
        (jnp.asarray(2.0), ["2.0", "shape ()"]),
        (weft.numpy.asarray(1.0) * 2.0, ["2.0"]),
        (jnp.zeros((0, 4), "int8"), ["[]", "int8", "shape (0, 4)"]),
        (jnp.zeros((300, 300)), ["..."]),
        (weft.random.key(3), ["key&lt;fry&gt;", "[0 3]"]),
        (jnp.ones(2, "bfloat16"), ["bfloat16"]),
    ],
)
def test_notebooks_show_elements_dtype_shape_and_place(x, phrases):
    found = x._repr_html_()
    for phrase in phrases:
        assert phrase in found
    assert len(found) < 2_000
    assert "<fry>" not in found


def test_notebooks_show_arrays_over_devices():
    mesh = weft.make_mesh((1,), ("<i>",))
    x = weft.device_put(jnp.ones(4), weft.NamedSharding(mesh, weft.P("<i>")))
    found = x._repr_html_()
    assert "<i>" not in found
    assert "[1. 1. 1. 1.]" in found


def test_notebooks_say_that_an_array_was_deleted():
    x = jnp.ones(3)
    x.delete()
    assert "deleted, or donated" in x._repr_html_()
    assert "shape (3,)" in x._repr_html_()


def test_traced_values_have_no_html_form():
    assert weft.jit(lambda x: x + hasattr(x, "_repr_html_"))(1.0) == 1.0
