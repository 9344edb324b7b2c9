"""Rules of operations on whole arrays: movement, reductions, products, sorting, indexing."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from weft.core.dims.dim import divided_up, is_constant_shape, max_dim
from weft.core.jaxpr import Jaxpr
from weft.prims.index import default_fill_value
from weft.prims.reduce import max_identity, min_identity
from weft.stablehlo import symbolic
from weft.stablehlo.elementwise import compare, convert, out_of, select
from weft.stablehlo.emitter import Emitter, Typed, rule
from weft.stablehlo.types import Unlowered, array, dense, physical, tensor


@rule("xla_metadata_value")
def _noted(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    e.note(ins[0], eqn.params["xla_metadata_kvs"])
    return ins


@rule("broadcast_in_dim")
def _broadcast(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    shape, dtype = out_of(eqn)
    inner = len(ins[0].shape) - len(eqn.invars[0].aval.shape)  # the words of keys
    own = len(shape) - inner
    dims = [*eqn.params["broadcast_dimensions"], *range(own, own + inner)]
    return [
        e.one("broadcast_in_dim", ins[:1], shape, dtype, f"broadcast_dimensions = {array(dims)}")
    ]


@rule("reshape", "squeeze", "random_wrap", "random_unwrap", "to_edtype", "from_edtype")
def _reshape(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    if eqn.params.get("dimensions") is not None and eqn.primitive.name == "reshape":
        order = eqn.params["dimensions"]
        ins = [_transposed(e, ins[0], order)]
    shape, dtype = out_of(eqn)
    return [ins[0] if ins[0].shape == tuple(shape) else e.one("reshape", ins[:1], shape, dtype)]


def _transposed(e: Emitter, x: Typed, order: Any) -> Typed:
    shape = [x.shape[i] for i in order]
    return e.one("transpose", [x], shape, x.dtype, f"permutation = {array(order)}")


@rule("transpose")
def _transpose(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    order = list(eqn.params["permutation"])
    order += range(len(order), len(ins[0].shape))
    return [_transposed(e, ins[0], order)]


@rule("rev")
def _rev(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    text = f"dimensions = {array(eqn.params['dimensions'])}"
    return [e.one("reverse", ins, *out_of(eqn), text)]


@rule("iota")
def _iota(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    return [e.one("iota", [], *out_of(eqn), f"iota_dimension = {eqn.params['dimension']} : i64")]


@rule("concatenate")
def _concatenate(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    return [e.one("concatenate", ins, *out_of(eqn), f"dimension = {eqn.params['dimension']} : i64")]


@rule("pad")
def _pad(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    low, high, interior = zip(*eqn.params["padding_config"], strict=True) or ((), (), ())
    if not is_constant_shape((*low, *high)):
        given = [*ins, *[symbolic.sizes(e, n) for n in (low, high, interior)]]
        return [e.one("dynamic_pad", given, *out_of(eqn))]
    text = (
        f"edge_padding_low = {array(low)}, edge_padding_high = {array(high)},"
        f" interior_padding = {array(interior)}"
    )
    return [e.one("pad", ins, *out_of(eqn), text)]


def sliced(e: Emitter, x: Typed, start: Any, limit: Any, strides: Any = None) -> Typed:
    """A part of an array."""
    strides = strides or (1,) * len(x.shape)
    given = zip(start, limit, strides, strict=True)
    shape = [max_dim(divided_up(b - a, s), 0) for a, b, s in given]
    if not is_constant_shape((*start, *limit)):
        ends = [symbolic.sizes(e, n) for n in (start, limit, strides)]
        return e.one("real_dynamic_slice", [x, *ends], shape, x.dtype)
    text = (
        f"start_indices = {array(start)}, limit_indices = {array(limit)},"
        f" strides = {array(strides)}"
    )
    return e.one("slice", [x], shape, x.dtype, text)


@rule("slice")
def _slice(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    p, rest = eqn.params, ins[0].shape[len(eqn.params["start_indices"]) :]
    start, limit = (*p["start_indices"], *[0] * len(rest)), (*p["limit_indices"], *rest)
    strides = (*(p["strides"] or [1] * len(p["start_indices"])), *[1] * len(rest))
    return [sliced(e, ins[0], start, limit, strides)]


@rule("split")
def _split(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    (x,), axis, at, outs = ins, eqn.params["axis"], 0, []
    for size in eqn.params["sizes"]:
        start, limit = [0] * len(x.shape), list(x.shape)
        start[axis], limit[axis] = at, at + size
        outs.append(sliced(e, x, start, limit))
        at += size
    return outs


@rule("stack")
def _stack(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    axis = eqn.params["axis"]
    shape, dtype = out_of(eqn)
    one = [1 if i == axis else n for i, n in enumerate(shape)]
    rows = [e.one("reshape", [x], one, dtype) for x in ins]
    return [e.one("concatenate", rows, shape, dtype, f"dimension = {axis} : i64")]


@rule("unstack")
def _unstack(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    (x,), axis = ins, eqn.params["axis"]
    outs = []
    for number, v in enumerate(eqn.outvars):
        start, limit = [0] * len(x.shape), list(x.shape)
        start[axis], limit[axis] = number, number + 1
        outs.append(e.one("reshape", [sliced(e, x, start, limit)], *physical(v.aval)))
    return outs


@rule("tile")
def _tile(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    (x,) = ins
    for axis, count in enumerate(eqn.params["reps"]):
        if count != 1:
            shape = [n * count if i == axis else n for i, n in enumerate(x.shape)]
            x = e.one("concatenate", [x] * count, shape, x.dtype, f"dimension = {axis} : i64")
    return [x]


@rule("empty")
def _empty(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    shape, dtype = out_of(eqn)
    return [e.broadcast(e.constant(np.zeros((), dtype)), shape)]


def _starts(e: Emitter, x: Typed, indices: Any) -> list[Typed]:
    """One start for every dimension; those of a key's words are 0."""
    dtype = indices[0].dtype if indices else np.int32
    return [*indices, *[e.constant(np.zeros((), dtype))] * (len(x.shape) - len(indices))]


@rule("dynamic_slice")
def _dynamic_slice(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    x, *indices = ins
    return [dynamic_slice(e, x, _starts(e, x, indices), out_of(eqn)[0])]


def dynamic_slice(e: Emitter, x: Typed, starts: Any, shape: Any) -> Typed:
    """A part of a shape, at a start that is moved inside."""
    if not is_constant_shape(shape):
        return _slice_of_symbolic_size(e, x, starts, shape)
    return e.one("dynamic_slice", [x, *starts], shape, x.dtype, f"slice_sizes = {array(shape)}")


def _slice_of_symbolic_size(e: Emitter, x: Typed, starts: Any, shape: Any) -> Typed:
    """A part whose start is moved inside, as that of ``dynamic_slice`` is."""
    zero, parts = e.constant(np.asarray(0, symbolic.INT)), []
    for start, n, m in zip(starts, x.shape, shape, strict=True):
        last = symbolic.size(e, n - m)
        given = [zero, convert(e, start, symbolic.INT), last]
        parts.append(
            e.one("reshape", [e.one("clamp", given, (), symbolic.INT)], (1,), symbolic.INT)
        )
    at = e.one("concatenate", parts, (len(parts),), symbolic.INT, "dimension = 0 : i64")
    end = e.one("add", [at, symbolic.sizes(e, shape)], (len(parts),), symbolic.INT)
    one = e.constant(np.ones(len(parts), symbolic.INT))
    return e.one("real_dynamic_slice", [x, at, end, one], shape, x.dtype)


@rule("dim_as_value")
def _dim_as_value(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    return [convert(e, symbolic.size(e, eqn.params["dim"]), eqn.outvars[0].aval.dtype)]


@rule("dynamic_update_slice")
def _dynamic_update_slice(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    x, update, *indices = ins
    return [e.one("dynamic_update_slice", [x, update, *_starts(e, x, indices)], *out_of(eqn))]


# --- reductions -----------------------------------------------------------------------------------

_REDUCERS = {
    "sum": ("add", lambda d: np.zeros((), d)),
    "prod": ("multiply", lambda d: np.ones((), d)),
    "max": ("maximum", max_identity),
    "min": ("minimum", min_identity),
    "and": ("and", lambda d: np.asarray(True) if d == np.bool_ else np.asarray(-1).astype(d)),
    "or": ("or", lambda d: np.zeros((), d)),
    "xor": ("xor", lambda d: np.zeros((), d)),
    "logsumexp": ("", max_identity),
}


def _log_add(e: Emitter, x: Typed, y: Typed) -> list[Typed]:
    """The logarithm of the sum of two exponentials."""
    do = lambda name, *ins: e.one(name, ins, (), x.dtype)
    top = do("maximum", x, y)
    finite = e.one("is_finite", [top], (), np.bool_)
    top = select(e, finite, top, e.constant(np.zeros((), x.dtype)))
    both = [do("exponential", do("subtract", v, top)) for v in (x, y)]
    return [do("add", do("log", do("add", *both)), top)]


def _by(e: Emitter, name: str) -> Any:
    if not name:
        return lambda x, y: _log_add(e, x, y)
    return lambda x, y: [e.one(name, [x, y], x.shape, x.dtype)]


def reduced(e: Emitter, x: Typed, name: str, axes: Any, shape: Any) -> Typed:
    """The reduction of an array by an operation of two numbers."""
    operation, initial = _REDUCERS[name]
    region = e.block([((), x.dtype)] * 2, _by(e, operation))
    start = e.constant(initial(x.dtype))
    results = [(shape, x.dtype)]
    return e.op("reduce", [x, start], results, f"dimensions = {array(axes)}", [region])[0]


@rule(*(f"reduce_{name}" for name in _REDUCERS if name != "logsumexp"))
def _reduce_by(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    name = eqn.primitive.name.removeprefix("reduce_")
    return [reduced(e, ins[0], name, eqn.params["axes"], out_of(eqn)[0])]


def _inner(e: Emitter, jaxpr: Any) -> Any:
    """A small program as the body of a region."""
    if isinstance(jaxpr, Jaxpr):
        return lambda *args: e.program(jaxpr, (), args)
    return lambda *args: e.program(jaxpr.jaxpr, jaxpr.consts, args)


@rule("reduce")
def _reduce(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    region = e.block([((), x.dtype) for x in ins], _inner(e, eqn.params["jaxpr"]))
    results = [physical(v.aval) for v in eqn.outvars]
    text = f"dimensions = {array(eqn.params['dimensions'])}"
    return e.op("reduce", ins, results, text, [region])


@rule("argmax", "argmin")
def _arg(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    (x,), (axis,) = ins, eqn.params["axes"]
    shape, dtype = out_of(eqn)
    largest = eqn.primitive.name == "argmax"
    numbers = e.one("iota", [], x.shape, dtype, f"iota_dimension = {axis} : i64")
    start = e.constant((max_identity if largest else min_identity)(x.dtype))
    zero = e.constant(np.zeros((), dtype))

    def body(a: Typed, i: Typed, b: Typed, j: Typed) -> list[Typed]:
        either = lambda p, q: e.one("or", [p, q], (), np.bool_)
        both = lambda p, q: e.one("and", [p, q], (), np.bool_)
        # NaN comes first, as it does in NumPy; of equal elements the one before
        first = either(compare(e, "GT" if largest else "LT", a, b), compare(e, "NE", a, a))
        same = both(compare(e, "EQ", a, b), compare(e, "LT", i, j))
        return [select(e, first, a, b), select(e, either(first, same), i, j)]

    kinds = [((), x.dtype), ((), dtype)]
    region = e.block([*kinds, *kinds], body)
    text = f"dimensions = {array([axis])}"
    results = [(shape, x.dtype), (shape, dtype)]
    return e.op("reduce", [x, numbers, start, zero], results, text, [region])[1:]


def _window_text(p: dict[str, Any]) -> str:
    pads = np.asarray(p["padding"], np.int64).reshape(-1, 2)
    return (
        f"window_dimensions = {array(p['window_dimensions'])},"
        f" window_strides = {array(p['window_strides'])},"
        f" base_dilations = {array(p['base_dilation'])},"
        f" window_dilations = {array(p['window_dilation'])},"
        f" padding = {dense(pads)} : {tensor(pads.shape, pads.dtype)}"
    )


@rule("reduce_window_sum", "reduce_window_max", "reduce_window_min")
def _reduce_window_by(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    operation, initial = _REDUCERS[eqn.primitive.name.removeprefix("reduce_window_")]
    (x,) = ins
    region = e.block([((), x.dtype)] * 2, _by(e, operation))
    start = e.constant(initial(x.dtype))
    return e.op("reduce_window", [x, start], [out_of(eqn)], _window_text(eqn.params), [region])


@rule("reduce_window")
def _reduce_window(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    if eqn.params.get("consts"):
        raise Unlowered(
            "weft can't write a windowed reduction that closes over values as StableHLO"
        )
    region = e.block([((), x.dtype) for x in ins], _inner(e, eqn.params["jaxpr"]))
    results = [physical(v.aval) for v in eqn.outvars]
    return e.op("reduce_window", ins, results, _window_text(eqn.params), [region])


@rule("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp")
def _cumulative(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    (x,), axis = ins, eqn.params["axis"]
    ones = (1,) * len(x.shape)
    size = x.shape[axis]
    pads = [(0, 0)] * len(x.shape)
    pads[axis] = (0, size - 1) if eqn.params["reverse"] else (size - 1, 0)
    window = [size if i == axis else 1 for i in range(len(x.shape))]
    if not prod(x.shape):
        return [x]
    operation, initial = _REDUCERS[eqn.primitive.name.removeprefix("cum")]
    region = e.block([((), x.dtype)] * 2, _by(e, operation))
    text = _window_text(
        {
            "window_dimensions": window,
            "window_strides": ones,
            "base_dilation": ones,
            "window_dilation": ones,
            "padding": pads,
        }
    )
    start = e.constant(initial(x.dtype))
    return e.op("reduce_window", [x, start], [out_of(eqn)], text, [region])


# --- products -------------------------------------------------------------------------------------

_PRECISIONS = {None: "DEFAULT", "DEFAULT": "DEFAULT", "HIGH": "HIGH", "HIGHEST": "HIGHEST"}


def _precision(given: Any) -> str:
    pair = given if isinstance(given, tuple) else (given, given)
    names = [_PRECISIONS.get(getattr(p, "name", p), "DEFAULT") for p in pair]
    return ", ".join(f"#stablehlo<precision {name}>" for name in names)


@rule("dot_general")
def _dot(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    (lhs_in, rhs_in), (lhs_batch, rhs_batch) = eqn.params["dimension_numbers"]
    text = (
        "dot_dimension_numbers = #stablehlo.dot<"
        f"lhs_batching_dimensions = {list(lhs_batch)},"
        f" rhs_batching_dimensions = {list(rhs_batch)},"
        f" lhs_contracting_dimensions = {list(lhs_in)},"
        f" rhs_contracting_dimensions = {list(rhs_in)}>,"
        f" precision_config = [{_precision(eqn.params['precision'])}]"
    )
    return [e.one("dot_general", ins, *out_of(eqn), text)]


@rule("conv_general_dilated")
def _conv(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    p = eqn.params
    numbers, count = p["dimension_numbers"], len(p["window_strides"])
    lhs, rhs, out = numbers.lhs_spec, numbers.rhs_spec, numbers.out_spec
    pads = np.asarray(p["padding"], np.int64).reshape(-1, 2)
    text = (
        "dimension_numbers = #stablehlo.conv<raw"
        f" input_batch_dimension = {lhs[0]}, input_feature_dimension = {lhs[1]},"
        f" input_spatial_dimensions = {list(lhs[2:])},"
        f" kernel_output_feature_dimension = {rhs[0]},"
        f" kernel_input_feature_dimension = {rhs[1]},"
        f" kernel_spatial_dimensions = {list(rhs[2:])},"
        f" output_batch_dimension = {out[0]}, output_feature_dimension = {out[1]},"
        f" output_spatial_dimensions = {list(out[2:])}>,"
        f" window_strides = {array(p['window_strides'])},"
        f" padding = {dense(pads)} : {tensor(pads.shape, pads.dtype)},"
        f" lhs_dilation = {array(p['lhs_dilation'])}, rhs_dilation = {array(p['rhs_dilation'])},"
        f" window_reversal = array<i1: {', '.join(['false'] * count)}>,"
        f" feature_group_count = {p['feature_group_count']} : i64,"
        f" batch_group_count = {p['batch_group_count']} : i64,"
        f" precision_config = [{_precision(p['precision'])}]"
    )
    if not count:
        text = text.replace("array<i1: >", "array<i1>")
    return [e.one("convolution", ins, *out_of(eqn), text)]


@rule("fft")
def _fft(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    kind = getattr(eqn.params["fft_type"], "name", str(eqn.params["fft_type"]))
    text = (
        f"fft_type = #stablehlo<fft_type {kind}>, fft_length = {array(eqn.params['fft_lengths'])}"
    )
    return [e.one("fft", ins, *out_of(eqn), text)]


@rule("cholesky")
def _cholesky(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    (x,), (shape, dtype) = ins, out_of(eqn)
    found = e.one("cholesky", [x], shape, dtype, "lower = true")
    rows, cols = (
        e.one("iota", [], shape, np.int32, f"iota_dimension = {axis} : i64")
        for axis in (len(shape) - 2, len(shape) - 1)
    )
    zero = e.broadcast(e.constant(np.zeros((), dtype)), shape)
    return [select(e, compare(e, "GE", rows, cols), found, zero)]


@rule("triangular_solve")
def _triangular_solve(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    p = eqn.params
    flip = "ADJOINT" if p["conjugate_a"] and p["transpose_a"] else "NO_TRANSPOSE"
    flip = "TRANSPOSE" if p["transpose_a"] and not p["conjugate_a"] else flip
    yes = lambda flag: "true" if flag else "false"
    text = (
        f"left_side = {yes(p['left_side'])}, lower = {yes(p['lower'])},"
        f" unit_diagonal = {yes(p['unit_diagonal'])},"
        f" transpose_a = #stablehlo<transpose {flip}>"
    )
    return [e.one("triangular_solve", ins, *out_of(eqn), text)]


# --- sorting --------------------------------------------------------------------------------------


def _ordered(e: Emitter, x: Typed) -> Typed:
    """A number by which NaNs are equal and zeros too, to be compared by total order."""
    zero = e.constant(np.zeros((), x.dtype))
    x = select(e, compare(e, "EQ", x, zero), zero, x)
    return select(e, compare(e, "NE", x, x), e.constant(np.asarray(np.nan, x.dtype)), x)


def _before(e: Emitter, x: Typed, y: Typed) -> Typed:
    if x.dtype.name.startswith(("bfloat", "float")):
        return compare(e, "LT", _ordered(e, x), _ordered(e, y), "TOTALORDER")
    if x.dtype.kind == "c":
        raise Unlowered("weft can't write a sort of complex numbers as StableHLO")
    return compare(e, "LT", x, y)


@rule("sort")
def _sort(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    p = eqn.params

    def body(*args: Typed) -> list[Typed]:
        pairs = [(args[2 * i], args[2 * i + 1]) for i in range(p["num_keys"])]
        found = _before(e, *pairs[-1])
        for x, y in reversed(pairs[:-1]):
            before, after = _before(e, x, y), _before(e, y, x)
            either = e.one("or", [before, after], (), np.bool_)
            found = select(e, either, before, found)
        return [found]

    region = e.block([((), x.dtype) for x in ins for _ in range(2)], body)
    text = (
        f"dimension = {p['dimension']} : i64, is_stable = {'true' if p['is_stable'] else 'false'}"
    )
    return e.op("sort", ins, [(x.shape, x.dtype) for x in ins], text, [region])


@rule("top_k")
def _top_k(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    (x,), k, axis = ins, eqn.params["k"], eqn.params.get("axis", -1) % len(ins[0].shape)
    if axis != len(x.shape) - 1:
        raise Unlowered("weft can't write top_k along an axis other than the last as StableHLO")
    results = [physical(v.aval) for v in eqn.outvars]
    return e.op("chlo.top_k", [x], results, f"k = {k} : i64")


# --- indexing -------------------------------------------------------------------------------------


def _mode(params: Any) -> str:
    return getattr(params["mode"], "name", str(params["mode"]))


def _in_bounds(e: Emitter, x: Typed, indices: Typed, limits: list[int], mapped: Any) -> Typed:
    """For every row of indices whether all of it lies within an array."""
    dtype = indices.dtype
    low = e.broadcast(e.constant(np.zeros((), dtype)), indices.shape)
    top = convert(e, symbolic.sizes(e, [limits[d] for d in mapped]), dtype)
    high = e.broadcast(top, indices.shape, [len(indices.shape) - 1])
    ok = e.one(
        "and",
        [compare(e, "GE", indices, low), compare(e, "LE", indices, high)],
        indices.shape,
        np.bool_,
    )
    return reduced(e, ok, "and", [len(indices.shape) - 1], indices.shape[:-1])


@rule("gather")
def _gather(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    x, indices = ins
    p, d = eqn.params, eqn.params["dimension_numbers"]
    shape, dtype = out_of(eqn)
    extra = len(x.shape) - len(p["slice_sizes"])
    if extra:
        raise Unlowered("weft can't write indexing of an array of random keys as StableHLO")
    text = (
        "dimension_numbers = #stablehlo.gather<"
        f"offset_dims = {list(d.offset_dims)},"
        f" collapsed_slice_dims = {list(d.collapsed_slice_dims)},"
        f" operand_batching_dims = {list(d.operand_batching_dims)},"
        f" start_indices_batching_dims = {list(d.start_indices_batching_dims)},"
        f" start_index_map = {list(d.start_index_map)},"
        f" index_vector_dim = {len(indices.shape) - 1}>,"
        f" indices_are_sorted = {'true' if p['indices_are_sorted'] else 'false'}"
    )
    if is_constant_shape(p["slice_sizes"]):
        text += f", slice_sizes = {array(p['slice_sizes'])}"
        found = e.one("gather", [x, indices], shape, dtype, text)
    else:
        given = [x, indices, symbolic.sizes(e, p["slice_sizes"])]
        found = e.one("dynamic_gather", given, shape, dtype, text)
    if "FILL" not in _mode(p):
        return [found]
    limits = [n - s for n, s in zip(x.shape, p["slice_sizes"], strict=True)]
    ok = _in_bounds(e, x, indices, limits, d.start_index_map)
    batch = [i for i in range(len(shape)) if i not in d.offset_dims]
    ok = e.broadcast(ok, shape, batch)
    fill = p["fill_value"]
    fill = default_fill_value(dtype) if fill is None else fill
    other = e.broadcast(e.constant(np.asarray(fill).astype(dtype)), shape)
    return [select(e, ok, found, other)]


_SCATTERS = {
    "scatter": None,
    "scatter-add": "add",
    "scatter-sub": "subtract",
    "scatter-mul": "multiply",
    "scatter-min": "minimum",
    "scatter-max": "maximum",
}


@rule(*_SCATTERS)
def _scatter(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    x, indices, updates = ins
    p, d = eqn.params, eqn.params["dimension_numbers"]
    if "CLIP" in _mode(p):
        sizes = _window_sizes(x, updates, d)
        limits = [n - s for n, s in zip(x.shape, sizes, strict=True)]
        top = symbolic.sizes(e, [limits[k] for k in d.scatter_dims_to_operand_dims])
        high = e.broadcast(convert(e, top, indices.dtype), indices.shape, [len(indices.shape) - 1])
        low = e.broadcast(e.constant(np.zeros((), indices.dtype)), indices.shape)
        indices = e.one("clamp", [low, indices, high], indices.shape, indices.dtype)
    operation = _SCATTERS[eqn.primitive.name]
    body = _by(e, operation) if operation else _replacing(e, p)
    region = e.block([((), x.dtype)] * 2, body)
    text = (
        "scatter_dimension_numbers = #stablehlo.scatter<"
        f"update_window_dims = {list(d.update_window_dims)},"
        f" inserted_window_dims = {list(d.inserted_window_dims)},"
        f" input_batching_dims = {list(d.operand_batching_dims)},"
        f" scatter_indices_batching_dims = {list(d.scatter_indices_batching_dims)},"
        f" scatter_dims_to_operand_dims = {list(d.scatter_dims_to_operand_dims)},"
        f" index_vector_dim = {len(indices.shape) - 1}>,"
        f" indices_are_sorted = {'true' if p['indices_are_sorted'] else 'false'},"
        f" unique_indices = {'true' if p['unique_indices'] else 'false'}"
    )
    return e.op("scatter", [x, indices, updates], [out_of(eqn)], text, [region])


def _replacing(e: Emitter, p: dict[str, Any]) -> Any:
    """The region of a scatter that replaces elements, or applies a function to them."""
    jaxpr = p.get("update_jaxpr")
    if jaxpr is None:
        return lambda a, b: [b]
    return lambda a, b: e.program(jaxpr, p.get("update_consts") or (), [a, b])


def _window_sizes(x: Typed, updates: Typed, d: Any) -> list[int]:
    """The extent of one update along every dimension of the array."""
    given = iter(d.update_window_dims)
    skipped = {*d.inserted_window_dims, *d.operand_batching_dims}
    return [1 if i in skipped else updates.shape[next(given)] for i in range(len(x.shape))]
