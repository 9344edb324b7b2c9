"""What is checked at each primitive, and how errors pass through primitives that carry programs.

A rule is a function of the trace, the operands and the parameters; it computes the primitive in
the trace's parent and tells the trace what to look for.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft import dtypes
from weft import numpy as jnp
from weft.base.functional import split_list
from weft.base.record import Record
from weft.control.cond import cond_p
from weft.control.custom_jvp import custom_jvp_call_p
from weft.control.custom_rules import named
from weft.control.custom_vjp import custom_vjp_call_p
from weft.control.jit import jit_p
from weft.control.remat import remat_p
from weft.control.scan import scan_p
from weft.control.while_loop import while_p
from weft.core.ad import zeros
from weft.core.caches import per_program
from weft.core.jaxpr import ClosedJaxpr, jaxpr_as_fun
from weft.core.primitive import Primitive
from weft.core.registry import lookup
from weft.core.sharding import UNSPECIFIED, PartitionSpec
from weft.core.staging import stage
from weft.core.trace import Trace, extend_axis_env, state, typeof
from weft.division.programs.manual_axes import manual_scope
from weft.experimental.check_errors import (
    DivisionByZeroError,
    Error,
    ErrorEffect,
    Found,
    Metadata,
    NaNError,
    OOBError,
    any_of_all,
    count_values,
    division_by_zero,
    effects_of,
    flat_values,
    from_flat_values,
    init_error,
    joined,
    not_a_number,
    out_of_bounds,
    with_failure,
)
from weft.transforms.dce import close, convert_constvars

Rule = Callable[..., Any]
rules: dict[Primitive, Rule] = {}


class CheckTrace(Trace):
    """Applies the rules and collects the error; what it computes belongs to the parent."""

    __slots__ = ("parent", "enabled", "error")

    def __init__(self, parent: Trace, enabled: frozenset[Any]) -> None:
        self.alive = True
        self.parent = parent
        self.enabled = enabled
        self.error = init_error

    def process_primitive(self, primitive: Any, args: Any, params: dict[str, Any]) -> Any:
        previous = state.trace
        state.trace = self.parent
        try:
            rule = rules.get(primitive)
            if rule is None:
                return self.parent.process_primitive(primitive, args, params)
            return rule(self, args, params)
        finally:
            state.trace = previous

    def look_for(self, failed: Any, found: Found) -> None:
        """Note a failure, which happened if ``failed`` is true."""
        self.error = with_failure(self.error, failed, found)

    def add(self, error: Error) -> None:
        """Note the failures that a program inside has found."""
        self.error = joined(self.error, error)


def run_checked(fun: Rule, enabled: frozenset[Any], *args: Any) -> tuple[Error, Any]:
    """The errors and the result of a function."""
    parent = state.trace
    trace = CheckTrace(parent, enabled)
    state.trace = trace
    try:
        out = fun(*args)
    finally:
        state.trace = parent
        trace.alive = False
    return trace.error, out


def rule_for(*names: str) -> Callable[[Rule], Rule]:
    """Register a rule for the primitives of these names."""

    def register(rule: Rule) -> Rule:
        for name in names:
            primitive = lookup(name)
            rules[primitive] = lambda trace, args, params, p=primitive: rule(trace, p, args, params)
        return rule

    return register


# --- numbers --------------------------------------------------------------------------------------

_MAY_GIVE_NAN = """
acos acosh add asin asinh atan2 atan atanh bessel_i0e bessel_i1e cbrt conv_general_dilated cos cosh
cumlogsumexp cummax cummin cumprod cumsum custom_linear_solve digamma dot_general erf_inv erf erfc
exp expm1 fft igamma_grad_a igamma igammac integer_pow lgamma log1p log logistic mul pad pow psum
reduce reduce_prod reduce_sum reduce_window reduce_window_sum regularized_incomplete_beta rem
rng_uniform rsqrt sin sinh sqrt sub tan tanh
""".split()


@rule_for(*_MAY_GIVE_NAN)
def _check_result(trace: CheckTrace, primitive: Any, args: Any, params: Any) -> Any:
    out = primitive.bind(*args, **params)
    _look_for_nan(trace, primitive, out)
    return out


def _look_for_nan(trace: CheckTrace, primitive: Any, out: Any) -> None:
    if NaNError not in trace.enabled:
        return
    results = out if primitive.multiple_results else [out]
    inexact = [x for x in results if dtypes.issubdtype(typeof(x).dtype, np.inexact)]
    if inexact:
        found = functools.reduce(jnp.logical_or, [jnp.any(jnp.isnan(x)) for x in inexact])
        trace.look_for(found, not_a_number(primitive.name))


@rule_for("div")
def _check_division(trace: CheckTrace, primitive: Any, args: Any, params: Any) -> Any:
    if DivisionByZeroError in trace.enabled:
        trace.look_for(jnp.any(jnp.equal(args[1], 0)), division_by_zero())
    return _check_result(trace, primitive, args, params)


# --- indices --------------------------------------------------------------------------------------


def _look_for_outside(
    trace: CheckTrace, name: str, shape: Any, indices: Any, last: Any, axes: Any
) -> None:
    """Look for indices (one a column, for ``axes`` of an array of ``shape``) not in [0, last]."""
    dtype = indices.dtype
    last = np.minimum(np.asarray(last, np.int64), np.iinfo(dtype).max).astype(dtype)
    row = last.reshape((1,) * (indices.ndim - last.ndim) + last.shape)
    outside = (indices < 0) | (indices > row)
    place = jnp.argmax(outside)
    axis = jnp.asarray(np.array(axes, np.int32))[place % len(axes)]
    size = jnp.asarray(np.minimum(shape, np.iinfo(np.int32).max).astype(np.int32))[axis]
    index = jnp.ravel(indices)[place].astype(np.int32)
    trace.look_for(
        jnp.any(outside), out_of_bounds(name, tuple(shape), jnp.stack([index, axis, size]))
    )


@rule_for("dynamic_slice")
def _check_slice(trace: CheckTrace, primitive: Any, args: Any, params: Any) -> Any:
    operand, *starts = args
    shape = np.shape(operand)
    if OOBError in trace.enabled and starts:
        last = np.subtract(shape, params["slice_sizes"])
        axes = range(len(shape))
        _look_for_outside(trace, primitive.name, shape, _stacked(starts), last, axes)
    return primitive.bind(*args, **params)


@rule_for("dynamic_update_slice")
def _check_update(trace: CheckTrace, primitive: Any, args: Any, params: Any) -> Any:
    operand, update, *starts = args
    shape = np.shape(operand)
    if OOBError in trace.enabled and starts:
        last = np.subtract(shape, np.shape(update))
        axes = range(len(shape))
        _look_for_outside(trace, primitive.name, shape, _stacked(starts), last, axes)
    return primitive.bind(*args, **params)


def _stacked(starts: Sequence[Any]) -> Any:
    return jnp.stack([jnp.asarray(s) for s in starts])


@rule_for("gather")
def _check_gather(trace: CheckTrace, primitive: Any, args: Any, params: Any) -> Any:
    operand, indices = args
    axes = params["dimension_numbers"].start_index_map
    if OOBError in trace.enabled and axes and np.size(indices):
        shape = np.shape(operand)
        last = [shape[i] - params["slice_sizes"][i] for i in axes]
        _look_for_outside(trace, primitive.name, shape, jnp.asarray(indices), last, axes)
    return primitive.bind(*args, **params)


@rule_for("scatter", "scatter-add", "scatter-mul", "scatter-min", "scatter-max")
def _check_scatter(trace: CheckTrace, primitive: Any, args: Any, params: Any) -> Any:
    operand, indices, updates = args
    numbers = params["dimension_numbers"]
    out = primitive.bind(*args, **params)
    if OOBError not in trace.enabled:
        return out
    axes = numbers.scatter_dims_to_operand_dims
    if axes and np.size(indices):
        shape = np.shape(operand)
        absent = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
        window = iter(np.shape(updates)[i] for i in numbers.update_window_dims)
        sizes = [1 if i in absent else next(window) for i in range(len(shape))]
        last = [shape[i] - sizes[i] for i in axes]
        _look_for_outside(trace, primitive.name, shape, jnp.asarray(indices), last, axes)
    _look_for_nan(trace, primitive, out)
    return out


# --- programs -------------------------------------------------------------------------------------


class Checked(Record):
    """A program that returns the values of its errors, then its results."""

    program: ClosedJaxpr
    effects: list[ErrorEffect]
    metadata: Metadata


def checked_program(
    closed: ClosedJaxpr, enabled: frozenset[Any], effects: Sequence[ErrorEffect] | None = None
) -> Checked:
    """A program with its checks; ``effects`` are all that it returns, if they are given."""
    return _checked_once(closed, enabled, None if effects is None else tuple(effects))


@per_program
def _checked_once(
    closed: ClosedJaxpr, enabled: frozenset[Any], effects: tuple[ErrorEffect, ...] | None
) -> Checked:
    return _checked(jaxpr_as_fun(closed), closed, enabled, effects)


def _checked(
    fun: Rule, closed: ClosedJaxpr, enabled: frozenset[Any], wanted: Sequence[ErrorEffect] | None
) -> Checked:
    kept: list[Any] = []  # of the error only what is no tracer

    def with_errors(*args: Any) -> list[Any]:
        error, outs = run_checked(fun, enabled, *args)
        if wanted is not None:
            error = any_of_all(error)
        effects = effects_of(error) if wanted is None else list(wanted)
        kept.extend((effects, error._metadata))
        return [*flat_values(error, effects), *outs]

    program = stage(with_errors, closed.in_avals, closed.debug_info)
    return Checked(program, *kept)


def _results(trace: CheckTrace, effects: Any, metadata: Any, values: Any) -> list[Any]:
    """The results among the values of a checked program; the errors go to the trace."""
    count = count_values(effects)
    trace.add(from_flat_values(effects, values[:count], metadata))
    return values[count:]


@rule_for("jit")
def _check_jit(trace: CheckTrace, primitive: Any, args: Any, params: Any) -> Any:
    program, effects, metadata = checked_program(params["jaxpr"], trace.enabled)
    if not effects:
        return jit_p.bind(*args, **dict(params, jaxpr=program))
    count = count_values(effects)
    outs = jit_p.bind(
        *args,
        **dict(
            params,
            jaxpr=program,
            out_shardings=(UNSPECIFIED,) * count + tuple(params["out_shardings"]),
            out_layouts=(None,) * count + tuple(params["out_layouts"]),
        ),
    )
    return _results(trace, effects, metadata, outs)


@rule_for("shard_map")
def _check_shard_map(trace: CheckTrace, primitive: Any, args: Any, params: Any) -> Any:
    """Errors of all devices, in a row along a first axis."""
    closed, mesh, manual = params["jaxpr"], params["mesh"], params["manual_axes"]
    names = tuple(n for n in mesh.axis_names if n in manual)
    fun, kept = jaxpr_as_fun(closed), []

    def with_errors(*args: Any) -> list[Any]:
        error, outs = run_checked(fun, trace.enabled, *args)
        effects = effects_of(error)
        kept.extend((effects, error._metadata))
        return [*(jnp.reshape(x, (1, *np.shape(x))) for x in flat_values(error, effects)), *outs]

    sizes = [(n, mesh.shape[n]) for n in names]
    scope = manual_scope(mesh, manual if params["check_vma"] else None)
    with extend_axis_env(sizes), scope:
        program = stage(with_errors, closed.in_avals, closed.debug_info)
    effects, metadata = kept
    rows = (PartitionSpec(names),) * count_values(effects)
    new_params = dict(params, jaxpr=program, out_specs=rows + tuple(params["out_specs"]))
    return _results(trace, effects, metadata, primitive.bind(*args, **new_params))


@rule_for("remat2")
def _check_remat(trace: CheckTrace, primitive: Any, args: Any, params: Any) -> Any:
    program, effects, metadata = checked_program(close(params["jaxpr"]), trace.enabled)
    consts, prevent_cse = program.consts, params["prevent_cse"]
    if isinstance(prevent_cse, tuple):
        prevent_cse = (False,) * len(consts) + prevent_cse
    new_params = dict(params, jaxpr=convert_constvars(program.jaxpr), prevent_cse=prevent_cse)
    return _results(trace, effects, metadata, remat_p.bind(*consts, *args, **new_params))


@rule_for("cond")
def _check_cond(trace: CheckTrace, primitive: Any, args: Any, params: Any) -> Any:
    branches = params["branches"]
    found = [checked_program(b, trace.enabled) for b in branches]
    effects = sorted({e for each in found for e in each.effects})
    checked = [checked_program(b, trace.enabled, effects) for b in branches]
    metadata = Metadata({k: v for each in checked for k, v in each.metadata.items()})
    new_params = dict(params, branches=tuple(each.program for each in checked))
    return _results(trace, effects, metadata, cond_p.bind(*args, **new_params))


@rule_for("scan")
def _check_scan(trace: CheckTrace, primitive: Any, args: Any, params: Any) -> Any:
    body, n_consts, n_carry = params["jaxpr"], params["num_consts"], params["num_carry"]
    effects = checked_program(body, trace.enabled).effects
    if not effects:
        return scan_p.bind(*args, **params)
    blank = flat_values(init_error, effects)
    consts, carry, xs = split_list(args, [n_consts, n_carry])
    const_avals, avals = body.in_avals[:n_consts], body.in_avals[n_consts:]
    looped = _carrying(body, trace.enabled, effects, n_consts, [*const_avals], avals)
    outs = scan_p.bind(
        *consts,
        *blank,
        *carry,
        *xs,
        **dict(params, jaxpr=looped.program, num_carry=n_carry + len(blank)),
    )
    return _results(trace, effects, looped.metadata, outs)


def _carrying(
    closed: ClosedJaxpr,
    enabled: frozenset[Any],
    effects: list[ErrorEffect],
    n_consts: int,
    const_avals: Sequence[Any],
    avals: Sequence[Any],
    after: Rule | None = None,
) -> Checked:
    """A loop's body that takes an error behind its constants and returns it joined with its own.

    ``after(consts, outs)`` is looked at for errors too; it may read more constants than the body,
    which come first.
    """
    fun = jaxpr_as_fun(closed)
    count = count_values(effects)
    error_avals = [typeof(x) for x in flat_values(init_error, effects)]
    metadata = Metadata()

    def body(*args: Any) -> list[Any]:
        consts, values, rest = split_list(args, [len(const_avals), count])

        def step() -> list[Any]:
            outs = fun(*consts[len(consts) - n_consts :], *rest)
            if after is not None:
                after(consts, outs)
            return outs

        error, outs = run_checked(step, enabled)
        error = any_of_all(error)
        metadata.update(error._metadata)
        before = from_flat_values(effects, values, metadata)
        return [*flat_values(joined(before, error), effects), *outs]

    program = stage(body, [*const_avals, *error_avals, *avals], None)
    return Checked(program, effects, metadata)


@rule_for("while")
def _check_while(trace: CheckTrace, primitive: Any, args: Any, params: Any) -> Any:
    cond, body = params["cond_jaxpr"], params["body_jaxpr"]
    n_cond, n_body = params["cond_nconsts"], params["body_nconsts"]
    enabled = trace.enabled
    in_cond, in_body = (checked_program(p, enabled).effects for p in (cond, body))
    effects = sorted({*in_cond, *in_body})
    if not effects:
        return while_p.bind(*args, **params)
    if cond.out_avals[0].shape:
        raise ValueError(
            "checkify cannot go through a while loop whose condition is batched (checkify of vmap"
            " of while_loop); write vmap of checkify instead"
        )
    cond_consts, body_consts, carry = split_list(args, [n_cond, n_body])
    going = jaxpr_as_fun(cond)
    first, _ = run_checked(going, enabled, *cond_consts, *carry)
    trace.add(first)
    looped = _carrying(
        body,
        enabled,
        effects,
        n_body,
        [*cond.in_avals[:n_cond], *body.in_avals[:n_body]],
        body.in_avals[n_body:],
        lambda consts, outs: going(*consts[:n_cond], *outs),
    )
    blank = flat_values(init_error, effects)
    outs = while_p.bind(
        *cond_consts,
        *cond_consts,
        *body_consts,
        *blank,
        *carry,
        cond_nconsts=n_cond,
        cond_jaxpr=_ignoring(cond, n_cond, [typeof(x) for x in blank]),
        body_nconsts=n_cond + n_body,
        body_jaxpr=looped.program,
    )
    return _results(trace, effects, looped.metadata, outs)


def _ignoring(closed: ClosedJaxpr, position: int, avals: Sequence[Any]) -> ClosedJaxpr:
    """The program with inputs that it does not read, and without effects."""
    fun, count = jaxpr_as_fun(closed), len(avals)

    def without(*args: Any) -> list[Any]:
        rest = [*args[:position], *args[position + count :]]
        return run_checked(fun, frozenset(), *rest)[1]

    in_avals = closed.in_avals
    return stage(without, [*in_avals[:position], *avals, *in_avals[position:]], None)


# --- custom rules ---------------------------------------------------------------------------------


class _Decided:
    """The errors that a function and its derivative rules return: those of whoever runs first."""

    def __init__(self, enabled: frozenset[Any]) -> None:
        self.enabled = enabled
        self.effects: list[ErrorEffect] | None = None
        self.metadata = Metadata()

    def run(self, fun: Rule, *args: Any) -> tuple[list[Any], Any]:
        error, out = run_checked(fun, self.enabled, *args)
        if self.effects is None:
            self.effects = effects_of(error)
        self.metadata.update(error._metadata)
        return flat_values(error, self.effects), out

    def count(self) -> int:
        return count_values(self.effects or [])


@rule_for("custom_jvp_call")
def _check_custom_jvp(trace: CheckTrace, primitive: Any, args: Any, params: Any) -> Any:
    fun, rule, decided = params["fun"], params["jvp"], _Decided(trace.enabled)

    def checked_fun(*args: Any) -> list[Any]:
        values, outs = decided.run(fun, *args)
        return [*values, *outs]

    def checked_rule(*args: Any) -> list[Any]:
        values, outs = decided.run(rule, *args)
        half = len(outs) // 2
        still = [zeros(typeof(x).to_tangent_aval()) for x in values]
        return [*values, *outs[:half], *still, *outs[half:]]

    checked_fun.debug_info = getattr(fun, "debug_info", None)  # type: ignore[attr-defined]
    new_params = dict(params, fun=checked_fun, jvp=named(checked_rule, rule))
    outs = custom_jvp_call_p.bind(*args, **new_params)
    return _results(trace, decided.effects or [], decided.metadata, outs)


@rule_for("custom_vjp_call")
def _check_custom_vjp(trace: CheckTrace, primitive: Any, args: Any, params: Any) -> Any:
    fun, fwd, bwd = params["fun"], params["fwd"], params["bwd"]
    decided = _Decided(trace.enabled)

    def checked_fun(*args: Any) -> list[Any]:
        values, outs = decided.run(fun, *args)
        return [*values, *outs]

    def checked_fwd(args: Any, perturbed: Any) -> Any:
        values, (outs, residuals, context) = decided.run(fwd, args, perturbed)
        return [*values, *outs], residuals, context

    def checked_bwd(context: Any, residuals: Any, cts: Any) -> list[Any]:
        return bwd(context, residuals, cts[decided.count() :])

    checked_fun.debug_info = getattr(fun, "debug_info", None)  # type: ignore[attr-defined]
    new_params = dict(
        params, fun=checked_fun, fwd=named(checked_fwd, fwd), bwd=named(checked_bwd, bwd)
    )
    outs = custom_vjp_call_p.bind(*args, **new_params)
    return _results(trace, decided.effects or [], decided.metadata, outs)
