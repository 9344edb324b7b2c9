"""Transformations of functions of scopes, with the right handling of collections and streams.

``pack`` takes scopes apart into plain dictionaries and keys that may go through a
transformation, and puts what it did to them back. ``transforms.py`` does the same for modules.
"""

import functools
import threading
from dataclasses import dataclass

import numpy as np

import weft
from weft import lax, random, tree_util
from weft import numpy as jnp
from weft.linen.core import unfreeze
from weft.linen.filters import (
    group_collections,
    hashable_filter,
    in_filter,
    intersect_filters,
    is_filter_empty,
    subtract_filters,
    union_filters,
)
from weft.linen.known import Unknown, compute_known
from weft.linen.meta import add_axis, remove_axis
from weft.linen.scope import LazyRng, Scope


class _Broadcast:
    """The axis of values that are the same in every iteration of a scan."""

    def __repr__(self):
        return "broadcast"


broadcast = _Broadcast()


@dataclass(frozen=True)
class In:
    """An axis of a collection that only goes into a lifted transformation.

    Args:
        axis: the axis, as ``variable_axes`` of ``vmap`` and ``scan`` takes it.

    Example:
        >>> from weft import linen as nn
        >>> nn.In(0).axis
        0
    """

    axis: object


@dataclass(frozen=True)
class Out:
    """An axis of a collection that only comes out of a lifted transformation.

    Args:
        axis: the axis, as ``variable_axes`` of ``vmap`` and ``scan`` takes it.

    Example:
        >>> from weft import linen as nn
        >>> nn.Out(0).axis
        0
    """

    axis: object


def _outermost(scopes):
    """The scopes that are inside of no other one, and where each scope is below them."""
    nodes = {scope.node(): scope for scope in scopes}
    roots, places = dict(nodes), []
    for leaf in scopes:
        found, below, path, above = leaf.node(), (), [leaf.name], leaf.parent
        while above is not None:
            if above.node() in nodes:
                found, below = above.node(), tuple(reversed(path))
            path.append(above.name)
            above = above.parent
        if below:
            roots.pop(leaf.node(), None)
        places.append((found, below))
    return roots, places


class Packed:
    """Scopes taken apart: groups of collections and of streams, by filter and then by scope."""

    def __init__(self, scopes, in_filters, out_filters, rng_filters, note: str):
        self.roots, self.places = _outermost(scopes)
        self.out_filters, self.note = tuple(out_filters), note
        outer = list(self.roots.values())
        for scope in outer:
            scope.check_valid()
        collections = [group_collections(scope.populate(), in_filters) for scope in outer]
        streams = [group_collections(scope.rngs, rng_filters) for scope in outer]
        self.variables = tuple(zip(*collections))
        self.rngs = tuple(zip(*streams))

    def open(self, variables, rngs, mutable_filter=True) -> list[Scope]:
        """New scopes, inside of the transformation."""
        allowed = functools.reduce(union_filters, self.out_filters, False)
        allowed = intersect_filters(allowed, mutable_filter)
        inner = {}
        for position, (node, scope) in enumerate(self.roots.items()):
            here = {k: v for group in variables for k, v in group[position].items()}
            keys = {k: v for group in rngs for k, v in group[position].items()}
            mutable = intersect_filters(scope.mutable, allowed)
            copied = {k: unfreeze(v) for k, v in here.items()}
            made = Scope(copied, keys, scope.name, mutable, None, scope.path, scope.flags)
            made.counters, made.note = scope.counters, self.note
            inner[node] = made
        opened = []
        for node, below in self.places:
            scope = inner[node]
            for name in below:
                scope.try_reserve(name)
                scope = scope.push(name)
            opened.append(scope)
        return opened

    def close(self, scopes) -> tuple:
        """The collections that the transformation returns, by filter and then by scope."""
        inner = {node: scope.root for (node, _), scope in zip(self.places, scopes)}
        closed = []
        for node in self.roots:
            scope = inner[node]
            scope.invalid = True
            changed = {k: v for k, v in scope.variables_here.items() if in_filter(scope.mutable, k)}
            closed.append(group_collections(changed, self.out_filters))
        return tuple(zip(*closed))

    def run(self, fn, variables, rngs, *args, **kwargs) -> tuple:
        """What a function of scopes returns, and the collections that it leaves."""
        scopes = self.open(variables, rngs)
        out = fn(scopes, *args, **kwargs)
        return out, self.close(scopes)

    def publish(self, groups) -> None:
        """Write what came out of the transformation."""
        for group in groups:
            for scope, collections in zip(self.roots.values(), group):
                for col, values in collections.items():
                    if not scope.is_mutable_collection(col):
                        continue
                    if not values:
                        scope.writable(col)
                    for name, value in values.items():
                        scope.put_variable(col, name, value)


def pack(inner, in_filters, out_filters, rng_filters, note: str):
    """A function of scopes from one of packed scopes that returns a result and collections."""

    def call(scopes, *args, **kwargs):
        packed = Packed(scopes, in_filters, out_filters, rng_filters, note)
        out, groups = inner(packed, *args, **kwargs)
        packed.publish(groups)
        return out

    return call


def _split_axes(axes):
    """Filters and axes of what goes in, and of what comes out."""
    axis = lambda v: v.axis if isinstance(v, (In, Out)) else v
    ins = {k: axis(v) for k, v in axes.items() if not isinstance(v, Out)}
    outs = {k: axis(v) for k, v in axes.items() if not isinstance(v, In)}
    return tuple(ins), tuple(ins.values()), tuple(outs), tuple(outs.values())


def _size(axes, trees, size, what: str):
    """The common size of the mapped axes."""

    def one(axis, tree):
        leaves = tree_util.tree_leaves(tree)
        if axis is None or axis is broadcast or not leaves:
            return ()
        return np.shape(leaves[0])[axis]

    found = tree_util.tree_map(one, axes, trees, is_leaf=lambda x: x is None)
    sizes = set(tree_util.tree_leaves(found))
    if len(sizes) > 1:
        raise ValueError(f"{what} over axes of different sizes: {sorted(sizes)}")
    if size is None and not sizes:
        raise ValueError(f"{what} needs its size: no mapped argument has an axis to take it from")
    return size if size is not None else sizes.pop()


def _split_rngs(rngs, splits, size: int):
    """Keys of their own for every element, where asked for."""
    split = lambda key: random.split(key, size)
    return tuple(
        tree_util.tree_map(split, group) if wanted else group for group, wanted in zip(rngs, splits)
    )


def vmap(
    fn,
    variable_axes,
    split_rngs,
    in_axes=0,
    out_axes=0,
    axis_size=None,
    axis_name=None,
    spmd_axis_name=None,
    metadata_params=None,
):
    """Batch a function of scopes."""
    in_groups, in_var, out_groups, out_var = _split_axes(variable_axes)
    metadata = metadata_params or {}
    splits = tuple(split_rngs.values())
    mapped_rngs = tuple(0 if split else None for split in splits)

    def inner(packed, *args):
        variables = tuple(
            group if axis is None else remove_axis(group, axis, metadata)
            for group, axis in zip(packed.variables, in_var)
        )
        if not packed.variables:
            variables = ()
        size = _size((in_var, in_axes), (variables or _empty(in_var), args), axis_size, "vmap")
        rngs = _split_rngs(packed.rngs, splits, size)

        def mapped(variables, rngs, args):
            return packed.run(fn, variables, rngs, *args)

        out, groups = weft.vmap(
            mapped,
            in_axes=(in_var, mapped_rngs, in_axes),
            out_axes=(out_axes, out_var),
            axis_size=size,
            axis_name=axis_name,
            spmd_axis_name=spmd_axis_name,
        )(variables, rngs, args)
        groups = tuple(
            group if axis is None else add_axis(group, axis, metadata)
            for group, axis in zip(groups, out_var)
        )
        return out, groups

    return pack(inner, in_groups, out_groups, tuple(split_rngs), "vmap")


def _empty(axes):
    return tuple(() for _ in axes)


def _to_front(axis, tree):
    if axis is broadcast:
        return ()
    return tree if axis == 0 else tree_util.tree_map(lambda x: jnp.moveaxis(x, axis, 0), tree)


def _from_front(axis, tree):
    if axis is broadcast:
        return ()
    return tree if axis == 0 else tree_util.tree_map(lambda x: jnp.moveaxis(x, 0, axis), tree)


def scan_axes(fn, in_axes, out_axes, length, reverse, unroll, constant):
    """``lax.scan`` over any axes, of ``fn(broadcasts, carry, *args) -> broadcasts, carry, ys``.

    What is broadcast is computed once, before the loop, and must not depend on it; where
    ``constant`` is False nothing is.
    """

    def body(broadcasts, args, carry, xs):
        pick = lambda axis, arg, x: arg if axis is broadcast else x
        return fn(broadcasts, carry, *tree_util.tree_map(pick, in_axes, args, xs))

    def call(broadcasts, init, *args):
        xs = tree_util.tree_map(_to_front, in_axes, args)
        once = None
        if constant:

            def outside(_, unknown):
                kept, _, ys = body(broadcasts, args, unknown[0], unknown[1])
                only = lambda axis, y: y if axis is broadcast else ()
                return kept, tree_util.tree_map(only, out_axes, ys)

            first = tree_util.tree_map(lambda x: _element(x, 1), xs)
            carried = tree_util.tree_map(lambda x: _element(x, 0), init)
            try:
                broadcasts, once = compute_known(outside, None, (carried, first))
            except Unknown:
                raise ValueError(
                    "a broadcast variable of nn.scan depends on the carry or the scanned inputs: "
                    "put its collection into variable_axes or variable_carry"
                ) from None

        def step(carry, xs):
            _, carry, ys = body(broadcasts, args, carry, xs)
            only = lambda axis, y: () if axis is broadcast else y
            return carry, tree_util.tree_map(only, out_axes, ys)

        carry, ys = lax.scan(step, init, xs, length=length, reverse=reverse, unroll=unroll)
        ys = tree_util.tree_map(_from_front, out_axes, ys)
        if once is not None:
            pick = lambda axis, fixed, y: fixed if axis is broadcast else y
            ys = tree_util.tree_map(pick, out_axes, once, ys)
        return broadcasts, carry, ys

    return call


def _element(x, axes_less: int):
    aval = weft.typeof(jnp.asarray(x)) if not isinstance(x, weft.Array) else weft.typeof(x)
    shape = aval.shape[axes_less:]
    return weft.ShapeDtypeStruct(shape, aval.dtype, weak_type=getattr(aval, "weak_type", False))


def scan(
    fn,
    variable_axes=None,
    variable_broadcast=False,
    variable_carry=False,
    split_rngs=None,
    in_axes=0,
    out_axes=0,
    length=None,
    reverse=False,
    unroll=1,
    _split_transpose=False,
    data_transform=None,
    metadata_params=None,
    check_constancy_invariants=True,
):
    """Scan a function of scopes, ``fn(scopes, carry, *args) -> carry, ys``."""
    in_groups, in_var, out_groups, out_var = _split_axes(variable_axes or {})
    split_rngs, metadata = split_rngs or {}, metadata_params or {}
    splits = tuple(split_rngs.values())
    rng_axes = tuple(0 if split else broadcast for split in splits)

    def inner(packed, init, *args):
        size = _size(in_axes, args, length, "scan")
        rngs = _split_rngs(packed.rngs, splits, size)
        fixed, carried, *scanned = packed.variables
        scanned = tuple(remove_axis(g, axis, metadata) for g, axis in zip(scanned, in_var))

        def body(fixed, carry, scanned, rngs, args):
            variables = (fixed, carry[0], *scanned)
            if data_transform is not None:
                variables, rngs = data_transform(variables, rngs)
            scopes = packed.open(variables, rngs)
            carry, ys = fn(scopes, carry[1], *args)
            fixed_out, carried, *scanned = packed.close(scopes)
            kept = tuple({**old, **new} for old, new in zip(fixed, fixed_out))
            return kept, (carried, carry), (ys, tuple(scanned))

        # Streams count the keys taken in each staging of the body, as in flax: it is staged
        # twice wherever keys could be taken, and otherwise only where something is broadcast.
        outs = tree_util.tree_leaves(out_axes)
        writes = any(in_filter(variable_broadcast, col) for col in _mutable_names(packed))
        constant = check_constancy_invariants and (
            any(map(bool, packed.rngs)) or writes or any(o is broadcast for o in outs)
        )
        run = scan_axes(
            body,
            (in_var, rng_axes, in_axes),
            (out_axes, out_var),
            size,
            reverse,
            unroll,
            constant,
        )
        fixed, (carried, carry), (ys, scanned) = run(fixed, (carried, init), scanned, rngs, args)
        scanned = tuple(add_axis(g, axis, metadata) for g, axis in zip(scanned, out_var))
        return (carry, ys), (fixed, carried, *scanned)

    fixed = (variable_broadcast, variable_carry)
    return pack(inner, fixed + in_groups, fixed + out_groups, tuple(split_rngs), "scan")


def _mutable_names(packed) -> set[str]:
    """Collections that could be written: those that exist, and those that ``mutable`` names."""
    names = set()
    for scope in packed.roots.values():
        if not is_filter_empty(scope.mutable):
            names |= {"params", *scope.root.variables_here}
    return names


def while_loop(
    cond_fn,
    body_fn,
    scopes,
    init,
    carry_variables=False,
    broadcast_variables=True,
    split_rngs=None,
):
    """A while loop over functions of scopes."""
    split_rngs = split_rngs or {}
    splits = tuple(split_rngs.values())

    def inner(packed):
        carried, fixed = packed.variables

        def keys(i):
            fold = lambda key: random.fold_in(key, i)
            return tuple(
                tree_util.tree_map(fold, group) if split else group
                for group, split in zip(packed.rngs, splits)
            )

        def condition(state):
            i, carried, carry = state
            scopes = packed.open((carried, fixed), keys(-i), mutable_filter=False)
            return cond_fn(scopes, carry)

        def body(state):
            i, carried, carry = state
            scopes = packed.open((carried, fixed), keys(i))
            carry = body_fn(scopes, carry)
            (carried,) = packed.close(scopes)
            return i + 1, carried, carry

        _, carried, carry = lax.while_loop(condition, body, (0, carried, init))
        return carry, (carried,)

    filters = (carry_variables, broadcast_variables)
    return pack(inner, filters, (carry_variables,), tuple(split_rngs), "while_loop")(scopes)


def _branches(packed, functions):
    def pure(function):
        def run(*operands):
            return packed.run(function, packed.variables, packed.rngs, *operands)

        return run

    return [pure(function) for function in functions]


def cond(pred, true_fun, false_fun, scopes, *operands, variables=True, rngs=True):
    """One of two functions of scopes."""

    def inner(packed):
        return lax.cond(pred, *_branches(packed, (true_fun, false_fun)), *operands)

    return pack(inner, (variables,), (variables,), (rngs,), "cond")(scopes)


def switch(index, branches, scopes, *operands, variables=True, rngs=True):
    """One of several functions of scopes."""

    def inner(packed):
        return lax.switch(index, _branches(packed, branches), *operands)

    return pack(inner, (variables,), (variables,), (rngs,), "switch")(scopes)


def vjp(fn, scopes, *primals, has_aux=False, vjp_variables="params", variables=True, rngs=True):
    """Linearise a function of scopes with respect to variables and arguments."""

    def inner(packed, *args):
        chosen, others = packed.variables

        def pure(chosen, *args):
            out, groups = packed.run(fn, (chosen, others), packed.rngs, *args)
            out, aux = out if has_aux else (out, ())
            return out, (aux, groups)

        out, back, (aux, groups) = weft.vjp(pure, chosen, *args, has_aux=True)
        backward = tree_util.Partial(_gradients_of_one_scope, back)
        return ((out, backward, aux) if has_aux else (out, backward)), groups

    return pack(inner, (vjp_variables, variables), (variables,), (rngs,), "vjp")(scopes, *primals)


def _gradients_of_one_scope(back, cotangent):
    variables, *inputs = back(cotangent)
    return (variables[0] if len(variables) == 1 else variables), *inputs


def value_and_grad(fn, scopes, *primals, has_aux=False, variables=True, rngs=True):
    """The value of a function of scopes, and its gradients with respect to the arguments."""

    def inner(packed, *args):
        def pure(*args):
            out, groups = packed.run(fn, packed.variables, packed.rngs, *args)
            out, aux = out if has_aux else (out, ())
            return out, (aux, groups)

        out, back, (aux, groups) = weft.vjp(pure, *args, has_aux=True)
        if jnp.shape(out) != ():
            raise ValueError(f"grad needs a scalar result, not one of shape {jnp.shape(out)}")
        grads = back(jnp.ones_like(out))
        return ((out, aux, grads) if has_aux else (out, grads)), groups

    return pack(inner, (variables,), (variables,), (rngs,), "value_and_grad")(scopes, *primals)


def jvp(fn, scopes, primals, tangents, variable_tangents, variables=True, rngs=True):
    """The directional derivative of a function of scopes."""
    variable_tangents = {k: v for k, v in variable_tangents.items() if v}

    def inner(packed, *args):
        moving, others = packed.variables

        def pure(moving, args):
            return packed.run(fn, (moving, others), packed.rngs, *args)

        tangent = (unfreeze(variable_tangents),)
        moving = tuple(unfreeze(group) for group in moving)
        (out, groups), moved = weft.jvp(pure, (moving, args), (tangent, tuple(tangents)))
        return (out, moved[0]), groups

    filters = (tuple(variable_tangents), variables)
    return pack(inner, filters, (variables,), (rngs,), "jvp")(scopes, *primals)


def custom_vjp(fn, forward_fn, backward_fn, grad_vars="params", nondiff_argnums=()):
    """A function of scopes with a derivative of its own."""
    moved = tuple(i for i in nondiff_argnums)

    def inner(packed, *args):
        chosen, others = packed.variables

        def plain(chosen, *args):
            return packed.run(fn, (chosen, others), packed.rngs, *args)

        def forward(chosen, *args):
            (out, saved), groups = packed.run(forward_fn, (chosen, others), packed.rngs, *args)
            return (out, groups), saved

        def backward(*args):
            *fixed, saved, (cotangent, _) = args
            variables, *inputs = backward_fn(*fixed, saved, cotangent)
            return (variables,) if isinstance(variables, dict) else tuple(variables), *inputs

        call = weft.custom_vjp(plain, nondiff_argnums=moved)
        call.defvjp(forward, backward)
        return call(chosen, *args)

    return pack(inner, (grad_vars, True), (grad_vars, True), (True,), "custom_vjp")


def checkpoint(
    fn,
    variables=True,
    rngs=True,
    concrete=False,
    prevent_cse=True,
    static_argnums=(),
    policy=None,
):
    """A function of scopes whose intermediate results are computed again in the backward pass."""
    if concrete:
        raise NotImplementedError("concrete=True was removed; use static_argnums")
    static = static_argnums if isinstance(static_argnums, (tuple, list)) else (static_argnums,)
    static = tuple(i + 2 for i in static)

    def inner(packed, *args, **kwargs):
        def run(variables, rngs, *args, **kwargs):
            return packed.run(fn, variables, rngs, *args, **kwargs)

        again = weft.checkpoint(run, static_argnums=static, prevent_cse=prevent_cse, policy=policy)
        return again(packed.variables, packed.rngs, *args, **kwargs)

    return pack(inner, (variables,), (variables,), (rngs,), "remat")


def remat_scan(
    body_fn,
    lengths,
    policy=None,
    variable_broadcast=False,
    variable_carry=False,
    variable_axes=None,
    split_rngs=None,
):
    """Nested scans with checkpoints between them: they keep as much as the sum of the lengths."""
    options = {
        "variable_broadcast": variable_broadcast,
        "variable_carry": variable_carry,
        "variable_axes": {True: 0} if variable_axes is None else variable_axes,
        "split_rngs": {True: True} if split_rngs is None else split_rngs,
    }
    if len(lengths) == 1:
        step = lambda scopes, carry: (body_fn(scopes, carry), ())
    else:
        deeper = remat_scan(body_fn, lengths[1:], policy, **options)
        inner = lambda scopes, carry: (deeper(scopes, carry), ())
        step = checkpoint(inner, policy=policy, prevent_cse=False)
    return lambda scopes, carry: scan(step, length=lengths[0], **options)(scopes, carry)[0]


def map_variables(
    fn,
    mapped_collections,
    trans_in_fn=lambda x: x,
    trans_out_fn=lambda x: x,
    init=False,
    mutable=False,
    rngs=True,
    variables=True,
):
    """A function of scopes that sees some collections through a function."""
    writes = mutable or init

    def inner(packed, *args, **kwargs):
        target, others = packed.variables
        if init:
            scopes = packed.open((target, others), packed.rngs)
            if any(not is_filter_empty(scope.mutable) for scope in scopes):
                fn(scopes, *args, **kwargs)
                target, _ = packed.close(scopes)
                target = tuple(trans_out_fn(x) for x in target)
        target = tuple(trans_in_fn(unfreeze(x)) for x in target)
        allowed = True if writes else subtract_filters(True, mapped_collections)
        scopes = packed.open((target, others), packed.rngs, mutable_filter=allowed)
        out = fn(scopes, *args, **kwargs)
        changed, rest = packed.close(scopes)
        if writes:
            changed = tuple(trans_out_fn(x) for x in changed)
        return out, (changed, rest)

    filters = (mapped_collections, variables)
    kept = filters if writes else (False, subtract_filters(variables, mapped_collections))
    return pack(inner, filters, kept, (rngs,), "map_variables")


class _JitContext(threading.local):
    """The packed scopes of the call being compiled: they cannot be arguments of it."""

    def __init__(self):
        self.packed: list[Packed] = []


def _without_suffix(rngs):
    is_lazy = lambda x: isinstance(x, LazyRng)
    return tree_util.tree_map(lambda x: LazyRng(x.rng), rngs, is_leaf=is_lazy)


def _counted(cache, packed, key, call):
    """Call, and count the keys taken inside: if nothing is staged, as many as the time before."""
    counters = [scope.counters for scope in packed.roots.values()]
    before = [one.flat() for one in counters]
    out = call()
    if key not in cache:
        after = [one.flat() for one in counters]
        cache[key] = [
            {name: n - old.get(name, 0) for name, n in new.items()}
            for new, old in zip(after, before)
        ]
    else:
        for one, old, taken in zip(counters, before, cache[key]):
            now = one.flat()
            one.add({k: old.get(k, 0) + n - now.get(k, 0) for k, n in taken.items()})
    return out


def jit(
    fn,
    variables=True,
    rngs=True,
    static_argnums=(),
    static_argnames=(),
    donate_argnums=(),
    device=None,
    backend=None,
):
    """Compile a function of scopes; ``fn`` also receives the hashable key it is cached by."""
    as_tuple = lambda x: (x,) if isinstance(x, int) else tuple(x)
    static = (0, *(i + 2 for i in as_tuple(static_argnums) if i > 0))
    donated = tuple(i + 2 for i in as_tuple(donate_argnums) if i > 0)
    current, cache = _JitContext(), {}

    def run(fingerprint, variables, rngs, *args, **kwargs):
        return current.packed[-1].run(fn, variables, rngs, fingerprint[1], *args, **kwargs)

    run.__name__ = getattr(fn, "__name__", "jit")
    options = {"static_argnames": static_argnames, "donate_argnums": donated}
    compiled = weft.jit(run, static_argnums=static, device=device, backend=backend, **options)

    def inner(packed, key, *args, **kwargs):
        mutable = tuple(hashable_filter(scope.mutable) for scope in packed.roots.values())
        fingerprint = (mutable, key)
        keys = _without_suffix(packed.rngs)
        current.packed.append(packed)
        try:
            call = lambda: compiled(fingerprint, packed.variables, keys, *args, **kwargs)
            return _counted(cache, packed, fingerprint, call)
        finally:
            current.packed.pop()

    return pack(inner, (variables,), (variables,), (rngs,), "jit")


def fold_rngs(fn, variables=True, rngs=True):
    """A function of scopes whose streams start anew from keys of their own, as inside of jit."""

    def inner(packed, key, *args, **kwargs):
        return packed.run(fn, packed.variables, _without_suffix(packed.rngs), key, *args, **kwargs)

    return pack(inner, (variables,), (variables,), (rngs,), "fold_rngs")
