"""Names of JAX that can be imported, and what using them gives."""

import importlib

import pytest

from tests.as_jax.test_alias import program
from weft.as_jax.absent import ABSENT, placeholder
from weft.as_jax.homes import HOMES
from weft.as_jax.private import registry
from weft.as_jax.table import TABLE


def test_pallas_is_imported_and_says_what_is_missing_when_used():
    text = """
        import jax, jax.numpy as jnp
        from jax.experimental import pallas as pl
        from jax.experimental.pallas import tpu as pltpu, triton as plgpu
        from jax.experimental.pallas.ops.tpu import flash_attention
        from jax.experimental.pallas.ops.tpu.splash_attention import (
            splash_attention_kernel, splash_attention_mask)
        CausalMask = splash_attention_mask.CausalMask

        def kernel(x: pl.BlockSpec | None = None, space=pltpu.VMEM):
            return pl.cdiv(7, 2), pl.next_power_of_2(5)

        class Own(CausalMask):
            pass

        print(kernel(), isinstance(1, pl.BlockSpec), hasattr(pl, "no_such_name"))
        for use in (lambda: pl.pallas_call(kernel, out_shape=None), lambda: pltpu.MemorySpace.ANY,
                    lambda: Own((3, 3)), lambda: [*plgpu.dot], lambda: pl.ds[3],
                    lambda: jax.jit(lambda x: pl.program_id(0) + x)(1)):
            try:
                use()
            except RuntimeError as error:
                print(str(error).partition(":")[0])
        """
    splash_attention = "jax.experimental.pallas.ops.tpu.splash_attention"
    assert program(text).splitlines() == [
        "(4, 8) False False",
        "jax.experimental.pallas.pallas_call cannot be called",
        "jax.experimental.pallas.tpu.MemorySpace has no attribute 'ANY'",
        f"{splash_attention}.splash_attention_mask.CausalMask cannot be called",
        "jax.experimental.pallas.triton.dot cannot be iterated over",
        "jax.experimental.pallas.ds cannot be indexed",
        "jax.experimental.pallas.program_id cannot be called",
    ]


def test_a_placeholder_says_what_to_write_instead():
    thing = placeholder("jax.experimental.pallas", "pallas_call")
    with pytest.raises(RuntimeError, match=r"pallas_call cannot be called: .*write the function"):
        thing()
    assert repr(thing) == "<jax.experimental.pallas.pallas_call, which weft does not have>"


def test_no_placeholder_hides_a_name_of_the_table():
    both = {m: names & set(TABLE[m].names) for m, names in ABSENT.items() if m in TABLE}
    assert not any(both.values()), both


@pytest.mark.parametrize("module", sorted({m for homes in HOMES.values() for m in homes}))
def test_homes_are_modules(module):
    importlib.import_module(module)


def test_private_modules_have_the_public_functions_that_jax_defines_there():
    text = """
        import weft
        from jax._src.api import make_jaxpr, value_and_grad, vmap
        from jax._src.core import ClosedJaxpr, JaxprEqn, ShapedArray, concrete_or_error
        from jax._src.lax import control_flow, lax, convolution
        from jax._src.lax.control_flow.loops import scan_p
        from jax._src.lax.convolution import ConvDimensionNumbers, conv_general_dilated_p
        from jax._src.nn.functions import relu
        from jax._src.numpy.lax_numpy import array
        from jax._src.numpy.ufuncs import isfinite, ufunc
        from jax._src.numpy.util import promote_args_inexact, promote_dtypes_complex
        from jax._src.pjit import jit_p
        from jax._src.random import PRNGKey
        from jax._src.scipy.linalg import solve_triangular
        from jax._src.tree_util import GetAttrKey, Partial, tree_flatten
        from jax._src.typing import Array, ArrayLike, DTypeLike
        from jax._src.util import safe_map, safe_zip, split_list, tuple_insert, unzip3
        assert lax.dot_general_p is weft.lax.dot_general_p and scan_p is weft.lax.scan_p
        assert vmap is weft.vmap and PRNGKey is weft.random.PRNGKey and array is weft.numpy.array
        assert isinstance(weft.numpy.add, ufunc) and Array is weft.Array and jit_p.name == "jit"
        assert [x.dtype.name for x in promote_dtypes_complex(weft.numpy.ones(2), 1)] == [
            "complex64", "complex64"]
        own = lax.dot_general_p
        lax.dot_general_p = None  # what a library changes there is not changed in weft
        assert weft.lax.dot_general_p is own
        try:
            lax._a_private_name
        except AttributeError as error:
            print(error)
        """
    assert program(text) == "weft, under the name jax._src.lax.lax, has no '_a_private_name'\n"


def test_ffi_registers_and_refuses_to_call():
    text = """
        import ctypes
        import jax
        jax.ffi.register_ffi_target("sum", jax.ffi.pycapsule(ctypes.pythonapi.Py_IncRef), "cpu")
        jax.ffi.register_ffi_target_as_batch_partitionable("sum")
        for name in ("sum", "other"):
            try:
                jax.ffi.ffi_call(name, jax.ShapeDtypeStruct((), "float32"))
            except RuntimeError as error:
                print(error)
        print(jax.lib.__version__)
        """
    first, second, version = program(text).splitlines()
    assert "'sum' is registered" in first and "jax.pure_callback" in first
    assert "'other' is not registered" in second
    assert version == "0.10.2"


def test_modules_that_jax_does_not_have_are_not_there():
    text = """
        for name in ("jaxlib.xla_extension", "jax.lib.xla_bridge"):
            try:
                __import__(name)
            except ModuleNotFoundError as error:
                print(error)
        from jaxlib._jax import PjitFunction
        import jax
        print(isinstance(jax.jit(lambda x: x), PjitFunction))
        """
    assert program(text).splitlines() == [
        "No module named 'jaxlib.xla_extension'", "No module named 'jax.lib.xla_bridge'", "True"
    ]  # fmt: skip


def test_the_registry_of_containers_is_a_mapping():
    found = registry[dict]
    assert found.to_iter({"b": 1, "a": 2}) == ((2, 1), ("a", "b"))
    assert found.from_iter(("a", "b"), [3, 4]) == {"a": 3, "b": 4}
    assert registry[tuple].from_iter(None, [1, 2]) == (1, 2)
    assert dict in registry and float not in registry and list in set(registry)
    with pytest.raises(KeyError):
        registry[float]
