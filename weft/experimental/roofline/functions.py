"""``roofline``: a function's program, walked and counted."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from weft import numpy as jnp
from weft.api.autodiff import vjp as _vjp
from weft.api.staging import make_jaxpr
from weft.core.jaxpr import ClosedJaxpr, Jaxpr, Literal
from weft.core.shape_dtype import ShapeDtypeStruct
from weft.core.sharding import NamedSharding
from weft.experimental.roofline.counting import (
    RooflineResult,
    RooflineRuleContext,
    RooflineShape,
)
from weft.experimental.roofline.rules import rules
from weft.parallel.shard_map import shard_map
from weft.transforms.dce import dce_jaxpr
from weft.tree.compare import broadcast_prefix
from weft.tree.functions import tree_flatten, tree_map, tree_unflatten

__all__ = ["roofline", "roofline_and_grad"]


def roofline(
    f: Callable[..., Any],
    mesh: Any = None,
    in_specs: Any = None,
    out_specs: Any = None,
    *,
    pin_lhs_in_vmem: bool = False,
    pin_rhs_in_vmem: bool = False,
    vjp: bool = False,
    print_jaxpr: bool = False,
) -> Callable[..., Any]:
    """A function that gives the types of results of ``f``, and what it computes and moves.

    With a mesh and specs it counts the part of one device. ``vjp`` counts the derivative instead;
    ``pin_lhs_in_vmem`` and ``pin_rhs_in_vmem`` take operands of products to be in fast memory.

    >>> import weft.numpy as jnp
    >>> from weft.experimental.roofline import roofline
    >>> shape, counted = roofline(jnp.dot)(jnp.ones((2, 3)), jnp.ones((3, 4)))
    >>> counted.flops, counted.hbm_bytes
    (48, 104)
    """

    @functools.wraps(f)
    def counted(*args: Any) -> Any:
        fun = _derivative(f) if vjp else f
        if mesh is not None and in_specs is not None and out_specs is not None:
            specs = {"in_specs": in_specs, "out_specs": in_specs if vjp else out_specs}
            fun = shard_map(fun, mesh=mesh, **specs, check_vma=not vjp)
        closed, shapes = make_jaxpr(fun, return_shape=True)(*args)
        if mesh is not None and out_specs is not None and not vjp:
            leaves, tree = tree_flatten(shapes)
            placed = zip(leaves, broadcast_prefix(out_specs, shapes), strict=True)
            shapes = tree_unflatten(
                tree, [x.update(sharding=NamedSharding(mesh, spec)) for x, spec in placed]
            )
        jaxpr = _of_used(closed.jaxpr)
        for eqn in jaxpr.eqns:
            if eqn.primitive.name == "shard_map":
                jaxpr = _of_used(_opened(eqn.params["jaxpr"]))
        if print_jaxpr:
            print(jaxpr)
        pins = {"pin_lhs_in_vmem": pin_lhs_in_vmem, "pin_rhs_in_vmem": pin_rhs_in_vmem}
        return shapes, _count(jaxpr, mesh, pins)

    return counted


def roofline_and_grad(
    f: Callable[..., Any],
    mesh: Any,
    in_specs: Any,
    out_specs: Any,
    *,
    pin_lhs_in_vmem: bool = False,
    pin_rhs_in_vmem: bool = False,
    print_jaxpr: bool = False,
) -> Callable[..., Any]:
    """The same of a function and of its derivative, which is taken in bfloat16.

    >>> import weft, weft.numpy as jnp
    >>> from weft.experimental.roofline import roofline_and_grad
    >>> mesh, spec = weft.make_mesh((1,), "x", (weft.sharding.AxisType.Auto,)), weft.P()
    >>> where = weft.NamedSharding(mesh, spec)
    >>> x = weft.ShapeDtypeStruct((4, 4), jnp.bfloat16, sharding=where)
    >>> _, forward, backward = roofline_and_grad(jnp.dot, mesh, (spec, spec), spec)(x, x)
    >>> backward.flops // forward.flops
    2
    """
    pins = {"pin_lhs_in_vmem": pin_lhs_in_vmem, "pin_rhs_in_vmem": pin_rhs_in_vmem}
    options = {**pins, "print_jaxpr": print_jaxpr}

    def narrow(x: Any) -> ShapeDtypeStruct:
        dtype = jnp.int32 if x.dtype == jnp.int32 else jnp.bfloat16
        return ShapeDtypeStruct(x.shape, dtype, sharding=getattr(x, "sharding", None))

    @functools.wraps(f)
    def counted(*args: Any) -> Any:
        shapes, forward = roofline(f, mesh, in_specs, out_specs, **options)(*args)
        both = roofline(f, mesh, in_specs, out_specs, vjp=True, **options)
        return shapes, forward, both(*tree_map(narrow, args))[1]

    return counted


def _derivative(f: Callable[..., Any]) -> Callable[..., Any]:
    """The function that gives cotangents of arguments, for cotangents in bfloat16."""

    @functools.wraps(f)
    def pulled(*args: Any) -> Any:
        primals, pull = _vjp(f, *args)
        return pull(tree_map(lambda x: jnp.zeros(x.shape, jnp.bfloat16), primals))

    return pulled


def _of_used(jaxpr: Jaxpr) -> Jaxpr:
    return dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars))[0]


def _opened(program: Any) -> Jaxpr:
    return program.jaxpr if isinstance(program, ClosedJaxpr) else program


def _count(jaxpr: Jaxpr, mesh: Any, pins: dict[str, bool]) -> RooflineResult:
    """The sum over a program's equations, and the most bytes that are alive at once."""
    last = {v: eqn for eqn in jaxpr.eqns for v in eqn.invars if type(v) is not Literal}
    kept = {v for v in jaxpr.outvars if type(v) is not Literal}
    total = RooflineResult()
    alive = peak = sum(_bytes(v) for v in (*jaxpr.constvars, *jaxpr.invars))
    for eqn in jaxpr.eqns:
        inner = eqn.params.get("jaxpr", eqn.params.get("call_jaxpr"))
        if inner is not None:
            total += _count(_opened(inner), mesh, pins)
        elif eqn.primitive.name in rules:
            context = RooflineRuleContext(
                primitive=eqn.primitive,
                avals_in=[x.aval for x in eqn.invars],
                avals_out=[v.aval for v in eqn.outvars],
                mesh=mesh,
                **pins,
            )
            shapes = [RooflineShape.from_aval(x.aval) for x in eqn.invars]
            total += rules[eqn.primitive.name](context, *shapes, **eqn.params)
        alive += sum(map(_bytes, eqn.outvars))
        read = {v for v in eqn.invars if type(v) is not Literal}
        alive -= sum(_bytes(v) for v in read if last[v] is eqn and v not in kept)
        peak = max(peak, alive)
    return total + RooflineResult(peak_hbm_bytes=peak)


def _bytes(v: Any) -> int:
    return RooflineShape.total_bytes([v.aval])
