"""Executables written as bytes and loaded again, and what is loaded from wrong ones."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import export
from weft.experimental.serialize_executable import deserialize_and_load, serialize

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def loaded(fun, *args, **kwargs):
    return deserialize_and_load(*serialize(weft.jit(fun).lower(*args, **kwargs).compile()))


def test_what_is_loaded_computes_the_same():
    scale = jnp.float32(3)
    fun = lambda tree, *, k: {"a": tree["a"] @ tree["a"].T * scale + k, "b": jnp.sort(-tree["a"])}
    again = loaded(fun, {"a": X}, k=2.0)
    expected = fun({"a": X}, k=2.0)
    found = again({"a": X}, k=2.0)
    np.testing.assert_allclose(found["a"], expected["a"])
    np.testing.assert_array_equal(found["b"], expected["b"])
    assert again.input_formats[0][0]["a"].layout.major_to_minor == (0, 1)


def test_it_takes_the_types_that_it_was_compiled_for():
    again = loaded(lambda x: x + 1, X)
    with pytest.raises(TypeError, match="was compiled with"):
        again(X.T)
    with pytest.raises(TypeError, match="structure"):
        again(X, X)


def test_bytes_of_something_else_are_refused():
    data, in_tree, out_tree = serialize(weft.jit(lambda x: x).lower(X).compile())
    with pytest.raises(ValueError, match="these bytes hold"):
        deserialize_and_load(data, weft.tree.structure(((1, 2), {})), out_tree)
    with pytest.raises(ValueError, match="compiled for 1 devices"):
        deserialize_and_load(data, in_tree, out_tree, execution_devices=weft.devices() * 2)
    with pytest.raises(export.MalformedExportError):
        deserialize_and_load(data[: len(data) // 2], in_tree, out_tree)


def test_keys_of_dictionaries_that_cannot_be_written():
    made = export.export(weft.jit(lambda d: d))({(1, 2): X})
    with pytest.raises(TypeError, match="keys of dictionaries"):
        made.serialize()
