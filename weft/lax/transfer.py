"""Placement and ordering under lax's names."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from weft.api.placement import check_fits
from weft.api.shardings import spread_shardings
from weft.base import knobs
from weft.base.errors import located
from weft.base.traceback import api_boundary
from weft.core.sharding import (
    NO_AXES,
    AbstractMesh,
    NamedSharding,
    PartitionSpec,
    as_given,
    axes_of,
    explicit_part,
)
from weft.core.trace import is_tracing, typeof
from weft.prims.transfer import after_all_p, create_token_p, dce_sink_p, sharding_constraint_p
from weft.tree.functions import tree_flatten, tree_unflatten

T = TypeVar("T")


def create_token(_: Any = None) -> Any:
    """Return a new token, which orders effects.

    Returns:
        Token, for ``precv`` or ``after_all``.

    Example:
        >>> from weft import lax
        >>> lax.create_token()
        Token
    """
    return create_token_p.bind()


def after_all(*operands: Any) -> Any:
    """Return a token that comes after all of the given tokens.

    Args:
        *operands: Tokens, as ``create_token`` returns.

    Returns:
        Token.

    Example:
        >>> from weft import lax
        >>> lax.after_all(lax.create_token(), lax.create_token())
        Token
    """
    return after_all_p.bind(*operands)


def dce_sink(val: Any, *, prevent_mlir_dce: bool = False) -> None:
    """Keep a tree of values from being removed as dead code, although nothing reads them.

    Args:
        val: Array or tree of arrays.
        prevent_mlir_dce: Recorded in the program, for exported programs too.

    Example:
        >>> import weft
        >>> weft.jit(lambda x: weft.lax.dce_sink(x + 1))(2.0)
    """
    for leaf in tree_flatten(val)[0]:
        dce_sink_p.bind(leaf, prevent_mlir_dce=prevent_mlir_dce)


def stage(x: T, /) -> T:
    """Return ``x`` unchanged.

    Args:
        x: Array or tree of arrays.

    Returns:
        ``x`` itself.

    Example:
        >>> from weft import lax
        >>> lax.stage(2.0)
        2.0
    """
    return x


@api_boundary
def with_sharding_constraint(x: T, shardings: Any) -> T:
    """Return a tree of arrays whose sharding is prescribed to the compiler.

    Args:
        x: Array or tree of arrays.
        shardings: Sharding or partition spec for all, or a tree of them that is a prefix of ``x``.
            A spec needs a mesh set with ``weft.set_mesh``.

    Returns:
        Tree like ``x``, with the same values. Gradients have the same sharding.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> mesh = weft.make_mesh((1,), 'x', (weft.sharding.AxisType.Auto,))
        >>> with_sharding_constraint(jnp.ones(2), weft.NamedSharding(mesh, weft.P('x')))
        Array([1., 1.], dtype=float32)
    """
    leaves, tree = tree_flatten(x)
    wanted = spread_shardings(shardings, x, "with_sharding_constraint", entered=True)
    outs = []
    if shardings is None or (leaves and any(s is None for s in wanted)):
        raise ValueError(
            "with_sharding_constraint got None as a sharding, which has no effect; remove the "
            "call, or write None for each dimension: P(None)"
        )
    for leaf, sharding in zip(leaves, wanted, strict=True):
        _check_manual(sharding)
        typeof(leaf)  # TypeError where it is no array
        # the sharding of a type that says nothing of devices, as typeof(x).sharding, asks for none
        if sharding is not None and getattr(sharding, "mesh", None) != NO_AXES:
            _check_type(leaf, sharding)
            if isinstance(getattr(sharding, "mesh", None), AbstractMesh):
                if is_tracing() and set(sharding.spec.names()) & set(sharding.mesh.auto_axes):
                    fitting = _fitting(sharding, np.shape(leaf))
                    leaf = sharding_constraint_p.bind(leaf, sharding=fitting)
                outs.append(leaf)
                continue
            if is_tracing():
                sharding = _fitting(sharding, np.shape(leaf))
            else:
                sharding = as_given(sharding)
            check_fits(sharding, np.shape(leaf), "with_sharding_constraint")
            leaf = sharding_constraint_p.bind(leaf, sharding=sharding)
        outs.append(leaf)
    return tree_unflatten(tree, outs)


def _check_manual(sharding: Any) -> None:
    """Raise ValueError for mesh axes that shard_map divides by hand around here."""
    current = knobs.thread.mesh
    if current is None or not isinstance(sharding, NamedSharding):
        return
    for axis in sharding.spec.names():
        if axis in current[1].manual_axes:
            raise ValueError(
                f"with_sharding_constraint got {sharding.spec} inside shard_map, where the axis "
                f"{axis!r} is manual: each device has its own part; name other axes"
            )


def _fitting(sharding: Any, shape: tuple[int, ...]) -> Any:
    """A sharding without the axes that do not divide their dimensions, which the compiler drops."""
    if not isinstance(sharding, NamedSharding) or len(sharding.spec) > len(shape):
        return sharding
    parts: list[Any] = []
    for n, part in zip(shape, sharding.spec, strict=False):
        kept: list[Any] = []
        for axis in axes_of(part):
            if n % sharding.mesh.shape[axis]:
                break
            n //= sharding.mesh.shape[axis]
            kept.append(axis)
        parts.append(tuple(kept))
    found = sharding.with_spec(parts)
    return sharding if found.spec.names() == sharding.spec.names() else found


def _check_type(x: Any, sharding: Any) -> None:
    """Raise AssertionError where a type says otherwise: explicit axes are not for the compiler."""
    if not isinstance(sharding, NamedSharding) or not sharding.mesh.explicit_axes:
        return
    aval = typeof(x)
    wanted = explicit_part(sharding, len(aval.shape))
    if wanted == aval.divided or PartitionSpec.UNCONSTRAINED in sharding.spec:
        return
    message = (
        f"with_sharding_constraint checks what types say of explicit axes, and the type is"
        f" {aval.str_short()}, not divided as {sharding.spec}; move the array with"
        f" weft.reshard(x, {sharding.spec})"
    )
    raise AssertionError(located(message))
