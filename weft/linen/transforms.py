"""Lifted transformations: jit, vmap, scan, remat and the like, of modules and their methods.

Applied to a module's class they return a class; applied to a function whose first argument is a
module, a function. The work on collections and random streams is in ``lift.py``.
"""

import dataclasses
import functools
import inspect
from collections.abc import Mapping
from contextlib import contextmanager

import weft
from weft import tree_util
from weft.linen import errors, lift
from weft.linen.attributes import holds, map_inside
from weft.linen.context import naming
from weft.linen.core import FrozenDict
from weft.linen.meta import add_axis, remove_axis
from weft.linen.module import Module, _wrap_method, make_module, profile_name, unbound_function
from weft.linen.scope import LazyRng, Variable

_HANDLES = (Module, Variable)
_NOTHING = FrozenDict()
_ALL_ALONG_0, _ALL_SPLIT = FrozenDict({True: 0}), FrozenDict({True: True})


class _Place:
    """A module or variable among the arguments of a transformed function: static, no leaves."""

    def __init__(self, position: int, key=None):
        self.position, self.key = position, key


tree_util.register_pytree_node(
    _Place, lambda x: ((), (x.position, x.key)), lambda aux, _: _Place(*aux)
)


class _Handles:
    """Bound modules and variables of a call, and the scopes that stand for them."""

    def __init__(self, module, args, kwargs, keyed: bool):
        self.things, self.scopes, self.positions = [], [], {}
        self.keyed = keyed
        self.args, self.kwargs = tree_util.tree_map(self._replace, (args, kwargs))
        self._gather(module)

    def _replace(self, x):
        if not isinstance(x, _HANDLES) or x.scope is None:
            return x
        self._gather(x)
        self.things.append(x)
        return _Place(len(self.things) - 1, fingerprint(x) if self.keyed else None)

    def _gather(self, x):
        if x._id in self.positions:
            return
        if isinstance(x, Module):
            for name in x._fields:
                value = x.__dict__[name]
                map_inside(lambda _, inner: self._inner(inner), _HANDLES, value)
        self.positions[x._id] = len(self.scopes)
        self.scopes.append(x.scope)

    def _inner(self, x):
        if x.scope is not None:
            self._gather(x)
        return x

    def rebind(self, module, cls, scopes, args, kwargs):
        """The module and arguments with new scopes."""
        done = {}

        def again(x, cls=None):
            if x.scope is None:
                return x
            if x._id in done:
                return done[x._id]
            scope = scopes[self.positions[x._id]]
            if isinstance(x, Variable):
                made = Variable(scope, x.collection, x.name, x.unbox)
            else:
                values = {name: x.__dict__[name] for name in (*type(x)._fields, "name")}
                for name, value in values.items():
                    if holds(value, _HANDLES):
                        values[name] = map_inside(lambda _, y: again(y), _HANDLES, value)
                made = make_module(cls or type(x), values, scope)
            done[x._id] = made
            return made

        is_place = lambda x: isinstance(x, _Place)
        back = lambda x: again(self.things[x.position]) if is_place(x) else x
        args, kwargs = tree_util.tree_map(back, (args, kwargs), is_leaf=is_place)
        return again(module, cls), args, kwargs


def _check_result(out, name) -> None:
    if any(isinstance(leaf, _HANDLES) for leaf in tree_util.tree_leaves(out)):
        raise errors.TransformedMethodReturnValueError(name)


def _core(handles, module, cls, fn, name):
    """A function of scopes from a function of a module."""
    state = module._state.export()

    def run(scopes, *args, **kwargs):
        scopes = scopes if isinstance(scopes, list) else [scopes]
        inner, args, kwargs = handles.rebind(module, cls, scopes, args, kwargs)
        inner.__dict__["_state"] = state.export()
        out = fn(inner, *args, **kwargs)
        module._state.reimport(inner._state)
        _check_result(out, name)
        return out

    run.__name__ = name
    return run


def _plain_call(transform, functions, cls, settings, name):
    """A method that transforms ``functions`` anew at each call."""

    def method(self, *args, **kwargs):
        if self.scope is None:
            raise errors.CallCompactUnboundModuleError(type(self).__name__)
        handles = _Handles(self, args, kwargs, keyed=False)
        cores = [_core(handles, self, cls, fn, name) for fn in functions]
        run = transform(*cores, **settings)
        return run(handles.scopes, *handles.args, **handles.kwargs)

    return method


def _cached_call(transform, function, cls, settings, name):
    """A method that is transformed once, and finds the call it is in by a stack."""
    calls: list = []

    def core(scopes, _key, *args, **kwargs):
        return calls[-1](scopes, *args, **kwargs)

    core.__name__ = name
    run = transform(core, **settings)

    def method(self, *args, **kwargs):
        if self.scope is None:
            raise errors.CallCompactUnboundModuleError(type(self).__name__)
        with _forked_rngs(self):
            handles = _Handles(self, args, kwargs, keyed=True)
            calls.append(_core(handles, self, cls, function, name))
            try:
                return run(handles.scopes, fingerprint(self), *handles.args, **handles.kwargs)
            finally:
                calls.pop()

    return method


@contextmanager
def _forked_rngs(module):
    """Streams that start anew from a key of their own, so that compiled code depends on no path."""
    before = module.scope.rngs
    module.scope.rngs = {name: LazyRng(module.make_rng(name)) for name in before}
    try:
        yield
    finally:
        module.scope.rngs = before


def fingerprint(x):
    """A hashable value that is equal for modules that compute the same from the same variables."""
    return _fingerprint(x, {}, ())


def _fingerprint(x, seen: dict, path: tuple):
    inside = lambda value, name: _fingerprint(value, seen, (*path, str(name)))
    if isinstance(x, Module):
        if x._id in seen:
            return type(x), seen[x._id]
        seen[x._id] = len(seen)
        fields = tuple((name, inside(x.__dict__[name], name)) for name in x._fields)
        state, scope = x._state, x.scope
        what = (state.in_compact, state.in_setup, state.setup, tuple(state.cursor.items()))
        if scope is None:
            return type(x), fields, what, None
        counts = tuple(sorted(scope.counters.flat().items()))
        names = tuple(sorted((name, tuple(map(str, c))) for name, c in scope.reserved.items()))
        mutable = lift.hashable_filter(scope.mutable)
        return type(x), fields, what, (mutable, scope.flags, counts, names)
    if isinstance(x, Variable):
        return x.collection, x.name, x.unbox, x.scope.path
    if isinstance(x, Mapping):
        return tuple((key, inside(value, key)) for key, value in x.items())
    if isinstance(x, (list, tuple)):
        return type(x), tuple(inside(value, i) for i, value in enumerate(x))
    if dataclasses.is_dataclass(x) and not isinstance(x, type):
        fields = dataclasses.fields(x)
        return type(x), tuple((f.name, inside(getattr(x, f.name), f.name)) for f in fields)
    try:
        hash(x)
    except TypeError as error:
        where = "/".join(path)
        raise ValueError(
            f"the field {where!r} has no hash, so nn.jit cannot cache: {error}"
        ) from error
    return x


def _is_module_class(target) -> bool:
    if isinstance(target, functools.partial):
        return _is_module_class(target.func)
    return inspect.isclass(target) and issubclass(target, Module)


def _methods_and_settings(methods, settings):
    if methods is None:
        return {"__call__": settings}
    if isinstance(methods, (list, tuple)):
        return dict.fromkeys(methods, settings)
    if isinstance(methods, dict):
        return methods
    raise ValueError(f"methods must be None, a list of names, or a dictionary, not {methods!r}")


def _lift_class(make, transform, target, methods, settings):
    given = target if isinstance(target, functools.partial) else None
    cls = target.func if given is not None else target
    made = {}
    for name, options in _methods_and_settings(methods, settings).items():
        fn = getattr(cls, name)
        made[name] = functools.wraps(fn)(make(transform, fn, cls, options, name))
    title = transform.__name__.capitalize() + cls.__name__
    made["__doc__"], made["__module__"] = cls.__doc__, cls.__module__
    new = type(title, (cls,), made)
    return new if given is None else functools.partial(new, *given.args, **given.keywords)


def _lift(transform, target, methods=None, cached=False, **settings):
    """The class or function with a transformation around its methods.

    ``settings`` are the transformation's own, all that its caller was given.
    """
    if cached:
        make = _cached_call
    else:
        make = lambda transform, fn, *rest: _plain_call(transform, (fn,), *rest)
    if _is_module_class(target):
        return _lift_class(make, transform, target, methods, settings)
    if not callable(target) or isinstance(target, Module):
        raise errors.TransformTargetError(target)
    fn = _wrap_method(target)
    name = getattr(target, "__name__", "function")
    return functools.wraps(fn)(make(transform, fn, None, settings, name))


def _lift_direct(transform, targets, module, *args, single=False, **settings):
    """Transform functions of a module, and call them at once."""
    for target in targets:
        if _is_module_class(target) or not callable(target):
            raise ValueError(
                f"{transform.__name__} takes functions or methods of a module, such as "
                f"lambda mdl, x: mdl(x), not {target!r}"
            )
    functions = [_wrap_method(unbound_function(target)) for target in targets]
    name = getattr(functions[0], "__name__", "function")

    def together(*cores):
        def run(scopes, *args):
            if single and len(scopes) != 1:
                raise NotImplementedError(
                    f"{transform.__name__} takes one module: not one with modules in its fields or "
                    "among its arguments"
                )
            return transform(*cores, scopes, *args, **settings)

        return run

    return _plain_call(together, functions, None, {}, name)(module, *args)


def jit(
    target,
    variables=True,
    rngs=True,
    static_argnums=(),
    static_argnames=(),
    donate_argnums=(),
    device=None,
    backend=None,
    methods=None,
):
    """Compile a module's methods, also when the module is called outside of ``weft.jit``.

    >>> import weft, weft.numpy as jnp
    >>> from weft import linen as nn
    >>> layer = nn.jit(nn.Dense)(2)
    >>> layer.init(weft.random.key(0), jnp.ones(3))["params"]["kernel"].shape
    (3, 2)
    """
    return _lift(lift.jit, cached=True, **locals())


def vmap(
    target,
    variable_axes=_NOTHING,
    split_rngs=_NOTHING,
    in_axes=0,
    out_axes=0,
    axis_size=None,
    axis_name=None,
    spmd_axis_name=None,
    metadata_params=_NOTHING,
    methods=None,
):
    """Batch a module over an axis of its inputs and, as ``variable_axes`` says, its variables.

    >>> import weft, weft.numpy as jnp
    >>> from weft import linen as nn
    >>> Many = nn.vmap(nn.Dense, variable_axes={"params": 0}, split_rngs={"params": True})
    >>> Many(2).init(weft.random.key(0), jnp.ones((5, 3)))["params"]["kernel"].shape
    (5, 3, 2)
    """
    return _lift(lift.vmap, **locals())


def scan(
    target,
    variable_axes=_NOTHING,
    variable_broadcast=False,
    variable_carry=False,
    split_rngs=_NOTHING,
    in_axes=0,
    out_axes=0,
    length=None,
    reverse=False,
    unroll=1,
    data_transform=None,
    metadata_params=_NOTHING,
    methods=None,
    _split_transpose=False,
    check_constancy_invariants=True,
):
    """Scan a module ``(carry, x) -> (carry, y)``: over time with the same variables, or in depth.

    >>> import weft, weft.numpy as jnp
    >>> from weft import linen as nn
    >>> class Step(nn.Module):
    ...     @nn.compact
    ...     def __call__(self, carry, _):
    ...         return nn.Dense(3)(carry), None
    >>> Deep = nn.scan(Step, variable_axes={"params": 0}, split_rngs={"params": True}, length=4)
    >>> variables = Deep().init(weft.random.key(0), jnp.ones(3), None)
    >>> variables["params"]["Dense_0"]["kernel"].shape
    (4, 3, 3)
    """
    return _lift(lift.scan, **locals())


def checkpoint(
    target,
    variables=True,
    rngs=True,
    concrete=False,
    prevent_cse=True,
    static_argnums=(),
    policy=None,
    methods=None,
):
    """Compute a module's intermediate results again in the backward pass, to save memory.

    >>> import weft, weft.numpy as jnp
    >>> from weft import linen as nn
    >>> layer = nn.remat(nn.Dense)(2)
    >>> layer.init(weft.random.key(0), jnp.ones(3))["params"]["kernel"].shape
    (3, 2)
    """
    static_argnums = tree_util.tree_map(lambda i: i - 1, static_argnums)
    return _lift(lift.checkpoint, **locals())


remat = checkpoint


def remat_scan(
    target,
    lengths=(),
    policy=None,
    variable_broadcast=False,
    variable_carry=False,
    variable_axes=_ALL_ALONG_0,
    split_rngs=_ALL_SPLIT,
):
    """A deep network of equal layers as nested scans with checkpoints between them.

    >>> import weft, weft.numpy as jnp
    >>> from weft import linen as nn
    >>> Deep = nn.remat_scan(nn.Dense, lengths=(2, 3))
    >>> Deep(4).init(weft.random.key(0), jnp.ones(4))["params"]["kernel"].shape
    (2, 3, 4, 4)
    """
    return _lift(lift.remat_scan, **locals())


def map_variables(
    target,
    mapped_collections=True,
    trans_in_fn=lambda x: x,
    trans_out_fn=lambda x: x,
    init=False,
    mutable=False,
    rngs=True,
    variables=True,
    methods=None,
):
    """Let a module see its variables through a function, and write them through another.

    >>> import weft, weft.numpy as jnp
    >>> from weft import linen as nn
    >>> double = lambda vs: weft.tree.map(lambda x: 2 * x, vs)
    >>> Doubled = nn.map_variables(nn.Dense, "params", double, init=True)
    >>> layer = Doubled(1, kernel_init=nn.initializers.ones)
    >>> layer.init_with_output(weft.random.key(0), jnp.ones(3))[0]
    Array([6.], dtype=float32)
    """
    return _lift(lift.map_variables, **locals())


def fold_rngs(target, variables=True, rngs=True):
    """Start a module's random streams anew from keys of their own, as ``nn.jit`` does."""
    return _lift(lift.fold_rngs, cached=True, **locals())


def vjp(
    fn,
    mdl,
    *primals,
    has_aux=False,
    reduce_axes=(),
    vjp_variables="params",
    variables=True,
    rngs=True,
    multi_scope=False,
):
    """The value of ``fn(mdl, *primals)``, and a function from cotangents to gradients.

    The gradients are those of the variables, and of each argument.
    """
    _no_reduce_axes(reduce_axes)
    return _lift_direct(
        lift.vjp,
        (fn,),
        mdl,
        *primals,
        single=not multi_scope,
        has_aux=has_aux,
        vjp_variables=vjp_variables,
        variables=variables,
        rngs=rngs,
    )


def _no_reduce_axes(reduce_axes):
    if reduce_axes:
        raise NotImplementedError(
            "reduce_axes is gone: use lax.psum where sums over devices are meant"
        )


def value_and_grad(fn, mdl, *primals, has_aux=False, reduce_axes=(), variables=True, rngs=True):
    """The value of ``fn(mdl, *primals)``, a scalar, and its gradients for the arguments."""
    _no_reduce_axes(reduce_axes)
    settings = {"has_aux": has_aux, "variables": variables, "rngs": rngs}
    out = _lift_direct(lift.value_and_grad, (fn,), mdl, *primals, **settings)
    return ((out[0], out[1]), out[2]) if has_aux else out


def grad(fn, mdl, *primals, has_aux=False, reduce_axes=(), variables=True, rngs=True):
    """The gradients of ``fn(mdl, *primals)``, a scalar, for the arguments."""
    settings = {"reduce_axes": reduce_axes, "variables": variables, "rngs": rngs}
    value, grads = value_and_grad(fn, mdl, *primals, has_aux=has_aux, **settings)
    return (grads, value[1]) if has_aux else grads


def jvp(fn, mdl, primals, tangents, variable_tangents, variables=True, rngs=True):
    """The value of ``fn(mdl, *primals)`` and its derivative in a direction.

    ``variable_tangents`` has the directions of variables by collection.
    """

    def run(core, scopes, *primals, **settings):
        return lift.jvp(core, scopes, primals, tangents, variable_tangents, **settings)

    run.__name__ = "jvp"
    settings = {"variables": variables, "rngs": rngs}
    return _lift_direct(run, (fn,), mdl, *primals, single=True, **settings)


def while_loop(
    cond_fn,
    body_fn,
    mdl,
    init,
    carry_variables=False,
    broadcast_variables=True,
    split_rngs=_NOTHING,
):
    """A while loop whose condition and body are functions of a module and the carry."""
    return _lift_direct(
        lift.while_loop,
        (cond_fn, body_fn),
        mdl,
        init,
        carry_variables=carry_variables,
        broadcast_variables=broadcast_variables,
        split_rngs=split_rngs,
    )


def cond(pred, true_fun, false_fun, mdl, *operands, variables=True, rngs=True):
    """One of two functions of a module, chosen when it runs; both make the same variables."""

    def run(yes, no, scopes, pred, *operands, **settings):
        return lift.cond(pred, yes, no, scopes, *operands, **settings)

    run.__name__ = "cond"
    settings = {"variables": variables, "rngs": rngs}
    return _lift_direct(run, (true_fun, false_fun), mdl, pred, *operands, **settings)


def switch(index, branches, mdl, *operands, variables=True, rngs=True):
    """One of several functions of a module, chosen when it runs; all make the same variables."""

    def run(*args, **settings):
        count = len(branches)
        scopes, index, *operands = args[count:]
        return lift.switch(index, args[:count], scopes, *operands, **settings)

    run.__name__ = "switch"
    settings = {"variables": variables, "rngs": rngs}
    return _lift_direct(run, tuple(branches), mdl, index, *operands, **settings)


def custom_vjp(fn, forward_fn, backward_fn, grad_vars="params", nondiff_argnums=()):
    """A function of a module with a derivative of its own.

    ``forward_fn(mdl, *args)`` returns the output and what to keep; ``backward_fn(kept, cotangent)``
    returns the gradients of the variables, as a dictionary by collection, and of each argument.
    """

    def either(*args, needs_residual, **kwargs):
        return (forward_fn if needs_residual else fn)(*args, **kwargs)

    shared = _wrap_method(functools.wraps(fn)(either))

    def transform(core):
        plain = functools.partial(core, needs_residual=False)
        forward = functools.partial(core, needs_residual=True)
        lifted = lift.custom_vjp(plain, forward, backward_fn, grad_vars, nondiff_argnums)

        def run(scopes, *args, **kwargs):
            if len(scopes) != 1:
                raise NotImplementedError(
                    "custom_vjp takes one module, without modules in its fields"
                )
            return lifted(scopes, *args, **kwargs)

        return run

    name = getattr(fn, "__name__", "custom_vjp")
    return functools.wraps(fn)(_plain_call(transform, (shared,), None, {}, name))


def named_call(class_fn, force: bool = True):
    """Name what a method computes after its module, in profiles and ``weft.explain``."""

    @functools.wraps(class_fn)
    def method(self, *args, **kwargs):
        if (not force and not naming.enabled) or self._state.in_setup:
            return class_fn(self, *args, **kwargs)
        with weft.named_scope(profile_name(self, class_fn.__name__)):
            return class_fn(self, *args, **kwargs)

    return method


def add_metadata_axis(target, variable_axes=_NOTHING, metadata_params=_NOTHING):
    """Add the name of an axis to boxed variables, as ``vmap`` and ``scan`` do for their axis."""

    def out(axis):
        return lambda tree: add_axis(tree, axis, metadata_params)

    def into(axis):
        return lambda tree: remove_axis(tree, axis, metadata_params)

    for collection, axis in variable_axes.items():
        functions = {"trans_in_fn": into(axis), "trans_out_fn": out(axis)}
        target = map_variables(target, collection, **functions, mutable=True)
    return target
