"""Invalid calls: the class of the error is JAX's."""

import warnings
from typing import Any

import numpy as np

from ..table import Adder, family

F, I = np.float32, np.int32


def traced(f: Any) -> Any:
    """Run the misuse on a tracer under jit."""
    return lambda J: J.jit(lambda x: f(J, x))(J.jnp.arange(3.0))


def table_of(add: Adder, table: dict[str, Any]) -> None:
    for name, fn in table.items():
        add(name, fn, error=True)


@family("errors_tracing")
def tracing(add: Adder) -> None:
    """Tracers used as concrete values, leaked, or assigned to."""
    misuse: dict[str, Any] = {
        "bool": lambda J, x: 1 if x[0] > 0 else 2,
        "bool_array": lambda J, x: 1 if x > 0 else 2,
        "while": lambda J, x: [None for _ in iter(lambda: bool(x[0] < 1), False)],
        "and": lambda J, x: (x[0] > 0) and (x[1] > 0),
        "not": lambda J, x: not x[0],
        "int": lambda J, x: int(x[0]),
        "float": lambda J, x: float(x[0]),
        "complex": lambda J, x: complex(x[0]),
        "index": lambda J, x: [1, 2, 3][x.astype("int32")[0]],
        "range": lambda J, x: list(range(x.astype("int32")[0])),
        "numpy": lambda J, x: np.sin(x),
        "asarray": lambda J, x: np.asarray(x),
        "numpy_add": lambda J, x: np.array(x) + 1,
        "item": lambda J, x: x.item(),
        "tolist": lambda J, x: x.tolist(),
        "setitem": lambda J, x: x.__setitem__(0, 1.0),
        "shape": lambda J, x: J.jnp.zeros(x.astype("int32")[0]),
        "reshape": lambda J, x: x.reshape(x.astype("int32")[0]),
        "arange": lambda J, x: J.jnp.arange(x[0]),
        "slice": lambda J, x: x[: x.astype("int32")[1]],
        "mask": lambda J, x: x[x > 0],
        "nonzero": lambda J, x: J.jnp.nonzero(x),
        "unique": lambda J, x: J.jnp.unique(x),
        "where_one": lambda J, x: J.jnp.where(x > 0),
        "repeat": lambda J, x: J.jnp.repeat(x, x.astype("int32")),
        "linspace": lambda J, x: J.jnp.linspace(0, 1, x.astype("int32")[0]),
        "eye": lambda J, x: J.jnp.eye(x.astype("int32")[0]),
        "split": lambda J, x: J.jnp.split(x, x.astype("int32")[0]),
        "axis": lambda J, x: J.jnp.sum(x, axis=x.astype("int32")[0]),
        "hash": lambda J, x: hash(x),
        "dict_key": lambda J, x: {x: 1},
        "len_scalar": lambda J, x: len(x[0]),
        "iterate_scalar": lambda J, x: list(x[0]),
        "contains": lambda J, x: x[0] in [1.0, 2.0],
        "format": lambda J, x: f"{x[0]:.2f}",
        "bincount": lambda J, x: J.jnp.bincount(x.astype("int32")),
        "one_hot": lambda J, x: J.nn.one_hot(x.astype("int32"), x.astype("int32")[0]),
        "tile": lambda J, x: J.jnp.tile(x, x.astype("int32")[0]),
        "iota": lambda J, x: J.lax.iota("int32", x.astype("int32")[0]),
        "dynamic_size": lambda J, x: J.lax.dynamic_slice(x, (0,), (x.astype("int32")[0],)),
        "round": lambda J, x: J.jnp.round(x, x.astype("int32")[0]),
        "oct": lambda J, x: oct(x.astype("int32")[0]),
        "tobytes": lambda J, x: x.tobytes(),
    }
    for name, f in misuse.items():
        add(f"jit/{name}", traced(f), error="maybe")
        grad = lambda J, f=f: J.jvp(
            lambda x: (f(J, x), x)[1], (J.jnp.arange(3.0),), (J.jnp.ones(3),)
        )
        if name in (
            "numpy",
            "asarray",
            "setitem",
            "hash",
            "dict_key",
            "item",
            "tolist",
            "len_scalar",
        ):
            add(f"jvp/{name}", grad, error="maybe")
        vmap = lambda J, f=f: J.vmap(lambda x: f(J, x))(J.jnp.ones((2, 3)))
        if name in (
            "bool",
            "int",
            "float",
            "numpy",
            "index",
            "shape",
            "mask",
            "nonzero",
            "slice",
            "range",
        ):
            add(f"vmap/{name}", vmap, error="maybe")
    for name in ("bool", "int", "numpy", "mask"):
        f = misuse[name]
        in_scan = lambda J, f=f: J.lax.scan(lambda c, x: (c, f(J, x)), 0.0, J.jnp.ones((2, 3)))
        add(f"scan/{name}", in_scan, error="maybe")
        in_cond = lambda J, f=f: J.lax.cond(
            True, lambda x: f(J, x), lambda x: f(J, x), J.jnp.ones(3)
        )
        add(f"cond/{name}", in_cond, error="maybe")
    leaks(add)


def leaks(add: Adder) -> None:
    """Tracers that escaped their transformation."""

    def leak(J: Any, transform: Any, use: Any) -> Any:
        kept: list[Any] = []

        def f(x: Any) -> Any:
            kept.append(x)
            return x * 2

        transform(J, f)
        return use(J, kept[0])

    transforms = {
        "jit": lambda J, f: J.jit(f)(J.jnp.ones(3)),
        "vmap": lambda J, f: J.vmap(f)(J.jnp.ones(3)),
        "grad": lambda J, f: J.grad(lambda x: f(x).sum())(J.jnp.ones(3)),
        "scan": lambda J, f: J.lax.scan(lambda c, x: (c, f(x)), 0.0, J.jnp.ones(3)),
        "make_jaxpr": lambda J, f: J.make_jaxpr(f)(J.jnp.ones(3)),
    }
    uses = {
        "add": lambda J, x: x + 1,
        "sin": lambda J, x: J.jnp.sin(x),
        "bool": lambda J, x: bool(x.sum() > 0),
        "jit": lambda J, x: J.jit(lambda y: x + y)(J.jnp.ones(3)),
        "numpy": lambda J, x: np.asarray(x),
    }
    for t_name, t in transforms.items():
        for u_name, u in uses.items():
            add(f"leak/{t_name}/{u_name}", lambda J, t=t, u=u: leak(J, t, u), error="maybe")


@family("errors_shapes")
def shapes(add: Adder) -> None:
    """Shapes, dtypes and parameters that do not fit."""
    z = np.zeros
    for name in ("add", "mul", "max", "pow", "atan2", "eq", "div", "rem", "lt"):
        add(
            f"lax/{name}/shape",
            lambda J, n=name: getattr(J.lax, n)(z((2, 3), F), z((3, 2), F)),
            error=True,
        )
        add(
            f"lax/{name}/rank",
            lambda J, n=name: getattr(J.lax, n)(z((2, 3), F), z((3,), F)),
            error=True,
        )
        mixed = "maybe" if name == "pow" else True
        add(f"lax/{name}/dtype", lambda J, n=name: getattr(J.lax, n)(z(3, F), z(3, I)), error=mixed)
        add(f"lax/{name}/text", lambda J, n=name: getattr(J.lax, n)("a", 1.0), error=True)
    for name in ("sin", "exp", "tanh", "log", "sqrt", "floor", "is_finite", "erf", "lgamma"):
        add(f"lax/{name}/int", lambda J, n=name: getattr(J.lax, n)(z(3, I)), error="maybe")
        add(f"lax/{name}/list", lambda J, n=name: getattr(J.lax, n)([1.0, 2.0]), error=True)
        add(f"lax/{name}/none", lambda J, n=name: getattr(J.lax, n)(None), error=True)
    for name in (
        "bitwise_and",
        "bitwise_or",
        "shift_left",
        "population_count",
        "bitwise_not",
        "clz",
    ):
        args = 1 if name in ("population_count", "bitwise_not", "clz") else 2
        add(
            f"lax/{name}/float",
            lambda J, n=name, k=args: getattr(J.lax, n)(*[z(3, F)] * k),
            error=True,
        )
    table_of(add, LAX_ERRORS)
    table_of(add, NUMPY_ERRORS)


LAX_ERRORS: dict[str, Any] = {
    "reshape/size": lambda J: J.lax.reshape(np.zeros(6, F), (4,)),
    "reshape/negative": lambda J: J.lax.reshape(np.zeros(6, F), (-1, 3)),
    "transpose/short": lambda J: J.lax.transpose(np.zeros((2, 3), F), (0,)),
    "transpose/repeat": lambda J: J.lax.transpose(np.zeros((2, 3), F), (0, 0)),
    "squeeze/size": lambda J: J.lax.squeeze(np.zeros((2, 3), F), (0,)),
    "squeeze/axis": lambda J: J.lax.squeeze(np.zeros((1, 3), F), (5,)),
    "expand_dims/repeat": lambda J: J.lax.expand_dims(np.zeros(3, F), (0, 0)),
    "broadcast_in_dim/size": lambda J: J.lax.broadcast_in_dim(np.zeros(3, F), (2, 4), (1,)),
    "broadcast_in_dim/rank": lambda J: J.lax.broadcast_in_dim(np.zeros(3, F), (3,), (0, 1)),
    "concatenate/shape": lambda J: J.lax.concatenate([np.zeros((2, 3), F), np.zeros((2, 2), F)], 0),
    "concatenate/dtype": lambda J: J.lax.concatenate([np.zeros(2, F), np.zeros(2, I)], 0),
    "concatenate/axis": lambda J: J.lax.concatenate([np.zeros(2, F)], 1),
    "concatenate/empty": lambda J: J.lax.concatenate([], 0),
    "slice/limits": lambda J: J.lax.slice(np.zeros(3, F), (2,), (1,)),
    "slice/outside": lambda J: J.lax.slice(np.zeros(3, F), (0,), (5,)),
    "slice/rank": lambda J: J.lax.slice(np.zeros(3, F), (0, 0), (1, 1)),
    "dynamic_slice/size": lambda J: J.lax.dynamic_slice(np.zeros(3, F), (0,), (5,)),
    "dynamic_slice/rank": lambda J: J.lax.dynamic_slice(np.zeros(3, F), (0, 0), (1, 1)),
    "dynamic_slice/float": lambda J: J.lax.dynamic_slice(np.zeros(3, F), (F(0),), (1,)),
    "dynamic_update_slice/size": lambda J: J.lax.dynamic_update_slice(
        np.zeros(3, F), np.zeros(5, F), (0,)
    ),
    "dynamic_update_slice/dtype": lambda J: J.lax.dynamic_update_slice(
        np.zeros(3, F), np.zeros(2, I), (0,)
    ),
    "pad/rank": lambda J: J.lax.pad(np.zeros(3, F), F(0), ((0, 0, 0), (0, 0, 0))),
    "pad/dtype": lambda J: J.lax.pad(np.zeros(3, F), I(0), ((0, 0, 0),)),
    "pad/interior": lambda J: J.lax.pad(np.zeros(3, F), F(0), ((0, 0, -1),)),
    "pad/negative_size": lambda J: J.lax.pad(np.zeros(3, F), F(0), ((-2, -2, 0),)),
    "rev/axis": lambda J: J.lax.rev(np.zeros(3, F), (1,)),
    "rev/repeat": lambda J: J.lax.rev(np.zeros(3, F), (0, 0)),
    "select/shape": lambda J: J.lax.select(np.zeros(2, bool), np.zeros(3, F), np.zeros(3, F)),
    "select/dtype": lambda J: J.lax.select(np.zeros(3, bool), np.zeros(3, F), np.zeros(3, I)),
    "select/predicate": lambda J: J.lax.select(np.zeros(3, F), np.zeros(3, F), np.zeros(3, F)),
    "select_n/count": lambda J: J.lax.select_n(
        np.zeros(3, bool), np.zeros(3, F), np.zeros(3, F), np.zeros(3, F)
    ),
    "clamp/shape": lambda J: J.lax.clamp(np.zeros(2, F), np.zeros(3, F), np.zeros(2, F)),
    "clamp/dtype": lambda J: J.lax.clamp(I(0), np.zeros(3, F), F(1)),
    "dot/shape": lambda J: J.lax.dot(np.zeros((2, 3), F), np.zeros((2, 3), F)),
    "dot/rank": lambda J: J.lax.dot(np.zeros((2, 3, 4), F), np.zeros((4, 2), F)),
    "dot_general/contract": lambda J: J.lax.dot_general(
        np.zeros((2, 3), F), np.zeros((4, 2), F), (((1,), (0,)), ((), ()))
    ),
    "dot_general/batch": lambda J: J.lax.dot_general(
        np.zeros((2, 3), F), np.zeros((4, 3), F), (((1,), (1,)), ((0,), (0,)))
    ),
    "dot_general/axis": lambda J: J.lax.dot_general(
        np.zeros((2, 3), F), np.zeros((3, 2), F), (((5,), (0,)), ((), ()))
    ),
    "dot_general/overlap": lambda J: J.lax.dot_general(
        np.zeros((2, 3), F), np.zeros((2, 3), F), (((0,), (0,)), ((0,), (0,)))
    ),
    "dot_general/counts": lambda J: J.lax.dot_general(
        np.zeros((2, 3), F), np.zeros((2, 3), F), (((0, 1), (0,)), ((), ()))
    ),
    "conv/features": lambda J: J.lax.conv(
        np.zeros((1, 2, 5, 5), F), np.zeros((3, 4, 2, 2), F), (1, 1), "SAME"
    ),
    "conv/rank": lambda J: J.lax.conv(
        np.zeros((1, 2, 5, 5), F), np.zeros((3, 2, 2), F), (1, 1), "SAME"
    ),
    "conv/strides": lambda J: J.lax.conv(
        np.zeros((1, 2, 5, 5), F), np.zeros((3, 2, 2, 2), F), (1,), "SAME"
    ),
    "conv/groups": lambda J: J.lax.conv_general_dilated(
        np.zeros((1, 3, 5), F), np.zeros((4, 1, 2), F), (1,), "SAME", feature_group_count=2
    ),
    "conv/layout": lambda J: J.lax.conv_general_dilated(
        np.zeros((1, 3, 5), F),
        np.zeros((4, 3, 2), F),
        (1,),
        "SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    ),
    "reduce_sum/axis": lambda J: J.lax.reduce_sum(np.zeros(3, F), (1,)),
    "reduce_sum/repeat": lambda J: J.lax.reduce_sum(np.zeros((2, 3), F), (0, 0)),
    "reduce_max/bool": lambda J: J.lax.reduce_and(np.zeros(3, F), (0,)),
    "argmax/axis": lambda J: J.lax.argmax(np.zeros(3, F), 2, np.int32),
    "argmax/index": lambda J: J.lax.argmax(np.zeros(3, F), 0, np.float32),
    "argmax/empty": lambda J: J.lax.argmax(np.zeros(0, F), 0, np.int32),
    "cumsum/axis": lambda J: J.lax.cumsum(np.zeros(3, F), 3),
    "sort/shapes": lambda J: J.lax.sort((np.zeros(3, F), np.zeros(4, F))),
    "sort/axis": lambda J: J.lax.sort(np.zeros(3, F), 2),
    "sort/keys": lambda J: J.lax.sort((np.zeros(3, F),), num_keys=3),
    "top_k/k": lambda J: J.lax.top_k(np.zeros(3, F), 5),
    "top_k/negative": lambda J: J.lax.top_k(np.zeros(3, F), -1),
    "top_k/scalar": lambda J: J.lax.top_k(F(1), 1),
    "iota/negative": lambda J: J.lax.iota(np.int32, -1),
    "iota/bool": lambda J: J.lax.iota(np.bool_, 3),
    "integer_pow/negative_int": lambda J: J.lax.integer_pow(np.ones(3, I), -2),
    "complex/int": lambda J: J.lax.complex(np.zeros(3, I), np.zeros(3, I)),
    "real/float": lambda J: J.lax.real(np.zeros(3, F)),
    "conj/int": lambda J: J.lax.conj(np.zeros(3, I)),
    "bitcast/sizes": lambda J: J.lax.bitcast_convert_type(np.zeros(3, np.uint8), np.float32),
    "fft/rank": lambda J: J.lax.fft(np.zeros(3, np.complex64), "fft", (3, 3)),
    "fft/real": lambda J: J.lax.fft(np.zeros(3, np.complex64), "rfft", (3,)),
    "fft/kind": lambda J: J.lax.fft(np.zeros(3, np.complex64), "xft", (3,)),
    "cholesky/shape": lambda J: J.linalg.cholesky(np.zeros((2, 3), F)),
    "cholesky/rank": lambda J: J.linalg.cholesky(np.zeros(3, F)),
    "triangular_solve/shape": lambda J: J.linalg.triangular_solve(
        np.zeros((3, 3), F), np.zeros((2, 2), F), left_side=True
    ),
    "qr/rank": lambda J: J.linalg.qr(np.zeros(3, F)),
    "eigh/shape": lambda J: J.linalg.eigh(np.zeros((2, 3), F)),
    "gather/dims": lambda J: J.lax.gather(
        np.zeros((3, 4), F),
        np.zeros((2, 1), I),
        J.lax.GatherDimensionNumbers((1,), (0,), (0,)),
        (2, 4),
    ),
    "gather/sizes": lambda J: J.lax.gather(
        np.zeros((3, 4), F),
        np.zeros((2, 1), I),
        J.lax.GatherDimensionNumbers((1,), (0,), (0,)),
        (1, 9),
    ),
    "gather/float_index": lambda J: J.lax.gather(
        np.zeros((3, 4), F),
        np.zeros((2, 1), F),
        J.lax.GatherDimensionNumbers((1,), (0,), (0,)),
        (1, 4),
    ),
    "gather/mode": lambda J: J.lax.gather(
        np.zeros((3, 4), F),
        np.zeros((2, 1), I),
        J.lax.GatherDimensionNumbers((1,), (0,), (0,)),
        (1, 4),
        mode="bounce",
    ),
    "scatter/dims": lambda J: J.lax.scatter_add(
        np.zeros((3, 4), F),
        np.zeros((2, 1), I),
        np.zeros((2, 5), F),
        J.lax.ScatterDimensionNumbers((1,), (0,), (0,)),
    ),
    "scatter/dtype": lambda J: J.lax.scatter_add(
        np.zeros((3, 4), F),
        np.zeros((2, 1), I),
        np.zeros((2, 4), I),
        J.lax.ScatterDimensionNumbers((1,), (0,), (0,)),
    ),
    "reduce_window/rank": lambda J: J.lax.reduce_window(
        np.zeros((3, 4), F), F(0), J.lax.add, (2,), (1,), "VALID"
    ),
    "reduce_precision/bits": lambda J: J.lax.reduce_precision(np.zeros(3, F), 0, 3),
    "split/sizes": lambda J: J.lax.split(np.zeros(5, F), (2, 2)),
    "full/shape": lambda J: J.lax.full((-1,), 0.0),
    "collapse": lambda J: J.lax.collapse(np.zeros((2, 3), F), 1, 0),
    "broadcast_shapes": lambda J: J.lax.broadcast_shapes((2,), (3,)),
    "conv_element_type": lambda J: J.lax.convert_element_type(np.zeros(3, F), "float33"),
}


NUMPY_ERRORS: dict[str, Any] = {
    "jnp/add": lambda J: J.jnp.add(np.zeros((2, 3)), np.zeros((4,))),
    "jnp/add_list": lambda J: J.jnp.add([1, 2], 3),
    "jnp/add_text": lambda J: J.jnp.add("a", 3),
    "jnp/operator_list": lambda J: J.jnp.zeros(3) + [1, 2, 3],
    "jnp/operator_text": lambda J: J.jnp.zeros(3) + "a",
    "jnp/operator_none": lambda J: J.jnp.zeros(3) * None,
    "jnp/operator_shape": lambda J: J.jnp.zeros(3) + J.jnp.zeros(2),
    "jnp/sum_list": lambda J: J.jnp.sum([1, 2]),
    "jnp/sin_list": lambda J: J.jnp.sin([1.0]),
    "jnp/matmul_shape": lambda J: J.jnp.zeros((2, 3)) @ J.jnp.zeros((2, 3)),
    "jnp/matmul_scalar": lambda J: J.jnp.matmul(J.jnp.zeros(3), 2.0),
    "jnp/dot": lambda J: J.jnp.dot(J.jnp.zeros((2, 3)), J.jnp.zeros((2, 3))),
    "jnp/reshape": lambda J: J.jnp.zeros(6).reshape(4),
    "jnp/reshape_unknown": lambda J: J.jnp.zeros(6).reshape(-1, 4),
    "jnp/reshape_two": lambda J: J.jnp.zeros(6).reshape(-1, -1),
    "jnp/transpose": lambda J: J.jnp.zeros((2, 3)).transpose(0),
    "jnp/axis": lambda J: J.jnp.sum(J.jnp.zeros(3), axis=1),
    "jnp/axis_repeat": lambda J: J.jnp.sum(J.jnp.zeros((2, 3)), axis=(0, 0)),
    "jnp/axis_float": lambda J: J.jnp.sum(J.jnp.zeros(3), axis=0.5),
    "jnp/squeeze": lambda J: J.jnp.squeeze(J.jnp.zeros((2, 1)), axis=0),
    "jnp/concatenate": lambda J: J.jnp.concatenate([J.jnp.zeros((2, 3)), J.jnp.zeros((2, 2))]),
    "jnp/concatenate_empty": lambda J: J.jnp.concatenate([]),
    "jnp/concatenate_scalar": lambda J: J.jnp.concatenate([J.jnp.zeros(())]),
    "jnp/stack": lambda J: J.jnp.stack([J.jnp.zeros(2), J.jnp.zeros(3)]),
    "jnp/split": lambda J: J.jnp.split(J.jnp.zeros(5), 2),
    "jnp/broadcast_to": lambda J: J.jnp.broadcast_to(J.jnp.zeros(3), (2,)),
    "jnp/index_count": lambda J: J.jnp.zeros(3)[0, 0],
    "jnp/index_float": lambda J: J.jnp.zeros(3)[0.5],
    "jnp/index_text": lambda J: J.jnp.zeros(3)["a"],
    "jnp/index_list": lambda J: J.jnp.zeros(3)[[0, 1]],
    "jnp/index_two_dots": lambda J: J.jnp.zeros((3, 3))[..., ...],
    "jnp/index_mask_shape": lambda J: J.jnp.zeros(3)[np.array([True, False])],
    "jnp/index_float_array": lambda J: J.jnp.zeros(3)[np.array([0.5])],
    "jnp/setitem": lambda J: J.jnp.zeros(3).__setitem__(0, 1.0),
    "jnp/at_shape": lambda J: J.jnp.zeros(3).at[0:2].set(np.zeros(3)),
    "jnp/at_mode": lambda J: J.jnp.zeros(3).at[0].set(1, mode="bounce"),
    "jnp/einsum": lambda J: J.jnp.einsum("ij,jk", J.jnp.zeros((2, 3)), J.jnp.zeros((2, 3))),
    "jnp/einsum_count": lambda J: J.jnp.einsum("ij,jk", J.jnp.zeros((2, 3))),
    "jnp/linalg_inv": lambda J: J.jnp.linalg.inv(J.jnp.zeros((2, 3))),
    "jnp/linalg_solve": lambda J: J.jnp.linalg.solve(J.jnp.zeros((2, 2)), J.jnp.zeros(3)),
    "jnp/linalg_norm": lambda J: J.jnp.linalg.norm(J.jnp.zeros((2, 2)), ord="abc"),
    "jnp/max_empty": lambda J: J.jnp.max(J.jnp.zeros(0)),
    "jnp/argmax_empty": lambda J: J.jnp.argmax(J.jnp.zeros(0)),
    "jnp/max_where": lambda J: J.jnp.max(J.jnp.zeros(3), where=np.array([True, True, False])),
    "jnp/array_text": lambda J: J.jnp.array("abc"),
    "jnp/array_object": lambda J: J.jnp.array(object()),
    "jnp/array_ragged": lambda J: J.jnp.array([[1, 2], [3]]),
    "jnp/zeros_negative": lambda J: J.jnp.zeros(-1),
    "jnp/zeros_float": lambda J: J.jnp.zeros(2.5),
    "jnp/zeros_dtype": lambda J: J.jnp.zeros(2, "float33"),
    "jnp/bool_many": lambda J: bool(J.jnp.zeros(3)),
    "jnp/int_many": lambda J: int(J.jnp.zeros(3)),
    "jnp/float_many": lambda J: float(J.jnp.zeros(3)),
    "jnp/len_scalar": lambda J: len(J.jnp.zeros(())),
    "jnp/iterate_scalar": lambda J: list(J.jnp.zeros(())),
    "jnp/hash": lambda J: hash(J.jnp.zeros(3)),
    "jnp/index_of_list": lambda J: [1, 2][J.jnp.zeros(())],
    "jnp/invert_float": lambda J: ~J.jnp.zeros(3),
    "jnp/shift_float": lambda J: J.jnp.zeros(3) << 1,
    "jnp/and_float": lambda J: J.jnp.zeros(3) & 1,
    "jnp/out": lambda J: J.jnp.sum(J.jnp.zeros(3), out=np.zeros(())),
    "jnp/take_mode": lambda J: J.jnp.take(J.jnp.zeros(3), np.array([0]), mode="raise"),
    "jnp/pad_mode": lambda J: J.jnp.pad(J.jnp.zeros(3), 1, mode="nothing"),
    "jnp/where_two": lambda J: J.jnp.where(J.jnp.zeros(3), J.jnp.zeros(3)),
    "jnp/promote_strict": lambda J: strict(J, lambda: J.jnp.zeros(3, "int32") + J.jnp.zeros(3)),
    "jnp/rank_raise": lambda J: ranks(J, lambda: J.jnp.zeros((2, 3)) + J.jnp.zeros(3)),
    "jnp/float8_promote": lambda J: J.jnp.zeros(3, "float8_e4m3fn") + J.jnp.zeros(3, "bfloat16"),
    "jnp/key_add": lambda J: J.random.key(0) + 1,
    "jnp/key_sin": lambda J: J.jnp.sin(J.random.key(0)),
    "jnp/percentile": lambda J: J.jnp.quantile(J.jnp.zeros(3), 0.5, method="abc"),
    "jnp/meshgrid": lambda J: J.jnp.meshgrid(J.jnp.zeros((2, 2))),
    "jnp/moveaxis": lambda J: J.jnp.moveaxis(J.jnp.zeros((2, 3)), (0, 1), (0,)),
    "jnp/vectorize": lambda J: J.jnp.vectorize(lambda a: a, signature="(n)->(n)")(J.jnp.zeros(())),
    "jnp/eye_text": lambda J: J.jnp.eye("a"),
    "jnp/linspace_num": lambda J: J.jnp.linspace(0, 1, -3),
    "jnp/cross": lambda J: J.jnp.cross(J.jnp.zeros(4), J.jnp.zeros(4)),
    "jnp/tensordot": lambda J: J.jnp.tensordot(J.jnp.zeros((2, 3)), J.jnp.zeros((4, 5)), 1),
}


def strict(J: Any, thunk: Any) -> Any:
    with J.numpy_dtype_promotion("strict"):
        return thunk()


def ranks(J: Any, thunk: Any) -> Any:
    with J.numpy_rank_promotion("raise"):
        return thunk()


@family("errors_transforms")
def transforms(add: Adder) -> None:
    """Transformations and control flow used wrongly."""
    table_of(add, TRANSFORM_ERRORS)
    table_of(add, CONTROL_ERRORS)
    table_of(add, RANDOM_ERRORS)


def _one(J: Any) -> Any:
    return J.jnp.ones(3)


TRANSFORM_ERRORS: dict[str, Any] = {
    "grad/vector": lambda J: J.grad(lambda x: x * 2)(_one(J)),
    "grad/int_input": lambda J: J.grad(lambda x: x * 2.0)(3),
    "grad/int_output": lambda J: J.grad(lambda x: x.astype("int32").sum())(_one(J)),
    "grad/bool_input": lambda J: J.grad(lambda x: 1.0 * x)(True),
    "grad/complex_input": lambda J: J.grad(lambda x: J.jnp.sum(x * x))(_one(J) * 1j),
    "grad/complex_output": lambda J: J.grad(lambda x: J.jnp.sum(x * 1j))(_one(J)),
    "grad/tuple_output": lambda J: J.grad(lambda x: (x.sum(), 1))(_one(J)),
    "grad/none_output": lambda J: J.grad(lambda x: None)(_one(J)),
    "grad/argnums": lambda J: J.grad(lambda x: x.sum(), argnums=2)(_one(J)),
    "grad/argnums_type": lambda J: J.grad(lambda x: x.sum(), argnums="a"),
    "grad/aux": lambda J: J.grad(lambda x: x.sum(), has_aux=True)(_one(J)),
    "grad/text": lambda J: J.grad(lambda x: 1.0)("a"),
    "grad/not_callable": lambda J: J.grad(3),
    "grad/holomorphic_real": lambda J: J.grad(lambda x: x * x, holomorphic=True)(1.0),
    "grad/while": lambda J: J.grad(lambda x: J.lax.while_loop(lambda v: v < 9, lambda v: v * 2, x))(
        1.0
    ),
    "jvp/structure": lambda J: J.jvp(lambda x: x, (_one(J),), ([_one(J)],)),
    "jvp/shape": lambda J: J.jvp(lambda x: x, (_one(J),), (J.jnp.ones(2),)),
    "jvp/dtype": lambda J: J.jvp(lambda x: x, (_one(J),), (J.jnp.ones(3, "int32"),)),
    "jvp/count": lambda J: J.jvp(lambda x: x, (_one(J),), (_one(J), _one(J))),
    "jvp/list": lambda J: J.jvp(lambda x: x, _one(J), _one(J)),
    "vjp/shape": lambda J: J.vjp(lambda x: x, _one(J))[1](J.jnp.ones(2)),
    "vjp/dtype": lambda J: J.vjp(lambda x: x, _one(J))[1](J.jnp.ones(3, "int32")),
    "vjp/structure": lambda J: J.vjp(lambda x: (x, x), _one(J))[1](_one(J)),
    "linearize/shape": lambda J: J.linearize(J.jnp.sin, _one(J))[1](J.jnp.ones(2)),
    "linear_transpose/nonlinear": lambda J: J.linear_transpose(J.jnp.sin, _one(J))(_one(J)),
    "linear_transpose/shape": lambda J: J.linear_transpose(lambda x: 2 * x, _one(J))(J.jnp.ones(2)),
    "jacfwd/int": lambda J: J.jacfwd(lambda x: x)(3),
    "jacrev/int": lambda J: J.jacrev(lambda x: x)(3),
    "hessian/int": lambda J: J.hessian(lambda x: x)(3),
    "jacfwd/complex": lambda J: J.jacfwd(lambda x: x)(1j),
    "vmap/sizes": lambda J: J.vmap(lambda a, b: a)(J.jnp.ones(2), J.jnp.ones(3)),
    "vmap/scalar": lambda J: J.vmap(lambda a: a)(1.0),
    "vmap/axis": lambda J: J.vmap(lambda a: a, in_axes=2)(J.jnp.ones((2, 3))),
    "vmap/in_axes_count": lambda J: J.vmap(lambda a: a, in_axes=(0, 1))(J.jnp.ones((2, 3))),
    "vmap/in_axes_type": lambda J: J.vmap(lambda a: a, in_axes="a")(J.jnp.ones(3)),
    "vmap/in_axes_float": lambda J: J.vmap(lambda a: a, in_axes=(0.5,))(J.jnp.ones(3)),
    "vmap/in_axes_tree": lambda J: J.vmap(lambda a: a, in_axes=({"a": 0},))({"b": J.jnp.ones(3)}),
    "vmap/all_none": lambda J: J.vmap(lambda a: a, in_axes=None)(J.jnp.ones(3)),
    "vmap/no_arguments": lambda J: J.vmap(lambda: 1.0)(),
    "vmap/out_axes": lambda J: J.vmap(lambda a: (a, a), out_axes=(0, 0, 0))(J.jnp.ones(3)),
    "vmap/out_none": lambda J: J.vmap(lambda a: a, out_axes=None)(J.jnp.ones(3)),
    "vmap/out_range": lambda J: J.vmap(lambda a: a, out_axes=3)(J.jnp.ones(3)),
    "vmap/axis_size": lambda J: J.vmap(lambda a: a, axis_size=4)(J.jnp.ones(3)),
    "vmap/not_callable": lambda J: J.vmap(3),
    "vmap/string": lambda J: J.vmap(lambda a: "x")(J.jnp.ones(3)),
    "psum/unbound": lambda J: J.lax.psum(J.jnp.ones(3), "nope"),
    "axis_index/unbound": lambda J: J.lax.axis_index("nope"),
    "jit/not_callable": lambda J: J.jit(3),
    "jit/unhashable_static": lambda J: J.jit(lambda x, n: x, static_argnums=1)(1.0, [1]),
    "jit/static_array": lambda J: J.jit(lambda x, n: x, static_argnums=1)(1.0, np.ones(2)),
    "jit/argument_text": lambda J: J.jit(lambda x: 1)("text"),
    "jit/argument_object": lambda J: J.jit(lambda x: 1)(object()),
    "jit/return_text": lambda J: J.jit(lambda x: "text")(1.0),
    "jit/return_object": lambda J: J.jit(lambda x: object())(1.0),
    "jit/static_name": lambda J: J.jit(lambda x: x, static_argnames="nope")(1.0),
    "jit/static_range": lambda J: J.jit(lambda x: x, static_argnums=5)(1.0),
    "jit/donate_static": lambda J: J.jit(lambda x, y: x, static_argnums=0, donate_argnums=0)(
        1, 2.0
    ),
    "jit/arity": lambda J: J.jit(lambda x: x)(1.0, 2.0),
    "jit/missing": lambda J: J.jit(lambda x, y: x)(1.0),
    "checkpoint/arity": lambda J: J.checkpoint(lambda x: x)(1.0, 2.0),
    "make_jaxpr/not_callable": lambda J: J.make_jaxpr(3),
    "eval_shape/text": lambda J: J.eval_shape(lambda x: x, "a"),
    "custom_jvp/no_rule": lambda J: J.grad(J.custom_jvp(lambda x: x))(1.0),
    "custom_vjp/no_rule": lambda J: J.grad(J.custom_vjp(lambda x: x))(1.0),
    "custom_vjp/jvp": lambda J: J.jvp(_vjp(J, lambda r, g: (g,)), (1.0,), (1.0,)),
    "custom_vjp/structure": lambda J: J.grad(_vjp(J, lambda r, g: (g, g)))(1.0),
    "custom_vjp/shape": lambda J: J.grad(_vjp(J, lambda r, g: (J.jnp.ones(4),)))(1.0),
    "custom_vjp/not_tuple": lambda J: J.grad(_vjp(J, lambda r, g: g))(1.0),
    "custom_jvp/structure": lambda J: J.grad(_jvp(J, lambda p, t: (p[0], (t[0], t[0]))))(1.0),
    "custom_jvp/shape": lambda J: J.grad(_jvp(J, lambda p, t: (p[0], J.jnp.ones(3))))(1.0),
    "custom_jvp/not_pair": lambda J: J.grad(_jvp(J, lambda p, t: t[0]))(1.0),
    "device_put/object": lambda J: J.device_put(object()),
    "closure_convert/none": lambda J: J.closure_convert(3, 1.0),
    "tree/map": lambda J: J.tree.map(lambda a, b: a, [1, 2], [1]),
    "tree/unflatten": lambda J: J.tree.unflatten(J.tree.structure([1, 2]), [1]),
    "config/name": lambda J: J.config.update("jax_no_such_option", 1),
}


def _vjp(J: Any, bwd: Any) -> Any:
    f = J.custom_vjp(lambda x: x)
    f.defvjp(lambda x: (x, x), bwd)
    return f


def _jvp(J: Any, rule: Any) -> Any:
    f = J.custom_jvp(lambda x: x)
    f.defjvp(rule)
    return f


CONTROL_ERRORS: dict[str, Any] = {
    "cond/predicate": lambda J: J.lax.cond(_one(J), lambda x: x, lambda x: x, 1.0),
    "cond/text": lambda J: J.lax.cond("a", lambda x: x, lambda x: x, 1.0),
    "cond/structure": lambda J: J.lax.cond(True, lambda x: x, lambda x: (x, x), 1.0),
    "cond/shape": lambda J: J.lax.cond(True, lambda x: x, lambda x: x[:2], _one(J)),
    "cond/dtype": lambda J: J.lax.cond(True, lambda x: x, lambda x: x.astype("int32"), _one(J)),
    "cond/not_callable": lambda J: J.lax.cond(True, 1.0, 2.0, 3.0),
    "cond/arity": lambda J: J.lax.cond(True, lambda x, y: x, lambda x: x, 1.0),
    "switch/empty": lambda J: J.lax.switch(0, [], 1.0),
    "switch/index": lambda J: J.lax.switch(0.5, [lambda x: x, lambda x: x], 1.0),
    "switch/index_shape": lambda J: J.lax.switch(
        J.jnp.zeros(2, int), [lambda x: x, lambda x: x], 1.0
    ),
    "switch/structure": lambda J: J.lax.switch(0, [lambda x: x, lambda x: (x,)], 1.0),
    "while/predicate_shape": lambda J: J.lax.while_loop(lambda x: x < 3, lambda x: x, _one(J)),
    "while/predicate_dtype": lambda J: J.lax.while_loop(lambda x: x, lambda x: x, 1.0),
    "while/predicate_tree": lambda J: J.lax.while_loop(lambda x: (True, True), lambda x: x, 1.0),
    "while/structure": lambda J: J.lax.while_loop(lambda x: True, lambda x: (x, x), 1.0),
    "while/shape": lambda J: J.lax.while_loop(
        lambda x: x.sum() < 3, lambda x: J.jnp.concatenate([x, x]), _one(J)
    ),
    "while/dtype": lambda J: J.lax.while_loop(lambda x: x < 3, lambda x: x * 1.5, I(1)),
    "fori/dtype": lambda J: J.lax.fori_loop(0, 3, lambda i, x: x * 1.5, I(1)),
    "fori/structure": lambda J: J.lax.fori_loop(0, 3, lambda i, x: (x, x), 1.0),
    "fori/bounds": lambda J: J.lax.fori_loop(0.5, 3, lambda i, x: x, 1.0),
    "fori/vector_bounds": lambda J: J.lax.fori_loop(0, J.jnp.arange(2), lambda i, x: x, 1.0),
    "fori/arity": lambda J: J.lax.fori_loop(0, 3, lambda x: x, 1.0),
    "fori/not_callable": lambda J: J.lax.fori_loop(0, 3, 5, 1.0),
    "scan/carry_structure": lambda J: J.lax.scan(lambda c, x: ((c, c), x), 0.0, _one(J)),
    "scan/carry_shape": lambda J: J.lax.scan(lambda c, x: (c[:1], x), _one(J), _one(J)),
    "scan/carry_dtype": lambda J: J.lax.scan(lambda c, x: (c + x, x), I(0), _one(J)),
    "scan/not_pair": lambda J: J.lax.scan(lambda c, x: c, 0.0, _one(J)),
    "scan/triple": lambda J: J.lax.scan(lambda c, x: (c, x, x), 0.0, _one(J)),
    "scan/lengths": lambda J: J.lax.scan(lambda c, x: (c, x), 0.0, (J.jnp.ones(2), J.jnp.ones(3))),
    "scan/length": lambda J: J.lax.scan(lambda c, x: (c, x), 0.0, _one(J), length=5),
    "scan/no_length": lambda J: J.lax.scan(lambda c, x: (c, x), 0.0, None),
    "scan/scalar": lambda J: J.lax.scan(lambda c, x: (c, x), 0.0, 1.0),
    "scan/unroll": lambda J: J.lax.scan(lambda c, x: (c, x), 0.0, _one(J), unroll=-1),
    "scan/not_callable": lambda J: J.lax.scan(3, 0.0, _one(J)),
    "map/scalar": lambda J: J.lax.map(lambda x: x, 1.0),
    "associative_scan/lengths": lambda J: J.lax.associative_scan(
        J.lax.add, (J.jnp.ones(2), J.jnp.ones(3))
    ),
    "associative_scan/not_callable": lambda J: J.lax.associative_scan(3, _one(J)),
    "linear_solve/structure": lambda J: J.lax.custom_linear_solve(
        lambda x: (x, x), _one(J), lambda mv, b: b
    ),
    "platform/none": lambda J: J.lax.platform_dependent(1.0, tpu=lambda x: x),
    "named_call": lambda J: J.named_call(3),
}

RANDOM_ERRORS: dict[str, Any] = {
    "random/int_key": lambda J: J.random.uniform(3),
    "random/float_key": lambda J: J.random.uniform(np.zeros(2, F)),
    "random/wrong_shape": lambda J: J.random.uniform(np.zeros(3, np.uint32)),
    "random/batch_key": lambda J: J.random.uniform(J.random.split(J.random.key(0), 3)),
    "random/batch_legacy": lambda J: J.random.uniform(J.random.split(J.random.PRNGKey(0), 3)),
    "random/float_seed": lambda J: J.random.key(1.5),
    "random/array_seed": lambda J: J.random.key(np.array([1, 2])),
    "random/text_seed": lambda J: J.random.key("a"),
    "random/impl": lambda J: J.random.key(0, impl="nope"),
    "random/uniform_dtype": lambda J: J.random.uniform(J.random.key(0), (2,), np.int32),
    "random/normal_dtype": lambda J: J.random.normal(J.random.key(0), (2,), np.int32),
    "random/bits_dtype": lambda J: J.random.bits(J.random.key(0), (2,), np.float32),
    "random/randint_dtype": lambda J: J.random.randint(J.random.key(0), (2,), 0, 3, np.float32),
    "random/shape_float": lambda J: J.random.uniform(J.random.key(0), (1.5,)),
    "random/fold_in_shape": lambda J: J.random.fold_in(J.random.key(0), np.array([1, 2])),
    "random/choice_size": lambda J: J.random.choice(J.random.key(0), 3, (5,), replace=False),
    "random/choice_p": lambda J: J.random.choice(J.random.key(0), 3, (2,), p=np.ones(2, F)),
    "random/categorical": lambda J: J.random.categorical(
        J.random.key(0), np.zeros((2, 3), F), shape=(5,)
    ),
    "random/wrap": lambda J: J.random.wrap_key_data(np.zeros(3, np.uint32)),
    "random/key_data": lambda J: J.random.key_data(np.zeros(3, F)),
    "random/split_float": lambda J: J.random.split(J.random.key(0), 2.5),
    "random/truncated": lambda J: J.random.truncated_normal(
        J.random.key(0), np.zeros(2, F), np.ones(3, F)
    ),
    "nn/one_hot": lambda J: J.nn.one_hot(J.jnp.arange(3), "a"),
    "nn/softmax_axis": lambda J: J.nn.softmax(J.jnp.ones(3), axis=2),
    "nn/init": lambda J: J.initializers.variance_scaling(1.0, "fan", "normal")(
        J.random.key(0), (2, 2)
    ),
    "nn/init_shape": lambda J: J.initializers.glorot_normal()(J.random.key(0), (2,)),
}


@family("warnings")
def warned(add: Adder) -> None:
    """Explicit 64-bit dtypes without x64 warn and give 32 bits."""
    calls: dict[str, Any] = {
        "zeros": lambda J: J.jnp.zeros(2, "float64"),
        "array": lambda J: J.jnp.array([1.0], np.float64),
        "astype": lambda J: J.jnp.zeros(2).astype("int64"),
        "arange": lambda J: J.jnp.arange(3, dtype=np.int64),
        "convert": lambda J: J.lax.convert_element_type(J.jnp.zeros(2), np.float64),
        "iota": lambda J: J.lax.iota(np.int64, 3),
        "full": lambda J: J.lax.full((2,), 1.0, np.float64),
        "numpy64": lambda J: J.jnp.asarray(np.zeros(2)),
        "uniform": lambda J: J.random.uniform(J.random.key(0), (1,), np.float64),
        "sum": lambda J: J.jnp.sum(J.jnp.zeros(2), dtype="float64"),
        "float64": lambda J: J.jnp.float64(1.0),
        "complex_cast": lambda J: J.jnp.zeros(2, "complex64").astype("float32"),
        "scatter_cast": lambda J: J.jnp.zeros(2, "int32").at[0].set(1.5),
        "python_float": lambda J: J.jnp.zeros(2, float),
    }
    for name, fn in calls.items():
        for x64 in (False, True):
            run = lambda J, fn=fn: seen(J, fn)
            add(f"{name}/{'x64' if x64 else 'x32'}", run, x64=x64)


def seen(J: Any, fn: Any) -> Any:

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        out = fn(J)
    return out.dtype.name, sorted({w.category.__name__ for w in caught})
