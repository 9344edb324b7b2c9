"""Rules of operations that carry programs, and of random keys."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from weft.core.avals import ShapedArray
from weft.core.dims.dim import exceeds
from weft.prims.random import is_partitionable, threefry_impl
from weft.prims.threefry import threefry2x32_p
from weft.stablehlo import symbolic
from weft.stablehlo.elementwise import compare, convert, out_of
from weft.stablehlo.emitter import Emitter, Typed, rule
from weft.stablehlo.structure import dynamic_slice, sliced
from weft.stablehlo.types import Unlowered, physical


def scopes_of(eqn: Any) -> list[str]:
    """The names around an equation, for those of the programs in it."""
    info = eqn.source_info
    return [str(info.name_stack)] if info is not None and info.name_stack else []


@rule("cond")
def _cond(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    which, *args = ins
    branches = eqn.params["branches"]
    if len(branches) == 1:
        return e.call(branches[0], args, "branch")
    which = convert(e, which, np.int32)
    top = e.constant(np.int32(len(branches) - 1))
    which = e.one("clamp", [e.constant(np.int32(0)), which, top], (), np.int32)

    def branch(i: int) -> list[Any]:
        with e.within(*names, f"cond/branch_{i}_fun"):
            return e.program(branches[i].jaxpr, branches[i].consts, args)

    names = scopes_of(eqn)
    regions = [e.block([], lambda i=i: branch(i)) for i in range(len(branches))]
    results = [physical(v.aval) for v in eqn.outvars]
    return e.op("case", [which], results, "", regions) if results else []


@rule("while")
def _while(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    p = eqn.params
    n_cond, n_body = p["cond_nconsts"], p["body_nconsts"]
    cond_consts, body_consts = ins[:n_cond], ins[n_cond : n_cond + n_body]
    carry = ins[n_cond + n_body :]
    if p["cond_jaxpr"].out_avals[0].shape:
        raise Unlowered("weft can't write a while loop with a condition per element as StableHLO")
    kinds = [(x.shape, x.dtype) for x in carry]

    def part(closed: Any, consts: Any, name: str) -> Any:
        def written(*args: Any) -> Any:
            with e.within(*scopes_of(eqn), f"while/{name}"):
                return e.program(closed.jaxpr, closed.consts, [*consts, *args])

        return written

    regions = [
        e.block(kinds, part(p["cond_jaxpr"], cond_consts, "cond")),
        e.block(kinds, part(p["body_jaxpr"], body_consts, "body")),
    ]
    return e.op("while", carry, kinds, "", regions)


@rule("scan")
def _scan(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    p = eqn.params
    n_consts, n_carry, length = p["num_consts"], p["num_carry"], p["length"]
    consts, carry, xs = (
        ins[:n_consts],
        ins[n_consts : n_consts + n_carry],
        ins[n_consts + n_carry :],
    )
    body = p["jaxpr"]
    ys = [physical(v.aval) for v in eqn.outvars[n_carry:]]
    blank = [e.broadcast(e.constant(np.zeros((), dtype)), shape) for shape, dtype in ys]
    if length == 0:
        return [*carry, *blank]
    state = [e.constant(np.int32(0)), *carry, *blank]
    kinds = [(x.shape, x.dtype) for x in state]

    def going(i: Typed, *_: Typed) -> list[Typed]:
        return [compare(e, "LT", i, symbolic.size(e, length))]

    def step(i: Typed, *rest: Typed) -> list[Typed]:
        held, out = rest[:n_carry], rest[n_carry:]
        at = i
        if p["reverse"]:
            last = symbolic.size(e, length - 1)
            at = e.one("subtract", [last, i], (), np.int32)
        rows = [_taken(e, x, at) for x in xs]
        with e.within(*scopes_of(eqn), "while/body/closed_call"):
            found = e.program(body.jaxpr, body.consts, [*consts, *held, *rows])
        new = [_put(e, y, v, at) for y, v in zip(out, found[n_carry:], strict=True)]
        after = e.one("add", [i, e.constant(np.int32(1))], (), np.int32)
        return [after, *found[:n_carry], *new]

    return e.op("while", state, kinds, "", [e.block(kinds, going), e.block(kinds, step)])[1:]


def _at(e: Emitter, x: Typed, at: Typed) -> list[Typed]:
    return [at, *[e.constant(np.int32(0))] * (len(x.shape) - 1)]


def _taken(e: Emitter, x: Typed, at: Typed) -> Typed:
    """One element along the first axis."""
    row = dynamic_slice(e, x, _at(e, x, at), (1, *x.shape[1:]))
    return e.one("reshape", [row], x.shape[1:], x.dtype)


def _put(e: Emitter, x: Typed, value: Typed, at: Typed) -> Typed:
    """An array with one element along the first axis replaced."""
    row = e.one("reshape", [value], (1, *x.shape[1:]), x.dtype)
    return e.one("dynamic_update_slice", [x, row, *_at(e, x, at)], x.shape, x.dtype)


@rule("remat2")
def _remat(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    with e.within(*scopes_of(eqn), "checkpoint"):
        return e.program(eqn.params["jaxpr"], (), ins)


@rule("custom_linear_solve")
def _linear_solve(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    lengths, jaxprs = eqn.params["const_lengths"], eqn.params["jaxprs"]
    count = sum(lengths)
    before = sum(lengths[: tuple(lengths._fields).index("solve")])
    consts = ins[before : before + lengths.solve]
    return e.call(jaxprs.solve, [*consts, *ins[count:]], "solve")


# --- random keys ----------------------------------------------------------------------------------


def _threefry(impl: Any, params: dict[str, Any] | None = None) -> None:
    if not is_partitionable(params or {}):
        raise Unlowered("weft can't write random bits as StableHLO without threefry_partitionable")
    if impl != threefry_impl:
        raise Unlowered(
            f"weft can't write random keys of {impl.name} as StableHLO, only those of Threefry"
        )


def _words(e: Emitter, keys: Typed) -> list[Typed]:
    """The two words of every key."""
    shape = keys.shape[:-1]
    found = []
    for i in range(2):
        part = sliced(e, keys, [0] * len(shape) + [i], [*shape, i + 1])
        found.append(e.one("reshape", [part], shape, keys.dtype))
    return found


def _hashed(e: Emitter, k0: Typed, k1: Typed, x0: Typed, x1: Typed) -> list[Typed]:
    """The hash of counters under keys, all of one shape."""
    avals = [ShapedArray(x0.shape, np.dtype(np.uint32))] * 4
    return e.staged(lambda *xs: list(threefry2x32_p.decompose(*xs)), avals, [k0, k1, x0, x1])


def _joined(e: Emitter, first: Typed, second: Typed) -> Typed:
    """Keys of their two words."""
    shape = first.shape
    parts = [e.one("reshape", [x], (*shape, 1), x.dtype) for x in (first, second)]
    return e.one("concatenate", parts, (*shape, 2), np.uint32, f"dimension = {len(shape)} : i64")


def _counters(e: Emitter, keys: Typed, shape: Any) -> tuple[list[Typed], list[Typed]]:
    """The words of keys and of row-major positions in ``shape``, as large as both together."""
    batch = keys.shape[:-1]
    full = (*batch, *shape)
    count = prod(shape)
    if exceeds(count, (1 << 32) - 1):
        raise Unlowered("weft can't write random arrays of 2**32 or more elements as StableHLO")
    flat = e.one("iota", [], (count,), np.uint32, "iota_dimension = 0 : i64")
    low = e.one("reshape", [flat], shape, np.uint32)
    low = e.broadcast(low, full, range(len(batch), len(full)))
    high = e.broadcast(e.constant(np.uint32(0)), full)
    words = [e.broadcast(w, full, range(len(batch))) for w in _words(e, keys)]
    return words, [high, low]


@rule("random_seed")
def _seed(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    _threefry(eqn.params["impl"])
    (x,) = ins
    low = convert(e, x, np.uint32)
    high = e.broadcast(e.constant(np.uint32(0)), x.shape)
    if x.dtype.itemsize == 8:
        by = e.broadcast(e.constant(np.asarray(32, x.dtype)), x.shape)
        high = convert(e, e.one("shift_right_logical", [x, by], x.shape, x.dtype), np.uint32)
    return [_joined(e, high, low)]


@rule("random_split")
def _split(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    _threefry(eqn.invars[0].aval.dtype._impl, eqn.params)
    keys, counters = _counters(e, ins[0], eqn.params["shape"])
    return [_joined(e, *_hashed(e, *keys, *counters))]


@rule("random_fold_in")
def _fold_in(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    _threefry(eqn.invars[0].aval.dtype._impl)
    keys, data = ins
    shape = out_of(eqn)[0][:-1]
    first, second = (e.broadcast(w, shape, range(len(w.shape))) for w in _words(e, keys))
    data = e.broadcast(convert(e, data, np.uint32), shape, range(len(data.shape)))
    zero = e.broadcast(e.constant(np.uint32(0)), shape)
    return [_joined(e, *_hashed(e, first, second, zero, data))]


@rule("random_bits")
def _bits(e: Emitter, eqn: Any, ins: Any) -> list[Any]:
    _threefry(eqn.invars[0].aval.dtype._impl, eqn.params)
    width = eqn.params["bit_width"]
    keys, counters = _counters(e, ins[0], eqn.params["shape"])
    first, second = _hashed(e, *keys, *counters)
    shape = first.shape
    if width == 64:
        wide = [convert(e, x, np.uint64) for x in (first, second)]
        by = e.broadcast(e.constant(np.uint64(32)), shape)
        high = e.one("shift_left", [wide[0], by], shape, np.uint64)
        return [e.one("or", [high, wide[1]], shape, np.uint64)]
    mixed = e.one("xor", [first, second], shape, np.uint32)
    return [convert(e, mixed, np.dtype(f"uint{width}"))]
