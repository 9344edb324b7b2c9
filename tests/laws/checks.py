"""The laws that every primitive keeps, as checks of one sample at one dtype."""

from __future__ import annotations

import itertools
from contextlib import contextmanager

import numpy as np

import weft
from tests.samples import WIDE
from weft import dtypes
from weft.core.interpret import has_data, literal_value, settle, storage_dtype
from weft.core.jaxpr import Literal, subjaxprs
from weft.core.registry import lookup
from weft.core.trace import extend_axis_env
from weft.core.verify import check_jaxpr
from weft.transforms.partial_eval import partial_eval_jaxpr

# Central differences in float64: the step balances truncation (step², here 1e-10) against
# rounding (1e-16 / step, here 1e-11), both times derivatives of higher order.
STEP = 1e-5
DIFFERENCE_TOLERANCE = 1e-6
# Sums of products of a few hundred float64 numbers.
INNER_TOLERANCE = 1e-9


@contextmanager
def precision(dtype):
    """64-bit types where the sample's dtype is one."""
    with weft.enable_x64(dtype in WIDE):
        yield


def seed_of(sample):
    return np.random.default_rng(sum(map(ord, sample.name)))


def leaves(tree):
    return [x for x in weft.tree.leaves(tree) if has_data(weft.typeof(x))]


def arrays(tree):
    return [np.asarray(x) for x in leaves(tree)]


def is_inexact(x):
    return dtypes.issubdtype(weft.typeof(x).dtype, np.inexact)


def spread(sample, fun, in_axes=0):
    """``fun`` under the mapped axis that the sample speaks to, if it does."""
    if sample.axis is None:
        return fun
    name, size = sample.axis
    return weft.vmap(fun, in_axes=in_axes, axis_name=name, axis_size=size)


def axis_env(sample):
    return [] if sample.axis is None else [sample.axis]


def member(sample, args):
    """The operands of one member of the sample's mapped axis."""
    return args if sample.axis is None else [x[0] for x in args]


def stage(sample, fun, *args):
    return weft.make_jaxpr(fun, axis_env=axis_env(sample))(*args)


# --- 1: shape -------------------------------------------------------------------------------------


def check_shape(sample, dtype):
    """Shapes and dtypes that are declared are those of the references, equation by equation."""
    args = sample.operands(dtype, seed_of(sample))
    fun = sample.function(dtype)
    closed = stage(sample, fun, *member(sample, args))
    if "ref" not in lookup(sample.prim).holes:
        assert sample.prim in primitives_of(closed.jaxpr), f"{sample.prim} is not in {closed}"
    if sample.axis is None:
        run_references(closed, args)
        for x, aval in zip(weft.tree.leaves(fun(*args)), closed.out_avals, strict=True):
            assert weft.typeof(x) == aval, f"eagerly {weft.typeof(x)}, staged {aval}"
    else:
        out = weft.tree.leaves(spread(sample, fun)(*args))
        for x, aval in zip(out, closed.out_avals, strict=True):
            assert (x.shape[1:], x.dtype) == (aval.shape, aval.dtype)


def primitives_of(jaxpr):
    found, stack = set(), [jaxpr]
    while stack:
        current = stack.pop()
        found.update(eqn.primitive.name for eqn in current.eqns)
        stack.extend(subjaxprs(current))
    return found


def run_references(closed, args):
    """Evaluate a program by references alone, comparing each result with its declared type."""
    jaxpr = closed.jaxpr
    env = dict(zip(jaxpr.constvars, map(np.asarray, closed.consts), strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))
    for eqn in jaxpr.eqns:
        values = [literal_value(x) if type(x) is Literal else env[x] for x in eqn.invars]
        with np.errstate(all="ignore"):
            results = eqn.primitive.ref(*values, **eqn.params)
        results = results if eqn.primitive.multiple_results else [results]
        assert len(results) == len(eqn.outvars), f"{eqn.primitive} gives {len(results)} results"
        for v, value in zip(eqn.outvars, results, strict=True):
            if has_data(v.aval):
                check_reference(eqn, v.aval, np.asarray(value))
                value = settle(value, v.aval)
            env[v] = value


def check_reference(eqn, aval, value):
    """The declared shape; the declared dtype, or a wider one of the same kind."""
    assert value.shape == aval.shape, f"{eqn}: reference of shape {value.shape}, not {aval}"
    declared = storage_dtype(aval.dtype)
    same_kind = any(
        dtypes.issubdtype(value.dtype, kind) and dtypes.issubdtype(declared, kind)
        for kind in (np.bool_, np.integer, np.floating, np.complexfloating)
    )
    wide_enough = same_kind and value.dtype.itemsize >= declared.itemsize
    assert value.dtype == declared or wide_enough, f"{eqn}: reference of dtype {value.dtype}"


# --- comparison -----------------------------------------------------------------------------------


def comparable(x):
    x = np.asarray(x)
    if x.dtype == dtypes.float0 or x.dtype.kind in "biuc" or x.dtype in (np.float32, np.float64):
        return x
    return x.astype(np.int64 if dtypes.issubdtype(x.dtype, np.integer) else np.float64)


def assert_close(got, want, ulps, message):
    """Equal integers; floats within ``ulps`` rounding errors of the largest finite element."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape, f"{message}: shape {got.shape}, not {want.shape}"
    assert got.dtype == want.dtype, f"{message}: dtype {got.dtype}, not {want.dtype}"
    if not dtypes.issubdtype(got.dtype, np.inexact) or not got.size:
        np.testing.assert_array_equal(comparable(got), comparable(want), message)
        return
    eps = float(dtypes.finfo(got.dtype).eps)
    got, want = comparable(got), comparable(want)
    finite = np.isfinite(want)
    scale = np.abs(want[finite]).max(initial=0.0)
    bound = ulps * eps * float(scale)
    np.testing.assert_allclose(got, want, rtol=ulps * eps, atol=bound, err_msg=message)


def assert_same_bits(got, want, message=""):
    """Equal to the bit, the sign of zeros too; NaN is NaN."""
    if dtypes.issubdtype(want.dtype, np.inexact):
        nan = want != want
        assert np.array_equal(got != got, nan), message
        got, want = (np.where(nan, np.zeros((), x.dtype), x) for x in (got, want))
    assert got.tobytes() == want.tobytes(), f"{message}: {got} instead of {want}"


# --- 3 and 4: derivatives -------------------------------------------------------------------------


def double(sample):
    """The 64-bit inexact dtypes at which the sample's derivatives are checked."""
    found = []
    for name in sample.dtypes:
        wide = {"float32": "float64", "complex64": "complex128"}.get(name, name)
        if wide in ("float64", "complex128") and wide not in found:
            found.append(wide)
    return found


class Slope:
    """A sample as a function of the operands that it is differentiated by."""

    def __init__(self, sample, dtype, wrt=None):
        rng = seed_of(sample)
        self.sample = sample
        self.args = sample.operands(dtype, rng)
        chosen = sample.wrt if wrt is None else wrt
        everything = range(len(self.args))
        self.wrt = [
            i for i in (everything if chosen is None else chosen) if is_inexact(self.args[i])
        ]
        self.points = [self.args[i] for i in self.wrt]
        self.directions = [direction(x, rng) for x in self.points]
        self.rest = [x for i, x in enumerate(self.args) if i not in self.wrt]
        self.fun = sample.function(dtype)
        self.rng = rng

    def member(self, rest, points):
        """The inexact results for one member of the sample's mapped axis."""
        rest, given = iter(rest), dict(zip(self.wrt, points, strict=True))
        args = [given[i] if i in given else next(rest) for i in range(len(self.args))]
        return [x for x in leaves(self.fun(*args)) if is_inexact(x)]

    def value(self, *points):
        return spread(self.sample, lambda rest, points: self.member(rest, points))(
            self.rest, list(points)
        )

    def tangent(self, *points):
        """The tangents in the chosen direction."""

        def of_member(rest, points, directions):
            f = lambda *p: self.member(rest, p)
            return weft.jvp(f, tuple(points), tuple(directions))[1]

        return spread(self.sample, of_member)(self.rest, list(points), self.directions)

    def second_tangent(self, *points):
        def of_member(rest, points, directions):
            f = lambda *p: self.member(rest, p)
            t = tuple(directions)
            return weft.jvp(lambda *p: weft.jvp(f, p, t)[1], tuple(points), t)[1]

        return spread(self.sample, of_member)(self.rest, list(points), self.directions)

    def pull(self, cotangents):
        def of_member(rest, points, cotangents):
            return list(weft.vjp(lambda *p: self.member(rest, p), *points)[1](cotangents))

        return spread(self.sample, of_member)(self.rest, self.points, cotangents)

    def differences(self, f):
        ahead = [x + STEP * t for x, t in zip(self.points, self.directions, strict=True)]
        behind = [x - STEP * t for x, t in zip(self.points, self.directions, strict=True)]
        return [
            # what does not change, infinities of empty windows included, has difference zero
            np.subtract(a, b, out=np.zeros_like(a), where=a != b) / (2 * STEP)
            for a, b in zip(arrays(f(*ahead)), arrays(f(*behind)), strict=True)
        ]


def direction(x, rng):
    d = rng.standard_normal(x.shape)
    if x.dtype.kind == "c":
        d = d + 1j * rng.standard_normal(x.shape)
    return d.astype(x.dtype)


def check_jvp(sample, dtype):
    """Tangents are the limits of differences; so are the tangents of tangents."""
    slope = Slope(sample, dtype)
    if not slope.wrt:
        return
    compare_slopes(slope.tangent(*slope.points), slope.differences(slope.value), "first")
    if sample.order > 1:
        second = slope.second_tangent(*slope.points)
        compare_slopes(second, slope.differences(slope.tangent), "second")


def compare_slopes(tangents, differences, which):
    for t, d in zip(arrays(tangents), differences, strict=True):
        scale = 1 + np.abs(d).max(initial=0.0)
        tolerance = DIFFERENCE_TOLERANCE * scale
        message = f"{which} derivative"
        np.testing.assert_allclose(t, d, rtol=0, atol=tolerance, err_msg=message)


def inner(xs, ys):
    """The real part of the bilinear product: cotangents are transposed, not conjugated."""
    return float(sum(np.sum(comparable(x) * comparable(y)).real for x, y in zip(xs, ys)))


def size_of(xs, ys):
    return 1 + float(sum(np.abs(comparable(x) * comparable(y)).sum() for x, y in zip(xs, ys)))


def inner_tolerance(results):
    """The bound for float64, or what results of a narrower dtype allow."""
    eps = [float(dtypes.finfo(x.dtype).eps) for x in arrays(results)]
    return max([INNER_TOLERANCE, *(16 * e for e in eps)])


def check_reverse(sample, dtype):
    """The derivative and its transpose have the same inner products."""
    slope = Slope(sample, dtype)
    if not slope.wrt:
        return
    tangents = slope.tangent(*slope.points)
    cotangents = [direction(np.asarray(t), slope.rng) for t in tangents]
    back = slope.pull(cotangents)
    forward = inner(tangents, cotangents)
    bound = max(size_of(tangents, cotangents), size_of(back, slope.directions))
    assert abs(forward - inner(back, slope.directions)) <= inner_tolerance(tangents) * bound


def check_transpose(sample, dtype, positions):
    """``<A x, y> = <x, Aᵀ y>`` for the call itself, linear in the operands at ``positions``."""
    slope = Slope(sample, dtype, positions)
    # Operands that are held fixed may add a constant, as in x + c.
    constant = slope.value(*map(np.zeros_like, slope.points))
    image = [np.asarray(y) - c for y, c in zip(slope.value(*slope.directions), constant)]
    cotangents = [direction(np.asarray(y), slope.rng) for y in image]

    def of_member(rest, points, cotangents):
        linear = lambda *p: slope.member(rest, p)
        return list(weft.linear_transpose(linear, *points)(cotangents))

    back = spread(sample, of_member)(slope.rest, slope.points, cotangents)
    for x, ct in zip(slope.points, back, strict=True):
        assert (x.shape, x.dtype) == (ct.shape, ct.dtype), f"cotangent {ct.aval} of {x.dtype}"
    forward, backward = inner(image, cotangents), inner(slope.directions, back)
    assert abs(forward - backward) <= INNER_TOLERANCE * size_of(image, cotangents)


# --- 5: batching ----------------------------------------------------------------------------------

BATCH = 2


def check_batch(sample, dtype):
    """A batch gives what its members give one after the other, whatever axis is mapped."""
    rng = seed_of(sample)
    draws = [sample.operands(dtype, rng) for _ in range(BATCH)]
    fun = sample.function(dtype)
    lead = 0 if sample.axis is None else 1
    for places in mapped_places(sample, draws[0], lead):
        args = [
            draws[0][i] if p is None else np.stack([d[i] for d in draws], p + lead)
            for i, p in enumerate(places)
        ]
        members = [
            [d[i] if p is not None else draws[0][i] for i, p in enumerate(places)] for d in draws
        ]
        over = weft.vmap(fun, in_axes=tuple(places), out_axes=0)
        got = arrays(spread(sample, over)(*args))
        singles = [arrays(spread(sample, fun)(*m)) for m in members]
        for k, result in enumerate(got):
            want = np.stack([s[k] for s in singles], lead)
            assert_close(result, want, sample.tol, f"operands mapped at {places}, result {k}")


def mapped_places(sample, args, lead):
    """Where operands are mapped: each alone at each axis, all in front, all at different axes."""
    free = range(len(args)) if sample.mapped is None else sample.mapped
    ranks = [np.ndim(x) - lead for x in args]
    found = []
    for i in free:
        for axis in range(ranks[i] + 1):
            found.append([axis if j == i else None for j in range(len(args))])
    if len(free) > 1:
        found.append([0 if i in free else None for i in range(len(args))])
        found.append([ranks[i] if i in free else None for i in range(len(args))])
    for left, right in itertools.combinations(list(free)[:3], 2):
        both = [None] * len(args)
        both[left], both[right] = 0, ranks[right]
        found.append(both)
    return found


# --- 6: jit ---------------------------------------------------------------------------------------


# Primitives that add up in another order natively than their references do.
INEXACT = frozenset(
    "dot_general reduce_sum reduce_prod reduce_scatter conv_general_dilated reduce_window_sum"
    " select_and_scatter_add fft cholesky triangular_solve cumsum cumprod cumlogsumexp scatter-add"
    " extreme_tangent scatter-mul lu geqrf geqp3 householder_product qr eigh eig svd schur"
    " hessenberg tridiagonal tridiagonal_solve triangular_sylvester ormqr ragged_dot_general"
    " symmetric_product cholesky_update psum".split()
)


def is_exact(sample, dtype, args):
    """Whether nothing in the sample's program is rounded in another way natively."""
    closed = stage(sample, sample.function(dtype), *member(sample, args))
    stack = [closed.jaxpr]
    while stack:
        jaxpr = stack.pop()
        stack.extend(subjaxprs(jaxpr))
        for eqn in jaxpr.eqns:
            if eqn.primitive.costly or eqn.primitive.name in INEXACT:
                return False
            # products of complex numbers are rounded part by part, or not
            if any(getattr(getattr(x.aval, "dtype", None), "kind", "") == "c" for x in eqn.invars):
                return False
    return True


def check_jit(sample, dtype):
    """Jitted is eager, to the bit where nothing is summed in another order; and the function runs
    once for operands of the same types."""
    rng = seed_of(sample)
    first, second = sample.operands(dtype, rng), sample.operands(dtype, rng)
    fun = sample.function(dtype)
    runs = []

    def counted(*args):
        runs.append(None)
        return fun(*args)

    jitted = weft.jit(counted)
    exact = is_exact(sample, dtype, first)
    for args in (first, second):
        got = weft.tree.leaves(spread(sample, jitted)(*args))
        want = weft.tree.leaves(spread(sample, fun)(*args))
        for a, b in zip(got, want, strict=True):
            if has_data(weft.typeof(a)):
                assert weft.typeof(a) == weft.typeof(b)
                if exact:
                    assert_same_bits(np.asarray(a), np.asarray(b), "jitted and eagerly")
                else:
                    assert_close(a, b, max(sample.tol, 4.0), "jitted and eagerly")
    assert len(runs) == 1, f"the function was run {len(runs)} times"


# --- 8: programs verify ---------------------------------------------------------------------------


def verify(sample, program):
    with extend_axis_env(axis_env(sample)):
        check_jaxpr(program)


def check_programs(sample, dtype):
    """Programs are well typed as staged, differentiated, batched, split and transposed."""
    args = sample.operands(dtype, seed_of(sample))
    fun = sample.function(dtype)
    points = member(sample, args)
    verify(sample, stage(sample, fun, *points))
    free = range(len(points)) if sample.mapped is None else sample.mapped
    if free and "batch" not in lookup(sample.prim).holes:
        places = tuple(0 if i in free else None for i in range(len(points)))
        stacked = [x if p is None else np.stack([x, x]) for x, p in zip(points, places)]
        verify(sample, stage(sample, weft.vmap(fun, in_axes=places), *stacked))
    if differentiates(sample, args):
        check_derivative_programs(sample, dtype)


def differentiates(sample, args):
    """Whether there is something to differentiate by, and a rule for it."""
    chosen = range(len(args)) if sample.wrt is None else sample.wrt
    return "jvp" not in lookup(sample.prim).holes and any(is_inexact(args[i]) for i in chosen)


def check_derivative_programs(sample, dtype):
    slope = Slope(sample, dtype)
    points, rest = member(sample, slope.points), member(sample, slope.rest)
    f = lambda *p: slope.member(rest, p)
    half = len(points)

    def forward(*both):
        return weft.jvp(f, both[:half], both[half:])

    def backward(*points):
        outs, pull = weft.vjp(f, *points)
        return pull(outs)

    tangents = stage(sample, forward, *points, *points)
    verify(sample, tangents)
    unknown = [i >= half for i in range(2 * half)]
    with extend_axis_env(axis_env(sample)):
        known, later, *_ = partial_eval_jaxpr(tangents, unknown, False)
    verify(sample, known)
    verify(sample, later)
    if sample.reverse:
        verify(sample, stage(sample, backward, *points))
